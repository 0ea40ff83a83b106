"""Whatever people type becomes one bounded line that a page can show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_viz.library.words import MAX_SLUG, MAX_TAG, MAX_TAGS, plain, slug, tags_of


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("  a  name ", "a name"),
        ("two\nlines\tand more", "two lines and more"),
        ("bell\x07 and escape \x1b[31mred", "bell and escape [31mred"),
        ("gnp.\u202eexe", "gnp.exe"),
        ("half \ud800 a pair", "half a pair"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\u2028\u2029\u00a0", ""),
        ("数学, naïve 👍", "数学, naïve 👍"),
    ],
)
def test_a_name_is_what_can_be_seen_of_it(given: str, shown: str) -> None:
    assert plain(given, 80) == shown


def test_a_long_name_is_cut_and_says_so() -> None:
    assert plain("x" * 10_000, 80) == "x" * 79 + "…"
    assert plain("x" * 80, 80) == "x" * 80


@given(st.text(), st.integers(1, 100))
def test_a_name_never_steers_a_page_and_never_exceeds_its_limit(text: str, limit: int) -> None:
    line = plain(text, limit)
    assert len(line) <= limit and line == line.strip()
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in line)
    line.encode("utf-8")


def test_tags_are_few_short_and_different() -> None:
    assert tags_of([" Code ", "code", "", "\x00", "loss"]) == ("Code", "loss")
    assert len(tags_of(map(str, range(50)))) == MAX_TAGS
    assert tags_of(["y" * 200])[0] == "y" * (MAX_TAG - 1) + "…"


@given(st.text())
def test_an_address_is_made_of_letters_digits_and_hyphens(text: str) -> None:
    made = slug(text)
    assert len(made) <= MAX_SLUG
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not made.startswith("-") and not made.endswith("-") and "--" not in made


def test_an_address_keeps_the_words_of_the_name() -> None:
    assert slug("EAGLE-3: Write a Função, ok?") == "eagle-3-write-a-funcao-ok"
    assert slug("数学") == ""
