"""Where a text ends, token by token, however its tokens are dealt out to cycles."""

from __future__ import annotations

import itertools

import pytest

from eagle3_viz.config import DecodeConfig
from eagle3_viz.endings import Endings

BYTES = [b"a", b"b", b"ab", b"", b"\xe2\x82", b"\xac", b"END", b"EN", b"D"]
A, B, AB, EMPTY, EURO_HEAD, EURO_TAIL, END, EN, D = range(len(BYTES))
EOS = 100
FAR = 10_000


def endings(*, limit: int = FAR, eos: frozenset[int] = frozenset({EOS}), **config) -> Endings:
    return Endings(eos, limit, DecodeConfig(**{"max_new_tokens": FAR} | config), BYTES)


def dealt(tokens: list[int], sizes: list[int], **settings) -> tuple[list[int], str | None]:
    """The text that survives when `tokens` arrive in cycles of these sizes."""
    judge, kept, start = endings(**settings), [], 0
    for size in sizes:
        chunk = tokens[start : start + size]
        count, finish = judge.admit(chunk, cached=0)
        kept += chunk[:count]
        start += size
        if finish is not None:
            return kept, finish
    return kept, None


def every_dealing(length: int) -> list[list[int]]:
    """All ways to cut `length` tokens into cycles."""
    dealings = []
    for count in range(length):
        for cuts in itertools.combinations(range(1, length), count):
            edges = [0, *cuts, length]
            dealings.append([after - before for before, after in itertools.pairwise(edges)])
    return dealings


@pytest.mark.parametrize(
    ("tokens", "settings", "expected"),
    [
        ([A, B, EOS, A, B, A], {}, ([A, B, EOS], "eos")),
        ([A, B, A, B, A, EOS], {}, ([A, B, A, B, A, EOS], "eos")),
        ([EOS, A, B, A, B, A], {}, ([EOS], "eos")),
        ([A, B, A, B, A, B], {"max_new_tokens": 4}, ([A, B, A, B], "length")),
        ([A, B, A, EOS, A, B], {"max_new_tokens": 4}, ([A, B, A, EOS], "eos")),
        ([A, B, A, B, EOS, B], {"max_new_tokens": 4}, ([A, B, A, B], "length")),
        ([A, END, B, A, B, A], {"stop": ("END",)}, ([A, END], "stop")),
        ([A, EN, D, A, B, A], {"stop": ("END",)}, ([A, EN, D], "stop")),
        ([A, EN, EMPTY, D, B, A], {"stop": ("END",)}, ([A, EN, EMPTY, D], "stop")),
        ([A, EN, A, D, EN, D], {"stop": ("END",)}, ([A, EN, A, D, EN, D], "stop")),
        ([A, EN, A, D, EN, A], {"stop": ("END",)}, ([A, EN, A, D, EN, A], None)),
        ([A, EURO_HEAD, EURO_TAIL, A, B, B], {"stop": ("€",)}, ([A, EURO_HEAD, EURO_TAIL], "stop")),
        ([A, A, B, A, B, A], {"stop": ("bb", "aba")}, ([A, A, B, A], "stop")),
        ([A, AB, A, B, A, A], {"stop": ("ba",)}, ([A, AB, A], "stop")),
        ([A, AB, A, A, A, A], {"stop": ("bbbbbbbb", "b")}, ([A, AB], "stop")),
        ([A, EN, D, A, B, A], {"stop": ("END",), "max_new_tokens": 3}, ([A, EN, D], "stop")),
        ([A, EN, D, A, B, A], {"stop": ("END",), "max_new_tokens": 2}, ([A, EN], "length")),
    ],
)
def test_the_text_is_the_same_however_cycles_deal_it_out(tokens, settings, expected) -> None:
    for sizes in every_dealing(6):
        assert dealt(tokens, sizes, **settings) == expected, sizes


def test_a_stop_string_longer_than_all_text_before_it_is_found() -> None:
    judge = endings(stop=("ab" * 20,))
    for token in [*[A, B] * 19, A]:
        assert judge.admit([token], cached=0) == (1, None)
    assert judge.admit([B], cached=0) == (1, "stop")


def test_every_end_of_sequence_id_ends_the_text() -> None:
    for eos in (3, 7):
        assert endings(eos=frozenset({3, 7})).admit([0, eos, 1], cached=0) == (2, "eos")
    assert endings(eos=frozenset()).admit([3, 7], cached=0) == (2, None)


@pytest.mark.parametrize(("cached", "finish"), [(19, None), (20, "context"), (21, "context")])
def test_the_text_ends_where_its_last_token_has_no_position(cached, finish) -> None:
    assert endings(limit=20).admit([A, B], cached=cached) == (2, finish)


def test_an_end_within_the_last_tokens_is_told_before_the_full_context() -> None:
    assert endings(limit=20).admit([A, EOS, B], cached=20) == (2, "eos")
    assert endings(limit=20, max_new_tokens=3).admit([A, B, A], cached=20) == (3, "length")


def test_a_token_beyond_the_tokenizer_has_no_bytes() -> None:
    judge = endings(stop=("END",))
    assert judge.admit([EN, 5000, D], cached=0) == (3, "stop")


def test_stop_strings_need_the_bytes_of_the_tokens() -> None:
    with pytest.raises(ValueError, match="token_bytes"):
        Endings(frozenset(), FAR, DecodeConfig(stop=("x",)), [])


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"stop": ("",)}, "stop string"), ({"max_new_tokens": 0}, "max_new_tokens")],
)
def test_endings_that_mean_nothing_are_refused(settings, told) -> None:
    with pytest.raises(ValueError, match=told):
        DecodeConfig(**settings)
