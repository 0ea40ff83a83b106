"""`suite` on the command line: options, the table, comparisons, and what a kill leaves."""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.cli import arguments, suite_run
from eagle3_viz.cli.main import main
from eagle3_viz.cli.sharing import shareable
from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.interpreter import interpreter
from eagle3_viz.prompt_sets import Prompt, PromptSet, sample_sets
from eagle3_viz.suite.plan import Plan, settings_of, trace_path
from eagle3_viz.suite.runner import Outcome
from eagle3_viz.trace_file import load
from tests.command_processes import started, wait_for
from tests.suite_folder import Run, write_suite
from tests.test_run import TEMPLATE, tokenizer
from tests.tiny_models import tiny_target

SETS = (PromptSet("math", (Prompt("1", "math", ("x",)), Prompt("2", "math", ("y",)))),)
SETTINGS = settings_of(["ar", "eagle3"])


def parsed(*argv: str) -> argparse.Namespace:
    return arguments.parse(["suite", "--out", "folder", *argv])


def settings_asked(*argv: str) -> dict[str, DecodeConfig]:
    args = parsed(*argv)
    return suite_run.settings(args, args.methods)


def test_options_become_the_settings_they_name() -> None:
    found = settings_asked(
        *("--methods", "ar", "eagle1", "eagle3", "ar", "--tree", "8,2,4", "10,3,4"),
        *("--fixed-tree", "mc_sim_7b_63", "--temperature", "0.8", "--top-p", "0.9"),
        *("--rule", "sample", "--seed", "3", "--max-new-tokens", "20", "--record", "outcomes"),
    )
    assert list(found) == ["ar", "eagle1", "eagle3 8,2,4", "eagle3 10,3,4"]
    last = found["eagle3 10,3,4"]
    assert last == DecodeConfig(
        method="eagle3",
        shape=TreeShape(10, 3, 4),
        sampling=Sampling(0.8, top_p=0.9),
        rule="sample",
        max_new_tokens=20,
        seed=3,
        record="outcomes",
    )
    assert found["eagle1"].fixed.name == "mc_sim_7b_63"


def test_a_suite_without_options_is_greedy_over_our_own_prompts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Plan] = []

    class Pair:
        methods = ("ar", "lookup", "eagle3")

    def run_suite(pair: Any, plan: Plan, folder: Path, **more: Any) -> Outcome:
        given.append(plan)
        assert folder == tmp_path / "out"
        assert more["command"] == ("eagle3_viz", "suite", "--out", "out")
        return Outcome(skipped={"chat/chat-01": "too long"})

    monkeypatch.setattr(suite_run, "load", lambda args: Pair())
    monkeypatch.setattr(suite_run, "run_suite", run_suite)
    monkeypatch.setattr(suite_run, "table", lambda folder: 0)
    assert main(["suite", "--out", str(tmp_path / "out")]) == 0
    (plan,) = given
    assert list(plan.sets) == sample_sets()
    assert dict(plan.settings) == settings_of(["ar", "lookup", "eagle3"])
    assert {config.rule for config in plan.settings.values()} == {"greedy"}


