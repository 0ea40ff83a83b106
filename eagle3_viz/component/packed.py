"""A whole trace as one text: base64 of gzip of JSON, everything the trace view draws.

The browser unpacks it by itself, so the view needs no server. It is the live payload of all cycles
with, for each cycle, what the inspector and the walk say about it.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import cast

from eagle3_viz.accept_walk import Committed, Drafted, Step, Tested, walk_steps
from eagle3_viz.component.explain import miss_sentence, node_sentences
from eagle3_viz.component.payload import Json, live_payload, number, numbers_of
from eagle3_viz.records import Cycle, Distributions, Top
from eagle3_viz.trace import Trace

EFFORT = 5  # of gzip: more takes half as much time again to save a thirtieth
CHARTS = ("p", "q", "residual", "warped")


def packed_trace(trace: Trace, *, name: str) -> str:
    """`trace` as the trace view reads it; `name` is what the reader calls it.

    A run that goes on is packed as far as it has come.
    """
    payload = trace_payload(replace(trace, cycles=trace.cycles[:]), name)
    plain = json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(plain, EFFORT, mtime=0)).decode("ascii")


def trace_payload(trace: Trace, name: str) -> Json:
    """What is packed, as plain JSON of built-in types."""
    payload = live_payload(trace, status="stopped")
    cycles = cast(list[Json], payload["cycles"])
    for cycle, sent in zip(trace.cycles, cycles, strict=True):
        sent |= _more(trace, cycle, drawn=sent["nodes"] is not None)
    status = "stopped" if trace.finish is None else "finished"
    return {**payload, "name": name, "rule": trace.header.rule, "status": status}


def _more(trace: Trace, cycle: Cycle, *, drawn: bool) -> Json:
    """What the live view does not show of a cycle; sentences and steps where its tree is drawn."""
    greedy = trace.header.rule == "greedy"
    return {
        "root": int(cycle.root),
        "prefix_length": int(cycle.prefix_length),
        "distributions": _distributions(cycle, greedy),
        "sentences": node_sentences(trace, cycle.index) if drawn else [],
        "miss": miss_sentence(trace, cycle.index),
        "steps": [_step(step) for step in walk_steps(trace, cycle.index)] if drawn else [],
    }


def _distributions(cycle: Cycle, greedy: bool) -> list[Json]:
    """The numbers of all of them are rounded in one go: each go costs more than its numbers."""
    tops = [_tops(at, greedy) for at in cycle.distributions]
    rounded = iter(numbers_of([top.probability for named in tops for top in named.values()]))
    sent = []
    for at, named in zip(cycle.distributions, tops, strict=True):
        drawn: Json = dict.fromkeys(CHARTS)
        for name, top in named.items():
            drawn[name] = {"token": top.token.tolist(), "p": next(rounded)}
        sent.append({"node": int(at.node), **drawn, **_scalars(at)})
    return sent


def _tops(at: Distributions, greedy: bool) -> dict[str, Top]:
    """p at temperature 1, q, residual, and the rule's p where it is more than one token."""
    tops = (at.p_raw, at.q, at.residual, None if greedy else at.p)
    return {name: top for name, top in zip(CHARTS, tops, strict=True) if top is not None}


def _scalars(at: Distributions) -> Json:
    return {
        "overlap": number(at.overlap),
        "covered": number(at.children_mass),
        "kl": number(at.kl),
        "entropy_p": number(at.entropy_p),
        "entropy_q": number(at.entropy_q),
        "refused": number(at.residual_mass),
        "expected": number(at.expected_acceptance),
    }


def _step(step: Step) -> Json:
    sent: Json = {"kind": step.kind, "sentence": step.sentence}
    match step:
        case Drafted():
            sent |= {"depth": step.depth}
        case Tested():
            sent |= {"node": step.node, "accepted": step.accepted}
        case Committed():
            sent |= {"kept": [int(node) for node in step.kept]}
    return sent
