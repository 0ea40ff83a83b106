"""Prompt lookup against a plain search of the text, written from the definition."""

from __future__ import annotations

import random

import pytest
import torch

from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.drafts.prompt_lookup import LONGEST, SHORTEST, PromptLookupDraft
from eagle3_viz.fixed_tree import DEFAULT_FIXED
from eagle3_viz.records import Cycle
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree
from tests.tiny_models import VOCABULARY, decode_all, random_ids, shared_target, text_of

CPU = torch.device("cpu")
NO_STATES = torch.empty(0, 0)
SHAPE = TreeShape(6, 4, 1)


def reading(text: list[int], *, vocabulary: int = 20) -> PromptLookupDraft:
    draft = PromptLookupDraft(vocabulary, CPU)
    draft.start(text[0])
    draft.extend(NO_STATES, text[1:])
    return draft


def no_mark(name: str) -> None:
    """Timing is not looked at here."""


def proposal(text: list[int], shape: TreeShape = SHAPE) -> DraftTree:
    return reading(text).propose(text[-1], shape, no_mark)


def searched(text: list[int], count: int) -> list[int]:
    """The definition: longest n-gram first, latest earlier occurrence, what followed it."""
    for n in range(LONGEST, SHORTEST - 1, -1):
        for start in range(len(text) - n - 1, -1, -1):
            if n <= len(text) and text[start : start + n] == text[-n:]:
                return text[start + n : start + n + count]
    return []


@pytest.mark.parametrize("kinds", [2, 3, 6, 20])
def test_what_is_copied_is_what_a_plain_search_finds(kinds: int) -> None:
    generator = random.Random(kinds)
    text = [generator.randrange(kinds)]
    draft = PromptLookupDraft(20, CPU)
    draft.start(text[0])
    while len(text) < 150:
        assert draft.copied(5) == searched(text, 5)
        new = [generator.randrange(kinds) for _ in range(generator.randint(1, 4))]
        draft.extend(NO_STATES, new)
        text += new


def test_the_latest_earlier_occurrence_is_copied() -> None:
    assert reading([5, 1, 6, 1, 7, 8, 1]).copied(2) == [7, 8]


def test_the_longest_ngram_wins_over_a_later_shorter_one() -> None:
    text = [1, 2, 3, 9, 9, 2, 3, 8, 8, 3, 7, 7, 1, 2, 3]
    assert reading(text).copied(1) == [9]
    assert reading([*text[1:12], 2, 3]).copied(1) == [8]
    assert reading([*text[8:12], 3]).copied(1) == [7]


def test_a_copy_may_run_into_the_ngram_that_it_was_found_by() -> None:
    assert reading([4, 1, 2, 1, 2]).copied(5) == [1, 2]
    assert reading([1, 1, 1]).copied(5) == [1]


def test_where_nothing_repeats_the_root_stands_alone() -> None:
    tree = proposal([1, 2, 3, 4])
    assert (tree.token.tolist(), tree.pool, tree.levels) == ([4], None, 0)
    assert len(proposal([7])) == 1


def test_a_new_text_forgets_the_one_before() -> None:
    draft = reading([1, 2, 3, 1])
    assert draft.copied(2) == [2, 3]
    draft.start(1)
    assert draft.copied(2) == []
    draft.extend(NO_STATES, [5, 1])
    assert draft.copied(2) == [5, 1]


@pytest.mark.parametrize(
    ("shape", "length"),
    [
        (TreeShape(6, 4, 1), 5),
        (TreeShape(8, 4, 4), 5),  # as deep as the levels, however wide the tree may be
        (TreeShape(3, 4, 4), 2),  # no more nodes than the budget
        (TreeShape(2, 0, 1), 1),
    ],
)
def test_the_chain_is_as_deep_as_levels_and_total_allow(shape: TreeShape, length: int) -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 1]
    assert proposal(text, shape).token.tolist() == [1, 2, 3, 4, 5, 6, 7][: 1 + length]


