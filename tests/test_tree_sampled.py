"""Drawn trees against a plain-Python reading of MATH.md 1.3 and 1.4, uniform for uniform."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, PUBLISHED_FIXED, FixedTree
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree
from eagle3_viz.tree_sampled import build_sampled, build_sampled_fixed
from tests.test_tree import TableStepper, paths_of

V = 40
WARPED = {
    "plain": Sampling(1.0),
    "cold": Sampling(0.6),
    "top-k": Sampling(1.3, top_k=5),
    "top-p": Sampling(0.8, top_p=0.7),
    "both": Sampling(0.9, top_k=12, top_p=0.9),
}
SHAPES = [(4, 1, 2), (8, 3, 4), (16, 5, 4), (40, 3, 6), (7, 5, 1), (6, 0, 5)]
Path = tuple[int, ...]


def no_mark(name: str) -> None:
    """Timing is not looked at here."""


def warped(logits: torch.Tensor, sampling: Sampling) -> list[float]:
    """q of every token, by sorting: temperature, then top-k, then top-p."""
    scaled = [x / sampling.temperature for x in logits.double().tolist()]
    order = sorted(range(V), key=lambda i: -scaled[i])[: sampling.top_k or V]
    weights = {i: math.exp(scaled[i]) for i in order}
    total, before, kept = sum(weights.values()), 0.0, []
    for i in order:
        if before < sampling.top_p:
            kept.append(i)
        before += weights[i] / total
    mass = sum(weights[i] for i in kept)
    return [weights[i] / mass if i in kept else 0.0 for i in range(V)]


@dataclass
class Reference:
    """Nodes as (path, score) in the order drawn, and the nodes that drew, in their order."""

    stepper: TableStepper
    sampling: Sampling
    draws: Draws
    nodes: list[tuple[Path, float]] = field(default_factory=list)
    expanded: list[Path] = field(default_factory=list)

    def q(self, path: Path) -> list[float]:
        return warped(self.stepper.logits_of(path), self.sampling)

    def draw(self, path: Path, score: float, count: int) -> list[tuple[Path, float]]:
        """Up to `count` children of a node, each drawn from what its elder siblings left of q."""
        q = self.q(path)
        left, drawn = list(q), []
        while len(drawn) < count and any(left):
            goal = self.draws.uniform() * sum(left)
            token = next(i for i, reached in enumerate(accumulate(left)) if reached > goal)
            left[token] = 0.0
            drawn.append(((*path, token), score + math.log(q[token])))
        self.nodes += drawn
        return drawn

    def best_first(self, shape: TreeShape) -> None:
        frontier: list[tuple[Path, float]] = [((), 0.0)]
        while frontier and len(self.nodes) < shape.total - 1:
            path, score = max(frontier, key=lambda entry: entry[1])
            frontier.remove((path, score))
            self.expanded.append(path)
            room = shape.total - 1 - len(self.nodes)
            children = self.draw(path, score, min(shape.top_k, room))
            frontier += [child for child in children if len(child[0]) < shape.levels]

    def fixed(self, tree: FixedTree) -> None:
        """`tree` names ranks; a rank that q had no token for is left out with all below it."""
        standing: dict[Path, tuple[Path, float]] = {(): ((), 0.0)}
        for ranks, count in tree.children().items():
            if ranks in standing:
                path, score = standing[ranks]
                self.expanded.append(path)
                drawn = self.draw(path, score, count)
                standing |= {(*ranks, rank): child for rank, child in enumerate(drawn)}


def check(tree: DraftTree, expected: Reference) -> None:
    """The tree's nodes, scores, ranks and q rows are the reference's."""
    assert paths_of(tree)[1:] == [path for path, _ in expected.nodes]
    pool = tree.pool
    assert pool is not None
    assert pool.score.tolist() == pytest.approx([s for _, s in expected.nodes], abs=1e-4)
    assert tree.pool_index.tolist() == list(range(-1, len(expected.nodes)))
    assert pool.depth.tolist() == [len(path) for path, _ in expected.nodes]
    for (path, _), logprob, rank in zip(
        expected.nodes, pool.logprob.tolist(), pool.rank.tolist(), strict=True
    ):
        q = expected.q(path[:-1])
        assert logprob == pytest.approx(math.log(q[path[-1]]), abs=1e-4)
        assert rank == sum(weight > q[path[-1]] for weight in q)
    texts = paths_of(tree)
    assert [texts[i + 1] for i in tree.expanded.tolist()] == expected.expanded
    rows = torch.cat(tree.q_logprobs).exp()
    for row, path in zip(rows, expected.expanded, strict=True):
        assert row.tolist() == pytest.approx(expected.q(path), abs=1e-5)
        assert ((row > 0) == (torch.tensor(expected.q(path)) > 0)).all()


@pytest.mark.parametrize("sampling", WARPED)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_best_node_draws_next_from_its_own_warped_q(
    shape: tuple[int, int, int], sampling: str
) -> None:
    for seed in range(4):
        stepper, draws = TableStepper(seed, V), Draws(seed)
        tree = build_sampled(5, stepper, TreeShape(*shape), WARPED[sampling], draws, no_mark)
        expected = Reference(stepper, WARPED[sampling], Draws(seed))
        expected.best_first(TreeShape(*shape))
        check(tree, expected)
        assert draws.take() == expected.draws.take()


@pytest.mark.parametrize("sampling", WARPED)
@pytest.mark.parametrize("fixed", [DEFAULT_FIXED, PUBLISHED_FIXED], ids=lambda tree: tree.name)
def test_a_fixed_tree_holds_the_child_drawn_at_each_rank(fixed: FixedTree, sampling: str) -> None:
    for seed in range(4):
        stepper, draws = TableStepper(seed, V), Draws(seed)
        tree = build_sampled_fixed(5, stepper, fixed, WARPED[sampling], draws, no_mark)
        expected = Reference(stepper, WARPED[sampling], Draws(seed))
        expected.fixed(fixed)
        check(tree, expected)
        assert draws.take() == expected.draws.take()
        assert tree.levels == fixed.levels


def test_siblings_are_different_tokens_in_no_order_of_confidence() -> None:
    """Drawn, not ranked: some elder sibling is less likely than a younger one."""
    out_of_order = 0
    for seed in range(10):
        shape = TreeShape(17, 1, 4)
        tree = build_sampled(5, TableStepper(seed, V), shape, Sampling(1.0), Draws(seed), no_mark)
        assert len(set(paths_of(tree))) == len(tree)
        assert tree.pool is not None
        ranks = tree.pool.rank[:4].tolist()
        out_of_order += ranks != sorted(ranks)
    assert out_of_order > 3


def test_another_seed_draws_another_tree() -> None:
    shape, stepper = TreeShape(8, 2, 4), TableStepper(1, V)
    trees = {
        tuple(build_sampled(5, stepper, shape, Sampling(1.0), Draws(s), no_mark).token.tolist())
        for s in range(5)
    }
    assert len(trees) == 5


class Named:
    """A draft over four tokens whose q is given by hand for each path, uniform elsewhere."""

    target_ids = torch.arange(4) + 100

    def __init__(self, q: dict[Path, list[float]]) -> None:
        self.q, self.paths = q, [()]
        self.fed: list[int] = []

    def logits(self, path: Path) -> torch.Tensor:
        return torch.tensor(self.q.get(path, [0.25] * 4)).log()

    def root_logits(self) -> torch.Tensor:
        return self.logits(())

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        self.fed.append(len(draft_ids))
        rows = zip(draft_ids.tolist(), parents.tolist(), strict=True)
        new = [(*self.paths[parent], token) for token, parent in rows]
        assert {len(path) for path in new} == {level}
        self.paths += new
        return torch.stack([self.logits(path) for path in new])


class Choosing(Draws):
    """Takes the tokens of a list instead of drawing, and notes what was left to draw from."""

    def __init__(self, tokens: list[int]) -> None:
        super().__init__(0)
        self.tokens, self.left = list(tokens), []

    def token(self, weights: torch.Tensor) -> torch.Tensor:
        self.left.append([round(x, 6) for x in weights.tolist()])
        return torch.tensor(self.tokens.pop(0))


def by_hand(q: dict[Path, list[float]], chosen: list[int], shape: TreeShape) -> tuple:
    draws, stepper = Choosing(chosen), Named(q)
    tree = build_sampled(9, stepper, shape, Sampling(1.0), draws, no_mark)
    assert draws.tokens == []
    return tree, draws, stepper


def test_the_budget_may_end_within_a_group_of_siblings() -> None:
    q = {(): [0.1, 0.2, 0.3, 0.4]}
    tree, draws, stepper = by_hand(q, [1, 2, 3], TreeShape(4, 1, 2))
    assert paths_of(tree) == [(), (1,), (2,), (2, 3)]
    assert draws.left == [[0.1, 0.2, 0.3, 0.4], [0.1, 0.0, 0.3, 0.4], [0.25] * 4]
    assert stepper.fed == [1]


def test_the_best_path_expands_before_a_likelier_step_further_down() -> None:
    """Scores are products along the path, so the second branch comes before a grandchild."""
    q = {(): [0.5, 0.4, 0.1, 0.0], (0,): [0.7, 0.3, 0.0, 0.0], (1,): [0.0, 0.0, 0.6, 0.4]}
    tree, _, stepper = by_hand(q, [1, 0, 0, 1, 3, 2, 2], TreeShape(8, 2, 2))
    assert paths_of(tree) == [(), (1,), (0,), (0, 0), (0, 1), (1, 3), (1, 2), (0, 0, 2)]
    assert tree.expanded.tolist() == [-1, 1, 0, 2]
    expected = [0.4, 0.5, 0.35, 0.15, 0.16, 0.24, 0.35 * 0.25]
    assert tree.pool.score.exp().tolist() == pytest.approx(expected)
    assert tree.pool.rank.tolist() == [1, 0, 0, 1, 1, 0, 0]
    assert stepper.fed == [1, 1, 1]


def test_leaves_of_the_last_level_do_not_draw_even_where_the_budget_has_room() -> None:
    tree, _, stepper = by_hand({(): [0.4, 0.3, 0.2, 0.1]}, [0, 1], TreeShape(3, 0, 2))
    assert paths_of(tree) == [(), (0,), (1,)]
    assert stepper.fed == []
    q = {(): [1.0, 0.0, 0.0, 0.0], (0,): [0.0, 1.0, 0.0, 0.0]}
    tree, _, stepper = by_hand(q, [0, 1], TreeShape(7, 1, 2))
    assert paths_of(tree) == [(), (0,), (0, 1)]
    assert (tree.levels, stepper.fed) == (2, [1])


def test_a_q_of_few_tokens_gives_few_children() -> None:
    peaked = {(): [0.6, 0.35, 0.05, 0.0]}
    draws = Choosing([1, 0])
    shape, narrow = TreeShape(4, 0, 3), Sampling(1.0, top_p=0.9)
    tree = build_sampled(9, Named(peaked), shape, narrow, draws, no_mark)
    assert paths_of(tree) == [(), (1,), (0,)]
    mass = 0.6 + 0.35
    assert draws.left[0] == pytest.approx([0.6 / mass, 0.35 / mass, 0.0, 0.0], abs=1e-5)


def test_a_fixed_tree_leaves_out_ranks_that_q_has_no_token_for() -> None:
    fixed = FixedTree("t", ((0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (2, 0), (2, 0, 0)))
    q = {(): [0.0, 0.5, 0.0, 0.5], (3,): [1.0, 0.0, 0.0, 0.0]}
    draws, stepper, marks = Choosing([3, 1, 0, 2]), Named(q), []
    tree = build_sampled_fixed(9, stepper, fixed, Sampling(1.0), draws, marks.append)
    assert draws.tokens == []
    assert paths_of(tree) == [(), (3,), (1,), (3, 0), (1, 2)]
    assert stepper.fed == [2]
    assert marks == ["draft", "tree"] * 2


def test_every_forward_is_marked_and_followed_by_a_selection() -> None:
    marks: list[str] = []
    stepper = Named({})
    build_sampled(9, stepper, TreeShape(9, 3, 2), Sampling(1.0), Draws(1), marks.append)
    assert marks == ["draft", "tree"] * (1 + len(stepper.fed))


def test_a_node_sees_exactly_its_ancestors_and_itself() -> None:
    shape = TreeShape(20, 4, 3)
    tree = build_sampled(5, TableStepper(3, V), shape, Sampling(1.0), Draws(2), no_mark)
    paths = paths_of(tree)
    for node, path in enumerate(paths):
        seen = {i for i, other in enumerate(paths) if other == path[: len(other)]}
        assert set(tree.visible[node].nonzero()[:, 0].tolist()) == seen
