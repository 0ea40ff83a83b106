// What is said where there is no tree to draw.

const NO_CYCLE = {
  finished: "The run ended at prefill: no cycle.",
  stopped: "The run was stopped before its first cycle.",
  failed: "The run failed before its first cycle.",
};

// Why there is no tree to draw; empty where there is one.
export function noticeFor(meta, cycle) {
  if (meta.method === "ar") {
    return "Autoregression: every step runs the target once and commits one token, so there is no draft tree.";
  }
  if (!cycle) return NO_CYCLE[meta.status] ?? "No cycle yet.";
  if (!cycle.nodes) return "Recording was off for this run, so its draft trees were not kept.";
  return "";
}
