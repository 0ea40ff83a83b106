"""How drafted tokens are tested, in plain numpy from MATH.md 1."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Dice:
    """Every uniform drawn, in order."""

    rng: np.random.Generator
    drawn: list[float] = field(default_factory=list)

    def uniform(self) -> float:
        self.drawn.append(float(self.rng.random()))
        return self.drawn[-1]

    def token(self, weights: np.ndarray) -> int:
        """A token in proportion to `weights`, by inverse transform of one uniform."""
        cumulative = weights.cumsum()
        return int(np.searchsorted(cumulative, self.uniform() * cumulative[-1], side="right"))


@dataclass(frozen=True)
class Trial:
    """One child put to the test after all its elder siblings were refused."""

    p: float
    chance: float


def trials(
    rule: str, p: np.ndarray, q: np.ndarray, children: list[int]
) -> tuple[list[Trial], np.ndarray]:
    """The trial of each child in order, and what is left of p after the last refusal."""
    made = []
    for token in children:
        made.append(Trial(float(p[token]), _chance(rule, p, q, token)))
        if rule == "topk":
            p = _normalized(np.where(np.arange(len(p)) == token, 0.0, p), p)
        elif rule == "sample":
            p = _normalized(np.maximum(0.0, p - q), p)
            q = _normalized(np.where(np.arange(len(q)) == token, 0.0, q), q)
    return made, p


def threshold(p: np.ndarray) -> float:
    """What typical acceptance asks of p: min(0.09, 0.3 exp(-H(p)))."""
    positive = p[p > 0]
    return min(0.09, 0.3 * float(np.exp((positive * np.log(positive)).sum())))


def some_accepted(made: list[Trial]) -> float:
    """Probability that one of the children passes, whichever were drawn."""
    return 1.0 - float(np.prod([1.0 - trial.chance for trial in made]))


def _chance(rule: str, p: np.ndarray, q: np.ndarray, token: int) -> float:
    if rule == "sample":
        return min(1.0, float(p[token] / q[token]))
    if rule == "typical":
        return float(p[token] > threshold(p))
    return float(p[token])


def _normalized(rest: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    return rest / rest.sum() if rest.sum() > 0 else otherwise
