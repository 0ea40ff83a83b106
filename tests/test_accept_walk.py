"""The steps of a cycle, replayed from nothing, give what the record holds."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import pytest

from eagle3_viz import accept_walk as walk
from eagle3_viz.accept_walk import Committed, Decided, Drafted, Step, Verified, walk_steps
from eagle3_viz.config import METHODS, RULES, Rule, TreeShape
from eagle3_viz.records import Cycle, NodeState, Origin
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace
from tests.test_explain import topk_siblings, trace_of, tree
from tests.test_run import RULES as ENGINE_RUNS
from tests.test_run import finished

BIG = TreeShape(total=40, depth=4, top_k=6)


def made_up() -> list[Trace]:
    rules = [
        make_trace(cycles=15, rule=rule, shape=shape, record=record, seed=seed)
        for rule in RULES
        for shape, record, seed in ((None, "full", 0), (BIG, "outcomes", 1))
    ]
    methods = [
        make_trace(cycles=10, method=method, rule=rule)
        for method in METHODS
        for rule in ("greedy", "topk")
    ]
    ends = [make_trace(cycles=6, rule="topk", finish=end) for end in ("eos", "stop", "context")]
    return [*rules, *methods, *ends, make_trace(cycles=5, finish=None)]


def replayed(trace: Trace, cycle: Cycle) -> tuple[list[NodeState], list[int], list[int | None]]:
    """States, path and tokens after the steps; every step must be possible when it comes."""
    nodes = cycle.nodes
    states: dict[int, NodeState | None] = {0: NodeState.ROOT}
    path, committed, verified = [0], None, False
    for step in walk_steps(trace, cycle.index):
        assert committed is None
        match step:
            case Drafted():
                assert not verified
                for node in step.nodes:
                    assert int(nodes.parent[node]) in states and nodes.depth[node] == step.depth
                    states[node] = None
            case Verified():
                assert len(states) == step.rows == cycle.verified
                verified = True
            case walk.Tested():
                assert verified and states[step.node] is None
                assert int(nodes.parent[step.node]) == path[-1]
                states[step.node] = NodeState.ACCEPTED if step.accepted else NodeState.REJECTED
                if step.accepted:
                    path.append(step.node)
            case Decided():
                assert step.after == path[-1]
                decided = step
            case Committed():
                committed = step
    assert committed is not None
    assert committed.kept == tuple(path)
    assert sorted((*committed.kept, *committed.dropped)) == list(range(cycle.verified))
    assert committed.first_position == cycle.prefix_length
    tokens = [*(int(nodes.token[node]) for node in path[1:]), decided.token]
    final = [states[node] or NodeState.UNREACHED for node in range(cycle.verified)]
    final[0] = NodeState.ROOT
    return final, path, tokens


def check(trace: Trace) -> None:
    for cycle in trace.cycles:
        states, path, tokens = replayed(trace, cycle)
        assert states == [NodeState(int(state)) for state in cycle.nodes.state]
        assert path == list(cycle.path)
        kept = len(cycle.tokens)
        assert tokens[:kept] == list(cycle.tokens)
        assert cycle.cut or kept == len(tokens)


@pytest.mark.parametrize("trace", made_up())
def test_replaying_the_steps_gives_the_recorded_states_path_and_tokens(trace: Trace) -> None:
    check(trace)


@pytest.mark.parametrize("run", ENGINE_RUNS)
def test_replaying_a_run_of_the_engine_gives_what_it_recorded(run: str) -> None:
    check(finished(**ENGINE_RUNS[run]))


def tried(steps: tuple[Step, ...]) -> list[walk.Tested]:
    return [step for step in steps if isinstance(step, walk.Tested)]


@pytest.mark.parametrize("rule", ["topk", "sample"])
def test_draws_are_in_the_order_in_which_the_run_drew_them(rule: Rule) -> None:
    trace = make_trace(cycles=20, rule=rule, seed=4)
    for cycle in trace.cycles:
        tests = tried(walk_steps(trace, cycle.index))
        drawn = [float(test.uniform) for test in tests]
        decided_too = [*drawn, cycle.draws[-1]]  # the last uniform decides the target's token
        assert list(cycle.draws)[-len(decided_too) :] == pytest.approx(decided_too, abs=1e-6)


@pytest.mark.parametrize("rule", ["topk", "sample"])
def test_a_verdict_is_the_draw_below_the_accept_probability(rule: Rule) -> None:
    trace = make_trace(cycles=20, rule=rule, seed=2)
    tests = [t for c in trace.cycles for t in tried(walk_steps(trace, c.index))]
    assert {test.accepted for test in tests} == {True, False}
    assert all(test.accepted == (test.uniform < test.accept_probability) for test in tests)


@pytest.mark.parametrize("rule", ["greedy", "typical"])
def test_rules_without_a_draw_record_none(rule: Rule) -> None:
    trace = make_trace(cycles=5, rule=rule)
    tests = [t for c in trace.cycles for t in tried(walk_steps(trace, c.index))]
    assert tests
    assert all(isnan(test.uniform) and "drew" not in test.sentence for test in tests)


def kinds(trace: Trace, cycle: int = 0) -> list[str]:
    return [step.kind for step in walk_steps(trace, cycle)]


def test_steps_come_in_the_order_of_the_cycle() -> None:
    trace = trace_of("topk", topk_siblings(NodeState.ACCEPTED), path=(0, 2))
    trace.cycles[0].nodes.depth[1:] = 1
    assert kinds(trace) == ["draft", "verify", "test", "test", "decided", "commit"]
    assert kinds(make_trace(cycles=1, method="ar")) == ["verify", "decided", "commit"]


def test_a_cycle_whose_tree_was_not_recorded_has_no_steps() -> None:
    assert walk_steps(make_trace(cycles=2, record="off"), 1) == ()


def test_a_cycle_the_trace_does_not_have_is_refused() -> None:
    with pytest.raises(IndexError, match="2 cycles"):
        walk_steps(make_trace(cycles=2), 2)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("topk", "accept probability = p = 0.50 when tested (p was 0.40 before its siblings"),
        ("sample", "p 0.50 when tested (p was 0.40 before its siblings were refused), accept"),
    ],
)
def test_a_test_says_what_p_was_before_its_siblings_were_refused(rule: str, words: str) -> None:
    trace = trace_of(rule, topk_siblings(NodeState.ACCEPTED), path=(0, 2))
    first, second = tried(walk_steps(trace, 0))
    assert words in second.sentence and second.sentence.endswith("drew 0.10: accepted.")
    assert "before its siblings" not in first.sentence
    assert first.sentence.endswith("drew 0.30: refused.")


def test_the_budget_is_named_where_it_dropped_candidates() -> None:
    trace = make_trace(cycles=1, shape=TreeShape(total=6, depth=2, top_k=4))
    steps = [step for step in walk_steps(trace, 0) if isinstance(step, Drafted)]
    pool, nodes = trace.cycles[0].pool, trace.cycles[0].nodes
    for step in steps:
        scored, kept = (pool.depth == step.depth).sum(), (nodes.depth == step.depth).sum()
        assert f"Depth {step.depth}: {scored} token" in step.sentence
        assert f"keeps {kept or 'none'}" in step.sentence
    outcomes = replace(trace, cycles=[replace(trace.cycles[0], pool=None)])
    assert "budget" not in walk_steps(outcomes, 0)[0].sentence


def decided(trace: Trace) -> Decided:
    return next(step for step in walk_steps(trace, 0) if isinstance(step, Decided))


def test_the_decision_is_recovered_after_refusals_and_a_bonus_at_a_leaf() -> None:
    trace = trace_of("topk", topk_siblings(NodeState.REJECTED))
    assert decided(trace).origin is Origin.RECOVERED
    assert decided(trace).sentence == (
        "Every child of '·the' was refused: the residual, p without them, gives the recovered "
        "token, '·blue'."
    )
    leaf = tree([-1, 0], [NodeState.ROOT, NodeState.ACCEPTED], accept_probability=[float("nan"), 1])
    bonus = trace_of("greedy", leaf, path=(0, 1), origins=(Origin.ACCEPTED, Origin.BONUS))
    assert decided(bonus).sentence == (
        "Nothing hangs below '·sky', which was kept: the target adds its arg-max, the bonus "
        "'·blue'."
    )


def test_a_cut_cycle_says_that_its_last_token_is_not_in_the_text() -> None:
    changes = {"tokens": (2,), "origins": (Origin.ACCEPTED,), "cut": True, "finish": "length"}
    trace = trace_of("topk", topk_siblings(NodeState.ACCEPTED), path=(0, 2), **changes)
    assert decided(trace).token is None and not decided(trace).kept
    last = walk_steps(trace, 0)[-1]
    assert isinstance(last, Committed) and last.kept == (0, 2)
    assert last.sentence.endswith(
        "The run ends here (length), with 1 token of this cycle in the text."
    )


@pytest.mark.parametrize("trace", made_up()[:8])
def test_every_sentence_is_one_line_of_visible_text(trace: Trace) -> None:
    for cycle in trace.cycles:
        for step in walk_steps(trace, cycle.index):
            assert step.sentence.isprintable() and "nan" not in step.sentence
            assert step.sentence.endswith(".")
