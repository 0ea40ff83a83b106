"""`export` on the command line: what it writes, where, and how it refuses."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from eagle3_viz import trace_json
from eagle3_viz.cli.main import main
from eagle3_viz.export import cycles_csv, graphml, html_file, markdown_summary, nodes_csv
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import save
from tests.fake_terminal import Terminal
from tests.synthetic import make_trace

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def trace() -> Trace:
    return make_trace(cycles=4, rule="topk")


@pytest.fixture
def saved(trace: Trace, tmp_path: Path) -> Path:
    path = tmp_path / "my run.parquet"
    save(trace, path)
    return path


def expected(trace: Trace, options: list[str]) -> bytes:
    forms = {
        "--csv": lambda: cycles_csv(trace).encode(),
        "--nodes": lambda: nodes_csv(trace).encode(),
        "--markdown": lambda: markdown_summary(trace, "my run").encode(),
        "--html": lambda: html_file(trace, name="my run").encode(),
        "--graphml": lambda: graphml(trace, 1),
    }
    return forms[options[0]]()


FORMS = (["--csv"], ["--nodes"], ["--markdown"], ["--html"], ["--graphml", "2"])


@pytest.mark.parametrize("options", FORMS)
def test_each_form_goes_to_a_file_and_leaves_nothing_beside_it(
    options: list[str], trace: Trace, saved: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "export.x"
    out.parent.mkdir()
    assert main(["export", str(saved), *options, "--out", str(out)]) == 0
    assert out.read_bytes() == expected(trace, options)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("options", FORMS)
def test_a_trace_in_json_gives_what_its_parquet_file_gives(
    options: list[str], trace: Trace, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "my run.json"
    path.write_bytes(trace_json.dumps(trace))
    assert main(["export", str(path), *options]) == 0
    assert capsysbinary.readouterr().out == expected(trace, options)


@pytest.mark.parametrize("dash", [[], ["--out", "-"]])
@pytest.mark.parametrize("options", FORMS)
def test_without_a_file_the_bytes_go_to_standard_output(
    options: list[str],
    dash: list[str],
    trace: Trace,
    saved: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["export", str(saved), *options, *dash]) == 0
    shown = capsysbinary.readouterr()
    assert shown.out == expected(trace, options)
    assert shown.err == b""


def test_an_encoding_too_narrow_for_the_text_changes_nothing(trace: Trace, saved: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eagle3_viz", "export", str(saved), "--csv"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == cycles_csv(trace).encode()
    assert not done.stdout.isascii()


def test_a_web_page_is_not_poured_onto_a_terminal(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["export", str(saved), "--html"]) == 1
    assert terminal.getvalue() == ""
    assert "name a file with --out" in capsys.readouterr().err


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", *argv]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize("number", ["5", "99999"])
def test_a_cycle_the_trace_does_not_have_is_refused(
    number: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused([str(saved), "--graphml", number], capsys)
    assert f"--graphml {number}: the trace has 4 cycles" in error


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5"])
def test_a_number_that_names_no_cycle_is_a_usage_error(
    number: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(saved), "--graphml", number])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("options", [[], ["--csv", "--nodes"], ["--html", "--graphml", "1"]])
def test_exactly_one_form_is_asked_for(
    options: list[str], saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(saved), *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("form", ["--csv", "--html"])
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no trace at all", "expected a Parquet file"),
        (b"", "the file is empty"),
        (b'{"format": "eagle3_viz trace"', "the JSON file is truncated or was altered"),
        (b'{"format": "of another program"}', "expected a JSON object of format"),
    ],
)
def test_what_is_no_trace_is_refused_and_nothing_written(
    form: str, content: bytes, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    out = tmp_path / "out"
    error = refused([str(tmp_path / "a.parquet"), form, "--out", str(out)], capsys)
    assert complaint in error
    assert not out.exists()


def test_trees_that_were_not_recorded_are_told_for_nodes_and_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(make_trace(cycles=3, record="off"), tmp_path / "a.parquet")
    for options in (["--nodes"], ["--graphml", "1"]):
        error = refused([str(tmp_path / "a.parquet"), *options], capsys)
        assert "recorded with record off" in error


def test_a_file_that_exists_is_left_alone(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = saved.read_bytes()
    error = refused([str(saved), "--csv", "--out", str(saved)], capsys)
    assert "exists already" in error
    assert saved.read_bytes() == before


def test_a_dangling_link_is_not_written_through(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert "exists already" in refused([str(saved), "--csv", "--out", str(link)], capsys)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_does_not_exist_is_told_before_the_trace_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "no" / "a.csv"
    error = refused([str(tmp_path / "missing.parquet"), "--csv", "--out", str(out)], capsys)
    assert "does not exist: create it first" in error


def test_a_disk_that_refuses_leaves_no_half_of_a_file(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "a.csv"
    out.parent.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "eagle3_viz", "export", str(saved), "--csv", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 1
    assert done.stderr == f"error: --out {out} could not be written: File too large\n"
    assert list(out.parent.iterdir()) == []
