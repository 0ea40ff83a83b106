"""`profile` with a tiny pair: what its table adds up to, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3_viz.cli import profile
from eagle3_viz.cli.main import main
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.cycle_budget import WARM_UP, budget, run_cycles
from tests.lossless.tiny_pair import chat_pair

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
    cycles = run_cycles(pair, "Say it", config)
    assert cycles[0].index == WARM_UP
    parts = {part.name: part for part in budget(pair, config, cycles)}
    middle = sorted(cycle.timing.commit for cycle in cycles)
    assert middle[0] <= parts["commit"].ms <= middle[-1]
    verify, rest = parts["verify"], parts["everything else"]
    left = verify.ms - parts["LM head"].ms - parts["attention"].ms
    assert rest.ms == pytest.approx(max(0.0, left))
    assert parts["cycle"].floor == pytest.approx(verify.floor + parts["draft"].floor)


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
