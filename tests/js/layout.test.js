import assert from "node:assert/strict";
import { test } from "node:test";

import { placeCard, visiblePart } from "../../eagle3_viz/component/assets/card.js";
import { visibleTree } from "../../eagle3_viz/component/assets/fold.js";
import { DENSITIES, edgeWidth, layoutTree } from "../../eagle3_viz/component/assets/layout.js";
import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { DECIDED } from "../../eagle3_viz/component/assets/selection.js";
import { neighbour } from "../../eagle3_viz/component/assets/tree.js";

// A generator of its own, so that a failing case can be named by its seed.
function random(seed) {
  let state = seed + 1;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

// A random tree of `size` nodes with an accepted path, a decided token and pruned candidates.
function makeCycle(size, seed) {
  const draw = random(seed);
  const parent = [-1];
  for (let i = 1; i < size; i += 1) parent.push(Math.floor(draw() * Math.min(i, 12)));
  const path = [0];
  for (let at = 0; at >= 0; ) {
    at = draw() < 0.75 ? parent.indexOf(at) : -1;
    if (at >= 0) path.push(at);
  }
  const state = parent.map((p, i) => (i === 0 ? 0 : path.includes(i) ? 1 : path.includes(p) ? 2 : 3));
  const value = () => parent.map(() => draw());
  const zeros = parent.map(() => 0);
  return {
    i: 0,
    tokens: [1],
    path,
    nodes: {
      token: parent.map((_, i) => i), parent, state, p: value(), q: value(),
      warped: null, p_rank: zeros, q_rank: zeros, tested: [], order: null,
    },
    pruned: { total: 3, token: [900, 901, 902], parent: [0, size, size - 1], q: [0.1, 0.05, 0.02] },
    decided: { token: 77, origin: 2, p: 0.4, q: 0.1, q_rank: 3 },
  };
}

const context = (changes = {}) => ({
  width: 1120,
  height: 400,
  measure: (text, size) => [...text].length * size * 0.6,
  labelOf: (token) => "x".repeat((token * 7) % 22),
  ...changes,
});
const folding = (changes = {}) => ({ showAll: false, chosen: new Map(), ...changes });

function overlapping(nodes) {
  const boxes = [...nodes.values()];
  const pairs = [];
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1)) {
      const apartX = a.x + a.width <= b.x || b.x + b.width <= a.x;
      const apartY = Math.abs(a.y - b.y) >= (a.height + b.height) / 2;
      if (!apartX && !apartY) pairs.push([a.node.id, b.node.id]);
    }
  });
  return pairs;
}

test("no two boxes overlap, whatever the tree, the folding and the room", () => {
  for (let seed = 0; seed < 60; seed += 1) {
    for (const showAll of [false, true]) {
      for (const room of [{}, { height: 240 }, { width: 380 }, { height: 4000 }]) {
        const tree = buildTree(makeCycle(2 + (seed * 7) % 60, seed), showAll);
        const { nodes } = layoutTree(tree, folding({ showAll }), context(room));
        assert.deepEqual(overlapping(nodes), [], `seed ${seed}`);
      }
    }
  }
});

test("the root keeps its height whatever hangs from it", () => {
  const heights = new Set();
  for (let seed = 0; seed < 30; seed += 1) {
    const tree = buildTree(makeCycle(40, seed));
    heights.add(layoutTree(tree, folding(), context()).nodes.get(0).y);
  }
  assert.equal(heights.size, 1);
});

test("every box lies inside the drawing", () => {
  for (let seed = 0; seed < 30; seed += 1) {
    const tree = buildTree(makeCycle(60, seed), true);
    const drawing = layoutTree(tree, folding({ showAll: true }), context({ width: 500 }));
    for (const { x, y, width, height } of drawing.nodes.values()) {
      assert.ok(x >= 0 && x + width <= drawing.width);
      assert.ok(y - height / 2 >= 0 && y + height / 2 <= drawing.height);
    }
  }
});

test("siblings stand in proposal order and the decided token last", () => {
  const cycle = makeCycle(30, 5);
  const { nodes } = layoutTree(buildTree(cycle), folding(), context({ height: 4000 }));
  for (const { children } of nodes.values()) {
    const ys = children.map((id) => nodes.get(id).y);
    assert.deepEqual(ys, ys.toSorted((a, b) => a - b));
    const drafted = children.filter((id) => id !== DECIDED);
    assert.deepEqual(drafted, drafted.toSorted((a, b) => a - b));
    if (children.includes(DECIDED)) assert.equal(children.at(-1), DECIDED);
  }
});

