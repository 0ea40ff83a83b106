// From the arrays of one cycle to a tree of nodes with states, as the drawing needs it.

import { DECIDED } from "./selection.js";

const STATES = ["root", "accepted", "rejected", "unreached", "pruned"];
export const ORIGINS = ["plain", "accepted", "recovered", "bonus"];

function kept(cycle) {
  const { token, parent, q, p, warped, p_rank, q_rank, state, tested } = cycle.nodes;
  const nodes = token.map((id, index) => ({
    id: index,
    token: id,
    parent: parent[index],
    state: STATES[state[index]],
    q: q[index],
    p: p[index],
    warped: warped ? warped[index] : null,
    pRank: p_rank[index],
    qRank: q_rank[index],
    test: null,
    onPath: false,
  }));
  for (const [index, p_tested, accept, draw] of tested) {
    nodes[index].test = { p: p_tested, accept, draw };
  }
  for (const index of cycle.path) nodes[index].onPath = true;
  return nodes;
}

function pruned(cycle) {
  const { token, parent, q } = cycle.pruned;
  const first = cycle.nodes.token.length;
  return token.map((id, index) => ({
    id: first + index,
    token: id,
    parent: parent[index],
    state: "pruned",
    q: q[index],
    p: null,
    test: null,
    onPath: false,
  }));
}

function decided(cycle) {
  if (!cycle.decided) return [];
  const { token, origin, p, q, q_rank } = cycle.decided;
  return [
    {
      id: DECIDED,
      token,
      parent: cycle.path[cycle.path.length - 1],
      state: ORIGINS[origin],
      q,
      p,
      qRank: q_rank,
      test: null,
      onPath: true,
    },
  ];
}

// Map from id to node; `children` in proposal order, the decided token last; `depth` 0 is the root.
export function buildTree(cycle, withPruned = false) {
  const all = kept(cycle);
  if (withPruned && cycle.pruned) all.push(...pruned(cycle));
  all.push(...decided(cycle));
  const tree = new Map(all.map((node) => [node.id, { ...node, children: [], depth: 0, score: 0 }]));
  for (const node of tree.values()) {
    const parent = tree.get(node.parent);
    if (!parent) continue;
    parent.children.push(node.id);
    node.depth = parent.depth + 1;
    node.score = parent.score + Math.log(Math.max(node.q ?? 0, 1e-12));
  }
  if (cycle.nodes.order) sortChildren(tree, cycle.nodes.order);
  return tree;
}

function sortChildren(tree, order) {
  const rank = (id) => (id === DECIDED ? Infinity : (order[id] ?? Number.MAX_SAFE_INTEGER));
  for (const node of tree.values()) node.children.sort((a, b) => rank(a) - rank(b));
}
