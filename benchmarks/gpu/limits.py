"""The section that measures what the device does at best: the floors of all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import torch

from benchmarks.gpu.section import Case, Row, Section, Setup
from benchmarks.gpu.timing import Limits

COPY, READ, PRODUCT = "copy", "read", "matrix product"


def limits_of(rows: Iterable[Row]) -> Limits | None:
    """What the section's rows say; None where one of them is missing."""
    rates = {row.case: row.numbers["rate_per_us"] for row in rows if "rate_per_us" in row.numbers}
    if not {COPY, READ, PRODUCT} <= set(rates):
        return None
    return Limits(max(rates[COPY], rates[READ]), rates[PRODUCT])


def _cases(setup: Setup) -> Iterator[Case]:
    yield Case(COPY, partial(_copy, setup))
    yield Case(READ, partial(_read, setup))
    yield Case(PRODUCT, partial(_product, setup))


def _copy(setup: Setup) -> Iterator[Row]:
    """A large tensor, read and written."""
    source = torch.ones(2**16 if setup.tiny else 2**30, dtype=torch.uint8, device=setup.device)
    us = setup.timer.median_us(partial(torch.empty_like(source).copy_, source))
    yield _rate(COPY, us, 2 * source.nbytes, "GB/s", 1e3)


def _read(setup: Setup) -> Iterator[Row]:
    """A large tensor, read: attention and verification write next to nothing."""
    source = torch.ones(2**14 if setup.tiny else 2**28, device=setup.device)
    yield _rate(READ, setup.timer.median_us(source.sum), source.nbytes, "GB/s", 1e3)


def _product(setup: Setup) -> Iterator[Row]:
    """A square product in bfloat16, as large as fills any card."""
    side = 64 if setup.tiny else 8192
    matrix = torch.randn(side, side, device=setup.device).bfloat16()
    us = setup.timer.median_us(partial(torch.matmul, matrix, matrix))
    yield _rate(PRODUCT, us, 2 * side**3, "TFLOP/s", 1e6)


def _rate(case: str, us: float, amount: int, unit: str, per_us: float) -> Row:
    """A rate, with its usual unit in the note; per_us of it are one a microsecond."""
    rate = amount / us
    return Row(case, "torch", {"us": us, "rate_per_us": rate}, True, f"{rate / per_us:.0f} {unit}")


SECTION = Section("limits", 10, _cases)
