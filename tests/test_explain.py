from dataclasses import replace

import numpy as np
import pytest

from eagle3_viz.component.explain import miss_sentence, node_sentence
from eagle3_viz.config import RULES, Method, Rule
from eagle3_viz.records import Cycle, Miss, Nodes, NodeState, Origin, Timing
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

ROOT, ACCEPTED, REJECTED, UNREACHED = (
    NodeState.ROOT,
    NodeState.ACCEPTED,
    NodeState.REJECTED,
    NodeState.UNREACHED,
)
WORDS = {0: b" the", 1: b" sky", 2: b" sea", 3: b" is", 4: b" blue", 5: b"\n"}
NAN = float("nan")


def tree(parent: list[int], state: list[NodeState], **columns: list[float]) -> Nodes:
    """Node i holds token i; columns not given are unknown."""
    size = len(parent)
    unknown = np.full(size, NAN, np.float32)
    given = {name: np.array(values, np.float32) for name, values in columns.items()}
    q = given.pop("q", unknown)
    p_rank = given.pop("p_rank", np.zeros(size)).astype(np.int32)
    p = given.get("p", unknown)
    return Nodes(
        token=np.arange(size, dtype=np.int32),
        parent=np.array(parent, np.int32),
        depth=np.zeros(size, np.int32),
        draft_logprob=np.log(q),
        score=unknown,
        q_rank=np.zeros(size, np.int32),
        p_raw=p,
        p=p,
        p_rank=p_rank,
        p_tested=given.get("p_tested", p),
        accept_probability=given.get("accept_probability", unknown),
        uniform=given.get("uniform", unknown),
        state=np.array(state, np.int8),
        expanded=np.ones(size, bool),
        pool_index=np.arange(-1, size - 1, dtype=np.int32),
    )


def trace_of(rule: str, nodes: Nodes, *, path: tuple[int, ...] = (0,), **changes: object) -> Trace:
    """A trace of one cycle over `nodes` that ended with a recovered ' blue'."""
    base = make_trace(cycles=1, rule=rule)
    cycle = Cycle(
        index=0,
        prefix_length=5,
        root=0,
        tokens=(*path[1:], 4),
        origins=(*[Origin.ACCEPTED] * (len(path) - 1), Origin.RECOVERED),
        accepted=len(path) - 1,
        path=path,
        verified=len(nodes),
        drafted=7,
        draft_forwards=1,
        timing=Timing((1.0,), 0.1, 1.0, 0.1, 0.1, 0.0),
        nodes=nodes,
    )
    return Trace(base.header, base.prefill, [replace(cycle, **changes)], WORDS)


def test_sample_refusal_gives_the_ratio_the_draw_and_the_residuals_token() -> None:
    nodes = tree(
        [-1, 0],
        [ROOT, REJECTED],
        q=[NAN, 0.41],
        p=[NAN, 0.22],
        accept_probability=[NAN, 0.22 / 0.41],
        uniform=[NAN, 0.71],
    )
    assert node_sentence(trace_of("sample", nodes), 0, 1) == (
        "q 0.41, p 0.22: tested with accept probability 0.54, drew 0.71, refused; "
        "the residual gave '·blue'."
    )


def test_sample_acceptance_gives_the_ratio_and_the_draw() -> None:
    nodes = tree(
        [-1, 0],
        [ROOT, ACCEPTED],
        q=[NAN, 0.3],
        p=[NAN, 0.6],
        accept_probability=[NAN, 1.0],
        uniform=[NAN, 0.9],
    )
    assert node_sentence(trace_of("sample", nodes, path=(0, 1)), 0, 1) == (
        "q 0.30, p 0.60: tested with accept probability 1.00, drew 0.90, accepted."
    )


def topk_siblings(second: NodeState) -> Nodes:
    """' sky' refused with p 0.2, then ' sea': p 0.4, one half once ' sky' is gone."""
    return tree(
        [-1, 0, 0],
        [ROOT, REJECTED, second],
        q=[NAN, 0.7, 0.1],
        p=[NAN, 0.2, 0.4],
        p_tested=[NAN, 0.2, 0.5],
        accept_probability=[NAN, 0.2, 0.5],
        uniform=[NAN, 0.3, 0.6 if second is REJECTED else 0.1],
    )


def test_topk_says_that_q_is_only_confidence_and_what_was_accepted_instead() -> None:
    trace = trace_of("topk", topk_siblings(ACCEPTED), path=(0, 2))
    assert node_sentence(trace, 0, 1) == (
        "p 0.20: tested with accept probability 0.20, drew 0.30, refused; its sibling '·sea' was "
        "accepted. Accept probability = p (the proposal was chosen, not drawn); q 0.70 is only "
        "the draft's confidence here."
    )


