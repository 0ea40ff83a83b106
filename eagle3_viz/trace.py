"""A trace: everything that made a run, and everything the run yielded.

Pages, metrics and exports read traces and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eagle3_viz.records import Cycle, Finish, Origin, Prefill

FORMAT_VERSION = 2


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
    dtype_reason: str  # why this number format, with what was measured
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

    @property
    def lossless(self) -> bool:
        """Whether the rule keeps the target's distribution (MATH.md 1.6 does not)."""
        return self.rule != "typical"


@dataclass
class Trace:
    """A run: header, prefill, cycles in order, and the bytes of every token id mentioned.

    `cycles` only grows while a run is live; nothing in it is ever changed.
    """

    header: Header
    prefill: Prefill | None = None
    cycles: list[Cycle] = field(default_factory=list)
    token_bytes: dict[int, bytes] = field(default_factory=dict)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every generated token kept: prefill's, then the cycles'. The prompt is not in it."""
        first = () if self.prefill is None else (self.prefill.token,)
        return first + tuple(token for cycle in self.cycles for token in cycle.tokens)

    @property
    def written(self) -> tuple[int, ...]:
        """`tokens` without the end of sequence."""
        return self.tokens[:-1] if self.finish == "eos" else self.tokens

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where each of `tokens` came from; the first is plain."""
        first = () if self.prefill is None else (Origin.PLAIN,)
        return first + tuple(origin for cycle in self.cycles for origin in cycle.origins)

    @property
    def text(self) -> str:
        """The generated text, special tokens as their text; broken UTF-8 becomes U+FFFD."""
        return b"".join(self.token_bytes[t] for t in self.tokens).decode("utf-8", "replace")

    @property
    def finish(self) -> Finish | None:
        """Why the run ended; None while it goes on."""
        last = self.cycles[-1] if self.cycles else self.prefill
        return None if last is None else last.finish
