import assert from "node:assert/strict";
import { test } from "node:test";

import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { Player } from "../../eagle3_viz/component/assets/player.js";
import { DECIDED } from "../../eagle3_viz/component/assets/selection.js";
import { nodeAt, rowsAt, stageAt, stateAt, subjectOf } from "../../eagle3_viz/component/assets/walk.js";

// Root 0; its children 1 (refused), 2 (accepted), 3; 4 below 1, 5 below 2 (refused); 6 is pruned.
const cycle = {
  i: 0,
  prefix_length: 40,
  tokens: [12, 77],
  path: [0, 2],
  nodes: {
    token: [10, 11, 12, 13, 14, 15],
    parent: [-1, 0, 0, 0, 1, 2],
    state: [0, 2, 1, 3, 3, 2],
    p: [null, 0.1, 0.6, 0.1, 0.3, 0.2],
    q: [null, 0.5, 0.3, 0.1, 0.9, 0.8],
    warped: null,
    p_rank: [-1, 2, 0, 1, 0, 1],
    q_rank: [-1, 0, 1, 2, 0, 0],
    tested: [[1, 0.1, 0.1, 0.7], [2, 0.66, 0.66, 0.2], [5, 0.2, 0.2, 0.9]],
    order: null,
  },
  pruned: { total: 1, token: [16], parent: [2], q: [0.05] },
  decided: { token: 77, origin: 2, p: 0.4, q: 0.01, q_rank: 8 },
};
const steps = [
  { kind: "draft", depth: 1 },
  { kind: "draft", depth: 2 },
  { kind: "verify" },
  { kind: "test", node: 1, accepted: false },
  { kind: "test", node: 2, accepted: true },
  { kind: "test", node: 5, accepted: false },
  { kind: "decided" },
  { kind: "commit", kept: [0, 2] },
];
const tree = buildTree(cycle, true);
const statesAt = (at) => new Map([...tree.values()].map((node) => [node.id, stateAt(node, stageAt(steps, at))]));
const shownAt = (at) => [...statesAt(at)].filter(([, state]) => state !== null).map(([id]) => id);

test("drafting shows the tree depth by depth, candidates that will be pruned included", () => {
  assert.deepEqual(shownAt(0), [0, 1, 2, 3]);
  assert.deepEqual(shownAt(1), [0, 1, 2, 3, 4, 5, 6]);
  assert.equal(statesAt(1).get(6), "drafted");
});

test("p is known from verification on, which is when the budget has dropped its candidates", () => {
  const drafted = nodeAt(tree.get(1), stageAt(steps, 1));
  const verified = nodeAt(tree.get(1), stageAt(steps, 2));
  assert.deepEqual([drafted.state, drafted.p, drafted.q], ["drafted", null, 0.5]);
  assert.deepEqual([verified.state, verified.p], ["verified", 0.1]);
  assert.equal(statesAt(2).get(6), "pruned");
});

test("a verdict and its test appear at its own step and not before", () => {
  assert.equal(statesAt(3).get(1), "rejected");
  assert.equal(statesAt(3).get(2), "verified");
  assert.equal(nodeAt(tree.get(2), stageAt(steps, 3)).test, null);
  assert.equal(statesAt(4).get(2), "accepted");
  assert.deepEqual(nodeAt(tree.get(2), stageAt(steps, 4)).test, { p: 0.66, accept: 0.66, draw: 0.2 });
});

test("the target's own token appears when it is decided", () => {
  assert.equal(statesAt(5).get(DECIDED), null);
  assert.equal(statesAt(6).get(DECIDED), "recovered");
});

test("at the end every node has the state of the record", () => {
  const end = statesAt(steps.length - 1);
  for (const node of tree.values()) assert.equal(end.get(node.id), node.state);
});

test("rows of the cache are written by verification, then kept in order or dropped", () => {
  assert.deepEqual(rowsAt(cycle, stageAt(steps, 2)).map((row) => row.fate), Array(6).fill("written"));
  const rows = rowsAt(cycle, stageAt(steps, 7));
  assert.deepEqual(rows.map((row) => row.fate), ["kept", "dropped", "kept", "dropped", "dropped", "dropped"]);
  assert.deepEqual(rows.map((row) => row.position), [40, null, 41, null, null, null]);
});

test("a step is about the node it tests or decides", () => {
  assert.deepEqual(steps.map(subjectOf), [null, null, null, 1, 2, 5, DECIDED, null]);
});

// A clock that a test moves by hand.
function manual() {
  let waiting = null;
  return {
    clock: {
      set: (action) => {
        waiting = action;
        return action;
      },
      clear: () => {
        waiting = null;
      },
    },
    tick: () => {
      const action = waiting;
      waiting = null;
      action?.();
    },
    get idle() {
      return waiting === null;
    },
  };
}

function playing() {
  const time = manual();
  const seen = [];
  const player = new Player(() => seen.push(player.at), time.clock);
  player.load(steps);
  return { player, time, seen };
}

test("playing goes through every step once and stops at the last", () => {
  const { player, time, seen } = playing();
  player.toggle();
  while (!time.idle) time.tick();
  assert.deepEqual(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.ok(!player.playing);
  player.toggle();
  assert.equal(player.at, 0);
});

test("a pause keeps the step and playing goes on from it", () => {
  const { player, time } = playing();
  player.toggle();
  time.tick();
  player.toggle();
  assert.ok(time.idle && player.at === 1);
  player.toggle();
  time.tick();
  assert.equal(player.at, 2);
});

test("steps by hand pause and stay within the walk", () => {
  const { player, time } = playing();
  player.toggle();
  player.move(1);
  assert.ok(time.idle && !player.playing && player.at === 1);
  player.move(-1);
  player.move(-1);
  assert.equal(player.at, 0);
  for (let i = 0; i < 20; i += 1) player.move(1);
  assert.equal(player.at, 7);
});

test("outside the walk a step on shows its start and a step back its end", () => {
  const { player } = playing();
  player.move(-1);
  assert.equal(player.at, 7);
  player.leave();
  assert.equal(player.step, null);
  player.move(1);
  assert.equal(player.at, 0);
});

test("another cycle ends the walk, and one without steps cannot be played", () => {
  const { player, time } = playing();
  player.toggle();
  player.load([]);
  assert.ok(time.idle && player.at === null);
  player.toggle();
  player.move(1);
  assert.ok(!player.playing && player.at === null);
});
