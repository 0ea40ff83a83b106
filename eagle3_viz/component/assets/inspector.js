// The panel beside the tree: one node in a sentence, its test, its siblings, its distributions.

import { STATE_WORDS } from "./card.js";
import { html, svg } from "./dom.js";
import { known, probability, shorten } from "./format.js";
import { barsOf, figuresOf, judgeOf, siblingsOf, testOf } from "./inspector_data.js";
import { drawBar, probabilityBars } from "./probability_bars.js";
import { DECIDED } from "./selection.js";

const NAME_LIMIT = 12; // characters of a token beside its bars
const NAME_WIDTH = 96; // px they may take
const NO_DISTRIBUTIONS = "Distributions were not recorded: they come with record full.";
const NO_DRAW = "This rule draws nothing: the accept probability is 0 or 1.";

const section = (title, ...children) =>
  html("section", {}, html("h4", {}, title), ...children);

const note = (text) => html("p", { class: "inspector-note" }, text);

// Colour and words of the bars that are drawn.
function key(at) {
  const swatch = (kind) =>
    svg("svg", { width: 16, height: 8, "aria-hidden": "true" }, svg("rect", { class: `bar ${kind}`, width: 16, height: 8, rx: 2 }));
  const items = [["p", "p target"]];
  if (at.q) items.push(["q", "q draft"]);
  if (at.residual) items.push(["residual", "residual"]);
  const words = items.map(([kind, name]) => html("span", {}, swatch(kind), name));
  if (at.q) words.push(html("span", {}, html("span", { class: "hatched", "aria-hidden": "true" }), "min(p, q)"));
  if (at.warped) words.push(html("span", {}, "◇ p of the rule"));
  return html("div", { class: "bars-key" }, ...words);
}

export class Inspector {
  constructor(measure) {
    this.measure = measure;
    this.element = html("aside", { class: "inspector", "aria-label": "Inspector", tabindex: 0 });
    this.scrolled = false;
    this.element.addEventListener("scroll", () => {
      this.scrolled = true;
    });
  }

  // `state`: { store, cycle, tree, node, width, height }; height null: as high as it needs. Drawn
  // once the tree is on the screen: both together would take longer than a frame.
  show(state) {
    const { store, cycle, node, width, height } = state;
    const key = [store.run, store.revision, cycle?.i, node, state.tree?.size, width, height].join("|");
    if (key === this.shown) return;
    this.shown = key;
    this.state = state;
    clearTimeout(this.afterwards);
    this.afterwards = setTimeout(() => this.draw());
  }

  draw() {
    const { width, height } = this.state;
    this.width = Math.max(width - 34, 120); // within padding and the scroll bar; a page that goes has none
    this.element.style.height = height === null ? "" : `${height}px`;
    this.element.replaceChildren(...(this.state.tree ? this.ofNode() : this.ofCycle()));
    if (this.scrolled) this.element.scrollTop = 0; // asking where it stands would cost a layout
    this.scrolled = false;
  }

  // Without a tree: what was recorded after the cycle's root, as for autoregression.
  ofCycle() {
    const at = this.state.cycle?.distributions?.[0];
    if (!at) return [note("Nothing is recorded of this cycle but its tokens and times.")];
    const alone = { children: [], token: this.state.cycle.root };
    return [this.distributions(at, new Map([[0, alone]]), null)];
  }

  ofNode() {
    const { cycle, tree, node } = this.state;
    const judge = judgeOf(cycle, tree, node);
    return [
      this.head(tree.get(node)),
      ...this.sentences(tree.get(node)).map((words) => html("p", { class: "sentence" }, words)),
      this.test(tree.get(node)),
      this.siblings(judge.node),
      judge.at ? this.distributions(judge.at, tree, judge.branch) : note(NO_DISTRIBUTIONS),
    ].filter(Boolean);
  }

