"""Plain sentences about a drafted node and about the token no node matched.

The sentences are plain text with the whitespace of tokens made visible; whoever shows them must
not read them as Markdown or HTML.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eagle3_viz.cycle_view import quoted
from eagle3_viz.records import Cycle, Miss, Nodes, NodeState, Origin
from eagle3_viz.trace import Trace
from eagle3_viz.wording import rounded

RULE_NOTES = {
    "greedy": "accepted where it is the target's arg-max; q is only the draft's confidence",
    "topk": "accept probability = p (proposal was chosen, not drawn); "
    "q is only the draft's confidence",
    "sample": "accept probability = min(1, p/q)",
    "typical": "accepted where p is high for how open the choice is; this changes the output "
    "distribution",
}

WALK_ENDED = "the walk ended before it"


def node_sentence(trace: Trace, cycle_index: int, node: int) -> str:
    """What verification made of one node and why, in the words of the trace's acceptance rule.

    Raises IndexError when the trace has no such cycle or the cycle no such node.
    """
    cycle = _cycle(trace, cycle_index)
    if trace.header.method == "ar":
        return "Autoregression: the target decided this token alone, nothing was drafted."
    if cycle.nodes is None:
        return f"Record is off: the tree of cycle {cycle_index + 1} was not kept."
    if not 0 <= node < len(cycle.nodes):
        raise IndexError(
            f"cycle {cycle_index} verified nodes 0 to {len(cycle.nodes) - 1}; got node {node}"
        )
    return _sentence(trace, cycle, cycle.nodes, node, _untested(trace, cycle, cycle.nodes))


def node_sentences(trace: Trace, cycle_index: int) -> list[str]:
    """`node_sentence` of every verified node; none where the tree was not recorded."""
    cycle = _cycle(trace, cycle_index)
    if cycle.nodes is None:
        return []
    untested = _untested(trace, cycle, cycle.nodes)
    return [
        _sentence(trace, cycle, cycle.nodes, node, untested) for node in range(len(cycle.nodes))
    ]


def _sentence(
    trace: Trace, cycle: Cycle, nodes: Nodes, node: int, untested: Mapping[int, str]
) -> str:
    if node in untested:
        return f"{quoted(trace, nodes.token[node])} was never tested: {untested[node]}."
    if nodes.state[node] == NodeState.ROOT:
        return _root(trace, cycle)
    rules = {"greedy": _greedy, "topk": _topk, "sample": _sample, "typical": _typical}
    return rules[trace.header.rule](trace, cycle, nodes, node)


def miss_sentence(trace: Trace, cycle_index: int) -> str:
    """Why the token the target decided at the end of a cycle was not in the verified tree.

    Raises IndexError when the trace has no such cycle.
    """
    cycle = _cycle(trace, cycle_index)
    if trace.header.method == "ar":
        return "Autoregression: the target decides every token, nothing was drafted."
    if cycle.cut:
        return "The run ended inside this cycle, before a token of the target's own was kept."
    if cycle.drafted == 0:
        return "Nothing was drafted in this cycle: the target decided its token alone."
    if cycle.miss is None:
        return "Why the tree missed the decided token is kept with record full only."
    miss, at = cycle.miss, _token_at(trace, cycle, cycle.miss.node)
    decided = quoted(trace, miss.token)
    return f"The target decided {decided} after {at}: {_cause(trace, cycle, miss, at)}."


def _cause(trace: Trace, cycle: Cycle, miss: Miss, at: str) -> str:
    if not miss.in_draft_vocabulary:
        return "the draft's vocabulary lacks that token, it can never propose it"
    if miss.beyond_depth:
        return f"{at} lies at the deepest level of the tree, nothing is drafted below it"
    if trace.header.method == "lookup":
        return "the copied text " + ("goes on differently" if miss.expanded else f"ends with {at}")
    if not miss.expanded and trace.header.method == "eagle1":
        return f"the fixed tree ends at {at}"
    if not miss.expanded:
        return f"the draft did not expand {at}, other nodes scored higher"
    confidence = f"q {rounded(miss.q)}, rank {miss.q_rank + 1}"
    if cycle.nodes is not None and miss.token in cycle.nodes.token[cycle.nodes.parent == miss.node]:
        return f"it was drafted ({confidence}) and refused, then p gave it all the same"
    if miss.pruned:
        return (
            f"it was drafted ({confidence}) but dropped by the budget of "
            f"{cycle.verified} verified nodes"
        )
    if trace.header.rule == "sample":
        return f"it was not among the tokens drawn from the draft ({confidence})"
    return f"it ranked below the drafted children ({confidence})"


def _root(trace: Trace, cycle: Cycle) -> str:
    decider = "prefill" if cycle.index == 0 else "the cycle before"
    token = quoted(trace, cycle.root)
    return f"{token} is the root: decided by {decider}, the draft guesses what follows it."


def _untested(trace: Trace, cycle: Cycle, nodes: Nodes) -> dict[int, str]:
    """Why each unreached node was never tested. What hangs off the accepted path says it for all
    that lies below."""
    path, branches = {-1, *cycle.path}, list[int]()
    below, why = dict[int, str](), dict[int, str]()
    unreached = (nodes.state == NodeState.UNREACHED).tolist()
    for node, parent in enumerate(nodes.parent.tolist()):
        branch = node if parent in path else branches[parent]
        branches.append(branch)
        if unreached[node] and branch == node:
            why[node] = _passed_over(trace, cycle, nodes, node)
        elif unreached[node]:
            if branch not in below:
                below[branch] = _below(trace, cycle, nodes, branch)
            why[node] = below[branch]
    return why


def _below(trace: Trace, cycle: Cycle, nodes: Nodes, branch: int) -> str:
    top = quoted(trace, nodes.token[branch])
    if nodes.state[branch] == NodeState.REJECTED:
        return f"it lies below {top}, which was refused"
    accepted = _accepted_sibling(cycle, nodes, branch)
    if accepted is None:
        return WALK_ENDED
    return f"it lies below {top}, whose sibling {quoted(trace, nodes.token[accepted])} was accepted"


def _passed_over(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str:
    accepted = _accepted_sibling(cycle, nodes, node)
    if accepted is None:
        return WALK_ENDED
    return f"its sibling {quoted(trace, nodes.token[accepted])} was accepted first"


def _greedy(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str:
    token, q = quoted(trace, nodes.token[node]), rounded(np.exp(nodes.draft_logprob[node]))
    confidence = f"q {q} is only the draft's confidence here"
    if nodes.state[node] == NodeState.ACCEPTED:
        return f"{token} is the target's arg-max: accepted; {confidence}."
    rank = f"rank {int(nodes.p_rank[node]) + 1} of the target, p {rounded(nodes.p_raw[node])}"
    best = _instead(trace, cycle, nodes, node)
    verdict = f"refused, the arg-max is {best}" if best else "refused"
    return f"{token} is not the target's arg-max ({rank}): {verdict}; {confidence}."


def _topk(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str:
    q = rounded(np.exp(nodes.draft_logprob[node]))
    return (
        f"{_target_p(nodes, node)}: {_test(trace, cycle, nodes, node)}. Accept probability = p "
        f"(the proposal was chosen, not drawn); q {q} is only the draft's confidence here."
    )


def _sample(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str:
    q = rounded(np.exp(nodes.draft_logprob[node]))
    return f"q {q}, {_target_p(nodes, node)}: {_test(trace, cycle, nodes, node)}."


def _typical(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str:
    p, q = rounded(nodes.p[node]), rounded(np.exp(nodes.draft_logprob[node]))
    if nodes.state[node] == NodeState.ACCEPTED:
        outcome = "likely enough for how open the choice is, accepted"
    else:
        outcome = "too unlikely for how open the choice is, refused"
        if (instead := _instead(trace, cycle, nodes, node)) is not None:
            passed = _accepted_sibling(cycle, nodes, node) is not None
            outcome += f"; its sibling {instead} passed" if passed else f"; p gave {instead}"
    return (
        f"p {p}: {outcome}. This test draws nothing and changes the output distribution; q {q} is "
        "only the draft's confidence here."
    )


def _target_p(nodes: Nodes, node: int) -> str:
    """p of the node, and p when it was tested where refused siblings had changed it."""
    before, tested = rounded(nodes.p[node]), rounded(nodes.p_tested[node])
    if before == tested:
        return f"p {before}"
    return f"p {before}, {tested} once its refused siblings were taken out"


def _test(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str:
    """The accept probability, the draw, the outcome, and what was committed instead."""
    chance, draw = rounded(nodes.accept_probability[node]), rounded(nodes.uniform[node])
    tested = f"tested with accept probability {chance}, drew {draw}"
    if nodes.state[node] == NodeState.ACCEPTED:
        return f"{tested}, accepted"
    instead = _instead(trace, cycle, nodes, node)
    if instead is None:
        return f"{tested}, refused"
    if _accepted_sibling(cycle, nodes, node) is not None:
        return f"{tested}, refused; its sibling {instead} was accepted"
    return f"{tested}, refused; the residual gave {instead}"


def _instead(trace: Trace, cycle: Cycle, nodes: Nodes, node: int) -> str | None:
    """The token committed in a refused node's place; None where the run ended before it."""
    accepted = _accepted_sibling(cycle, nodes, node)
    if accepted is not None:
        return quoted(trace, nodes.token[accepted])
    if cycle.origins and cycle.origins[-1] is Origin.RECOVERED:
        return quoted(trace, cycle.tokens[-1])
    return None


def _accepted_sibling(cycle: Cycle, nodes: Nodes, node: int) -> int | None:
    """The child that the walk took where it could have taken `node`."""
    parent = int(nodes.parent[node])
    place = cycle.path.index(parent) + 1 if parent in cycle.path else len(cycle.path)
    return cycle.path[place] if place < len(cycle.path) else None


def _cycle(trace: Trace, index: int) -> Cycle:
    if not 0 <= index < len(trace.cycles):
        raise IndexError(f"the trace has {len(trace.cycles)} cycles, counted from 0; got {index}")
    return trace.cycles[index]


def _token_at(trace: Trace, cycle: Cycle, node: int) -> str:
    if cycle.nodes is None:
        return f"node {node}"
    return quoted(trace, cycle.nodes.token[node])
