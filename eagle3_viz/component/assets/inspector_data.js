// What the inspector says about a node: where it was judged, beside whom, and by which numbers. Pure.

import { known } from "./format.js";
import { DECIDED } from "./selection.js";

const BARS = 9; // tokens with bars, beside those that were tested or decided

// The visited node whose distributions judged `id`, and the child of it that leads to `id`. The root
// is judged by nobody: what is shown for it is what follows it.
export function judgeOf(cycle, tree, id) {
  const recorded = new Map((cycle.distributions ?? []).map((at) => [at.node, at]));
  let branch = id;
  let node = id === 0 ? 0 : tree.get(id).parent;
  while (node > 0 && !recorded.has(node)) {
    branch = node;
    node = tree.get(node).parent;
  }
  return { at: recorded.get(node) ?? null, node, branch: id === 0 ? null : branch };
}

const valuesOf = (top) => new Map(top ? top.token.map((token, index) => [token, top.p[index]]) : []);

// Children that were tested or decided have bars whatever their probability.
function judgedChildren(tree, node) {
  return tree.get(node).children.map((id) => tree.get(id)).filter((child) => child.test || child.id === DECIDED);
}

// Rows { token, p, q, residual, warped, node } of the most likely tokens of p, q and the residual.
// A value is null where it was not recorded: the token is not in the head of that distribution.
export function barsOf(at, tree, branch) {
  const [p, q, residual, warped] = [at.p, at.q, at.residual, at.warped].map(valuesOf);
  const best = new Map();
  for (const values of [p, q, residual]) {
    for (const [token, value] of values) best.set(token, Math.max(best.get(token) ?? 0, value));
  }
  const likely = [...best.keys()].sort((a, b) => best.get(b) - best.get(a)).slice(0, BARS);
  const judged = judgedChildren(tree, at.node);
  if (branch !== null && branch !== undefined) judged.push(tree.get(branch));
  const drafted = new Map(tree.get(at.node).children.map((id) => [tree.get(id).token, tree.get(id)]));
  const tokens = new Set([...likely, ...judged.map((node) => node.token)]);
  const rows = [...tokens].map((token) => {
    const node = drafted.get(token);
    return {
      token,
      p: p.get(token) ?? node?.p ?? null,
      q: at.q ? (q.get(token) ?? node?.q ?? null) : null,
      residual: residual.get(token) ?? null,
      warped: at.warped ? (warped.get(token) ?? node?.warped ?? null) : null,
      node: node?.id ?? null,
    };
  });
  const height = (row) => Math.max(row.p ?? 0, row.q ?? 0, row.residual ?? 0);
  return rows.sort((a, b) => height(b) - height(a));
}

// The end of the axis: the least of these that holds every bar.
const ENDS = [0.1, 0.25, 0.5, 1];

export function axisEnd(rows) {
  const most = Math.max(0, ...rows.flatMap(({ p, q, residual, warped }) => [p, q, residual, warped].filter(known)));
  return ENDS.find((end) => most <= end) ?? 1;
}

// The tested children of the node that judged, as tested, and `id` itself where it was not.
export function siblingsOf(tree, judge, id) {
  const children = tree.get(judge).children.map((child) => tree.get(child));
  return children.filter((child) => child.test || (child.id === id && child.id !== DECIDED));
}

// Rows of [name, value]: what the record knows of a whole distribution, and of the children where
// there are any.
export function figuresOf(at, tree, number) {
  const drafted = tree.get(at.node).children.some((id) => id !== DECIDED);
  const ofChildren = [
    ["p on the children", at.covered],
    ["some child accepted", at.expected],
    ["every child refused", at.refused],
  ];
  const rows = [
    ["overlap, sum of min(p, q)", at.overlap],
    ...(drafted ? ofChildren : []),
    ["KL(q, p), nats", at.kl],
    ["entropy of p, nats", at.entropy_p],
    ["entropy of q, nats", at.entropy_q],
  ];
  return rows.filter(([, value]) => known(value)).map(([name, value]) => [name, number(value)]);
}

// How the accept probability of a tested node is shown: `accept` and `draw` on a scale of 0 to 1.
export function testOf(node) {
  if (!node.test) return null;
  const { p, accept, draw } = node.test;
  const before = node.warped ?? node.p;
  const changed = known(p) && known(before) && known(draw) && Math.abs(p - before) > 0.0005;
  return { accept, draw: known(draw) ? draw : null, p, before: changed ? before : null };
}
