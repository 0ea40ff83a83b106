"""Every record of every method survives its columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagle3_viz.config import METHODS, Method
from eagle3_viz.trace_file import from_bytes, to_bytes
from tests.synthetic import make_trace
from tests.test_trace_file import differences


@pytest.mark.parametrize("method", METHODS)
def test_a_trace_of_every_method_comes_back_exactly(method: Method) -> None:
    trace = make_trace(method=method, rule="topk")
    assert trace.cycles[0].draws
    assert differences(trace, from_bytes(to_bytes(trace))) == []


def test_the_draws_come_back_to_the_last_bit() -> None:
    trace = make_trace(rule="sample", cycles=3)
    assert trace.prefill is not None
    draws = (0.1 + 0.2, 2.0**-53, 1.0 - 2.0**-53)
    trace.prefill = replace(trace.prefill, draws=draws[::-1])
    trace.cycles[1] = replace(trace.cycles[1], draws=draws)
    back = from_bytes(to_bytes(trace))
    assert back.prefill is not None
    assert (back.prefill.draws, back.cycles[1].draws) == (draws[::-1], draws)
    assert back.cycles[0].draws == trace.cycles[0].draws