  head(node) {
    const place = node.id === DECIDED ? `after node ${node.parent}` : `node ${node.id}`;
    return html(
      "div",
      { class: "card-head" },
      html("span", { class: "card-token", dir: "auto" }, this.state.store.hover(node.token)),
      html("span", { class: `chip ${node.state}` }, STATE_WORDS[node.state]),
      html("span", { class: "inspector-place" }, `${place} · depth ${node.depth}`),
    );
  }

  sentences(node) {
    const { cycle } = this.state;
    if (node.id === DECIDED) {
      const decided = cycle.steps.find((step) => step.kind === "decided");
      return [decided.sentence, cycle.miss];
    }
    if (node.state === "pruned") return [`Drafted with q ${probability(node.q)}, then dropped by the budget before verification.`];
    return [cycle.sentences[node.id]];
  }

  test(node) {
    const test = testOf(node);
    if (!test) return null;
    const { store } = this.state;
    const parts = [known(test.draw) ? drawBar(test, this.width) : note(NO_DRAW)];
    if (known(test.before)) {
      parts.push(note(`p when tested ${probability(test.p)}: it was ${probability(test.before)} before earlier siblings were refused.`));
    }
    parts.push(note(store.meta.rule_note));
    return section("Test", ...parts);
  }

  siblings(judge) {
    const { tree, node, store } = this.state;
    const rows = node === 0 ? [] : siblingsOf(tree, judge, node);
    if (rows.length < 2) return null;
    const heads = ["token", store.meta.rule === "greedy" ? "p" : "p of the rule", "p when tested", "accept", "draw", ""];
    const cells = (child) => [
      shorten(store.label(child.token), NAME_LIMIT),
      probability(child.warped ?? child.p),
      probability(child.test?.p),
      probability(child.test?.accept),
      probability(child.test?.draw),
      child.test ? (child.state === "accepted" ? "✓ accepted" : "✕ refused") : "not tested",
    ];
    const row = (child) =>
      html(
        "tr",
        { class: child.id === node ? "mine" : null },
        ...cells(child).map((text, index) => html(index === 0 ? "th" : "td", { dir: index === 0 ? "auto" : null }, text)),
      );
    return section(
      "Siblings in the order tested",
      html(
        "table",
        { class: "siblings" },
        html("thead", {}, html("tr", {}, ...heads.map((name) => html("th", { scope: "col" }, name)))),
        html("tbody", {}, ...rows.map(row)),
      ),
    );
  }

  distributions(at, tree, branch) {
    const { store } = this.state;
    const rows = barsOf(at, tree, branch);
    const labels = new Map(rows.map(({ token }) => [token, shorten(store.label(token), NAME_LIMIT)]));
    const names = Math.max(...[...labels.values()].map((label) => this.measure(label, 11.5, true)));
    const after = store.label(tree.get(at.node).token);
    const mine = branch === null ? null : tree.get(branch).token;
    const bars = probabilityBars(rows, {
      width: this.width,
      names: Math.min(names, NAME_WIDTH),
      hasQ: at.q !== null,
      hasResidual: at.residual !== null,
      naming: ({ token, node }) => ({
        label: labels.get(token),
        state: node === null ? null : tree.get(node).state,
        mine: token === mine,
      }),
      description: describeBars(rows, (token) => store.label(token), after),
    });
    return html(
      "section",
      {},
      html("h4", {}, "Next token after ", html("span", { class: "card-token", dir: "auto" }, after)),
      key(at),
      bars,
      note("Bars: p at temperature 1; – is outside the 20 most likely tokens."),
      html("dl", { class: "inspector-figures" }, ...figuresOf(at, tree, probability).flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)])),
    );
  }
}

// The bars in words, the three most likely tokens first.
export function describeBars(rows, label, after) {
  const words = rows.slice(0, 3).map(({ token, p, q }) => `${label(token)} p ${probability(p)} q ${probability(q)}`);
  return `Probabilities of the next token after ${after}: ${words.join("; ")}`;
}
