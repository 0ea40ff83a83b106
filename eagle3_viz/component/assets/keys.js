// Which key does what on the trace view. Pure, so that the list a reader sees is the one that works.

export const KEYS = [
  ["← →", "cycle before, cycle after"],
  ["Home End", "first cycle, last cycle"],
  ["↑ ↓", "node before, node after"],
  ["P D S", "to the parent, deeper, to the next sibling"],
  ["F", "fold or open the subtree of the node"],
  ["Space", "play or pause the walk"],
  [", .", "walk one step back, one step on"],
  ["Esc", "leave the walk"],
  ["+ − 0", "zoom in, out, fit"],
  ["Shift ← ↑ → ↓", "move the tree"],
  ["1 2 3 4", "tree, icicle, table, mask"],
];

const PLAIN = {
  ArrowLeft: ["cycle", -1],
  ArrowRight: ["cycle", 1],
  PageUp: ["cycle", 10],
  PageDown: ["cycle", -10],
  Home: ["cycle", -Infinity],
  End: ["cycle", Infinity],
  ArrowUp: ["node", "before"],
  ArrowDown: ["node", "after"],
  p: ["node", "parent"],
  d: ["node", "child"],
  s: ["node", "sibling"],
  f: ["fold"],
  " ": ["play"],
  ",": ["walk", -1],
  ".": ["walk", 1],
  Escape: ["leave"],
  "+": ["zoom", 1],
  "=": ["zoom", 1],
  "-": ["zoom", -1],
  0: ["zoom", 0],
  1: ["tab", 0],
  2: ["tab", 1],
  3: ["tab", 2],
  4: ["tab", 3],
};

const PAN = {
  ArrowLeft: ["pan", 1, 0],
  ArrowRight: ["pan", -1, 0],
  ArrowUp: ["pan", 0, 1],
  ArrowDown: ["pan", 0, -1],
};

// [command, ...arguments] of a key press, null where it is not ours.
export function commandOf({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  if (ctrlKey || altKey || metaKey) return null;
  if (shiftKey && PAN[key]) return PAN[key];
  return PLAIN[key.length === 1 ? key.toLowerCase() : key] ?? null;
}

// The node a move leads to among `nodes`, a map in reading order of placed nodes; null: nowhere.
export function nodeMoved(nodes, id, move) {
  const order = [...nodes.keys()];
  const { node, children } = nodes.get(id);
  const siblings = nodes.get(node.parent)?.children.filter((other) => nodes.has(other)) ?? [id];
  const target = {
    before: order[order.indexOf(id) - 1],
    after: order[order.indexOf(id) + 1],
    parent: node.parent,
    child: children.find((child) => nodes.get(child)?.node.onPath) ?? children[0],
    sibling: siblings[(siblings.indexOf(id) + 1) % siblings.length],
  }[move];
  return nodes.has(target) && target !== id ? target : null;
}
