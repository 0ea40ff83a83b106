// A row of tabs, as the ARIA pattern has it: arrow keys go from tab to tab.

import { html } from "./dom.js";

export class Tabs {
  constructor(names, onChoose) {
    this.names = names;
    this.buttons = names.map((name) =>
      html("button", { type: "button", role: "tab", class: "tab", "data-tab": name }, name[0].toUpperCase() + name.slice(1)),
    );
    this.element = html("div", { class: "tabs", role: "tablist", "aria-label": "Views of the cycle" }, ...this.buttons);
    this.element.addEventListener("click", (event) => {
      const name = event.target.closest("[data-tab]")?.dataset.tab;
      if (name) onChoose(name);
    });
    this.element.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      const next = (names.indexOf(this.chosen) + by + names.length) % names.length;
      onChoose(names[next]);
      this.buttons[next].focus();
      event.preventDefault();
    });
  }

  show(chosen) {
    this.chosen = chosen;
    this.names.forEach((name, index) => {
      this.buttons[index].setAttribute("aria-selected", name === chosen);
      this.buttons[index].setAttribute("tabindex", name === chosen ? 0 : -1);
    });
  }
}
