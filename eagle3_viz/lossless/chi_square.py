"""Pearson's chi-square test of drawn texts against exact probabilities, its power, many tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

LEAST_EXPECTED = 5.0
"""Texts expected less often than this share a cell: the statistic is close to chi-square then."""

FAMILY_LEVEL = 0.01
"""Chance that any of the tests of a family rejects what is right."""

POWER = 0.8

Text = tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """A text, or all rare ones (None), how often it was expected and how often it was drawn."""

    text: Text | None
    expected: float
    seen: int


@dataclass(frozen=True)
class ChiSquare:
    """One test. distance is the total variation between what was seen and expected, cell by cell;
    it is above zero for a right rule as well, since draws scatter."""

    cells: tuple[Cell, ...]
    statistic: float
    freedom: int
    p_value: float
    distance: float


def chi_square(drawn: Iterable[Text], exact: Mapping[Text, float]) -> ChiSquare:
    """Test that `drawn` texts are independent draws with the probabilities `exact`.

    exact: texts with their probability; what they lack to 1 belongs to the texts not named. Raises
    ValueError as `refuse_few_cells`.
    """
    seen = Counter(drawn)
    total = seen.total()
    refuse_few_cells(exact, total)
    cells = pooled(seen, exact, total)
    statistic = sum((cell.seen - cell.expected) ** 2 / cell.expected for cell in cells)
    distance = sum(abs(cell.seen - cell.expected) for cell in cells) / (2 * total)
    freedom = len(cells) - 1
    return ChiSquare(cells, statistic, freedom, survival(statistic, freedom), distance)


def refuse_few_cells(exact: Mapping[Text, float], draws: int) -> None:
    """Raise ValueError where `draws` texts would fill fewer than two cells."""
    if len(pooled(Counter(), exact, draws)) < 2:
        raise ValueError(
            f"{draws} draws leave fewer than two cells of {LEAST_EXPECTED:g} expected texts: draw "
            "more, or choose a prefix after which the next tokens are not so certain or so open"
        )


def pooled(seen: Counter[Text], exact: Mapping[Text, float], draws: int) -> tuple[Cell, ...]:
    """Cells by falling probability, rare texts in a last one that is no rarer than allowed."""
    by_mass = sorted(exact.items(), key=lambda entry: (-entry[1], entry[0]))
    cells = [
        Cell(text, draws * mass, seen[text])
        for text, mass in by_mass
        if draws * mass >= LEAST_EXPECTED
    ]
    expected = draws - sum(cell.expected for cell in cells)
    found = seen.total() - sum(cell.seen for cell in cells)
    while cells and expected < LEAST_EXPECTED and (found or expected > draws * 1e-6):
        last = cells.pop()
        expected, found = expected + last.expected, found + last.seen
    rare = [Cell(None, expected, found)] if expected >= LEAST_EXPECTED else []
    return (*cells, *rare)


def survival(statistic: float, freedom: int) -> float:
    """P(X >= statistic) of a chi-square variable X."""
    return float(_upper(freedom / 2, statistic / 2))


def critical(level: float, freedom: int) -> float:
    """The statistic that a chi-square variable reaches with probability `level`."""
    return _root(lambda x: level - survival(x, freedom))


def noncentral_survival(statistic: float, freedom: int, noncentrality: float) -> float:
    """P(X >= statistic) of a noncentral chi-square variable: a Poisson mixture of central ones."""
    mean = noncentrality / 2
    reach = int(mean + 12 * math.sqrt(mean + 1) + 20)
    k = torch.arange(reach, dtype=torch.float64)
    log_weight = torch.xlogy(k, torch.tensor(mean)) - mean - torch.lgamma(k + 1)
    tails = torch.special.gammaincc(freedom / 2 + k, torch.full_like(k, statistic / 2))
    return float((log_weight.exp() * tails).sum())


def detectable_distance(draws: int, freedom: int, level: float) -> float:
    """Total variation over the cells that a test at `level` rejects with a chance of `POWER`.

    The test rejects that often once draws * sum(d^2 / p), d the deviations of the cells, reaches a
    value lambda. By Cauchy and Schwarz sum(d^2 / p) >= (sum |d|)^2 = (2 TV)^2, so whatever the
    deviations look like, TV = sqrt(lambda / draws) / 2 is enough.
    """
    threshold = critical(level, freedom)
    needed = _root(lambda x: noncentral_survival(threshold, freedom, x) - POWER)
    return math.sqrt(needed / draws) / 2


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: reject where they are below the level of the whole family."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _upper(a: float, x: float) -> torch.Tensor:
    """The regularized upper incomplete gamma function Q(a, x)."""
    both = torch.tensor([a, x], dtype=torch.float64)
    return torch.special.gammaincc(both[0], both[1])


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function crosses zero, x > 0, by bisection."""
    low, high = 0.0, 1.0
    while rising(high) < 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high