def test_prompts_columns_and_limit_choose_what_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "quiz.csv"
    path.write_text("question,topic\nWhy?,a\nHow?,b\nWho?,c\n")
    given: list[Plan] = []
    monkeypatch.setattr(suite_run, "load", lambda args: None)
    monkeypatch.setattr(
        suite_run, "run_suite", lambda pair, plan, folder, **_: given.append(plan) or Outcome()
    )
    monkeypatch.setattr(suite_run, "table", lambda folder: 0)
    argv = ["--prompts", str(path), "--columns", "prompt=question,domain=topic", "--limit", "2"]
    assert main(["suite", "--out", str(tmp_path / "o"), "--methods", "ar", *argv]) == 0
    assert given[0].sets == (
        PromptSet("quiz", (Prompt("1", "a", ("Why?",)), Prompt("2", "b", ("How?",)))),
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--tree", "8,2"], "expected TOTAL,DEPTH,TOP_K, found '8,2'"),
        (["--tree", "9,0,4"], "asks for 8 drafted nodes"),
        (["--tree", "8,x,4"], "expected a whole number"),
        (["--columns", "question=prompt"], "with a name out of turns, messages, prompt"),
        (["--columns", "prompt=a,prompt=b"], "at most once"),
        (["--limit", "0"], "from 1 to 100000"),
        (["--methods", "eagle9"], "invalid choice"),
        (["--fixed-tree", "oak"], "invalid choice"),
        (["compare", "only-one"], "FOLDER"),
        (["--methods", "ar", "--tree", "8,2,4"], "--tree is for methods with a tree"),
        (["--methods", "ar", "eagle3", "--fixed-tree", "seven"], "--fixed-tree is for eagle1"),
        (["--methods", "ar", "--rule", "topk", "--temperature", "1"], "ar drafts none"),
        (["--methods", "lookup", "--rule", "sample", "--temperature", "1"], "it has no q"),
        (["--top-p", "0.9"], "--top-p changes nothing at temperature 0"),
        (["--columns", "prompt=question"], "no file is among --prompts"),
        (["--prompts", ""], "the name is empty"),
        (["--target", "a", "--methods", "ar", "eagle3"], "--draft for --methods eagle3"),
        (["--draft", "a", "--methods", "ar", "lookup"], "--draft is not used by --methods"),
        (["--pair", "a", "--draft", "b"], "not both"),
        (["table", "x"], "--out is for a run, and suite table reads"),
    ],
)
def test_options_without_a_meaning_are_one_sentence_and_status_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*argv)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["suite"], "--out is missing"),
        (["suite", "--out", __file__], "is a file"),
        (["suite", "--out", "o", "--prompts", "gone.csv"], "gone.csv cannot be read"),
        (["suite", "--out", "o", "--prompts", "/"], "error: / has the suffix"),
        (["suite", "--out", "o", "--rule", "sample"], "does not fit temperature=0"),
        (["suite", "table", "nowhere"], "name a folder that suite wrote"),
        (["suite", "compare", "nowhere", "nowhere"], "name a folder that suite wrote"),
        (["suite", "--out", "foreign"], "foreign/suite.json is not the manifest of a suite"),
        (["suite", "--out", "taken"], "taken has traces but no suite.json"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_loaded(
    argv: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "suite.json").write_text('{"name": "of another program"}')
    (tmp_path / "taken" / "traces").mkdir(parents=True)
    monkeypatch.setattr(suite_run, "load", lambda args: pytest.fail("loaded"))
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_paths_of_this_machine_stay_out_of_the_command_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").touch()
    new = str(tmp_path / "not" / "there" / "yet")
    given = ["suite", f"--out={tmp_path}", "--out", new, "sub/a.csv", "org/model", "--x=a/b", "./o"]
    shown = (
        "suite",
        f"--out={tmp_path.name}",
        "--out",
        "yet",
        "a.csv",
        "org/model",
        "--x=a/b",
        "./o",
    )
    assert shareable(given, suite_run.without_folder) == shown


def written(folder: Path, ar_ms: float = 20.0, name: str = "math") -> Path:
    runs = {}
    for prompt in SETS[0].prompts:
        runs[name, prompt.id, 1, "ar"] = Run([0, 0], [False] * 2, [0, 0, ar_ms, 0, 0])
        runs[name, prompt.id, 1, "eagle3"] = Run([1, 1], [True] * 2, [5, 0, 15, 0, 0])
    write_suite(folder, (PromptSet(name, SETS[0].prompts),), SETTINGS, runs)
    return folder


def test_the_table_is_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "table", str(written(tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "math"
    shown = " ".join(lines[3].split())
    assert shown == "eagle3 2 2.00 (2.00 to 2.00) 100.0 2.00x (2.00 to 2.00) 0%"
    assert {"table.csv", "table.parquet", "table.md", "runs.parquet"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_names_out_of_files_cannot_drive_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suite", "table", str(written(tmp_path, name="a\x1b[2J\nb"))]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a␛[2J↵b" in out


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("method", None, "expected one of ar, lookup"),
        ("method", ["ar"], "as its method, found a list"),
        ("rule", {}, "as its rule, found an object"),
        ("sampling", "none", "an object as its sampling, found the text 'none'"),
        ("max_new_tokens", True, "a whole number as its max_new_tokens, found true"),
    ],
)
def test_a_setting_that_is_damaged_is_named_with_its_file(
    part: str, value: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path) / "suite.json"
    content = json.loads(path.read_text())
    content["settings"]["eagle3"][part] = value
    path.write_text(json.dumps(content))
    assert main(["suite", "table", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: the setting 'eagle3' is damaged: expected ")
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("turns", "1", "a whole number as turns, found the text '1'"),
        ("domain", 3, "text as domain, found the number 3"),
        ("turns", 0, "damaged in its turns, the number 0"),
        ("more", 1, "needs set, id, domain, turns, sha256, found"),
    ],
)
def test_a_prompt_that_is_damaged_is_told_without_words_of_python(
    part: str, value: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path) / "suite.json"
    content = json.loads(path.read_text())
    content["prompts"][0][part] = value
    path.write_text(json.dumps(content))
    assert main(["suite", "table", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert said in error and str(path) in error and "{" not in error


def test_two_suites_are_compared_with_what_only_one_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = written(tmp_path / "a"), written(tmp_path / "b", ar_ms=10.0)
    trace_path(b, "math", "2", 1, "ar").unlink()
    assert main(["suite", "compare", str(a), str(b)]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[1]: line.split() for line in out.splitlines() if "math" in line[:5]}
    assert rows["ar"][-2:] == ["2.00x", "1.00x"]
    assert rows["eagle3"][-2:] == ["1.00x", "0.50x"]
    assert "only in the first: 1 prompt (math/2)" in out
    assert main(["suite", "compare", str(a), str(b), "--settings", "ar", "eagle3"]) == 0
    assert "ar / eagle3" in capsys.readouterr().out


# With a target on disk


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    target = tiny_target(vocab_size=264, seed=3, tokenizer=tokenizer())
    target.model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    assert tokenizer().chat_template == TEMPLATE
    return folder


def command(model: Path, out: Path, prompts: Path) -> list[str]:
    models = ["--target", str(model), "--dtype", "float32", "--device", "cpu"]
    return [
        "suite",
        *models,
        "--prompts",
        str(prompts),
        "--out",
        str(out),
        "--max-new-tokens",
        "30",
    ]


def questions(path: Path, count: int) -> Path:
    rows = [{"question_id": n, "turns": [f"What is {n}?", "Why?"]} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(folder: Path) -> dict[str, tuple[int, ...]]:
    return {
        str(path.relative_to(folder)): load(path).tokens for path in folder.rglob("traces/*/*.*")
    }


def test_a_killed_process_loses_nothing_and_doubles_nothing(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = questions(tmp_path / "quiz.jsonl", 6)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(command(model_folder, whole, prompts)) == 0
    process = started(command(model_folder, killed, prompts))
    wait_for(lambda: len(list(killed.rglob("*.parquet"))) >= 5, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    before = {path: path.read_bytes() for path in killed.rglob("*.parquet")}
    assert 5 <= len(before) < 24
    assert main(command(model_folder, killed, prompts)) == 0
    assert all(path.read_bytes() == content for path, content in before.items())
    assert texts(killed) == texts(whole)
    assert len(texts(killed)) == 6 * 2 * len(("ar", "lookup"))
    rows = list(csv.DictReader((killed / "table.csv").open(encoding="utf-8")))
    assert {(row["setting"], row["prompts"]) for row in rows} == {("ar", "6"), ("lookup", "6")}


def test_ctrl_c_says_how_to_go_on(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "my out"
    argv = command(model_folder, out, questions(tmp_path / "quiz.jsonl", 500))
    process = started(argv)
    wait_for(lambda: len(list(out.rglob("*.parquet"))) >= 1, process)
    process.send_signal(signal.SIGINT)
    shown, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert shown == ""
    shown_command = error.rstrip("\n").rpartition("goes on from there: ")[2]
    assert shlex.split(shown_command) == [interpreter(), "-m", "eagle3_viz", *argv]
    assert "Traceback" not in error
