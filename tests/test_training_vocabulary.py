"""The draft vocabulary: which tokens, in which order, and how much of the text they cover."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.vocabulary import DraftVocabulary, choose_vocabulary, coverage_by_domain
from tests.tiny_models import random_ids

V = 61


def conversation(
    response: list[int], prompt: tuple[int, ...] = (1, 2), domain: str = "chat"
) -> Conversation:
    return Conversation((*prompt, *response), len(prompt), domain)


def ids_of(vocabulary: DraftVocabulary) -> list[int]:
    return vocabulary.ids.tolist()


def test_the_most_frequent_response_tokens_are_chosen_in_rising_order() -> None:
    text = [conversation([9, 9, 9, 4, 4, 30]), conversation([30, 30, 30, 7])]
    assert ids_of(choose_vocabulary(text, 3, V)) == [4, 9, 30]
    assert ids_of(choose_vocabulary(text, 1, V)) == [30]


def test_prompt_tokens_are_not_counted() -> None:
    assert ids_of(choose_vocabulary([conversation([3], (8, 8, 8))], 1, V)) == [3]


def test_of_equally_frequent_tokens_the_lower_ids_are_chosen() -> None:
    assert ids_of(choose_vocabulary([conversation([50, 20, 40, 10, 30])], 3, V)) == [10, 20, 30]


def test_the_lowest_ids_that_never_occur_fill_up_to_the_exact_size() -> None:
    assert ids_of(choose_vocabulary([conversation([60, 1])], 5, V)) == [0, 1, 2, 3, 60]


def test_tokens_that_end_a_text_are_in_however_rare() -> None:
    text = [conversation([9, 9, 4, 4, 4])]
    assert ids_of(choose_vocabulary(text, 2, V, always=[57])) == [4, 57]
    assert ids_of(choose_vocabulary(text, 2, V, always=[57, 58, 57])) == [57, 58]


def test_the_choice_agrees_with_a_count_by_hand_on_random_text() -> None:
    texts = [conversation(random_ids(80, seed)) for seed in range(5)]
    counts = Counter(i for c in texts for i in c.ids[2:])
    expected = sorted(sorted(range(V), key=lambda i: (-counts[i], i))[:20])
    assert ids_of(choose_vocabulary(texts, 20, V)) == expected


def test_tables_of_the_checkpoint_say_the_same_as_the_ids() -> None:
    vocabulary = choose_vocabulary([conversation(random_ids(50, 1))], 17, V)
    assert [i + offset for i, offset in enumerate(vocabulary.d2t.tolist())] == ids_of(vocabulary)
    assert vocabulary.t2d.nonzero().flatten().tolist() == ids_of(vocabulary)
    assert (vocabulary.d2t.dtype, vocabulary.t2d.dtype) == (torch.int64, torch.bool)
    for target_id, draft_id in enumerate(vocabulary.draft_ids.tolist()):
        inside = target_id in ids_of(vocabulary)
        assert (ids_of(vocabulary).index(target_id) if inside else -1) == draft_id
    again = DraftVocabulary.from_d2t(vocabulary.d2t, V)
    assert ids_of(again) == ids_of(vocabulary)


def test_the_full_vocabulary_maps_every_token_to_itself() -> None:
    for vocabulary in (choose_vocabulary([conversation([5])], V, V), DraftVocabulary.full(V)):
        assert ids_of(vocabulary) == vocabulary.draft_ids.tolist() == list(range(V))
        assert not vocabulary.d2t.any()
        assert vocabulary.t2d.all()
        assert len(vocabulary) == V


def test_coverage_is_the_share_of_response_tokens_by_domain_and_in_all() -> None:
    text = [
        conversation([4, 4, 4, 9], domain="math"),
        conversation([9, 9], domain="code"),
        conversation([4, 9, 9, 9, 9, 9], domain="code"),
    ]
    vocabulary = DraftVocabulary(torch.tensor([2, 4]), V)
    coverage = coverage_by_domain(vocabulary, text)
    assert coverage == {"code": 1 / 8, "math": 3 / 4, "all": 4 / 12}
    assert list(coverage) == ["code", "math", "all"]


@pytest.mark.parametrize(
    ("size", "always", "told"),
    [
        (0, [], "of 0 tokens"),
        (V + 1, [], "at most the target's 61"),
        (2, [1, 2, 3], "at least the 3"),
        (5, [V], "below 61"),
        (5, [-1], "below 61"),
    ],
)
def test_a_size_that_cannot_be_met_is_refused(size: int, always: list[int], told: str) -> None:
    with pytest.raises(DataError, match=told):
        choose_vocabulary([conversation([1])], size, V, always=always)


def test_text_without_responses_and_text_of_another_tokenizer_are_refused() -> None:
    with pytest.raises(DataError, match="no response tokens"):
        choose_vocabulary([], 3, V)
    with pytest.raises(DataError, match="token 61, the target only 61"):
        choose_vocabulary([conversation([V])], 3, V)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (torch.tensor([3, 2]), "unordered ids from 2 to 3"),
        (torch.tensor([2, 2]), "unordered"),
        (torch.tensor([-1, 2]), "from -1 to 2"),
        (torch.tensor([1, V]), "from 1 to 61"),
        (torch.tensor([1, 2], dtype=torch.int32), "int32"),
        (torch.tensor([[1, 2]]), "int64"),
        (torch.tensor([], dtype=torch.int64), r"\[0\]"),
    ],
    ids=str,
)
def test_ids_that_are_no_vocabulary_are_refused(ids: torch.Tensor, told: str) -> None:
    with pytest.raises(DataError, match=told):
        DraftVocabulary(ids, V)
