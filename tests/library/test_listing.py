"""The list of the library: names that tell traces apart, and what a search finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_viz.library.filtering import Filter, matching
from eagle3_viz.library.store import Library
from tests.synthetic import make_trace


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "own")


def test_traces_of_one_name_are_told_apart_by_their_id(library: Library) -> None:
    one, two = (library.save(make_trace(cycles=1), "same") for _ in range(2))
    other = library.save(make_trace(cycles=1), "other")
    assert library.names() == {
        one.id: f"same ({one.id})",
        two.id: f"same ({two.id})",
        other.id: "other",
    }


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), "abc"),
        (Filter(text="ALPHA"), "a"),
        (Filter(text="run SLOW"), "ab"),
        (Filter(text="made-up"), "abc"),
        (Filter(text="nothing"), ""),
        (Filter(methods=["ar"]), "c"),
        (Filter(domains=["code", "math"]), "ab"),
        (Filter(tags=["slow"]), "ab"),
        (Filter(tags=["slow", "greedy one"]), "b"),
        (Filter(text="run", domains=["math"], tags=["slow"]), "b"),
    ],
)
def test_a_filter_keeps_what_has_all_of_it(library: Library, wanted: Filter, found: str) -> None:
    for name, method, tags, domain in (
        ("a alpha run", "eagle3", ("slow",), "code"),
        ("b beta run", "eagle3", ("slow", "greedy one"), "math"),
        ("c gamma run", "ar", (), ""),
    ):
        library.save(make_trace(cycles=1, method=method), name, tags, domain)  # type: ignore[arg-type]
    kept = matching(library.entries(), wanted)
    assert sorted(entry.name[0] for entry in kept) == list(found)
