// The whole tree of a cycle, in an area that pans and zooms. Where a reader looks stays the same
// from cycle to cycle; nothing folds but what the reader folds.

import { svg } from "./dom.js";
import { nodeMoved } from "./keys.js";
import { buildTree } from "./model.js";
import { TreeView } from "./tree.js";
import { fitted, held, panned, revealing, zoomed } from "./viewport.js";
import { nodeAt } from "./walk.js";

const STEP = 1.25; // zoom of one key press or click
const NUDGE = 60; // px of one Shift + arrow
const SNUG_LEGIBLE = 0.8; // where the area is narrow, a tree is panned rather than tiny
const SLACK = 4; // px the pointer may move within a click
const WHEEL = 0.0022; // zoom per px of the wheel

export class FullTree extends TreeView {
  // `onView`: told the scale whenever it may have changed.
  constructor({ measure, onPick, onView }) {
    super({ measure, onPick });
    this.onView = onView;
    this.showAll = true;
    this.keep = true;
    this.cardOnFocus = false; // the inspector tells more
    this.withPruned = false;
    this.view = null; // null: fitted to the area
    this.reached = 0; // px of the highest tree of the run, where the area follows it
    this.scene = svg("g");
    this.canvas.append(this.scene);
    this.scroller.classList.add("pannable");
    this.listenToPan();
  }

  // `state.stage`: what has happened at this step of the walk, null for the whole cycle. `state.snug`:
  // the area is no higher than the trees; it only grows, so that nothing below jumps at every cycle.
  keyOf(state) {
    const { stage } = state;
    const told = stage && [stage.depth, stage.verified, stage.tested.size, stage.decided, !!stage.kept];
    return [super.keyOf(state), this.withPruned, told].join("|");
  }

  grow(cycle) {
    return buildTree(cycle, this.withPruned);
  }

  resize() {
    const { store, snug } = this.state;
    if (this.run !== store.run) [this.run, this.reached] = [store.run, 0];
    if (snug) this.reached = Math.max(this.reached, Math.ceil(this.layout.height * this.fitting(this.state).scale));
    const { width, height } = this.area;
    this.scroller.style.height = `${height}px`;
    this.canvas.setAttribute("width", width);
    this.canvas.setAttribute("height", height);
    this.place();
  }

  toDraw() {
    const { stage } = this.state;
    if (!stage) return this.layout.nodes;
    const known = [...this.layout.nodes].map(([id, placed]) => [id, { ...placed, node: nodeAt(placed.node, stage) }]);
    return new Map(known.filter(([, placed]) => placed.node !== null));
  }

  get area() {
    const { width, height, snug } = this.state;
    return { width, height: snug ? Math.min(height, this.reached) : height };
  }

  get looking() {
    return this.view ?? this.fitting(this.area);
  }

  fitting(area) {
    return fitted(this.layout, area, this.state.snug ? SNUG_LEGIBLE : undefined);
  }

  place() {
    if (!this.layout) return;
    const { x, y, scale } = this.looking;
    this.scene.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.card.hide();
    this.onView(scale);
  }

  look(view) {
    this.view = held(view, this.layout, this.area);
    this.place();
  }

  zoom(steps, x = this.area.width / 2, y = this.area.height / 2) {
    if (this.layout) this.look(zoomed(this.looking, STEP ** steps, x, y));
  }

  nudge(dx, dy) {
    if (this.layout) this.look(panned(this.looking, dx * NUDGE, dy * NUDGE));
  }

  fit() {
    this.view = null;
    this.place();
  }

  // Moves the tree only where the node is out of sight.
  reveal(id) {
    const placed = this.layout?.nodes.get(id);
    if (!placed) return;
    const now = this.looking;
    const view = revealing(now, boxOf(placed), this.area);
    if (view.x !== now.x || view.y !== now.y) this.look(view);
  }

  onScreen(placed) {
    const { x, y, scale } = this.looking;
    const { left, top, right, bottom } = boxOf(placed);
    return {
      left: left * scale + x,
      top: top * scale + y,
      right: right * scale + x,
      bottom: bottom * scale + y,
    };
  }

  choose(id) {
    this.onPick(this.state.cycle.i, id);
  }

  key(event, id) {
    if (id === null || event.key !== "Enter") return;
    this.choose(id);
    event.preventDefault();
  }

  // The node that holds the keyboard, null where another part of the page does.
  get held() {
    return this.canvas.contains(this.element.getRootNode().activeElement) ? this.focused : null;
  }

  // Chooses another node by a move of `nodeMoved`; false where there is none.
  move(from, move) {
    const start = this.layout && this.drawnNodes.has(from) ? from : 0;
    const next = this.layout ? nodeMoved(this.drawnNodes, start, move) : null;
    if (next === null) return false;
    this.focus(next);
    this.reveal(next);
    this.choose(next);
    return true;
  }

  fold(id) {
    const placed = this.layout?.nodes.get(id);
    if (placed && placed.node.id !== 0 && (placed.hidden > 0 || placed.children.length > 0)) this.toggle(id);
  }

  listenToPan() {
    let from = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && this.layout) from = { x: event.clientX, y: event.clientY, moving: false };
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.moving && Math.hypot(dx, dy) < SLACK) return;
      if (!from.moving) this.canvas.setPointerCapture(event.pointerId);
      from = { x: event.clientX, y: event.clientY, moving: true };
      this.look(panned(this.looking, dx, dy));
    });
    const release = () => {
      this.dragged = from?.moving ?? false;
      from = null;
    };
    this.canvas.addEventListener("pointerup", release);
    this.canvas.addEventListener("pointercancel", release);
    // The click that ends a drag chooses nothing.
    this.canvas.addEventListener("click", (event) => this.dragged && event.stopImmediatePropagation(), true);
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  wheel(event) {
    if (!(event.ctrlKey || event.metaKey) || !this.layout) return;
    event.preventDefault();
    const frame = this.canvas.getBoundingClientRect();
    const factor = Math.exp(-event.deltaY * WHEEL);
    this.look(zoomed(this.looking, factor, event.clientX - frame.left, event.clientY - frame.top));
  }
}

const boxOf = ({ x, y, width, height }) => ({
  left: x,
  top: y - height / 2,
  right: x + width,
  bottom: y + height / 2,
});
