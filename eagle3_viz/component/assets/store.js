// What has come of a run so far. While it moves only its last cycles come; what is missing is asked
// for again.

export class Store {
  constructor() {
    this.reset(null);
  }

  reset(run) {
    this.run = run;
    this.cycles = [];
    this.labels = {};
    this.meta = { opening_text: [], metrics: [] };
    this.revision = 0;
  }

  merge(payload) {
    if (payload.run !== this.run) this.reset(payload.run);
    Object.assign(this.labels, payload.labels);
    for (const cycle of payload.cycles) this.cycles[cycle.i] = cycle;
    this.cycles.length = payload.total_cycles;
    this.meta = payload;
    this.revision += 1;
  }

  get running() {
    return this.meta.status === "running";
  }

  // Cycles before the first that is missing.
  get whole() {
    const missing = this.cycles.findIndex((cycle) => !cycle);
    return missing < 0 ? this.cycles.length : missing;
  }

  get last() {
    return this.cycles.length - 1;
  }

  label(token) {
    return this.labels[token]?.[0] ?? `#${token}`;
  }

  hover(token) {
    const entry = this.labels[token];
    return entry ? (entry[1] ?? entry[0]) : `#${token}`;
  }
}
