"""A trace in words and numbers: rows of (label, value)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from eagle3_viz.metrics import Summary, summary
from eagle3_viz.records import Finish
from eagle3_viz.settings import METHOD_TITLES, RULE_TITLES
from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace
from eagle3_viz.wording import counted

Row = tuple[str, str]

METHODS: dict[str, str] = {str(name): title for name, title in METHOD_TITLES.items()}
RULES: dict[str, str] = {str(name): title for name, title in RULE_TITLES.items()}
FINISHES: dict[Finish | None, str] = {
    "eos": "the answer is complete",
    "length": "the token limit is reached",
    "context": "the context is full",
    "stop": "a stop string was produced",
    None: "interrupted before the end",
}


def circumstances(trace: Trace) -> list[Row]:
    """Which pair ran by which method, and on what."""
    header = trace.header
    where = f"{header.dtype} on {header.device}, {counted(header.threads, 'thread')}"
    method = METHODS.get(header.method, header.method)
    method += f", rule {RULES.get(header.rule, header.rule)}"
    shape, fixed = header.config.get("shape"), header.config.get("fixed")
    if header.method == "eagle1" and isinstance(fixed, Mapping):
        method += f", tree {fixed.get('name')}"
    elif header.method != "ar" and isinstance(shape, Mapping):
        method += f", tree {', '.join(f'{name} {size}' for name, size in shape.items())}"
    return [("pair", header.pair), ("method", method), ("ran", where)]


def measured(trace: Trace) -> list[Row]:
    """What the run took: tokens, tau, speed, the phases of a cycle, and why it ended."""
    found = summary(trace)
    cycles = counted(found.cycles, "cycle")
    rows = [("tokens", f"{found.tokens} (1 from the prompt, {found.tokens - 1} from {cycles})")]
    if found.tau is not None:
        rows.append(("tau", f"{found.tau:.2f} tokens per cycle"))
    if found.tokens_per_second is not None and found.ms_per_token is not None:
        rows.append(
            (
                "speed",
                f"{found.tokens_per_second:.1f} tokens/s, {found.ms_per_token:.1f} ms a token",
            )
        )
    if found.cycles:
        rows += _cycle_rows(found)
    rows.append(("end", FINISHES[trace.finish]))
    return rows


def _cycle_rows(found: Summary) -> list[Row]:
    """Means over the cycles, so that the phases add up to the whole."""
    each = {phase.name: phase.ms / found.cycles for phase in found.phases}
    phases = ", ".join(f"{name} {ms:.1f}" for name, ms in each.items())
    rows = [("cycle", f"{sum(each.values()):.1f} ms on average: {phases}")]
    recording = f"{found.record_ms / found.cycles:.1f}"
    if recording != "0.0":
        rows.append(("recording", f"{recording} ms a cycle, not counted"))
    if found.wasted is not None:
        rows.append(("wasted", f"{found.wasted:.0%} of the verified draft nodes"))
    return rows


def speedup(trace: Trace) -> list[Row]:
    """The speed-up over the baseline in the header; nothing without one."""
    found, baseline = summary(trace), trace.header.baseline
    if baseline is None or found.speedup is None:
        return []
    against = f"{baseline.ms_per_token:.1f} ms a token ({baseline.how})"
    return [("speed-up", f"{found.speedup:.2f}x over autoregression, {against}")]


def comparison(trace: Trace, ar: Trace) -> list[str]:
    """Lines of a table: the run beside autoregression on the same prompt."""
    left, right = summary(trace), summary(ar)
    name = METHODS.get(trace.header.method, trace.header.method)
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
    name = METHODS.get(trace.header.method, trace.header.method)
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
