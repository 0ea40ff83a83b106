// Reads a packed trace from standard input and prints, for each cycle, what the browser makes of it:
// the states after the last step of the walk, the states of the whole cycle, and the kept rows.

import { buildTree } from "../../eagle3_viz/component/assets/model.js";
import { stageAt, stateAt, rowsAt } from "../../eagle3_viz/component/assets/walk.js";
import { unpack } from "../../eagle3_viz/component/assets/unpack.js";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const trace = await unpack(Buffer.concat(chunks).toString("ascii"));

const cycles = trace.cycles.map((cycle) => {
  const tree = buildTree(cycle, true);
  const stage = stageAt(cycle.steps, cycle.steps.length - 1);
  const nodes = [...tree.values()];
  return {
    walked: Object.fromEntries(nodes.map((node) => [node.id, stateAt(node, stage)])),
    whole: Object.fromEntries(nodes.map((node) => [node.id, node.state])),
    kept: rowsAt(cycle, stage)
      .filter(({ fate }) => fate === "kept")
      .map(({ node, position }) => [node, position]),
  };
});
console.log(JSON.stringify(cycles));
