"""Where results are to go is looked at before anything is loaded, by every command that writes."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.cli.main import main
from eagle3_viz.training.conversations import Conversation, to_line

FILES = {
    "decode": ["decode", "hello", "--trace"],
    "profile": ["profile", "--chrome"],
    "sampling": ["lossless", "sampling", "--csv"],
    "greedy": ["lossless", "greedy", "--csv"],
    "export": ["export", "no-trace.parquet", "--csv", "--out"],
}
FOLDERS = {
    "suite": ["suite", "--out"],
    "data": ["train", "data", "--out"],
    "draft": ["train", "draft", "--data", "text.jsonl", "--out"],
    "independent": ["train", "independent", "--data", "text.jsonl", "--out"],
    "features": ["train", "draft", "--data", "text.jsonl", "--out", "run", "--features"],
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a file, a folder that is closed, and text to train on."""
    monkeypatch.chdir(tmp_path)
    for loading in ("pair_loading.load_pair", "export.trace_at", "suite_tables.read_results"):
        monkeypatch.setattr(f"eagle3_viz.cli.{loading}", lambda *_, **__: pytest.fail("loaded"))
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    (tmp_path / "text.jsonl").write_text(to_line(Conversation((1, 2, 3), 1)))
    real = tempfile.TemporaryFile

    def refused(*, dir: Path) -> Any:  # root may write where others may not
        if dir.name == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(dir=dir)

    monkeypatch.setattr("eagle3_viz.cli.new_file.tempfile.TemporaryFile", refused)
    return tmp_path


def refused(argv: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that fails at once and leaves everything as it was."""
    before = sorted(place.rglob("*"))
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert sorted(place.rglob("*")) == before
    return error


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_not_begun_where_it_could_not_be_written(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = FILES[name][-1]
    closed = refused([*FILES[name], "closed/out"], place, capsys)
    assert f"the folder of {option} closed/out cannot be written to (Permission denied)" in closed
    assert "does not exist" in refused([*FILES[name], "gone/out"], place, capsys)
    assert f"{option} file exists already" in refused([*FILES[name], "file"], place, capsys)
    assert "closed is a folder" in refused([*FILES[name], "closed"], place, capsys)


@pytest.mark.parametrize("name", ["run.txt", "run", "run.json", "run.parquet.gz"])
def test_a_trace_is_not_written_under_a_name_that_promises_something_else(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(["decode", "hello", "--trace", name], place, capsys)
    assert f"--trace {name} must end in .parquet" in error


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_not_begun_where_it_could_not_be_written(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = FOLDERS[name][-1]
    for path in ("closed", "closed/new/er"):
        error = refused([*FOLDERS[name], path], place, capsys)
        assert f"{option} {path} cannot be written to (Permission denied)" in error
    assert f"{option} needs a folder" in refused([*FOLDERS[name], "file"], place, capsys)
    error = refused([*FOLDERS[name], "file/new"], place, capsys)
    assert f"{option} file/new cannot be made" in error and "is a file" in error


def test_the_table_of_a_closed_folder_is_refused_before_its_traces_are_read(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot be written to" in refused(["suite", "table", "closed"], place, capsys)


def test_draws_that_could_not_be_kept_are_told_before_any_is_made(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "out.csv.draws").mkdir()
    error = refused(["lossless", "sampling", "--csv", "out.csv"], place, capsys)
    assert "out.csv.draws is a folder" in error
