import assert from "node:assert/strict";
import { test } from "node:test";

import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { TABLE_COLUMNS, cellText, sortNodes } from "../../eagle3_viz/component/assets/node_table.js";
import { DECIDED } from "../../eagle3_viz/component/assets/selection.js";
import { madeUpCycle } from "./made_up_cycle.js";

const text = (token) => `t${token}`;
const column = (key) => TABLE_COLUMNS.find((found) => found.key === key);
const nodes = [...buildTree(madeUpCycle(40, 7), true).values()];
const sorted = (key, descending) => sortNodes(nodes, column(key), descending, text);

test("every column sorts in both directions and loses no node", () => {
  for (const by of TABLE_COLUMNS) {
    for (const descending of [false, true]) {
      const order = sortNodes(nodes, by, descending, text);
      assert.deepEqual(new Set(order), new Set(nodes));
      const values = order.map((node) => by.of(node, text)).filter((value) => value !== null);
      values.slice(1).forEach((value, i) => {
        assert.ok(descending ? value <= values[i] : value >= values[i], by.key);
      });
    }
  }
});

test("unknown values stand last in both directions", () => {
  for (const descending of [false, true]) {
    const draws = sorted("draw", descending).map((node) => node.test?.draw ?? null);
    const first = draws.indexOf(null);
    assert.ok(first > 0);
    assert.ok(draws.slice(first).every((draw) => draw === null));
  }
});

test("nodes of equal value keep the order of the tree in both directions", () => {
  for (const descending of [false, true]) {
    const level = sorted("depth", descending).filter((node) => node.depth === 1 && node.id >= 0);
    const ids = level.map((node) => node.id);
    assert.deepEqual(ids, ids.toSorted((a, b) => a - b));
  }
});

test("sorting leaves the nodes it was given in their order", () => {
  const before = nodes.map((node) => node.id);
  sorted("q draft", true);
  assert.deepEqual(nodes.map((node) => node.id), before);
});

test("the decided token is a row without a node id, last by node", () => {
  assert.equal(sorted("node", false).at(-1).id, DECIDED);
  const decided = nodes.find((node) => node.id === DECIDED);
  assert.equal(cellText(decided, column("node"), text), "–");
  assert.equal(cellText(decided, column("state"), text), "◆ recovered");
});

test("cells show the node's numbers, and a dash where there is none", () => {
  const refused = nodes.find((node) => node.test !== null);
  const cell = (key, node = refused) => cellText(node, column(key), text);
  assert.equal(cell("q draft"), refused.q.toFixed(3));
  assert.equal(cell("draw"), refused.test.draw.toFixed(3));
  assert.equal(cell("accept probability"), refused.test.accept.toFixed(3));
  assert.equal(cell("p when tested"), refused.test.p.toFixed(3));
  assert.equal(cell("token"), `t${refused.token}`);
  assert.equal(cell("state"), "✕ rejected");
  const root = nodes[0];
  assert.deepEqual(["parent", "q draft", "draw"].map((key) => cell(key, root)), ["–", "–", "–"]);
  assert.equal(cell("depth", root), "0");
});
