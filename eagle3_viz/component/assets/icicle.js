// The tree as an icicle: rows are depths, a node is as wide as its cumulative draft probability.

import { STATE_WORDS } from "./card.js";
import { svg } from "./dom.js";
import { known, probability } from "./format.js";
import { isSmall } from "./layout.js";
import { DECIDED } from "./selection.js";
import { TabFrame, fittedText } from "./tab_frame.js";

const ICICLE_MARKS = { rejected: "✕", recovered: "◆", bonus: "★" };
const ROW_MAX = 46; // px
const ROW_MIN = 19;
const SIDE = 54; // px for the names of the rows
const POINTER = 9; // px below the last row for the mark of a sliver
const PADDING = 6; // px beside a label
const SLIVER = 4; // px; narrower nodes are drawn without an outline

const ICICLE_NOTE =
  "A node is as wide as its cumulative draft probability, the product of q along its path. " +
  "Gaps belong to tokens that are not in the tree.";

// q of each child. The decided token has a share of its own only where no sibling is that token.
function childShares(tree, children) {
  const tokens = new Set(children.filter((id) => id !== DECIDED).map((id) => tree.get(id).token));
  return children.map((id) => {
    const { token, q } = tree.get(id);
    return id === DECIDED && tokens.has(token) ? 0 : (q ?? 0);
  });
}

// Map from id to { from, to, room } as shares of the width, parents first. A span lies within its
// parent's and is q times as wide; siblings stand side by side in proposal order. `room` is where
// a label may end: for the decided token that is the gap up to the end of the parent's span.
export function icicleSpans(tree) {
  const spans = new Map([[0, { from: 0, to: 1, room: 1 }]]);
  for (const [id, { from, to }] of spans) {
    const { children } = tree.get(id);
    const shares = childShares(tree, children);
    // q is sent rounded: a sum just above 1 must not leave the parent's span.
    const scale = (to - from) / Math.max(1, shares.reduce((sum, share) => sum + share, 0));
    let at = from;
    children.forEach((child, index) => {
      const end = Math.min(at + shares[index] * scale, to);
      spans.set(child, { from: at, to: end, room: child === DECIDED ? to : end });
      at = end;
    });
  }
  return spans;
}

// Up: parent. Down: the child on the committed path, else the first. Left and right: same row.
export function icicleNeighbour(tree, spans, id, key) {
  const node = tree.get(id);
  if (key === "ArrowUp") return tree.has(node.parent) ? node.parent : null;
  if (key === "ArrowDown") {
    return node.children.find((child) => tree.get(child).onPath) ?? node.children[0] ?? null;
  }
  if (key !== "ArrowLeft" && key !== "ArrowRight") return null;
  const row = [...spans.keys()].filter((other) => tree.get(other).depth === node.depth);
  row.sort((a, b) => spans.get(a).from - spans.get(b).from || spans.get(a).to - spans.get(b).to);
  return row[row.indexOf(id) + (key === "ArrowLeft" ? -1 : 1)] ?? null;
}

// What a node's width stands for, in words.
export function icicleWords(node, text) {
  const state = STATE_WORDS[node.state];
  if (node.id === 0) return `${text}: the root, decided before this cycle; everything below it is drafted.`;
  const depth = `depth ${node.depth}`;
  if (node.id === DECIDED && !known(node.q)) {
    return `${text}, ${depth}: ${state}; the draft proposed nothing at this place.`;
  }
  if (node.id === DECIDED) {
    return `${text}, ${depth}: ${state}; the draft gave it q ${probability(node.q)} there.`;
  }
  const path = probability(Math.exp(node.score));
  return `${text}, ${depth}: cumulative draft probability ${path}, q ${probability(node.q)} after its parent; ${state}.`;
}

export class IcicleView {
  constructor({ onPick, measure }) {
    this.onPick = onPick;
    this.measure = measure;
    this.focused = null;
    this.frame = new TabFrame("icicle");
    this.frame.note.textContent = ICICLE_NOTE;
    this.element = this.frame.element;
    this.canvas = svg("svg", { class: "icicle", role: "group" });
    this.frame.scroller.append(this.canvas);
    this.listen();
  }

  // `state`: { store, cycle, tree, node, width, height }
  show(state) {
    const { store, cycle, tree, width, height } = state;
    const key = [store.run, store.revision, cycle.i, tree.size, width, height].join("|");
    this.state = state;
    if (key !== this.drawn) {
      this.drawn = key;
      this.draw();
    }
    this.mark();
  }

  draw() {
    const { cycle, tree, width, height } = this.state;
    const held = this.canvas.contains(this.element.getRootNode().activeElement);
    this.spans = icicleSpans(tree);
    const rows = 1 + Math.max(...[...tree.values()].map((node) => node.depth));
    const fitting = Math.floor((this.frame.resize(height) - POINTER - 2) / rows);
    this.row = Math.max(Math.min(fitting, ROW_MAX), ROW_MIN);
    this.scale = Math.max(width - SIDE - 2, 1);
    this.canvas.setAttribute("width", width);
    this.canvas.setAttribute("height", rows * this.row + POINTER);
    this.canvas.setAttribute(
      "aria-label",
      `Icicle of cycle ${cycle.i + 1}: ${tree.size} nodes in ${rows} rows by depth. ${ICICLE_NOTE}`,
    );
    const heads = Array.from({ length: rows }, (_, depth) => this.head(depth));
    const boxes = [...this.spans.keys()].map((id) => this.box(tree.get(id)));
    this.pointer = svg("path", { class: "icicle-pointer" });
    this.canvas.replaceChildren(...heads, ...boxes, this.pointer);
    this.boxes = new Map(boxes.map((box) => [Number(box.dataset.node), box]));
    if (held) this.focus(this.boxes.has(this.focused) ? this.focused : 0);
  }

