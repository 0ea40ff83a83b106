// The nodes of a cycle as a table: one row a node, sortable, a row chooses its node.

import { STATE_WORDS } from "./card.js";
import { html } from "./dom.js";
import { known, probability } from "./format.js";
import { DECIDED } from "./selection.js";
import { TabFrame } from "./tab_frame.js";

const ROW_MARKS = { accepted: "✓", rejected: "✕", recovered: "◆", bonus: "★" };
const STATE_ORDER = ["root", "accepted", "rejected", "recovered", "bonus", "unreached", "pruned"];

// `of` is what a column sorts by; null is unknown and stands last in either direction.
export const TABLE_COLUMNS = [
  { key: "node", number: true, of: (n) => (n.id === DECIDED ? null : n.id), hint: "0 is the root" },
  { key: "parent", number: true, of: (n) => (n.parent < 0 ? null : n.parent), hint: "the node it was drafted after" },
  { key: "depth", number: true, of: (n) => n.depth, hint: "tokens after the root" },
  { key: "token", of: (n, text) => text(n.token) },
  { key: "state", of: (n) => STATE_ORDER.indexOf(n.state), hint: "what verification made of it" },
  { key: "q draft", of: (n) => n.q, share: true, hint: "of the token after its parent" },
  { key: "p target", of: (n) => n.p, share: true, hint: "of the token after its parent, at temperature 1" },
  {
    key: "p when tested",
    of: (n) => n.test?.p ?? null,
    share: true,
    hint: "p of the rule, with earlier siblings that were refused taken out",
  },
  { key: "accept probability", of: (n) => n.test?.accept ?? null, share: true, hint: "by the rule" },
  { key: "draw", of: (n) => n.test?.draw ?? null, share: true, hint: "accepted where it is smaller" },
];

const classOf = ({ number, share, key }) => (number || share ? "number" : key === "token" ? "text" : null);

// Nodes by one column; ties and unknown values in the order of the table.
export function sortNodes(nodes, column, descending, text) {
  const sign = descending ? -1 : 1;
  const keyed = [...nodes].map((node) => ({ node, value: column.of(node, text) ?? null }));
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
    return a.value < b.value ? -sign : a.value > b.value ? sign : 0;
  });
  return keyed.map(({ node }) => node);
}

export function cellText(node, column, text) {
  if (column.key === "state") {
    const mark = ROW_MARKS[node.state];
    return mark ? `${mark} ${STATE_WORDS[node.state]}` : STATE_WORDS[node.state];
  }
  const value = column.of(node, text);
  if (column.share) return probability(value);
  return known(value) ? String(value) : "–";
}

export class TableView {
  constructor({ onPick }) {
    this.onPick = onPick;
    this.sorted = { column: TABLE_COLUMNS[0], descending: false };
    this.focused = null;
    this.rows = [];
    this.frame = new TabFrame("table", { words: false });
    this.element = this.frame.element;
    this.heads = TABLE_COLUMNS.map((column) => this.head(column));
    this.body = html("tbody");
    this.table = html(
      "table",
      { class: "nodes", role: "grid", "aria-readonly": "true" },
      html("thead", {}, html("tr", {}, ...this.heads)),
      this.body,
    );
    this.frame.scroller.append(this.table);
    this.listen();
  }

  // `state`: { store, cycle, tree, node, width, height }
  show(state) {
    const { store, cycle, tree, height } = state;
    const order = `${this.sorted.column.key}${this.sorted.descending}`;
    const key = [store.run, store.revision, cycle.i, tree.size, height, order].join("|");
    this.state = state;
    if (key !== this.drawn) {
      this.drawn = key;
      this.draw();
    }
    this.mark();
  }

  head(column) {
    const button = html("button", { type: "button", title: column.hint }, column.key);
    button.addEventListener("click", () => this.sortBy(column));
    return html("th", { scope: "col", class: classOf(column) }, button);
  }

