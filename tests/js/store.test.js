import assert from "node:assert/strict";
import { test } from "node:test";

import { Selection, DECIDED } from "../../eagle3_viz/component/assets/selection.js";
import { Store } from "../../eagle3_viz/component/assets/store.js";

const cycle = (i, mark = "") => ({ i, tokens: [i], mark });

function payload(run, first, total, changes = {}) {
  const cycles = Array.from({ length: total - first }, (_, k) => cycle(first + k));
  return { run, first_cycle: first, total_cycles: total, cycles, labels: {}, ...changes };
}

test("a running payload adds its cycles to those already known", () => {
  const store = new Store();
  store.merge(payload("a", 0, 3));
  store.merge(payload("a", 2, 5));
  assert.deepEqual(store.cycles.map((c) => c.i), [0, 1, 2, 3, 4]);
});

test("a cycle that arrives again replaces the earlier one", () => {
  const store = new Store();
  store.merge(payload("a", 0, 2));
  store.merge(payload("a", 1, 2, { cycles: [cycle(1, "new")] }));
  assert.equal(store.cycles[1].mark, "new");
});

test("missed cycles stay a gap until a full payload repairs it", () => {
  const store = new Store();
  store.merge(payload("a", 0, 2));
  store.merge(payload("a", 4, 6));
  assert.equal(store.cycles[3], undefined);
  assert.equal(store.last, 5);
  store.merge(payload("a", 0, 6));
  assert.equal(store.cycles[3].i, 3);
});

test("a full payload drops cycles the run does not have", () => {
  const store = new Store();
  store.merge(payload("a", 0, 9));
  store.merge(payload("a", 0, 4));
  assert.equal(store.cycles.length, 4);
});

test("another run starts from nothing", () => {
  const store = new Store();
  store.merge(payload("a", 0, 9, { labels: { 1: ["one"] } }));
  store.merge(payload("b", 0, 1));
  assert.equal(store.cycles.length, 1);
  assert.equal(store.label(1), "#1");
});

test("a label without a longer form is its own hover text", () => {
  const store = new Store();
  store.merge(payload("a", 0, 0, { labels: { 1: ["one"], 2: ["tw…", "two"] } }));
  assert.equal(store.hover(1), "one");
  assert.equal(store.hover(2), "two");
});

test("nothing picked follows the newest cycle", () => {
  const store = new Store();
  const selection = new Selection();
  store.merge(payload("a", 0, 3));
  assert.equal(selection.cycle(store), 2);
  store.merge(payload("a", 3, 4));
  assert.equal(selection.cycle(store), 3);
  selection.pick(1);
  assert.equal(selection.cycle(store), 1);
  selection.follow();
  assert.equal(selection.cycle(store), 3);
});

test("a late echo does not undo a newer choice", () => {
  const selection = new Selection();
  selection.pick(4, 1);
  selection.report(0);
  selection.pick(7, 2);
  selection.report(0);
  selection.hear(4, 1);
  assert.equal(selection.picked, 7);
  selection.hear(7, 2);
  assert.equal(selection.picked, 7);
});

test("a payload that keeps saying the same does not undo a choice", () => {
  const selection = new Selection();
  selection.hear(3, 0);
  assert.equal(selection.picked, 3);
  selection.pick(5);
  selection.hear(3, 0);
  assert.equal(selection.picked, 5);
});

test("a choice made in Python is taken over", () => {
  const selection = new Selection();
  selection.pick(4, 1);
  selection.report(0);
  selection.hear(4, 1);
  selection.hear(9, 3);
  assert.deepEqual([selection.picked, selection.node], [9, 3]);
});

test("the decided token is reported from the node where the walk stopped", () => {
  const selection = new Selection();
  selection.pick(4, DECIDED);
  assert.deepEqual(selection.report(6), { cycle: 4, node: 6, decided: true });
  selection.pick(4, 2);
  assert.deepEqual(selection.report(6), { cycle: 4, node: 2 });
  selection.follow();
  assert.equal(selection.report(6), null);
});

test("what is whole ends before the first cycle that is missing", () => {
  const store = new Store();
  assert.equal(store.whole, 0);
  store.merge(payload("a", 0, 2));
  assert.equal(store.whole, 2);
  store.merge(payload("a", 4, 6));
  assert.equal(store.whole, 2);
  store.merge(payload("a", 2, 6));
  assert.equal(store.whole, 6);
});
