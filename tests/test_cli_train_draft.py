"""`train draft` and `train independent`: options, several processes, stopping, what comes out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle3_viz.cli import arguments, train_draft
from eagle3_viz.cli.data_passes import passes_in_words
from eagle3_viz.cli.main import main
from eagle3_viz.drafts.checkpoints import read_eagle3
from eagle3_viz.files import alone_in
from eagle3_viz.interpreter import typed
from eagle3_viz.prompt_records import ALL
from eagle3_viz.training.conversations import Conversation, to_line
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.log import read_evaluations, read_log
from tests.chat_tokenizer import VOCABULARY_SIZE, save_chat_target
from tests.tiny_models import random_ids

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, text to train on and text to score on."""
    folder = tmp_path_factory.mktemp("inputs")
    save_chat_target(folder / "target")
    for name, count, seed in (("train", 24, 1), ("heldout", 6, 2)):
        conversations = [
            Conversation(tuple(random_ids(20 + i, 100 * seed + i, VOCABULARY_SIZE)), 4, "ab"[i % 2])
            for i in range(count)
        ]
        (folder / f"{name}.jsonl").write_text("".join(map(to_line, conversations)))
    return folder


def command(inputs: Path, out: Path, *more: str, step: str = "draft") -> list[str]:
    text = ("--data", str(inputs / "train.jsonl"), "--heldout", str(inputs / "heldout.jsonl"))
    target = ("--target", str(inputs / "target"), "--dtype", "float32", "--device", "cpu")
    sizes = ("--batch-tokens", "64", "--warmup", "2")
    return ["train", step, "--out", str(out), *text, *target, *sizes, *more]


def started(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "eagle3_viz", *argv],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches all processes of a job and nobody else
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


SMALL = ("--vocabulary", "20", "--unroll", "2")


