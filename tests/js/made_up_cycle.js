// A random cycle whose siblings share a distribution: distinct tokens, q summing to at most 1.

export function random(seed) {
  let state = seed + 1;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

const rounded = (value) => Number(value.toPrecision(4)); // as the page gets it

export function madeUpCycle(size, seed, { full = false } = {}) {
  const draw = random(seed);
  const parent = [-1];
  for (let i = 1; i < size; i += 1) parent.push(Math.floor(draw() * Math.min(i, 12)));
  const left = new Map();
  const q = parent.map((at, i) => {
    if (i === 0) return null;
    const rest = left.get(at) ?? 1;
    const last = full && parent.lastIndexOf(at) === i;
    const share = last ? rest : rest * draw();
    left.set(at, rest - share);
    return rounded(share);
  });
  const path = [0];
  for (let at = 0; at >= 0; ) {
    at = draw() < 0.75 ? parent.indexOf(at) : -1;
    if (at >= 0) path.push(at);
  }
  const state = parent.map((at, i) => (i === 0 ? 0 : path.includes(i) ? 1 : path.includes(at) ? 2 : 3));
  const tested = parent.flatMap((_, i) => (state[i] === 2 ? [[i, draw(), draw(), draw()]] : []));
  const stop = path[path.length - 1];
  return {
    i: 0,
    prefix_length: 100 + Math.floor(draw() * 50),
    path,
    nodes: {
      token: parent.map((_, i) => i), parent, state, q,
      p: parent.map((_, i) => (i === 0 ? null : rounded(draw()))),
      warped: null, p_rank: parent.map(() => 0), q_rank: parent.map(() => 0), tested, order: null,
    },
    pruned: {
      total: 2, token: [900, 901], parent: [stop, size],
      q: [rounded((left.get(stop) ?? 1) * 0.25), 0.5],
    },
    decided: { token: 77777, origin: 2, p: 0.4, q: rounded((left.get(stop) ?? 1) * 0.5), q_rank: 3 },
  };
}
