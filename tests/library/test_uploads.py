"""Files made to break the library: each is one clear sentence, and nothing is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eagle3_viz import trace_columns, trace_file, trace_json
from eagle3_viz.library import content, examine
from eagle3_viz.library.content import trace_in
from eagle3_viz.library.store import Library, LibraryError
from eagle3_viz.trace import FORMAT_VERSION
from eagle3_viz.trace_file import TraceFileError
from tests.altered_traces import put, rewritten, with_nodes
from tests.synthetic import make_trace

GOOD = trace_file.to_bytes(make_trace(cycles=3))
JSON = trace_json.dumps(make_trace(cycles=3))


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def table_of(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read()


def with_list(name: str, values: np.ndarray) -> bytes:
    """The good file with `values` as the first cycle's list in a column."""
    return with_lists({name: values})


def with_lists(lists: dict[str, np.ndarray]) -> bytes:
    table = table_of(GOOD)
    for name, values in lists.items():
        field = table.schema.field(name)
        rest = table[name].combine_chunks().slice(1)
        first = pa.ListArray.from_arrays(
            pa.array([0, len(values)], pa.int32()),
            pa.array(values, field.type.value_type),
            field.type,
        )
        at = table.schema.get_field_index(name)
        table = table.set_column(at, field, pa.concat_arrays([first, rest]))
    return rewritten(GOOD, table=table)


def a_million_nodes() -> bytes:
    """One cycle with a chain of a million nodes."""
    size = 10**6
    columns: dict[str, np.ndarray] = {}
    for name, kind in trace_columns.NODE_TYPES.items():
        columns[f"node_{name}"] = np.zeros(size, kind.to_pandas_dtype())
    columns["node_parent"] = np.arange(-1, size - 1, dtype=np.int32)
    columns["node_depth"] = np.arange(size, dtype=np.int32)
    return with_lists(columns)


