"""The fixed tree against a plain-Python reading of it, and against the published one's facts."""

from __future__ import annotations

import random

import pytest
import torch

from eagle3_viz.config import DecodeConfig
from eagle3_viz.fixed_tree import DEFAULT_FIXED, PUBLISHED_FIXED, FixedTree
from eagle3_viz.tree import DraftTree
from eagle3_viz.tree_fixed import build_fixed
from tests.golden_files import committed
from tests.test_tree import TableStepper, paths_of
from tests.tiny_models import OracleDraft, decode_all, random_ids, shared_stock, shared_target

V = 40
PUBLISHED = committed("static_tree_mc_sim_7b_63")


class CountingStepper(TableStepper):
    """Notes how many tokens each forward was fed; the root's own is 0."""

    def __init__(self, seed: int, *, levels: int | None = None) -> None:
        super().__init__(seed, V, levels=levels)
        self.fed: list[int] = []

    def root_logits(self) -> torch.Tensor:
        self.fed.append(0)
        return super().root_logits()

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        self.fed.append(len(draft_ids))
        return super().step(draft_ids, parents, level)


def random_tree(seed: int, nodes: int) -> FixedTree:
    generator = random.Random(seed)
    counts: dict[tuple[int, ...], int] = {(): 0}
    while len(counts) <= nodes:
        parent = generator.choice(list(counts))
        child = (*parent, counts[parent])
        counts[parent] += 1
        counts[child] = 0
    return FixedTree(f"random {seed}", tuple(path for path in counts if path))


def no_mark(name: str) -> None:
    """Timing is not looked at here."""


def built(stepper: TableStepper, fixed: FixedTree) -> DraftTree:
    return build_fixed(5, stepper, fixed, no_mark)


def logprobs_of(stepper: TableStepper, text: tuple[int, ...]) -> list[float]:
    return stepper.logits_of(text).double().log_softmax(-1).tolist()


def reference(stepper: TableStepper, fixed: FixedTree) -> list[tuple[tuple[int, ...], float]]:
    """Tokens and score of each node: at every step the token of that rank, ties by lower id."""
    found = []
    for path in fixed.paths:
        text: tuple[int, ...] = ()
        score = 0.0
        for rank in path:
            logprobs = logprobs_of(stepper, text)
            token = sorted(range(V), key=lambda i: (-logprobs[i], i))[rank]
            text, score = (*text, token), score + logprobs[token]
        found.append((text, score))
    return found


TREES = [
    DEFAULT_FIXED,
    PUBLISHED_FIXED,
    FixedTree("chain", ((0,), (0, 0), (0, 0, 0))),
    FixedTree("star", tuple((rank,) for rank in range(9))),
    *(random_tree(seed, nodes) for seed, nodes in enumerate((5, 12, 30, 60))),
]


@pytest.mark.parametrize("levels", [None, 2], ids=["distinct", "tied"])
@pytest.mark.parametrize("fixed", TREES, ids=lambda tree: tree.name)
def test_each_node_is_the_token_of_its_rank(fixed: FixedTree, levels: int | None) -> None:
    stepper = TableStepper(7, V, levels=levels)
    tree = built(stepper, fixed)
    expected = reference(stepper, fixed)
    assert tree.token[0] == 5
    assert paths_of(tree)[1:] == [text for text, _ in expected]
    pool = tree.pool
    assert pool is not None
    assert pool.score.tolist() == pytest.approx([score for _, score in expected], abs=1e-5)
    assert pool.rank.tolist() == [path[-1] for path in fixed.paths]
    assert pool.depth.tolist() == [len(path) for path in fixed.paths]
    for (text, score), (logprob, parent) in zip(
        expected, zip(pool.logprob.tolist(), pool.parent.tolist(), strict=True), strict=True
    ):
        above = expected[parent][1] if parent >= 0 else 0.0
        assert logprob == pytest.approx(score - above, abs=1e-5)
        assert logprob == pytest.approx(logprobs_of(stepper, text[:-1])[text[-1]], abs=1e-5)
    assert tree.pool_index.tolist() == list(range(-1, len(fixed.paths)))


