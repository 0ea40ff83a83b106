"""A metric as some project defines it, with its value for one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CYCLES, DRAFTED_CYCLES, DRAFTED, TIME = "cycles", "cycles with a draft", "drafted nodes", "time"
NOTHING = "a count"


@dataclass(frozen=True)
class LedgerEntry:
    """A metric as `project` defines it.

    values   its value, several where it is one number for each position; empty where this run has
             nothing to compute it from.
    formula  in the project's own counters; worked, the same with the counts of this run.
    bonus    whether the recovered or bonus token of a cycle is in the number.
    per      what the denominator counts.
    note     what it is easily mistaken for.
    """

    project: str
    name: str
    values: tuple[float, ...]
    formula: str
    worked: str
    bonus: bool
    per: str
    note: str


def count(project: str, name: str, value: int, formula: str, note: str) -> LedgerEntry:
    """A counter: drafted tokens alone or cycles, over nothing."""
    return LedgerEntry(project, name, (float(value),), formula, str(value), False, NOTHING, note)


def ratio(part: float, whole: float) -> tuple[float, ...]:
    """One value, or none where there is nothing to divide by."""
    return (part / whole,) if whole > 0 else ()


def ratios(parts: Sequence[int], wholes: Sequence[int]) -> tuple[float, ...]:
    """A value for each position; wholes are positive."""
    return tuple(part / whole for part, whole in zip(parts, wholes, strict=True))


def worked(parts: Sequence[int], wholes: Sequence[int]) -> str:
    """The divisions of `ratios`, written out."""
    return ", ".join(f"{part} / {whole}" for part, whole in zip(parts, wholes, strict=True))
