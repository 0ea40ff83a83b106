// The hover card of a node: its numbers, and the rule by which it was tested.

import { html } from "./dom.js";
import { known, probability } from "./format.js";

export const STATE_WORDS = {
  root: "root",
  accepted: "accepted",
  rejected: "rejected",
  unreached: "not reached",
  pruned: "pruned",
  recovered: "recovered",
  bonus: "bonus",
  drafted: "drafted",
  verified: "verified",
};

const GAP = 6; // px between a node and its card
const FAR = 4; // px² of hidden nodes that one px of distance weighs as much as
const EDGE = 4; // px between a card and the border of the tree

const STATE_NOTES = {
  root: "decided before this cycle; the draft starts here",
  unreached: "never tested: below a refused node or after an accepted sibling",
  pruned: "drafted, dropped by the budget before verification",
  recovered: "decided by the target after the drafted children were refused",
  bonus: "everything on the path was accepted; one more token from the target",
  drafted: "proposed by the draft, not verified yet",
  verified: "p is known, the rule has not come to it yet",
};

// Lines of [name, value] pairs. What does not exist for a node is left out.
export function cardLines(node) {
  const lines = [];
  const numbers = [];
  if (known(node.p)) numbers.push(["p target", probability(node.p)]);
  if (known(node.q)) numbers.push(["q draft", probability(node.q)]);
  lines.push(numbers);
  if (known(node.warped) && node.state !== "root") {
    lines.push([["p after temperature and filters", probability(node.warped)]]);
  }
  if (node.test) {
    const test = [["accept probability", probability(node.test.accept)]];
    if (known(node.test.draw)) test.push(["draw", probability(node.test.draw)]);
    const before = node.warped ?? node.p;
    if (known(before) && known(node.test.p) && Math.abs(before - node.test.p) > 0.0005) {
      lines.push([["p when tested", probability(node.test.p)]]);
    }
    lines.push(test);
  }
  const ranks = [];
  if (node.pRank >= 0) ranks.push(["rank in p", String(node.pRank + 1)]);
  if (node.qRank >= 0) ranks.push(["rank in q", String(node.qRank + 1)]);
  ranks.push(["id", String(node.token)]);
  lines.push(ranks);
  return lines.filter((line) => line.length > 0);
}

function overlap(a, b) {
  const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

// The part of a frame that the window shows, in the frame's pixels.
export function visiblePart(frame, windowHeight) {
  return {
    top: Math.max(0, -frame.top),
    width: frame.width,
    height: Math.min(frame.height, windowHeight - frame.top),
  };
}

// Where a card of `size` hides least of the nodes without being far from its own: below it, above
// it, beside it or in a corner. `bounds` reach from `top` down to `height`.
export function placeCard(anchor, size, bounds, obstacles) {
  const inside = (at, length, limit) => Math.max(Math.min(at, limit - length - EDGE), EDGE);
  // A card taller than `bounds` reaches above them, never below.
  const upright = (at) =>
    Math.min(Math.max(at, bounds.top + EDGE), bounds.height - size.height - EDGE);
  const middle = (anchor.top + anchor.bottom - size.height) / 2;
  const spots = [
    [anchor.left, anchor.bottom + GAP],
    [anchor.left, anchor.top - size.height - GAP],
    [anchor.right + GAP, middle],
    [anchor.left - size.width - GAP, middle],
    [bounds.width, bounds.height],
    [bounds.width, bounds.top],
  ].map(([x, y]) => {
    const left = inside(x, size.width, bounds.width);
    const top = upright(y);
    const box = { left, top, right: left + size.width, bottom: top + size.height };
    const hidden = obstacles.reduce((sum, other) => sum + overlap(box, other), 0);
    const away = Math.hypot(left - anchor.left, top - anchor.bottom);
    return { left, top, cost: hidden + 100 * overlap(box, anchor) + FAR * away };
  });
  return spots.reduce((best, spot) => (spot.cost < best.cost ? spot : best));
}

export class Card {
  constructor() {
    this.element = html("div", { class: "card", role: "tooltip", hidden: true });
  }

  // `anchor`, `bounds` and `obstacles` are in the pixels of the card's container.
  show(node, { text, ruleNote, anchor, bounds, obstacles }) {
    const note = node.test ? ruleNote : STATE_NOTES[node.state];
    this.element.replaceChildren(
      html(
        "div",
        { class: "card-head" },
        html("span", { class: "card-token", dir: "auto" }, text),
        html("span", { class: `chip ${node.state}` }, STATE_WORDS[node.state]),
      ),
      ...cardLines(node).map((line) =>
        html(
          "div",
          { class: "card-line" },
          ...line.map(([name, value]) => html("span", {}, `${name} `, html("b", {}, value))),
        ),
      ),
      note ? html("div", { class: "card-note" }, note) : "",
    );
    this.element.hidden = false;
    const size = { width: this.element.offsetWidth, height: this.element.offsetHeight };
    const { left, top } = placeCard(anchor, size, bounds, obstacles);
    this.element.style.left = `${left}px`;
    this.element.style.top = `${top}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}
