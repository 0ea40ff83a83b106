// What the views beside the tree share: a note, a sentence that follows the pointer, room that scrolls.

import { html } from "./dom.js";

const CHARACTER = 5; // px of the narrowest label
const LEAST = 2; // characters before an ellipsis

export class TabFrame {
  // `words`: whether there is a sentence; `live`: whether its changes are read out.
  constructor(name, { words = true, live = false } = {}) {
    this.note = html("p", { class: "tab-note" });
    this.scroller = html("div", { class: "tab-scroll" });
    this.words = html("p", { class: "tab-words", "aria-live": live ? "polite" : null, hidden: !words });
    this.element = html("div", { class: `tab-area ${name}-area` }, this.note, this.words, this.scroller);
  }

  // Height left for the drawing when the whole is `height` px tall.
  resize(height) {
    const room = height - this.note.offsetHeight - this.words.offsetHeight;
    this.scroller.style.height = `${room}px`;
    return room;
  }

  say(sentence) {
    if (this.words.textContent !== sentence) this.words.textContent = sentence;
  }

  // Scrolls this area alone; scrollIntoView would move the page as well.
  reveal({ left, top, right, bottom }) {
    const area = this.scroller;
    if (top < area.scrollTop) area.scrollTop = top;
    else if (bottom > area.scrollTop + area.clientHeight) area.scrollTop = bottom - area.clientHeight;
    if (left < area.scrollLeft) area.scrollLeft = left;
    else if (right > area.scrollLeft + area.clientWidth) area.scrollLeft = right - area.clientWidth;
  }
}

// The longest beginning of `text` that is at most `room` px wide; "" where too little of it fits to
// tell one token from another.
export function fittedText(text, room, widthOf) {
  if (room < CHARACTER) return "";
  if (widthOf(text) <= room) return text;
  const points = [...text];
  for (let length = points.length - 1; length >= LEAST; length -= 1) {
    const cut = `${points.slice(0, length).join("")}…`;
    if (widthOf(cut) <= room) return cut;
  }
  return "";
}
