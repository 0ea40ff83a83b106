"""`train data` on the command line: options, pace and the account of what came out."""

from __future__ import annotations

import argparse
import io
import json
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eagle3_viz.cli import arguments, train_data
from eagle3_viz.cli.main import main
from eagle3_viz.cli.pace import reporting_pace
from eagle3_viz.cli.train_data import described
from eagle3_viz.interpreter import typed
from eagle3_viz.training.conversations import read_conversations
from eagle3_viz.training.data import Outcome, Progress
from tests.chat_tokenizer import VOCABULARY_SIZE, save_chat_target
from tests.command_processes import started, wait_for
from tests.fake_terminal import Terminal

RESULTS = ("train.jsonl", "heldout.jsonl")


def parsed(*argv: str) -> argparse.Namespace:
    return arguments.parse(["train", "data", "--out", "folder", *argv])


def test_every_option_reaches_the_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, Any] = {}

    def make_data(target: Any, out: Path, **options: Any) -> Outcome:
        given.update(options, target=target, out=out)
        return Outcome(train=1)

    loaded: list[Any] = []

    def load_pair(**options: Any) -> Any:
        loaded.append(options)
        source = SimpleNamespace(name="model", revision="", sha256="0123456789abcdef0123")
        return SimpleNamespace(target="the target", target_source=source)

    monkeypatch.setattr(train_data, "make_data", make_data)
    monkeypatch.setattr("eagle3_viz.cli.pair_loading.load_pair", load_pair)
    prompts = tmp_path / "p.txt"
    prompts.write_text("one\ntwo\nthree\n")
    options = ["--seed", "7", "--batch", "5", "--max-length", "9", "--holdout", "0.5"]
    more = ["--prompts", str(prompts), "--count", "2", "--target", "some/model"]
    more += ["--dtype", "bfloat16", "--device", "cpu", "--trust-remote-code"]
    assert main(["train", "data", "--out", str(tmp_path / "out"), *options, *more]) == 0
    assert [prompt.text for prompt in given["prompts"]] == ["one", "two"]
    assert (given["target"], given["out"]) == ("the target", tmp_path / "out")
    assert given["target_name"] == "model 0123456789abcdef"
    named = ("seed", "batch", "max_length", "holdout_share", "count")
    assert [given[name] for name in named] == [7, 5, 9, 0.5, 2]
    assert loaded[0]["target"] == "some/model"
    assert "draft" not in loaded[0]
    assert str(loaded[0]["dtype"]) == "torch.bfloat16"
    assert loaded[0]["trust_remote_code"] is True


