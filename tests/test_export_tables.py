"""The CSV of cycles and of nodes says what the record says."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from eagle3_viz.config import METHODS, RULES, Method, Rule, TreeShape
from eagle3_viz.export import cycles_csv, nodes_csv
from eagle3_viz.records import NodeState
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def read(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def numbers(column: pd.Series) -> list[int]:
    return [int(value) for value in column]


@pytest.mark.parametrize("rule", RULES)
def test_every_cycle_is_a_row_with_the_values_of_the_record(rule: Rule) -> None:
    trace = make_trace(cycles=9, rule=rule, seed=2)
    table = read(cycles_csv(trace))
    assert numbers(table.cycle) == list(range(1, 10))
    for row, cycle in zip(table.itertuples(), trace.cycles, strict=True):
        for name in ("prefix_length", "accepted", "verified", "drafted", "draft_forwards", "cut"):
            assert getattr(row, name) == getattr(cycle, name), name
        assert row.root_id == cycle.root
        assert [int(token) for token in str(row.token_ids).split()] == list(cycle.tokens)
        assert row.origins.split() == [origin.name.lower() for origin in cycle.origins]
        levels = [float(ms) for ms in str(row.draft_levels_ms).split()]
        assert levels == list(cycle.timing.draft_levels)
        for phase in ("draft", "tree", "verify", "accept", "commit", "total", "record"):
            assert getattr(row, f"{phase}_ms") == getattr(cycle.timing, phase)
    assert table.finish[:-1].isna().all()
    assert table.finish.iloc[-1] == "length"


def test_a_cycle_that_ended_before_its_first_token_is_a_row_without_tokens() -> None:
    trace = make_trace(cycles=3)
    last = replace(trace.cycles[-1], tokens=(), origins=(), cut=True, finish="stop")
    trace.cycles[-1] = last
    table = read(cycles_csv(trace))
    assert pd.isna(table.token_ids.iloc[-1])
    assert table.cut.iloc[-1]


@pytest.mark.parametrize("rule", RULES)
def test_every_node_is_a_row_with_the_values_of_the_record(rule: Rule) -> None:
    trace = make_trace(cycles=6, rule=rule, shape=TreeShape(24, 3, 6))
    table = read(nodes_csv(trace))
    assert len(table) == sum(cycle.verified for cycle in trace.cycles)
    for number, rows in table.groupby("cycle"):
        nodes = trace.cycles[int(number) - 1].nodes
        assert nodes is not None
        assert numbers(rows.node) == list(range(len(nodes)))
        assert numbers(rows.parent.fillna(-1)) == nodes.parent.tolist()
        assert numbers(rows.depth) == nodes.depth.tolist()
        assert numbers(rows.token_id) == nodes.token.tolist()
        assert numbers(rows.q_rank.fillna(0) - 1) == nodes.q_rank.tolist()
        assert numbers(rows.p_rank.fillna(0) - 1) == nodes.p_rank.tolist()
        assert rows.expanded.tolist() == nodes.expanded.tolist()
        assert rows.state.tolist() == [NodeState(int(s)).name.lower() for s in nodes.state]
        for name in ("p_raw", "p", "p_tested", "accept_probability", "uniform"):
            np.testing.assert_array_equal(
                rows[name].to_numpy(float).astype(np.float32), getattr(nodes, name), name
            )


def test_cumulative_q_is_the_product_of_q_along_the_path() -> None:
    table = read(nodes_csv(make_trace(cycles=4, rule="topk")))
    for _, rows in table.groupby("cycle"):
        product = {0: 1.0}
        for row in rows.iloc[1:].itertuples():
            product[row.node] = product[int(row.parent)] * row.q
            assert row.cumulative_q == pytest.approx(product[row.node], rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_both_tables(method: Method) -> None:
    trace = make_trace(cycles=4, method=method)
    assert len(read(cycles_csv(trace))) == 4
    assert len(read(nodes_csv(trace))) == sum(cycle.verified for cycle in trace.cycles)


def test_a_run_without_cycles_has_the_heads_of_both_tables() -> None:
    trace = make_trace(cycles=0)
    longer = make_trace(cycles=2)
    assert list(read(cycles_csv(trace)).columns) == list(read(cycles_csv(longer)).columns)
    assert list(read(nodes_csv(trace)).columns) == list(read(nodes_csv(longer)).columns)
    assert len(read(nodes_csv(trace))) == 0


def test_nodes_that_were_not_recorded_are_told_and_cycles_written_all_the_same() -> None:
    trace = make_trace(cycles=3, record="off")
    with pytest.raises(ValueError, match="recorded with record off"):
        nodes_csv(trace)
    assert len(read(cycles_csv(trace))) == 3


def with_text(trace: Trace, data: bytes) -> Trace:
    return replace(trace, token_bytes=dict.fromkeys(trace.token_bytes, data))


@pytest.mark.parametrize(
    "data",
    [b"=HYPERLINK(1)", b"+1", b"-1", b"@SUM(1)", b"\t=1", b"\r=1", b'","=1', b"\n=1", b"\x00"],
)
def test_no_cell_of_text_starts_a_formula_or_breaks_its_row(data: bytes) -> None:
    trace = with_text(make_trace(cycles=3), data)
    cycles, nodes = read(cycles_csv(trace)), read(nodes_csv(trace))
    assert len(cycles) == 3
    assert len(nodes) == sum(cycle.verified for cycle in trace.cycles)
    for cell in [*cycles.root, *cycles.text, *nodes.token]:
        assert not cell.startswith(FORMULA_STARTS)
        assert cell.startswith("'") and cell.endswith("'")


def test_a_character_spread_over_two_tokens_is_whole_in_the_text_of_its_cycle() -> None:
    trace = make_trace(cycles=1, finish=None)
    first, second = b"\xf0\x9f", b"\x99\x82"
    cycle = replace(
        trace.cycles[0], tokens=(0, 1), origins=trace.cycles[0].origins[:1] * 2, nodes=None
    )
    halves = Trace(trace.header, trace.prefill, [cycle], {**trace.token_bytes, 0: first, 1: second})
    assert read(cycles_csv(halves)).text[0] == "'🙂'"


def test_unknown_values_are_empty_cells() -> None:
    table = read(nodes_csv(make_trace(cycles=1)))
    root = table.iloc[0]
    assert all(
        math.isnan(root[name]) for name in ("parent", "q", "q_rank", "p_raw", "p_rank", "uniform")
    )
