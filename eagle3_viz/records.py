"""What one run of the decoder yields: a `Prefill`, then one `Cycle` per draft-and-verify round.

Words used here, in the trace and on every screen:

accepted   a drafted token that verification kept.
recovered  the token drawn by the target after every tested child of a node was refused.
bonus      the token the target adds after the walk reached a node without children.
plain      a token the target decided alone: autoregression, or the first token after prefill.

All arrays live on the host as numpy arrays; a record never keeps a device alive. `p` is the
target's distribution after warping (what the acceptance rule used), `p_raw` the target's softmax
at temperature 1, `q` the draft's softmax at temperature 1 unless the rule sampled from it.
Values that do not exist (p of a node that was not tested, the root's q) are NaN or -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

import numpy as np

RecordLevel = Literal["off", "outcomes", "full"]
Finish = Literal["eos", "length", "context", "stop"]


class NodeState(IntEnum):
    """What verification made of a drafted node."""

    ROOT = 0
    ACCEPTED = 1
    REJECTED = 2  # tested and refused
    UNREACHED = 3  # never tested: below a refused node, or after an accepted sibling
    PRUNED = 4  # drafted, dropped by the budget before verification (pool entries only)


class Origin(IntEnum):
    """Where a committed token came from."""

    PLAIN = 0
    ACCEPTED = 1
    RECOVERED = 2
    BONUS = 3


@dataclass(frozen=True)
class Nodes:
    """The verified tree, one entry per node, parents before children; entry 0 is the root.

    Shapes: every array is [T], T = nodes verified including the root.
    """

    token: np.ndarray  # int32, target token id
    parent: np.ndarray  # int32, index into this table, -1 for the root
    depth: np.ndarray  # int32, 0 for the root
    draft_logprob: np.ndarray  # float32, log q(token | parent), NaN for the root
    score: np.ndarray  # float32, sum of draft_logprob along the path, 0 for the root
    q_rank: np.ndarray  # int32, 0-based rank among the parent's q, -1 for the root
    p_raw: np.ndarray  # float32, target softmax at temperature 1 of token given parent
    p: np.ndarray  # float32, the same after warping (one-hot at temperature 0)
    p_rank: np.ndarray  # int32, 0-based rank of token in the target's logits at the parent
    p_tested: np.ndarray  # float32, p when tested, earlier siblings removed; NaN if untested
    accept_probability: np.ndarray  # float32, NaN if untested
    uniform: np.ndarray  # float32, the draw it was compared with; NaN if untested or greedy
    state: np.ndarray  # int8, NodeState
    expanded: np.ndarray  # bool, the draft proposed children for this node
    pool_index: np.ndarray  # int32, position in `Pool`, -1 for the root

    def __len__(self) -> int:
        return len(self.token)


@dataclass(frozen=True)
class Pool:
    """Every candidate the draft scored in this cycle, kept or pruned, in the order drafted.

    Shapes: every array is [C]. The kept ones are `Nodes.pool_index`.
    """

    token: np.ndarray  # int32
    parent: np.ndarray  # int32, index into this pool, -1 for the root
    depth: np.ndarray  # int32, 1 for children of the root
    draft_logprob: np.ndarray  # float32
    score: np.ndarray  # float32

    def __len__(self) -> int:
        return len(self.token)


@dataclass(frozen=True)
class Top:
    """The head of one distribution: the most likely tokens, and what is left out.

    Shapes: token and probability are [m], m <= 20, by falling probability.
    """

    token: np.ndarray  # int32, target token ids
    probability: np.ndarray  # float32
    tail: float  # mass of everything not listed


@dataclass(frozen=True)
class Distributions:
    """The distributions at one node that the acceptance walk visited.

    `q` is None where the draft did not expand the node. `residual` is what a token is drawn from
    when every child is refused (None under greedy and at nodes without children): p with the
    children removed under `topk`, norm(max(0, p - q)) under `sample` (MATH.md 1.2, 1.3).
    Scalars are over the whole vocabulary and use p_raw, as bars and divergences do, except
    `residual_mass` and `expected_acceptance`, which belong to the rule and use p. NaN without q.
    Under `sample` q is the tempered one that tokens were drawn from, also in overlap and kl.
    """

    node: int
    p_raw: Top
    p: Top | None  # None where warping changes nothing, that is p == p_raw
    q: Top | None
    residual: Top | None
    overlap: float  # sum_x min(p_raw, q)
    children_mass: float  # p_raw mass covered by the node's children
    kl: float  # KL(q || p_raw) in nats; the other direction is infinite for a reduced vocabulary
    entropy_p: float  # nats
    entropy_q: float  # nats
    residual_mass: float  # probability that every child is refused
    expected_acceptance: float  # probability that some child is accepted (MATH.md 4)


@dataclass(frozen=True)
class Miss:
    """Why the token the target decided was not in the tree, for the node where the walk stopped.

    Only for tokens that no verified child matched. Read the causes in this order: the draft
    vocabulary lacks it; the node lies at the deepest level; the node was not expanded; the
    budget pruned it; else it ranked below the node's children.
    """

    node: int
    token: int
    q: float  # NaN where the node was not expanded; 0 outside the draft vocabulary
    q_rank: int  # 0-based, -1 where unknown
    in_draft_vocabulary: bool
    expanded: bool
    beyond_depth: bool
    pruned: bool


@dataclass(frozen=True)
class Timing:
    """Milliseconds by phase. Recording is timed apart and never part of a speed-up."""

    draft_levels: tuple[float, ...]  # root pass first (cycle 0: done in prefill), then each level
    tree: float
    verify: float
    accept: float
    commit: float
    record: float

    @property
    def draft(self) -> float:
        return sum(self.draft_levels)

    @property
    def total(self) -> float:
        """Wall time of the cycle without recording."""
        return self.draft + self.tree + self.verify + self.accept + self.commit


@dataclass(frozen=True)
class Prefill:
    """The prompt's pass through both models, and the first token it decides. Not a cycle."""

    prompt_length: int
    token: int  # the first root; origin plain
    target_ms: float
    draft_ms: float
    finish: Finish | None = None
    draws: tuple[float, ...] = ()  # as `Cycle.draws`

    @property
    def token_ids(self) -> set[int]:
        """Every token id this record mentions."""
        return {self.token}


