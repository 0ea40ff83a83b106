"""The EAGLE-1 head at work against transformers' own Llama layer, whole sequences at a time."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.draft_folder import CheckpointError
from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Weights
from eagle3_viz.training.eagle1_objective import fresh_eagle1
from eagle3_viz.tree import DraftTree
from tests.tiny_models import (
    decode_all,
    random_ids,
    shared_stock,
    shared_target,
    stock_forward,
    text_of,
    tiny_target,
)
from tests.training_heads import EAGLE1, SlowDraft, eagle1_weights

TEXT = random_ids(12, seed=5)
SHAPE = TreeShape(12, 2, 3)


def features() -> torch.Tensor:
    """Final states of the tiny target on TEXT, from the stock model."""
    return stock_forward(shared_stock(), TEXT)[1][-1]


def slow_logits(weights: Eagle1Weights, path: list[int]) -> torch.Tensor:
    """Logits after `path` (tokens below the root, TEXT's last one), fed one whole pass a token."""
    slow, tokens = SlowDraft(weights), torch.tensor([*TEXT, *path])
    known = features()[: len(TEXT) - 1]
    states = [slow.join(tokens[i + 1], known[i]) for i in range(len(known))]
    output = slow.last(states)
    for i in range(len(path)):
        states.append(slow.join(tokens[len(TEXT) + i], output))
        output = slow.last(states)
    return linear(output, shared_target().head)


def ready(weights: Eagle1Weights) -> Eagle1Draft:
    draft = Eagle1Draft(weights, shared_target())
    draft.start(TEXT[0])
    known = features()
    draft.extend(known[:4], TEXT[1:5])
    draft.extend(known[4 : len(TEXT) - 1], TEXT[5:])
    return draft


def expanded_paths(tree: DraftTree) -> list[list[int]]:
    pool = tree.pool
    assert pool is not None
    paths = []
    for place in tree.expanded.tolist():
        path: list[int] = []
        while place >= 0:
            path.insert(0, int(pool.token[place]))
            place = int(pool.parent[place])
        paths.append(path)
    return paths


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_every_expanded_node_has_the_distribution_of_the_head_alone(bias: bool) -> None:
    weights = eagle1_weights(fc_bias=bias)
    tree = ready(weights).propose(TEXT[-1], SHAPE, lambda name: None)
    paths = expanded_paths(tree)
    assert len(paths) == 1 + 2 * SHAPE.top_k
    for row, path in zip(torch.cat(tree.q_logprobs), paths, strict=True):
        expected = slow_logits(weights, path).log_softmax(-1)
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-4)


def test_decoding_feeds_it_the_final_states_and_changes_nothing_in_the_text() -> None:
    target, prompt = shared_target(), random_ids(7, seed=9)
    draft = Eagle1Draft(eagle1_weights(), target)
    with_draft = decode_all(target, draft, prompt, shape=SHAPE, max_new_tokens=25)
    alone = decode_all(target, None, prompt, method="ar", max_new_tokens=25)
    assert text_of(*with_draft) == text_of(*alone)
    assert target.taps.boundaries == ()  # autoregression reads no states


@torch.no_grad()
def test_states_read_while_decoding_are_those_behind_the_final_norm() -> None:
    target = shared_target()
    target.taps.select((target.final_boundary,))
    torch.testing.assert_close(target.prefill(TEXT).features, features(), rtol=1e-5, atol=1e-5)


def test_the_head_is_the_targets_own() -> None:
    draft, target = Eagle1Draft(eagle1_weights(), shared_target()), shared_target()
    assert draft.vocabulary_size == target.vocab_size
    assert draft.parameters == sum(t.numel() for t in eagle1_weights().tensors.values())


def test_a_head_of_another_target_is_refused() -> None:
    other = tiny_target(vocab_size=EAGLE1.vocab_size + 1)
    with pytest.raises(CheckpointError, match="a vocabulary of"):
        Eagle1Draft(fresh_eagle1(EAGLE1, 0), other)
