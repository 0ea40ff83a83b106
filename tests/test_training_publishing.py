"""A published folder is whole: the old one or the new one, whatever happens in between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eagle3_viz.training.publishing import PROVENANCE, PublishError, published

ROOT = Path(__file__).resolve().parent.parent


def publish(folder: Path, text: str, *, overwrite: bool = False) -> None:
    with published(folder, overwrite=overwrite) as partial:
        (partial / PROVENANCE).write_text(text)


def content(folder: Path) -> str:
    return (folder / PROVENANCE).read_text()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_the_block_ends_and_not_before(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "draft"
    with published(folder, overwrite=False) as partial:
        (partial / PROVENANCE).write_text("first")
        assert not folder.exists()
    assert content(folder) == "first"
    assert names(folder.parent) == ["draft"]


def test_a_block_that_fails_leaves_nothing_or_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    for expected in ([], ["draft"]):
        with (
            pytest.raises(KeyboardInterrupt),
            published(folder, overwrite=True) as partial,
        ):
            (partial / PROVENANCE).write_text("broken")
            raise KeyboardInterrupt
        assert names(tmp_path) == expected
        if not expected:
            publish(folder, "old")
    assert content(folder) == "old"


def test_a_draft_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    publish(folder, "old")
    with pytest.raises(PublishError, match="draft holds a draft already"):
        publish(folder, "new")
    assert content(folder) == "old"
    publish(folder, "new", overwrite=True)
    assert content(folder) == "new"
    assert names(tmp_path) == ["draft"]


@pytest.mark.parametrize("kind", ["file", "empty", "photographs", "folders"])
def test_what_is_no_published_draft_is_never_replaced(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
    if kind == "photographs":
        (place / "holiday.jpeg").write_text("mine")
    if kind == "folders":
        (place / "holiday").mkdir()
        (place / PROVENANCE).write_text("mine")
    with pytest.raises(PublishError, match="not a draft that was exported here"):
        publish(place, "new", overwrite=True)
    assert names(tmp_path) == ["place"]


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
def test_a_renaming_that_fails_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, error: BaseException
) -> None:
    folder = tmp_path / "draft"
    publish(folder, "old")
    rename, calls = Path.rename, []

    def fail_once(self: Path, other: Path) -> Path:
        calls.append(other)
        if len(calls) == failing:
            raise error
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(type(error)):
        publish(folder, "new", overwrite=True)
    assert len(calls) >= failing
    assert content(folder) == "old"
    assert names(tmp_path) == ["draft"]


DIE_AT_RENAMING = """
import os, sys
from pathlib import Path
from eagle3_viz.training.publishing import PROVENANCE, published
folder, fatal, calls, rename = Path(sys.argv[1]), int(sys.argv[2]), [], Path.rename
def die(self, other):
    calls.append(other)
    if len(calls) == fatal:
        os._exit(9)
    return rename(self, other)
Path.rename = die
with published(folder, overwrite=True) as partial:
    (partial / PROVENANCE).write_text("new")
    if not fatal:
        os._exit(9)
"""


@pytest.mark.parametrize("fatal", [0, 1, 2])
def test_after_a_sudden_death_the_next_call_finds_the_old_folder(
    tmp_path: Path, fatal: int
) -> None:
    folder = tmp_path / "draft"
    publish(folder, "old")
    command = [sys.executable, "-c", DIE_AT_RENAMING, str(folder), str(fatal)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment).returncode == 9
    with pytest.raises(PublishError, match="holds a draft already"):
        publish(folder, "newer")
    assert content(folder) == "old"
    publish(folder, "newer", overwrite=True)
    assert content(folder) == "newer"
    assert names(tmp_path) == ["draft"]
