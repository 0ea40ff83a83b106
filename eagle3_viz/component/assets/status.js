// The line above everything: which run it is and where, in words, what else to know about it, and how
// far a stage of known length is.

import { html } from "./dom.js";

export class StatusLine {
  constructor() {
    this.words = html("span");
    this.note = html("span", { class: "remark" });
    this.bar = html("progress", { "aria-label": "Progress", hidden: true });
    this.element = html("div", { class: "status" }, html("span", { role: "status" }, this.words, this.note), this.bar);
  }

  remark(note) {
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  update({ sentence, done = 0, total = 0 }) {
    if (this.words.textContent !== sentence) this.words.textContent = sentence;
    this.bar.hidden = !total;
    this.bar.max = total || 1;
    this.bar.value = done;
  }
}
