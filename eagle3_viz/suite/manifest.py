"""What a suite's folder holds: the settings and prompts of its runs, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eagle3_viz.files import write_atomically
from eagle3_viz.prompt_records import ALL
from eagle3_viz.prompt_sets import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_TURNS
from eagle3_viz.suite.plan import TRACES, Plan
from eagle3_viz.text_lines import DataError

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
    if (folder / MANIFEST).exists():
        _refuse_other(folder, read_manifest(folder), manifest)
    elif (folder / TRACES).exists():
        raise DataError(f"{folder} has {TRACES} but no {MANIFEST}; name another folder")
    content = {"format": FORMAT_NAME, "format_version": FORMAT_VERSION, **asdict(manifest)}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1).encode())


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
            f"with {key} {old.get(key)!r} instead of {new.get(key)!r} in {name!r}"
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
            f"{path}: expected format version {FORMAT_VERSION}, found {version!r:.20}; use the "
            "version of this program that wrote it"
        )
    machine, settings, prompts = (content.get(n) for n in ("machine", "settings", "prompts"))
    if (
        not isinstance(machine, str)
        or not isinstance(settings, dict)
        or not 0 < len(settings) <= MAX_SETTINGS
        or not all(isinstance(value, dict) for value in settings.values())
        or not isinstance(prompts, list)
    ):
        raise DataError(f"{path} is damaged; run the suite into another folder")
    asked = tuple(_asked(entry, path) for entry in prompts)
    if len({(one.set, one.id) for one in asked}) != len(asked):
        raise DataError(f"{path} names a prompt twice; run the suite into another folder")
    return Manifest(machine, settings, asked)


def _asked(entry: Any, path: Path) -> Asked:
    kinds = {"set": str, "id": str, "domain": str, "turns": int, "sha256": str}
    if not isinstance(entry, dict) or {n: type(v) for n, v in entry.items()} != kinds:
        raise DataError(f"{path}: a prompt needs {', '.join(kinds)}, found {entry!r:.80}")
    asked = Asked(**entry)
    if (
        not 1 <= asked.turns <= MAX_TURNS
        or not 0 < len(asked.id) <= MAX_ID_CHARS
        or not 0 < len(asked.set) <= MAX_NAME_CHARS
        or ALL in (asked.set, asked.domain)
    ):
        raise DataError(f"{path}: the prompt {entry!r:.80} is damaged")
    return asked
