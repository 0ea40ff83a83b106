"""A toy target and draft over a vocabulary of awkward tokens, and how the draft proposes."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from eagle3_viz.config import TreeShape
from eagle3_viz.fixed_tree import FixedTree
from tests.toy_rules import Dice

AWKWARD: tuple[bytes, ...] = (
    b"<script>alert(1)</script>",
    b'"><img src=x onerror=alert(1)>',
    b"**bold**",
    b"$x$",
    b"`code`",
    b"[link](https://example.org)",
    b"&amp;",
    b"\t",
    b"\n",
    b"\r",
    b" ",
    b"   ",
    "\u00a0".encode(),
    b"",
    b"\xf0\x9f",
    b"\x99\x82",
    b"\xff",
    b"\x07",
    b"\x7f",
    " مرحبا".encode(),
    " שלום".encode(),
    "你好".encode(),
    "\u202egnp.exe\u202c".encode(),
    "\u200b".encode(),
    b" pneumonoultramicroscopicsilicovolcanoconiosis-and-some-more",
)
WORDS = tuple(
    b" " + word
    for word in (
        b"the a of and to in is that it was for on are as with his they be at one have this from "
        b"or had by hot but some what there we can out other were all your when"
    ).split()
)
END, STOP = b"<|im_end|>", b"###"
VOCABULARY: tuple[bytes, ...] = (*AWKWARD, *WORDS, STOP, END)
END_ID, STOP_ID = len(VOCABULARY) - 1, len(VOCABULARY) - 2
EMOJI_HEAD, EMOJI_TAIL = AWKWARD.index(b"\xf0\x9f"), AWKWARD.index(b"\x99\x82")
DRAFT_LACKS = tuple(range(len(AWKWARD) + 4, len(AWKWARD) + 12))
TEMPERATURE = {"greedy": 0.0, "topk": 0.7, "sample": 0.8, "typical": 0.9}
PROMPT_IDS = (*range(len(AWKWARD)), len(AWKWARD))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@dataclass(frozen=True)
class Both:
    """Both models' distributions after one context, each [V] float64."""

    p_raw: np.ndarray
    p: np.ndarray
    q: np.ndarray


@dataclass
class ToyPair:
    """The toy target and draft. `forced` is the token every context of length `end_at` yields."""

    seed: int
    rule: str
    forced: int = -1
    end_at: int = -1
    cache: dict[tuple[int, ...], Both] = field(default_factory=dict)

    def at(self, context: tuple[int, ...]) -> Both:
        if context not in self.cache:
            self.cache[context] = self._compute(context)
        return self.cache[context]

    def _compute(self, context: tuple[int, ...]) -> Both:
        rng = np.random.default_rng([self.seed, len(context), *context[-3:]])
        size = len(VOCABULARY)
        target = rng.normal(0, 2.4, size)
        draft = 0.9 * target + rng.normal(0, 0.9, size)
        if context[-1] == EMOJI_HEAD:
            target[EMOJI_TAIL] = draft[EMOJI_TAIL] = 12.0
        if rng.random() < 0.5:  # so that KL(p_raw || q) is finite about half of the time
            target[list(DRAFT_LACKS)] = -np.inf
        draft[list(DRAFT_LACKS)] = -np.inf
        for logits in (target, draft):
            logits[[END_ID, STOP_ID]] = -np.inf
            if len(context) == self.end_at:
                logits[self.forced] = 60.0
        p_raw = _softmax(target)
        if self.rule == "greedy":
            p = np.zeros(size)
            p[target.argmax()] = 1.0
        else:
            p = _softmax(target / TEMPERATURE[self.rule])
        q = _softmax(draft / TEMPERATURE["sample"] if self.rule == "sample" else draft)
        return Both(p_raw, p, q)


@dataclass
class Candidate:
    token: int
    parent: int
    depth: int
    logprob: float
    score: float
    q_rank: int
    context: tuple[int, ...]  # up to and including the token
    expanded: bool = False


def rank_of(values: np.ndarray, token: int) -> int:
    return int((values > values[token]).sum())


def _children(
    pair: ToyPair, pool: list[Candidate], parent: int, context: tuple[int, ...], tokens: list[int]
) -> None:
    q = pair.at(context).q
    score, depth = (pool[parent].score, pool[parent].depth) if parent >= 0 else (0.0, 0)
    for token in tokens:
        logprob = float(np.log(q[token]))
        rank = rank_of(q, token)
        pool.append(
            Candidate(token, parent, depth + 1, logprob, score + logprob, rank, (*context, token))
        )


def dynamic_pool(pair: ToyPair, context: tuple[int, ...], shape: TreeShape) -> list[Candidate]:
    """MATH.md 2: level 1, then `depth` times the `top_k` best of the newest level."""

    def best(ctx: tuple[int, ...]) -> list[int]:
        q = pair.at(ctx).q
        return [int(t) for t in np.argsort(-q, kind="stable")[: shape.top_k] if q[t] > 0]

    pool: list[Candidate] = []
    _children(pair, pool, -1, context, best(context))
    newest = range(len(pool))
    for _ in range(shape.depth):
        beam = sorted(newest, key=lambda i: -pool[i].score)[: shape.top_k]
        start = len(pool)
        for index in beam:
            pool[index].expanded = True
            _children(pair, pool, index, pool[index].context, best(pool[index].context))
        newest = range(start, len(pool))
    return pool


def fixed_pool(
    pair: ToyPair, context: tuple[int, ...], tree: FixedTree, dice: Dice
) -> list[Candidate]:
    """EAGLE-1: the child of rank r is the draft's r-th most likely token, or the r-th drawn."""
    pool: list[Candidate] = []
    left: dict[int, np.ndarray] = {}  # q of each parent without the children it has
    index: dict[tuple[int, ...], int] = {(): -1}
    for path in tree.paths:
        parent = index[path[:-1]]
        before = context if parent < 0 else pool[parent].context
        if parent >= 0:
            pool[parent].expanded = True
        weights = left.setdefault(parent, pair.at(before).q.copy())
        token = dice.token(weights) if pair.rule == "sample" else int(weights.argmax())
        weights[token] = 0.0
        index[path] = len(pool)
        _children(pair, pool, parent, before, [token])
    return pool


def sampled_pool(
    pair: ToyPair, context: tuple[int, ...], shape: TreeShape, dice: Dice
) -> list[Candidate]:
    """MATH.md 1.4: the best-scored node draws without replacement, up to `total` in all."""
    pool: list[Candidate] = []
    frontier = [(0.0, -1)]
    while frontier and len(pool) < shape.total - 1:
        _, parent = heapq.heappop(frontier)
        before = context if parent < 0 else pool[parent].context
        if parent >= 0:
            pool[parent].expanded = True
        weights = pair.at(before).q.copy()
        for _ in range(min(shape.top_k, shape.total - 1 - len(pool))):
            token = dice.token(weights)
            weights[token] = 0.0
            _children(pair, pool, parent, before, [token])
            if pool[-1].depth < shape.levels:
                heapq.heappush(frontier, (-pool[-1].score, len(pool) - 1))
    return pool
