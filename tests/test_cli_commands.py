"""`fetch`, `pairs` and `show` on the command line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz import trace_json
from eagle3_viz.cli.main import main
from eagle3_viz.embedded import PairError
from eagle3_viz.pair_specs import KNOWN_PAIRS
from eagle3_viz.run import with_baseline
from eagle3_viz.trace_file import save
from tests.synthetic import make_trace

ROOT = Path(__file__).resolve().parent.parent


def test_fetch_reports_its_stages_as_lines_and_says_where_the_target_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ensure(progress: Callable[[str, int, int], None]) -> Path:
        for done in range(0, 90_000_001, 1_000_000):
            progress("Downloading", done, 90_000_000)
        progress("Checking", 0, 1)
        return Path("the-cache")

    monkeypatch.setattr("eagle3_viz.cli.fetch.ensure_embedded", ensure)
    assert main(["fetch"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "The embedded target is ready: the-cache\n"
    lines = shown.err.splitlines()
    assert len(lines) == 12
    assert lines[0] == "Downloading"
    assert lines[5] == "Downloading: 50 % (45 of 90 MB)"
    assert lines[-1] == "Checking"


def test_a_fetch_that_fails_is_the_pairs_own_sentence_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ensure(progress: object) -> Path:
        raise PairError("The disk is full: free some space.")

    monkeypatch.setattr("eagle3_viz.cli.fetch.ensure_embedded", ensure)
    assert main(["fetch"]) == 1
    assert capsys.readouterr().err == "error: The disk is full: free some space.\n"


def test_pairs_says_for_each_what_it_takes_and_whether_it_was_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eagle3_viz.cli.listing.is_local", lambda spec: spec is KNOWN_PAIRS[0])
    assert main(["pairs"]) == 0
    _, *entries = capsys.readouterr().out.split("\n\n")
    assert len(entries) == len(KNOWN_PAIRS)
    for entry, spec in zip(entries, KNOWN_PAIRS, strict=True):
        name, *rest = entry.splitlines()[0].split()
        assert (name, rest[-1]) == (spec.name, "yes" if spec is KNOWN_PAIRS[0] else "no")
        assert ("Not tried here" in entry) is not spec.tried
        assert spec.target in entry
        drafts = [line.split()[1] for line in entry.splitlines() if line.startswith("  draft ")]
        assert drafts == list(spec.drafts)
        assert all(len(line) <= 80 for line in entry.splitlines())


def test_show_tells_where_a_trace_comes_from_without_obeying_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = make_trace(cycles=5)
    trace.header = replace(trace.header, prompt="\x1b[31mred\u202e", pair="a\nb")
    save(trace, tmp_path / "a.parquet")
    assert main(["show", str(tmp_path / "a.parquet")]) == 0
    out = capsys.readouterr().out
    assert "␛[31mred⟨U+202E⟩" in out
    assert "a↵b" in out
    assert "\x1b" not in out
    assert trace.header.target.name in out
    assert "tokens per cycle" in out


def test_show_gives_the_speedup_over_the_baseline_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = make_trace(cycles=5)
    assert trace.header.baseline is not None
    kept = sum(len(cycle.tokens) for cycle in trace.cycles)
    each = sum(cycle.timing.total for cycle in trace.cycles) / kept
    with_baseline(trace, replace(trace.header.baseline, ms_per_token=3 * each))
    save(trace, tmp_path / "a.parquet")
    assert main(["show", str(tmp_path / "a.parquet")]) == 0
    assert "3.00x over autoregression" in capsys.readouterr().out


def test_show_says_of_a_trace_in_json_what_it_says_of_its_parquet_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = make_trace(cycles=5)
    save(trace, tmp_path / "a.parquet")
    (tmp_path / "a.json").write_bytes(trace_json.dumps(trace))
    assert main(["show", str(tmp_path / "a.parquet")]) == 0
    told = capsys.readouterr().out
    assert main(["show", str(tmp_path / "a.json")]) == 0
    assert capsys.readouterr().out == told


def damaged_json(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A trace in JSON with other values."""
    content = json.loads(trace_json.dumps(make_trace(cycles=2)))
    change(content)
    return json.dumps(content).encode()


PYTHON_WORDS = ("class '", "NoneType", "KeyError", "Traceback", "dict", "Error", "int()")


@pytest.mark.parametrize("command", [["show"], ["export", "--csv"]])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"no trace at all", "expected a Parquet file"),
        (b"PAR1PAR1", "its end is missing after 8 bytes"),
        (b'{"a": 1}', "expected a JSON object of format"),
        (b'[{"a": 1}]', "expected a Parquet file"),
        (
            damaged_json(lambda c: c["provenance"]["header"].update(seed="0")),
            "a whole number, found the text",
        ),
        (
            damaged_json(lambda c: c["provenance"]["header"].update(pair=None)),
            "expected text, found null",
        ),
        (
            damaged_json(lambda c: c["provenance"]["header"].update(versions=[])),
            "expected an object, found",
        ),
        (
            damaged_json(lambda c: c["provenance"]["header"].update(prompt_ids={})),
            "expected a list, found an",
        ),
        (
            damaged_json(lambda c: c["provenance"]["token_bytes"].update(x="eA==")),
            "base64 by token id",
        ),
        (damaged_json(lambda c: c["cycles"][0].update(root="1")), "found the text '1'"),
        (damaged_json(lambda c: c["cycles"][0].update(root=None)), "found null"),
        (damaged_json(lambda c: c["cycles"].append(None)), "has not the columns of a trace"),
    ],
)
def test_what_is_no_trace_is_one_sentence_with_the_name_of_the_file(
    command: list[str],
    content: bytes,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "a-run.parquet"
    path.write_bytes(content)
    assert main([command[0], str(path), *command[1:]]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: '{path}': ") and said in error
    assert error.count("\n") == 1
    assert not [word for word in PYTHON_WORDS if word in error.removeprefix(f"error: '{path}'")]


def test_a_reader_that_goes_away_ends_a_command_quietly(tmp_path: Path) -> None:
    save(make_trace(cycles=5), tmp_path / "a.parquet")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "eagle3_viz", "show", str(tmp_path / "a.parquet")]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["pairs", "show"])
def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, command: str) -> None:
    save(make_trace(cycles=5), tmp_path / "a.parquet")
    argv = [command, str(tmp_path / "a.parquet")] if command == "show" else [command]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "eagle3_viz", *argv],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot read or write: File too large; check the disk\n"


def test_show_names_a_missing_file_as_it_was_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{tmp_path}/no/../nope"
    assert main(["show", path]) == 1
    assert f"'{path}' cannot be read" in capsys.readouterr().err
