import assert from "node:assert/strict";
import { test } from "node:test";

import { icicleNeighbour, icicleSpans, icicleWords } from "../../eagle3_viz/component/assets/icicle.js";
import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { DECIDED } from "../../eagle3_viz/component/assets/selection.js";
import { fittedText } from "../../eagle3_viz/component/assets/tab_frame.js";
import { madeUpCycle } from "./made_up_cycle.js";

const ROUNDING = 1e-9;
const seeds = Array.from({ length: 60 }, (_, seed) => seed);
const treeOf = (seed, options) => buildTree(madeUpCycle(2 + ((seed * 7) % 60), seed, options), true);
const wide = ({ from, to }) => to - from;

test("a node is as wide as the product of q along its path", () => {
  for (const seed of seeds) {
    const tree = treeOf(seed);
    const spans = icicleSpans(tree);
    for (const node of tree.values()) {
      let product = 1;
      for (let at = node; at.id !== 0; at = tree.get(at.parent)) product *= at.q;
      assert.ok(Math.abs(wide(spans.get(node.id)) - product) < 1e-3, `seed ${seed}, node ${node.id}`);
      assert.ok(Math.abs(Math.exp(node.score) - product) < 1e-6);
    }
  }
});

test("spans of children lie within the parent's and add up to no more than it", () => {
  for (const full of [false, true]) {
    for (const seed of seeds) {
      const tree = treeOf(seed, { full });
      const spans = icicleSpans(tree);
      assert.equal(spans.size, tree.size);
      for (const [id, span] of spans) {
        const children = tree.get(id).children.map((child) => spans.get(child));
        const sum = children.reduce((total, child) => total + wide(child), 0);
        assert.ok(sum <= wide(span) + ROUNDING, `seed ${seed}, node ${id}`);
        for (const { from, to, room } of children) {
          assert.ok(span.from - ROUNDING <= from && from <= to && to <= span.to + ROUNDING);
          assert.ok(to <= room && room <= span.to + ROUNDING);
        }
      }
    }
  }
});

test("no two spans of one row overlap", () => {
  for (const full of [false, true]) {
    for (const seed of seeds) {
      const tree = treeOf(seed, { full });
      const rows = new Map();
      for (const [id, span] of icicleSpans(tree)) {
        const { depth } = tree.get(id);
        rows.set(depth, [...(rows.get(depth) ?? []), span]);
      }
      for (const row of rows.values()) {
        row.sort((a, b) => a.from - b.from || a.to - b.to);
        row.slice(1).forEach((span, i) => assert.ok(span.from >= row[i].to - ROUNDING, `seed ${seed}`));
      }
    }
  }
});

test("siblings stand in proposal order", () => {
  const tree = treeOf(5);
  const spans = icicleSpans(tree);
  for (const { children } of tree.values()) {
    const starts = children.map((id) => spans.get(id).from);
    assert.deepEqual(starts, starts.toSorted((a, b) => a - b));
  }
});

test("a decided token that was drafted and refused takes no share twice", () => {
  const cycle = madeUpCycle(20, 3);
  cycle.path = [0];
  const child = cycle.nodes.parent.indexOf(0);
  cycle.decided = { ...cycle.decided, token: cycle.nodes.token[child], q: cycle.nodes.q[child] };
  assert.equal(wide(icicleSpans(buildTree(cycle)).get(DECIDED)), 0);
});

test("a token whose q is unknown takes no room and says so", () => {
  const cycle = madeUpCycle(20, 4);
  cycle.decided = { ...cycle.decided, origin: 3, q: null };
  const tree = buildTree(cycle);
  assert.equal(wide(icicleSpans(tree).get(DECIDED)), 0);
  assert.match(icicleWords(tree.get(DECIDED), "·so"), /^·so, depth \d+: bonus; the draft proposed nothing/);
});

test("words tell the cumulative probability beside q", () => {
  const tree = buildTree({
    ...madeUpCycle(3, 1),
    path: [0],
    nodes: {
      token: [1, 2, 3], parent: [-1, 0, 1], state: [0, 2, 3], p: [null, 0.1, 0.2],
      q: [null, 0.5, 0.25], warped: null, p_rank: [-1, 0, 0], q_rank: [-1, 0, 0], tested: [],
      order: null,
    },
  });
  assert.equal(
    icicleWords(tree.get(2), "·blue"),
    "·blue, depth 2: cumulative draft probability 0.125, q 0.250 after its parent; not reached.",
  );
  assert.match(icicleWords(tree.get(0), "·the"), /: the root, decided/);
});

test("arrow keys go to the parent, down the committed path and along a row", () => {
  for (const seed of seeds) {
    const tree = treeOf(seed);
    const spans = icicleSpans(tree);
    assert.equal(icicleNeighbour(tree, spans, 0, "ArrowUp"), null);
    for (const node of tree.values()) {
      const below = icicleNeighbour(tree, spans, node.id, "ArrowDown");
      if (below !== null) assert.equal(icicleNeighbour(tree, spans, below, "ArrowUp"), node.id);
      const right = icicleNeighbour(tree, spans, node.id, "ArrowRight");
      if (right === null) continue;
      assert.equal(tree.get(right).depth, node.depth);
      assert.equal(icicleNeighbour(tree, spans, right, "ArrowLeft"), node.id);
    }
  }
});

test("walking right reaches every node of a row", () => {
  const tree = treeOf(8);
  const spans = icicleSpans(tree);
  const first = [...tree.values()].filter(({ depth }) => depth === 1);
  let at = tree.get(0).children[0];
  const seen = [];
  for (; at !== null; at = icicleNeighbour(tree, spans, at, "ArrowRight")) seen.push(at);
  assert.deepEqual(new Set(seen), new Set(first.map(({ id }) => id)));
});

test("a label is cut to what fits and left out where that tells nothing", () => {
  const widthOf = (text) => [...text].length * 7;
  assert.equal(fittedText("hello", 35, widthOf), "hello");
  assert.equal(fittedText("hello", 34, widthOf), "hel…");
  assert.equal(fittedText("🙂🙂🙂🙂", 21, widthOf), "🙂🙂…");
  assert.equal(fittedText("hello", 20, widthOf), "");
  assert.equal(fittedText("a", 7, widthOf), "a");
  assert.equal(fittedText("a", 6, widthOf), "");
});
