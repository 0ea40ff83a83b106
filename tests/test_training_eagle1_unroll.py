"""EAGLE-1 unrolled for training against transformers' own Llama layer, anchor by anchor."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from eagle3_viz.training.batches import pack
from eagle3_viz.training.eagle1_unroll import unroll_eagle1
from eagle3_viz.training.features import Example
from tests.tiny_models import random_ids, shared_target
from tests.training_heads import SlowDraft, eagle1_weights

STEPS = 3
WIDTH = 32


def example(tokens: int, start: int, seed: int) -> Example:
    """Random text with random states, a tenth of them far off; arg-maxima as the states say."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, WIDTH, generator=generator)
    hidden *= 1 + 9 * (torch.rand(hidden.shape, generator=generator) < 0.1)
    top = linear(hidden, shared_target().head).argmax(-1)
    top[:start] = -1
    ids = torch.tensor(random_ids(tokens, seed))
    return Example(ids, torch.empty(tokens, 0), hidden, top, start, "d")


EXAMPLES = [example(*size, seed) for seed, size in enumerate([(9, 3), (5, 4), (6, 1), (14, 5)])]


def chain(slow: SlowDraft, e: Example, anchor: int, steps: int) -> list[torch.Tensor]:
    """Outputs [d] from `anchor` on, as many as predict a token that exists."""
    states = [slow.join(e.ids[i + 1], e.hidden[i]) for i in range(anchor + 1)]
    outputs: list[torch.Tensor] = []
    for step in range(min(steps, len(e.ids) - anchor - 2)):
        if step:
            states.append(slow.join(e.ids[anchor + 1 + step], outputs[-1]))
        outputs.append(slow.last(states))
    return outputs


def anchors() -> list[tuple[Example, int]]:
    """Of every row of a batch of EXAMPLES: conversation and position."""
    return [(e, i) for e in EXAMPLES for i in range(e.response_start - 1, len(e.ids) - 2)]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_every_anchor_drafts_what_the_head_computes_alone(bias: bool) -> None:
    made = eagle1_weights(fc_bias=bias)
    slow, batch = SlowDraft(made), pack(EXAMPLES, STEPS, "hidden")
    embeddings = shared_target().embedding
    found = unroll_eagle1(made.architecture, made.tensors, embeddings, batch.features, batch, STEPS)
    compared = 0
    for row, (e, anchor) in enumerate(anchors()):
        for step, expected in enumerate(chain(slow, e, anchor, STEPS)):
            torch.testing.assert_close(found[step][row], expected, rtol=1e-5, atol=1e-5)
            compared += 1
    assert compared == int(batch.valid.sum()) > 40
