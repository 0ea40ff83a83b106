"""The draft tree of one cycle as GraphML, for graph tools and for networkx."""

from __future__ import annotations

from io import BytesIO
from math import isfinite

import networkx as nx
import numpy as np

from eagle3_viz.cycle_view import STATES, stop_node
from eagle3_viz.export.tables import NO_TREES
from eagle3_viz.records import Cycle, Nodes, NodeState, Origin
from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace
from eagle3_viz.wording import counted

DECIDED = "decided"
"""Name of the node that stands for the recovered or bonus token."""


def graphml(trace: Trace, cycle: int) -> bytes:
    """The verified tree of cycle `cycle`, counted from 0 as in the record, as a directed graph.

    Nodes are named as on the screen, "0" is the root; edges go from parent to child. Attributes
    have the names of `nodes_csv`, `label` is the visible token; one that does not exist is left
    out. The token the target decided hangs from where the walk stopped. Raises IndexError when
    there is no such cycle, ValueError when its tree was not kept.
    """
    if not 0 <= cycle < len(trace.cycles):
        raise IndexError(
            f"the trace has {counted(len(trace.cycles), 'cycle')}, counted from 0; got {cycle}"
        )
    recorded = trace.cycles[cycle]
    if recorded.nodes is None:
        raise ValueError(NO_TREES)
    graph = nx.DiGraph(
        cycle=cycle + 1,
        prefix_length=recorded.prefix_length,
        method=visible(trace.header.method.encode()),
        rule=visible(trace.header.rule.encode()),
    )
    for node, attributes in enumerate(_attributes(trace, recorded.nodes)):
        graph.add_node(str(node), **attributes)
    for node, parent in enumerate(recorded.nodes.parent.tolist()):
        if parent >= 0:
            graph.add_edge(str(parent), str(node), **_present(q=_q(recorded.nodes, node)))
    _add_decided(graph, trace, recorded)
    written = BytesIO()
    nx.write_graphml(graph, written, encoding="utf-8", prettyprint=True)
    return written.getvalue()


def _attributes(trace: Trace, nodes: Nodes) -> list[dict[str, object]]:
    return [
        {
            "label": _label(trace, token),
            "token_id": token,
            "depth": int(nodes.depth[node]),
            "state": STATES[NodeState(int(nodes.state[node]))],
            **_present(
                q=_q(nodes, node),
                cumulative_q=np.exp(nodes.score[node]),
                p_raw=nodes.p_raw[node],
                p=nodes.p[node],
                p_tested=nodes.p_tested[node],
                accept_probability=nodes.accept_probability[node],
                uniform=nodes.uniform[node],
            ),
        }
        for node, token in enumerate(nodes.token.tolist())
    ]


def _add_decided(graph: nx.DiGraph, trace: Trace, cycle: Cycle) -> None:
    """Nothing where the run ended before the token was kept."""
    if not cycle.origins or cycle.origins[-1] not in (Origin.RECOVERED, Origin.BONUS):
        return
    token, parent = cycle.tokens[-1], str(stop_node(cycle))
    graph.add_node(
        DECIDED,
        label=_label(trace, token),
        token_id=token,
        depth=cycle.accepted + 1,
        state=cycle.origins[-1].name.lower(),
    )
    graph.add_edge(parent, DECIDED)


def _label(trace: Trace, token: int) -> str:
    return visible(trace.token_bytes[token])


def _q(nodes: Nodes, node: int) -> np.floating:
    return np.exp(nodes.draft_logprob[node])


def _present(**values: np.floating) -> dict[str, float]:
    """The values that exist, in the digits that a float32 has."""
    return {name: float(str(value)) for name, value in values.items() if isfinite(value)}
