"""What a run is asked to do: the tree's shape, the sampling transform, the rule, the limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from eagle3_viz.fixed_tree import DEFAULT_FIXED, FixedTree
from eagle3_viz.records import RecordLevel

Method = Literal["ar", "lookup", "independent", "eagle1", "eagle2", "eagle3"]
Rule = Literal["greedy", "topk", "sample", "typical"]
METHODS: tuple[Method, ...] = get_args(Method)
RULES: tuple[Rule, ...] = get_args(Rule)

MAX_TOTAL, MAX_DEPTH, MAX_TOP_K = 1024, 64, 64
"""Beyond these a tree costs minutes and gigabytes a cycle and wins nothing."""


@dataclass(frozen=True)
class TreeShape:
    """Size of a dynamic draft tree, counted as the published EAGLE code counts it.

    total  nodes verified per cycle, the root included (T, at least 2).
    depth  draft forwards after the root's own (D); the tree has depth + 1 drafted levels.
    top_k  children per expanded node and nodes expanded per level (K). 1 makes a chain.

    Raises ValueError when the draft cannot propose total - 1 nodes.
    """

    total: int = 8
    depth: int = 2
    top_k: int = 4

    def __post_init__(self) -> None:
        within = 2 <= self.total <= MAX_TOTAL and 0 <= self.depth <= MAX_DEPTH
        if not (within and 1 <= self.top_k <= MAX_TOP_K):
            raise ValueError(
                f"tree shape needs total from 2 to {MAX_TOTAL}, depth from 0 to {MAX_DEPTH} and "
                f"top_k from 1 to {MAX_TOP_K}; got total={self.total}, depth={self.depth}, "
                f"top_k={self.top_k}"
            )
        if self.total - 1 > self.pool_size:
            raise ValueError(
                f"total={self.total} asks for {self.total - 1} drafted nodes, but "
                f"depth={self.depth} and top_k={self.top_k} propose only {self.pool_size}; "
                f"lower total to {self.pool_size + 1} or raise depth or top_k"
            )

    @property
    def pool_size(self) -> int:
        """Candidates scored in one cycle: K + D K^2."""
        return self.top_k + self.depth * self.top_k**2

    @property
    def levels(self) -> int:
        """Drafted levels below the root."""
        return self.depth + 1

    def clipped(self, *, levels: int, top_k: int) -> TreeShape:
        """The largest shape within this one with at most `levels` levels and `top_k` children.

        A connected tree of total - 1 drafted nodes has no more levels than that: deeper drafting
        would not change which nodes are kept.
        """
        depth, k = min(self.depth, levels - 1, self.total - 2), min(self.top_k, top_k)
        return TreeShape(min(self.total, 1 + k + depth * k * k), depth, k)


LEAST_TEMPERATURE = 1e-6  # below it logits divided by it overflow float32


@dataclass(frozen=True)
class Sampling:
    """The target's sampling transform ("warping"). temperature 0 is greedy.

    Applied in transformers' order: temperature, top-k, top-p. top_k 0 and top_p 1 are off.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature and not LEAST_TEMPERATURE <= self.temperature < float("inf"):
            raise ValueError(
                f"temperature must be 0 (greedy) or finite and {LEAST_TEMPERATURE:g} or more; got "
                f"{self.temperature}"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or positive; got {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be in (0, 1], 1 meaning off; got {self.top_p}")

    @property
    def is_identity(self) -> bool:
        """True when p equals p_raw."""
        return self.temperature == 1.0 and self.top_k == 0 and self.top_p == 1.0


@dataclass(frozen=True)
class DecodeConfig:
    """One run. Raises ValueError on a combination that has no meaning.

    shape     the dynamic tree of every method but eagle1; lookup proposes its longest chain.
    fixed     the tree of eagle1.
    sampling  warps p; under `sample`, q as well, apart from its temperature where
              `draft_temperature` gives another.
    rule      None picks the published behaviour: greedy at temperature 0, else topk. `typical`
              changes the output distribution (MATH.md 1.6).
    """

    method: Method = "eagle3"
    shape: TreeShape = field(default_factory=TreeShape)
    fixed: FixedTree = DEFAULT_FIXED
    sampling: Sampling = field(default_factory=Sampling)
    draft_temperature: float | None = None
    rule: Rule | None = None
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ()
    seed: int = 0
    record: RecordLevel = "full"

    def __post_init__(self) -> None:
        greedy = self.sampling.temperature == 0.0
        if self.rule is None:
            object.__setattr__(self, "rule", "greedy" if greedy else "topk")
        if (self.rule == "greedy") != greedy:
            raise ValueError(
                f"rule={self.rule!r} does not fit temperature={self.sampling.temperature}: "
                "greedy needs temperature 0, topk, sample and typical need a positive one"
            )
        if self.rule == "sample" and self.method == "lookup":
            raise ValueError(
                "rule='sample' draws from q, and lookup copies text: it has no q; use rule='topk'"
            )
        if self.draft_temperature is not None and self.rule != "sample":
            raise ValueError(
                f"draft_temperature warps the q that rule='sample' draws from; rule={self.rule!r} "
                "proposes the draft's most likely tokens: leave it out"
            )
        own = self.draft_temperature
        if own is not None and not LEAST_TEMPERATURE <= own < float("inf"):
            raise ValueError(
                f"draft_temperature must be finite and {LEAST_TEMPERATURE:g} or more; got {own}"
            )
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1; got {self.max_new_tokens}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be from 0 to 2**63 - 1; got {self.seed}")
        if any(not s for s in self.stop):
            raise ValueError("a stop string must not be empty")

    @property
    def tree(self) -> TreeShape | FixedTree:
        """The tree that the method drafts."""
        return self.fixed if self.method == "eagle1" else self.shape

    @property
    def draft_sampling(self) -> Sampling:
        """The transform of the q that `sample` draws from."""
        if self.draft_temperature is None:
            return self.sampling
        return replace(self.sampling, temperature=self.draft_temperature)
