// The draft tree of the selected cycle: drawing, folding, hovering, choosing, walking by keyboard.

import { Card, visiblePart } from "./card.js";
import { html, svg } from "./dom.js";
import { layoutTree } from "./layout.js";
import { buildTree } from "./model.js";
import { drawEdges, drawNode } from "./nodes.js";

export class TreeView {
  constructor({ measure, onPick }) {
    this.measure = measure;
    this.onPick = onPick;
    this.chosen = new Map();
    this.showAll = false;
    this.focused = null;
    this.cardOnFocus = true;
    this.canvas = svg("svg", { class: "tree", role: "group", "aria-label": "Draft tree" });
    this.scene = this.canvas;
    this.notice = html("p", { class: "notice" });
    this.card = new Card();
    this.scroller = html("div", { class: "tree-scroll" }, this.canvas, this.notice);
    this.element = html("div", { class: "tree-area" }, this.scroller, this.card.element);
    this.listen();
  }

  // `state`: { store, cycle, node, width, height, notice }
  show(state) {
    const key = this.keyOf(state);
    this.state = state;
    if (key !== this.drawn) {
      const shown = `${state.store.run}/${state.cycle?.i}`;
      if (shown !== this.shown) {
        this.shown = shown;
        this.chosen.clear();
      }
      this.drawn = this.keyOf(state);
      this.draw();
    }
    this.mark();
  }

  // Labels were measured in another font until now.
  remeasure() {
    this.measure.forget();
    if (!this.state) return;
    this.draw();
    this.mark();
  }

  keyOf({ store, cycle, width, height, notice }) {
    const folds = [...this.chosen].join();
    const content = cycle ? `${cycle.i}/${cycle.tokens.length}/${cycle.nodes?.token.length}` : "";
    return [store.run, content, width, height, this.showAll, folds, notice].join("|");
  }

  draw() {
    this.card.hide();
    const { cycle, notice, height } = this.state;
    this.scroller.style.height = `${height}px`;
    const blank = notice !== "" || !cycle?.nodes;
    this.canvas.toggleAttribute("hidden", blank);
    this.notice.hidden = !blank;
    this.notice.textContent = notice;
    this.layout = null;
    if (blank) this.scene.replaceChildren();
    else this.drawTree();
  }

  drawTree() {
    const { store, cycle, width, height, snug } = this.state;
    const held = this.canvas.contains(this.element.getRootNode().activeElement);
    this.tree = this.grow(cycle);
    this.layout = layoutTree(this.tree, this, {
      width,
      height: height - 2,
      snug,
      measure: this.measure,
      labelOf: (token) => store.label(token),
    });
    this.resize();
    this.paint();
    if (held) this.focus(this.elements.has(this.focused) ? this.focused : 0);
  }

  grow(cycle) {
    return buildTree(cycle, this.showAll);
  }

  resize() {
    this.canvas.setAttribute("width", this.layout.width);
    this.canvas.setAttribute("height", this.layout.height);
  }

  // Placed nodes by id, as they are to be drawn.
  toDraw() {
    return this.layout.nodes;
  }

  paint() {
    const { columns, density } = this.layout;
    this.drawnNodes = this.toDraw();
    const heads = columns.map(({ x }, depth) =>
      svg("text", { class: "head", x, y: 12 }, depth === 0 ? "context" : `+${depth}`),
    );
    const boxes = [...this.drawnNodes.values()].map((placed) =>
      drawNode(placed, density, this.state.store.hover(placed.node.token)),
    );
    this.scene.replaceChildren(...heads, ...drawEdges(this.drawnNodes, columns), ...boxes);
    this.elements = new Map(boxes.map((box) => [Number(box.dataset.node), box]));
  }

  mark() {
    if (!this.layout) return;
    const chosen = this.state.node;
    for (const [id, element] of this.elements) {
      element.classList.toggle("selected", id === chosen);
      element.setAttribute("aria-pressed", id === chosen);
      element.setAttribute("tabindex", -1);
    }
    const entry = [this.focused, chosen, 0].find((id) => this.elements.has(id));
    this.elements.get(entry).setAttribute("tabindex", 0);
  }

  listen() {
    const nodeOf = (event) => {
      const element = event.target.closest?.("[data-node]");
      return element ? Number(element.dataset.node) : null;
    };
    this.canvas.addEventListener("click", (event) => {
      const fold = event.target.closest("[data-fold]");
      if (fold) this.toggle(Number(fold.dataset.fold));
      else if (nodeOf(event) !== null) this.choose(nodeOf(event));
    });
    this.canvas.addEventListener("pointerover", (event) => this.hover(nodeOf(event)));
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
    this.canvas.addEventListener("focusin", (event) => {
      this.focused = nodeOf(event);
      if (this.cardOnFocus && event.target.matches(":focus-visible")) this.hover(this.focused);
    });
    this.canvas.addEventListener("focusout", () => this.hover(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event, nodeOf(event)));
    this.scroller.addEventListener("scroll", () => this.card.hide());
  }

  toggle(id) {
    this.chosen.set(id, this.layout.nodes.get(id).hidden > 0);
    this.show(this.state);
  }

  setShowAll(on) {
    this.showAll = on;
    this.chosen.clear();
    this.show(this.state);
  }

  choose(id) {
    const node = this.layout.nodes.get(id).node;
    if (node.state !== "pruned") this.onPick(this.state.cycle.i, id);
  }

  hover(id) {
    const placed = id === null || !this.layout ? null : this.drawnNodes.get(id);
    if (!placed) {
      this.card.hide();
      return;
    }
    const frame = this.element.getBoundingClientRect();
    this.card.show(placed.node, {
      text: this.state.store.hover(placed.node.token),
      ruleNote: this.state.store.meta.rule_note,
      anchor: this.onScreen(placed),
      bounds: visiblePart(frame, window.innerHeight),
      obstacles: [...this.drawnNodes.values()].map((other) => this.onScreen(other)),
    });
  }

  // A node's box in the pixels of the tree area, whatever is scrolled.
  onScreen({ x, y, width, height }) {
    const left = x - this.scroller.scrollLeft;
    const top = y - height / 2 - this.scroller.scrollTop;
    return { left, top, right: left + width, bottom: top + height };
  }

  key(event, id) {
    if (id === null) return;
    if (event.key === "Enter") this.choose(id);
    else if (event.key === " ") {
      if (this.layout.nodes.get(id).badge) this.toggle(id);
    } else {
      const next = neighbour(this.layout.nodes, id, event.key);
      if (next === null) return;
      this.focus(next);
    }
    event.preventDefault();
  }

  focus(id) {
    this.focused = id;
    this.elements.get(id).focus({ preventScroll: true });
    this.mark();
  }
}

// Left: parent. Right: the child on the committed path, else the first. Up and down: same column.
export function neighbour(nodes, id, key) {
  const { node, children, y } = nodes.get(id);
  if (key === "ArrowLeft") return nodes.has(node.parent) ? node.parent : null;
  if (key === "ArrowRight") {
    return children.find((child) => nodes.get(child).node.onPath) ?? children[0] ?? null;
  }
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const sign = key === "ArrowUp" ? -1 : 1;
  const column = [...nodes.values()]
    .filter((other) => other.node.depth === node.depth && sign * (other.y - y) > 0)
    .sort((a, b) => sign * (a.y - b.y));
  return column[0]?.node.id ?? null;
}
