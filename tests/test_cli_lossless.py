"""`lossless` on the command line: options, verdicts, exit statuses, what an interrupt leaves."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from eagle3_viz.cli import arguments, lossless
from eagle3_viz.cli.main import main
from eagle3_viz.config import METHODS, TreeShape
from eagle3_viz.loop import Loop
from eagle3_viz.lossless import greedy_test, sampling_test
from eagle3_viz.lossless.chi_square import ChiSquare
from eagle3_viz.lossless.sampler import Sampler
from eagle3_viz.target import TargetModel
from tests.lossless.tiny_pair import chat_pair

SMALL = ("--draws", "120", "--seeds", "0", "--methods", "eagle3", "--prompt", "Say it")
FEW = ("--prompts", "1", "--max-new-tokens", "12", "--methods", "eagle3", "--tree", "6,1,3")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Loads a tiny pair in place of the real one; the number formats that were asked for."""
    formats: list[str] = []

    def load(args: argparse.Namespace):
        formats.append(args.dtype)
        return chat_pair()

    monkeypatch.setattr(lossless, "load", load)
    return formats


def parsed(*argv: str) -> argparse.Namespace:
    return arguments.parse(["lossless", *argv])


def test_a_sampling_test_ends_in_a_table_words_and_status_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    file = tmp_path / "tests.csv"
    assert main(["lossless", "sampling", *SMALL, "--csv", str(file)]) == 0
    out = capsys.readouterr().out
    assert "Lossless, as far as 2 tests can tell" in out
    assert "Power: with 120 draws" in out
    assert out.startswith("Three tokens after ")
    table = pd.read_csv(file)
    assert table.rule.tolist() == ["topk", "sample", "ratio", "rerank", "reorder", "typical"]
    assert (table.accepted + table.recovered + table.bonus + table.plain).max() <= 360
    assert tiny == ["float32"]


def test_wrong_rules_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lossless", "sampling", *SMALL, "--without-wrong", "--rules", "topk"]) == 0
    out = capsys.readouterr().out
    assert "eagle3 topk" in out
    assert "wrong rule" not in out and "sample" not in out


def test_a_rejected_rule_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rejecting(drawn, exact) -> ChiSquare:
        list(drawn)
        return ChiSquare((), 99.0, 3, 1e-12, 0.5)

    monkeypatch.setattr(sampling_test, "chi_square", rejecting)
    assert main(["lossless", "sampling", *SMALL, "--without-wrong"]) == 1
    out = capsys.readouterr().out
    assert "REJECTED: 2 of 2 tests" in out and "REJECTED, 1 of 1" in out


def test_an_interrupt_leaves_what_was_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = sampling_test.run_cases

    def interrupted(*arguments) -> Iterator[sampling_test.Progress]:
        for step in real(*arguments):
            yield step
            if step.result is not None:
                raise KeyboardInterrupt

    monkeypatch.setattr(lossless, "run_cases", interrupted)
    file = tmp_path / "tests.csv"
    assert main(["lossless", "sampling", *SMALL, "--csv", str(file)]) == 130
    shown = capsys.readouterr()
    assert "Lossless, as far as 1 test can tell" in shown.out
    assert "Interrupted" in shown.err
    assert len(pd.read_csv(file)) == 1
    monkeypatch.setattr(lossless, "run_cases", real)
    monkeypatch.setattr(Sampler, "draws", fails_for_topk(Sampler.draws))
    assert main(["lossless", "sampling", *SMALL, "--csv", str(file)]) == 0
    table = pd.read_csv(file)
    assert table.rule.tolist() == ["topk", "sample", "ratio", "rerank", "reorder", "typical"]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def fails_for_topk(draws):
    """Fails where the finished case is drawn once more."""

    def others(self, kind, config):
        assert (kind, config.rule) != (Loop, "topk")
        return draws(self, kind, config)

    return others


def test_draws_of_another_check_are_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tests.csv"
    kept = lossless.kept_beside(file)
    kept.write_text('{"draws": 7}\n')
    assert main(["lossless", "sampling", *SMALL, "--csv", str(file)]) == 1
    assert "holds what another check has drawn" in capsys.readouterr().err
    assert kept.read_text() == '{"draws": 7}\n' and not file.exists()


