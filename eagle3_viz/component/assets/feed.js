// Asks the server what a run has become, as often as drawing it allows: next to a decoder that wants
// every core, drawing may not take more than a small share of the time.

const SOONEST = 300; // ms from one answer to the next question
const LATEST = 450;
const SHARE = 25; // a drawing is paid for by this many times its time in the main thread, half of its cost
const HEARTBEAT = 30_000; // ms, while nothing moves
const AGAIN = 2_000; // ms after a question without an answer

export const pause = (cost) => Math.min(Math.max(cost * SHARE, SOONEST), LATEST);

export class Feed {
  // `ask(address)` gives a payload; `take(payload)` draws it and gives the ms that it took;
  // `turn(still)` tells that the run has begun or ceased to move; `fail(error)` that no answer came.
  constructor({ ask, take, turn, fail }) {
    Object.assign(this, { ask, take, turn, fail });
    this.place = null;
    this.round = 0;
  }

  // `place`: { address, still }, still as the page was drawn; null ends it. Whatever is on its way
  // for another place comes too late.
  follow(place) {
    if (place && place.address === this.place?.address && place.still === this.place.still) return;
    clearTimeout(this.timer);
    this.place = place;
    this.round += 1;
    if (place?.still) this.wait(HEARTBEAT);
    else if (place) this.look();
  }

  wait(ms) {
    this.timer = setTimeout(() => this.look(), ms);
  }

  async look() {
    const { round, place } = this;
    let next = AGAIN;
    try {
      const payload = await this.ask(place.address);
      if (round !== this.round) return;
      next = place.still ? HEARTBEAT : pause(await this.take(payload));
      if (round === this.round && payload.still !== place.still) {
        next = HEARTBEAT;
        this.turn(payload.still);
      }
    } catch (error) {
      if (round === this.round) this.fail(error);
    }
    if (round === this.round) this.wait(next);
  }
}

// The payload at an address; an answer that is none is an error with the server's sentence.
export async function fetched(address) {
  const response = await fetch(address);
  const payload = await response.json();
  if (!response.ok) throw new Error(payload.error);
  return payload;
}

// Milliseconds from `start` until what was changed is drawn, or one second: hidden pages do not draw.
export function drawnSince(start) {
  return new Promise((done) => {
    const told = () => done(performance.now() - start);
    setTimeout(told, 1000);
    requestAnimationFrame(() => setTimeout(told));
  });
}
