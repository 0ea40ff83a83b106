// SVG of one laid-out node and one edge, after the visual grammar: shape and colour say the state.

import { STATE_WORDS } from "./card.js";
import { svg } from "./dom.js";
import { known, probability } from "./format.js";
import { edgePath, edgeWidth, glyphWidth } from "./layout.js";

const GLYPH = { rejected: "✕", recovered: "◆", bonus: "★" };
const ORDER = ["pruned", "unreached", "drafted", "verified", "rejected", "bonus", "recovered", "accepted"];

function bars(placed) {
  const { node, x, y, width, height, padding } = placed;
  if (!known(node.p) && !known(node.q)) return [];
  const full = width - 2 * padding;
  const thick = height >= 30 ? 3 : 2.5;
  const first = y + height / 2 - 2 * thick - 4.5;
  const pair = [
    ["p", node.p],
    ["q", node.q],
  ];
  return pair.flatMap(([kind, value], index) => {
    const at = { x: x + padding, y: first + index * (thick + 1.5), height: thick, rx: thick / 2 };
    const track = svg("rect", { class: "track", width: full, ...at });
    if (!known(value)) return [track];
    const length = Math.max(full * Math.min(value, 1), 1.5);
    return [track, svg("rect", { class: `bar ${kind}`, width: length, ...at })];
  });
}

function words(placed, size) {
  const { node, x, y, padding, label } = placed;
  const hasBars = placed.bars && (known(node.p) || known(node.q));
  const baseline = y + size * 0.34 - (hasBars ? placed.height * 0.13 : 0);
  const glyph = GLYPH[node.state];
  const parts = [];
  if (glyph) {
    parts.push(svg("text", { class: "glyph", x: x + padding - 1, y: baseline, "font-size": size }, glyph));
  }
  const text = svg("text", {
    class: "label",
    x: x + padding + glyphWidth(node.state),
    y: baseline,
    "font-size": size,
  });
  for (const part of label.split(/([·↵⇥␣␍])/u)) {
    if (part === "") continue;
    text.append(/[·↵⇥␣␍]/u.test(part) ? svg("tspan", { class: "blank" }, part) : part);
  }
  parts.push(text);
  return parts;
}

function badge(placed, density) {
  if (!placed.badge) return null;
  const size = density.smallText - 1;
  const right = placed.x + placed.width - placed.padding + 2;
  const left = right - placed.badgeWidth + 2;
  const top = placed.y - placed.height / 2;
  const baseline = placed.bars ? top + size + 4 : placed.y + size * 0.35;
  return svg(
    "g",
    { class: "badge", "data-fold": placed.node.id },
    svg("title", {}, placed.hidden ? `show ${placed.hidden} hidden` : "fold"),
    svg("rect", {
      class: "hit",
      x: left - 3,
      y: top,
      width: right - left + 8,
      height: placed.bars ? placed.height * 0.55 : placed.height,
    }),
    svg("text", { x: right, y: baseline, "text-anchor": "end", "font-size": size }, placed.badge),
  );
}

function describe(node, text, hidden) {
  const parts = [text, STATE_WORDS[node.state]];
  if (known(node.p)) parts.push(`p target ${probability(node.p)}`);
  if (known(node.q)) parts.push(`q draft ${probability(node.q)}`);
  if (hidden) parts.push(`${hidden} hidden below`);
  return parts.join(", ");
}

export function drawNode(placed, density, text) {
  const { node, x, y, width, height, small } = placed;
  const shape = { ...placed, bars: !small && node.state !== "root" };
  return svg(
    "g",
    {
      class: `node ${node.state}${small ? " small" : ""}`,
      "data-node": node.id,
      role: "button",
      tabindex: -1,
      "aria-label": describe(node, text, placed.hidden),
    },
    svg("rect", {
      class: "box",
      x,
      y: y - height / 2,
      width,
      height,
      rx: small ? Math.min(5, height / 3) : 8,
    }),
    ...(shape.bars ? bars(shape) : []),
    ...words(shape, small ? density.smallText : density.text),
    badge(shape, density),
  );
}

// `nodes`: the placed nodes by id; an edge is drawn where its parent is among them.
export function drawEdges(nodes, columns) {
  const edges = [];
  for (const placed of nodes.values()) {
    const parent = nodes.get(placed.node.parent);
    if (!parent) continue;
    const own = placed.node.state === "recovered" || placed.node.state === "bonus";
    edges.push({
      order: ORDER.indexOf(placed.node.state),
      element: svg("path", {
        class: `edge ${placed.node.state}`,
        d: edgePath(parent, placed, columns[parent.node.depth]),
        "stroke-width": own ? Math.max(edgeWidth(placed.node.q), 2.5) : edgeWidth(placed.node.q),
      }),
    });
  }
  return edges.sort((a, b) => a.order - b.order).map((edge) => edge.element);
}
