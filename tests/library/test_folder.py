"""What else lies in the folder of the library, or was damaged there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3_viz import trace_file
from eagle3_viz.library.store import Library, LibraryError
from tests.synthetic import make_trace


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "own")


def test_what_is_no_trace_is_a_problem_and_the_others_are_listed(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "good")
    folder = library.folder
    (folder / "notes.txt").write_text("mine")
    (folder / "broken.parquet").write_bytes(b"PAR1 and no end")
    (folder / "live.parquet").write_bytes(library.read(entry.id))
    (folder / "Big Name.parquet").write_bytes(library.read(entry.id))
    (folder / "orphan.json").write_text("{}")
    (folder / "folder.parquet").mkdir()
    (folder / "link.parquet").symlink_to(folder / f"{entry.id}.parquet")
    (folder / ".hidden").write_text("")
    (folder / "suites").mkdir()
    listing = library.listing()
    assert listing.entries == (entry,)
    about = ["Big Name", "broken", "folder", "link", "live", "notes", "orphan"]
    assert len(listing.problems) == len(about)
    for name in about:
        assert sum(name in problem for problem in listing.problems) == 1
    with pytest.raises(LibraryError, match="truncated"):
        library.open("broken")


def test_a_trace_that_was_copied_into_the_folder_is_listed_by_its_name(library: Library) -> None:
    library.folder.mkdir()
    trace_file.save(make_trace(cycles=2), library.folder / "copied-here.parquet")
    (entry,) = library.entries()
    assert (entry.id, entry.name) == ("copied-here", "copied-here")
    assert library.rename(entry.id, "named").name == "named"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"name": 1, "tags": [], "domain": ""}',
        '{"name": "x"}',
        "[" * 10_000,
        "x" * 99_999,
    ],
)
def test_damaged_labels_are_a_problem_and_the_trace_is_listed_by_its_id(
    library: Library, text: str
) -> None:
    entry = library.save(make_trace(cycles=1), "good", ("a",))
    (library.folder / f"{entry.id}.json").write_text(text)
    listing = library.listing()
    assert [(e.id, e.name, e.tags) for e in listing.entries] == [(entry.id, entry.id, ())]
    assert len(listing.problems) == 1 and f"{entry.id}.json" in listing.problems[0]
    assert library.rename(entry.id, "good again").name == "good again"
    assert library.listing().problems == ()


def test_labels_altered_on_disk_are_cleaned_as_typed_ones(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "good")
    content = {"name": "\u202e<b>" + "x" * 500, "tags": ["\x00t"] * 50, "domain": "a\nb"}
    (library.folder / f"{entry.id}.json").write_text(json.dumps(content))
    (entry,) = library.entries()
    assert entry.name.startswith("<b>xx") and len(entry.name) == 80
    assert (entry.tags, entry.domain) == (("t",), "a b")


def test_a_folder_that_cannot_be_read_is_a_problem_and_what_ships_is_listed(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("no folder")
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    trace_file.save(make_trace(cycles=1), shipped / "eagle3-code.parquet")
    (shipped / "eagle3-math.parquet").write_bytes(b"damaged")
    listing = Library(tmp_path / "file", shipped).listing()
    assert [entry.id for entry in listing.entries] == ["shipped-eagle3-code"]
    folder, file = listing.problems
    assert "cannot be read" in folder and file.startswith("eagle3-math.parquet: expected a Parquet")
    with pytest.raises(LibraryError, match="cannot be written"):
        Library(tmp_path / "file").save(make_trace(cycles=1), "n")