@dataclass(frozen=True)
class Cycle:
    """One draft phase and one verification.

    `tokens` are the committed tokens, accepted ones first and the recovered or bonus token last;
    `origins` says which is which. A cycle shortened by an end (`finish` set) is `cut` when it
    would have committed more: tau is taken over uncut cycles.
    """

    index: int
    prefix_length: int  # tokens in the target's KV cache before this cycle, n in MATH.md 2
    root: int  # the token at position n, decided but not yet in the cache
    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    accepted: int  # drafted tokens accepted before any cut
    path: tuple[int, ...]  # node indices from the root to the last accepted node
    verified: int  # nodes in the target's forward, the root included
    drafted: int  # candidates the draft scored, kept or not
    draft_forwards: int
    timing: Timing
    draws: tuple[float, ...] = ()  # every uniform of the run's generator, in the order drawn
    cut: bool = False
    finish: Finish | None = None
    nodes: Nodes | None = None  # from record="outcomes" on
    pool: Pool | None = None  # record="full"
    distributions: tuple[Distributions, ...] = field(default=())  # record="full"
    miss: Miss | None = None  # record="full"

    @property
    def token_ids(self) -> set[int]:
        """Every token id this record mentions."""
        ids = {self.root, *self.tokens}
        arrays = [table.token for table in (self.nodes, self.pool) if table is not None]
        for at in self.distributions:
            tops = (at.p_raw, at.p, at.q, at.residual)
            arrays += [top.token for top in tops if top is not None]
        for array in arrays:
            ids.update(array.tolist())
        return ids if self.miss is None else ids | {self.miss.token}
