"""Prompts out of files: JSON lines in the layouts that are in use, or plain text.

A file named `.jsonl`, `.ndjson` or `.json` has one JSON object a line with `turns` (texts, or
objects with role and content), `messages` (role and content) or `prompt`. Any other file is plain
text, one prompt a line; a prompt of several lines needs JSON. The first question of a conversation
is the prompt: what follows it answers another model's words, not the target's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_viz.training.conversations import ALL, DataError, lines_of

MAX_PROMPTS = 2_000_000
MAX_PROMPT_CHARS = 100_000
MAX_DOMAIN_CHARS = 40
UNKNOWN_DOMAIN = "unknown"

_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_ASKING = ("user", "human")


@dataclass(frozen=True)
class Prompt:
    """What is asked. system: the system message, None for the chat template's own."""

    text: str
    domain: str = UNKNOWN_DOMAIN
    system: str | None = None


def read_prompts(paths: Iterable[Path], limit: int | None = None) -> list[Prompt]:
    """The first `limit` prompts of `paths`, in order, all when None; empty lines are passed over.

    Raises DataError naming file and line, also when there is no prompt at all.
    """
    paths = list(paths)
    most = MAX_PROMPTS if limit is None else min(limit, MAX_PROMPTS)
    found: list[Prompt] = []
    for path in paths:
        parse = _from_json if path.suffix.lower() in _JSON_SUFFIXES else _from_text
        for place, line in lines_of(path):
            if len(found) == most:
                return found
            found.append(parse(line, place))
    if not found:
        raise DataError(f"there is no prompt in {', '.join(path.name for path in paths)}")
    return found


def _from_text(line: str, place: str) -> Prompt:
    return Prompt(_checked(line, "the prompt", place))


def _from_json(line: str, place: str) -> Prompt:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{place} is not JSON; expected one object a line") from None
    if not isinstance(record, dict):
        raise DataError(f"{place} must hold an object, found {type(record).__name__}")
    system, text = _question(record, place)
    if system is None and isinstance(record.get("system"), str):
        system = record["system"]
    return Prompt(
        text=_checked(text, "the prompt", place),
        domain=_domain(record, place),
        system=_checked(system, "the system message", place) if system else None,
    )


def _question(record: dict[str, Any], place: str) -> tuple[str | None, Any]:
    """System message and first question of a record."""
    for name in ("turns", "messages"):
        turns = record.get(name)
        if turns is None:
            continue
        if not isinstance(turns, list) or not turns:
            raise DataError(f"{place}: {name} must be a list with at least one turn")
        if name == "turns" and isinstance(turns[0], str):
            return None, turns[0]
        return _first_asked(turns, name, place)
    if "prompt" not in record:
        raise DataError(f"{place} has no turns, messages or prompt")
    return None, record["prompt"]


def _first_asked(turns: Sequence[Any], name: str, place: str) -> tuple[str | None, Any]:
    system = None
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
            raise DataError(f"{place}: every entry of {name} needs a role and a content")
        if turn["role"] == "system":
            system = turn.get("content")
        elif turn["role"] in _ASKING:
            return system, turn.get("content")
        else:
            break
    raise DataError(f"{place}: {name} must begin with a user's turn, after a system turn if any")


def _domain(record: dict[str, Any], place: str) -> str:
    for name in ("domain", "category"):
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            domain = value.strip()[:MAX_DOMAIN_CHARS]
            if domain == ALL:
                raise DataError(f"{place}: {name} {ALL!r} is the name of the total; rename it")
            return domain
    return UNKNOWN_DOMAIN


def _checked(text: Any, what: str, place: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"{place}: {what} must be text, found {type(text).__name__}")
    if not text.strip():
        raise DataError(f"{place}: {what} is empty")
    if len(text) > MAX_PROMPT_CHARS:
        raise DataError(f"{place}: {what} has more than {MAX_PROMPT_CHARS} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(f"{place}: {what} holds half a surrogate pair, which no tokenizer can read")
    return text