@pytest.mark.parametrize(
    ("argv", "location"),
    [([], "embedded"), (["--pair", "llama-3.1-8b"], "meta-llama/Llama-3.1-8B-Instruct")],
)
def test_the_target_is_that_of_a_pair(
    argv: list[str], location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load_pair(**options: Any) -> Any:
        loaded.append(options["target"])
        source = SimpleNamespace(name="model", revision="r1", sha256="")
        return SimpleNamespace(target=None, target_source=source)

    monkeypatch.setattr("eagle3_viz.cli.pair_loading.load_pair", load_pair)
    monkeypatch.setattr(train_data, "make_data", lambda *_, **__: Outcome(train=1))
    assert main(["train", "data", "--out", "unused", *argv]) == 0
    assert loaded == [location]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--count", "0"], "from 1 to 10000000"),
        (["--batch", "x"], "from 1 to 4096"),
        (["--max-length", "-1"], "from 1 to 32768"),
        (["--holdout", "1.5"], "a share from 0 to 1"),
        (["--holdout", "nan"], "a share from 0 to 1"),
        (["--seed", "-1"], "whole number from 0"),
        (["--device", "tpu"], "cuda:N"),
        (["--pair", "a", "--target", "b"], "not allowed with"),
        (["--prompts"], "at least one argument"),
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


def test_a_step_and_a_folder_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, said in ((["train"], "STEP"), (["train", "data"], "--out")):
        with pytest.raises(SystemExit):
            arguments.parse(argv)
        assert said in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.touch()
    assert main(["train", "data", "--out", str(path)]) == 1
    assert "is a file" in capsys.readouterr().err


def test_the_account_names_drops_domains_and_loops() -> None:
    outcome = Outcome(
        train=7,
        held_out=1,
        dropped=Counter({"near-duplicates": 2, "unusable questions": 3}),
        finishes=Counter(eos=6, loop=2),
        tokens=Counter(math=30, code=12),
    )
    rows = dict(described(outcome))
    assert rows["train.jsonl"] == "7 conversations"
    assert rows["heldout.jsonl"] == "1 conversation"
    assert rows["dropped"] == "3 unusable questions, 2 near-duplicates"
    assert rows["response tokens"] == "42: code 12, math 30"
    assert rows["ended in a loop"].startswith("25.0 %")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_tell_the_pace_of_this_run_and_come_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    with reporting_pace(stream, clock) as report:
        report(Progress("Answers", 10, 40))
        for second in range(1, 31):
            clock.now += 2
            report(Progress("Answers", 10 + second, 40, 60 * second, 20 * second))
    assert stream.getvalue().splitlines() == [
        "Answers: 10 of 40",
        "Answers: 25 of 40, 30 tokens/s (10 written)",
        "Answers: 40 of 40, 30 tokens/s (10 written)",
    ]


def test_a_terminal_shows_a_bar_with_pace_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal, clock = Terminal(), Clock()
    with reporting_pace(terminal, clock) as report:
        report(Progress("Questions", 0, 2))
        report(Progress("Answers", 0, 8))
        clock.now += 4
        report(Progress("Answers", 2, 8, 400, 100))
    shown = terminal.getvalue()
    assert "2 of 8, 100 tokens/s (25 written)" in shown
    assert "--:--" in shown or "0:0" in shown


# With a target on disk


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_chat_target(folder)
    return folder


def command(model: Path, out: Path, *more: str) -> list[str]:
    options = ("--target", str(model), "--dtype", "float32", "--device", "cpu", "--out", str(out))
    return ["train", "data", *options, "--batch", "4", "--max-length", "200", *more]


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_killed_process_loses_nothing_and_doubles_nothing(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = ("--count", "42", "--holdout", "0.2")
    assert main(command(model_folder, tmp_path / "whole", *count)) == 0
    shown = capsys.readouterr().out
    expected = [(tmp_path / "whole" / name).read_bytes() for name in RESULTS]
    killed = tmp_path / "killed"
    process = started(command(model_folder, killed, *count))
    wait_for(lambda: lines_in(killed / "answers.journal") >= 3, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (killed / "train.jsonl").exists()
    assert main(command(model_folder, killed, *count)) == 0
    assert [(killed / name).read_bytes() for name in RESULTS] == expected
    assert capsys.readouterr().out == shown
    answers = [json.loads(line) for line in (killed / "answers.journal").read_text().splitlines()]
    assert len({answer["index"] for answer in answers}) == len(answers)


def test_ctrl_c_says_how_to_go_on(model_folder: Path, tmp_path: Path) -> None:
    process = started(command(model_folder, tmp_path, "--count", "5000"))
    wait_for(lambda: lines_in(tmp_path / "questions.journal") >= 1, process)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert out == ""
    assert f"goes on from there: {typed(['eagle3_viz', 'train', 'data'])}" in error
    assert "Traceback" not in error


def test_the_command_answers_prompt_files_and_says_what_came_of_it(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "p.jsonl"
    asked = ("a b", "c d", "e f", "g h", "i j", "k l", "m n", "o p", "q r", "A b!")
    records = [{"prompt": text, "domain": f"d{len(text)}"} for text in asked]
    prompts.write_text("".join(json.dumps(record) + "\n" for record in records))
    out = tmp_path / "out"
    assert main(command(model_folder, out, "--prompts", str(prompts), "--holdout", "0")) == 0
    shown = capsys.readouterr()
    found = read_conversations([out / "train.jsonl"], VOCABULARY_SIZE)
    assert f"{len(found)} conversations" in shown.out
    assert "1 near-duplicates" in shown.out
    for domain in {c.domain for c in found}:
        tokens = sum(c.response_tokens for c in found if c.domain == domain)
        assert f"{domain} {tokens}" in shown.out
    assert "Answers: 9 of 9" in shown.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--prompts", "gone.jsonl"], "gone.jsonl cannot be read"),
        (["--pair", "no-such-pair"], "no-such-pair"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "data", "--out", str(tmp_path / "out"), *more]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
