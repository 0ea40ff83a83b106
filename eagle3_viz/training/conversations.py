"""Target-generated conversations on disk: one JSON object a line, token ids as they were fed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_viz.prompt_records import ALL
from eagle3_viz.text_lines import DataError, lines_of

MAX_VOCABULARY = 2**31  # above the token ids of any target


@dataclass(frozen=True)
class Conversation:
    """One conversation under the chat template, answered by the target.

    ids             token ids of the whole, template included.
    response_start  index of the first token that the target wrote as its answer.
    domain          kind of task, for coverage and accuracy by domain.
    temperature     at which the answer was sampled; 0 is greedy.
    finish          "eos", "len" or "loop" (cut where a loop began).
    """

    ids: tuple[int, ...]
    response_start: int
    domain: str = "unknown"
    temperature: float = 0.0
    finish: str = "eos"

    def __post_init__(self) -> None:
        """Raises DataError for a domain with the name of the total."""
        if self.domain == ALL:
            raise DataError(f"a domain is called {ALL!r}, the name of the total; rename it")

    @property
    def response_tokens(self) -> int:
        return len(self.ids) - self.response_start


def read_conversations(paths: Iterable[Path], vocab_size: int) -> list[Conversation]:
    """All conversations of `paths`, in order. Raises DataError naming file and line."""
    return [
        _conversation(line, place, vocab_size) for path in paths for place, line in lines_of(path)
    ]


def any_conversation(paths: Iterable[Path]) -> bool:
    """Whether there is one in `paths`, of which only the beginnings are read.

    Raises DataError for a file that cannot be read or begins with something else.
    """
    firsts = [next(lines_of(path), None) for path in paths]
    found = [_conversation(line, place, MAX_VOCABULARY) for place, line in filter(None, firsts)]
    return bool(found)


def to_line(conversation: Conversation) -> str:
    """The line of a file that `read_conversations` turns back into `conversation`."""
    record = {
        "domain": conversation.domain,
        "temperature": conversation.temperature,
        "finish": conversation.finish,
        "response_start": conversation.response_start,
        "ids": list(conversation.ids),
    }
    return json.dumps(record, separators=(",", ":")) + "\n"


def fingerprint(conversations: Sequence[Conversation]) -> str:
    """SHA-256 over the token ids and response starts, in order."""
    digest = hashlib.sha256()
    for conversation in conversations:
        digest.update(f"{conversation.response_start}:{conversation.ids}\n".encode())
    return digest.hexdigest()


def _conversation(line: str, place: str, vocab_size: int) -> Conversation:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{place} is not JSON; expected one conversation a line") from None
    if not isinstance(record, dict):
        raise DataError(f"{place} must hold an object with ids and response_start")
    ids, start = record.get("ids"), record.get("response_start")
    if not isinstance(ids, list) or not all(_whole(i) and 0 <= i < vocab_size for i in ids):
        raise DataError(f"{place}: ids must be a list of token ids below {vocab_size}")
    if not isinstance(start, int) or not 0 < start < len(ids):
        raise DataError(
            f"{place}: response_start must lie inside the {len(ids)} ids; found {str(start)[:20]!r}"
        )
    temperature = record.get("temperature", 0.0)
    if not isinstance(temperature, int | float) or not 0 <= temperature < math.inf:
        raise DataError(f"{place}: temperature must be a number from 0 upwards")
    texts = {key: str(record.get(key, "unknown"))[:40] for key in ("domain", "finish")}
    try:
        return Conversation(tuple(ids), start, texts["domain"], float(temperature), texts["finish"])
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
