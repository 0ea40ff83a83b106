// The row above the strip: the run's figures, and the legend of states.

import { html, svg } from "./dom.js";

const LEGEND = [
  ["accepted", "accepted"],
  ["rejected", "rejected"],
  ["recovered", "recovered"],
  ["bonus", "bonus"],
  ["unreached", "not reached"],
  ["plain", "plain: no draft"],
];

const SAMPLE = { rejected: "✕", recovered: "◆", bonus: "★" };

function swatch(state) {
  const glyph = SAMPLE[state];
  return svg(
    "svg",
    { class: `swatch node ${state}`, width: 20, height: 14, "aria-hidden": "true" },
    svg("rect", { class: "box", x: 1, y: 1, width: 18, height: 12, rx: 4 }),
    glyph ? svg("text", { class: "glyph", x: 10, y: 10.4, "text-anchor": "middle" }, glyph) : null,
  );
}

function bar(kind) {
  return svg(
    "svg",
    { width: 18, height: 6, "aria-hidden": "true" },
    svg("rect", { class: `bar ${kind}`, x: 0, y: 1, width: 18, height: 4, rx: 2 }),
  );
}

// `bars`: whether the colours of p and q are told too.
export function legend(bars = true) {
  const items = LEGEND.map(([state, words]) =>
    html("span", { class: "legend-item" }, swatch(state), words),
  );
  if (bars) {
    items.push(html("span", { class: "legend-item" }, bar("p"), "p target"));
    items.push(html("span", { class: "legend-item" }, bar("q"), "q draft"));
  }
  return html("div", { class: "legend", "aria-label": "Legend" }, ...items);
}

export class Figures {
  constructor() {
    this.element = html("dl", { class: "figures" });
    this.values = new Map();
  }

  update(metrics) {
    if (metrics.length === 0) this.clear();
    for (const { name, value, hint, aside } of metrics) {
      if (!this.values.has(name)) this.add(name);
      const { cell, number, beside } = this.values.get(name);
      cell.parentElement.title = hint;
      if (number.textContent !== value) number.textContent = value;
      if (beside.textContent !== aside) beside.textContent = aside;
      cell.classList.toggle("waiting", value.endsWith("…"));
    }
  }

  clear() {
    this.values.clear();
    this.element.replaceChildren();
  }

  add(name) {
    const [number, beside] = [html("span"), html("span", { class: "aside" })];
    const cell = html("dd", {}, number, beside);
    this.values.set(name, { cell, number, beside });
    this.element.append(html("div", { class: "figure" }, html("dt", {}, name), cell));
  }
}
