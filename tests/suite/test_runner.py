"""A suite on a tiny real pair: what is run, in which order, and what a stop leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from eagle3_viz import trace_file
from eagle3_viz.config import DecodeConfig, Sampling
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.run import run
from eagle3_viz.suite import runner
from eagle3_viz.suite.manifest import MANIFEST, read_manifest
from eagle3_viz.suite.plan import Plan, settings_of, trace_path
from eagle3_viz.suite.results import read_results
from eagle3_viz.suite.runner import Outcome, answer, run_suite
from eagle3_viz.text_lines import DataError
from eagle3_viz.trace import Trace
from tests.chat_tokenizer import NO_SYSTEM
from tests.test_run import pair, tokenizer

COMMAND = ("eagle3_viz", "suite")
SETS = (
    PromptSet("a", (Prompt("1", "x", ("Why?", "And?")), Prompt("2", "x", ("How?",)))),
    PromptSet("b", (Prompt("1", "y", ("Who?",)),)),
)
SETTINGS = settings_of(["ar", "eagle3"], max_new_tokens=9)
PLAN = Plan(SETS, SETTINGS)
PLACES = [
    (one.name, prompt.id, turn, setting)
    for one in SETS
    for prompt in one.prompts
    for turn in range(1, len(prompt.turns) + 1)
    for setting in SETTINGS
]


class Runs:
    """Stands in for `run.run`; counts the runs, and raises `error` in the middle of one."""

    def __init__(self, stop_at: int = -1, error: BaseException | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.stop_at, self.error = stop_at, error

    def __call__(
        self, pair: LoadedPair, prompt: str, config: DecodeConfig, **more: Any
    ) -> Iterator[Trace]:
        if config.max_new_tokens == runner.WARM_UP_TOKENS:
            yield from run(pair, prompt, config, **more)
            return
        self.asked.append((prompt, config.method))
        for trace in run(pair, prompt, config, **more):
            if len(self.asked) == self.stop_at and trace.cycles and self.error is not None:
                raise self.error
            yield trace


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs()
    monkeypatch.setattr(runner, "run", made)
    return made


def made_in(folder: Path, plan: Plan = PLAN, **more: Any) -> Outcome:
    return run_suite(pair(), plan, folder, command=COMMAND, **more)


def traces(folder: Path) -> dict[str, Trace]:
    return {
        str(path.relative_to(folder)): trace_file.load(path)
        for path in sorted(folder.rglob("*.parquet"))
    }


def texts(folder: Path) -> dict[str, tuple[int, ...]]:
    return {name: trace.tokens for name, trace in traces(folder).items()}


def test_methods_alternate_on_every_prompt_and_turn_and_the_first_one_changes(
    tmp_path: Path, runs: Runs
) -> None:
    seen: list[tuple[int, int]] = []
    outcome = made_in(tmp_path, report=lambda done, total: seen.append((done, total)))
    assert runs.asked == [
        *(("Why?", "ar"), ("Why?", "eagle3"), ("And?", "ar"), ("And?", "eagle3")),
        *(("How?", "eagle3"), ("How?", "ar")),
        *(("Who?", "ar"), ("Who?", "eagle3")),
    ]
    assert seen == [(done, 8) for done in range(9)]
    assert (outcome.made, outcome.found, outcome.skipped) == (8, 0, {})
    assert {tmp_path / name for name in traces(tmp_path)} == {
        trace_path(tmp_path, *place) for place in PLACES
    }
    assert len(read_results(tmp_path).runs) == 8


def test_a_later_turn_goes_on_with_the_settings_own_answer(tmp_path: Path) -> None:
    settings = settings_of(["ar", "eagle3"], max_new_tokens=9, samplings=[Sampling(1.0)])
    made_in(tmp_path, Plan(SETS, settings))
    said = []
    for setting in settings:
        first, second = (
            trace_file.load(trace_path(tmp_path, "a", "1", turn, setting)) for turn in (1, 2)
        )
        said.append(answer(first))
        context = b"".join(second.token_bytes[i] for i in second.header.prompt_ids).decode()
        assert context == f"[user]Why?[assistant]{said[-1]}[user]And?[assistant]"
        assert second.header.prompt == "And?"
    assert said[0] != said[1], "at temperature 1 the two methods draw other texts"


def test_an_answer_is_the_text_without_the_end_of_sequence(tmp_path: Path) -> None:
    made_in(tmp_path)
    trace = traces(tmp_path)["traces/b/1.1.ar.parquet"]
    assert answer(trace) == trace.text
    trace.cycles[-1] = replace(trace.cycles[-1], finish="eos")
    written = b"".join(trace.token_bytes[token] for token in trace.tokens[:-1])
    assert answer(trace) == written.decode("utf-8", "replace")


def test_the_text_of_a_greedy_method_is_that_of_autoregression(tmp_path: Path) -> None:
    made_in(tmp_path)
    found = texts(tmp_path)
    for name, tokens in found.items():
        assert tokens == found[name.replace("eagle3", "ar")]


def test_a_finished_suite_is_not_run_again(tmp_path: Path, runs: Runs) -> None:
    made_in(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    runs.asked.clear()
    outcome = made_in(tmp_path)
    assert runs.asked == []
    assert (outcome.made, outcome.found) == (0, 8)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FloatingPointError("NaN")])
@pytest.mark.parametrize("stop_at", [1, 4, 8])
def test_a_stop_in_the_middle_of_a_run_costs_that_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, stop_at: int
) -> None:
    made_in(tmp_path / "whole")
    monkeypatch.setattr(runner, "run", Runs(stop_at, error))
    with pytest.raises(type(error)):
        made_in(tmp_path / "stopped")
    assert len(traces(tmp_path / "stopped")) == stop_at - 1
    again = Runs()
    monkeypatch.setattr(runner, "run", again)
    seen: list[tuple[int, int]] = []
    made_in(tmp_path / "stopped", report=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 8) for done in range(stop_at - 1, 9)]
    assert len(again.asked) == 8 - (stop_at - 1)
    assert texts(tmp_path / "stopped") == texts(tmp_path / "whole")
    assert not list(tmp_path.rglob("*.tmp"))


def test_prompts_may_be_added_and_only_they_are_run(tmp_path: Path, runs: Runs) -> None:
    made_in(tmp_path, Plan(SETS[:1], SETTINGS))
    runs.asked.clear()
    made_in(tmp_path)
    assert runs.asked == [("Who?", "ar"), ("Who?", "eagle3")]
    assert len(read_manifest(tmp_path).prompts) == 3


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Plan(SETS[:1], SETTINGS), "with the prompt b/1, which is missing"),
        (
            Plan(
                (PromptSet("a", (*SETS[0].prompts[:1], Prompt("2", "x", ("Ho?",)))), SETS[1]),
                SETTINGS,
            ),
            "with the prompt a/2, which is missing or changed",
        ),
        (Plan(SETS, settings_of(["ar"], max_new_tokens=9)), "with the setting 'eagle3'"),
        (
            Plan(SETS, settings_of(["ar", "eagle3"], max_new_tokens=8)),
            "with max_new_tokens 9 instead of 8 in 'ar'",
        ),
    ],
)
def test_a_folder_of_another_plan_is_left_alone(tmp_path: Path, plan: Plan, said: str) -> None:
    made_in(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=f"was begun {said}"):
        made_in(tmp_path, plan)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_run_under_other_circumstances_is_not_taken_for_this_one(tmp_path: Path) -> None:
    made_in(tmp_path)
    path = trace_path(tmp_path, "a", "2", 1, "eagle3")
    trace = trace_file.load(path)
    trace.header = replace(trace.header, dtype="bfloat16", threads=77)
    trace_file.save(trace, path)
    with pytest.raises(DataError, match=r"2\.1\.eagle3\.parquet differs .* dtype and threads"):
        made_in(tmp_path)
    assert trace_file.load(path).header.threads == 77


def test_when_and_from_where_a_run_was_made_does_not_make_it_another(tmp_path: Path) -> None:
    made_in(tmp_path)
    path = trace_path(tmp_path, "a", "2", 1, "eagle3")
    trace = trace_file.load(path)
    assert trace.header.argv == COMMAND
    changes = {"argv": ("x",), "git_commit": "0" * 40, "dtype_reason": "float32: measured"}
    trace.header = replace(trace.header, **changes)
    trace_file.save(trace, path)
    assert made_in(tmp_path).found == 8


def test_a_trace_without_its_end_or_damaged_is_named_and_kept(tmp_path: Path) -> None:
    made_in(tmp_path)
    path = trace_path(tmp_path, "a", "1", 1, "ar")
    whole = path.read_bytes()
    trace = trace_file.load(path)
    del trace.cycles[-1]
    trace_file.save(trace, path)
    with pytest.raises(DataError, match=r"1\.1\.ar\.parquet ends in the middle of its run"):
        made_in(tmp_path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"1\.1\.ar\.parquet: .* delete the file to run it again"):
        made_in(tmp_path)
    path.unlink()
    assert made_in(tmp_path).made == 1


def test_a_prompt_that_does_not_fit_is_skipped_under_every_setting(
    tmp_path: Path, runs: Runs
) -> None:
    long = Prompt("long", "x", ("Why?", "x" * 600))
    seen: list[tuple[int, int]] = []
    plan = Plan((PromptSet("a", (long, SETS[0].prompts[1])),), SETTINGS)
    outcome = made_in(tmp_path, plan, report=lambda done, total: seen.append((done, total)))
    assert list(outcome.skipped) == ["a/long"]
    assert "the context takes 1 to 511" in outcome.skipped["a/long"]
    assert seen[0] == (0, 6)
    assert seen[-1] == (4, 4)
    assert read_results(tmp_path).incomplete == ("a/long",)
    assert set(read_results(tmp_path).runs.prompt) == {"2"}


def test_a_prompt_that_the_chat_template_refuses_is_skipped(tmp_path: Path) -> None:
    backend = tokenizer().backend_tokenizer
    strict = PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=NO_SYSTEM)
    kind = Prompt("1", "x", ("Why?",), "be kind")
    plan = Plan(
        (PromptSet("a", (kind, SETS[0].prompts[1])),), settings_of(["ar"], max_new_tokens=9)
    )
    outcome = run_suite(replace(pair(), tokenizer=strict), plan, tmp_path, command=COMMAND)
    assert "refused the conversation" in outcome.skipped["a/1"]
    assert outcome.made == 1


def test_a_method_without_a_draft_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="method 'independent' needs a draft"):
        made_in(tmp_path / "new", Plan(SETS, settings_of(["ar", "independent"])))
    assert not (tmp_path / "new").exists()


def test_every_setting_is_warmed_up_once_and_that_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, int]] = []

    def counted(pair: LoadedPair, prompt: str, config: DecodeConfig, **more: Any) -> Any:
        made.append((config.method, config.max_new_tokens))
        return run(pair, prompt, config, **more)

    monkeypatch.setattr(runner, "run", counted)
    made_in(tmp_path)
    assert made[:2] == [("ar", runner.WARM_UP_TOKENS), ("eagle3", runner.WARM_UP_TOKENS)]
    assert {tokens for _, tokens in made[2:]} == {9}
    made.clear()
    made_in(tmp_path)
    assert made == []


def test_the_same_seed_draws_the_same_texts_and_another_one_others(tmp_path: Path) -> None:
    def sampled(name: str, seed: int) -> dict[str, tuple[int, ...]]:
        settings = settings_of(
            ["ar", "eagle3"], max_new_tokens=9, samplings=[Sampling(1.0)], seed=seed
        )
        made_in(tmp_path / name, Plan(SETS, settings))
        return texts(tmp_path / name)

    first = sampled("a", 1)
    assert sampled("b", 1) == first
    assert sampled("c", 2) != first


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    def again(done: int, total: int) -> None:
        with pytest.raises(DataError, match="another process is writing"):
            made_in(tmp_path)

    made_in(tmp_path, Plan(SETS[1:], SETTINGS), report=again)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not JSON", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "not the manifest of a suite"),
        ('{"format": "eagle3_viz suite", "format_version": 9}', "found the number 9"),
        ('{"format": "eagle3_viz suite", "format_version": 1}', "is damaged"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=said):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"turns": 0}, {"turns": True}, {"turns": 99}, {"id": ""}, {"set": "all"}, {"sha256": 1}],
)
def test_a_prompt_of_a_manifest_that_is_damaged_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    made_in(tmp_path, Plan(SETS[1:], SETTINGS))
    content = json.loads((tmp_path / MANIFEST).read_text())
    content["prompts"][0] |= changes
    (tmp_path / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"a prompt needs|is damaged"):
        read_manifest(tmp_path)


def test_traces_without_a_manifest_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    with pytest.raises(DataError, match=r"has traces but no suite\.json"):
        made_in(tmp_path)