  // The first click puts the largest probabilities on top, the second turns the order around.
  sortBy(column) {
    const again = this.sorted.column === column;
    this.sorted = { column, descending: again ? !this.sorted.descending : Boolean(column.share) };
    this.frame.scroller.scrollTop = 0;
    this.show(this.state);
  }

  draw() {
    const { store, cycle, tree, height } = this.state;
    const held = this.body.contains(this.element.getRootNode().activeElement);
    const text = (token) => store.hover(token);
    const { column, descending } = this.sorted;
    this.frame.resize(height);
    this.frame.note.textContent = store.meta.rule_note ?? "";
    this.table.setAttribute("aria-label", `Nodes of cycle ${cycle.i + 1}`);
    this.heads.forEach((head, index) => {
      const direction = descending ? "descending" : "ascending";
      if (TABLE_COLUMNS[index] === column) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
    const nodes = sortNodes(tree.values(), column, descending, text);
    while (this.rows.length < nodes.length) this.addRow();
    this.rows.forEach((row, index) => fillRow(row, nodes[index], text));
    this.shown = new Map(nodes.map((node, index) => [node.id, this.rows[index].element]));
    if (held) this.focus(this.shown.has(this.focused) ? this.focused : nodes[0].id);
  }

  addRow() {
    const cells = TABLE_COLUMNS.map((column) =>
      html("td", { class: classOf(column), dir: column.key === "token" ? "auto" : null }),
    );
    const chip = html("span");
    cells[TABLE_COLUMNS.findIndex(({ key }) => key === "state")].append(chip);
    const element = html("tr", { tabindex: -1 }, ...cells);
    this.rows.push({ element, cells, chip });
    this.body.append(element);
  }

  mark() {
    const chosen = this.state.node;
    const entry = [this.focused, chosen, 0].find((id) => this.shown.has(id));
    for (const [id, row] of this.shown) {
      row.setAttribute("aria-selected", id === chosen);
      row.setAttribute("tabindex", id === entry ? 0 : -1);
    }
    if (chosen !== this.chosen && this.shown.has(chosen)) this.reveal(chosen);
    this.chosen = chosen;
  }

  listen() {
    const nodeOf = (event) => {
      const row = event.target.closest?.("tr[data-node]");
      return row ? Number(row.dataset.node) : null;
    };
    this.body.addEventListener("click", (event) => {
      if (nodeOf(event) !== null) this.onPick(nodeOf(event));
    });
    this.body.addEventListener("focusin", (event) => {
      this.focused = nodeOf(event);
    });
    this.body.addEventListener("keydown", (event) => this.key(event, nodeOf(event)));
  }

  key(event, id) {
    const ids = [...this.shown.keys()];
    const at = ids.indexOf(id);
    const last = ids.length - 1;
    const moves = { ArrowUp: Math.max(at - 1, 0), ArrowDown: Math.min(at + 1, last), Home: 0, End: last };
    if (event.key === "Enter") this.onPick(id);
    else if (event.key in moves) this.focus(ids[moves[event.key]]);
    else return;
    event.preventDefault();
  }

  focus(id) {
    this.focused = id;
    this.mark();
    this.shown.get(id).focus({ preventScroll: true });
    this.reveal(id);
  }

  // Below the header, which stays on top of the rows.
  reveal(id) {
    const row = this.shown.get(id);
    const { scrollLeft } = this.frame.scroller;
    const top = row.offsetTop - this.heads[0].offsetHeight;
    this.frame.reveal({ left: scrollLeft, right: scrollLeft, top, bottom: row.offsetTop + row.offsetHeight });
  }
}

// Rows are kept from cycle to cycle; those of a larger tree are hidden.
function fillRow({ element, cells, chip }, node, text) {
  element.hidden = node === undefined;
  if (!node) return;
  element.dataset.node = node.id;
  element.classList.toggle("on-path", node.onPath);
  chip.className = `chip ${node.state}`;
  TABLE_COLUMNS.forEach((column, index) => {
    const cell = column.key === "state" ? chip : cells[index];
    const words = cellText(node, column, text);
    if (cell.textContent !== words) cell.textContent = words;
    if (column.key === "token") cell.title = words;
  });
}
