// A whole trace in one component: everything is here, the page is asked for nothing.

import { CacheRows } from "./cache_rows.js";
import { html } from "./dom.js";
import { Figures, legend } from "./figures.js";
import { FullTree } from "./full_tree.js";
import { IcicleView } from "./icicle.js";
import { Inspector } from "./inspector.js";
import { commandOf } from "./keys.js";
import { MaskView } from "./mask.js";
import { textMeasure } from "./measure.js";
import { buildTree } from "./model.js";
import { TableView } from "./node_table.js";
import { noticeFor } from "./notice.js";
import { Player } from "./player.js";
import { Scrubber, describeCycle } from "./scrubber.js";
import { DECIDED } from "./selection.js";
import { Store } from "./store.js";
import { Tabs } from "./tabs.js";
import { themeOf } from "./theme.js";
import { TokenStrip } from "./tokens.js";
import { Toolbar } from "./toolbar.js";
import { unpack } from "./unpack.js";
import { stageAt, subjectOf } from "./walk.js";
import { WalkBar } from "./walk_bar.js";

const TABS = ["tree", "icicle", "table", "mask"];
const REPORT_AFTER = 120; // ms of rest before a selection goes to Python
const BESIDE = 860; // px from which the inspector stands beside the tree
const INSPECTOR = 372; // px it is wide then
const GAP = 12;
const LOWEST = 300; // px of the tree's area at least
const STACKED = 400; // px of it where the inspector stands below
const ROWS = 124; // px of it that the cache rows take during the walk
const SCROLLED = ".lines, .inspector";
const SCROLL_KEYS = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"]);

class TraceView {
  constructor(parent) {
    this.store = new Store();
    this.look = { cycle: 0, node: null, tab: "tree" };
    this.root = html("div", { class: "live trace", tabindex: -1 });
    parent.append(this.root);
    const family = getComputedStyle(this.root).getPropertyValue("--st-code-font") || "monospace";
    this.measure = textMeasure(family);
    this.player = new Player(() => this.walked());
    this.makeParts();
    this.assemble();
    document.fonts.load(`600 13px ${family}`).then(() => this.views.tree.remeasure());
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.root);
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  makeParts() {
    const choose = (node) => this.pick(this.look.cycle, node);
    this.figures = new Figures();
    this.tokens = new TokenStrip((cycle) => this.pick(cycle));
    this.scrubber = new Scrubber({
      onScrub: (cycle) => this.pick(cycle, null, this.scrubber.dragging),
      onFollow: () => this.pick(this.store.last),
      onRelease: () => this.report(),
    });
    this.tabs = new Tabs(TABS, (tab) => this.turn(tab));
    this.walkBar = new WalkBar(this.player);
    this.inspector = new Inspector(this.measure);
    this.rows = new CacheRows();
    this.toolbar = new Toolbar({
      onPruned: () => this.setPruned(!this.withPruned),
      onZoom: (by) => this.views.tree.zoom(by),
      onFit: () => this.views.tree.fit(),
    });
    this.views = {
      tree: new FullTree({
        measure: this.measure,
        onPick: (cycle, node) => this.pick(cycle, node),
        onView: (scale) => this.toolbar.setScale(scale),
      }),
      icicle: new IcicleView({ measure: this.measure, onPick: choose }),
      table: new TableView({ measure: this.measure, onPick: choose }),
      mask: new MaskView({ measure: this.measure, onPick: choose }),
    };
  }

  assemble() {
    this.caption = html("div", { class: "caption" });
    const panels = Object.values(this.views).map((view) => view.element);
    this.panel = html("div", { class: "trace-panel", role: "tabpanel" }, ...panels, this.rows.element);
    this.main = html("div", { class: "trace-main" }, this.panel, this.inspector.element);
    this.root.append(
      html("div", { class: "top" }, this.figures.element, legend(false)),
      this.tokens.element,
      this.scrubber.element,
      html("div", { class: "caption-row" }, this.tabs.element, this.caption, this.toolbar.element),
      this.walkBar.element,
      this.main,
    );
  }

  // `data`: { packed, cycle, node, height, asked }. What the page says again is no new choice of its
  // own: `asked` counts those.
  update(data, setStateValue) {
    this.setStateValue = setStateValue;
    this.height = data.height;
    const said = [data.cycle, data.node, data.asked].join();
    if (said !== this.heard) {
      this.heard = said;
      this.look = { ...this.look, cycle: data.cycle ?? 0, node: data.node ?? null };
      this.walkOf = undefined;
    }
    const background = getComputedStyle(this.root).getPropertyValue("--st-background-color");
    this.root.dataset.theme = themeOf(background);
    if (data.packed !== this.packed) this.load(data.packed);
    else this.schedule();
  }

  async load(packed) {
    this.packed = packed;
    try {
      const payload = await unpack(packed);
      if (packed === this.packed) this.take(payload);
    } catch (error) {
      this.caption.textContent = `This trace could not be unpacked: ${error.message}`;
      throw error;
    }
  }

