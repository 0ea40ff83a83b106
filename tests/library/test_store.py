"""The library keeps what it was given, changes only what it was asked to, and loses nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from eagle3_viz import files, trace_file, trace_json
from eagle3_viz.library import store
from eagle3_viz.library.store import Library, LibraryError
from eagle3_viz.metrics import summary
from eagle3_viz.trace import Trace
from tests.altered_traces import with_header
from tests.synthetic import make_trace


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "own", tmp_path / "shipped")


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    folder = tmp_path / "shipped"
    folder.mkdir()
    for stem, method in (("ar-math", "ar"), ("eagle3-code", "eagle3"), ("eagle3-chat", "eagle3")):
        trace_file.save(make_trace(cycles=2, method=method), folder / f"{stem}.parquet")
    (folder / "README.md").write_text("not a trace")
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def aged(library: Library, trace_id: str, seconds: int) -> None:
    path = library.folder / f"{trace_id}.parquet"
    os.utime(path, (seconds, seconds))


def same(a: Trace, b: Trace) -> bool:
    return trace_file.to_bytes(a) == trace_file.to_bytes(b)


def test_a_kept_trace_comes_back_with_its_labels_and_its_numbers(library: Library) -> None:
    trace = make_trace(cycles=9, rule="topk")
    entry = library.save(trace, "A run", ("first", "topk"), "code")
    numbers = summary(trace)
    assert (entry.name, entry.tags, entry.domain) == ("A run", ("first", "topk"), "code")
    assert (entry.method, entry.rule, entry.pair) == ("eagle3", "topk", "made-up")
    assert (entry.cycles, entry.tokens) == (numbers.cycles, numbers.tokens)
    assert (entry.tau, entry.speedup) == (numbers.tau, numbers.speedup)
    assert entry.bytes == len(library.read(entry.id)) and not entry.shipped
    assert same(library.open(entry.id), trace)
    assert library.entries() == (entry,) and library.entry(entry.id) == entry


def test_a_run_that_only_reached_prefill_is_listed_without_numbers(library: Library) -> None:
    made = make_trace(cycles=0)
    bare = Trace(made.header, token_bytes=made.token_bytes)
    entry = library.save(bare, "nothing")
    assert (entry.cycles, entry.tokens, entry.tau, entry.speedup) == (0, 0, None, None)


@pytest.mark.parametrize("form", [trace_file.to_bytes, trace_json.dumps])
def test_an_uploaded_file_is_kept_as_parquet_whatever_its_form(library: Library, form) -> None:  # type: ignore[no-untyped-def]
    trace = make_trace(cycles=3)
    entry = library.add(form(trace), "uploaded")
    assert library.read(entry.id).startswith(b"PAR1")
    assert same(library.open(entry.id), trace)


def test_ids_are_addresses_and_never_collide(library: Library) -> None:
    trace = make_trace(cycles=1)
    names = ["EAGLE-3: hi", "EAGLE-3: hi", "../../x", "数学", "live", "shipped", "a" * 200]
    ids = [library.save(trace, name).id for name in names]
    assert len(set(ids)) == len(names)
    assert all(set(i) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for i in ids)
    assert all(len(i) <= 64 and i != "live" and not i.startswith("shipped-") for i in ids)
    assert ids[0].startswith("eagle-3-hi-")
    assert {path.parent for path in library.folder.iterdir()} == {library.folder}


def test_own_traces_come_first_the_newest_before_the_others(
    library: Library, shipped: Path
) -> None:
    older, newer = (library.save(make_trace(cycles=1), name) for name in ("older", "newer"))
    aged(library, older.id, 1000)
    aged(library, newer.id, 2000)
    assert [entry.id for entry in library.entries()] == [
        newer.id,
        older.id,
        "shipped-eagle3-chat",
        "shipped-eagle3-code",
        "shipped-ar-math",
    ]


def test_a_shipped_trace_is_named_by_its_file_and_cannot_be_changed(
    library: Library, shipped: Path
) -> None:
    entry = library.entry("shipped-eagle3-code")
    assert (entry.name, entry.domain, entry.shipped) == ("EAGLE-3, code", "code", True)
    assert library.open(entry.id).header.method == "eagle3"
    before = names_in(shipped)
    for attempt in (
        lambda: library.rename(entry.id, "mine"),
        lambda: library.tag(entry.id, ("x",)),
        lambda: library.file_under(entry.id, "math"),
        lambda: library.delete(entry.id),
    ):
        with pytest.raises(LibraryError, match="ships with the program"):
            attempt()
    assert names_in(shipped) == before and library.entry(entry.id) == entry


def test_name_tags_and_domain_change_without_each_other_and_without_the_trace(
    library: Library,
) -> None:
    entry = library.save(make_trace(cycles=2), "first", ("a",), "code")
    content = library.read(entry.id)
    assert library.rename(entry.id, "second").name == "second"
    assert library.tag(entry.id, ("b", "c")).tags == ("b", "c")
    changed = library.file_under(entry.id, "math")
    assert (changed.name, changed.tags, changed.domain) == ("second", ("b", "c"), "math")
    assert changed.id == entry.id and library.read(entry.id) == content


def test_hostile_labels_are_kept_as_bounded_plain_text(library: Library) -> None:
    entry = library.save(
        make_trace(cycles=1),
        "<b>\x00x\u202e</b>\n" + "y" * 10_000,
        ["\x1b[2J<i>", "z" * 999],
        "\r\n",
    )
    assert entry.name.startswith("<b>x</b> yyy") and len(entry.name) == 80
    assert entry.tags[0] == "[2J<i>" and len(entry.tags[1]) == 24
    assert entry.domain == ""


def test_a_hostile_prompt_and_pair_are_listed_as_one_line(library: Library) -> None:
    trace = with_header(make_trace(cycles=1), prompt="a\n\u202eb" + "c" * 999, pair="<img>\x07")
    entry = library.save(trace, "n")
    assert entry.prompt.startswith("a bccc") and len(entry.prompt) == 200
    assert entry.pair == "<img>"


@pytest.mark.parametrize("name", ["", " \n\t", "\u202e\u200b", "\x00"])
def test_a_name_that_nobody_sees_is_refused(library: Library, name: str) -> None:
    with pytest.raises(LibraryError, match="visible character"):
        library.save(make_trace(cycles=1), name)
    assert names_in(library.folder) == []
    entry = library.save(make_trace(cycles=1), "seen")
    with pytest.raises(LibraryError, match="visible character"):
        library.rename(entry.id, name)
    assert library.entry(entry.id).name == "seen"


def test_delete_removes_the_trace_and_its_labels(library: Library) -> None:
    kept, gone = (library.save(make_trace(cycles=1), name) for name in ("kept", "gone"))
    library.delete(gone.id)
    assert names_in(library.folder) == [f"{kept.id}.json", f"{kept.id}.parquet"]
    for attempt in (library.open, library.read, library.entry, library.delete, library.stamp):
        with pytest.raises(LibraryError, match="has no trace"):
            attempt(gone.id)


@pytest.mark.parametrize(
    "trace_id",
    [
        "",
        "..",
        "../own/x",
        "/etc/passwd",
        "shipped-../own/x",
        "a.parquet",
        "A",
        "x\x00",
        "é",
        "a" * 65,
    ],
)
def test_an_id_names_nothing_outside_the_library(library: Library, trace_id: str) -> None:
    library.save(make_trace(cycles=1), "x")
    for attempt in (library.open, library.read, library.entry, library.delete):
        with pytest.raises(LibraryError, match="has no trace"):
            attempt(trace_id)


@pytest.mark.parametrize("writes", [0, 1])
def test_a_full_disk_is_said_and_nothing_is_left(
    library: Library, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    flush = files.flush
    flushed: list[Path] = []

    def full(path: Path) -> None:
        flushed.append(path)
        if len(flushed) > writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(path)

    monkeypatch.setattr(files, "flush", full)
    with pytest.raises(LibraryError, match="No space left on device"):
        library.save(make_trace(cycles=1), "n")
    assert names_in(library.folder) == []


def test_a_full_library_takes_no_more(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.save(make_trace(cycles=1), "one")
    before = names_in(library.folder)
    for limit in ("MAX_TRACES", "MAX_FOLDER_BYTES"):
        with monkeypatch.context() as smaller:
            smaller.setattr(store, limit, 1)
            with pytest.raises(LibraryError, match="the library is full: 1 traces"):
                library.save(make_trace(cycles=1), "two")
    assert names_in(library.folder) == before


def test_a_run_that_is_no_trace_is_not_kept(library: Library) -> None:
    with pytest.raises(LibraryError, match="no trace that can be kept: unknown rule"):
        library.save(with_header(make_trace(cycles=1), rule="new"), "n")
    assert names_in(library.folder) == []
