// Layered layout, left to right. Pure: text widths come from `measure(text, size)`.
//
// Contour packing: a subtree is the pair of its upper and lower outline per column, children are
// pushed down until outlines clear each other, so boxes cannot overlap. The committed path runs
// straight; other parents sit at the middle of their children. The root's height is pinned.

import { foldCandidates, visibleTree } from "./fold.js";
import { shorten } from "./format.js";

export const DENSITIES = [
  { name: "roomy", main: 34, small: 20, gap: 5, cousins: 10, text: 13, smallText: 11.5 },
  { name: "dense", main: 29, small: 16, gap: 3, cousins: 6, text: 12, smallText: 10.5 },
  { name: "tight", main: 25, small: 13, gap: 2, cousins: 3, text: 11, smallText: 9.5 },
];
const LABEL_LIMITS = [15, 9, 6];
const GAP_MIN = 30;
const NARROW = 480; // px of a phone, where columns stand closer
const GAP_NARROW = 14;
const GAP_MAX = 124;
const MARGIN = { x: 4, top: 26, bottom: 8 };
const ROOT_AT = 0.42;

export const isSmall = (state) => state === "unreached" || state === "pruned";
const GLYPHS = { rejected: 15, recovered: 15, bonus: 16 };
export const glyphWidth = (state) => GLYPHS[state] ?? 0;
export const badgeText = (entry) => (entry.hidden ? `+${entry.hidden}` : entry.closable ? "−" : "");

function box(entry, density, labelOf, limit, measure) {
  const { node } = entry;
  const small = isSmall(node.state);
  const label = shorten(labelOf(node.token), limit);
  const size = small ? density.smallText : density.text;
  const badge = badgeText(entry);
  const badgeWidth = badge ? measure(badge, density.smallText - 1) + 9 : 0;
  const padding = small ? 7 : 9;
  const content = glyphWidth(node.state) + measure(label, size, !small) + badgeWidth;
  return {
    label,
    small,
    badge,
    badgeWidth,
    padding,
    width: Math.ceil(Math.max(content + 2 * padding, small ? 24 : 40)),
    height: small ? density.small : density.main,
  };
}

function merge(upper, lower, into) {
  for (let level = 0; level < upper.top.length; level += 1) {
    if (level >= into.top.length) {
      into.top.push(upper.top[level] + lower);
      into.bottom.push(upper.bottom[level] + lower);
    } else {
      into.top[level] = Math.min(into.top[level], upper.top[level] + lower);
      into.bottom[level] = Math.max(into.bottom[level], upper.bottom[level] + lower);
    }
  }
}

function clearance(placed, child, density) {
  let shift = -Infinity;
  const shared = Math.min(placed.bottom.length, child.top.length);
  for (let level = 0; level < shared; level += 1) {
    const gap = level === 0 ? density.gap : density.cousins;
    shift = Math.max(shift, placed.bottom[level] - child.top[level] + gap);
  }
  return shift;
}

// Offsets of each node from its parent, and the outline of the subtree around the node's own y.
function pack(id, visible, boxes, density, offsets) {
  const children = visible.get(id).children;
  const half = boxes.get(id).height / 2;
  const outline = { top: [-half], bottom: [half] };
  if (children.length === 0) return outline;
  const below = { top: [], bottom: [] };
  const shifts = children.map((child) => {
    const contour = pack(child, visible, boxes, density, offsets);
    const shift = below.top.length === 0 ? 0 : clearance(below, contour, density);
    merge(contour, shift, below);
    return shift;
  });
  const straight = children.findIndex((child) => visible.get(child).node.onPath);
  const middle = (shifts[0] + shifts[shifts.length - 1]) / 2;
  const anchor = straight >= 0 ? shifts[straight] : middle;
  children.forEach((child, index) => offsets.set(child, shifts[index] - anchor));
  for (let level = 0; level < below.top.length; level += 1) {
    outline.top.push(below.top[level] - anchor);
    outline.bottom.push(below.bottom[level] - anchor);
  }
  return outline;
}

// Steps of 12 px, so that a slightly longer label does not move every column.
const snap = (width) => Math.ceil(width / 12) * 12;

