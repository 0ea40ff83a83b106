import assert from "node:assert/strict";
import { test } from "node:test";

import { maskLayout, maskPaths } from "../../eagle3_viz/component/assets/mask.js";
import { PREFIX, maskRows, maskWords } from "../../eagle3_viz/component/assets/mask_words.js";
import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { madeUpCycle } from "./made_up_cycle.js";

// Reflexive transitive closure of "is a child of" by squaring the relation's matrix.
function closure(parents) {
  let reach = parents.map((parent, i) => parents.map((_, j) => j === i || j === parent));
  for (let round = 0; round < 9; round += 1) {
    reach = reach.map((row) =>
      row.map((_, j) => row.some((seen, between) => seen && reach[between][j])),
    );
  }
  return reach;
}

test("a node sees its ancestors and itself, and nothing else", () => {
  for (const seed of [0, 1, 2, 3, 4, 5, 6, 7]) {
    const { parent } = madeUpCycle(2 + seed * 9, seed).nodes;
    const rows = maskRows(parent, 10);
    closure(parent).forEach((row, i) => {
      const seen = row.flatMap((sees, j) => (sees ? [j] : []));
      assert.deepEqual(rows[i].sees.toSorted((a, b) => a - b), seen, `seed ${seed}, node ${i}`);
    });
  }
});

test("the root stands at the prefix's length and a node at depth d comes d later", () => {
  const cycle = madeUpCycle(50, 4);
  const tree = buildTree(cycle);
  for (const { id, position } of maskRows(cycle.nodes.parent, cycle.prefix_length)) {
    assert.equal(position, cycle.prefix_length + tree.get(id).depth);
  }
});

const layout = { cell: 10, left: 50, nodesAt: 80, top: 20 };
const corners = (path) =>
  [...path.matchAll(/M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)/g)].map((found) => found.slice(1).map(Number));

test("cells are drawn where a node sees another, full ones along the accepted path", () => {
  const cycle = madeUpCycle(30, 6);
  const rows = maskRows(cycle.nodes.parent, cycle.prefix_length);
  const paths = maskPaths(rows, cycle.path, layout);
  const drawn = (kind) =>
    corners(paths[kind])
      .map(([x, y]) => `${Math.floor((y - 20) / 10)}/${Math.floor((x - 80) / 10)}`)
      .sort();
  const wanted = (accepted) =>
    rows
      .filter(({ id }) => cycle.path.includes(id) === accepted)
      .flatMap(({ id, sees }) => sees.map((key) => `${id}/${key}`))
      .sort();
  assert.deepEqual(drawn("path"), wanted(true));
  assert.deepEqual(drawn("seen"), wanted(false));
  assert.equal(corners(paths.prefix).length, 30);
  const width = ([, , across]) => across;
  assert.ok(Math.min(...corners(paths.path).map(width)) > Math.max(...corners(paths.seen).map(width)));
});

test("256 nodes are drawn in three paths", () => {
  const cycle = madeUpCycle(256, 2);
  const rows = maskRows(cycle.nodes.parent, 1);
  const paths = maskPaths(rows, cycle.path, maskLayout(256, 1000, 500));
  assert.deepEqual(Object.keys(paths), ["prefix", "seen", "path"]);
  const cells = corners(paths.seen).length + corners(paths.path).length;
  assert.equal(cells, rows.reduce((sum, { sees }) => sum + sees.length, 0));
});

test("cells fit the room or keep their smallest size, and words stand only beside rows with room", () => {
  for (const size of [1, 5, 26, 60, 256]) {
    for (const [width, height] of [[360, 300], [1200, 420], [1200, 900]]) {
      const { cell, nodesAt, top, wide, step } = maskLayout(size, width, height);
      const fits = nodesAt + size * cell <= width && top + size * cell <= height;
      assert.ok(fits || cell === 3, `${size} nodes in ${width} x ${height}`);
      assert.ok(cell <= 22 && cell * step >= 11);
      if (wide) assert.ok(cell >= 11);
    }
  }
});

const tree = maskRows([-1, 0, 0, 1, 3], 7);
const name = (id) => (id === 0 ? "the root ·a" : `node ${id} ·${"abcde"[id]}`);
const say = (row, key) => maskWords(tree, row, key, { prefixLength: 7, name });

test("words say which node sees which, and why one does not", () => {
  assert.equal(say(3, 1), "Node 3 ·d, position 9, sees node 1 ·b, its parent.");
  assert.equal(say(4, 0), "Node 4 ·e, position 10, sees the root ·a, its ancestor.");
  assert.equal(say(3, 3), "Node 3 ·d, position 9, sees itself.");
  assert.equal(say(1, 4), "Node 1 ·b, position 8, does not see node 4 ·e, which comes after it.");
  assert.equal(say(3, 2), "Node 3 ·d, position 9, does not see node 2 ·c, which is on another branch.");
  assert.equal(say(2, PREFIX), "Node 2 ·c, position 8, sees the prefix (7 rows), as every node does.");
});

test("a whole row names the ancestors it sees", () => {
  assert.equal(say(0, null), "The root ·a, position 7, sees the prefix (7 rows) and itself.");
  assert.equal(
    say(4, null),
    "Node 4 ·e, position 10, sees the prefix (7 rows), its 3 ancestors (0, 1, 3) and itself.",
  );
  const chain = maskRows(Array.from({ length: 20 }, (_, i) => i - 1), 1);
  const words = maskWords(chain, 19, null, { prefixLength: 1, name });
  assert.match(words, /the prefix \(1 row\), its 19 ancestors \(…, 11, 12, 13, 14, 15, 16, 17, 18\)/);
});
