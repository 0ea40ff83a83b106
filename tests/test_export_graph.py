"""The GraphML of a cycle, read back by networkx, is the tree of the record."""

from __future__ import annotations

import io
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from eagle3_viz.config import METHODS, RULES, Method, Rule, TreeShape
from eagle3_viz.export import graphml
from eagle3_viz.records import NodeState, Origin
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace


def read(trace: Trace, cycle: int) -> nx.DiGraph:
    return nx.read_graphml(io.BytesIO(graphml(trace, cycle)))


@pytest.mark.parametrize("rule", RULES)
def test_the_graph_read_back_is_the_recorded_tree(rule: Rule) -> None:
    trace = make_trace(cycles=5, rule=rule, shape=TreeShape(20, 3, 5))
    for index, cycle in enumerate(trace.cycles):
        graph, nodes = read(trace, index), cycle.nodes
        assert nodes is not None
        edges = {(str(p), str(n)) for n, p in enumerate(nodes.parent.tolist()) if p >= 0}
        assert {edge for edge in graph.edges if edge[1] != "decided"} == edges
        assert nx.is_arborescence(graph)
        for node in range(len(nodes)):
            found = graph.nodes[str(node)]
            assert found["token_id"] == nodes.token[node]
            assert found["depth"] == nodes.depth[node]
            assert found["state"] == NodeState(int(nodes.state[node])).name.lower()
            assert nx.shortest_path_length(graph, "0", str(node)) == nodes.depth[node]
            for name in ("p_raw", "p", "p_tested", "accept_probability", "uniform"):
                value = getattr(nodes, name)[node]
                assert (name in found) == bool(np.isfinite(value))
                if name in found:
                    assert np.float32(found[name]) == value
            if node > 0:
                q = graph.edges[str(nodes.parent[node]), str(node)]["q"]
                assert q == found["q"] == pytest.approx(np.exp(nodes.draft_logprob[node]))


def test_the_graph_knows_which_cycle_it_is() -> None:
    trace = make_trace(cycles=4)
    found = read(trace, 2).graph
    assert (found["cycle"], found["prefix_length"]) == (3, trace.cycles[2].prefix_length)
    assert (found["method"], found["rule"]) == ("eagle3", "greedy")


@pytest.mark.parametrize("method", METHODS)
def test_the_decided_token_hangs_from_where_the_walk_stopped(method: Method) -> None:
    trace = make_trace(cycles=8, method=method, rule="topk")
    for index, cycle in enumerate(trace.cycles):
        graph = read(trace, index)
        own = bool(cycle.origins) and cycle.origins[-1] in (Origin.RECOVERED, Origin.BONUS)
        assert ("decided" in graph) == own
        if own:
            assert list(graph.predecessors("decided")) == [str(cycle.path[-1])]
            assert graph.nodes["decided"]["token_id"] == cycle.tokens[-1]
            assert graph.nodes["decided"]["state"] == cycle.origins[-1].name.lower()


def test_labels_are_the_visible_tokens_whatever_bytes_they_hold() -> None:
    trace = make_trace(cycles=1)
    hostile = '"/><!DOCTYPE x>&\x00\x1b\x85\u202e\ufffe]]>\ud7ff'.encode() + b"\xff\xf0\x9f"
    every = replace(trace, token_bytes=dict.fromkeys(trace.token_bytes, hostile))
    label = read(every, 0).nodes["0"]["label"]
    assert label == '"/><!DOCTYPE⟨U+0020⟩x>&'.replace("⟨U+0020⟩", "·") + (
        "␀␛⟨U+0085⟩⟨U+202E⟩⟨U+FFFE⟩]]>⟨U+D7FF⟩‹FF F0 9F›"
    )


def test_a_header_with_control_characters_still_gives_a_graph() -> None:
    trace = make_trace(cycles=1)
    trace.header = replace(trace.header, method="a\x00<b>", rule="\x1b")
    assert read(trace, 0).graph["method"] == "a␀<b>"


@pytest.mark.parametrize("cycle", [-1, 3, 100])
def test_a_cycle_that_does_not_exist_is_named(cycle: int) -> None:
    with pytest.raises(IndexError, match=f"3 cycles, counted from 0; got {cycle}"):
        graphml(make_trace(cycles=3), cycle)


def test_a_tree_that_was_not_recorded_is_told() -> None:
    with pytest.raises(ValueError, match="recorded with record off"):
        graphml(make_trace(cycles=3, record="off"), 0)