def test_the_chain_ends_with_the_text() -> None:
    assert proposal([1, 2, 3, 1]).token.tolist() == [1, 2, 3, 1]


def test_a_fixed_tree_bounds_the_chain_by_its_levels() -> None:
    text = [1, 2, 3, 4, 5, 6, 1]
    tree = reading(text).propose(1, DEFAULT_FIXED, no_mark)
    assert tree.token.tolist() == [1, 2, 3, 4]


def test_the_proposal_is_a_chain_whose_q_is_a_point_mass() -> None:
    tree = proposal([1, 2, 3, 4, 1])
    assert tree.parent.tolist() == [-1, 0, 1, 2, 3]
    assert tree.depth.tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(tree.visible, torch.ones(5, 5).tril().bool())
    assert tree.pool_index.tolist() == [-1, 0, 1, 2, 3]
    assert tree.expanded.tolist() == [-1, 0, 1, 2]
    pool = tree.pool
    assert pool is not None
    assert pool.token.tolist() == [2, 3, 4, 1]
    assert pool.parent.tolist() == [-1, 0, 1, 2]
    assert pool.depth.tolist() == [1, 2, 3, 4]
    for certain in (pool.logprob, pool.score, pool.rank):
        assert certain.tolist() == [0, 0, 0, 0]
    assert torch.equal(torch.cat(tree.q_logprobs).exp(), torch.eye(20)[pool.token])


def test_no_level_is_drafted_by_a_forward() -> None:
    marks: list[str] = []
    text = [1, 2, 3, 1]
    reading(text).propose(1, SHAPE, marks.append)
    assert marks == ["draft", "tree"]


def test_a_copied_text_is_not_drawn_from() -> None:
    draft = reading([1, 2, 1])
    with pytest.raises(ValueError, match="rule is topk, not sample"):
        draft.propose_sampled(1, SHAPE, Sampling(1.0), Draws(0), no_mark)
    with pytest.raises(ValueError, match="use rule='topk'"):
        DecodeConfig(method="lookup", sampling=Sampling(1.0), rule="sample")


# In a run

PROMPT = random_ids(6, 80) * 3


def run(**settings: object) -> tuple[list[int], list[Cycle]]:
    target = shared_target()
    draft = PromptLookupDraft(VOCABULARY, CPU)
    settings = {"method": "lookup", "shape": SHAPE, "max_new_tokens": 60, **settings}
    prefill, cycles = decode_all(target, draft, PROMPT, **settings)
    return text_of(prefill, cycles), cycles


def test_every_guess_of_a_run_is_copied_from_its_own_text() -> None:
    text, cycles = run(sampling=Sampling(1.0, top_k=3), seed=4)
    copied = 0
    for cycle in cycles:
        before = (PROMPT + text)[: cycle.prefix_length + 1]
        assert cycle.nodes is not None
        room = min(SHAPE.levels, 512 - 1 - cycle.prefix_length)
        assert cycle.nodes.token.tolist()[1:] == searched(before, room)
        copied += len(cycle.nodes) - 1
    assert copied > 0


def test_a_run_keeps_the_text_of_autoregression() -> None:
    target = shared_target()
    expected = text_of(*decode_all(target, None, PROMPT, method="ar", max_new_tokens=60))
    assert run()[0] == expected


def test_the_trace_tells_q_as_a_point_mass_and_the_test_as_p() -> None:
    _, cycles = run(sampling=Sampling(1.0, top_k=3), seed=4)
    tested = 0
    for cycle in cycles:
        nodes = cycle.nodes
        assert nodes is not None
        assert (nodes.draft_logprob[1:] == 0.0).all()
        for at in cycle.distributions:
            children = nodes.token[nodes.parent == at.node].tolist()
            if not children:
                assert at.q is None
                continue
            assert at.q is not None
            assert (at.q.token.tolist(), at.q.probability.tolist()) == (children, [1.0])
            assert at.entropy_q == 0.0
            child = int((nodes.parent == at.node).argmax())
            assert nodes.accept_probability[child] == pytest.approx(nodes.p[child])
            tested += 1
    assert tested > 5
