"""`profile` with a tiny pair: what its table adds up to, and what it refuses."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from eagle3_viz.cli import profile
from eagle3_viz.cli.main import main
from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.cycle_budget import WARM_UP, budget, run_cycles
from eagle3_viz.floor import Products
from eagle3_viz.records import Finish
from tests.lossless.tiny_pair import chat_pair
from tests.synthetic import make_trace

SMALL = ("Say it", "--max-new-tokens", "16")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "load", lambda args: chat_pair())


@pytest.mark.parametrize("method", ["ar", "lookup", "eagle3"])
def test_every_method_has_a_budget(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *SMALL, "--method", method]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = [line.split() for line in lines if line.lstrip().startswith(("cycle", "verify"))]
    assert [row[0] for row in table] == ["cycle", "verify"]
    assert all(float(row[1]) > 0.0 for row in table)
    assert any("level 2" in line for line in lines) == (
        method in ("independent", "eagle1", "eagle3")
    )


def test_phases_are_the_medians_of_the_record_and_parts_do_not_exceed_them() -> None:
    config = DecodeConfig(shape=TreeShape(6, 1, 3), max_new_tokens=20, record="full")
    pair = chat_pair()
    measured = run_cycles(pair, "Say it", config)
    assert measured[0].cycle.index == WARM_UP
    parts = {part.name: part for part in budget(pair.target, measured)}
    middle = sorted(one.cycle.timing.commit for one in measured)
    assert middle[0] <= parts["commit"].ms <= middle[-1]
    verify, rest = parts["verify"], parts["everything else"]
    left = verify.ms - parts["LM head"].ms - parts["attention"].ms
    assert rest.ms == pytest.approx(max(0.0, left))
    assert parts["cycle"].floor == pytest.approx(verify.floor + parts["draft"].floor)


def test_a_floor_is_multiplied_behind_every_cycle_with_the_rows_that_the_cycle_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = DecodeConfig(
        shape=TreeShape(6, 1, 3), sampling=Sampling(1.0), rule="sample", max_new_tokens=40
    )
    pair, multiplied = chat_pair(), []

    def noted(products: Products, dtype: torch.dtype, device: torch.device) -> float:
        multiplied.append([rows for _, rows in products])
        return float(len(multiplied))

    monkeypatch.setattr("eagle3_viz.cycle_budget.products_once_ms", noted)
    measured = run_cycles(pair, "Say it", config)
    parts = 3  # the draft's products, the verification's but the head, the head
    first = parts * WARM_UP + 1
    assert [one.draft for one in measured] == list(range(first, len(multiplied) + 1, parts))
    assert [one.head for one in measured] == [one.draft + 2 for one in measured]
    assert max(len(one.cycle.tokens) for one in measured[:-1]) > 1
    for before, one in pairwise(measured):
        draft, body, head = multiplied[int(one.draft) - 1 : int(one.head)]
        assert draft[0] == len(before.cycle.tokens)
        assert {*body, *head} == {one.cycle.verified} and len(head) == 1


@pytest.mark.parametrize("finish", ["length", None])
def test_the_header_says_which_cycles_count(finish: Finish | None) -> None:
    cycles = make_trace(cycles=6, finish=finish).cycles
    uncut = [len(cycle.tokens) for cycle in cycles if not cycle.cut]
    said = profile.circumstances(chat_pair(), DecodeConfig(), cycles)[1]
    assert said == (
        f"6 cycles after {WARM_UP} that only warm up; "
        f"tau {sum(uncut) / len(uncut):.2f} over {len(uncut)} uncut cycles"
    )


def test_the_timeline_is_json_of_the_cycles_that_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    assert main(["profile", *SMALL, "--chrome", str(file)]) == 0
    names = [e["name"] for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    assert names[0] == f"cycle {WARM_UP + 1}"
    assert "verify" in names
    assert f"Written: {file}" in capsys.readouterr().out


def test_a_text_that_is_too_short_to_measure_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle3_viz.cycle_budget.WARM_UP", 99)
    assert main(["profile", *SMALL]) == 1
    assert "ask for more tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--method", "ar", "--tree", "6,1,3"], "--tree is for methods with a tree"),
        (["--method", "eagle1", "--tree", "6,1,3"], "--tree is for methods with a tree"),
        (["--fixed-tree", "seven"], "--fixed-tree is for eagle1"),
        (["--method", "lookup", "--draft", "a"], "--draft is not used by --method lookup"),
        (["--target", "a"], "--target needs --draft for --method eagle3"),
        (["--pair", "a", "--target", "b", "--draft", "c"], "not both"),
    ],
)
def test_an_option_without_effect_is_refused(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["profile", *argv])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_folder_that_is_missing_is_told_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "--chrome", str(tmp_path / "none" / "x.json")]) == 1
    assert "does not exist: create it first" in capsys.readouterr().err
