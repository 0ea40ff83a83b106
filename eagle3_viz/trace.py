"""A trace: everything that made a run, and everything the run yielded.

Pages, metrics and exports read traces and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eagle3_viz.records import Cycle, Prefill

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ModelSource:
    """Which weights one half of the pair is."""

    name: str
    location: str  # hub id, folder name or "embedded"; never a full path of this machine
    revision: str  # hub commit, wheel version, or ""
    sha256: str  # of the weights file, or ""
    parameters: int


@dataclass(frozen=True)
class Baseline:
    """Autoregression through the same target forward."""

    ms_per_token: float
    tokens: int  # how many tokens the measurement decoded
    measured_at: str  # ISO 8601, UTC
    how: str  # one sentence: same prompt, threads, dtype, ...


@dataclass(frozen=True)
class Header:
    """The effective configuration of the run (not the requested one) and its provenance."""

    method: str
    rule: str
    config: Mapping[str, object]  # DecodeConfig as plain JSON
    pair: str
    target: ModelSource
    draft: ModelSource | None  # None for autoregression
    dtype: str
    device: str
    threads: int
    versions: Mapping[str, str]  # python, torch, transformers, eagle3_viz, ...
    git_commit: str
    argv: tuple[str, ...]
    seed: int
    chat_template_sha256: str
    prompt: str
    prompt_ids: tuple[int, ...]
    started_at: str  # ISO 8601, UTC
    draft_vocabulary: int  # size, 0 for autoregression
    vocabulary: int
    context_limit: int
    baseline: Baseline | None = None


@dataclass
class Trace:
    """A run: header, prefill, cycles in order, and the bytes of every token id mentioned.

    `cycles` only grows while a run is live; nothing in it is ever changed.
    """

    header: Header
    prefill: Prefill | None = None
    cycles: list[Cycle] = field(default_factory=list)
    token_bytes: dict[int, bytes] = field(default_factory=dict)
