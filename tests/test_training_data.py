"""The data job: what it keeps, and that no crash changes it."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.chat import encode_chat
from eagle3_viz.presets import load_presets
from eagle3_viz.target import TargetModel
from eagle3_viz.text_lines import DataError
from eagle3_viz.training import data as data_module
from eagle3_viz.training.conversations import Conversation, read_conversations
from eagle3_viz.training.data import Outcome, Progress, make_data
from eagle3_viz.training.filters import is_held_out
from eagle3_viz.training.openers import OPENERS
from eagle3_viz.training.prompts import Prompt
from tests.chat_tokenizer import END, NO_SYSTEM, VOCABULARY_SIZE, chat_target
from tests.tiny_models import stock_forward, stock_model

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ("train.jsonl", "heldout.jsonl")


@cache
def target() -> TargetModel:
    return chat_target()


def asked(count: int, seed: int = 0) -> list[Prompt]:
    """Prompts of random words, no two alike."""
    draws = random.Random(seed)
    letters = "abcdefgh"
    texts = [
        " ".join("".join(draws.choices(letters, k=3)) for _ in range(draws.randrange(3, 9)))
        for _ in range(count)
    ]
    return [Prompt(text, f"domain {i % 3}") for i, text in enumerate(texts)]


def make(folder: Path, prompts: list[Prompt] | None = None, **changes: Any) -> Outcome:
    settings: dict[str, Any] = {
        "target_name": "tiny",
        "batch": 3,
        "max_length": 24,
        "holdout_share": 0.25,
    }
    return make_data(target(), folder, prompts=prompts, **(settings | changes))


def results(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in RESULTS]


def conversations(folder: Path, name: str) -> list[Conversation]:
    return read_conversations([folder / name], VOCABULARY_SIZE)


def both(folder: Path) -> list[Conversation]:
    return [c for name in RESULTS for c in conversations(folder, name)]


# What is written


def test_each_prompt_is_answered_once_under_the_template_and_split_by_its_words(
    tmp_path: Path,
) -> None:
    prompts = asked(24)
    outcome = make(tmp_path, prompts)
    found = {c.ids[: c.response_start]: c for c in both(tmp_path)}
    short = outcome.dropped["answers that are too short"]
    assert len(found) == len(both(tmp_path)) == 24 - short
    for name, held_out in zip(RESULTS, (False, True), strict=True):
        for conversation in conversations(tmp_path, name):
            (prompt,) = (
                p
                for p in prompts
                if tuple(encode_chat(target().tokenizer, p.text))
                == conversation.ids[: conversation.response_start]
            )
            assert is_held_out(prompt.text, 0.25) is held_out
            assert conversation.domain == prompt.domain
    assert (outcome.train, outcome.held_out) == tuple(
        len(conversations(tmp_path, name)) for name in RESULTS
    )
    assert outcome.train > outcome.held_out > 0
    assert outcome.tokens.total() == sum(c.response_tokens for c in both(tmp_path))
    assert outcome.finishes.total() == 24


def test_answers_end_as_they_say(tmp_path: Path) -> None:
    make(tmp_path, asked(24))
    finishes = set()
    for c in both(tmp_path):
        response = c.ids[c.response_start :]
        finishes.add(c.finish)
        assert (response[-1] == END) is (c.finish == "eos")
        assert END not in response[:-1]
        assert (len(response) == 24) is (c.finish == "len") or c.finish == "eos"
        assert 4 <= len(response) <= 24
    assert {"eos", "len"} <= finishes


def test_four_of_seven_answers_are_greedy_and_those_are_the_targets_arg_max(
    tmp_path: Path,
) -> None:
    make(tmp_path, asked(140), batch=16, max_length=6)
    found = both(tmp_path)
    temperatures = [c.temperature for c in found]
    assert {*temperatures} == {0.0, 0.5, 0.7, 1.0}
    assert temperatures.count(0.0) / len(found) == pytest.approx(4 / 7, abs=0.13)
    stock = stock_model(target())
    for c in [c for c in found if c.temperature == 0.0][:10]:
        top = stock_forward(stock, c.ids)[0].argmax(-1)
        assert top[c.response_start - 1 : -1].tolist() == list(c.ids[c.response_start :])


def test_the_targets_own_questions_are_balanced_over_the_domains(tmp_path: Path) -> None:
    outcome = make(tmp_path, None, count=28, batch=8)
    tokenizer = target().tokenizer
    for c in both(tmp_path):
        text = tokenizer.decode(c.ids[: c.response_start])
        question = text.split("[user]")[1].removesuffix("<|end|>[assistant]")
        assert question.startswith(tuple(opener.strip() for opener in OPENERS[c.domain]))
    assert len(both(tmp_path)) + outcome.dropped.total() == 28
    assert outcome.train > 7


# What is left out


def test_evaluation_prompts_and_near_duplicates_are_left_out(tmp_path: Path) -> None:
    sample = load_presets()["chat"][0].prompt
    prompts = asked(6)
    twice = Prompt(prompts[0].text.upper() + "!", "loud")
    outcome = make(tmp_path, [*prompts, twice, Prompt(f"{sample} Thanks!")])
    assert outcome.dropped["near-duplicates"] == 1
    assert outcome.dropped["close to a sample prompt"] == 1
    assert "loud" not in {c.domain for c in both(tmp_path)}


def test_prompts_that_the_context_or_the_template_cannot_take_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [*asked(6), Prompt("long " * 200)]
    assert make(tmp_path / "a", prompts).dropped["prompts that are too long"] == 1
    monkeypatch.setattr(target().tokenizer, "chat_template", NO_SYSTEM)
    with_system = [*asked(6), Prompt("one two three", system="be kind")]
    assert make(tmp_path / "b", with_system).dropped["refused by the chat template"] == 1


def test_long_prompts_are_answered_in_a_class_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots for longer texts take no more memory, and the answers stay the same."""
    prompts = asked(40)
    make(tmp_path / "a", prompts)
    slots = []
    monkeypatch.setattr(data_module, "LENGTH_CLASSES", (36, 45, 4096))
    monkeypatch.setattr(data_module, "MAX_QUESTION_TOKENS", 0)
    generate = data_module.generate

    def watched(*args: Any, **options: Any) -> Iterator[Any]:
        slots.append((options["slots"], options["capacity"]))
        return generate(*args, **options)

    monkeypatch.setattr(data_module, "generate", watched)
    make(tmp_path / "b", prompts, batch=9)
    assert results(tmp_path / "a") == results(tmp_path / "b")
    assert all(most[1] <= bound for most, bound in zip(slots, (60, 69, 4120), strict=True))
    assert slots[0][0] == 9 > slots[2][0] > 1
    assert all(count * capacity <= 9 * (36 + 24) for count, capacity in slots)


