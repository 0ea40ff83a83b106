"""Files are whole or not there, whoever else writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from eagle3_viz.files import alone_in, tensors_written, write_atomically
from eagle3_viz.text_lines import DataError

ROOT = Path(__file__).resolve().parent.parent
WRITER = """
import sys
from pathlib import Path
from eagle3_viz.files import write_atomically
for _ in range(200):
    write_atomically(Path(sys.argv[1]), sys.argv[2].encode() * 5000)
"""


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for content in (b"first", b"", b"second"):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space") as failed:
        write_atomically(path, b"new")
    assert failed.value.filename == str(path)  # and not the temporary file beside it
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_job_that_came_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for folder in (there, tmp_path / "new"):
        with pytest.raises(ValueError, match="failed"), alone_in(folder):
            raise ValueError("failed")
    assert list(tmp_path.rglob("*")) == [there]


def test_a_folder_is_one_jobs_even_after_another_came_to_nothing(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        (tmp_path / "result").touch()
        with pytest.raises(DataError, match="another process is writing"), alone_in(tmp_path):
            pass
    assert (tmp_path / "result").exists()


def test_processes_that_write_one_file_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, letter], cwd=ROOT) for letter in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert path.read_bytes() in (b"a" * 5000, b"b" * 5000)


def test_tensors_that_the_disk_refuses_are_an_os_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "weights.safetensors"  # as a full disk, an error of safetensors'
    with (
        pytest.raises(OSError, match=r"weights\.safetensors cannot be written: .*os error 2"),
        tensors_written(path),
    ):
        save_file({"a": torch.zeros(1)}, path)
