// What the views beside the tree share: a note on top, room that scrolls, one line of words below.

import { html } from "./dom.js";

const NOTE_HEIGHT = 40; // px, as in the style sheet
const WORDS_HEIGHT = 38;
const CHARACTER = 7; // px that one more character of the narrowest label takes

export class TabFrame {
  // `words`: whether there is a line below; `live`: whether its changes are read out.
  constructor(name, { words = true, live = false } = {}) {
    this.note = html("p", { class: "tab-note" });
    this.scroller = html("div", { class: "tab-scroll" });
    this.words = html("p", { class: "tab-words", "aria-live": live ? "polite" : null, hidden: !words });
    this.element = html("div", { class: `tab-area ${name}-area` }, this.note, this.scroller, this.words);
  }

  // Height left for the drawing when the whole is `height` px tall.
  resize(height) {
    const room = height - NOTE_HEIGHT - (this.words.hidden ? 0 : WORDS_HEIGHT);
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

// The longest beginning of `text` that is at most `room` px wide, "" where no character fits.
export function fittedText(text, room, widthOf) {
  if (room < CHARACTER) return "";
  if (widthOf(text) <= room) return text;
  const points = [...text];
  for (let length = points.length - 1; length > 0; length -= 1) {
    const cut = `${points.slice(0, length).join("")}…`;
    if (widthOf(cut) <= room) return cut;
  }
  return "";
}
