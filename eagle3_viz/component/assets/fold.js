// Which subtrees are shown. By default only children of the committed path are; `chosen` maps the
// nodes a reader opened or closed to true or false; `forced` nodes are folded to save height. Where
// `keep` is set the layout folds nothing by itself, and every subtree can be closed.

export function isOpen(node, { showAll, chosen, forced }) {
  return chosen.get(node.id) ?? (!forced?.has(node.id) && (showAll || node.onPath));
}

function descendants(tree, node) {
  return node.children.reduce((sum, id) => sum + 1 + descendants(tree, tree.get(id)), 0);
}

const closable = (node, { keep, chosen }) => chosen.has(node.id) || (keep && node.id !== 0);

// Map from id to { node, children, hidden, closable } for every visible node, parents first.
export function visibleTree(tree, folding) {
  const visible = new Map();
  const visit = (node) => {
    const open = isOpen(node, folding);
    visible.set(node.id, {
      node,
      children: open ? node.children : [],
      hidden: open ? 0 : descendants(tree, node),
      closable: open && node.children.length > 0 && closable(node, folding),
    });
    if (open) for (const id of node.children) visit(tree.get(id));
  };
  visit(tree.get(0));
  return visible;
}

// Subtrees that may be folded to save height, the least likely first.
export function foldCandidates(tree, folding) {
  return [...tree.values()]
    .filter((n) => !n.onPath && n.children.length > 0 && !folding.chosen.has(n.id))
    .sort((a, b) => a.score - b.score || b.depth - a.depth)
    .map((n) => n.id);
}
