"""How often a training job will see its text, told before it begins."""

from __future__ import annotations

from collections.abc import Iterable

from eagle3_viz.training.batches import anchors_of

MANY = 10
"""Passes from which on a draft learns the text by heart: the shipped ones had three."""


def passes_in_words(tokens: int, lengths: Iterable[tuple[int, int]]) -> list[str]:
    """Lines about a job of `tokens` on conversations of (tokens, response_start)."""
    there = sum(anchors_of(*pair) for pair in lengths)
    if not there:  # the trainer refuses it and says why
        return []
    passes = tokens / there
    plan = f"{tokens} response tokens to pass: {passes:.1f} passes over the {there} of the text"
    if passes <= MANY:
        return [f"{plan}."]
    return [
        f"{plan}.",
        f"That is more than {MANY}: the draft will learn this text by heart, and do worse on "
        f"others. Give it more text, or --tokens {3 * there}.",
    ]
