// The line above everything: where the run is, in words, and how far a stage of known length.

import { html } from "./dom.js";

export class StatusLine {
  constructor() {
    this.words = html("span", { role: "status" });
    this.bar = html("progress", { "aria-label": "Progress", hidden: true });
    this.element = html("div", { class: "status" }, this.words, this.bar);
  }

  update({ sentence, done = 0, total = 0 }) {
    if (this.words.textContent !== sentence) this.words.textContent = sentence;
    this.bar.hidden = !total;
    this.bar.max = total || 1;
    this.bar.value = done;
  }
}