function columns(visible, boxes, width) {
  const widths = [];
  for (const [id, { node }] of visible) {
    widths[node.depth] = Math.max(widths[node.depth] ?? 0, snap(boxes.get(id).width));
  }
  const used = widths.reduce((sum, w) => sum + w, 0) + 2 * MARGIN.x;
  const gaps = Math.max(widths.length - 1, 1);
  const least = width < NARROW ? GAP_NARROW : GAP_MIN;
  const free = Math.floor((width - used) / gaps / 4) * 4;
  const gap = Math.min(Math.max(free, least), GAP_MAX);
  let x = MARGIN.x;
  const placed = widths.map((w) => {
    const column = { x, width: w };
    x += w + gap;
    return column;
  });
  return { placed, total: x - gap + MARGIN.x, fits: free >= least };
}

function boxesOf(visible, density, limit, context) {
  const boxes = new Map();
  for (const [id, entry] of visible) {
    boxes.set(id, box(entry, density, context.labelOf, limit, context.measure));
  }
  return boxes;
}

function place(visible, density, context) {
  let boxes;
  let cols;
  for (const limit of LABEL_LIMITS) {
    boxes = boxesOf(visible, density, limit, context);
    cols = columns(visible, boxes, context.width);
    if (cols.fits) break;
  }
  const offsets = new Map();
  const outline = pack(0, visible, boxes, density, offsets);
  const top = Math.min(...outline.top);
  const bottom = Math.max(...outline.bottom);
  const needed = bottom - top + MARGIN.top + MARGIN.bottom;
  return { visible, density, boxes, cols, offsets, top, bottom, needed };
}

// The committed line wants the root's height and gives way only to stay inside the area. `snug`: the
// area follows the tree.
function settle(plan, context) {
  const needed = Math.ceil(plan.needed);
  const height = context.snug ? needed : Math.max(context.height, needed);
  const rootY = Math.round((context.snug ? height : context.height) * ROOT_AT);
  const lowest = height - MARGIN.bottom - plan.bottom;
  const line = Math.max(Math.min(rootY, lowest), MARGIN.top - plan.top);
  const nodes = new Map();
  for (const [id, entry] of plan.visible) {
    const parent = nodes.get(entry.node.parent);
    const y = parent ? parent.lineY + plan.offsets.get(id) : line;
    const column = plan.cols.placed[entry.node.depth];
    const shape = plan.boxes.get(id);
    nodes.set(id, { ...entry, ...shape, x: column.x, y: id === 0 ? rootY : y, lineY: y });
  }
  const width = Math.max(context.width, Math.ceil(plan.cols.total));
  return { nodes, columns: plan.cols.placed, density: plan.density, width, height };
}

// Roomy, dense, tight; then the least likely subtrees fold until the tree fits the height, unless
// the folding is to stay as it is (`keep`).
export function layoutTree(tree, folding, context) {
  let plan;
  for (const density of DENSITIES) {
    plan = place(visibleTree(tree, folding), density, context);
    if (plan.needed <= context.height) return settle(plan, context);
  }
  const candidates = foldCandidates(tree, folding);
  if (folding.keep || !folding.showAll || candidates.length === 0) return settle(plan, context);
  let [few, many] = [0, candidates.length];
  while (few < many) {
    const middle = (few + many) >> 1;
    const forced = new Set(candidates.slice(0, middle));
    plan = place(visibleTree(tree, { ...folding, forced }), DENSITIES.at(-1), context);
    if (plan.needed <= context.height) many = middle;
    else few = middle + 1;
  }
  const forced = new Set(candidates.slice(0, few));
  return settle(place(visibleTree(tree, { ...folding, forced }), DENSITIES.at(-1), context), context);
}

export const edgeWidth = (q) => 0.8 + 6 * Math.max(q ?? 0, 0) ** 0.7;

// Horizontal to the end of the parent's column, so an edge never crosses a sibling of the parent.
export function edgePath(parent, child, column) {
  const from = parent.x + parent.width;
  const bend = column.x + column.width;
  const middle = (bend + child.x) / 2;
  const start = `M${from} ${parent.y}H${bend}`;
  return `${start}C${middle} ${parent.y} ${middle} ${child.y} ${child.x} ${child.y}`;
}
