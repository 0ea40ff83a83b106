"""Sets of prompts to measure on: our own by domain, and any file of prompts.

A file is JSON lines (`.jsonl`, `.ndjson`, `.json`), CSV or Parquet. A record is read as
`prompt_records` describes, so the public question.jsonl form (question_id, category, turns) needs
nothing; a file with other names needs a mapping of columns, "prompt" to "question" for instance.
Files of both kinds may stand side by side: the mapping is for those that have the columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from eagle3_viz.presets import load_presets
from eagle3_viz.prompt_records import ALL, LAYOUTS, asked, domain_of
from eagle3_viz.record_files import Record, records_of
from eagle3_viz.text_lines import DataError
from eagle3_viz.wording import json_kind

SAMPLE = "sample"  # the name under which the project's own prompts are asked for
MAX_PROMPTS = 100_000
MAX_TURNS = 32
MAX_ID_CHARS = 80
MAX_NAME_CHARS = 80
_DOMAINS = (str, int, type(None))  # a record without one is counted under the file's name


@dataclass(frozen=True)
class Prompt:
    """A conversation to hold.

    id     unique within its set.
    turns  what is asked, one after the other; each question follows the answer to the one before.
    """

    id: str
    domain: str
    turns: tuple[str, ...]
    system: str | None = None

    @property
    def sha256(self) -> str:
        """Of everything that is asked."""
        content = json.dumps([self.domain, self.system, *self.turns]).encode()
        return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class PromptSet:
    """Prompts that are counted together. Raises DataError when they cannot be told apart."""

    name: str
    prompts: tuple[Prompt, ...]

    def __post_init__(self) -> None:
        if self.name == ALL or not 0 < len(self.name) <= MAX_NAME_CHARS:
            raise DataError(
                f"a prompt set cannot be called {self.name[:MAX_NAME_CHARS]!r}: {ALL!r} is the "
                f"name of the total and a name has 1 to {MAX_NAME_CHARS} characters; rename it"
            )
        known: set[str] = set()
        for prompt in self.prompts:
            if prompt.id in known:
                raise DataError(
                    f"{self.name}: the id {prompt.id!r} occurs twice; give every prompt its own"
                )
            known.add(prompt.id)


def sample_sets(limit: int | None = None) -> list[PromptSet]:
    """The project's own prompts, a set a domain, the first `limit` of each."""
    return [
        PromptSet(
            domain,
            tuple(Prompt(p.id, p.domain, (p.prompt,), p.system) for p in presets[:limit]),
        )
        for domain, presets in load_presets().items()
    ]


def read_set(
    path: Path, columns: Mapping[str, str] | None = None, limit: int | None = None
) -> PromptSet:
    """The first `limit` prompts of a file, as a set with the file's name.

    columns: for names out of `prompt_records.COLUMNS`, what the file calls them.

    Raises DataError naming file, record, what was expected and found.
    """
    return read_sets([str(path)], columns, limit)[0]


def read_sets(
    sources: Iterable[str], columns: Mapping[str, str] | None = None, limit: int | None = None
) -> tuple[PromptSet, ...]:
    """The sets of several sources, each `SAMPLE` or a file; columns and limit as in `read_set`.

    Raises DataError as `read_set` does, and for a column that no file has.
    """
    found: dict[str, PromptSet] = {}
    mapping = _Mapping(columns or {})
    for source in sources:
        sets = sample_sets(limit) if source == SAMPLE else [_of_file(Path(source), mapping, limit)]
        for one in sets:
            if one.name in found:
                raise DataError(
                    f"two prompt sets are called {one.name!r}; a set has the name of its file, "
                    f"those of {SAMPLE!r} are called after their domain: rename a file"
                )
            found[one.name] = one
    mapping.refuse_unmet()
    return tuple(found.values())


def _of_file(path: Path, mapping: _Mapping, limit: int | None) -> PromptSet:
    most = MAX_PROMPTS + 1 if limit is None else limit
    prompts = [
        _prompt(mapping.renamed(record, place), path.stem, position, place)
        for position, (place, record) in enumerate(islice(records_of(path), most))
    ]
    if len(prompts) > MAX_PROMPTS:
        raise DataError(f"{path.name} has more than {MAX_PROMPTS} prompts; set a limit")
    if not prompts:
        raise DataError(f"there is no prompt in {path.name}")
    return PromptSet(path.stem, tuple(prompts))


def _prompt(record: Record, name: str, position: int, place: str) -> Prompt:
    system, questions = asked(record, place)
    turns: list[str] = []
    for question in questions:
        turns.append(question)
        if len(turns) > MAX_TURNS:
            raise DataError(f"{place} has more than {MAX_TURNS} turns; shorten it")
    identity = _identity(record, position, place)
    return Prompt(identity, domain_of(record, place) or name, tuple(turns), system)


def _identity(record: Record, position: int, place: str) -> str:
    """`id` or `question_id`, else the place in the file."""
    value = next((record[n] for n in ("id", "question_id") if record.get(n) is not None), None)
    if value is None:
        return str(position + 1)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DataError(f"{place}: the id must be text or a whole number, found {value!r:.40}")
    if not 0 < len(text := str(value).strip()) <= MAX_ID_CHARS:
        raise DataError(f"{place}: an id has 1 to {MAX_ID_CHARS} characters, found {len(text)}")
    return text


class _Mapping:
    """Columns under the names that are read, over all files; notes which of them were met."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._unmet = set(columns.values())

    def renamed(self, record: Record, place: str) -> Record:
        """The record with the columns that it has under the names that are read.

        One that asks in a known layout may lack them. Raises DataError.
        """
        there = {name: column for name, column in self._columns.items() if column in record}
        missing = [column for column in self._columns.values() if column not in record]
        if missing and all(record.get(layout) is None for layout in LAYOUTS):
            raise DataError(
                f"{place} has no column {missing[0]!r}; it has {', '.join(map(str, record))[:200]}"
            )
        self._unmet.difference_update(there.values())
        # a mapped question must not lose to another layout that the file happens to have
        hidden = LAYOUTS if any(name in LAYOUTS for name in there) else ()
        rest = {name: value for name, value in record.items() if name not in hidden}
        renamed = rest | {name: record[column] for name, column in there.items()}
        if "domain" in there:
            _check_domain(renamed["domain"], there["domain"], place)
        return renamed

    def refuse_unmet(self) -> None:
        """Raise DataError for a column that no record had."""
        for name, column in self._columns.items():
            if column in self._unmet:
                raise DataError(
                    f"no file has a column {column!r}, which {name!r} is to be read from; correct "
                    "its name or leave it out"
                )


def _check_domain(value: object, column: str, place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, _DOMAINS):
        raise DataError(
            f"{place}: the domain in {column!r} must be text or a whole number, found "
            f"{json_kind(value)}"
        )
