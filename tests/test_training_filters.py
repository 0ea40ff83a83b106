"""Filters against definitions written out the slow way."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from eagle3_viz.training.filters import NearDuplicates, is_held_out, loop_cut, shingles


def slow_loop_cut(tokens: Sequence[int]) -> int | None:
    """Over all beginnings and periods: the longest periodic end of the shortest period."""
    for period in range(1, 41):
        if len(tokens) < 3 * period:
            continue
        begins = [
            begin
            for begin in range(len(tokens) - 3 * period + 1)
            if all(tokens[i] == tokens[i + period] for i in range(begin, len(tokens) - period))
        ]
        if begins:
            return begins[0] + period if len(tokens) - begins[0] >= 32 else None
    return None


@pytest.mark.parametrize("seed", range(60))
def test_a_loop_is_cut_where_its_second_round_begins(seed: int) -> None:
    draws = random.Random(seed)
    head = [draws.randrange(4) for _ in range(draws.randrange(12))]
    block = [draws.randrange(4) for _ in range(draws.randrange(1, 44))]
    tokens = (head + block * draws.randrange(1, 9))[: draws.randrange(20, 200)]
    assert loop_cut(tokens) == slow_loop_cut(tokens)


def test_a_loop_by_hand() -> None:
    text = list(range(100, 150))
    assert loop_cut([*text, *[1, 2, 3, 4] * 8]) == 54
    assert loop_cut([*text, *[1, 2, 3, 4] * 8, 1, 2]) == 54
    assert loop_cut([*text, *[1, 2, 3, 4] * 8, 9]) is None
    assert loop_cut([*text, 0, 0, 0]) is None  # as in "1,000"
    assert loop_cut([*text, *[0] * 32]) == 51
    assert loop_cut([]) is None


def words(text: str) -> set[tuple[str, ...]]:
    found = text.split()
    return {tuple(found[i : i + 5]) for i in range(max(1, len(found) - 4))}


def similarity(a: str, b: str) -> float:
    return len(words(a) & words(b)) / len(words(a) | words(b))


def test_near_duplicates_are_those_of_the_definition() -> None:
    draws = random.Random(0)
    base = [f"w{i}" for i in range(40)]
    texts = []
    for _ in range(60):
        text = base[draws.randrange(8) : draws.randrange(12, 40)]
        for _ in range(draws.randrange(3)):
            text[draws.randrange(len(text))] = f"x{draws.randrange(5)}"
        texts.append(" ".join(text))
    seen, verdicts = NearDuplicates(), []
    for i, text in enumerate(texts):
        verdicts.append(seen.holds(text))
        assert verdicts[-1] == any(similarity(text, other) >= 0.5 for other in texts[:i])
        seen.add(text)
    assert True in verdicts
    assert False in verdicts


def test_case_spaces_and_punctuation_do_not_tell_texts_apart() -> None:
    known = NearDuplicates(["What is the capital of France?", "¿?", "Hi"])
    assert known.holds("what is the   CAPITAL of\nfrance")
    assert known.holds("hi!")
    assert known.holds("¿?")
    assert not known.holds("What was the population of France?")
    assert not known.holds("?!")


def test_every_five_words_in_a_row_are_a_shingle() -> None:
    assert len(shingles("a b c d e f g")) == 3
    assert len(shingles("a b c")) == 1
    assert shingles("a b c d e") < shingles("a b c d e f")


def test_the_hold_out_is_a_share_of_the_prompts_and_follows_the_words_alone() -> None:
    prompts = [f"question number {i}" for i in range(4000)]
    held_out = [prompt for prompt in prompts if is_held_out(prompt, 0.1)]
    assert 320 < len(held_out) < 480  # 400 expected, four standard deviations of 19
    assert all(is_held_out(prompt.upper() + "?", 0.1) for prompt in held_out)
    assert all(is_held_out(prompt, 0.2) for prompt in held_out)
    assert not any(is_held_out(prompt, 0.0) for prompt in prompts)
    assert all(is_held_out(prompt, 1.0) for prompt in prompts)
