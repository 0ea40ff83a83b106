"""A trace survives its JSON document exactly, and the document is what the module says."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from eagle3_viz import trace_columns, trace_json
from eagle3_viz.config import METHODS, RULES, Method, Rule
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import to_bytes
from tests.synthetic import make_trace


def document(trace: Trace) -> dict[str, Any]:
    return json.loads(trace_json.dumps(trace))


@pytest.mark.parametrize("record", ["full", "outcomes", "off"])
@pytest.mark.parametrize("rule", RULES)
def test_a_trace_comes_back_exactly(rule: Rule, record: Any) -> None:
    for seed, finish in enumerate(("length", "eos", None)):
        trace = make_trace(seed=seed, rule=rule, record=record, finish=finish, cycles=6)  # type: ignore[arg-type]
        assert to_bytes(trace_json.loads(trace_json.dumps(trace))) == to_bytes(trace)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_comes_back(method: Method) -> None:
    trace = make_trace(method=method, cycles=3)
    assert to_bytes(trace_json.loads(trace_json.dumps(trace))) == to_bytes(trace)


def test_a_cycle_has_every_column_and_null_where_a_number_does_not_exist() -> None:
    trace = make_trace(cycles=2)
    (first, _) = document(trace)["cycles"]
    nodes = trace.cycles[0].nodes
    assert nodes is not None and list(first) == trace_columns.SCHEMA.names
    assert first["node_token"] == nodes.token.tolist()
    assert first["node_p"][0] is None
    assert [value is None for value in first["node_p_tested"]] == np.isnan(nodes.p_tested).tolist()
    assert not any(
        isinstance(value, float) and math.isnan(value) for value in first["node_p_tested"]
    )


def test_what_was_not_recorded_is_null() -> None:
    (cycle,) = document(make_trace(cycles=1, record="off"))["cycles"]
    assert cycle["node_token"] is None and cycle["pool_token"] is None and cycle["miss"] is None
    assert cycle["distributions"] == []


def test_a_live_trace_is_written_as_far_as_it_has_come() -> None:
    trace = make_trace(cycles=4, finish=None)
    assert len(trace_json.loads(trace_json.dumps(trace)).cycles) == 4
