"""Builder and rule together over every draw and outcome: two tokens are the target's, jointly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from eagle3_viz.acceptance import accept_sample
from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.tree import DraftTree, make_tree
from eagle3_viz.tree_sampled import build_sampled
from tests.enumeration import ScriptedDraws, exact_distribution
from tests.toy_distributions import random_pair

EXACT = 1e-12
V = 4
PLAIN = Sampling(temperature=1.0)


def rows(kind: str, seed: int) -> Callable[[tuple[int, ...]], tuple[torch.Tensor, torch.Tensor]]:
    """p and q [V] after any text of fewer than three tokens."""

    def after(text: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        number = sum((token + 1) * (V + 1) ** place for place, token in enumerate(text))
        p, q = random_pair(kind, V, 1000 * seed + number)
        return torch.from_numpy(p), torch.from_numpy(q)

    return after


@dataclass
class ToyStepper:
    """A draft that knows q after every text; its ids are `ids`, in that order."""

    q_after: Callable[[tuple[int, ...]], torch.Tensor]
    ids: tuple[int, ...]
    fed: list[tuple[int, ...]] = field(default_factory=lambda: [()])

    @property
    def target_ids(self) -> torch.Tensor:
        return torch.tensor(self.ids)

    def root_logits(self) -> torch.Tensor:
        return self._logits(())

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        above = [self.fed[parent] for parent in parents.tolist()]
        texts = [
            (*text, self.ids[draft_id])
            for text, draft_id in zip(above, draft_ids.tolist(), strict=True)
        ]
        assert {len(text) for text in texts} == {level}
        self.fed += texts
        return torch.stack([self._logits(text) for text in texts])

    def _logits(self, text: tuple[int, ...]) -> torch.Tensor:
        return self.q_after(text)[list(self.ids)].log()


def texts_of(tree: DraftTree) -> list[tuple[int, ...]]:
    texts: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.token.tolist()[1:], tree.parent.tolist()[1:], strict=True):
        texts.append((*texts[parent], token))
    return texts


def q_rows(tree: DraftTree, ids: tuple[int, ...]) -> torch.Tensor:
    """q [E, V] over the target's vocabulary."""
    q = torch.cat(tree.q_logprobs).exp()
    return torch.zeros(len(q), V, dtype=q.dtype).index_copy_(1, torch.tensor(ids), q)


def error(
    models: Callable,
    shape: TreeShape,
    *,
    ids: tuple[int, ...] = (0, 1, 2, 3),
    sampling: Sampling = PLAIN,
    change: Callable[[DraftTree], DraftTree] = lambda tree: tree,
) -> float:
    """max |found - p| over texts of two tokens, one cycle continued with the target's own p."""

    def cycle(draws: ScriptedDraws) -> tuple[int, ...]:
        stepper = ToyStepper(lambda text: models(text)[1], ids)
        tree = build_sampled(9, stepper, shape, sampling, draws, lambda phase: None)
        tree = change(tree)
        p = torch.stack([models(text)[0] for text in texts_of(tree)])
        return accept_sample(tree, p, q_rows(tree, ids), draws).tokens

    joint = torch.zeros(V, V, dtype=torch.float64)
    for text, mass in exact_distribution(cycle).items():
        joint[text[0]] += mass * (
            torch.eye(V, dtype=torch.float64)[text[1]] if len(text) > 1 else models(text)[0]
        )
    first = models(())[0]
    second = torch.stack([models((token,))[0] for token in range(V)])
    return float((joint - first[:, None] * second).abs().max())


CAPPED = TreeShape(total=4, depth=1, top_k=2)  # the second group is cut after one of two
SHAPES = {
    "capped inside the second group": CAPPED,
    "capped inside the first group": TreeShape(total=3, depth=0, top_k=3),
    "a chain": TreeShape(total=3, depth=1, top_k=1),
}
KINDS = ["generic", "q zeros", "p zeros", "disjoint", "equal", "one-hot q"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_two_tokens_are_the_targets_jointly(shape: str, kind: str) -> None:
    assert error(rows(kind, 1), SHAPES[shape]) < EXACT


def test_two_tokens_are_the_targets_jointly_with_a_draft_of_another_vocabulary() -> None:
    assert error(rows("generic", 2), CAPPED, ids=(2, 0, 3)) < EXACT


def test_two_tokens_are_the_targets_jointly_with_a_warped_draft() -> None:
    warped = Sampling(temperature=0.7, top_p=0.8)
    assert error(rows("generic", 3), CAPPED, sampling=warped) < EXACT


def kept(tree: DraftTree, nodes: list[int]) -> DraftTree:
    """`tree` with only `nodes`, in this order; parents must stay."""
    place = {node: index for index, node in enumerate(nodes)} | {-1: -1}
    chosen = torch.tensor(nodes)
    return make_tree(
        token=tree.token[chosen],
        parent=torch.tensor([place[parent] for parent in tree.parent[chosen].tolist()]),
        depth=tree.depth[chosen],
        pool_index=tree.pool_index[chosen],
        pool=tree.pool,
        expanded=tree.expanded,
        q_logprobs=tree.q_logprobs,
        levels=tree.levels,
    )


def without_the_worst(tree: DraftTree) -> DraftTree:
    assert tree.pool is not None
    scores = [float("inf"), *tree.pool.score.tolist()]
    worst = min(range(len(tree)), key=lambda node: (scores[node], -node))
    return kept(tree, [node for node in range(len(tree)) if node != worst])


def most_confident_first(tree: DraftTree) -> DraftTree:
    assert tree.pool is not None
    logprob = [0.0, *tree.pool.logprob.tolist()]
    order = sorted(range(1, len(tree)), key=lambda node: (int(tree.depth[node]), -logprob[node]))
    return kept(tree, [0, *order])


@pytest.mark.parametrize("change", [without_the_worst, most_confident_first])
def test_a_drawn_tree_that_is_pruned_or_sorted_by_confidence_is_seen(change: Callable) -> None:
    assert error(rows("generic", 1), CAPPED, change=change) > 0.02