def test_topk_shows_p_as_it_was_when_tested_after_refused_siblings() -> None:
    trace = trace_of("topk", topk_siblings(ACCEPTED), path=(0, 2))
    sentence = node_sentence(trace, 0, 2)
    assert sentence.startswith("p 0.40, 0.50 once its refused siblings were taken out: tested")
    assert "accept probability 0.50, drew 0.10, accepted." in sentence


def test_topk_refusal_of_the_last_child_names_the_recovered_token() -> None:
    sentence = node_sentence(trace_of("topk", topk_siblings(REJECTED)), 0, 2)
    assert "drew 0.60, refused; the residual gave '·blue'." in sentence


def test_a_refusal_in_a_cut_cycle_claims_no_replacement() -> None:
    trace = trace_of("topk", topk_siblings(REJECTED), tokens=(), origins=(), cut=True)
    assert "drew 0.60, refused. " in node_sentence(trace, 0, 2)


def test_greedy_says_whether_a_node_is_the_targets_argmax() -> None:
    nodes = tree(
        [-1, 0, 0],
        [ROOT, REJECTED, ACCEPTED],
        q=[NAN, 0.7, 0.1],
        p=[NAN, 0.2, 0.4],
        p_rank=[-1, 2, 0],
    )
    trace = trace_of("greedy", nodes, path=(0, 2))
    assert node_sentence(trace, 0, 1) == (
        "'·sky' is not the target's arg-max (rank 3 of the target, p 0.20): refused, the arg-max "
        "is '·sea'; q 0.70 is only the draft's confidence here."
    )
    assert node_sentence(trace, 0, 2) == (
        "'·sea' is the target's arg-max: accepted; q 0.10 is only the draft's confidence here."
    )


@pytest.mark.parametrize(
    ("second", "node", "told"),
    [
        (
            ACCEPTED,
            1,
            "p 0.20: too unlikely for how open the choice is, refused; its sibling '·sea' passed. ",
        ),
        (ACCEPTED, 2, "p 0.40: likely enough for how open the choice is, accepted. "),
        (
            REJECTED,
            2,
            "p 0.40: too unlikely for how open the choice is, refused; p gave '·blue'. ",
        ),
    ],
)
def test_typical_names_the_threshold_and_never_a_draw_or_a_residual(
    second: NodeState, node: int, told: str
) -> None:
    nodes = replace(topk_siblings(second), uniform=np.full(3, NAN, np.float32))
    trace = trace_of("typical", nodes, path=(0, 2) if second is ACCEPTED else (0,))
    sentence = node_sentence(trace, 0, node)
    assert sentence.startswith(told)
    assert "changes the output distribution" in sentence
    assert "drew" not in sentence and "residual" not in sentence


def test_typical_in_a_cut_cycle_claims_no_replacement() -> None:
    trace = trace_of("typical", topk_siblings(REJECTED), tokens=(), origins=(), cut=True)
    assert "is, refused. This test" in node_sentence(trace, 0, 2)


def test_the_root_is_explained_by_who_decided_it() -> None:
    nodes = tree([-1], [ROOT])
    trace = trace_of("topk", nodes)
    assert node_sentence(trace, 0, 0).startswith("'·the' is the root: decided by prefill")
    trace.cycles.append(replace(trace.cycles[0], index=1))
    assert "decided by the cycle before" in node_sentence(trace, 1, 0)


def test_a_node_below_a_refused_one_says_so() -> None:
    nodes = tree([-1, 0, 1, 2], [ROOT, REJECTED, UNREACHED, UNREACHED])
    assert node_sentence(trace_of("topk", nodes), 0, 3) == (
        "'·is' was never tested: it lies below '·sky', which was refused."
    )


def test_a_node_after_an_accepted_sibling_says_so() -> None:
    nodes = tree([-1, 0, 0, 2], [ROOT, ACCEPTED, UNREACHED, UNREACHED])
    trace = trace_of("topk", nodes, path=(0, 1))
    assert node_sentence(trace, 0, 2) == (
        "'·sea' was never tested: its sibling '·sky' was accepted first."
    )
    assert node_sentence(trace, 0, 3) == (
        "'·is' was never tested: it lies below '·sea', whose sibling '·sky' was accepted."
    )


def test_no_sentence_about_a_tree_that_was_not_recorded_or_not_drafted() -> None:
    bare = make_trace(cycles=5, record="off")
    assert node_sentence(bare, 4, 0) == "Record is off: the tree of cycle 5 was not kept."
    assert "nothing was drafted" in node_sentence(make_trace(cycles=1, method="ar"), 0, 0)


