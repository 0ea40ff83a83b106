"""Draws of finished cases on the disk: nothing lost, nothing doubled, nothing of another check."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from eagle3_viz.config import Sampling
from eagle3_viz.lossless.kept import KeptTallies, Tally
from eagle3_viz.lossless.sampling_test import cases
from eagle3_viz.records import Origin
from eagle3_viz.text_lines import DataError

ABOUT = {"draws": 3, "prefix": [1, 2]}
TALLY = Tally(
    Counter({(1, 2, 3): 2, (4,): 1}), Counter({Origin.ACCEPTED: 5, Origin.BONUS: 2}), 1, 4, 0.5
)
CASES = [
    (case.rule, case.config)
    for case in cases(["eagle3"], ["topk", "sample"], [Sampling(0.8), Sampling(1.0)], [0, 1])
]


def test_what_was_kept_comes_back_equal_and_for_its_own_case_alone(tmp_path: Path) -> None:
    file = tmp_path / "draws"
    KeptTallies(file, ABOUT).add(*CASES[0], TALLY)
    again = KeptTallies(file, ABOUT)
    assert again.get(*CASES[0]) == TALLY
    assert [again.get(*case) for case in CASES[1:]] == [None] * 7
    again.add(*CASES[1], TALLY)
    assert KeptTallies(file, ABOUT).get(*CASES[1]) == TALLY


def test_a_wrong_rule_is_another_case_than_the_rule_it_is_built_on(tmp_path: Path) -> None:
    every = cases(["eagle3"], ["sample"], [Sampling(1.0)], [0], wrong_method="eagle3")
    kept = KeptTallies(tmp_path / "draws", ABOUT)
    kept.add(every[0].rule, every[0].config, TALLY)
    assert [kept.get(one.rule, one.config) is not None for one in every] == [True] + [False] * 4


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "draws"
    KeptTallies(file, ABOUT).add(*CASES[0], TALLY)
    whole = file.read_bytes()
    file.write_bytes(whole + whole.splitlines(keepends=True)[1][:40])
    assert KeptTallies(file, ABOUT).get(*CASES[0]) == TALLY
    assert file.read_bytes() == whole


def test_draws_of_another_check_are_refused_and_stay(tmp_path: Path) -> None:
    file = tmp_path / "draws"
    KeptTallies(file, ABOUT).add(*CASES[0], TALLY)
    before = file.read_bytes()
    with pytest.raises(DataError, match="another check"):
        KeptTallies(file, {**ABOUT, "draws": 4})
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "line", ["nothing", "{}", '{"case": "x", "texts": 3}', '{"texts": [[1, []]], "origins": {}}']
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "draws"
    KeptTallies(file, ABOUT)
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(DataError, match="line 2 is damaged"):
        KeptTallies(file, ABOUT)
