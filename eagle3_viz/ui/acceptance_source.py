"""Results of several runs, and how a page gets from one of their prompts to its traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from eagle3_viz.suite.results import Results
from eagle3_viz.trace import Trace


@dataclass(frozen=True)
class Openable:
    """A trace behind a prompt: load reads it, in_library gives its id there, put there if needed.

    Both may raise a ValueError or OSError whose message says what is wrong.
    """

    name: str
    load: Callable[[], Trace]
    in_library: Callable[[], str]


@dataclass(frozen=True)
class Source:
    """Results and how to get from a prompt, given by set and name, to its traces.

    key: another one where the results are others; what is computed from them is kept under it.
    """

    key: str
    results: Results
    title: Callable[[str, str], str]
    openables: Callable[[str, str, str], Sequence[Openable]]
    about: str


def with_interval(value: float, low: float, high: float) -> str:
    """A number and its interval, a dash for what does not exist."""
    if pd.isna(value):
        return "–"
    return f"{value:.2f}" if pd.isna(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"


def drafting(results: Results) -> list[str]:
    """The settings that draft; all of them where none does."""
    names = [name for name, config in results.settings.items() if config.get("method") != "ar"]
    return names or list(results.settings)
