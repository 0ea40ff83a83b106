"""What the browser gets of a trace: plain JSON, compact, text already made visible.

Only built-in types leave this module: a numpy scalar would turn the whole payload into a string
on its way to the browser, and NaN or infinity would blank it. They become None.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Literal

import numpy as np

from eagle3_viz.component.explain import RULE_NOTES
from eagle3_viz.metrics import Summary, summary
from eagle3_viz.records import Cycle, Nodes, Origin
from eagle3_viz.tokens import split_utf8, visible
from eagle3_viz.trace import Header, Trace
from eagle3_viz.wording import counted

Status = Literal["idle", "queued", "running", "paused", "finished", "stopped", "failed"]
Json = dict[str, object]

LABEL_LIMIT = 14  # characters of a token inside a node
HOVER_LIMIT = 60  # characters of a token in its hover card
DIGITS = 4  # significant digits of every number
STRIP_LIMIT = 200  # characters of one token in the token strip
MARGIN = 8  # groups of tokens read beside a cut, so that no character is cut through
TAU = "accepted drafts + 1, over the cycles that no end cut"
PRUNED_LIMIT = 40  # pruned candidates drawn per cycle, the best scored ones


def live_payload(trace: Trace, *, status: Status, first_cycle: int = 0, sentence: str = "") -> Json:
    """The component's data: header facts, metrics, and the cycles from `first_cycle` on.

    `sentence` says where the run is. Raises ValueError when `first_cycle` is negative.
    """
    if first_cycle < 0:
        raise ValueError(f"first_cycle counts cycles from 0; got {first_cycle}")
    total = len(trace.cycles)  # once: a live trace grows while this runs
    first = min(first_cycle, total)
    cycles = trace.cycles[first:total]
    header = trace.header
    opening = _strip_pieces(trace, 0, min(total, MARGIN) + 1)[0]
    pieces = _strip_pieces(trace, first + 1, total + 1)
    encoded = [_cycle(trace, cycle, texts) for cycle, texts in zip(cycles, pieces, strict=True)]
    return {
        "run": run_name(trace),
        "status": status,
        "sentence": sentence,
        "method": header.method,
        "record": str(header.config.get("record", "full")),
        "rule_note": "" if header.method == "ar" else RULE_NOTES[header.rule],
        "first_cycle": first,
        "total_cycles": total,
        "opening_text": opening,
        "metrics": _metrics(trace, status),
        "cycles": encoded,
        "labels": _labels(trace, cycles),
    }


def waiting_payload(status: Status, sentence: str, *, done: int = 0, total: int = 0) -> Json:
    """The component's data where there is no trace yet; `done` of `total` units are worked off."""
    return {
        "run": "",
        "status": status,
        "sentence": sentence,
        "done": done,
        "total": total,
        "method": "",
        "record": "",
        "rule_note": "",
        "first_cycle": 0,
        "total_cycles": 0,
        "opening_text": [],
        "metrics": [],
        "cycles": [],
        "labels": {},
    }


def run_name(trace: Trace) -> str:
    """What tells one run of a page from another."""
    return f"{trace.header.started_at}#{trace.header.seed}"


def number(value: float) -> float | None:
    """A finite float of `DIGITS` significant digits, or None."""
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None


def numbers(values: np.ndarray) -> list[float | None]:
    """`number` of each value."""
    exact = values.astype(np.float64)
    known = np.isfinite(exact)
    size = np.abs(np.where(known & (exact != 0), exact, 1.0))
    unit = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    rounded = np.rint(np.where(known, exact, 0.0) * unit) / unit
    if known.all():
        return rounded.tolist()
    return [value if fine else None for value, fine in zip(rounded.tolist(), known, strict=True)]


def numbers_of(arrays: Sequence[np.ndarray]) -> list[list[float | None]]:
    """`numbers` of each array."""
    ends = np.cumsum([len(array) for array in arrays]).tolist()
    rounded = numbers(np.concatenate([np.zeros(0), *arrays]))
    return [rounded[end - len(array) : end] for array, end in zip(arrays, ends, strict=True)]


def _cycle(trace: Trace, cycle: Cycle, pieces: list[str]) -> Json:
    nodes = cycle.nodes if trace.header.method != "ar" else None
    return {
        "i": int(cycle.index),
        "tokens": [int(t) for t in cycle.tokens],
        "text": pieces,
        "origins": [int(o) for o in cycle.origins],
        "accepted": int(cycle.accepted),
        "path": [int(node) for node in cycle.path],
        "verified": int(cycle.verified),
        "ms": number(cycle.timing.total),
        "cut": bool(cycle.cut),
        "finish": cycle.finish,
        "nodes": _nodes(nodes, trace.header.rule) if nodes else None,
        "pruned": _pruned(cycle, nodes) if nodes else None,
        "decided": _decided(cycle) if nodes else None,
    }


def _nodes(nodes: Nodes, rule: str) -> Json:
    tested = np.flatnonzero(np.isfinite(nodes.accept_probability))
    one_hot = rule == "greedy"  # p says no more than p_rank then
    warped = not one_hot and not np.allclose(nodes.p[1:], nodes.p_raw[1:], rtol=1e-3, atol=1e-6)
    return {
        "token": nodes.token.tolist(),
        "parent": nodes.parent.tolist(),
        "q": numbers(np.exp(nodes.draft_logprob)),
        "p": numbers(nodes.p_raw),
        "warped": numbers(nodes.p) if warped else None,
        "p_rank": nodes.p_rank.tolist(),
        "q_rank": nodes.q_rank.tolist(),
        "state": nodes.state.tolist(),
        "tested": [
            [
                int(i),
                number(nodes.p_tested[i]),
                number(nodes.accept_probability[i]),
                number(nodes.uniform[i]),
            ]
            for i in tested
        ],
        "order": None if (np.diff(nodes.pool_index) > 0).all() else nodes.pool_index.tolist(),
    }