def test_a_run_leaves_a_draft_with_its_card_and_two_logs(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = command(inputs, tmp_path / "run", *SMALL, "--tokens", "900", "--processes", "1")
    assert main([*argv, "--evaluate", "400"]) == 0
    shown = capsys.readouterr()
    draft = tmp_path / "run" / "draft"
    assert f"draft              {draft}" in shown.out
    assert read_eagle3(draft).architecture.draft_vocab_size == 20
    provenance = json.loads((draft / "provenance.json").read_text())
    assert provenance["token_passes"] >= 900
    assert (provenance["training"]["unroll"], provenance["conversations"]) == (2, 24)
    scored = [row for row in read_evaluations(tmp_path / "run") if row.domain == ALL]
    assert provenance["accuracy"] == list(scored[-1].accuracy)
    assert len(scored) == 3 and len(scored[-1].accuracy) == 3
    assert read_log(tmp_path / "run")[-1].tokens <= provenance["token_passes"]
    assert "GB to make in" in shown.err

    before = (draft / "model.safetensors").stat().st_mtime_ns
    assert main(argv) == 0  # finished: nothing is done twice
    assert (draft / "model.safetensors").stat().st_mtime_ns == before
    weights = (draft / "model.safetensors").read_bytes()
    shutil.rmtree(draft)  # as if it had been killed before it published
    assert main(argv) == 0
    assert (draft / "model.safetensors").read_bytes() == weights
    assert json.loads((draft / "provenance.json").read_text())["accuracy"] == provenance["accuracy"]
    assert len(read_evaluations(tmp_path / "run")) == 3 * 3
    assert " ".join(f"{a:.3f}" for a in scored[-1].accuracy) in capsys.readouterr().out


@pytest.mark.parametrize(("tokens", "said"), [(10, "1.0 passes"), (100, "10.0 passes")])
def test_a_plan_of_a_few_passes_over_the_text_is_one_line(tokens: int, said: str) -> None:
    (line,) = passes_in_words(tokens, [(9, 2), (8, 3)])  # 6 and 4 tokens to predict
    assert f"{tokens} response tokens to pass: {said} over the 10 of the text" in line


def test_a_plan_that_reads_a_small_text_over_and_over_is_warned_of() -> None:
    plan, warning = passes_in_words(3_000_000, [(229, 1)] * 20)
    assert f"{3_000_000 / (20 * 227):.1f} passes over the 4540 of the text" in plan
    assert "by heart" in warning and "--tokens 13620" in warning


def test_the_plan_is_told_before_the_training(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = command(inputs, tmp_path / "run", *SMALL, "--tokens", "300", "--processes", "1")
    assert main(argv) == 0
    lengths = FeatureStore(tmp_path / "run" / "features" / "train").lengths()
    there = sum(tokens - start - 1 for tokens, start in lengths)
    said = f"300 response tokens to pass: {300 / there:.1f} passes over the {there} of the text."
    assert capsys.readouterr().err.count(said) == 1


def test_held_out_text_that_is_too_short_for_a_later_step_has_no_accuracy_there(
    inputs: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text(to_line(Conversation((1, 2, 3, 4, 5, 6), 4)))
    argv = command(inputs, tmp_path / "run", *SMALL, "--tokens", "300", "--processes", "1")
    assert main([*argv, "--heldout", str(short)]) == 0
    provenance = json.loads((tmp_path / "run" / "draft" / "provenance.json").read_text())
    assert len(provenance["accuracy"]) == 1


def test_a_gpu_that_is_named_is_for_one_process(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = command(inputs, tmp_path, "--processes", "2")
    assert main([*argv, "--device", "cuda:1"]) == 1
    assert "--device cuda:1 is one GPU and 2 processes take one each" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(train_draft, "cores", lambda: 2)
    counts = [train_draft._usual_processes(4, device) for device in (None, "cuda", "cuda:1", "cpu")]
    assert counts == [4, 4, 1, 2]


def test_two_jobs_do_not_write_to_one_folder(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with alone_in(tmp_path):
        assert main(command(inputs, tmp_path, *SMALL, "--processes", "1")) == 1
    assert "another process is writing to" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_train_what_one_trains(inputs: Path, tmp_path: Path) -> None:
    for count in ("1", "2"):
        out = tmp_path / count
        process = started(command(inputs, out, *SMALL, "--tokens", "600", "--processes", count))
        output = process.communicate(timeout=300)
        assert process.returncode == 0, output
    alone, together = (read_eagle3(tmp_path / n / "draft").tensors for n in ("1", "2"))
    for name, tensor in alone.items():
        difference = (tensor.float() - together[name].float()).abs().max()
        assert float(difference) <= 0.02 * float(tensor.float().abs().max()), name
    assert (tmp_path / "2" / "process-1.log").read_text() == ""


@pytest.mark.slow
def test_ctrl_c_stops_every_process_with_a_checkpoint_to_go_on_from(
    inputs: Path, tmp_path: Path
) -> None:
    argv = command(inputs, tmp_path, *SMALL, "--tokens", "100000000", "--processes", "2")
    process = started(argv)
    deadline = time.monotonic() + 300
    while not (tmp_path / "log.csv").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 130, (out, error)
    again_typed = typed(["eagle3_viz", "train", "draft"])
    assert (
        f"Stopped, with a checkpoint. The same command goes on from there: {again_typed}" in error
    )
    assert "Traceback" not in error + (tmp_path / "process-1.log").read_text()
    assert (tmp_path / "checkpoint.safetensors").exists()
    reached = read_log(tmp_path)[-1].tokens
    final = [*argv[: argv.index("--tokens")], "--tokens", str(reached + 500), "--processes", "2"]
    again = started(final)
    output = again.communicate(timeout=300)
    assert again.returncode == 0, output
    steps = [row.step for row in read_log(tmp_path)]
    assert steps == sorted(set(steps))


def test_ctrl_c_while_features_are_made_says_what_is_kept_and_how_to_go_on(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eagle3_viz.cli.training_run.make_features", interrupted)
    argv = command(inputs, tmp_path / "run", *SMALL, "--processes", "1")
    assert main(argv) == 130
    *_, kept, hint = capsys.readouterr().err.splitlines()
    assert kept == "Interrupted. What is finished, features too, is kept."
    assert hint == f"The same command goes on from there: {typed(['eagle3_viz', *argv])}"


def test_eagle1_and_an_independent_model_come_from_the_same_text(
    inputs: Path, tmp_path: Path
) -> None:
    usual = ("--tokens", "300", "--processes", "1")
    assert main(command(inputs, tmp_path / "e1", "--objective", "eagle1", *usual)) == 0
    assert (tmp_path / "e1" / "draft" / "model.safetensors").exists()
    provenance = json.loads((tmp_path / "e1" / "draft" / "provenance.json").read_text())
    assert provenance["training"]["unroll"] == 1
    small = ("--width", "16", "--layers", "1", *usual)
    assert main(command(inputs, tmp_path / "lm", *small, step="independent")) == 0
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "lm" / "draft").config.hidden_size == 16


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--micro-batches", "3", "--processes", "2"], "cannot be shared out over 2 processes"),
        (["--vocabulary", "1000000"], None),
    ],
)
def test_what_cannot_work_is_one_sentence(
    more: list[str],
    said: str | None,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = command(inputs, tmp_path / "out", "--tokens", "300", "--processes", "1", *more)
    if said is None:  # more tokens than the target has: all of them
        assert main(argv) == 0
        draft = read_eagle3(tmp_path / "out" / "draft")
        assert draft.architecture.draft_vocab_size == VOCABULARY_SIZE
        return
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("error:") == 1 and "Traceback" not in error


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--data", "gone.jsonl"], "gone.jsonl cannot be read"),
        (["--data", "."], "cannot be read: Is a directory"),
        (["--data", "empty.jsonl"], "there is no conversation in empty.jsonl"),
        (["--data", "text.jsonl"], "text.jsonl line 1 is not JSON"),
        (["--data", "other.jsonl"], "other.jsonl line 1: ids must be a list of token ids"),
        (["--heldout", "gone.jsonl"], "gone.jsonl cannot be read"),
        (["--start", "nowhere"], "there is no config.json"),
    ],
)
def test_files_that_are_none_are_told_before_anything_is_loaded_or_left(
    more: list[str],
    said: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "text.jsonl").write_text("once upon a time")
    (tmp_path / "other.jsonl").write_text('{"prompt": "why?"}')
    monkeypatch.setattr(
        "eagle3_viz.cli.pair_loading.load_pair", lambda *_, **__: pytest.fail("loaded")
    )
    assert main(command(inputs, tmp_path / "out", "--processes", "1", *more)) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_target_that_is_missing_leaves_nothing_behind(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = command(inputs, tmp_path / "out", "--processes", "1", "--target", "./nowhere")
    assert main(argv) == 1
    assert "There is no folder nowhere" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_processes_of_a_launcher_are_not_counted_twice(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert main(command(inputs, tmp_path / "out", "--processes", "2")) == 1
    assert "--processes 2: a launcher started 4 already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--learning-rate", "0"],
        ["--decay", "2"],
        ["--objective", "eagle9"],
        ["--unroll", "0"],
        ["--tokens", "-1"],
        ["--unroll", "2", "--objective", "eagle1"],
        ["--taps", "three", "--objective", "eagle1"],
        ["--evaluate", "1000"],
        ["--target", ""],
    ],
)
def test_options_without_a_meaning_end_with_status_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["train", "draft", "--out", "o", "--data", "d", *argv])
    assert ended.value.code == 2
    assert argv[0] in capsys.readouterr().err
