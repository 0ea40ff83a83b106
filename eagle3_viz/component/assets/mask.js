// The attention mask of the verification: rows ask, columns are asked, a filled cell is seen.
// One path per kind of cell, so that 256 nodes are drawn at once.

import { svg } from "./dom.js";
import { PREFIX, maskRows, maskWords } from "./mask_words.js";
import { TabFrame, fittedText } from "./tab_frame.js";

const CELL_MAX = 22; // px
const CELL_MIN = 3;
const READABLE = 11; // px of a row that can carry words
const PREFIX_CELLS = 3; // the prefix is drawn this many cells wide, however long it is
const GUTTER = { wide: 158, narrow: 60 };
const COLUMN_HEADS = 36;
const TICKS = [1, 2, 5, 10, 20, 50, 100];
const BETWEEN = 6; // px between two numbers above the columns

const MASK_NOTE =
  "Rows ask, columns are asked: a node sees the prefix, its ancestors and itself. " +
  "Position = prefix length + depth, so nodes of one depth share it.";

const NO_ROW = "has no row: it was not part of the verification.";

// Cells as large as fit; words beside the rows only where the cells leave room for them.
export function maskLayout(size, width, height) {
  const fit = (left) => {
    const across = (width - left - 4) / (size + PREFIX_CELLS);
    const down = (height - COLUMN_HEADS - 4) / size;
    return Math.max(Math.min(Math.floor(across), Math.floor(down), CELL_MAX), CELL_MIN);
  };
  const wide = fit(GUTTER.wide) >= READABLE;
  const left = wide ? GUTTER.wide : GUTTER.narrow;
  const cell = fit(left);
  const nodesAt = left + PREFIX_CELLS * cell;
  return { cell, left, nodesAt, wide, top: COLUMN_HEADS, step: Math.ceil(READABLE / cell) };
}

const square = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;

// The cells of each kind as one path. Along the accepted path they are full, others smaller.
export function maskPaths(rows, accepted, { cell, left, nodesAt, top }) {
  const onPath = new Set(accepted);
  const paths = { prefix: "", seen: "", path: "" };
  const gap = cell >= 6 ? 1 : 0;
  const inset = cell >= 8 ? Math.round(cell / 5) : 0;
  for (const { id, sees } of rows) {
    const y = top + id * cell;
    paths.prefix += square(left, y, PREFIX_CELLS * cell - 2, cell - gap);
    for (const key of sees) {
      const x = nodesAt + key * cell;
      if (onPath.has(id)) paths.path += square(x, y, cell - gap, cell - gap);
      else paths.seen += square(x + inset, y + inset, cell - gap - 2 * inset, cell - gap - 2 * inset);
    }
  }
  return paths;
}

export class MaskView {
  constructor({ onPick, measure }) {
    this.onPick = onPick;
    this.measure = measure;
    this.cursor = null;
    this.frame = new TabFrame("mask", { live: true });
    this.frame.note.textContent = MASK_NOTE;
    this.element = this.frame.element;
    this.canvas = svg("svg", { class: "mask", role: "application", tabindex: 0 });
    this.frame.scroller.append(this.canvas);
    this.parts = {};
    for (const kind of ["row", "column"]) this.parts[kind] = svg("rect", { class: `mask-${kind}` });
    for (const kind of ["prefix", "seen", "path", "accepted"]) {
      this.parts[kind] = svg("path", { class: `mask-${kind}` });
    }
    this.parts.chosen = svg("rect", { class: "mask-chosen" });
    this.heads = svg("g", { class: "mask-heads" });
    const { row, column, ...above } = this.parts;
    this.back = svg("rect", { class: "mask-back" });
    this.canvas.append(this.back, row, column, this.heads, ...Object.values(above));
    this.listen();
  }

  // `state`: { store, cycle, tree, node, width, height }
  show(state) {
    const { store, cycle, width, height } = state;
    const key = [store.run, store.revision, cycle.i, width, height].join("|");
    this.state = state;
    if (key !== this.drawn) {
      this.drawn = key;
      this.draw();
    }
    this.mark();
  }

  draw() {
    const { cycle, width, height } = this.state;
    const parents = cycle.nodes.parent;
    this.rows = maskRows(parents, cycle.prefix_length);
    const room = this.frame.resize(height);
    this.layout = maskLayout(parents.length, width, room);
    const { cell, left, nodesAt, top } = this.layout;
    const side = cell * parents.length;
    this.cursor = null;
    this.canvas.setAttribute("width", Math.max(nodesAt + side + 2, Math.min(width, 300)));
    this.canvas.setAttribute("height", top + side + 2);
    this.canvas.setAttribute("aria-label", this.title());
    setBox(this.back, nodesAt, top, side, side);
    const paths = maskPaths(this.rows, cycle.path, this.layout);
    for (const [kind, d] of Object.entries(paths)) this.parts[kind].setAttribute("d", d);
    this.parts.accepted.setAttribute("d", acceptedMarks(cycle.path, this.layout));
    this.heads.replaceChildren(...this.columnHeads(left), ...this.rowHeads());
  }

  title() {
    const { cycle } = this.state;
    return (
      `Attention mask of cycle ${cycle.i + 1}: ${this.rows.length} nodes after a prefix of ` +
      `${cycle.prefix_length} rows. ${MASK_NOTE} Arrow keys go from cell to cell, Enter chooses ` +
      "the node of the row."
    );
  }

