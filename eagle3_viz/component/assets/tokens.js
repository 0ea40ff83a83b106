// The token strip: what the run wrote, colour and mark by origin, one underlined group per cycle.

import { html } from "./dom.js";
import { ORIGINS } from "./model.js";

const MARKS = { recovered: "◆", bonus: "★" };
const BLANK = /([·␣⇥↵␍])/u;
const PREFILL = -1;
const LINE = 27; // px, as in the style sheet

// Blanks are faint and lines may break before a space; a newline token really breaks the line.
export function runs(text) {
  return text
    .split(BLANK)
    .filter((part) => part !== "")
    .map((part) => ({ part, blank: BLANK.test(part), breaks: part === "↵" }));
}

function token(text, origin) {
  const name = ORIGINS[origin];
  const element = html("span", { class: `token ${name}`, dir: "auto" });
  if (text === "") {
    element.title = "part of the character before it";
    element.append(html("span", { class: "blank" }, "+"));
  }
  for (const { part, blank, breaks } of runs(text)) {
    if (part === "·") element.append(html("wbr"));
    element.append(blank ? html("span", { class: "blank" }, part) : part);
    if (breaks) element.append("\n");
  }
  if (MARKS[name]) element.append(html("span", { class: "mark", "aria-hidden": "true" }, MARKS[name]));
  return element;
}

export class TokenStrip {
  constructor(onPick) {
    this.lines = html("div", {
      class: "lines",
      role: "group",
      tabindex: 0,
      "aria-label": "Generated tokens",
    });
    this.element = html("div", { class: "strip" }, this.lines);
    this.groups = new Map();
    this.sticky = true;
    this.selected = null;
    this.lines.addEventListener("click", (event) => {
      const group = event.target.closest(".cycle");
      if (group?.dataset.cycle >= 0) onPick(Number(group.dataset.cycle));
    });
    this.lines.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.lines;
      this.sticky = scrollHeight - scrollTop - clientHeight < 12;
    });
  }

  update(store) {
    if (this.run !== store.run) this.clear(store.run);
    this.group(PREFILL, store.meta.opening_text, store.meta.opening_text.map(() => 0));
    store.cycles.forEach((cycle) => this.group(cycle.i, cycle.text, cycle.origins));
    for (const [index, { element }] of this.groups) {
      if (index > store.last) {
        element.remove();
        this.groups.delete(index);
      }
    }
    if (this.sticky) this.toEnd();
  }

  toEnd() {
    this.sticky = true;
    this.lines.scrollTop = this.lines.scrollHeight;
  }

  clear(run) {
    this.run = run;
    this.groups.clear();
    this.lines.replaceChildren();
    this.sticky = true;
    this.selected = null;
  }

  group(index, texts, origins) {
    const known = this.groups.get(index);
    const content = texts.join("\u0000");
    if (known?.content === content) return;
    const element = html("span", { class: "cycle", "data-cycle": index });
    element.append(...texts.map((text, at) => token(text, origins[at])));
    if (known) known.element.replaceWith(element);
    else this.lines.insertBefore(element, this.after(index));
    this.groups.set(index, { element, content });
    element.classList.toggle("selected", index === this.selected);
  }

  // Where a group belongs when an earlier one arrives late.
  after(index) {
    let next = null;
    for (const [other, { element }] of this.groups) {
      if (other > index && (next === null || other < next.other)) next = { other, element };
    }
    return next?.element ?? null;
  }

  select(index, follow) {
    if (index === this.selected || index < 0) return;
    const group = this.groups.get(index)?.element;
    // First what asks for the layout, then what changes it: one layout instead of two.
    if (group && !follow) this.reveal(group);
    this.groups.get(this.selected)?.element.classList.remove("selected");
    this.selected = index;
    group?.classList.add("selected");
  }

  // Scrolls the strip alone; scrollIntoView would move the page as well.
  reveal(group) {
    const box = this.lines.getBoundingClientRect();
    const mine = group.getBoundingClientRect();
    if (mine.top >= box.top - 2 && mine.bottom <= box.bottom + 2) return;
    const line = Math.floor((mine.top - box.top + this.lines.scrollTop) / LINE);
    this.lines.scrollTop = Math.max(line - 1, 0) * LINE;
  }
}
