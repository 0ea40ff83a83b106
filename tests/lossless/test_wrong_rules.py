"""What the wrong rules do to a tree; that it is wrong is shown by the sampling test."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.loop import Loop
from eagle3_viz.lossless.wrong_rules import ReorderLoop, RerankLoop, with_nodes
from tests.lossless.tiny_pair import PREFIX, small_pair
from tests.tiny_models import tree_of

CONFIG = DecodeConfig(
    method="independent", shape=TreeShape(7, 1, 3), sampling=Sampling(1.5), rule="sample", seed=5
)


def proposed(kind: type[Loop], seed: int):
    """A tree of this loop and the tree that was drawn, from the same draws."""
    pair = small_pair()
    trees = []
    for which in (kind, Loop):
        loop = which(pair.target, pair.draft_for("independent").draft, CONFIG)  # type: ignore[union-attr]
        loop.draws._generator.manual_seed(seed)
        pair.target.taps.select(())
        step = pair.target.prefill(PREFIX.ids)
        loop.draft.start(PREFIX.ids[0])  # type: ignore[union-attr]
        loop.draft.extend(step.features, [*PREFIX.ids[1:], PREFIX.root])  # type: ignore[union-attr]
        loop.root = PREFIX.root
        trees.append(loop.propose(len(PREFIX.ids)))
    return trees


def paths(tree) -> list[tuple[int, ...]]:
    """Tokens from the root's child down to each node."""
    found: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.token[1:].tolist(), tree.parent[1:].tolist(), strict=True):
        found.append((*found[parent], token))
    return found[1:]


@pytest.mark.parametrize("seed", range(6))
def test_rerank_keeps_the_better_half_in_the_order_drawn(seed: int) -> None:
    kept, drawn = proposed(RerankLoop, seed)
    assert (len(kept), len(drawn)) == (4, 7)
    order = [path for path in paths(drawn) if path in paths(kept)]
    assert paths(kept) == order
    scores = dict(zip(paths(drawn), drawn.pool.score.tolist(), strict=True))
    worst_kept = min(scores[path] for path in order)
    assert all(scores[path] <= worst_kept for path in scores.keys() - set(order))


@pytest.mark.parametrize("seed", range(6))
def test_reorder_keeps_every_node_and_puts_the_most_confident_sibling_first(seed: int) -> None:
    sorted_, drawn = proposed(ReorderLoop, seed)
    assert sorted(paths(sorted_)) == sorted(paths(drawn))
    q = dict(zip(paths(drawn), drawn.pool.logprob.tolist(), strict=True))
    for parent in {path[:-1] for path in q}:
        siblings = [path for path in paths(sorted_) if path[:-1] == parent]
        assert [q[path] for path in siblings] == sorted((q[p] for p in siblings), reverse=True)
    logprobs = sorted_.pool.logprob[sorted_.pool_index[1:]].tolist()
    assert logprobs == [q[path] for path in paths(sorted_)]


def test_some_seed_gives_another_order_than_the_one_drawn() -> None:
    trees = [proposed(ReorderLoop, seed) for seed in range(6)]
    assert any(paths(one) != paths(other) for one, other in trees)


def test_chosen_nodes_keep_their_parents_and_see_their_ancestors() -> None:
    tree = tree_of([9, 1, 2, 3, 4, 5], [-1, 0, 0, 2, 2, 3])
    some = with_nodes(tree, [0, 2, 1, 4, 3, 5])
    assert some.token.tolist() == [9, 2, 1, 4, 3, 5]
    assert some.parent.tolist() == [-1, 0, 0, 1, 1, 4]
    assert some.depth.tolist() == [0, 1, 1, 2, 2, 3]
    assert some.pool_index.tolist() == [-1, 1, 0, 3, 2, 4]
    assert torch.equal(some.visible[5], torch.tensor([1, 1, 0, 0, 1, 1], dtype=torch.bool))
