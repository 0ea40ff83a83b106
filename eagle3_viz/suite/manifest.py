"""What a suite's folder holds: the settings and prompts of its runs, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eagle3_viz.config import METHODS, RULES
from eagle3_viz.files import write_atomically
from eagle3_viz.prompt_records import ALL
from eagle3_viz.prompt_sets import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_TURNS
from eagle3_viz.suite.plan import TRACES, Plan
from eagle3_viz.text_lines import DataError
from eagle3_viz.wording import json_kind

MANIFEST = "suite.json"
FORMAT_NAME, FORMAT_VERSION = "eagle3_viz suite", 1
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_SETTINGS = 1000


@dataclass(frozen=True)
class Asked:
    """A prompt of the suite. turns: how many questions it has; sha256: of all that it asks."""

    set: str
    id: str
    domain: str
    turns: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """machine: what it runs on. settings: by name, a DecodeConfig as plain JSON."""

    machine: str
    settings: Mapping[str, Mapping[str, Any]]
    prompts: tuple[Asked, ...]


def manifest_of(plan: Plan, machine: str) -> Manifest:
    """The manifest of a plan that runs on `machine`."""
    settings = {name: asdict(config) for name, config in plan.settings.items()}
    prompts = tuple(
        Asked(one.name, prompt.id, prompt.domain, len(prompt.turns), prompt.sha256)
        for one in plan.sets
        for prompt in one.prompts
    )
    return Manifest(machine, json.loads(json.dumps(settings)), prompts)


def claim(folder: Path, manifest: Manifest) -> None:
    """Make `folder` that of the plan, or find that it is; prompts may have been added since.

    Raises DataError when it belongs to another plan or holds something else.
    """
    if (found := refuse_foreign(folder)) is not None:
        _refuse_other(folder, found, manifest)
    content = {"format": FORMAT_NAME, "format_version": FORMAT_VERSION, **asdict(manifest)}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1).encode())


def refuse_foreign(folder: Path) -> Manifest | None:
    """The manifest in `folder`, None where a suite can begin. Raises DataError elsewhere."""
    if (folder / MANIFEST).exists():
        return read_manifest(folder)
    if (folder / TRACES).exists():
        raise DataError(f"{folder} has {TRACES} but no {MANIFEST}; name another folder")
    return None


def _refuse_other(folder: Path, found: Manifest, wanted: Manifest) -> None:
    differences = []
    if found.machine != wanted.machine:
        differences.append(f"on {found.machine}, not on {wanted.machine}")
    for name in dict.fromkeys([*found.settings, *wanted.settings]):
        old, new = found.settings.get(name), wanted.settings.get(name)
        if old is None or new is None:
            differences.append(f"{'without' if old is None else 'with'} the setting {name!r}")
            continue
        differences += [
            f"with {key} {_words(old.get(key))} instead of {_words(new.get(key))} in {name!r}"
            for key in dict.fromkeys([*old, *new])
            if old.get(key) != new.get(key)
        ]
    if gone := set(found.prompts) - set(wanted.prompts):
        one = min(gone, key=lambda prompt: (prompt.set, prompt.id))
        differences.append(f"with the prompt {one.set}/{one.id}, which is missing or changed now")
    if differences:
        raise DataError(
            f"{folder} was begun {differences[0]}; use the same arguments to go on (more prompts "
            "are fine), or another folder"
        )


def _words(value: Any) -> str:
    """A part of a setting in words, the named parts of an object included."""
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {_words(part)}' for name, part in value.items())})"
    return "none" if value is None else str(value)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a suite's folder. Raises DataError."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise DataError(f"{path} has more than {MAX_MANIFEST_BYTES} bytes; it is no manifest")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror or error}; name a folder that suite wrote"
        ) from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not JSON; run the suite into another folder") from None
    return _parsed(content, path)


def _parsed(content: Any, path: Path) -> Manifest:
    if not isinstance(content, dict) or content.get("format") != FORMAT_NAME:
        raise DataError(f"{path} is not the manifest of a suite; name a folder that suite wrote")
    if (version := content.get("format_version")) != FORMAT_VERSION:
        raise DataError(
            f"{path}: expected format version {FORMAT_VERSION}, found {json_kind(version)}; use "
            "the version of this program that wrote it"
        )
    machine, settings, prompts = (content.get(n) for n in ("machine", "settings", "prompts"))
    if (
        not isinstance(machine, str)
        or not isinstance(settings, dict)
        or not 0 < len(settings) <= MAX_SETTINGS
        or not isinstance(prompts, list)
    ):
        raise DataError(f"{path} is damaged; run the suite into another folder")
    for name, value in settings.items():
        _check_setting(value, f"{path}: the setting {name[:MAX_NAME_CHARS]!r}")
    asked = tuple(_asked(entry, path) for entry in prompts)
    if len({(one.set, one.id) for one in asked}) != len(asked):
        raise DataError(f"{path} names a prompt twice; run the suite into another folder")
    return Manifest(machine, settings, asked)


def _check_setting(value: Any, place: str) -> None:
    """Raise DataError unless tables can be made of `value`, a DecodeConfig as plain JSON."""
    for part, expected, holds in (
        ("method", f"one of {', '.join(METHODS)}", lambda found: found in METHODS),
        ("rule", f"one of {', '.join(RULES)}", lambda found: found in RULES),
        ("sampling", "an object", lambda found: isinstance(found, dict)),
        ("max_new_tokens", "a whole number", lambda found: type(found) is int),
    ):
        found = value.get(part) if isinstance(value, dict) else value
        if not holds(found):
            raise DataError(
                f"{place} is damaged: expected {expected} as its {part}, found {json_kind(found)}; "
                "run the suite into another folder"
            )


def _asked(entry: Any, path: Path) -> Asked:
    kinds = {"set": str, "id": str, "domain": str, "turns": int, "sha256": str}
    place = f"{path}: a prompt"
    if not isinstance(entry, dict) or entry.keys() != kinds.keys():
        found = ", ".join(map(str, entry)) if isinstance(entry, dict) else json_kind(entry)
        raise DataError(f"{place} needs {', '.join(kinds)}, found {found[:80]}")
    for name, kind in kinds.items():
        if type(entry[name]) is not kind:
            wanted = "a whole number" if kind is int else "text"
            raise DataError(f"{place} needs {wanted} as {name}, found {json_kind(entry[name])}")
    asked = Asked(**entry)
    for name, holds in (
        ("turns", 1 <= asked.turns <= MAX_TURNS),
        ("id", 0 < len(asked.id) <= MAX_ID_CHARS),
        ("set", 0 < len(asked.set) <= MAX_NAME_CHARS and asked.set != ALL),
        ("domain", asked.domain != ALL),
    ):
        if not holds:
            raise DataError(
                f"{place} is damaged in its {name}, {json_kind(entry[name])}; run the suite into "
                "another folder"
            )
    return asked