  take(payload) {
    this.store.merge(payload);
    this.walkOf = undefined;
    this.figures.update(payload.metrics);
    this.tokens.update(this.store);
    this.show();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.show();
    });
  }

  get cycle() {
    return this.store.cycles[this.look.cycle];
  }

  get tree() {
    const key = `${this.store.run}/${this.store.revision}/${this.look.cycle}/${this.withPruned}`;
    if (key !== this.grown?.key) {
      this.grown = { key, tree: this.cycle?.nodes ? buildTree(this.cycle, this.withPruned) : null };
    }
    return this.grown.tree;
  }

  // The node that is looked at: the chosen one, else the token that the walk ended with.
  get node() {
    const { cycle, tree } = this;
    if (!tree) return null;
    if (tree.has(this.look.node)) return this.look.node;
    return tree.has(DECIDED) ? DECIDED : cycle.path.at(-1);
  }

  show() {
    if (!this.store.run) return;
    const { store, look } = this;
    look.cycle = Math.max(Math.min(look.cycle, store.last), 0);
    const { cycle } = this;
    if (this.walkOf !== look.cycle) {
      this.walkOf = look.cycle;
      this.player.load(cycle?.steps ?? []);
    }
    const width = this.root.clientWidth;
    const description = cycle ? describeCycle(cycle, store) : "";
    this.tokens.select(look.cycle, false);
    this.scrubber.update(store, width);
    this.scrubber.select(cycle ? look.cycle : -1, description);
    this.caption.textContent = description;
    this.tabs.show(look.tab);
    this.panel.setAttribute("aria-label", look.tab);
    this.walkBar.show(this.player);
    this.showMain(cycle, width);
  }

  showMain(cycle, width) {
    const beside = width >= BESIDE;
    const height = beside ? this.room(width) : STACKED;
    const stage = this.player.at === null ? null : stageAt(this.player.steps, this.player.at);
    const notice = noticeFor(this.store.meta, cycle);
    const shared = { store: this.store, cycle, tree: this.tree, node: this.node };
    const panel = { ...shared, width: beside ? width - INSPECTOR - GAP : width, height: height - (stage ? ROWS : 0) };
    const tab = notice === "" ? this.look.tab : "tree";
    for (const [name, view] of Object.entries(this.views)) view.element.hidden = name !== tab;
    this.toolbar.show({ pruned: cycle?.pruned, withPruned: this.withPruned, tree: tab === "tree" && !notice });
    this.views.tree.withPruned = this.withPruned;
    if (tab === "tree") this.views.tree.show({ ...panel, notice, stage, snug: !beside });
    else this.views[tab].show(panel);
    this.main.classList.toggle("beside", beside);
    this.inspector.show({ ...shared, width: beside ? INSPECTOR : width, height: beside ? height : null });
    this.rows.show(cycle, this.store, stage);
  }

  // Height left for the tree under what stands above it.
  room(width) {
    const key = `${width}/${this.height}`;
    if (key !== this.measured) {
      this.measured = key;
      this.above = this.main.offsetTop - this.root.offsetTop;
    }
    return Math.max(this.height - this.above, LOWEST);
  }

  pick(cycle, node = null, quiet = false) {
    this.look = { ...this.look, cycle, node };
    this.schedule();
    if (!quiet) this.report();
  }

  turn(tab) {
    this.look = { ...this.look, tab };
    if (tab !== "tree" && this.player.at !== null) this.player.leave();
    this.schedule();
    this.report();
  }

  setPruned(on) {
    this.withPruned = on;
    this.schedule();
  }

  // The tree shows the walk and the inspector follows it; the page hears of it when it rests.
  walked() {
    const { player } = this;
    if (player.at !== null) this.look.tab = "tree";
    const subject = player.step ? subjectOf(player.step) : null;
    if (subject !== null && this.tree.has(subject)) this.look.node = subject;
    this.show();
    if (subject !== null) this.views.tree.reveal(subject);
    if (!player.playing) this.report();
  }

  key(event) {
    const element = event.composedPath()[0];
    if (event.defaultPrevented || element.closest("input, select, textarea, [role=tablist]")) return;
    if (event.key === " " && element.closest("button, summary")) return;
    if (SCROLL_KEYS.has(event.key) && element.closest(SCROLLED)) return;
    const command = commandOf(event);
    if (!command || !this.obey(...command)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Whether there was something to do.
  obey(name, ...how) {
    const { tree } = this.views;
    const from = tree.held ?? this.node;
    const orders = {
      cycle: (by) => this.pick(Math.min(Math.max(this.look.cycle + by, 0), this.store.last)),
      node: (move) => this.look.tab === "tree" && tree.move(from, move),
      fold: () => this.look.tab === "tree" && tree.fold(from),
      play: () => this.player.toggle(),
      walk: (by) => this.player.move(by),
      leave: () => this.player.at !== null && this.player.leave(),
      zoom: (by) => (by === 0 ? tree.fit() : tree.zoom(by)),
      pan: (dx, dy) => tree.nudge(dx, dy),
      tab: (index) => this.turn(TABS[index]),
    };
    return this.store.last >= 0 && orders[name](...how) !== false;
  }

  report() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { cycle, node, tab } = this.look;
      const verified = this.cycle?.nodes?.token[node] !== undefined;
      const selection = { cycle, node: verified ? node : null, tab };
      const said = JSON.stringify(selection);
      if (said !== this.reported) this.setStateValue("selection", selection);
      this.reported = said;
    }, REPORT_AFTER);
  }

  destroy() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.player.halt();
    this.observer.disconnect();
    this.root.remove();
  }
}

const views = new WeakMap();

export default function mount({ parentElement, data, setStateValue }) {
  if (!views.has(parentElement)) views.set(parentElement, new TraceView(parentElement));
  views.get(parentElement).update(data, setStateValue);
  return () => {
    views.get(parentElement)?.destroy();
    views.delete(parentElement);
  };
}