@pytest.mark.parametrize(
    ("argv", "noun", "said"),
    [
        (["greedy", *FEW], "text", "It begins anew: give the command again."),
        (["sampling", *SMALL], "test", "with --csv FILE it would go on"),
        (["sampling", *SMALL, "--csv", "a.csv"], "test", "The same command goes on from there"),
    ],
)
def test_an_interrupt_before_anything_is_finished_says_so_and_how_to_go_on(
    argv: list[str],
    noun: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*arguments, **options) -> Iterator[greedy_test.Progress]:
        raise KeyboardInterrupt
        yield

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lossless, "run_greedy", interrupted)
    monkeypatch.setattr(lossless, "run_cases", interrupted)
    assert main(["lossless", *argv]) == 130
    error = capsys.readouterr().err
    assert f"Interrupted before the first {noun} was finished: there is no result." in error
    assert said in error


def test_an_interrupted_greedy_check_says_what_is_kept_and_that_it_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = greedy_test.run_greedy

    def interrupted(*arguments, **options) -> Iterator[greedy_test.Progress]:
        for step in real(*arguments, **options):
            yield step
            if step.run is not None:
                raise KeyboardInterrupt

    monkeypatch.setattr(lossless, "run_greedy", interrupted)
    file = tmp_path / "runs.csv"
    several = ("--prompts", "2", *FEW[2:])
    assert main(["lossless", "greedy", *several, "--csv", str(file)]) == 130
    error = capsys.readouterr().err
    assert "Interrupted: the above is what was finished, 1 text." in error
    assert "give the command again with another --csv." in error
    assert len(pd.read_csv(file)) == 1


def test_a_greedy_comparison_runs_every_number_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    file = tmp_path / "runs.csv"
    options = ["--padded", "--dtype", "float32", "bfloat16", "--csv", str(file)]
    assert main(["lossless", "greedy", *FEW, *options]) == 0
    out = capsys.readouterr().out
    assert "equal" in out and "autoregression in the shape of the verification" in out
    assert tiny == ["float32", "bfloat16"]
    assert pd.read_csv(file).padded_verdict.tolist() == ["equal"] * 2


def test_a_text_that_differs_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verify = TargetModel.verify

    def spoiled(self, tree):
        step = verify(self, tree)
        if len(tree) > 1:
            step.logits[:, 70] += 90.0
        return step

    monkeypatch.setattr(TargetModel, "verify", spoiled)
    assert main(["lossless", "greedy", *FEW]) == 1
    out = capsys.readouterr().out
    assert "DIFFERENT beyond rounding" in out
    assert "token 1 of 12" in out


def test_options_become_the_tests_they_name() -> None:
    args = parsed(
        "sampling",
        *("--temperature", "0.8", "1.0", "--seeds", "0", "1", "--rules", "sample"),
        *("--tree", "6,1,4", "--top-p", "0.95"),
    )
    found = lossless.asked_cases(args, ["eagle3", "lookup"], "eagle3")
    assert len(found) == 2 * 2 * (1 + 4)
    assert {case.config.sampling.temperature for case in found} == {0.8, 1.0}
    assert {case.config.sampling.top_p for case in found} == {0.95}
    assert {case.config.shape for case in found if case.rule == "sample"} == {TreeShape(6, 1, 4)}


def test_the_usual_tree_is_the_one_of_the_test() -> None:
    usual = inspect.signature(sampling_test.cases).parameters["shape"].default
    assert parsed("sampling").tree == usual
    settings = lossless.asked_settings(parsed("greedy"), METHODS)
    assert len(settings) == 2 + 4 * 3  # ar and eagle1 once, the others under three trees


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sampling", "--temperature", "0"], "expected a number above 0"),
        (["sampling", "--draws", "10"], "expected a whole number from 50"),
        (["greedy", "--tree", "99"], "expected TOTAL,DEPTH,TOP_K"),
        ([], "the following arguments are required"),
    ],
)
def test_options_without_meaning_are_refused(argv, message, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lossless", *argv])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    file = tmp_path / "none" / "x.csv"
    assert main(["lossless", "sampling", "--csv", str(file)]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert tiny == []


def test_a_prefix_after_which_all_is_certain_is_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lossless", "sampling", *SMALL, "--top-p", "0.01"]) == 1
    assert "120 draws leave fewer than two cells" in capsys.readouterr().err


@pytest.mark.parametrize("check", ["sampling", "greedy"])
def test_a_file_that_exists_is_left_alone(
    check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prompts.csv"
    file.write_text("mine")
    assert main(["lossless", check, "--csv", str(file)]) == 1
    assert "exists already: name another file" in capsys.readouterr().err
    assert main(["lossless", check, "--csv", str(tmp_path)]) == 1
    assert "is a folder: name a file in it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.csv"]
    assert file.read_text() == "mine"
