"""A packed trace: strict JSON, true to the record, and read alike in Python and in the browser."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eagle3_viz.accept_walk import walk_steps
from eagle3_viz.component.explain import miss_sentence, node_sentence
from eagle3_viz.component.packed import packed_trace, trace_payload
from eagle3_viz.config import METHODS, RULES, Rule, TreeShape
from eagle3_viz.cycle_view import STATES
from eagle3_viz.records import NodeState, Origin
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace
from tests.test_component_payload import only_builtins, speculative_and_plain

REPLAY = Path(__file__).parent / "js" / "replay.mjs"
NODE = shutil.which("node")
BIG = TreeShape(total=60, depth=6, top_k=10)


def unpacked(packed: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(packed, validate=True)))


@pytest.mark.parametrize("trace", speculative_and_plain())
def test_what_is_packed_is_strict_json_and_comes_out_as_it_went_in(trace: Trace) -> None:
    payload = trace_payload(trace, "a name")
    assert only_builtins(payload)
    assert unpacked(packed_trace(trace, name="a name")) == payload
    assert payload["name"] == "a name"


def test_the_same_trace_is_packed_to_the_same_text() -> None:
    assert packed_trace(make_trace(cycles=4), name="x") == packed_trace(
        make_trace(cycles=4), name="x"
    )


def test_a_name_that_is_no_valid_text_is_packed_all_the_same() -> None:
    assert unpacked(packed_trace(make_trace(cycles=1), name="\ud800<b>"))["name"] == "\ud800<b>"


@pytest.mark.parametrize(
    ("trace", "status"),
    [
        (make_trace(cycles=3), "finished"),
        (make_trace(cycles=3, finish=None), "stopped"),
        (make_trace(cycles=0), "finished"),
    ],
)
def test_a_trace_says_whether_its_run_came_to_an_end(trace: Trace, status: str) -> None:
    assert trace_payload(trace, "")["status"] == status


@pytest.mark.parametrize("rule", RULES)
def test_distributions_are_those_of_the_record(rule: Rule) -> None:
    trace = make_trace(cycles=8, rule=rule)
    for cycle, sent in zip(trace.cycles, trace_payload(trace, "")["cycles"], strict=True):
        assert sent["prefix_length"] == cycle.prefix_length and sent["root"] == cycle.root
        for at, packed in zip(cycle.distributions, sent["distributions"], strict=True):
            assert packed["node"] == at.node
            tops = {"p": at.p_raw, "q": at.q, "residual": at.residual}
            tops["warped"] = None if rule == "greedy" else at.p
            for name, top in tops.items():
                assert (packed[name] is None) == (top is None)
                if top is not None:
                    assert packed[name]["token"] == top.token.tolist()
                    np.testing.assert_allclose(packed[name]["p"], top.probability, rtol=6e-4)
            assert packed["refused"] == pytest.approx(at.residual_mass, rel=6e-4)
            assert packed["expected"] == pytest.approx(at.expected_acceptance, rel=6e-4)


@pytest.mark.parametrize("rule", RULES)
def test_sentences_and_steps_are_those_of_the_analysis(rule: Rule) -> None:
    trace = make_trace(cycles=5, rule=rule)
    for cycle, sent in zip(trace.cycles, trace_payload(trace, "")["cycles"], strict=True):
        nodes = range(cycle.verified)
        assert sent["sentences"] == [node_sentence(trace, cycle.index, node) for node in nodes]
        assert sent["miss"] == miss_sentence(trace, cycle.index)
        steps = walk_steps(trace, cycle.index)
        assert [(s["kind"], s["sentence"]) for s in sent["steps"]] == [
            (step.kind, step.sentence) for step in steps
        ]


def test_without_a_recorded_tree_there_are_no_sentences_and_no_steps() -> None:
    for trace in (make_trace(cycles=3, record="off"), make_trace(cycles=3, method="ar")):
        for cycle in trace_payload(trace, "")["cycles"]:
            assert cycle["sentences"] == cycle["steps"] == []


def test_every_token_of_the_inspector_has_a_label() -> None:
    payload = trace_payload(make_trace(cycles=10, rule="topk", shape=BIG), "")
    for cycle in payload["cycles"]:
        tops = [at[name] for at in cycle["distributions"] for name in ("p", "q", "residual")]
        named = {token for top in tops if top for token in top["token"]} | {cycle["root"]}
        assert all(str(token) in payload["labels"] for token in named)


def test_a_long_trace_of_big_trees_packs_into_two_megabytes() -> None:
    trace = make_trace(cycles=60, rule="topk", shape=BIG)
    assert len(packed_trace(trace, name="")) < 2_000_000 * 60 / 500


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    "trace",
    [
        *(make_trace(cycles=12, rule=rule, finish="eos", seed=3) for rule in RULES),
        *(make_trace(cycles=6, method=method) for method in METHODS if method != "ar"),
    ],
)
def test_the_walk_in_the_browser_ends_in_the_recorded_states(trace: Trace) -> None:
    done = subprocess.run(
        [NODE, str(REPLAY)], input=packed_trace(trace, name=""), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for cycle, shown in zip(trace.cycles, json.loads(done.stdout), strict=True):
        walked = shown["walked"]
        expected = [STATES[NodeState(int(state))] for state in cycle.nodes.state]
        assert [walked[str(node)] for node in range(cycle.verified)] == expected
        assert walked == shown["whole"]
        own = cycle.origins[-1] in (Origin.RECOVERED, Origin.BONUS)
        assert walked.get("-2") == (cycle.origins[-1].name.lower() if own else None)
        positions = range(cycle.prefix_length, cycle.prefix_length + len(cycle.path))
        assert shown["kept"] == [list(pair) for pair in zip(cycle.path, positions, strict=True)]
