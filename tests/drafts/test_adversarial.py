"""Drafts that are bad on purpose: what they propose, and that they keep the real draft's state."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.drafts.adversarial import LeastLikelyDraft, RandomDraft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree
from tests.tiny_models import random_ids, shared_target, tiny_draft

N = 6
SHAPE = TreeShape(total=7, depth=2, top_k=2)


def no_mark(name: str) -> None:
    """Timing is of no interest here."""


def real() -> Eagle3Draft:
    return tiny_draft(shared_target(), seed=4)


def read_text(draft: Eagle3Draft | LeastLikelyDraft | RandomDraft) -> int:
    """Give the draft a verified text; returns its root."""
    text = random_ids(N + 1, 50)
    draft.start(0)
    draft.extend(shared_target().prefill(text[:N]).features, text[1:])
    return text[-1]


def children_of_root(tree: DraftTree) -> list[int]:
    assert tree.pool is not None
    return tree.pool.token[tree.pool.parent == -1].tolist()


def test_the_least_likely_draft_turns_every_distribution_around() -> None:
    honest = real()
    root = read_text(honest)
    order = honest.root_logits().argsort().tolist()
    tree = LeastLikelyDraft(honest).propose(root, SHAPE, no_mark)
    expected = honest.target_ids[order[:2]].tolist()
    assert children_of_root(tree) == expected
    favourites = honest.target_ids[order[-2:]].tolist()
    assert not set(expected) & set(favourites)
    turned = (-honest.root_logits()).log_softmax(-1)
    assert torch.allclose(tree.q_logprobs[0][0], turned)


@torch.inference_mode()
def test_deeper_levels_are_turned_too() -> None:
    honest = real()
    root = read_text(honest)
    tree = LeastLikelyDraft(honest).propose(root, SHAPE, no_mark)
    pool = tree.pool
    assert pool is not None
    first = pool.token[:2].tolist()
    ids = [honest.target_ids.tolist().index(t) for t in first]
    honest.root_logits()
    logits = honest.step(torch.tensor(ids), torch.zeros(2, dtype=torch.int64), 1)
    assert torch.allclose(tree.q_logprobs[1], (-logits).log_softmax(-1), atol=1e-5)


def test_the_random_draft_knows_nothing_and_repeats_its_seed() -> None:
    root = read_text(draft := real())
    trees = [RandomDraft(draft, seed=s).propose(root, SHAPE, no_mark) for s in (1, 1, 2)]
    assert torch.equal(trees[0].token, trees[1].token)
    assert not torch.equal(trees[0].q_logprobs[0], trees[2].q_logprobs[0])
    other_text = real()
    other_text.extend(torch.ones(3, 96), [1, 2, 3])
    elsewhere = RandomDraft(other_text, seed=1).propose(root, SHAPE, no_mark)
    assert torch.equal(elsewhere.q_logprobs[0], trees[0].q_logprobs[0])


@pytest.mark.parametrize("kind", [LeastLikelyDraft, RandomDraft])
def test_a_chain_is_drawn_from_the_turned_q_that_it_keeps(kind: type) -> None:
    root = read_text(draft := real())
    tree = kind(draft).propose_sampled(root, TreeShape(4, 2, 1), Sampling(0.7), Draws(3), no_mark)
    assert len(tree) == 4
    drawn = [draft.target_ids.tolist().index(token) for token in tree.token[1:].tolist()]
    kept = torch.cat(tree.q_logprobs)[torch.arange(3), drawn]
    assert tree.pool is not None
    assert torch.equal(kept, tree.pool.logprob)
    honest = (draft.root_logits() / 0.7).log_softmax(-1)
    assert not torch.allclose(tree.q_logprobs[0][0], honest, atol=0.1)


@pytest.mark.parametrize("kind", [LeastLikelyDraft, RandomDraft])
def test_the_state_beneath_is_the_real_drafts(kind: type) -> None:
    alone, beneath = real(), real()
    read_text(alone)
    read_text(turned := kind(beneath))
    assert torch.equal(alone.root_logits(), beneath.root_logits())
    assert turned.vocabulary_size == alone.vocabulary_size
    assert torch.equal(turned.target_ids, alone.target_ids)
