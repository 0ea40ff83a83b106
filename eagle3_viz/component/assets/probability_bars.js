// p, q and residual of some tokens as horizontal bars, and one draw against its accept probability.

import { svg } from "./dom.js";
import { known, probability } from "./format.js";
import { axisEnd } from "./inspector_data.js";

const THICK = 8; // px of a bar
const BETWEEN = 2;
const APART = 9; // px between tokens
const AXIS = 16; // px for the numbers of the axis
const NUMBERS = 42; // px for the value of a bar
const HATCH = 4; // px between the strokes over min(p, q)
const GLYPHS = { accepted: "✓", rejected: "✕", recovered: "◆", bonus: "★" };

const KINDS = [
  ["p", "p target"],
  ["q", "q draft"],
  ["residual", "residual"],
];

// Slanting strokes inside a box, cut at its right side.
export function hatchPath(x, y, width, height) {
  let path = "";
  for (let at = x; at < x + width; at += HATCH) {
    const run = Math.min(height, x + width - at);
    path += `M${at.toFixed(1)} ${y + height}l${run.toFixed(1)} ${-run.toFixed(1)}`;
  }
  return path;
}

function bar(kind, value, at, scale) {
  const parts = [svg("rect", { class: "track", x: at.x, y: at.y, width: at.width, height: THICK, rx: 2 })];
  if (known(value)) {
    const width = Math.max(value * scale, value > 0 ? 1 : 0);
    parts.push(svg("rect", { class: `bar ${kind}`, x: at.x, y: at.y, width, height: THICK, rx: 2 }));
  }
  const text = svg("text", { class: "value", x: at.x + at.width + 5, y: at.y + THICK - 0.5 }, probability(value));
  return [...parts, text];
}

// The share of the draft's mass that p covers too.
function overlap(row, at, scale) {
  if (!known(row.p) || !known(row.q)) return null;
  const width = Math.min(row.p, row.q) * scale;
  if (width < 1) return null;
  const height = 2 * THICK + BETWEEN;
  return svg(
    "g",
    { class: "overlap" },
    svg("path", { d: hatchPath(at.x, at.y, width, height) }),
    svg("line", { x1: at.x + width, x2: at.x + width, y1: at.y - 1, y2: at.y + height + 1 }),
  );
}

function warpedMark(row, at, scale) {
  if (!known(row.warped)) return null;
  const x = at.x + row.warped * scale;
  const y = at.y + THICK / 2;
  return svg("path", { class: "warped", d: `M${x} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z` });
}

function rowOf(row, at, scale, kinds, { label, state, mine }) {
  const parts = kinds.flatMap(([kind], index) =>
    bar(kind, row[kind], { ...at, y: at.y + index * (THICK + BETWEEN) }, scale),
  );
  const middle = at.y + (kinds.length * (THICK + BETWEEN) - BETWEEN) / 2 + 4;
  const glyph = GLYPHS[state] ?? "";
  return svg(
    "g",
    { class: `bars-row ${state ?? ""}${mine ? " mine" : ""}` },
    svg("text", { class: "glyph", x: 0, y: middle }, glyph),
    svg("text", { class: "token-name", x: at.x - 8, y: middle, "text-anchor": "end" }, label),
    ...parts,
    overlap(row, at, scale),
    warpedMark(row, at, scale),
  );
}

function axis(end, at, scale, height) {
  return [0, end / 2, end].map((value) => {
    const x = at.x + value * scale;
    return svg(
      "g",
      { class: "axis" },
      svg("line", { x1: x, x2: x, y1: AXIS - 4, y2: height }),
      svg("text", { x, y: 9, "text-anchor": value === 0 ? "start" : value === end ? "end" : "middle" }, String(value)),
    );
  });
}

// `naming(row)`: { label, state, mine } of a row; `names`: px that the longest label takes.
export function probabilityBars(rows, { width, names, naming, hasQ, hasResidual, description }) {
  const kinds = KINDS.filter(([kind]) => kind === "p" || (kind === "q" ? hasQ : hasResidual));
  const x = 16 + names + 8;
  const at = { x, width: Math.max(width - x - NUMBERS, 40) };
  const pitch = kinds.length * (THICK + BETWEEN) - BETWEEN + APART;
  const height = AXIS + rows.length * pitch;
  const end = axisEnd(rows);
  const scale = at.width / end;
  return svg(
    "svg",
    { class: "probability-bars", width, height, role: "img", "aria-label": description },
    ...axis(end, at, scale, height),
    ...rows.map((row, index) =>
      rowOf(row, { ...at, y: AXIS + 2 + index * pitch }, scale, kinds, naming(row)),
    ),
  );
}

const DRAW = { top: 20, thick: 14, below: 16, side: 6 };

// Where a label centred at x keeps within the width.
export function anchored(x, width) {
  if (x < width * 0.3) return { x: Math.max(x - 4, 0), "text-anchor": "start" };
  if (x > width * 0.7) return { x: Math.min(x + 4, width), "text-anchor": "end" };
  return { x, "text-anchor": "middle" };
}

// The accept probability as a stretch of 0 to 1, and the uniform draw that fell into it or not.
export function drawBar({ accept, draw }, width) {
  const { top, thick, below, side } = DRAW;
  const length = width - 2 * side;
  const split = side + accept * length;
  const parts = [
    svg("rect", { class: "refuse", x: side, y: top, width: length, height: thick, rx: 3 }),
    svg("rect", { class: "accept", x: side, y: top, width: accept * length, height: thick, rx: 3 }),
    svg("line", { class: "split", x1: split, x2: split, y1: top - 2, y2: top + thick + 4 }),
    svg("text", { class: "value", ...anchored(split, width), y: top + thick + below }, `accept below ${probability(accept)}`),
  ];
  if (known(draw)) {
    const x = side + draw * length;
    parts.push(
      svg("path", { class: "draw", d: `M${x} ${top + 1}l-5 -7h10z` }),
      svg("line", { class: "draw-line", x1: x, x2: x, y1: top, y2: top + thick }),
      svg("text", { class: "draw-label", ...anchored(x, width), y: 10 }, `drew ${probability(draw)}`),
    );
  }
  const verdict = known(draw) ? `, drew ${probability(draw)}` : "";
  return svg(
    "svg",
    {
      class: "draw-bar",
      width,
      height: top + thick + below + 5,
      role: "img",
      "aria-label": `Accept probability ${probability(accept)}${verdict}`,
    },
    ...parts,
  );
}
