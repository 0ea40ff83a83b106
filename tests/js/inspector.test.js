import assert from "node:assert/strict";
import { test } from "node:test";

import { axisEnd, barsOf, figuresOf, judgeOf, siblingsOf, testOf } from "../../eagle3_viz/component/assets/inspector_data.js";
import { describeBars } from "../../eagle3_viz/component/assets/inspector.js";
import { KEYS, commandOf, nodeMoved } from "../../eagle3_viz/component/assets/keys.js";
import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { anchored, hatchPath } from "../../eagle3_viz/component/assets/probability_bars.js";
import { DECIDED } from "../../eagle3_viz/component/assets/selection.js";

const top = (token, p) => ({ token, p });
const cycle = {
  i: 0,
  tokens: [12, 77],
  path: [0, 2],
  nodes: {
    token: [10, 11, 12, 13, 14, 15],
    parent: [-1, 0, 0, 0, 1, 2],
    state: [0, 2, 1, 3, 3, 2],
    p: [null, 0.12, 0.6, 0.01, 0.3, 0.2],
    q: [null, 0.5, 0.3, 0.1, 0.9, 0.8],
    warped: [null, 0.1, 0.61, 0.005, 0.3, 0.2],
    p_rank: [-1, 2, 0, 1, 0, 1],
    q_rank: [-1, 0, 1, 2, 0, 0],
    tested: [[1, 0.1, 0.1, 0.7], [2, 0.68, 0.68, 0.2], [5, 0.2, 0.2, 0.9]],
    order: null,
  },
  pruned: null,
  decided: { token: 77, origin: 2, p: 0.4, q: 0.01, q_rank: 8 },
  distributions: [
    {
      node: 0,
      p: top([12, 20, 11, 21], [0.6, 0.2, 0.12, 0.05]),
      q: top([11, 12, 13], [0.5, 0.3, 0.1]),
      residual: top([20, 21], [0.7, 0.3]),
      warped: top([12, 20, 11], [0.61, 0.2, 0.1]),
      overlap: 0.43,
      kl: 0.7,
      covered: 0.73,
      entropy_p: 1.1,
      entropy_q: null,
      refused: 0.2,
      expected: 0.8,
    },
    { node: 2, p: top([77], [0.4]), q: top([15], [0.8]), residual: top([77], [0.5]), warped: null },
  ],
};
const tree = buildTree(cycle);

test("a node is judged by the distributions at its parent, the root by nobody", () => {
  const { at, node, branch } = judgeOf(cycle, tree, 5);
  assert.deepEqual([at.node, node, branch], [2, 2, 5]);
  assert.equal(judgeOf(cycle, tree, 0).branch, null);
  assert.equal(judgeOf(cycle, tree, 0).at.node, 0);
  assert.equal(judgeOf(cycle, tree, DECIDED).at.node, 2);
});

test("a node below a refused one is judged where its branch was", () => {
  const { node, branch } = judgeOf(cycle, tree, 4);
  assert.deepEqual([node, branch], [0, 1]);
});

test("without recorded distributions there is no judge", () => {
  assert.equal(judgeOf({ ...cycle, distributions: [] }, tree, 5).at, null);
});

test("bars are the union of the heads of p, q and residual, the largest value first", () => {
  const rows = barsOf(cycle.distributions[0], tree, 2);
  assert.deepEqual(rows.map((row) => row.token), [20, 12, 11, 21, 13]);
  const by = new Map(rows.map((row) => [row.token, row]));
  assert.deepEqual(by.get(12), { token: 12, p: 0.6, q: 0.3, residual: null, warped: 0.61, node: 2 });
  assert.deepEqual(by.get(20), { token: 20, p: 0.2, q: null, residual: 0.7, warped: 0.2, node: null });
});

test("a drafted token outside the head of p has the p of its node", () => {
  const row = barsOf(cycle.distributions[0], tree, 3).find(({ token }) => token === 13);
  assert.deepEqual([row.p, row.q, row.warped], [0.01, 0.1, 0.005]);
});

test("the judged tokens have bars however unlikely they are", () => {
  const tokens = Array.from({ length: 20 }, (_, i) => 100 + i);
  const crowded = { ...cycle.distributions[0], p: top(tokens, tokens.map(() => 0.04)), residual: null };
  const rows = barsOf(crowded, tree, 3);
  for (const token of [11, 12, 13]) assert.ok(rows.some((row) => row.token === token));
  assert.ok(rows.length < 15);
});

test("without q no row has one", () => {
  const rows = barsOf({ ...cycle.distributions[0], q: null }, tree, 2);
  assert.ok(rows.every((row) => row.q === null));
});

test("the axis ends where the largest bar fits", () => {
  assert.equal(axisEnd([{ p: 0.07, q: null, residual: 0.02, warped: null }]), 0.1);
  assert.equal(axisEnd([{ p: 0.3, q: 0.6, residual: null, warped: null }]), 1);
  assert.equal(axisEnd([{ p: 0.2, q: 0.1, residual: null, warped: 0.4 }]), 0.5);
});

