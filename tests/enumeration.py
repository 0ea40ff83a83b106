"""Exact expectation over every random decision of code that draws from `Draws`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import torch


class ScriptedDraws:
    """Follows a script of outcomes; beyond it takes the first possible one and notes the others."""

    def __init__(self, script: list[int]) -> None:
        self.script, self.taken, self.probability = script, 0, 1.0
        self.branches: list[list[int]] = []

    def _choose(self, probabilities: list[float]) -> int:
        options = [i for i, p in enumerate(probabilities) if p > 0]
        if self.taken < len(self.script):
            choice = self.script[self.taken]
        else:
            choice = options[0]
            self.branches += [[*self.script, other] for other in options[1:]]
            self.script = [*self.script, choice]
        self.taken += 1
        self.probability *= probabilities[choice]
        return choice

    def accepts(self, probability: float) -> tuple[bool, float]:
        accepted = self._choose([probability, 1.0 - probability]) == 0
        return accepted, 0.0 if accepted else 1.0

    def token(self, weights: torch.Tensor) -> torch.Tensor:
        return torch.tensor(self._choose((weights / weights.sum()).tolist()))

    def take(self) -> tuple[float, ...]:
        return ()


def exact_distribution(run: Callable[[ScriptedDraws], tuple]) -> dict[tuple, float]:
    """Probability of each result of `run(draws)`, by walking every outcome of every draw."""
    mass: dict[tuple, float] = defaultdict(float)
    scripts: list[list[int]] = [[]]
    while scripts:
        draws = ScriptedDraws(scripts.pop())
        mass[run(draws)] += draws.probability
        scripts += draws.branches
    return dict(mass)
