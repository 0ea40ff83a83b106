"""A trace in words and numbers: rows of (label, value), not yet fit to show (`plain_text`)."""

from __future__ import annotations

from collections.abc import Mapping

from eagle3_viz.metrics import Summary, summary
from eagle3_viz.plain_text import Row
from eagle3_viz.records import Finish
from eagle3_viz.settings import method_title, rule_title
from eagle3_viz.trace import Header, ModelSource, Trace
from eagle3_viz.wording import command_words, counted

FINISHES: dict[Finish | None, str] = {
    "eos": "the answer is complete",
    "length": "the token limit is reached",
    "context": "the context is full",
    "stop": "a stop string was produced",
    None: "interrupted before the end",
}
NOT_LOSSLESS = (
    "The rule typical changes the output distribution: this text is no draw from the target's."
)


def circumstances(trace: Trace) -> list[Row]:
    """Which pair ran by which method, and on what."""
    header = trace.header
    where = f"{header.dtype} on {header.device}, {counted(header.threads, 'thread')}"
    method = f"{method_title(header.method)}, rule {rule_title(header.rule)}"
    shape, fixed = header.config.get("shape"), header.config.get("fixed")
    if header.method == "eagle1" and isinstance(fixed, Mapping):
        method += f", tree {fixed.get('name')}"
    elif header.method != "ar" and isinstance(shape, Mapping):
        method += f", tree {', '.join(f'{name} {size}' for name, size in shape.items())}"
        if isinstance(depth := shape.get("depth"), int):
            method += f" ({counted(depth + 1, 'level')})"
    return [("pair", header.pair), ("method", method), ("ran", where)]


def provenance(trace: Trace) -> list[Row]:
    """What made the run."""
    header = trace.header
    return [
        *circumstances(trace),
        ("started", header.started_at),
        ("target", _source(header.target)),
        ("draft", "none" if header.draft is None else _source(header.draft)),
        ("settings", _settings(header)),
        ("software", ", ".join(f"{name} {version}" for name, version in header.versions.items())),
        ("commit", header.git_commit or "unknown"),
        ("command", command_words(header.argv)),
    ]


def _source(source: ModelSource) -> str:
    parts = [source.name, f"{source.parameters / 1e6:.1f} M parameters", f"from {source.location}"]
    parts += [f"revision {source.revision}"] if source.revision else []
    parts += [f"sha256 {source.sha256[:12]}"] if source.sha256 else []
    return ", ".join(parts)


def _settings(header: Header) -> str:
    """The settings of the run, but those that its method or rule has no use for."""

    def pair(name: str, value: object) -> str:
        if isinstance(value, Mapping):
            return f"{name} ({', '.join(f'{k} {v}' for k, v in value.items())})"
        return f"{name} {value}"

    unused = _unused_settings(header.method, header.rule)
    return ", ".join(
        pair(name, value) for name, value in header.config.items() if name not in unused
    )


def _unused_settings(method: str, rule: str) -> set[str]:
    unused = {"shape"} if method in ("ar", "eagle1") else set()
    if method != "eagle1":
        unused.add("fixed")
    if rule != "sample":
        unused.add("draft_temperature")
    return unused


def measured(trace: Trace) -> list[Row]:
    """What the run took: tokens, tau, speed, the phases of a cycle, and why it ended."""
    found = summary(trace)
    cycles = counted(found.cycles, "cycle")
    rows = [("tokens", f"{found.tokens} (1 from the prompt, {found.tokens - 1} from {cycles})")]
    if found.tau is not None:
        rows.append(("tau", f"{found.tau:.2f} tokens per cycle{_but_cut(trace)}"))
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


def _but_cut(trace: Trace) -> str:
    """Over how many cycles tau is taken, where that is not all: a cut one would have given more."""
    uncut = sum(not cycle.cut for cycle in trace.cycles)
    return "" if uncut == len(trace.cycles) else f" over the {counted(uncut, 'uncut cycle')}"


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
