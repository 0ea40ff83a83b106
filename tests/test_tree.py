"""The dynamic tree against a plain-Python reading of EAGLE-2, on random and tied scores."""

from __future__ import annotations

import math

import pytest
import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.tree import top_stable
from eagle3_viz.tree_dynamic import build_dynamic


class TableStepper:
    """A draft whose logits depend on the whole path through a random table; ids shifted by 100."""

    def __init__(self, seed: int, vocabulary: int, *, levels: int | None = None) -> None:
        self.seed, self.vocabulary, self.levels = seed, vocabulary, levels
        self.paths: list[tuple[int, ...]] = []

    def logits_of(self, path: tuple[int, ...]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, path)) % 2**31)
        logits = torch.randn(self.vocabulary, generator=generator)
        return logits if self.levels is None else (logits * self.levels).round() / self.levels

    def root_logits(self) -> torch.Tensor:
        self.paths = [()]
        return self.logits_of(())

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        ids, rows = draft_ids.tolist(), parents.tolist()
        new = [(*self.paths[row], token) for row, token in zip(rows, ids, strict=True)]
        assert all(len(path) == level for path in new)
        self.paths += new
        return torch.stack([self.logits_of(path) for path in new])

    @property
    def target_ids(self) -> torch.Tensor:
        return torch.arange(self.vocabulary) + 100


def reference_tree(stepper: TableStepper, shape: TreeShape) -> list[tuple[tuple[int, ...], float]]:
    """Kept (path, score) pairs in node order, written from MATH.md 2 without tensors."""

    def children(path: tuple[int, ...], score: float) -> list[tuple[tuple[int, ...], float]]:
        logprobs = stepper.logits_of(path).log_softmax(-1)
        order = sorted(range(len(logprobs)), key=lambda i: (-float(logprobs[i]), i))
        picked = order[: shape.top_k]
        sums = (torch.tensor(score) + logprobs[picked]).tolist()
        return [((*path, token), total) for token, total in zip(picked, sums, strict=True)]

    newest = children((), 0.0)
    pool, beam = list(newest), list(newest)
    for _ in range(shape.depth):
        newest = [child for path, score in beam for child in children(path, score)]
        pool += newest
        ranked = sorted(range(len(newest)), key=lambda i: (-newest[i][1], i))
        beam = [newest[i] for i in ranked[: shape.top_k]]
    best = sorted(range(len(pool)), key=lambda i: (-pool[i][1], i))[: shape.total - 1]
    return [pool[i] for i in sorted(best)]


def paths_of(tree) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[int(tree.parent[node])], int(tree.token[node]) - 100))
    return paths


SHAPES = [(4, 2, 2), (8, 3, 4), (16, 5, 4), (60, 5, 10), (7, 5, 1), (2, 0, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [None, 2], ids=["distinct", "tied"])
def test_dynamic_tree_keeps_the_best_scored_candidates(shape, levels) -> None:
    stepper, tree_shape = TableStepper(7, 40, levels=levels), TreeShape(*shape)
    tree = build_dynamic(5, stepper, tree_shape, lambda name: None)
    expected = reference_tree(stepper, tree_shape)
    assert paths_of(tree)[1:] == [path for path, _ in expected]
    scores = tree.pool.score[tree.pool_index[1:]].tolist()
    assert scores == [score for _, score in expected]


@pytest.mark.parametrize("shape", SHAPES)
def test_node_sees_exactly_its_ancestors_and_itself(shape) -> None:
    tree = build_dynamic(5, TableStepper(3, 40), TreeShape(*shape), lambda name: None)
    for node in range(len(tree)):
        line, up = {node}, int(tree.parent[node])
        while up >= 0:
            line.add(up)
            up = int(tree.parent[up])
        assert set(tree.visible[node].nonzero()[:, 0].tolist()) == line
        assert int(tree.depth[node]) == len(line) - 1
        assert int(tree.parent[node]) < node


def test_q_of_every_expanded_node_is_kept() -> None:
    stepper, shape = TableStepper(1, 40), TreeShape(16, 5, 4)
    tree = build_dynamic(5, stepper, shape, lambda name: None)
    rows = torch.cat(tree.q_logprobs)
    assert len(rows) == len(tree.expanded) == 1 + shape.depth * shape.top_k
    for row, index in zip(rows, tree.expanded.tolist(), strict=True):
        path: list[int] = []
        while index >= 0:
            path.insert(0, int(tree.pool.token[index]) - 100)
            index = int(tree.pool.parent[index])
        assert torch.equal(row, stepper.logits_of(tuple(path)).log_softmax(-1))


def test_timing_marks_alternate_between_forward_and_selection() -> None:
    marks: list[str] = []
    build_dynamic(5, TableStepper(1, 40), TreeShape(8, 3, 4), marks.append)
    assert marks == ["draft", "tree"] * 4


def test_top_stable_breaks_ties_by_lower_index() -> None:
    values = torch.tensor([1.0, 3.0, -0.0, 3.0, 0.0, float("-inf"), 3.0, -2.0])
    chosen, index = top_stable(values, 6)
    assert index.tolist() == [1, 3, 6, 0, 2, 4]
    assert chosen.tolist() == [3.0, 3.0, 3.0, 1.0, 0.0, 0.0]


def test_top_stable_orders_like_a_stable_sort() -> None:
    generator = torch.Generator().manual_seed(0)
    values = (torch.randn(50, 300, generator=generator) * 3).round() / 3
    expected = values.sort(dim=-1, descending=True, stable=True)
    chosen, index = top_stable(values, 40)
    assert torch.equal(index, expected.indices[:, :40])
    assert torch.equal(chosen, expected.values[:, :40])


@pytest.mark.parametrize(
    ("total", "depth", "top_k"),
    [(1, 3, 4), (30, 1, 4), (5, -1, 4), (5, 3, 0), (2000, 60, 60), (9, 65, 4), (9, 3, 65)],
)
def test_shape_that_cannot_be_drafted_is_refused(total, depth, top_k) -> None:
    with pytest.raises(ValueError, match="total"):
        TreeShape(total, depth, top_k)


def test_clipped_shape_is_always_valid_and_never_larger() -> None:
    for total, depth, top_k in SHAPES:
        shape = TreeShape(total, depth, top_k)
        for levels in range(1, 7):
            for width in range(1, 12):
                clipped = shape.clipped(levels=levels, top_k=width)
                assert clipped.levels <= min(levels, shape.levels)
                assert clipped.total <= shape.total and clipped.top_k <= min(width, top_k)
    assert math.isclose(TreeShape(60, 5, 10).pool_size, 10 + 5 * 100)


def test_drafting_deeper_than_the_tree_can_be_changes_nothing() -> None:
    deep = TreeShape(4, 6, 3)
    clipped = deep.clipped(levels=deep.levels, top_k=3)
    assert clipped == TreeShape(4, 2, 3)
    trees = [
        build_dynamic(5, TableStepper(2, 40), shape, lambda name: None) for shape in (deep, clipped)
    ]
    assert paths_of(trees[0]) == paths_of(trees[1])
