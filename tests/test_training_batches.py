"""Packed batches against a loop over conversations, anchors and steps."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest
import torch

from eagle3_viz.training.batches import Batch, Source, anchors_of, epoch_batches, pack
from eagle3_viz.training.features import Example

TAPS, WIDTH = 6, 4
SIZES = [(9, 3), (4, 1), (5, 4), (3, 1), (2, 1), (12, 11), (30, 7), (7, 6)]  # tokens, start


def example(tokens: int, response_start: int, seed: int) -> Example:
    """A conversation every entry of which is like no other's."""
    generator = torch.Generator().manual_seed(seed)
    top = torch.randint(1000, (tokens,), generator=generator)
    top[:response_start] = -1
    return Example(
        ids=1000 * seed + torch.arange(tokens),
        taps=torch.randn(tokens, TAPS, generator=generator),
        hidden=torch.randn(tokens, WIDTH, generator=generator),
        top=top,
        response_start=response_start,
        domain=f"domain {seed}",
    )


EXAMPLES = [example(*size, seed) for seed, size in enumerate(SIZES)]
PREDICTING = [e for e in EXAMPLES if len(e.ids) - e.response_start > 1]


def looped(steps: int, source: Source) -> dict[str, Any]:
    """What every position and every (anchor, step) must find, in the order of the batch."""
    features, fed, places, wanted = [], [], [], []
    for e in PREDICTING:
        n = len(e.ids)
        for i in range(n - 2):  # token i + 1 is fed, token i + 2 is predicted
            features.append(getattr(e, source)[i].tolist())
            fed.append([int(e.ids[min(i + 1 + s, n - 1)]) for s in range(steps)])
            places.append(i)
            if i >= e.response_start - 1:
                wanted.append(
                    [
                        (e.hidden[i + 1 + s].tolist(), int(e.top[i + 1 + s]))
                        if i + 2 + s < n
                        else None
                        for s in range(steps)
                    ]
                )
    return {"features": features, "fed": fed, "places": places, "wanted": wanted}


def found(batch: Batch) -> dict[str, Any]:
    steps = range(len(batch.fed))
    wanted = [
        [
            (batch.hidden[row].tolist(), int(batch.top[row])) if batch.valid[s, r] else None
            for s in steps
            for row in [batch.targets[s, r]]
        ]
        for r in range(len(batch.anchors))
    ]
    return {
        "features": batch.features.tolist(),
        "fed": batch.tokens[batch.fed].T.tolist(),
        "places": batch.positions.tolist(),
        "wanted": wanted,
    }


@pytest.mark.parametrize("source", get_args(Source))
@pytest.mark.parametrize("steps", [1, 4, 40])  # 40: longer than every conversation
def test_every_anchor_finds_what_a_loop_over_the_texts_finds(steps: int, source: Source) -> None:
    assert found(pack(EXAMPLES, steps, source)) == looped(steps, source)


def test_spans_say_where_each_conversation_lies() -> None:
    batch = pack(EXAMPLES, 2)
    assert batch.domains == tuple(e.domain for e in PREDICTING)
    for span, e in zip(batch.spans, PREDICTING, strict=True):
        positions = slice(span.first, span.first + span.length)
        assert torch.equal(batch.features[positions], e.taps[:-2])
        rows = batch.anchors[span.row : span.row + span.anchors]
        assert rows.tolist() == list(range(span.first + e.response_start - 1, positions.stop))
        assert span.anchors == anchors_of(len(e.ids), e.response_start)
    assert sum(s.anchors for s in batch.spans) == len(batch.anchors)


def test_rows_without_a_prediction_still_point_into_their_own_conversation() -> None:
    batch = pack(EXAMPLES, 40)
    for span, e in zip(batch.spans, PREDICTING, strict=True):
        rows = slice(span.row, span.row + span.anchors)
        fed = batch.tokens[batch.fed[:, span.first : span.first + span.length]]
        assert torch.isin(fed, e.ids).all()
        own = {tuple(state.tolist()) for state in e.hidden}
        assert {tuple(batch.hidden[i].tolist()) for i in batch.targets[:, rows].flatten()} <= own


@pytest.mark.parametrize(("tokens", "start"), SIZES)
def test_every_response_token_but_the_first_is_predicted_by_an_anchor(
    tokens: int, start: int
) -> None:
    assert anchors_of(tokens, start) == len(range(tokens)[start + 1 :])


LENGTHS = [(3 + 7 * i % 50, 1 + 5 * i % 3) for i in range(100)] + [(2, 1), (400, 5)]


def test_an_epoch_has_every_conversation_with_a_prediction_once() -> None:
    batches = epoch_batches(LENGTHS, 60, seed=3, epoch=0)
    assert Counter(i for batch in batches for i in batch) == Counter(
        i for i, (tokens, start) in enumerate(LENGTHS) if tokens > start + 1
    )


def test_a_micro_batch_is_filled_and_never_over_filled_but_by_one_long_text() -> None:
    batches = epoch_batches(LENGTHS, 60, seed=3, epoch=0)
    sizes = [[anchors_of(*LENGTHS[i]) for i in batch] for batch in batches]
    assert all(sum(batch) <= 60 or len(batch) == 1 for batch in sizes)
    assert [394] in sizes
    following = (batch[0] for batch in sizes[1:])
    assert all(sum(batch) + more > 60 for batch, more in zip(sizes, following, strict=False))


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else() -> None:
    first = epoch_batches(LENGTHS, 60, seed=3, epoch=0)
    assert epoch_batches(list(LENGTHS), 60, seed=3, epoch=0) == first
    others = [epoch_batches(LENGTHS, 60, seed, epoch) for seed, epoch in ((3, 1), (4, 0), (0, 3))]
    assert all(other != first for other in others)
    assert others[0] != others[2]
