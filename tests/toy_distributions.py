"""Random p and q over a few tokens, of every kind that a rule must get right."""

from __future__ import annotations

import numpy as np

KINDS = (
    "generic",
    "q zeros",
    "p zeros",
    "both zeros",
    "disjoint",
    "equal",
    "equal support",
    "one-hot p",
    "one-hot q",
)


def random_pair(kind: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """p and q [size], float64."""
    rng = np.random.default_rng([seed, size, KINDS.index(kind)])
    p, q = (rng.random(size) ** 3 + 1e-3 for _ in range(2))
    some = rng.permutation(size)
    half = some[: rng.integers(1, size)]
    match kind:
        case "q zeros":
            q[half] = 0.0
        case "p zeros":
            p[half] = 0.0
        case "both zeros":
            p[half], q[rng.permutation(size)[: rng.integers(1, size)]] = 0.0, 0.0
        case "disjoint":
            p[half] = 0.0
            q[np.setdiff1d(some, half)] = 0.0
        case "equal":
            q = p.copy()
        case "equal support":
            p[half], q[half] = 0.0, 0.0
        case "one-hot p":
            p[:] = 0.0
            p[some[0]] = 1.0
        case "one-hot q":
            q[:] = 0.0
            q[some[0]] = 1.0
    return p / p.sum(), q / q.sum()
