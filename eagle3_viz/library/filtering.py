"""Which entries of the library somebody looks for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from eagle3_viz.library.entries import Entry


@dataclass(frozen=True)
class Filter:
    """What an entry must have; an empty part asks for nothing.

    text     words that all occur in name, prompt, tags, domain, method or pair, in any case.
    methods  one of these; the same for domains.
    tags     every one of these.
    """

    text: str = ""
    methods: Collection[str] = ()
    domains: Collection[str] = ()
    tags: Collection[str] = ()

    def keeps(self, entry: Entry) -> bool:
        """Whether `entry` has all of it."""
        searched = "\n".join(
            (entry.name, entry.prompt, *entry.tags, entry.domain, entry.method, entry.pair)
        ).casefold()
        return (
            all(word in searched for word in self.text.casefold().split())
            and (not self.methods or entry.method in self.methods)
            and (not self.domains or entry.domain in self.domains)
            and set(self.tags) <= set(entry.tags)
        )


def matching(entries: Iterable[Entry], wanted: Filter) -> tuple[Entry, ...]:
    """The entries that `wanted` keeps, in their order."""
    return tuple(entry for entry in entries if wanted.keeps(entry))