test("siblings are the tested ones in order, and the node itself where it was not", () => {
  assert.deepEqual(siblingsOf(tree, 0, 2).map((node) => node.id), [1, 2]);
  assert.deepEqual(siblingsOf(tree, 0, 3).map((node) => node.id), [1, 2, 3]);
  assert.deepEqual(siblingsOf(tree, 2, DECIDED).map((node) => node.id), [5]);
});

test("p when tested is told only where refused siblings changed it", () => {
  assert.deepEqual(testOf(tree.get(1)), { accept: 0.1, draw: 0.7, p: 0.1, before: null });
  assert.deepEqual(testOf(tree.get(2)), { accept: 0.68, draw: 0.2, p: 0.68, before: 0.61 });
  assert.equal(testOf(tree.get(3)), null);
});

test("figures that were not recorded are left out", () => {
  const names = figuresOf(cycle.distributions[0], tree, String).map(([name]) => name);
  assert.ok(names.some((name) => name.startsWith("overlap")));
  assert.ok(!names.includes("entropy of q, nats"));
});

test("a leaf has no figures about children", () => {
  const alone = new Map([[0, { id: 0, children: [DECIDED] }]]);
  const names = figuresOf(cycle.distributions[0], alone, String).map(([name]) => name);
  assert.ok(names.some((name) => name.startsWith("overlap")) && !names.includes("every child refused"));
});

test("strokes of the overlap stay inside their box", () => {
  const strokes = [...hatchPath(10, 20, 33, 16).matchAll(/M([\d.]+) ([\d.]+)l([\d.]+) (-[\d.]+)/g)];
  assert.equal(strokes.length, 9);
  for (const [, x, y, dx, dy] of strokes) {
    const [toX, toY] = [Number(x) + Number(dx), Number(y) + Number(dy)];
    assert.ok(x >= 10 && toX <= 43.01 && y <= 36 && toY >= 19.9);
  }
});

test("labels at the ends of a scale keep inside it", () => {
  assert.equal(anchored(0, 300)["text-anchor"], "start");
  assert.equal(anchored(150, 300)["text-anchor"], "middle");
  const right = anchored(299, 300);
  assert.ok(right["text-anchor"] === "end" && right.x <= 300);
});

test("bars are told in words, tokens as text", () => {
  const words = describeBars([{ token: 1, p: 0.5, q: null }], () => "<b>", "·the");
  assert.equal(words, "Probabilities of the next token after ·the: <b> p 0.500 q –");
});

const press = (key, held = {}) =>
  commandOf({ key, shiftKey: false, ctrlKey: false, altKey: false, metaKey: false, ...held });

test("arrows move between cycles and nodes, and with Shift they move the tree", () => {
  assert.deepEqual(press("ArrowRight"), ["cycle", 1]);
  assert.deepEqual(press("ArrowUp"), ["node", "before"]);
  assert.deepEqual(press("ArrowUp", { shiftKey: true }), ["pan", 0, 1]);
  assert.deepEqual(press(" "), ["play"]);
  assert.deepEqual(press("P", { shiftKey: true }), ["node", "parent"]);
});

test("keys held with Ctrl, Alt or Meta are left to the browser", () => {
  for (const held of ["ctrlKey", "altKey", "metaKey"]) assert.equal(press("ArrowRight", { [held]: true }), null);
  assert.equal(press("q"), null);
});

test("every key that is listed does something", () => {
  const names = { "←": "ArrowLeft", "→": "ArrowRight", "↑": "ArrowUp", "↓": "ArrowDown", Space: " ", Esc: "Escape", "−": "-" };
  for (const [keys] of KEYS) {
    const shiftKey = keys.startsWith("Shift");
    for (const key of keys.replace("Shift ", "").split(" ")) {
      assert.ok(press(names[key] ?? key, { shiftKey }), key);
    }
  }
});

const placed = new Map([...tree.values()].map((node) => [node.id, { node, children: node.children }]));
// In reading order: a parent, then its subtrees one after the other.
const reading = new Map([0, 1, 4, 2, 5, DECIDED, 3].map((id) => [id, placed.get(id)]));

test("up and down go through the nodes in reading order, all of them", () => {
  const seen = [0];
  for (let at = 0; at !== null; ) {
    at = nodeMoved(reading, at, "after");
    if (at !== null) seen.push(at);
  }
  assert.deepEqual(seen, [...reading.keys()]);
  assert.equal(nodeMoved(reading, 0, "before"), null);
});

test("parent, child and sibling follow the tree", () => {
  assert.equal(nodeMoved(reading, 5, "parent"), 2);
  assert.equal(nodeMoved(reading, 0, "child"), 2);
  assert.equal(nodeMoved(reading, 1, "child"), 4);
  assert.equal(nodeMoved(reading, 4, "child"), null);
  assert.deepEqual([1, 2, 3].map((id) => nodeMoved(reading, id, "sibling")), [2, 3, 1]);
  assert.equal(nodeMoved(reading, 0, "parent"), null);
});
