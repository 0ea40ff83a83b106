// What of a cycle has happened at one step of its acceptance walk. Pure.

import { DECIDED } from "./selection.js";

const HAPPENS = {
  draft: (stage, step) => {
    stage.depth = step.depth;
  },
  verify: (stage) => {
    stage.verified = true;
  },
  test: (stage, step) => stage.tested.set(step.node, step.accepted),
  decided: (stage) => {
    stage.decided = true;
  },
  commit: (stage, step) => {
    stage.kept = step.kept;
  },
};

// After steps 0 to `at`: how deep was drafted, whether p is known, the verdict of each tested node,
// whether the target's own token is known, and the rows that the cache kept (null before that).
export function stageAt(steps, at) {
  const stage = { depth: 0, verified: false, tested: new Map(), decided: false, kept: null };
  for (const step of steps.slice(0, at + 1)) HAPPENS[step.kind](stage, step);
  return stage;
}

// The state in which a node of the tree is shown at a stage, null while it does not exist.
export function stateAt(node, stage) {
  if (node.id === 0) return "root";
  if (node.id === DECIDED) return stage.decided ? node.state : null;
  if (node.depth > stage.depth) return null;
  if (node.state === "pruned") return stage.verified ? "pruned" : "drafted";
  if (stage.tested.has(node.id)) return stage.tested.get(node.id) ? "accepted" : "rejected";
  if (stage.kept) return "unreached";
  return stage.verified ? "verified" : "drafted";
}

// The node as it is known at a stage: numbers that come later are left out.
export function nodeAt(node, stage) {
  const state = stateAt(node, stage);
  if (state === null) return null;
  const p = stage.verified || node.id === DECIDED ? node.p : null;
  return { ...node, state, p, test: stage.tested.has(node.id) ? node.test : null };
}

// The node that a step is about, null where it is about the whole cycle.
export function subjectOf(step) {
  if (step.kind === "test") return step.node;
  return step.kind === "decided" ? DECIDED : null;
}

// What becomes of each verified row of the cache: written, then kept at a position or dropped.
export function rowsAt(cycle, stage) {
  return cycle.nodes.token.map((token, node) => {
    const place = stage.kept ? stage.kept.indexOf(node) : -1;
    const fate = !stage.kept ? "written" : place < 0 ? "dropped" : "kept";
    return { node, token, fate, position: place < 0 ? null : cycle.prefix_length + place };
  });
}
