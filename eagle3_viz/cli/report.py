"""A run beside autoregression on the same prompt, in words and numbers."""

from __future__ import annotations

from itertools import zip_longest

from eagle3_viz.metrics import summary
from eagle3_viz.settings import method_title
from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace
from eagle3_viz.wording import counted


def comparison(trace: Trace, ar: Trace) -> list[str]:
    """Lines of a table: the run beside autoregression on the same prompt."""
    left, right = summary(trace), summary(ar)
    name = method_title(trace.header.method)
    width = max(10, len(name) + 2)
    lines = [f"{'':<12}{name:>{width}}{'AR':>10}"]
    for label, form, a, b in (
        ("tokens", "d", left.tokens, right.tokens),
        ("cycles", "d", left.cycles, right.cycles),
        ("tau", ".2f", left.tau, right.tau),
        ("tokens/s", ".1f", left.tokens_per_second, right.tokens_per_second),
        ("ms a token", ".1f", left.ms_per_token, right.ms_per_token),
    ):
        own, other = ("-" if value is None else format(value, form) for value in (a, b))
        lines.append(f"{label:<12}{own:>{width}}{other:>10}")
    if left.ms_per_token and right.ms_per_token:
        ratio = f"{right.ms_per_token / left.ms_per_token:.2f}x"
        lines.append(f"{'speed-up':<12}{ratio:>{width}}")
    return [*lines, "", agreement(trace, ar)]


def agreement(trace: Trace, ar: Trace) -> str:
    """Whether both runs gave the same tokens, and where they part if not."""
    if trace.header.rule == "typical":
        return (
            "The texts are not compared: each run draws for itself, and the rule typical changes "
            "the output distribution."
        )
    if trace.header.rule != "greedy":
        return (
            "The texts are not compared: at a positive temperature each run draws for itself. What "
            "they share is the distribution."
        )
    if trace.tokens == ar.tokens:
        return f"The texts are equal: the same {counted(len(ar.tokens), 'token')}."
    pairs = list(zip_longest(trace.tokens, ar.tokens))
    at = next(i for i, (a, b) in enumerate(pairs) if a != b)
    name = method_title(trace.header.method)
    found = [
        "nothing" if token is None else visible(run.token_bytes[token])
        for token, run in zip(pairs[at], (trace, ar), strict=True)
    ]
    return (
        f"The texts part at token {at + 1} of {len(pairs)}: {name} has {found[0]}, AR {found[1]}. "
        + _cause(trace.header.dtype)
    )


def _cause(dtype: str) -> str:
    if dtype == "float32":
        return "In float32 that is expected only where the target's two best tokens nearly tie."
    return (
        f"A likely cause: {dtype} rounds differently by matrix shape, and a near tie then falls "
        "either way. With --dtype float32 the texts agree."
    )
