// The component: one view per mounted element, fed by each payload, reporting the selection.

import { html } from "./dom.js";
import { Feed, drawnSince, fetched } from "./feed.js";
import { Figures, legend } from "./figures.js";
import { textMeasure } from "./measure.js";
import { noticeFor } from "./notice.js";
import { Scrubber, describeCycle } from "./scrubber.js";
import { Selection } from "./selection.js";
import { StatusLine } from "./status.js";
import { Store } from "./store.js";
import { themeOf } from "./theme.js";
import { TokenStrip } from "./tokens.js";
import { TreeView } from "./tree.js";

const ABOVE_TREE = 272; // status, figures, strip, scrubber and caption in one column, px
const TREE_MIN = 230;
const REPORT_AFTER = 120; // ms of rest before a selection goes to Python

const LOST = "The server does not answer; asking again.";
const MORE =
  "Opens the branches not taken and adds the pruned candidates. " +
  "The least likely subtrees stay folded where the tree would not fit.";

class LiveView {
  constructor(parent) {
    this.store = new Store();
    this.selection = new Selection();
    this.root = html("div", { class: "live" });
    parent.append(this.root);
    const family = getComputedStyle(this.root).getPropertyValue("--st-code-font") || "monospace";
    this.status = new StatusLine();
    this.figures = new Figures();
    this.tokens = new TokenStrip((cycle) => this.pick(cycle));
    this.scrubber = new Scrubber({
      onScrub: (cycle) => this.pick(cycle, null, this.scrubber.dragging),
      onFollow: () => this.follow(),
      onRelease: () => this.report(),
    });
    this.tree = new TreeView({
      measure: textMeasure(family),
      onPick: (cycle, node) => this.pick(cycle, node),
    });
    this.feed = new Feed({
      ask: (address) => fetched(this.addressOf(address)),
      take: (payload) => this.hear(payload),
      turn: (still) => this.toPython.setTriggerValue("turned", still),
      fail: (error) => this.status.update({ sentence: `${LOST} (${error.message})` }),
    });
    this.assemble();
    document.fonts.load(`600 13px ${family}`).then(() => this.tree.remeasure());
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.root);
  }

  assemble() {
    this.caption = html("div", { class: "caption" });
    this.live = html("button", { type: "button", class: "pill live-button" }, "live");
    this.all = html("button", { type: "button", class: "pill", "aria-pressed": false, title: MORE }, "show more");
    this.live.addEventListener("click", () => this.follow());
    this.all.addEventListener("click", () => {
      this.tree.setShowAll(!this.tree.showAll);
      this.all.setAttribute("aria-pressed", this.tree.showAll);
    });
    this.root.append(
      this.status.element,
      html("div", { class: "top" }, this.figures.element, legend()),
      this.tokens.element,
      this.scrubber.element,
      html("div", { class: "caption-row" }, this.caption, this.live, this.all),
      this.tree.element,
    );
  }

  // `data`: { run, feed, note, cycle, node, height }; `run` is null where the feed brings it.
  update(data, toPython) {
    this.toPython = toPython;
    this.height = data.height;
    const background = getComputedStyle(this.root).getPropertyValue("--st-background-color");
    this.root.dataset.theme = themeOf(background);
    this.status.remark(data.note);
    if (data.run) this.take(data.run);
    this.selection.hear(data.cycle, data.node);
    this.show();
    this.feed.follow(data.feed && { address: data.feed, still: data.run !== null });
  }

  // An answer of the feed; the time until it is drawn.
  async hear(payload) {
    const start = performance.now();
    this.take(payload);
    this.show();
    return drawnSince(start);
  }

  take(payload) {
    if (this.store.run !== null && payload.run !== this.store.run) this.selection.reset();
    this.store.merge(payload);
    this.status.update(payload);
    this.figures.update(payload.metrics);
    this.tokens.update(this.store);
  }

  // Cycles up to the first that is missing are here already.
  addressOf(address) {
    const query = new URLSearchParams({ run: this.store.run ?? "", since: this.store.whole });
    return new URL(`${address}?${query}`, window.location.href);
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.toPython) this.show();
    });
  }

  show() {
    const { store, selection } = this;
    const index = selection.cycle(store);
    const cycle = store.cycles[index];
    const follow = selection.picked === null;
    const width = this.root.clientWidth;
    const description = index < 0 ? "" : describeCycle(cycle, store);
    this.tokens.select(index, follow);
    this.scrubber.update(store, width);
    this.scrubber.select(index, description);
    this.caption.textContent = description;
    this.live.textContent = store.running ? "live" : "latest";
    this.live.setAttribute("aria-pressed", follow);
    this.live.style.visibility = store.running || !follow ? "visible" : "hidden";
    this.all.style.visibility = cycle?.nodes ? "visible" : "hidden";
    this.tree.show({
      store,
      cycle,
      node: selection.node,
      width,
      height: Math.max(this.height - ABOVE_TREE, TREE_MIN),
      notice: noticeFor(store.meta, cycle),
    });
  }

  pick(cycle, node = null, quiet = false) {
    this.selection.pick(cycle, node);
    this.schedule();
    if (!quiet) this.report();
  }

  follow() {
    this.selection.follow();
    this.tokens.toEnd();
    this.schedule();
    this.report();
  }

  report() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const path = this.store.cycles[this.selection.picked]?.path ?? [0];
      this.toPython.setStateValue("selection", this.selection.report(path[path.length - 1]));
    }, REPORT_AFTER);
  }

  destroy() {
    this.feed.follow(null);
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.root.remove();
  }
}

const views = new WeakMap();

export default function mount({ parentElement, data, setStateValue, setTriggerValue }) {
  if (!views.has(parentElement)) views.set(parentElement, new LiveView(parentElement));
  views.get(parentElement).update(data, { setStateValue, setTriggerValue });
  return () => {
    views.get(parentElement)?.destroy();
    views.delete(parentElement);
  };
}
