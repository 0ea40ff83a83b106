"""What does not go into the training text: loops, near-duplicates, the prompts of evaluation."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from eagle3_viz.metrics import has_loop

LONGEST_PERIOD = 40  # tokens
REPEATS = 3
SHORTEST_LOOP = 32  # tokens in all: "1,000,000" and a row of dashes are no loops
SHINGLE_WORDS = 5
NEAR_DUPLICATE = 0.5  # Jaccard similarity of shingles from which two prompts count as one

_WORD = re.compile(r"\w+")


def loop_cut(tokens: Sequence[int]) -> int | None:
    """How many of `tokens` to keep when they end in a loop: up to the end of its first round.

    None when they end in no loop. A loop is a block of at most LONGEST_PERIOD tokens that stands
    there REPEATS times or more, SHORTEST_LOOP tokens in all; the shortest such block counts.
    """
    if not has_loop(tokens, LONGEST_PERIOD, REPEATS):
        return None
    period = next(n for n in range(1, LONGEST_PERIOD + 1) if has_loop(tokens, n, REPEATS))
    begin = len(tokens) - REPEATS * period
    while begin > 0 and tokens[begin - 1] == tokens[begin - 1 + period]:
        begin -= 1
    return begin + period if len(tokens) - begin >= SHORTEST_LOOP else None


class NearDuplicates:
    """Texts seen so far, and whether another one is nearly one of them.

    Exact Jaccard similarity of word 5-grams, through an inverted index: the cost of a question is
    the number of shared shingles, not the number of texts.
    """

    def __init__(self, texts: Iterable[str] = (), similarity: float = NEAR_DUPLICATE) -> None:
        self._similarity = similarity
        self._sizes: list[int] = []
        self._holders: dict[int, list[int]] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember `text`."""
        marks = shingles(text)
        for mark in marks:
            self._holders.setdefault(mark, []).append(len(self._sizes))
        self._sizes.append(len(marks))

    def holds(self, text: str) -> bool:
        """Whether a remembered text is as similar to `text` as `similarity`, or more."""
        marks = shingles(text)
        shared = Counter(other for mark in marks for other in self._holders.get(mark, ()))
        return any(
            count >= self._similarity * (len(marks) + self._sizes[other] - count)
            for other, count in shared.items()
        )


def shingles(text: str) -> frozenset[int]:
    """64-bit hashes of the 5-grams of words of `text`, without case, space and punctuation.

    A text of fewer words is one shingle; one without words is taken as it is.
    """
    words = _WORD.findall(text.casefold()) or [text]
    last = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(_hash(" ".join(words[i : i + SHINGLE_WORDS])) for i in range(last))


def is_held_out(prompt: str, share: float) -> bool:
    """Whether a prompt belongs to the held-out `share`: a property of its words alone."""
    words = _WORD.findall(prompt.casefold()) or [prompt]
    return _hash("held out: " + " ".join(words)) < share * 2**64


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
