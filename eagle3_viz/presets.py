"""The sample prompts that ship with the project, by domain.

One file a domain, `sample_prompts/<domain>.jsonl`, one JSON object a line. A file is checked as a
whole when it is loaded: a mistake in it is an error that names the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

DOMAINS = ("chat", "code", "math", "summarization", "instruction", "extraction", "creative")
MAX_PROMPT_CHARS = 8000
MAX_TITLE_CHARS = 40
MAX_EXPECTED_TOKENS = 4096
MAX_FILE_BYTES = 4 * 1024 * 1024

_FOLDER = Path(__file__).resolve().parent.parent / "sample_prompts"
_REQUIRED = ("id", "domain", "title", "prompt", "expected_length")
_OPTIONAL = ("system",)


class PresetError(ValueError):
    """A file of sample prompts that cannot be used; the message names the file and the line."""


@dataclass(frozen=True)
class Preset:
    """One sample prompt.

    id               unique over all domains, e.g. "chat-01".
    title            at most 40 characters, for a selector.
    expected_length  a rough answer length in tokens, a sensible max_new_tokens.
    system           system message, None when the prompt has none.
    """

    id: str
    domain: str
    title: str
    prompt: str
    expected_length: int
    system: str | None = None


def load_presets(folder: Path | None = None) -> dict[str, tuple[Preset, ...]]:
    """Read `<folder>/<domain>.jsonl` for every domain, in the order of DOMAINS and of the lines.

    `folder` None means the prompts that ship with the project. Raises FileNotFoundError when a
    domain has no file and PresetError when a file is empty, too large, or has a line that is wrong.
    """
    root = _FOLDER if folder is None else Path(folder)
    places: dict[str, str] = {}
    presets = {}
    for domain in DOMAINS:
        loaded = []
        for place, line in _lines(root / f"{domain}.jsonl"):
            preset = _parse(line, domain, place)
            if preset.id in places:
                raise PresetError(
                    f"{place}: id {preset.id!r} is already used at {places[preset.id]}; "
                    "give every prompt its own id"
                )
            places[preset.id] = place
            loaded.append(preset)
        presets[domain] = tuple(loaded)
    return presets


def in_turn(count: int) -> list[Preset]:
    """Up to `count` of the prompts that ship with the project, one of each domain in turn."""
    domains = load_presets().values()
    rows = zip_longest(*domains)
    return [preset for row in rows for preset in row if preset is not None][:count]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield ("<file>:<line number>", text of the line)."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file; each domain needs one: {', '.join(DOMAINS)}"
        )
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise PresetError(f"{path}: {size} bytes, at most {MAX_FILE_BYTES} are read")
    data = path.read_bytes()
    if not data.strip():
        raise PresetError(f"{path}: the file is empty; expected one JSON object a line")
    for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), start=1):
        place = f"{path}:{number}"
        try:
            yield place, raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise PresetError(f"{place}: not UTF-8 ({error}); save the file as UTF-8") from error


def _parse(line: str, domain: str, place: str) -> Preset:
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise PresetError(f"{place}: not a line of JSON ({error})") from error
    if not isinstance(fields, dict):
        raise PresetError(f"{place}: expected a JSON object, found {type(fields).__name__}")
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise PresetError(
            f"{place}: missing {', '.join(missing)}; a prompt needs {', '.join(_REQUIRED)}"
        )
    unknown = sorted(set(fields) - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise PresetError(
            f"{place}: unknown {', '.join(unknown)}; "
            f"a prompt has {', '.join((*_REQUIRED, *_OPTIONAL))}"
        )
    if fields["domain"] != domain:
        raise PresetError(
            f"{place}: domain is {fields['domain']!r}, expected {domain!r} like the file's name"
        )
    return Preset(
        id=_text(fields, "id", MAX_TITLE_CHARS, place),
        domain=domain,
        title=_text(fields, "title", MAX_TITLE_CHARS, place),
        prompt=_text(fields, "prompt", MAX_PROMPT_CHARS, place),
        expected_length=_token_count(fields["expected_length"], place),
        system=_text(fields, "system", MAX_PROMPT_CHARS, place) if "system" in fields else None,
    )


def _text(fields: dict[str, object], name: str, limit: int, place: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise PresetError(f"{place}: {name} must be text, found {type(value).__name__}")
    if not value.strip():
        raise PresetError(f"{place}: {name} is empty")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise PresetError(
            f"{place}: {name} holds half a surrogate pair, which no tokenizer can read"
        )
    if len(value) > limit:
        raise PresetError(
            f"{place}: {name} has {len(value)} characters, at most {limit} are allowed"
        )
    return value


def _token_count(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PresetError(f"{place}: expected_length must be a whole number, found {value!r}")
    if not 1 <= value <= MAX_EXPECTED_TOKENS:
        raise PresetError(
            f"{place}: expected_length must be 1 to {MAX_EXPECTED_TOKENS} tokens, found {value}"
        )
    return value
