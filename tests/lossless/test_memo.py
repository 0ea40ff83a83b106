"""Drawing with memos equals, bit for bit, drawing without, and spares the forwards."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from eagle3_viz.config import DecodeConfig, Method, Sampling, TreeShape
from eagle3_viz.drafts.base import Draft
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.lossless.memo import MemoDraft, MemoTarget
from eagle3_viz.lossless.sampler import Sampler
from eagle3_viz.tree import root_only
from tests.lossless.tiny_pair import PREFIX, small_pair
from tests.tiny_models import tiny_draft, tree_of

DRAWS = 60
CASES: list[tuple[Method, str]] = [
    ("eagle3", "topk"),
    ("eagle3", "sample"),
    ("independent", "topk"),
    ("independent", "sample"),
    ("lookup", "topk"),
    ("ar", "topk"),
]


class Observed(Loop):
    """Keeps the target's logits and the features of every cycle."""

    seen: list[torch.Tensor]

    def accept(self, tree, logits):
        self.seen = [*getattr(self, "seen", []), tree.token, tree.parent, logits]
        return super().accept(tree, logits)


def config_of(method: Method, rule: str) -> DecodeConfig:
    return DecodeConfig(
        method=method,
        rule=rule,  # type: ignore[arg-type]
        shape=TreeShape(5, 1, 3),
        sampling=Sampling(0.9, top_p=0.95),
        max_new_tokens=4,
        record="off",
        seed=3,
    )


def draft_of(method: Method) -> Draft | None:
    return small_pair().draft(method)


def without_memo(method: Method, config: DecodeConfig) -> tuple[list, list[torch.Tensor]]:
    """Every text on a fresh cache, from the prefix on; one generator for all, as in a sampler."""
    pair = small_pair()
    loop = Observed(pair.target, draft_of(method), config)
    texts = []
    for _ in range(DRAWS):
        pair.target.taps.select(loop.draft.boundaries if loop.draft else ())
        step = pair.target.prefill(PREFIX.ids)
        if loop.draft is not None:
            loop.draft.start(PREFIX.ids[0])
            loop.draft.extend(step.features, [*PREFIX.ids[1:], PREFIX.root])
        loop.root, loop.unseen = PREFIX.root, None
        endings = Endings(frozenset(), pair.target.context_limit, config, ())
        texts.append(tuple(token for cycle in loop.cycles(endings) for token in cycle.tokens))
    return texts, loop.seen


@pytest.mark.parametrize(("method", "rule"), CASES)
def test_texts_trees_and_logits_are_bit_equal_to_runs_without_memo(method, rule) -> None:
    config = config_of(method, rule)
    made: list[Loop] = []

    class Kept(Observed):
        def __post_init__(self) -> None:
            super().__post_init__()
            made.append(self)

    sampler = Sampler(small_pair().target, draft_of(method), PREFIX)
    texts = [one.text for one in islice(sampler.draws(Kept, config), DRAWS)]
    expected, seen = without_memo(method, config)
    assert texts == expected
    assert len(set(texts)) > 10, "one text over and over proves nothing"
    ours = made[0].seen
    assert len(ours) == len(seen)
    assert all(torch.equal(one, other) for one, other in zip(ours, seen, strict=True))
    assert sampler.target.forwards < len(seen) / 3, "nothing was ever found again"


def test_a_second_pass_over_the_same_draws_runs_no_forward() -> None:
    config = config_of("eagle3", "sample")
    sampler = Sampler(small_pair().target, draft_of("eagle3"), PREFIX)
    first = list(islice(sampler.draws(Loop, config), DRAWS))
    made = sampler.target.forwards
    assert list(islice(sampler.draws(Loop, config), DRAWS)) == first
    assert sampler.target.forwards == made


def test_a_memo_that_holds_nothing_runs_every_forward() -> None:
    target = MemoTarget(small_pair().target, limit=0)
    target.prefill(PREFIX.ids)
    steps = []
    for _ in range(3):
        target.rewind()
        steps.append(target.verify(tree_of([2, 1, 3], [-1, 0, 0])))
    assert target.forwards == 3
    assert torch.equal(steps[0].logits, steps[2].logits)


def test_what_was_committed_before_tells_equal_trees_apart() -> None:
    real = small_pair().target
    target = MemoTarget(real)
    logits = []
    for first in (1, 3):
        target.prefill(PREFIX.ids)
        step = target.verify(tree_of([2, first], [-1, 0]))
        target.commit((0, 1), step.features)
        logits.append(target.verify(root_only(4, real.device)).logits)
        target.rewind()
    assert target.forwards == 4
    assert not torch.equal(logits[0], logits[1])


@torch.inference_mode()
def test_a_hit_leaves_the_cache_as_a_forward_would() -> None:
    real = small_pair().target
    target = MemoTarget(real)
    target.prefill(PREFIX.ids)
    tree = tree_of([2, 1, 3, 5], [-1, 0, 0, 2])
    after = []
    for _ in range(2):
        target.rewind()
        step = target.verify(tree)
        target.commit((0, 2, 3), step.features)
        after.append(real.verify(root_only(4, real.device)).logits)
        real.cache.append([rows * 0 for rows in real.cache.appended(4)])  # what lay there is gone
    assert target.forwards == 1
    assert torch.equal(after[0], after[1])


@torch.inference_mode()
def test_a_draft_asked_in_any_order_answers_as_one_that_never_forgets() -> None:
    """Branches are entered, left and entered again; every answer comes from the right context."""
    target = small_pair().target
    draft, plain = (tiny_draft(target, draft_vocab_size=4) for _ in range(2))
    memo = MemoDraft(draft)
    features = torch.randn(3, 96, generator=torch.Generator().manual_seed(0))
    one, two = (torch.tensor([i]) for i in (1, 2))
    zero = torch.zeros(1, dtype=torch.int64)

    def walk(which, more: list[int], ids: list[torch.Tensor]) -> list[torch.Tensor]:
        for token in more:
            which.extend(features[:1] + token, [token])
        found = [which.root_logits()]
        return found + [which.step(each, zero + i, i + 1) for i, each in enumerate(ids)]

    memo.start(0)
    memo.extend(features, [1, 2, 3])
    for more, ids in [
        ([], [one, two]),
        ([4], [one]),
        ([], [one, one]),
        ([4, 5], [two]),
        ([4], [one, two]),
        ([], [two]),
        ([4], [two, two]),
    ]:
        memo.rewind()
        plain.start(0)
        plain.extend(features, [1, 2, 3])
        for ours, theirs in zip(walk(memo, more, ids), walk(plain, more, ids), strict=True):
            assert torch.equal(ours, theirs), (more, ids)
