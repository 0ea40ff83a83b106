// One bar per cycle: accepted drafts, capped by the token the target added. It is the scrubber.

import { svg } from "./dom.js";
import { ORIGINS } from "./model.js";

const HEIGHT = 44;
const BASE = 37;
const TOP = 3;
const STEPS = [16, 12, 9, 7, 5, 4, 3, 2];

// The widest step at which all bars fit: widths change rarely while a run grows.
export function barPitch(total, width) {
  return STEPS.find((step) => step * total <= width) ?? width / Math.max(total, 1);
}

export function cycleAt(x, pitch, total) {
  return Math.min(Math.max(Math.floor(x / pitch), 0), total - 1);
}

// Counts per bar; what arrived late is a gap until a full payload repairs it.
export function barOf(cycle) {
  if (!cycle) return null;
  const last = ORIGINS[cycle.origins[cycle.origins.length - 1]] ?? "plain";
  const own = cycle.origins.filter((origin) => ORIGINS[origin] === "accepted").length;
  return { accepted: own, cap: last === "accepted" ? null : last };
}

export function describeCycle(cycle, store) {
  if (!cycle) return "cycle not received yet";
  const { cap } = barOf(cycle);
  const alone = store.meta.method === "ar";
  const token = store.hover(cycle.tokens[cycle.tokens.length - 1]);
  const words = [`${alone ? "step" : "cycle"} ${cycle.i + 1} of ${store.cycles.length}`];
  if (cycle.cut) words.push(`${cycle.accepted} accepted, ${cycle.tokens.length} kept (${cycle.finish})`);
  else if (!alone) words.push(`${cycle.accepted} accepted`);
  if (cap) words.push(alone ? token : `${cap} ${token}`);
  if (cycle.ms !== null) words.push(`${cycle.ms.toFixed(1)} ms`);
  return words.join(" · ");
}

const rectangle = (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z`;

export function barPaths(store, pitch) {
  const paths = { accepted: "", recovered: "", bonus: "", plain: "" };
  const tallest = store.cycles.reduce((most, cycle) => Math.max(most, cycle.tokens.length), 1);
  const unit = Math.min((BASE - TOP) / tallest, 12);
  const gap = pitch >= 4 ? 1 : 0;
  store.cycles.forEach((cycle, index) => {
    const bar = barOf(cycle);
    if (!bar) return;
    const x = index * pitch + gap / 2;
    const width = Math.max(pitch - gap, 0.5);
    const y = BASE - bar.accepted * unit;
    if (bar.accepted > 0) paths.accepted += rectangle(x, y, width, bar.accepted * unit);
    if (!bar.cap) return;
    const lift = bar.accepted > 0 ? 1 : 0;
    const cap = Math.max(unit - 1, 2);
    const inset = bar.cap === "bonus" && pitch >= 5 ? 0.75 : 0;
    paths[bar.cap] += rectangle(x + inset, y - cap - lift + inset, width - 2 * inset, cap - 2 * inset);
  });
  return paths;
}

const MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

export class Scrubber {
  constructor({ onScrub, onFollow, onRelease }) {
    this.handlers = { onScrub, onFollow, onRelease };
    this.bars = {};
    this.element = svg("svg", {
      class: "scrubber",
      role: "slider",
      tabindex: 0,
      height: HEIGHT,
      "aria-label": "Cycle",
      "aria-orientation": "horizontal",
      "aria-valuemin": 1,
    });
    this.shade = svg("rect", { class: "shade", y: 0, height: BASE });
    this.marker = svg("path", { class: "marker" });
    this.element.append(svg("line", { class: "base", x1: 0, x2: "100%", y1: BASE + 0.5, y2: BASE + 0.5 }), this.shade);
    for (const kind of ["accepted", "recovered", "bonus", "plain"]) {
      this.bars[kind] = svg("path", { class: `cap ${kind}` });
      this.element.append(this.bars[kind]);
    }
    this.element.append(this.marker);
    this.listen();
  }

  listen() {
    const scrub = (event) => {
      const x = event.clientX - this.element.getBoundingClientRect().left;
      if (this.total > 0) this.handlers.onScrub(cycleAt(x, this.pitch, this.total));
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.element.setPointerCapture(event.pointerId);
      this.dragging = true;
      scrub(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.dragging) scrub(event);
    });
    const release = () => {
      if (!this.dragging) return;
      this.dragging = false;
      this.handlers.onRelease();
    };
    this.element.addEventListener("pointerup", release);
    this.element.addEventListener("pointercancel", release);
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (this.total === 0) return;
    if (event.key === "End") this.handlers.onFollow();
    else if (event.key === "Home") this.handlers.onScrub(0);
    else if (MOVES[event.key]) {
      const moved = this.selected + MOVES[event.key];
      this.handlers.onScrub(Math.min(Math.max(moved, 0), this.total - 1));
    } else return;
    event.preventDefault();
    this.handlers.onRelease();
  }

  update(store, width) {
    this.total = store.cycles.length;
    this.pitch = barPitch(this.total, width);
    const state = `${store.run}/${store.revision}/${width}`;
    if (state !== this.drawn) {
      this.drawn = state;
      this.element.classList.toggle("fine", this.pitch < 5);
      const paths = barPaths(store, this.pitch);
      for (const [kind, d] of Object.entries(paths)) this.bars[kind].setAttribute("d", d);
    }
    this.element.setAttribute("aria-valuemax", Math.max(this.total, 1));
  }

  select(index, description) {
    this.selected = index;
    const hidden = index < 0;
    this.shade.setAttribute("visibility", hidden ? "hidden" : "visible");
    this.marker.setAttribute("visibility", hidden ? "hidden" : "visible");
    this.element.setAttribute("aria-valuenow", index + 1);
    this.element.setAttribute("aria-valuetext", description);
    if (hidden) return;
    const width = Math.max(this.pitch, 3);
    const center = (index + 0.5) * this.pitch;
    this.shade.setAttribute("x", center - width / 2);
    this.shade.setAttribute("width", width);
    this.marker.setAttribute("d", `M${center} ${BASE + 1.5}l4.5 5.5h-9z`);
  }
}