  columnHeads(left) {
    const { cell, nodesAt, top } = this.layout;
    const { cycle } = this.state;
    const heads = [
      svg("text", { class: "head", x: 0, y: top - 9 }, "position"),
      svg("text", { class: "head", x: left, y: 11 }, `prefix, ${cycle.prefix_length} rows | nodes`),
    ];
    const widest = this.measure(String(this.rows.length), 11) + BETWEEN;
    const every = TICKS.find((count) => count * cell >= widest) ?? TICKS.at(-1);
    for (let id = 0; id < this.rows.length; id += every) {
      const at = { x: nodesAt + (id + 0.5) * cell, y: top - 9, "text-anchor": "middle" };
      heads.push(svg("text", { class: "head", ...at }, String(id)));
    }
    return heads;
  }

  rowHeads() {
    const { cell, left, top, step, wide } = this.layout;
    const { cycle, store } = this.state;
    const widthOf = (text) => this.measure(text, 10.5);
    const heads = [];
    for (let id = 0; id < this.rows.length; id += step) {
      const y = top + (id + 0.5) * cell + 3.5;
      const kind = cycle.path.includes(id) ? "label accepted" : "label";
      const text = (x, words, anchor = "end") =>
        svg("text", { class: kind, x, y, "text-anchor": anchor }, words);
      heads.push(text(36, String(this.rows[id].position)));
      if (!wide) continue;
      const label = fittedText(store.label(cycle.nodes.token[id]), left - 84, widthOf);
      heads.push(text(64, String(id)), text(72, label, "start"));
    }
    return heads;
  }

  mark() {
    const { node } = this.state;
    const { cell, left, nodesAt, top } = this.layout;
    const chosen = node !== null && node >= 0 && node < this.rows.length ? node : null;
    this.parts.chosen.toggleAttribute("hidden", chosen === null);
    const width = nodesAt - left + cell * this.rows.length + 2;
    setBox(this.parts.chosen, left - 1, top + (chosen ?? 0) * cell - 1, width, cell + 1);
    this.moved();
  }

  // Bands through the cell that is pointed at, and the cell in words.
  moved() {
    const { cell, left, nodesAt, top } = this.layout;
    const side = cell * this.rows.length;
    const { row, column } = this.parts;
    row.toggleAttribute("hidden", this.cursor === null);
    column.toggleAttribute("hidden", this.cursor === null || this.cursor.key === null);
    const at = this.cursor ?? { row: this.chosenRow(), key: null };
    const { tree, node, store } = this.state;
    const outside = this.cursor === null && tree.has(node) && !this.rows[node];
    setBox(row, 0, top + at.row * cell, nodesAt + side, cell);
    if (at.key === PREFIX) setBox(column, left, top, nodesAt - left, side);
    else setBox(column, nodesAt + (at.key ?? 0) * cell, top, cell, side);
    this.frame.say(outside ? `${store.hover(tree.get(node).token)} ${NO_ROW}` : this.words(at));
  }

  chosenRow() {
    return this.rows[this.state.node] ? this.state.node : 0;
  }

  words({ row, key }) {
    const { cycle, store } = this.state;
    const name = (id) => {
      const text = store.hover(cycle.nodes.token[id]);
      return id === 0 ? `the root ${text}` : `node ${id} ${text}`;
    };
    return maskWords(this.rows, row, key, { prefixLength: cycle.prefix_length, name });
  }

  // The cell under the pointer; beside the columns it is the whole row, outside none.
  cellAt(event) {
    const { cell, left, nodesAt, top } = this.layout;
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const row = Math.floor((y - top) / cell);
    if (!this.rows[row]) return null;
    const key = Math.floor((x - nodesAt) / cell);
    if (x < nodesAt) return { row, key: x < left ? null : PREFIX };
    return { row, key: this.rows[key] ? key : null };
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => this.point(this.cellAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.canvas.addEventListener("focus", () => {
      if (this.canvas.matches(":focus-visible")) this.point({ row: this.chosenRow(), key: null });
    });
    this.canvas.addEventListener("click", (event) => {
      const at = this.cellAt(event);
      if (at) this.onPick(at.row);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  point(cursor) {
    if (cursor?.row === this.cursor?.row && cursor?.key === this.cursor?.key) return;
    this.cursor = cursor;
    this.moved();
  }

  key(event) {
    const { row, key } = this.cursor ?? { row: this.chosenRow(), key: null };
    const last = this.rows.length - 1;
    const moves = {
      ArrowUp: { row: Math.max(row - 1, 0), key },
      ArrowDown: { row: Math.min(row + 1, last), key },
      ArrowLeft: { row, key: Math.max((key ?? row) - 1, PREFIX) },
      ArrowRight: { row, key: Math.min((key ?? row - 1) + 1, last) },
    };
    if (event.key === "Enter") this.onPick(row);
    else if (moves[event.key]) {
      this.point(moves[event.key]);
      this.reveal();
    } else return;
    event.preventDefault();
  }

  reveal() {
    const { cell, nodesAt, top } = this.layout;
    const { row, key } = this.cursor;
    const left = key === null || key === PREFIX ? 0 : nodesAt + key * cell;
    const y = top + row * cell;
    this.frame.reveal({ left, right: left + cell, top: row === 0 ? 0 : y, bottom: y + cell + 2 });
  }
}

function setBox(rectangle, x, y, width, height) {
  for (const [name, value] of Object.entries({ x, y, width, height })) {
    rectangle.setAttribute(name, value);
  }
}

// A mark beside each row and above each column of the accepted path.
function acceptedMarks(path, { cell, left, nodesAt, top }) {
  const size = Math.min(cell, 7) / 2;
  return path
    .map((id) => {
      const middle = (id + 0.5) * cell;
      const beside = `M${left - 3} ${top + middle}l${-size} ${-size}v${2 * size}z`;
      return `${beside}M${nodesAt + middle} ${top - 2}l${-size} ${-size}h${2 * size}z`;
    })
    .join("");
}
