"""`decode` on the command line: what it shows, what it saves, how it ends."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.cli.main import main
from eagle3_viz.config import DecodeConfig
from eagle3_viz.drafts.adversarial import LeastLikelyDraft, RandomDraft
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.records import Finish
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import load
from tests.fake_terminal import Terminal
from tests.replayed_runs import LOOKUP, PAIR, Made, by_method, replayed
from tests.synthetic import make_trace

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put made-up runs in the place of the pair and the decoding loop."""

    def use(made: Made = by_method, fails: BaseException | None = None) -> None:
        monkeypatch.setattr("eagle3_viz.cli.pair_loading.load_pair", lambda *_, **__: PAIR)
        monkeypatch.setattr("eagle3_viz.cli.decode.run", replayed(made, fails))

    return use


def with_bytes(trace: Trace, table: dict[int, bytes]) -> Trace:
    return replace(trace, token_bytes=trace.token_bytes | table)


# What is decoded


def test_the_text_goes_to_standard_output_and_the_numbers_to_standard_error(
    decodes: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = by_method(DecodeConfig(record="off"))
    plain = {token: f"t{token} ".encode() for token in trace.token_bytes}
    decodes(lambda config: with_bytes(by_method(config), plain))
    assert main(["decode", "prompt"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "".join(f"t{token} " for token in trace.tokens) + "\n"
    uncut = [len(cycle.tokens) for cycle in trace.cycles if not cycle.cut]
    assert f"{sum(uncut) / len(uncut):.2f} tokens per cycle" in shown.err
    assert "the token limit is reached" in shown.err
    for phase in ("draft", "tree", "verify", "accept", "commit"):
        assert f"{phase} " in shown.err


@pytest.mark.parametrize(("finish", "shown"), [("eos", False), ("stop", True)])
def test_the_end_of_sequence_is_not_printed_and_a_stop_string_is(
    finish: Finish,
    shown: bool,
    decodes: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = make_trace(cycles=4, finish=finish)
    last = trace.tokens[-1]
    assert last not in trace.tokens[:-1]
    decodes(lambda config: with_bytes(trace, {last: b"<THE-END>"}))
    assert main(["decode", "prompt"]) == 0
    assert ("<THE-END>" in capsys.readouterr().out) is shown


def test_what_the_model_writes_cannot_drive_the_terminal(
    decodes: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = make_trace(cycles=4)
    hostile = "\x1b]0;title\x07\x9b2J\r\u202e\u2066\u2028 a\n\tb é".encode()
    decodes(lambda config: with_bytes(trace, {trace.tokens[0]: hostile}))
    assert main(["decode", "prompt"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("␛]0;title␇⟨U+009B⟩2J␍⟨U+202E⟩⟨U+2066⟩⟨U+2028⟩ a\n\tb é")


def test_on_a_terminal_tokens_are_coloured_by_origin(
    decodes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    decodes()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["decode", "prompt"]) == 0
    trace = by_method(DecodeConfig(record="off"))
    drafted = any(cycle.accepted for cycle in trace.cycles)
    assert ("\x1b[32m" in terminal.getvalue()) is drafted is True
    assert "\x1b[35m" in terminal.getvalue()


def test_no_color_keeps_a_terminal_plain(
    decodes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    decodes()
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["decode", "prompt"]) == 0
    assert "\x1b" not in terminal.getvalue()


def test_a_dash_reads_the_prompt_from_standard_input(
    decodes: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    decodes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Grüße\nzwei\n".encode())))
    assert main(["decode", "-", "--trace", str(tmp_path / "a.parquet")]) == 0
    assert load(tmp_path / "a.parquet").header.prompt == "Grüße\nzwei"


@pytest.mark.parametrize(
    ("data", "said"), [(b"", "is empty"), (b" \n", "is empty"), (b"ab\xff", "UTF-8 (byte 3)")]
)
def test_a_prompt_that_is_no_text_is_refused_before_a_pair_is_loaded(
    data: bytes, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "eagle3_viz.cli.pair_loading.load_pair", lambda *_, **__: pytest.fail("loaded")
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["decode", "-"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: the prompt ")
    assert said in error


def test_every_model_named_reaches_the_loading(
    decodes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def load_pair(name: str | None, *, target: str | None, drafts: list[str], **_: Any) -> Any:
        asked.append((name, target, drafts))
        return PAIR

    decodes()
    monkeypatch.setattr("eagle3_viz.cli.pair_loading.load_pair", load_pair)
    own = ["--target", "a", "--draft", "b", "--draft", "c"]
    assert main(["decode", "hi", *own]) == main(["decode", "hi", "--pair", "p"]) == 0
    assert asked == [(None, "a", ["b", "c"]), ("p", None, [])]


@pytest.mark.parametrize(
    ("kind", "expected"), [("random", RandomDraft), ("least-likely", LeastLikelyDraft)]
)
def test_a_draft_bad_on_purpose_replaces_the_one_of_the_method_and_says_so(
    kind: str, expected: type, decodes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[LoadedPair] = []

    def run(pair: LoadedPair, *rest: Any, **options: Any) -> Iterator[Trace]:
        ran.append(pair)
        return replayed(by_method)(pair, *rest, **options)

    decodes()
    monkeypatch.setattr("eagle3_viz.cli.decode.run", run)
    assert main(["decode", "hi", "--draft-kind", kind]) == 0
    (pair,) = ran
    bad = pair.draft_for("eagle3")
    assert bad is not None
    assert isinstance(bad.draft, expected)
    assert bad.source.name == f"a draft ({kind})"
    assert pair.draft_for("lookup") is LOOKUP


# What is saved


def test_a_trace_file_holds_the_run_and_no_folder_of_this_machine(
    decodes: Callable[..., None], tmp_path: Path
) -> None:
    decodes()
    target, draft, path = tmp_path / "my-target", tmp_path / "mine", tmp_path / "run.parquet"
    target.mkdir()
    draft.mkdir()
    argv = ["decode", "hello", f"--target={target}", "--draft", "owner/draft"]
    assert main([*argv, "--draft", str(draft), "--trace", str(path)]) == 0
    trace = load(path)
    assert trace.tokens == by_method(DecodeConfig()).tokens
    assert trace.cycles[0].distributions
    assert trace.header.argv == (
        *("eagle3_viz", "decode", "hello", "--target=my-target", "--draft", "owner/draft"),
        *("--draft", "mine", "--trace", "run.parquet"),
    )


def test_an_interrupt_saves_what_was_decoded_and_ends_with_130(
    decodes: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decodes(fails=KeyboardInterrupt())
    path = tmp_path / "run.parquet"
    assert main(["decode", "hello", "--trace", str(path)]) == 130
    trace = load(path)
    assert (len(trace.cycles), trace.finish) == (3, None)
    assert "interrupted" in capsys.readouterr().err


def test_a_run_that_fails_is_one_sentence_and_keeps_what_was_decoded(
    decodes: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decodes(fails=RuntimeError("the device\x1b[2J is gone\nat line 3"))
    path = tmp_path / "run.parquet"
    assert main(["decode", "hello", "--trace", str(path)]) == 1
    assert len(load(path).cycles) == 3
    assert capsys.readouterr().err.endswith("error: the device␛[2J is gone\n")


def test_arithmetic_that_fails_is_one_sentence(
    decodes: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    decodes(fails=FloatingPointError("the logits hold NaN"))
    assert main(["decode", "hello"]) == 1
    assert capsys.readouterr().err.endswith("error: the logits hold NaN\n")


def test_a_trace_that_cannot_be_saved_does_not_cost_the_numbers(
    decodes: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    decodes()
    monkeypatch.setattr("eagle3_viz.trace_file.os.fsync", full)
    path = tmp_path / "run.parquet"
    assert main(["decode", "hello", "--trace", str(path)]) == 1
    numbers, _, failure = capsys.readouterr().err.rpartition("error: ")
    assert "tokens per cycle" in numbers
    assert "saved as" in numbers
    assert failure == f"the trace could not be saved as {path}: No space left on device\n"


def test_a_run_and_its_save_that_both_fail_are_both_told(
    decodes: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    decodes(fails=RuntimeError("the device is gone"))
    monkeypatch.setattr("eagle3_viz.cli.decode.save", full)
    assert main(["decode", "hello", "--trace", str(tmp_path / "a.parquet")]) == 1
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert error.endswith("error: the device is gone\n")


def test_a_place_that_cannot_be_written_is_told_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "eagle3_viz.cli.pair_loading.load_pair", lambda *_, **__: pytest.fail("loaded")
    )
    assert main(["decode", "hello", "--trace", str(tmp_path)]) == 1
    assert main(["decode", "hello", "--trace", str(tmp_path / "no" / "a.parquet")]) == 1
    assert capsys.readouterr().err.count("error: ") == 2


def test_a_trace_over_a_pipe_or_a_dangling_place_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "eagle3_viz.cli.pair_loading.load_pair", lambda *_, **__: pytest.fail("loaded")
    )
    pipe, lost = tmp_path / "pipe", tmp_path / "lost"
    os.mkfifo(pipe)
    lost.symlink_to(tmp_path / "no" / "a.parquet")
    assert main(["decode", "hello", "--trace", str(pipe)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: --trace {pipe}: ")
    assert "regular file" in error
    assert pipe.is_fifo()
    assert main(["decode", "hello", "--trace", str(lost)]) == 1
    assert "does not exist" in capsys.readouterr().err


# The comparison


def test_a_comparison_measures_autoregression_and_puts_it_into_the_trace(
    decodes: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decodes()
    path = tmp_path / "run.parquet"
    assert main(["decode", "hello", "--compare", "--trace", str(path)]) == 0
    ar = by_method(DecodeConfig(method="ar", record="off"))
    baseline = load(path).header.baseline
    assert baseline is not None
    mean = sum(cycle.timing.total for cycle in ar.cycles) / len(ar.cycles)
    assert baseline.ms_per_token == pytest.approx(mean)
    assert baseline.tokens == len(ar.cycles)
    error = capsys.readouterr().err
    speculated = by_method(DecodeConfig(record="full"))
    kept = sum(len(cycle.tokens) for cycle in speculated.cycles)
    each = sum(cycle.timing.total for cycle in speculated.cycles) / kept
    assert f"{mean / each:.2f}x" in error
    assert "The texts are equal" in error


# The real pair


@pytest.mark.slow
def test_the_real_pair_decodes_the_text_of_autoregression_in_float32(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.parquet"
    argv = ["decode", "Name three colours.", "--max-new-tokens", "20", "--dtype", "float32"]
    assert main([*argv, "--compare", "--trace", str(path)]) == 0
    shown = capsys.readouterr()
    trace = load(path)
    assert "The texts are equal" in shown.err
    assert trace.header.baseline is not None
    assert shown.out.rstrip("\n") == trace.text.removesuffix("<|im_end|>").rstrip("\n")


@pytest.mark.slow
def test_ctrl_c_in_a_real_run_leaves_a_readable_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    command = [sys.executable, "-m", "eagle3_viz", "decode", "Write a long essay on rivers."]
    with subprocess.Popen(
        [*command, "--max-new-tokens", "2000", "--trace", str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # a test run in the background of a shell hands down an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    trace = load(path)
    assert trace.cycles
    assert trace.finish is None
