// Which cycle and node are looked at. `picked` null means: follow the newest cycle.
//
// Selections travel to Python and come back in later payloads. An echo of what was sent is
// dropped, or a slow reply would undo a newer choice; anything else is Python's own wish.

// The recovered or bonus token, which is no node of the draft tree; -1 is "no parent".
export const DECIDED = -2;

const keyOf = (cycle, node) => `${cycle ?? "live"}/${node ?? "-"}`;

export class Selection {
  constructor() {
    this.reset();
  }

  reset() {
    this.picked = null;
    this.node = null;
    this.sent = [];
    this.heard = keyOf(null, null);
  }

  cycle(store) {
    if (this.picked === null) return store.last;
    return Math.min(this.picked, store.last);
  }

  pick(cycle, node = null) {
    this.picked = cycle;
    this.node = node;
  }

  follow() {
    this.pick(null);
  }

  // The value for Python. The decided token is looked at from the node where the walk stopped.
  report(stop) {
    if (this.picked === null) {
      this.sent.push(keyOf(null, null));
      return null;
    }
    const decided = this.node === DECIDED;
    const node = decided ? stop : this.node;
    this.sent.push(keyOf(this.picked, node));
    return decided
      ? { cycle: this.picked, node, decided: true }
      : { cycle: this.picked, node };
  }

  hear(cycle, node) {
    const key = keyOf(cycle, node);
    const echo = this.sent.lastIndexOf(key);
    if (echo >= 0) this.sent.splice(0, echo + 1);
    else if (key !== this.heard) this.pick(cycle ?? null, node ?? null);
    this.heard = key;
  }
}