  head(depth) {
    const y = depth * this.row + this.row / 2 + 4;
    return svg("text", { class: "head", x: 0, y }, depth === 0 ? "context" : `+${depth}`);
  }

  // Pixels of a node: its span, and where its label must end.
  place(id) {
    const { from, to, room } = this.spans.get(id);
    const [left, right, limit] = [from, to, room].map((share) => SIDE + share * this.scale);
    const top = this.state.tree.get(id).depth * this.row;
    return { left, right, limit, top, bottom: top + this.row - 2 };
  }

  box(node) {
    const { left, right, top, bottom } = this.place(node.id);
    const width = right - left;
    const slim = width < SLIVER;
    const text = this.state.store.hover(node.token);
    return svg(
      "g",
      {
        class: `node ${node.state}${isSmall(node.state) ? " small" : ""}${slim ? " sliver" : ""}`,
        "data-node": node.id,
        role: "button",
        tabindex: -1,
        "aria-label": icicleWords(node, text),
      },
      svg("rect", {
        class: "box",
        x: slim ? left : left + 0.75,
        y: top + 0.75,
        width: slim ? Math.max(width, node.onPath ? 2 : 0.4) : width - 1.5,
        height: bottom - top - 1.5,
        rx: slim ? 0 : Math.min(4, width / 3),
      }),
      ...this.label(node),
    );
  }

  // Mark, label and cumulative probability where they fit; in a narrow box the mark alone.
  label(node) {
    const { left, limit, top, bottom } = this.place(node.id);
    const middle = (top + bottom) / 2;
    const bold = !isSmall(node.state);
    const widthOf = (text, size = 12) => this.measure(text, size, bold);
    const line = (kind, x, y, size, text) => svg("text", { class: kind, x, y, "font-size": size }, text);
    const mark = ICICLE_MARKS[node.state] ?? "";
    const room = limit - left - 2 * PADDING;
    const prefix = mark && `${mark} `;
    const label = fittedText(this.state.store.label(node.token), room - widthOf(prefix), widthOf);
    if (label === "") {
      const spare = limit - left - widthOf(mark);
      return mark && spare >= 2 ? [line("label", left + spare / 2, middle + 4.2, 12, mark)] : [];
    }
    const share = probability(Math.exp(node.score));
    const both = bottom - top >= 32 && node.id > 0; // neither for the root nor for the decided token
    const lines = [line("label", left + PADDING, middle + (both ? -2.5 : 4.2), 12, prefix + label)];
    if (both && this.measure(share, 10.5) <= room) {
      lines.push(line("share", left + PADDING, middle + 11.5, 10.5, share));
    }
    return lines;
  }

  mark() {
    const chosen = this.state.node;
    for (const [id, box] of this.boxes) {
      box.classList.toggle("selected", id === chosen);
      box.setAttribute("aria-pressed", id === chosen);
      box.setAttribute("tabindex", -1);
    }
    const entry = [this.focused, chosen, 0].find((id) => this.boxes.has(id));
    this.boxes.get(entry).setAttribute("tabindex", 0);
    this.point(this.boxes.has(chosen) ? this.place(chosen) : null);
    this.tell(null);
  }

  // A sliver cannot show its outline: a mark below it says where the chosen node is.
  point(place) {
    const shown = place !== null && place.right - place.left < 2 * SLIVER;
    this.pointer.toggleAttribute("hidden", !shown);
    if (!shown) return;
    const middle = (place.left + place.right) / 2;
    this.pointer.setAttribute("d", `M${middle} ${place.bottom - 1}l4 6.5h-8z`);
  }

  // Words about the node under the pointer or the focus, else about the chosen one.
  tell(id) {
    const { tree, store, node } = this.state;
    const told = [id, node, 0].find((other) => tree.has(other));
    this.frame.say(icicleWords(tree.get(told), store.hover(tree.get(told).token)));
  }

  listen() {
    const nodeOf = (event) => {
      const element = event.target.closest?.("[data-node]");
      return element ? Number(element.dataset.node) : null;
    };
    this.canvas.addEventListener("click", (event) => {
      if (nodeOf(event) !== null) this.onPick(nodeOf(event));
    });
    this.canvas.addEventListener("pointerover", (event) => this.tell(nodeOf(event)));
    this.canvas.addEventListener("pointerleave", () => this.tell(null));
    this.canvas.addEventListener("focusin", (event) => {
      this.focused = nodeOf(event);
      this.tell(this.focused);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event, nodeOf(event)));
  }

  // An arrow at the end of a row goes nowhere; it must not mean anything to the page instead.
  key(event, id) {
    if (id === null) return;
    if (event.key === "Enter") this.onPick(id);
    else if (event.key.startsWith("Arrow")) {
      this.focus(icicleNeighbour(this.state.tree, this.spans, id, event.key) ?? id);
    } else return;
    event.preventDefault();
  }

  focus(id) {
    this.focused = id;
    this.mark();
    this.boxes.get(id).focus({ preventScroll: true });
    this.frame.reveal(this.place(id));
  }
}