test("an explicit proposal order wins over the order of the table", () => {
  const cycle = makeCycle(2, 0);
  cycle.path = [0];
  cycle.nodes = {
    token: [0, 1, 2], parent: [-1, 0, 0], state: [0, 3, 3], p: [null, 0.1, 0.1],
    q: [null, 0.1, 0.1], warped: null, p_rank: [-1, 0, 0], q_rank: [-1, 1, 0], tested: [],
    order: [-1, 5, 2],
  };
  assert.deepEqual(buildTree(cycle).get(0).children, [2, 1, DECIDED]);
});

test("the committed path runs in one straight line below the root", () => {
  const cycle = makeCycle(40, 11);
  const { nodes } = layoutTree(buildTree(cycle), folding(), context({ height: 4000 }));
  const line = [...cycle.path.slice(1), DECIDED].map((id) => nodes.get(id).y);
  assert.equal(new Set(line).size, 1);
});

test("by default only children of the committed path are visible", () => {
  const cycle = makeCycle(60, 3);
  const visible = visibleTree(buildTree(cycle), folding());
  for (const { node } of visible.values()) {
    assert.ok(node.id === 0 || cycle.path.includes(node.parent));
  }
});

test("hidden nodes are counted where they are folded", () => {
  for (let seed = 0; seed < 20; seed += 1) {
    const tree = buildTree(makeCycle(50, seed));
    const visible = [...visibleTree(tree, folding()).values()];
    const hidden = visible.reduce((sum, entry) => sum + entry.hidden, 0);
    assert.equal(visible.length + hidden, tree.size);
  }
});

test("a node the reader opened stays open when the tree must fold to fit", () => {
  const tree = buildTree(makeCycle(60, 3), true);
  const wide = [...tree.values()].find((n) => !n.onPath && n.children.length > 0);
  const state = folding({ showAll: true, chosen: new Map([[wide.id, true]]) });
  const { nodes } = layoutTree(tree, state, context({ height: 120 }));
  if (nodes.has(wide.id)) assert.equal(nodes.get(wide.id).hidden, 0);
});

test("the tree grows denser before it folds", () => {
  const tree = buildTree(makeCycle(60, 8));
  const names = [4000, 360, 200].map(
    (height) => layoutTree(tree, folding({ showAll: true }), context({ height })).density.name,
  );
  const ladder = DENSITIES.map((density) => density.name);
  assert.equal(names[0], "roomy");
  const steps = names.map((name) => ladder.indexOf(name));
  assert.deepEqual(steps, steps.toSorted((a, b) => a - b));
});

test("showing all folds until the tree fits the height", () => {
  const tree = buildTree(makeCycle(60, 8), true);
  const all = layoutTree(tree, folding({ showAll: true }), context({ height: 4000 }));
  assert.equal(all.nodes.size, tree.size);
  const small = layoutTree(tree, folding({ showAll: true }), context({ height: 340 }));
  assert.ok(small.nodes.size < tree.size);
  assert.equal(small.height, 340);
});

test("a column is as wide as its widest label and begins after the one before", () => {
  const { nodes, columns } = layoutTree(buildTree(makeCycle(40, 4)), folding(), context());
  for (const placed of nodes.values()) {
    assert.ok(placed.width <= columns[placed.node.depth].width);
  }
  columns.slice(1).forEach((column, i) => assert.ok(column.x > columns[i].x + columns[i].width));
});

test("on a phone columns stand closer, so that more of a deep tree is in sight", () => {
  const deep = makeCycle(24, 3);
  deep.nodes.parent = deep.nodes.parent.map((_, i) => i - 1);
  deep.path = deep.nodes.parent.map((_, i) => i).slice(0, 8);
  const at = (width) => layoutTree(buildTree(deep), folding(), context({ width })).columns;
  const gaps = (columns) => columns.slice(1).map(({ x }, i) => x - columns[i].x - columns[i].width);
  assert.deepEqual(new Set(gaps(at(358))), new Set([14]));
  assert.ok(gaps(at(600)).every((gap) => gap >= 30));
});

test("labels shorten to 14 characters and an ellipsis at most", () => {
  const long = context({ labelOf: () => "y".repeat(14) + "…", width: 4000 });
  const { nodes } = layoutTree(buildTree(makeCycle(5, 1)), folding(), long);
  assert.equal(nodes.get(0).label, "y".repeat(14) + "…");
});

