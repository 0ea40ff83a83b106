"""What a check of a GPU is made of: sections of cases, and the rows of the report they yield.

A new section is a module with a `Section`, and its name in `benchmarks.gpu.sections`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from benchmarks.gpu.timing import Limits, Timer


@dataclass(frozen=True)
class Row:
    """One line of the report.

    numbers  by column: "error" and "tolerance" are relative; microseconds are "eager_us" with the
             host's part, "us" without it, "floor_us" at least; milliseconds of a whole model have
             the host's part in them.
    passed   None where nothing was judged: a provider that is there to compare with.
    """

    case: str
    provider: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    passed: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Setup:
    """Where a section runs. tiny: shapes that an interpreter gets through in seconds.

    limits is None where they could not be measured: no floor is told then.
    """

    device: torch.device
    tiny: bool
    timer: Timer
    limits: Limits | None

    def time(
        self,
        call: Callable[[], object],
        size: int,
        operations: int = 0,
        *,
        waits: bool = False,
    ) -> dict[str, float]:
        """Microseconds of `call`, and the share of them that its bytes and operations need.

        waits: the call waits for the device, so that no CUDA graph can replay it.
        """
        numbers = {"eager_us": self.timer.median_us(call)}
        if not waits:
            numbers["us"] = self.timer.median_us(self.timer.replay(call))
        if self.limits is not None:
            floor = self.limits.floor_us(size, operations)
            taken = numbers.get("us", numbers["eager_us"])
            numbers |= {"floor_us": floor, "of_floor": floor / taken}
        return numbers


@dataclass(frozen=True)
class Case:
    """A name of its own in its section, and what measures it, in rows of that name: nothing is
    allocated on the device before `rows` is called."""

    name: str
    rows: Callable[[], Iterator[Row]]


@dataclass(frozen=True)
class Section:
    """Cases under one name. seconds: its budget; what is left then is reported as not run."""

    name: str
    seconds: float
    cases: Callable[[Setup], Iterator[Case]]


def run_section(section: Section, setup: Setup) -> Iterator[Row]:
    """The rows of every case. A case that raises becomes a row that did not pass."""
    deadline = time.monotonic() + section.seconds
    for case in section.cases(setup):
        if time.monotonic() > deadline:
            note = f"not run: the section's {section.seconds:g} s were over"
            yield Row(case.name, "", passed=False, note=note)
            continue
        try:
            yield from case.rows()
        except Exception as error:  # whatever a case raises is a finding, and others follow
            yield Row(case.name, "", passed=False, note=in_one_line(error))


def in_one_line(error: Exception) -> str:
    """The kind of an error and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"


def compared(case: str, provider: str, measure: Callable[[], dict[str, float]]) -> Row:
    """A row of what is there to compare with: that it cannot run here is told and fails nothing."""
    try:
        return Row(case, provider, measure())
    except Exception as error:  # of code that is not under test
        return Row(case, provider, note=in_one_line(error))


def judged(
    case: str,
    provider: str,
    error: float,
    tolerance: float,
    numbers: dict[str, float] | None = None,
) -> Row:
    """A row that passes if the error is at most the tolerance; one that is no number does not."""
    stated = {"error": error, "tolerance": tolerance, **(numbers or {})}
    return Row(case, provider, stated, error <= tolerance)