def test_nothing_to_ask_and_nothing_left_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to ask"):
        make(tmp_path / "a", [])
    with pytest.raises(DataError, match=r"nothing is left to train on.*all of it was held out"):
        make(tmp_path / "b", asked(3), holdout_share=1.0)
    assert not (tmp_path / "b" / "train.jsonl").exists()


# Crashes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with its own questions that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    make(folder, None, count=14)
    return folder


class Killed(Exception):
    pass


@pytest.mark.parametrize("calls", [1, 5, 13, 17, 20])
def test_a_job_that_stops_anywhere_and_goes_on_writes_the_same_files(
    calls: int, whole: Path, tmp_path: Path
) -> None:
    left = calls

    def stop(progress: Progress) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    with pytest.raises(Killed):
        make(tmp_path, None, count=14, report=stop)
    assert not (tmp_path / "train.jsonl").exists()
    made_before = {
        name: (tmp_path / name).read_bytes()
        for name in ("questions.journal", "answers.journal")
        if (tmp_path / name).exists()
    }
    make(tmp_path, None, count=14)
    assert results(tmp_path) == results(whole)
    for name, content in made_before.items():  # nothing was made a second time
        assert (tmp_path / name).read_bytes().startswith(content)


@pytest.mark.parametrize("name", ["questions.journal", "answers.journal"])
@pytest.mark.parametrize("part", [0.0, 0.31, 0.62, 0.999])
def test_a_journal_torn_at_any_byte_is_mended(
    name: str, part: float, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(whole, folder)
    os.truncate(folder / name, int(part * (folder / name).stat().st_size))
    (folder / "train.jsonl").unlink()
    make(folder, None, count=14)
    assert results(folder) == results(whole)
    indices = [json.loads(line)["index"] for line in (folder / name).read_bytes().splitlines()]
    assert len(indices) == len({*indices})


def test_a_finished_job_run_again_decodes_nothing_and_writes_the_same(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = results(whole)
    monkeypatch.setattr(data_module, "generate", None)
    make(whole, None, count=14)
    assert results(whole) == before


def test_a_damaged_line_in_the_middle_is_named(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(whole, folder)
    path = folder / "answers.journal"
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (b"{}\n", lines[0], b'{"index":1,"finish":"eos","tokens":[999999]}\n'):
        path.write_bytes(b"".join([*lines[:2], damaged, *lines[3:]]))
        with pytest.raises(DataError, match=r"answers\.journal line 3 is damaged"):
            make(folder, None, count=14)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch": 4}, "batch 3 instead of 4"),
        ({"seed": 1}, "seed 0 instead of 1"),
        ({"count": 15}, "count 14 instead of 15"),
        ({"max_length": 30}, "max_length 24 instead of 30"),
        ({"target_name": "other"}, "target 'tiny' instead of 'other'"),
        ({"holdout_share": 0.5}, "holdout_share 0.25 instead of 0.5"),
        ({"prompts": asked(14)}, "prompts 'written by the target' instead of"),
    ],
)
def test_another_job_in_the_same_folder_is_refused_with_what_differs(
    changes: dict[str, Any], said: str, whole: Path
) -> None:
    before = results(whole)
    with pytest.raises(DataError, match=said):
        make(whole, **({"prompts": None, "count": 14} | changes))
    assert results(whole) == before


def test_results_from_elsewhere_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("precious")
    with pytest.raises(DataError, match=r"holds train\.jsonl from elsewhere"):
        make(tmp_path, asked(3))
    assert (tmp_path / "train.jsonl").read_text() == "precious"


def test_two_jobs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    def second(progress: Progress) -> None:
        with pytest.raises(DataError, match="another process is writing"):
            make(tmp_path, asked(8))

    make(tmp_path, asked(8), report=second)
