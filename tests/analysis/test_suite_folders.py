"""Which folders are suites."""

from __future__ import annotations

from pathlib import Path

from eagle3_viz.analysis.suite_folders import suites_in, traces_stamp
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.suite.plan import settings_of
from tests.suite_folder import Run, write_suite

SETTINGS = settings_of(["ar", "eagle3"])
SETS = (PromptSet("p", (Prompt("0", "code", ("x",)),)),)


def write(folder: Path) -> None:
    runs = {("p", "0", 1, setting): Run([1], [False], [1] * 5) for setting in SETTINGS}
    write_suite(folder, SETS, SETTINGS, runs)


def test_suites_are_the_folders_with_a_manifest_and_have_names_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "mine" / "first")
    write(tmp_path / "shipped" / "first")
    write(tmp_path / "shipped" / "other")
    (tmp_path / "mine" / "pictures").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("no suite")
    found = suites_in([tmp_path / "mine", tmp_path / "shipped", tmp_path / "nowhere"])
    assert [(suite.id, suite.path.parent.name) for suite in found] == [
        ("first", "mine"),
        ("first (2)", "shipped"),
        ("other", "shipped"),
    ]


def test_a_suite_that_went_on_has_another_stamp(tmp_path: Path) -> None:
    write(tmp_path)
    before = traces_stamp(tmp_path)
    assert traces_stamp(tmp_path) == before
    (tmp_path / "traces" / "p" / "1.1.eagle3.parquet").write_bytes(b"")
    assert traces_stamp(tmp_path) != before
