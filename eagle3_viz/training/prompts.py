"""Prompts out of files: JSON lines in the layouts that are in use, or plain text.

A file named `.jsonl`, `.ndjson` or `.json` has one JSON object a line, as `prompt_records` reads
it. Any other file is plain text, one prompt a line; a prompt of several lines needs JSON. The first
question of a conversation is the prompt: what follows it answers another model's words, not the
target's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eagle3_viz.prompt_records import UNKNOWN_DOMAIN, asked, checked, domain_of, record_of
from eagle3_viz.text_lines import DataError, lines_of

MAX_PROMPTS = 2_000_000
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


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
        parse = _from_json if path.suffix.lower() in JSON_SUFFIXES else _from_text
        for place, line in lines_of(path):
            if len(found) == most:
                return found
            found.append(parse(line, place))
    if not found:
        raise DataError(f"there is no prompt in {', '.join(path.name for path in paths)}")
    return found


def _from_text(line: str, place: str) -> Prompt:
    return Prompt(checked(line, "the prompt", place))


def _from_json(line: str, place: str) -> Prompt:
    record = record_of(line, place)
    system, questions = asked(record, place)
    return Prompt(next(questions), domain_of(record, place) or UNKNOWN_DOMAIN, system)