def _pruned(cycle: Cycle, nodes: Nodes) -> Json | None:
    """The best-scored candidates the budget dropped; ids go on after the verified nodes.

    A parent never scores below its child and comes before it in the pool, so a stable cut by
    score keeps every parent of what it keeps.
    """
    if cycle.pool is None:
        return None
    pool, kept = cycle.pool, nodes.pool_index
    dropped = np.setdiff1d(np.arange(len(pool)), kept, assume_unique=True)
    best = np.sort(dropped[np.argsort(-pool.score[dropped], kind="stable")[:PRUNED_LIMIT]])
    place = {index: node for node, index in enumerate([*kept.tolist(), *best.tolist()])}  # -1: root
    return {
        "total": len(dropped),
        "token": pool.token[best].tolist(),
        "parent": [place[parent] for parent in pool.parent[best].tolist()],
        "q": numbers(np.exp(pool.draft_logprob[best])),
    }


def _decided(cycle: Cycle) -> Json | None:
    """The recovered or bonus token, unless an end cut it off."""
    if not cycle.origins or cycle.origins[-1] not in (Origin.RECOVERED, Origin.BONUS):
        return None
    token, miss = cycle.tokens[-1], cycle.miss
    return {
        "token": int(token),
        "origin": int(cycle.origins[-1]),
        "p": _decided_p(cycle, token),
        "q": number(miss.q) if miss else None,
        "q_rank": int(miss.q_rank) if miss else -1,
    }


def _decided_p(cycle: Cycle, token: int) -> float | None:
    for at in cycle.distributions:
        if at.node == cycle.path[-1]:
            where = np.flatnonzero(at.p_raw.token == token)
            return number(at.p_raw.probability[where[0]]) if len(where) else None
    return None


def _strip_pieces(trace: Trace, start: int, stop: int) -> list[list[str]]:
    """Visible text per committed token of groups `start` to `stop`: prefill is 0, cycle i is i + 1.

    A character spread over several tokens stands at the first of them, the others are empty. The
    cut begins some groups early, since `start` may lie inside a character.
    """
    begin = max(0, start - MARGIN)
    groups: list[Sequence[int]] = [() if trace.prefill is None else (trace.prefill.token,)]
    groups = [*groups[begin:], *(c.tokens for c in trace.cycles[max(begin - 1, 0) : stop - 1])]
    flat = [trace.token_bytes.get(int(t), b"") for group in groups for t in group]
    texts = [""] * len(flat)
    for first, _, label in split_utf8(flat):
        texts[first] = _shorten(label, STRIP_LIMIT)
    remaining = iter(texts)
    pieces = [[next(remaining) for _ in group] for group in groups]
    return pieces[start - begin :]


def _labels(trace: Trace, cycles: Sequence[Cycle]) -> dict[str, list[str]]:
    """[label] or [label, hover] by token id, for every token the drawing of `cycles` names."""
    wanted: set[int] = set().union(*(cycle.token_ids for cycle in cycles))
    return {str(t): _label(trace, t) for t in sorted(wanted)}


def _label(trace: Trace, token: int) -> list[str]:
    text = visible(trace.token_bytes.get(token, b""))
    label, hover = _shorten(text, LABEL_LIMIT), _shorten(text, HOVER_LIMIT)
    return [label] if label == hover else [label, hover]


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _metrics(trace: Trace, status: Status) -> list[Json]:
    """Of each figure above the strip, worded: name, value, an explanation, and an aside, which is
    shown without asking."""
    s: Summary = summary(trace)
    rows = [
        ("tokens", f"{s.tokens}", "tokens the run has produced, the prefill's one included", ""),
        ("tokens per cycle (tau)", _worded(s.tau, "{:.2f}"), TAU, _over(s)),
        ("tokens/s", _worded(s.tokens_per_second, "{:.1f}"), "decode only, without recording", ""),
        ("speed-up over AR", *_speedup(trace.header, s, status), ""),
        (
            "nodes wasted",
            _worded(s.wasted, "{:.0%}"),
            "verified nodes not accepted",
            "",
        ),
        ("mean cycle time", _worded(s.cycle_ms, "{:.1f} ms"), "without recording", ""),
    ]
    return [dict(zip(("name", "value", "hint", "aside"), row, strict=True)) for row in rows]


def _over(s: Summary) -> str:
    """Over how many cycles tau is, where that is not all."""
    return "" if s.uncut in (0, s.cycles) else f"over {counted(s.uncut, 'uncut cycle')}"


def _speedup(header: Header, s: Summary, status: Status) -> tuple[str, str]:
    """Value and explanation of the speed-up.

    Autoregression has none: its baseline was timed apart from any drawing, the run was not.
    Neither has a run of cut cycles alone, whose time was not spent on the tokens kept.
    """
    if header.method == "ar":
        return "–", "this run is autoregression itself"
    if header.baseline is None:
        over = status in ("idle", "stopped", "failed")
        return "–" if over else "measuring…", "against autoregression through the same target"
    baseline = header.baseline
    hint = (
        f"against autoregression at {baseline.ms_per_token:.1f} ms a token, "
        f"measured {baseline.measured_at}: {baseline.how}"
    )
    return _worded(None if s.tau is None else s.speedup, "{:.2f}×"), hint


def _worded(value: float | None, form: str) -> str:
    return "–" if value is None or not isfinite(value) else form.format(value)