test("edges are 0.8 + 6 q^0.7 wide", () => {
  assert.equal(edgeWidth(0), 0.8);
  assert.equal(edgeWidth(1), 6.8);
  assert.ok(Math.abs(edgeWidth(0.5) - (0.8 + 6 * Math.pow(0.5, 0.7))) < 1e-12);
  assert.equal(edgeWidth(null), 0.8);
});

test("pruned candidates appear only when all is shown, below kept or pruned parents", () => {
  const cycle = makeCycle(20, 2);
  assert.ok(![...buildTree(cycle, false).values()].some((n) => n.state === "pruned"));
  const tree = buildTree(cycle, true);
  assert.equal([...tree.values()].filter((n) => n.state === "pruned").length, 3);
  assert.ok(tree.get(20).children.includes(21));
  assert.equal(tree.get(21).depth, 2);
});

test("arrow keys move to the parent, along the committed path and within a column", () => {
  const cycle = makeCycle(40, 11);
  const { nodes } = layoutTree(buildTree(cycle), folding(), context());
  assert.equal(neighbour(nodes, 0, "ArrowLeft"), null);
  assert.equal(neighbour(nodes, 0, "ArrowRight"), cycle.path[1] ?? DECIDED);
  const first = nodes.get(0).children[0];
  assert.equal(neighbour(nodes, first, "ArrowLeft"), 0);
  const below = neighbour(nodes, first, "ArrowDown");
  assert.equal(below, nodes.get(0).children[1]);
  assert.equal(neighbour(nodes, below, "ArrowUp"), first);
});

test("a card keeps inside the tree area and off its own node", () => {
  const bounds = { top: 0, width: 600, height: 300 };
  const size = { width: 200, height: 120 };
  for (const [left, top] of [[5, 5], [500, 10], [560, 270], [300, 150]]) {
    const anchor = { left, top, right: left + 40, bottom: top + 24 };
    const spot = placeCard(anchor, size, bounds, []);
    assert.ok(spot.left >= 0 && spot.left + 200 <= 600 && spot.top >= 0 && spot.top + 120 <= 300);
    const apart =
      spot.left >= anchor.right || spot.left + 200 <= anchor.left ||
      spot.top >= anchor.bottom || spot.top + 120 <= anchor.top;
    assert.ok(apart);
  }
});

test("a card goes where it hides no other node if there is such a place", () => {
  const anchor = { left: 10, top: 100, right: 60, bottom: 130 };
  const below = { left: 10, top: 140, right: 60, bottom: 170 };
  const spot = placeCard(anchor, { width: 100, height: 60 }, { top: 0, width: 600, height: 300 }, [below]);
  const beside = spot.left >= below.right || spot.top >= below.bottom || spot.top + 60 <= below.top;
  assert.ok(beside);
});

test("a card stays in the part of the tree that the window shows", () => {
  const frame = { top: 500, width: 600, height: 330 };
  const bounds = visiblePart(frame, 800);
  assert.deepEqual(bounds, { top: 0, width: 600, height: 300 });
  assert.equal(visiblePart({ ...frame, top: -40 }, 800).top, 40);
  const size = { width: 200, height: 120 };
  for (const [left, top] of [[10, 270], [390, 270], [10, 10]]) {
    const spot = placeCard({ left, top, right: left + 90, bottom: top + 24 }, size, bounds, []);
    assert.ok(frame.top + spot.top + size.height <= 800);
  }
  const tall = placeCard({ left: 10, top: 10, right: 90, bottom: 34 }, { width: 200, height: 400 }, bounds, []);
  assert.ok(frame.top + tall.top + 400 <= 800);
});

test("where the area follows the tree, the tree is as high as its nodes and no node is outside", () => {
  for (let seed = 0; seed < 30; seed += 1) {
    const tree = buildTree(makeCycle(2 + seed, seed), false);
    const all = folding({ showAll: true, keep: true });
    const snug = layoutTree(tree, all, context({ width: 360, snug: true }));
    const boxes = [...snug.nodes.values()];
    const top = Math.min(...boxes.map(({ y, height }) => y - height / 2));
    const bottom = Math.max(...boxes.map(({ y, height }) => y + height / 2));
    assert.ok(top >= 0 && bottom <= snug.height, `seed ${seed}`);
    assert.ok(snug.height - (bottom - top) < 60, `seed ${seed}: ${snug.height} for ${bottom - top}`);
  }
});
