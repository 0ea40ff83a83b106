// The controls of the walk, which step it is at, and that step in one sentence.

import { html, svg } from "./dom.js";

const INVITATION = "Play the walk: how this cycle was drafted, verified, tested and kept, step by step.";
const NO_WALK = "This cycle has no recorded tree to walk through.";

const ICONS = {
  back: "M12 3v10l-7 -5zM3 3h2v10h-2z",
  play: "M4 2.5l9.5 5.5l-9.5 5.5z",
  pause: "M4 3h3v10h-3zM9.5 3h3v10h-3z",
  on: "M4 3v10l7 -5zM11 3h2v10h-2z",
  leave: "M4 5l1 -1l3 3l3 -3l1 1l-3 3l3 3l-1 1l-3 -3l-3 3l-1 -1l3 -3z",
};

function button(name, title, act) {
  const icon = svg("path", { d: ICONS[name] });
  const element = html(
    "button",
    { type: "button", class: "pill icon", title, "aria-label": title },
    svg("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, icon),
  );
  element.addEventListener("click", act);
  return { element, icon };
}

export class WalkBar {
  constructor(player) {
    this.back = button("back", "Step back", () => player.move(-1));
    this.play = button("play", "Play the walk", () => player.toggle());
    this.on = button("on", "Step on", () => player.move(1));
    this.leave = button("leave", "Leave the walk", () => player.leave());
    this.count = html("span", { class: "walk-count" });
    this.sentence = html("p", { class: "walk-sentence", "aria-live": "polite" });
    this.element = html(
      "div",
      { class: "walk-bar", role: "group", "aria-label": "Acceptance walk" },
      this.back.element,
      this.play.element,
      this.on.element,
      this.leave.element,
      this.count,
      this.sentence,
    );
  }

  show({ steps, at, step, playing, last }) {
    const empty = steps.length === 0;
    const title = playing ? "Pause the walk" : "Play the walk";
    this.play.icon.setAttribute("d", playing ? ICONS.pause : ICONS.play);
    this.play.element.title = title;
    this.play.element.setAttribute("aria-label", title);
    this.play.element.disabled = empty;
    this.back.element.disabled = empty || at === 0;
    this.on.element.disabled = empty || at === last;
    this.leave.element.disabled = at === null;
    this.count.textContent = step ? `step ${at + 1} of ${steps.length}` : "";
    this.sentence.textContent = step ? step.sentence : empty ? NO_WALK : INVITATION;
    this.sentence.classList.toggle("idle", !step);
  }
}
