"""The sample prompts that ship, and the loader's refusals."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.presets import DOMAINS, Preset, PresetError, load_presets

PASSAGE_DOMAINS = ("summarization", "extraction")


def row(name: str, number: int = 1, /, **changes: Any) -> dict[str, Any]:
    fields = {
        "id": f"{name}-{number:02d}",
        "domain": name,
        "title": "A title",
        "prompt": "A prompt",
        "expected_length": 32,
    }
    return {**fields, **changes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for domain in DOMAINS:
        write(tmp_path, domain, row(domain, 1), row(domain, 2))
    return tmp_path


def write(folder: Path, domain: str, *rows: Any) -> None:
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rows]
    (folder / f"{domain}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def shipped() -> list[Preset]:
    return [preset for presets in load_presets().values() for preset in presets]


def test_every_domain_ships_at_least_twelve_prompts_in_the_documented_order() -> None:
    presets = load_presets()
    assert tuple(presets) == DOMAINS
    assert all(len(prompts) >= 12 for prompts in presets.values())


def test_shipped_ids_number_their_domain_without_gaps() -> None:
    for domain, prompts in load_presets().items():
        expected = [f"{domain}-{number:02d}" for number in range(1, len(prompts) + 1)]
        assert [preset.id for preset in prompts] == expected


def test_shipped_prompts_and_titles_are_distinct() -> None:
    presets = shipped()
    assert len({preset.prompt for preset in presets}) == len(presets)
    assert len({preset.title for preset in presets}) == len(presets)


def test_shipped_answers_are_expected_to_have_32_to_256_tokens() -> None:
    assert all(32 <= preset.expected_length <= 256 for preset in shipped())


@pytest.mark.parametrize("domain", PASSAGE_DOMAINS)
def test_prompts_about_a_passage_carry_80_to_200_words_of_it(domain: str) -> None:
    for preset in load_presets()[domain]:
        task, passage = preset.prompt.split("\n\n", 1)
        assert task.strip()
        assert 80 <= len(passage.split()) <= 200, preset.id


def test_shipped_prompts_cover_tabs_emoji_and_several_languages() -> None:
    text = "".join(preset.prompt for preset in shipped())
    assert "\t" in text
    assert any(ord(character) > 0xFFFF for character in text)
    assert {"ñ", "ß", "ç"} & set(text) and {"¿", "ü"} <= set(text)


def test_shipped_prompts_hold_no_control_characters_but_newline_and_tab() -> None:
    for preset in shipped():
        for character in preset.prompt + preset.title + (preset.system or ""):
            assert character in "\n\t" or unicodedata.category(character) != "Cc", preset.id


def test_a_preset_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        shipped()[0].prompt = "other"  # type: ignore[misc]


def test_a_line_becomes_a_preset_with_the_same_values(folder: Path) -> None:
    write(folder, "math", row("math", 1, prompt="1\t+ 1 = 🤔\nsure?", system="Be brief."))
    expected = Preset("math-01", "math", "A title", "1\t+ 1 = 🤔\nsure?", 32, "Be brief.")
    assert load_presets(folder)["math"] == (expected,)


def test_a_line_separator_inside_a_prompt_does_not_end_the_line(folder: Path) -> None:
    line = json.dumps(row("chat", prompt="one\u2028two"), ensure_ascii=False)
    write(folder, "chat", line)
    assert load_presets(folder)["chat"][0].prompt == "one\u2028two"


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "code.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"code\.jsonl"):
        load_presets(folder)


WRONG_LINES = {
    "bad json": ('{"id": "chat-02",', "not a line of JSON"),
    "blank line": ("", "not a line of JSON"),
    "deep nesting": ("[" * 100_000, "not a line of JSON"),
    "not an object": ("[1, 2]", "expected a JSON object, found list"),
    "missing fields": (
        {"id": "chat-02", "domain": "chat", "prompt": "x"},
        "missing title, expected",
    ),
    "unknown field": (row("chat", 2, promt="x"), "unknown promt"),
    "wrong domain": (row("chat", 2, domain="code"), "domain is 'code', expected 'chat'"),
    "duplicate id": (row("chat", 1), r"'chat-01' is already used at .*chat\.jsonl:1"),
    "long prompt": (row("chat", 2, prompt="x" * 8001), "prompt has 8001 characters, at most 8000"),
    "long system": (row("chat", 2, system="x" * 8001), "system has 8001 characters, at most 8000"),
    "long title": (row("chat", 2, title="x" * 41), "title has 41 characters, at most 40"),
    "empty prompt": (row("chat", 2, prompt=" \n"), "prompt is empty"),
    "number as prompt": (row("chat", 2, prompt=7), "prompt must be text, found int"),
    "half a surrogate pair": (row("chat", 2, prompt="\ud83d"), "half a surrogate pair"),
    "null system": (row("chat", 2, system=None), "system must be text, found NoneType"),
    "text as length": (row("chat", 2, expected_length="64"), "must be a whole number, found '64'"),
    "boolean as length": (
        row("chat", 2, expected_length=True),
        "must be a whole number, found True",
    ),
    "no length": (row("chat", 2, expected_length=0), "must be 1 to 4096 tokens, found 0"),
}


@pytest.mark.parametrize(("line", "message"), WRONG_LINES.values(), ids=WRONG_LINES.keys())
def test_a_wrong_line_is_refused_with_its_file_and_number(
    folder: Path, line: Any, message: str
) -> None:
    write(folder, "chat", row("chat", 1), line, row("chat", 3))
    with pytest.raises(PresetError, match=rf"chat\.jsonl:2: .*{message}"):
        load_presets(folder)


def test_an_id_used_in_two_domains_is_refused(folder: Path) -> None:
    write(folder, "creative", row("creative", 1, id="chat-02"))
    with pytest.raises(PresetError, match=r"creative\.jsonl:1: .*chat\.jsonl:2"):
        load_presets(folder)


def test_a_prompt_of_exactly_8000_characters_is_kept(folder: Path) -> None:
    write(folder, "chat", row("chat", prompt="ü" * 8000))
    assert len(load_presets(folder)["chat"][0].prompt) == 8000


def test_a_file_that_is_not_utf8_is_refused_with_the_line(folder: Path) -> None:
    with (folder / "chat.jsonl").open("ab") as file:
        file.write(b'{"id": "caf\xe9"}\n')
    with pytest.raises(PresetError, match=r"chat\.jsonl:3: not UTF-8"):
        load_presets(folder)


@pytest.mark.parametrize(
    ("content", "message"), [(b"\n", "is empty"), (b" " * (4 * 1024 * 1024 + 1), "bytes, at most")]
)
def test_an_empty_or_oversized_file_is_refused(folder: Path, content: bytes, message: str) -> None:
    (folder / "math.jsonl").write_bytes(content)
    with pytest.raises(PresetError, match=rf"math\.jsonl: .*{message}"):
        load_presets(folder)
