"""Names, tags and domains that people give to traces, made one bounded line of plain text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_NAME = 80  # characters
MAX_TAG = 24  # characters, also of a domain
MAX_TAGS = 8
MAX_SLUG = 40  # characters

# Control characters, marks that reverse the direction of text, private and unpaired code points.
_DROPPED = ("Cc", "Cf", "Cs", "Co", "Cn")
_SPACES = ("Zs", "Zl", "Zp")


def plain(text: str, limit: int) -> str:
    """`text` on one line, without characters that are not seen, cut to `limit` characters.

    Line breaks and tabs become spaces, and many spaces one.
    """
    # Only what can be shown is looked at: a name may be a megabyte.
    kept = "".join(map(_shown, text[: 20 * limit]))
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\n\r\t\v\f" or category in _SPACES:
        return " "
    return "" if category in _DROPPED else character


def tags_of(texts: Iterable[str]) -> tuple[str, ...]:
    """At most `MAX_TAGS` different tags, in their order; upper and lower case are one."""
    found: dict[str, str] = {}
    for text in texts:
        tag = plain(text, MAX_TAG)
        if tag:
            found.setdefault(tag.casefold(), tag)
        if len(found) == MAX_TAGS:
            break
    return tuple(found.values())


def slug(text: str) -> str:
    """`text` as part of an address: lower-case letters, digits and single hyphens, perhaps none."""
    ascii_only = unicodedata.normalize("NFKD", text[: 20 * MAX_SLUG]).encode("ascii", "ignore")
    words = re.findall(r"[a-z0-9]+", ascii_only.decode().lower())
    return "-".join(words)[:MAX_SLUG].strip("-")
