"""What a page says about one cycle beside its drawing: labels, a table, the right distributions.

Every text here is plain: tokens have their whitespace made visible and are markup to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eagle3_viz.records import Cycle, Distributions, NodeState
from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

LABEL_LIMIT = 40  # characters of a token in a list
STATES = {
    NodeState.ROOT: "root",
    NodeState.ACCEPTED: "accepted",
    NodeState.REJECTED: "rejected",
    NodeState.UNREACHED: "unreached",
    NodeState.PRUNED: "pruned",
}


def token_text(trace: Trace, token: int, limit: int = LABEL_LIMIT) -> str:
    """The visible text of a token id, shortened."""
    text = visible(trace.token_bytes.get(int(token), b""))
    return text if len(text) <= limit else text[:limit] + "…"


def quoted(trace: Trace, token: int) -> str:
    """The whole visible text of a token id between quotes, for a sentence."""
    return f"'{visible(trace.token_bytes.get(int(token), b''))}'"


def node_labels(trace: Trace, cycle: Cycle) -> list[str]:
    """One line for each verified node, e.g. `3  ·blue  rejected`; empty without a recorded tree."""
    if cycle.nodes is None:
        return []
    pairs = zip(cycle.nodes.token, cycle.nodes.state, strict=True)
    return [
        f"{node}  {token_text(trace, token)}  {STATES[NodeState(int(state))]}"
        for node, (token, state) in enumerate(pairs)
    ]


def stop_node(cycle: Cycle) -> int:
    """The node where the acceptance walk stopped: the decided token was drawn there."""
    return cycle.path[-1] if cycle.path else 0


def distributions_at(cycle: Cycle, node: int) -> Distributions | None:
    """The distributions that judged `node`: its own if the walk visited it, else those of the
    nearest ancestor it visited. None where nothing was recorded."""
    recorded = {at.node: at for at in cycle.distributions}
    if cycle.nodes is None:
        return recorded.get(0)
    while node >= 0:
        if node in recorded:
            return recorded[node]
        node = int(cycle.nodes.parent[node])
    return None


def node_table(trace: Trace, cycle: Cycle) -> pd.DataFrame:
    """The verified tree, one row a node. Probabilities are NaN where they do not exist."""
    import pandas as pd  # here, for its import takes longer than all that needs no table

    nodes = cycle.nodes
    if nodes is None:
        return pd.DataFrame()
    return pd.DataFrame(
        {
            "node": np.arange(len(nodes)),
            "parent": nodes.parent,
            "depth": nodes.depth,
            "token": [token_text(trace, token) for token in nodes.token],
            "state": [STATES[NodeState(int(state))] for state in nodes.state],
            "q draft": np.exp(nodes.draft_logprob),
            "p target": nodes.p_raw,
            "p of the rule": nodes.p,
            "p when tested": nodes.p_tested,
            "accept probability": nodes.accept_probability,
            "draw": nodes.uniform,
            "id": nodes.token,
        }
    )
