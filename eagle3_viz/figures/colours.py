"""One meaning per colour, on every chart: what the live component paints in its style sheet.

States and origins share green (accepted), orange (rejected), violet (decided by the target) and
grey (the draft, or never tested). Time has a palette of its own, so that a phase is never taken
for a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["light", "dark"]


@dataclass(frozen=True)
class Palette:
    """CSS colours of one theme."""

    accepted: str
    rejected: str
    decided: str  # recovered and bonus tokens, and the residual they are drawn from
    plain: str
    q: str
    ink: str
    muted: str
    line: str
    overlap: str  # the shaded min(p, q)
    phases: dict[str, str]  # phase of a cycle -> colour


LIGHT = Palette(
    accepted="#0a8a64",
    rejected="#c9480f",
    decided="#7048c8",
    plain="#475569",
    q="#8b929c",
    ink="#1f2733",
    muted="#5f6875",
    line="#d5d9df",
    overlap="rgba(31, 39, 51, 0.13)",
    phases={
        "draft": "#5aa0dc",
        "tree": "#a9d0f0",
        "verify": "#27508f",
        "accept": "#e0b03c",
        "commit": "#a7adb5",
        "record": "#dfe2e6",
    },
)
DARK = Palette(
    accepted="#2fcf9b",
    rejected="#ff8b50",
    decided="#b79bf8",
    plain="#94a3b8",
    q="#818995",
    ink="#e5e9f0",
    muted="#9ba4b1",
    line="#353a43",
    overlap="rgba(229, 233, 240, 0.16)",
    phases={
        "draft": "#5aa5e6",
        "tree": "#a9d4f7",
        "verify": "#3f72c4",
        "accept": "#e0b03c",
        "commit": "#7b828c",
        "record": "#3d434d",
    },
)


def palette(mode: Mode) -> Palette:
    """The colours of the light or dark theme."""
    return DARK if mode == "dark" else LIGHT
