"""What a record of a prompt file asks, in the layouts that are in use.

A record has `turns` (texts, or objects with role and content), `messages` (role and content) or
`prompt`; `turns` of texts is the public question.jsonl form. Answers in a record are other models'
words: they are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eagle3_viz.text_lines import DataError
from eagle3_viz.wording import json_kind

MAX_PROMPT_CHARS = 100_000
MAX_DOMAIN_CHARS = 40
UNKNOWN_DOMAIN = "unknown"
LAYOUTS = ("turns", "messages", "prompt")
COLUMNS = (*LAYOUTS, "id", "domain", "system")  # what a file may call otherwise
ALL = "all"  # what tables call all domains together, so that no domain is called so

_ASKING = ("user", "human")


def record_of(line: str, place: str) -> dict[str, Any]:
    """The object in a line of JSON. Raises DataError naming the place."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{place} is not JSON; expected one object a line") from None
    if not isinstance(record, dict):
        raise DataError(f"{place} must hold an object, found {json_kind(record)}")
    return record


def asked(record: Mapping[str, Any], place: str) -> tuple[str | None, Iterator[str]]:
    """System message, None without one, and the questions in order, each checked when it is taken.

    There is at least one question. Raises DataError naming the place.
    """
    system, questions = _conversation(record, place)
    if system is None and isinstance(record.get("system"), str):
        system = record["system"]
    checked_system = checked(system, "the system message", place) if system else None
    return checked_system, (checked(text, "the prompt", place) for text in questions)


def _conversation(record: Mapping[str, Any], place: str) -> tuple[Any, Iterator[Any]]:
    for name in ("turns", "messages"):
        turns = record.get(name)
        if turns is None:
            continue
        if not isinstance(turns, list) or not turns:
            raise DataError(f"{place}: {name} must be a list with at least one turn")
        if name == "turns" and isinstance(turns[0], str):
            return None, iter(turns)
        return _roles(turns, name, place)
    if "prompt" not in record:
        raise DataError(f"{place} has no turns, messages or prompt")
    return None, iter([record["prompt"]])


def _roles(turns: Sequence[Any], name: str, place: str) -> tuple[Any, Iterator[Any]]:
    system = None
    for position, turn in enumerate(turns):
        if _role(turn, name, place) == "system":
            system = turn.get("content")
        elif turn["role"] in _ASKING:
            return system, _questions(turns[position:], name, place)
        else:
            break
    raise DataError(f"{place}: {name} must begin with a user's turn, after a system turn if any")


def _questions(turns: Sequence[Any], name: str, place: str) -> Iterator[Any]:
    for turn in turns:
        if _role(turn, name, place) in _ASKING:
            yield turn.get("content")


def _role(turn: Any, name: str, place: str) -> str:
    if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
        raise DataError(f"{place}: every entry of {name} needs a role and a content")
    return turn["role"]


def domain_of(record: Mapping[str, Any], place: str) -> str | None:
    """`domain` or `category` of a record, None where it has none. Raises DataError for `ALL`.

    A whole number is a name as well; what is neither that nor text names no domain.
    """
    for name in ("domain", "category"):
        value = record.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value.strip():
            domain = value.strip()[:MAX_DOMAIN_CHARS]
            if domain == ALL:
                raise DataError(f"{place}: {name} {ALL!r} is the name of the total; rename it")
            return domain
    return None


def checked(text: Any, what: str, place: str) -> str:
    """`text` if it is text that a tokenizer can read. Raises DataError."""
    if not isinstance(text, str):
        raise DataError(f"{place}: {what} must be text, found {json_kind(text)}")
    if not text.strip():
        raise DataError(f"{place}: {what} is empty")
    if len(text) > MAX_PROMPT_CHARS:
        raise DataError(f"{place}: {what} has more than {MAX_PROMPT_CHARS} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(f"{place}: {what} holds half a surrogate pair, which no tokenizer can read")
    return text
