// Buttons beside the tabs: pruned candidates, zoom, and the list of keys.

import { html } from "./dom.js";
import { KEYS } from "./keys.js";

function pill(text, title, act) {
  const element = html("button", { type: "button", class: "pill", title, "aria-label": title }, text);
  element.addEventListener("click", act);
  return element;
}

function keyList() {
  const rows = KEYS.flatMap(([keys, words]) => [html("dt", {}, keys), html("dd", {}, words)]);
  return html(
    "details",
    { class: "keys" },
    html("summary", { class: "pill" }, "keys"),
    html("dl", { class: "keys-list" }, ...rows),
  );
}

export class Toolbar {
  constructor({ onPruned, onZoom, onFit }) {
    this.pruned = html("button", { type: "button", class: "pill", "aria-pressed": false });
    this.pruned.addEventListener("click", onPruned);
    this.scale = pill("100%", "Fit the tree to its area", onFit);
    this.zoom = html(
      "span",
      { class: "zoom", role: "group", "aria-label": "Zoom" },
      pill("−", "Zoom out", () => onZoom(-1)),
      this.scale,
      pill("+", "Zoom in", () => onZoom(1)),
    );
    this.element = html("div", { class: "toolbar" }, this.pruned, this.zoom, keyList());
  }

  setScale(scale) {
    this.scale.textContent = `${Math.round(100 * scale)}%`;
  }

  // `pruned`: { total, token } of the cycle or null.
  show({ pruned, withPruned, tree }) {
    const total = pruned?.total ?? 0;
    const drawn = pruned?.token.length ?? 0;
    const most = drawn < total ? `the ${drawn} best of ${total}` : `${total}`;
    this.pruned.hidden = total === 0;
    this.pruned.textContent = `pruned (${most})`;
    this.pruned.title = "Candidates that were drafted and dropped by the budget before verification";
    this.pruned.setAttribute("aria-pressed", withPruned);
    this.zoom.hidden = !tree;
  }
}
