// Which step of a walk is shown, and the clock that moves it on. `at` null: the walk is not shown.

const PACE = 1000; // ms a step stays

export class Player {
  constructor(onChange, clock = { set: (f, ms) => setTimeout(f, ms), clear: (id) => clearTimeout(id) }) {
    this.onChange = onChange;
    this.clock = clock;
    this.steps = [];
    this.at = null;
    this.playing = false;
  }

  get last() {
    return this.steps.length - 1;
  }

  get step() {
    return this.at === null ? null : this.steps[this.at];
  }

  // Another cycle: its walk begins when asked for.
  load(steps) {
    this.halt();
    this.steps = steps;
    this.at = null;
  }

  toggle() {
    if (this.playing) this.halt();
    else if (this.steps.length > 0) this.start();
    this.onChange();
  }

  start() {
    this.playing = true;
    if (this.at === null || this.at === this.last) this.at = 0;
    this.wait();
  }

  wait() {
    this.timer = this.clock.set(() => {
      this.at += 1;
      if (this.at < this.last) this.wait();
      else this.playing = false;
      this.onChange();
    }, PACE);
  }

  // One step on or back by hand. Outside the walk the first step on shows its start, the first step
  // back its end.
  move(by) {
    if (this.steps.length === 0) return;
    this.halt();
    if (this.at === null) this.at = by > 0 ? 0 : this.last;
    else this.at = Math.min(Math.max(this.at + by, 0), this.last);
    this.onChange();
  }

  leave() {
    this.halt();
    this.at = null;
    this.onChange();
  }

  halt() {
    this.clock.clear(this.timer);
    this.playing = false;
  }
}