@pytest.mark.parametrize("fixed", TREES, ids=lambda tree: tree.name)
def test_q_of_every_parent_is_kept_and_of_no_other_node(fixed: FixedTree) -> None:
    stepper = TableStepper(3, V)
    tree = built(stepper, fixed)
    index = {(): -1} | {path: i for i, path in enumerate(fixed.paths)}
    assert tree.expanded.tolist() == [index[path] for path in fixed.children()]
    assert [len(level) for level in tree.q_logprobs] == [
        sum(len(path) == level for path in fixed.children()) for level in range(fixed.levels)
    ]
    texts = paths_of(tree)
    for row, node in zip(torch.cat(tree.q_logprobs), tree.expanded.tolist(), strict=True):
        expected = torch.tensor(logprobs_of(stepper, texts[node + 1]))
        assert torch.allclose(row.double(), expected.double(), atol=1e-5)


@pytest.mark.parametrize("fixed", TREES, ids=lambda tree: tree.name)
def test_one_forward_a_level_is_fed_nothing_but_parents(fixed: FixedTree) -> None:
    stepper, marks = CountingStepper(1), []
    build_fixed(5, stepper, fixed, marks.append)
    below = [path for path in fixed.children() if path]
    by_level = [sum(len(path) == level for path in below) for level in range(1, fixed.levels)]
    assert stepper.fed == [0, *by_level]
    assert marks == ["draft", "tree"] * fixed.levels


def test_the_published_tree_has_the_authors_nodes_order_and_mask() -> None:
    stepper = CountingStepper(2)
    tree = built(stepper, PUBLISHED_FIXED)
    assert len(tree) == 26
    assert tree.parent.tolist() == PUBLISHED["parent"]
    assert tree.depth.tolist() == PUBLISHED["depth"]
    seen = [row.nonzero()[:, 0].tolist() for row in tree.visible]
    assert seen == PUBLISHED["sees"]
    assert tree.pool is not None
    assert [-1, *tree.pool.rank.tolist()] == [
        path[-1] if path else -1 for path in PUBLISHED["paths"]
    ]
    assert stepper.fed == [0, *PUBLISHED["fed_by_level"]]
    assert len(stepper.fed) == 1 + 4


def test_a_clipped_tree_is_the_rest_of_the_whole_one() -> None:
    stepper = TableStepper(4, V)
    whole = dict(
        zip(PUBLISHED_FIXED.paths, paths_of(built(stepper, PUBLISHED_FIXED))[1:], strict=True)
    )
    clipped = PUBLISHED_FIXED.clipped(levels=3, top_k=2)
    rest = dict(zip(clipped.paths, paths_of(built(stepper, clipped))[1:], strict=True))
    assert rest == {path: whole[path] for path in clipped.paths}


# In a run

PROMPT = random_ids(8, 60)


def oracle(ids: int) -> OracleDraft:
    return OracleDraft(shared_stock(), PROMPT, range(ids), noise=1.0)


def test_a_run_verifies_the_fixed_tree_in_every_cycle_and_keeps_the_text() -> None:
    target = shared_target()
    settings = {"max_new_tokens": 30, "fixed": PUBLISHED_FIXED, "method": "eagle1"}
    prefill, cycles = decode_all(target, oracle(61), PROMPT, **settings)
    ar_prefill, ar = decode_all(target, None, PROMPT, max_new_tokens=30, method="ar")
    text = [prefill.token, *(token for cycle in cycles for token in cycle.tokens)]
    assert text == [ar_prefill.token, *(token for cycle in ar for token in cycle.tokens)]
    assert {cycle.verified for cycle in cycles} == {26}
    assert {cycle.drafted for cycle in cycles} == {25}
    assert [cycle.draft_forwards for cycle in cycles] == [4] + [5] * (len(cycles) - 1)


def test_a_draft_of_fewer_tokens_than_a_node_has_children_gets_a_narrower_tree() -> None:
    settings = {"max_new_tokens": 12, "fixed": PUBLISHED_FIXED, "method": "eagle1"}
    _, cycles = decode_all(shared_target(), oracle(2), PROMPT, **settings)
    narrow = PUBLISHED_FIXED.clipped(levels=5, top_k=2)
    assert {cycle.verified for cycle in cycles} == {narrow.total}
    for cycle in cycles:
        assert cycle.nodes is not None
        assert cycle.nodes.q_rank.max() == 1


def test_only_eagle1_drafts_the_fixed_tree() -> None:
    for method in ("eagle2", "eagle3", "independent", "lookup"):
        config = DecodeConfig(method=method, fixed=PUBLISHED_FIXED)  # type: ignore[arg-type]
        assert config.tree == config.shape
    assert DecodeConfig(method="eagle1", fixed=PUBLISHED_FIXED).tree == PUBLISHED_FIXED
