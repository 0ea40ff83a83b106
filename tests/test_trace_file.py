"""A trace survives its file exactly, and no file survives that is not a trace."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import stat
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eagle3_viz import trace_columns, trace_file
from eagle3_viz.config import RULES, TreeShape
from eagle3_viz.records import Cycle, Nodes
from eagle3_viz.trace import FORMAT_VERSION, Trace
from eagle3_viz.trace_file import TraceFileError, from_bytes, load, save, to_bytes
from tests.altered_traces import rewritten, with_nodes
from tests.synthetic import make_trace


def differences(a: Any, b: Any, where: str = "trace") -> list[str]:
    """Where two records differ in type, dtype or value; NaN equals NaN."""
    if type(a) is not type(b):
        return [f"{where}: {type(a)} and {type(b)}"]
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return [] if same else [f"{where}: {a} and {b}"]
    if is_dataclass(a):
        return [
            line
            for f in fields(a)
            for line in differences(getattr(a, f.name), getattr(b, f.name), f"{where}.{f.name}")
        ]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [f"{where}: lengths {len(a)} and {len(b)}"]
        return [
            line
            for i, (x, y) in enumerate(zip(a, b, strict=True))
            for line in differences(x, y, f"{where}[{i}]")
        ]
    same = a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))
    return [] if same else [f"{where}: {a!r} and {b!r}"]


@pytest.mark.parametrize("record", ["full", "outcomes", "off"])
@pytest.mark.parametrize("rule", RULES)
def test_a_trace_comes_back_exactly(tmp_path: Path, rule: Any, record: Any) -> None:
    path = tmp_path / "run.parquet"
    for seed, finish in enumerate(("length", "eos", "context", "stop", None)):
        shape = TreeShape(4 + 5 * seed, 2, 3) if seed < 4 else TreeShape(10, 3, 4)
        trace = make_trace(seed=seed, rule=rule, record=record, finish=finish, shape=shape)
        save(trace, path)
        assert differences(trace, load(path)) == []


@pytest.mark.parametrize("cycles", [0, 1])
def test_the_shortest_traces_come_back_exactly(cycles: int) -> None:
    trace = make_trace(cycles=cycles, method="ar", finish="length")
    assert differences(trace, from_bytes(to_bytes(trace))) == []


def test_a_trace_that_never_reached_prefill_comes_back() -> None:
    made = make_trace(cycles=0)
    trace = Trace(made.header, token_bytes=made.token_bytes)
    assert differences(trace, from_bytes(to_bytes(trace))) == []


def test_the_file_is_plain_parquet_with_a_row_a_cycle(tmp_path: Path) -> None:
    trace = make_trace()
    save(trace, tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    assert table.column("index").to_pylist() == [c.index for c in trace.cycles]
    assert table.column("tokens").to_pylist() == [list(c.tokens) for c in trace.cycles]
    assert pq.read_metadata(tmp_path / "run.parquet").row_group(0).column(0).compression == "ZSTD"


def test_record_fields_and_columns_are_the_same_set() -> None:
    """A field added to a record without its column would be lost silently."""
    assert [f.name for f in fields(Nodes)] == list(trace_columns.NODE_TYPES)
    timing = {"draft_levels_ms", "tree_ms", "verify_ms", "accept_ms", "commit_ms", "record_ms"}
    plain = {n for n in trace_columns.SCHEMA.names if not n.startswith(("node_", "pool_"))}
    assert plain - timing == {f.name for f in fields(Cycle)} - {"timing", "nodes", "pool"}


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_failed_save_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], fails: str
) -> None:
    path = tmp_path / "run.parquet"
    save(make_trace(seed=1), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(
        *((trace_file.os, "fsync") if fails == "fsync" else (Path, "replace")), fail
    )
    with pytest.raises(error):
        save(make_trace(seed=2), path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.parquet"]
    assert path.read_bytes() == before


def test_saving_replaces_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    save(make_trace(seed=1), path)
    save(make_trace(seed=2), path)
    assert load(path).header.seed == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_saving_through_a_link_writes_the_file_it_names_and_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    link, target = tmp_path / "latest.parquet", tmp_path / "runs" / "a.parquet"
    link.symlink_to(Path("runs") / "a.parquet")
    for seed in (1, 2):  # the target does not exist yet, then it does
        save(make_trace(seed=seed), link)
        assert link.is_symlink()
        assert load(target).header.seed == seed


@pytest.mark.parametrize("linked", [False, True])
def test_saving_over_what_is_no_regular_file_is_refused_and_leaves_it(
    tmp_path: Path, linked: bool
) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match=r"regular file.*'.*link'" if linked else "regular file"):
        save(make_trace(), link if linked else pipe)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_link_to_itself_is_refused_and_stays(tmp_path: Path) -> None:
    (link := tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="regular file"):
        save(make_trace(), link)
    assert link.is_symlink()


def test_a_write_that_fails_names_the_path_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trace_file.os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as failed:
        save(make_trace(), tmp_path / "run.parquet")
    assert failed.value.filename == str(tmp_path / "run.parquet")


def refused(data: bytes, match: str) -> None:
    with pytest.raises(TraceFileError, match=match):
        from_bytes(data)


def test_a_rewritten_file_without_changes_loads() -> None:
    trace = make_trace()
    assert differences(trace, from_bytes(rewritten(to_bytes(trace)))) == []


@pytest.mark.parametrize("data", [b"", b"PA", b"hello, world", b"\x89PNG\r\n\x1a\n" * 9])
def test_another_kind_of_file_is_refused(data: bytes) -> None:
    refused(data, "expected a Parquet file")


def test_a_parquet_file_of_something_else_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1, 2]}), sink)
    refused(sink.getvalue().to_pybytes(), "found one of something else with 1 columns")


def test_a_newer_version_is_refused_with_both_versions() -> None:
    newer = str(FORMAT_VERSION + 1).encode()
    data = rewritten(to_bytes(make_trace()), metadata={b"format_version": newer})
    refused(data, f"expected trace format version {FORMAT_VERSION}, found b'{FORMAT_VERSION + 1}'")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(share: float) -> None:
    data = to_bytes(make_trace())
    refused(data[: int(len(data) * share)], "truncated")


def test_a_wrong_column_type_is_refused() -> None:
    data = to_bytes(make_trace())
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    at = table.schema.get_field_index("root")
    other = pa.field("root", pa.float64(), nullable=False)
    refused(
        rewritten(data, table=table.set_column(at, other, table["root"].cast(pa.float64()))),
        "column 'root': expected int32, found double",
    )


def test_a_nullable_column_is_refused_where_nulls_have_no_meaning() -> None:
    data = to_bytes(make_trace())
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    at = table.schema.get_field_index("root")
    nulls = pa.array([None] * len(table), pa.int32())
    refused(
        rewritten(data, table=table.set_column(at, pa.field("root", pa.int32()), nulls)),
        "column 'root': .*nullability",
    )


def test_a_missing_column_is_refused_by_name() -> None:
    data = to_bytes(make_trace())
    table = pq.ParquetFile(pa.BufferReader(data)).read().drop_columns(["miss"])
    refused(rewritten(data, table=table), "'miss'")


def test_node_arrays_of_different_length_are_refused() -> None:
    data = to_bytes(make_trace())
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    at = table.schema.get_field_index("node_p")
    rows = [row[:-1] for row in table["node_p"].to_pylist()]
    field = table.schema.field("node_p")
    refused(
        rewritten(data, table=table.set_column(at, field, pa.array(rows, field.type))),
        "row 0: the node_. columns must have one length",
    )


@pytest.mark.parametrize(
    "limit",
    ["MAX_FILE_BYTES", "MAX_CYCLES", "MAX_UNPACKED_BYTES", "MAX_METADATA_BYTES"],
)
def test_sizes_beyond_the_limits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    save(make_trace(), tmp_path / "run.parquet")
    monkeypatch.setattr(trace_file, limit, 11)
    with pytest.raises(TraceFileError, match=r"allowed|at most"):
        load(tmp_path / "run.parquet")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="No such file"):
        load(tmp_path / "absent.parquet")
    with pytest.raises(TraceFileError, match="not a regular file"):
        load(tmp_path)


def provenance(data: bytes) -> dict[str, Any]:
    return json.loads(pq.ParquetFile(pa.BufferReader(data)).metadata.metadata[b"provenance"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda p: p.pop("prefill"), "provenance: expected the fields"),
        (lambda p: p["header"].pop("seed"), "header: expected the fields"),
        (lambda p: p["header"].update(more=1), "header: expected the fields"),
        (lambda p: p["header"].update(seed="0"), "header.seed: expected a whole number, found"),
        (lambda p: p["header"].update(threads=True), "header.threads"),
        (lambda p: p["header"].update(prompt_ids=[0, "1"]), r"header.prompt_ids\[1\]"),
        (lambda p: p["header"]["target"].update(name=None), "header.target.name"),
        (lambda p: p["header"]["versions"].update(torch=2), "header.versions.torch"),
        (lambda p: p["prefill"].update(finish="tired"), "prefill.finish"),
        (lambda p: p["token_bytes"].update({"1": "?"}), "token_bytes"),
        (lambda p: p["token_bytes"].update(one="eA=="), "token_bytes"),
        (lambda p: p["token_bytes"].clear(), "token_bytes lacks the token ids"),
    ],
)
def test_altered_provenance_is_refused_by_field(
    change: Callable[[dict[str, Any]], object], match: str
) -> None:
    data = to_bytes(make_trace())
    changed = provenance(data)
    change(changed)
    refused(rewritten(data, metadata={b"provenance": json.dumps(changed).encode()}), match)


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b"\xff", b"null", b"9" * 9_000])
def test_provenance_that_is_no_json_object_is_refused(text: bytes) -> None:
    refused(rewritten(to_bytes(make_trace()), metadata={b"provenance": text}), "damaged or was")


def test_an_array_of_another_dtype_is_not_saved() -> None:
    trace = with_nodes(make_trace(), p=lambda p: p.astype(np.float64))
    with pytest.raises(ValueError, match="column 'node_p': expected one-dimensional float32"):
        to_bytes(trace)


@pytest.mark.parametrize("record", ["full", "off"])
def test_damaged_bytes_load_or_are_refused_and_nothing_else(record: Any) -> None:
    data = to_bytes(make_trace(cycles=4, record=record))
    rng = random.Random(0)
    refusals = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 4, 32))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            start = rng.randrange(len(damaged))
            del damaged[start : start + rng.randrange(64)]
        try:
            from_bytes(bytes(damaged))
        except TraceFileError:
            refusals += 1
    assert refusals > 100
