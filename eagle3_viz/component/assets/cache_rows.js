// The rows that one pass wrote into the target's cache, and what became of each.

import { html } from "./dom.js";
import { rowsAt } from "./walk.js";

const FATES = { written: "in the cache", kept: "kept", dropped: "dropped" };
const MARKS = { written: "", kept: "✓", dropped: "✕" };

function cell({ node, token, fate, position }, store) {
  const words = fate === "kept" ? `kept at position ${position}` : FATES[fate];
  const title = `row ${node}, ${store.hover(token)}: ${words}`;
  return html(
    "li",
    { class: `cache-row ${fate}`, title, "aria-label": title, "data-node": node },
    html("span", { class: "cache-token", dir: "auto" }, store.label(token)),
    html("span", { class: "cache-fate" }, fate === "kept" ? `✓ ${position}` : MARKS[fate] || "·"),
  );
}

function told(rows, stage) {
  if (!stage.verified) return "verification will write a row for each node";
  if (!stage.kept) return `${rows.length} rows written by this pass`;
  return `${stage.kept.length} of ${rows.length} rows kept`;
}

export class CacheRows {
  constructor() {
    this.title = html("h4");
    this.prefix = html("span", { class: "cache-prefix" });
    this.list = html("ul", { class: "cache-list" });
    this.element = html("div", { class: "cache", hidden: true }, this.title, html("div", { class: "cache-line" }, this.prefix, this.list));
  }

  // Part of the walk; the rows are there from verification on, which writes them.
  show(cycle, store, stage) {
    this.element.hidden = stage === null;
    if (stage === null) return;
    const key = [store.run, cycle.i, stage.verified, stage.kept !== null].join("/");
    if (key === this.drawn) return;
    this.drawn = key;
    const rows = stage.verified ? rowsAt(cycle, stage) : [];
    this.title.textContent = `KV cache: ${told(rows, stage)}`;
    this.prefix.textContent = `prefix, ${cycle.prefix_length} rows`;
    this.list.replaceChildren(...rows.map((row) => cell(row, store)));
  }
}