def unchecked(change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> bytes:
    with monkeypatch.context() as without:
        without.setattr(trace_file.trace_check, "check", lambda _: None)
        return trace_file.to_bytes(change(make_trace(cycles=3)))


def cast(name: str, kind: pa.DataType) -> bytes:
    table = table_of(GOOD)
    at = table.schema.get_field_index(name)
    field = pa.field(name, kind, nullable=table.schema.field(name).nullable)
    return rewritten(GOOD, table=table.set_column(at, field, table[name].cast(kind)))


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "the file is empty"),
    "truncated": (lambda: GOOD[:-20], "truncated"),
    "end missing": (lambda: GOOD[: len(GOOD) // 2], "truncated"),
    "a picture renamed": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(999), "expected a Parquet file"),
    "a text renamed": (lambda: b"name,tokens\nx,1\n", "expected a Parquet file"),
    "other program's Parquet": (
        lambda: parquet(pa.table({"x": [1, 2]})),
        "found one of something else with 1 columns",
    ),
    "zeros": (lambda: bytes(10**6), "expected a Parquet file"),
    "zeros between magic bytes": (lambda: b"PAR1" + bytes(10**6) + b"PAR1", "damaged"),
    "newer version": (
        lambda: rewritten(GOOD, metadata={b"format_version": b"99"}),
        f"expected trace format version {FORMAT_VERSION}, found b'99'",
    ),
    "wrong dtype": (lambda: cast("root", pa.float64()), "column 'root': expected int32"),
    "wrong dtype in a list": (
        lambda: cast("tokens", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        "column 'tokens': expected list",
    ),
    "a million nodes": (a_million_nodes, "cycle 0: 1,000,000 entries in node_token"),
    "a million candidates": (
        lambda: with_list("pool_token", np.zeros(10**6, np.int32)),
        "1,000,000 entries in pool_token, at most 262,208 are allowed",
    ),
    "a million draws": (
        lambda: with_list("draws", np.zeros(10**6)),
        "1,000,000 entries in draws, at most 2,048 are allowed",
    ),
    "JSON truncated": (lambda: JSON[:-9], "truncated or was altered"),
    "JSON of something else": (lambda: b'{"a": 1}', "expected a JSON object of format"),
    "JSON of a newer version": (
        lambda: altered(format_version=FORMAT_VERSION + 1),
        f"expected trace format version {FORMAT_VERSION}, found '{FORMAT_VERSION + 1}'",
    ),
    "JSON nested deeply": (lambda: b'{"format": ' + b"[" * 10**5, "nested too deeply"),
    "JSON that is no UTF-8": (lambda: b'{"\xff": 1}', "not UTF-8"),
    "JSON with NaN": (lambda: b'{"format": NaN}', "holds NaN, which is no JSON"),
    "JSON with half a character": (
        lambda: JSON.replace(b'"made-up"', rb'"\ud800"'),
        "half a surrogate pair",
    ),
    "JSON with a text for a number": (
        lambda: altered_cycle(root="1"),
        "cycle 0, column 'root': expected int32, found the text '1'",
    ),
    "JSON with a large number": (
        lambda: altered_cycle(root=2**31),
        "column 'root': expected int32, found the number",
    ),
    "JSON with a null": (lambda: altered_cycle(root=None), "column 'root': expected int32"),
    "JSON with an infinite time": (
        lambda: altered_cycle(tree_ms=math.inf).replace(b"Infinity", b"1e999"),
        "a timing is negative or not finite",
    ),
    "JSON without a column": (lambda: altered_cycle(root=...), "missing or unexpected are"),
    "JSON of empty lists": (
        lambda: b'{"cycles": [' + b"[]," * 9_000_000 + b"[]]}",
        "at most 8,000,000 are read",
    ),
}


def altered(**members: Any) -> bytes:
    return json.dumps({**json.loads(JSON), **members}).encode()


def altered_cycle(**columns: Any) -> bytes:
    """The JSON file with columns of its first cycle changed; ... takes one out."""
    document = json.loads(JSON)
    first = {**document["cycles"][0], **columns}
    document["cycles"][0] = {name: value for name, value in first.items() if value is not ...}
    return json.dumps(document).encode()


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_trace_is_refused_in_one_sentence(case: str) -> None:
    make, match = FILES[case]
    with pytest.raises(TraceFileError, match=match) as refused:
        trace_in(make())
    sentence = str(refused.value)
    assert len(sentence) < 600 and sentence.isprintable()


BROKEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "negative parent": (lambda t: with_nodes(t, parent=put(2, -7)), "parent is out of order"),
    "a circle in the tree": (lambda t: with_nodes(t, parent=put(1, 1)), "parent is out of order"),
    "NaN probability": (lambda t: with_nodes(t, p_raw=put(1, math.nan)), "p_raw is NaN"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_tree_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    change, match = BROKEN[case]
    data = unchecked(change, monkeypatch)
    library = Library(tmp_path / "own")
    with pytest.raises(LibraryError, match=match):
        library.add(data, "hostile")
    assert not library.folder.exists()


def test_what_a_file_says_of_itself_cannot_steer_the_sentence_about_it(tmp_path: Path) -> None:
    hostile = json.loads(JSON)
    hostile["provenance"]["header"]["versions"] = {"\u202e\x1b[2J<b>" + "x" * 900: 1}
    with pytest.raises(LibraryError, match=r"header\.versions\.\[2J<b>xxx") as refused:
        Library(tmp_path / "own").add(json.dumps(hostile).encode(), "hostile")
    assert len(str(refused.value)) <= 500 and str(refused.value).isprintable()


def test_a_gigabyte_of_zeros_is_refused_by_its_size(tmp_path: Path) -> None:
    library = Library(tmp_path / "own")
    with pytest.raises(LibraryError, match="the file has 1024 MB, a trace in the library at most"):
        library.add(bytes(2**30), "zeros")
    assert not library.folder.exists()


def test_a_few_bytes_that_unpack_into_more_memory_than_there_is_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = with_list("draws", np.zeros(2**24))
    assert len(bomb) < 100_000
    monkeypatch.setattr(examine, "MEMORY_BYTES", 2**27)
    library = Library(tmp_path / "own")
    with pytest.raises(LibraryError, match="unpacks into more memory than there is"):
        library.add(bomb, "bomb")
    assert not library.folder.exists()


def test_a_file_that_kills_its_reader_is_refused_and_the_server_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examine.sys, "executable", "/bin/false")
    with pytest.raises(TraceFileError, match="stops its reader"):
        examine.examine(GOOD)


def test_a_file_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "SECONDS", 0.001)
    with pytest.raises(TraceFileError, match="takes longer than"):
        examine.examine(GOOD)


def test_a_trace_passes_and_its_refusal_comes_back_from_the_other_process() -> None:
    examine.examine(GOOD)
    with pytest.raises(TraceFileError, match=r"^expected a Parquet file, found 5 bytes"):
        examine.examine(b"hello")


def test_json_is_recognised_by_its_content() -> None:
    assert content.is_json(b' \n{"format": 1}') and not content.is_json(GOOD)
    assert not content.is_json(b"") and not content.is_json(b"[1]")