def test_a_cycle_or_node_the_trace_does_not_have_is_refused() -> None:
    trace = make_trace(cycles=2)
    with pytest.raises(IndexError, match="2 cycles"):
        node_sentence(trace, 2, 0)
    with pytest.raises(IndexError, match="2 cycles"):
        miss_sentence(trace, -1)
    with pytest.raises(IndexError, match="node 99"):
        node_sentence(trace, 0, 99)


MISS = Miss(
    node=0,
    token=4,
    q=0.02,
    q_rank=6,
    in_draft_vocabulary=True,
    expanded=True,
    beyond_depth=False,
    pruned=False,
)
PROPOSED_NOTHING = {"q": NAN, "q_rank": -1, "expanded": False}


@pytest.mark.parametrize(
    ("rule", "changes", "cause"),
    [
        ("topk", {}, "it ranked below the drafted children (q 0.02, rank 7)"),
        ("sample", {}, "it was not among the tokens drawn from the draft (q 0.02, rank 7)"),
        (
            "topk",
            {"pruned": True},
            "it was drafted (q 0.02, rank 7) but dropped by the budget of 1 verified nodes",
        ),
        (
            "topk",
            PROPOSED_NOTHING,
            "the draft did not expand '·the', other nodes scored higher",
        ),
        (
            "topk",
            {**PROPOSED_NOTHING, "beyond_depth": True},
            "'·the' lies at the deepest level of the tree, nothing is drafted below it",
        ),
        (
            "topk",
            {**PROPOSED_NOTHING, "beyond_depth": True, "in_draft_vocabulary": False},
            "the draft's vocabulary lacks that token, it can never propose it",
        ),
    ],
)
def test_a_miss_names_its_first_cause(rule: str, changes: dict[str, object], cause: str) -> None:
    trace = trace_of(rule, tree([-1], [ROOT]), miss=replace(MISS, **changes))
    assert miss_sentence(trace, 0) == f"The target decided '·blue' after '·the': {cause}."


@pytest.mark.parametrize(
    ("method", "changes", "cause"),
    [
        ("lookup", {"q": 0.0, "q_rank": 1}, "the copied text goes on differently"),
        ("lookup", PROPOSED_NOTHING, "the copied text ends with '·the'"),
        ("eagle1", PROPOSED_NOTHING, "the fixed tree ends at '·the'"),
        ("eagle1", {}, "it ranked below the drafted children (q 0.02, rank 7)"),
    ],
)
def test_a_miss_is_worded_as_its_method_drafts(
    method: Method, changes: dict[str, object], cause: str
) -> None:
    trace = trace_of("topk", tree([-1], [ROOT]), miss=replace(MISS, **changes))
    trace.header = replace(trace.header, method=method)
    assert miss_sentence(trace, 0) == f"The target decided '·blue' after '·the': {cause}."


def test_typical_may_decide_the_very_token_that_it_refused() -> None:
    nodes = tree([-1, 0, 0, 0, 0], [ROOT, *[REJECTED] * 4], q=[NAN, 0.4, 0.3, 0.2, 0.02])
    trace = trace_of("typical", nodes, miss=MISS)
    assert miss_sentence(trace, 0) == (
        "The target decided '·blue' after '·the': it was drafted (q 0.02, rank 7) and refused, "
        "then p gave it all the same."
    )


def test_a_missing_miss_record_is_said_and_not_guessed() -> None:
    trace = trace_of("topk", tree([-1], [ROOT]))
    assert "is kept with record full only" in miss_sentence(trace, 0)
    cut = trace_of("topk", tree([-1], [ROOT]), cut=True)
    assert "ended inside this cycle" in miss_sentence(cut, 0)
    assert "nothing was drafted" in miss_sentence(make_trace(cycles=1, method="ar"), 0)


def test_a_cycle_without_guesses_says_so_and_not_that_a_record_is_missing() -> None:
    trace = trace_of("topk", tree([-1], [ROOT]), drafted=0)
    assert miss_sentence(trace, 0).startswith("Nothing was drafted in this cycle")


@pytest.mark.parametrize("rule", RULES)
def test_every_node_of_a_whole_trace_has_one_line_of_visible_text(rule: Rule) -> None:
    trace = make_trace(cycles=12, rule=rule)
    for cycle in trace.cycles:
        for node in range(len(cycle.nodes)):
            sentence = node_sentence(trace, cycle.index, node)
            assert sentence.isprintable()
            assert "nan" not in sentence
        assert miss_sentence(trace, cycle.index).isprintable()
