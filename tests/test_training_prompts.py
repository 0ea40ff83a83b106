"""Prompt files: the layouts that are in use, and what is said about the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.presets import load_presets
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.prompts import Prompt, read_prompts

ROOT = Path(__file__).resolve().parent.parent


def read(tmp_path: Path, *records: Any, name: str = "p.jsonl") -> list[Prompt]:
    path = tmp_path / name
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_prompts([path])


def test_every_layout_gives_the_first_question_with_its_system_message(tmp_path: Path) -> None:
    system = {"role": "system", "content": "be kind"}
    user, answer = {"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}
    found = read(
        tmp_path,
        {"turns": ["why?", "and then?"], "category": "chat"},
        {"turns": [system, user, answer, user], "domain": "math", "category": "chat"},
        {"messages": [user, answer]},
        {"messages": [{"role": "human", "content": "why?"}], "system": "be kind"},
        {"prompt": "why?", "category": ""},
    )
    assert found == [
        Prompt("why?", "chat"),
        Prompt("why?", "math", "be kind"),
        Prompt("why?", "unknown"),
        Prompt("why?", "unknown", "be kind"),
        Prompt("why?", "unknown"),
    ]


def test_plain_text_is_a_prompt_a_line_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    found = read(tmp_path, "why?", "", '{"prompt": "x"}', "  Grüße  ", name="p.txt")
    assert [prompt.text for prompt in found] == ["why?", '{"prompt": "x"}', "Grüße"]


def test_the_sample_prompts_of_the_project_are_read_with_their_domains() -> None:
    paths = sorted((ROOT / "sample_prompts").glob("*.jsonl"))
    expected = {
        Prompt(preset.prompt, preset.domain, preset.system)
        for group in load_presets().values()
        for preset in group
    }
    assert set(read_prompts(paths)) == expected


def test_the_limit_counts_over_all_files_and_leaves_the_rest_unread(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.jsonl"
    first.write_text("one\ntwo\n")
    second.write_text('{"prompt": "three"}\nnot JSON\n')
    assert [p.text for p in read_prompts([first, second], 3)] == ["one", "two", "three"]
    with pytest.raises(DataError, match=r"b\.jsonl line 2 is not JSON"):
        read_prompts([first, second], 4)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("not JSON", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([1], "must hold an object, found a list"),
        ({"question": "why?"}, "has no turns, messages or prompt"),
        ({"turns": []}, "turns must be a list with at least one turn"),
        ({"turns": "why?"}, "turns must be a list"),
        ({"turns": [3]}, "every entry of turns needs a role"),
        ({"messages": ["why?"]}, "every entry of messages needs a role"),
        ({"messages": [{"role": "assistant", "content": "so"}]}, "begin with a user's turn"),
        ({"messages": [{"role": "user", "content": [1]}]}, "the prompt must be text, found a list"),
        ({"prompt": None}, "the prompt must be text, found null"),
        ({"prompt": "x", "category": " all "}, "is the name of the total"),
        ({"prompt": " \n"}, "the prompt is empty"),
        ({"prompt": "\ud800"}, "half a surrogate pair"),
        ({"prompt": "x" * 100_001}, "more than 100000 characters"),
        ({"prompt": "x", "system": "\udfff"}, "the system message holds half a surrogate"),
    ],
)
def test_a_wrong_line_is_named_with_its_file(tmp_path: Path, record: Any, said: str) -> None:
    with pytest.raises(DataError, match=r"p\.jsonl line 2") as error:
        read(tmp_path, {"prompt": "fine"}, record)
    assert said in str(error.value)


def test_what_is_no_file_no_text_or_empty_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.txt cannot be read"):
        read_prompts([tmp_path / "gone.txt"])
    path = tmp_path / "p.txt"
    path.write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"p\.txt line 2 is not UTF-8"):
        read_prompts([path])
    path.write_bytes(b"\n\n")
    with pytest.raises(DataError, match=r"no prompt in p\.txt"):
        read_prompts([path])


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle3_viz.text_lines.MAX_LINE_BYTES", 100)
    with pytest.raises(DataError, match=r"p\.txt line 1 is longer than 100 bytes"):
        read(tmp_path, "x" * 101, name="p.txt")
    assert len(read(tmp_path, "x" * 100, name="p.txt")) == 1


def test_a_long_domain_is_cut(tmp_path: Path) -> None:
    assert read(tmp_path, {"prompt": "x", "domain": "d" * 200})[0].domain == "d" * 40
