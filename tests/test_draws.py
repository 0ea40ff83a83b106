"""The uniforms in a trace are all that was random: they account for every decision of a run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any

import pytest
import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.fixed_tree import PUBLISHED_FIXED
from eagle3_viz.records import Cycle, NodeState, Prefill, Timing
from tests.test_trace_file import differences
from tests.tiny_models import (
    VOCABULARY,
    OracleDraft,
    decode_all,
    random_ids,
    shared_stock,
    shared_target,
    stock_forward,
    text_of,
)

PROMPT = random_ids(8, 60)
WARM = Sampling(0.9)
RULES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "topk": {"sampling": WARM, "rule": "topk"},
    "sample": {"sampling": WARM, "rule": "sample", "shape": TreeShape(8, 2, 3)},
    "sample fixed": {
        "sampling": Sampling(0.9, top_p=0.8),
        "rule": "sample",
        "method": "eagle1",
        "fixed": PUBLISHED_FIXED,
    },
    "typical": {"sampling": WARM, "rule": "typical"},
    "ar": {"sampling": WARM, "method": "ar"},
}
DRAWN = [rule for rule in RULES if rule != "greedy"]
UNTIMED = Timing((), 0.0, 0.0, 0.0, 0.0, 0.0)


def decoded(rule: str, seed: int) -> tuple[Prefill, list[Cycle]]:
    draft = OracleDraft(shared_stock(), PROMPT, range(VOCABULARY), noise=1.0)
    settings = {"max_new_tokens": 25, "seed": seed, **RULES[rule]}
    prefill, cycles = decode_all(shared_target(), draft, PROMPT, **settings)
    untimed = replace(prefill, target_ms=0.0, draft_ms=0.0)
    return untimed, [replace(cycle, timing=UNTIMED) for cycle in cycles]


@cache
def run(rule: str) -> tuple[Prefill, list[Cycle]]:
    return decoded(rule, 3)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_seed_gives_the_same_trace_to_the_last_bit(rule: str) -> None:
    assert differences(list(run(rule)), list(decoded(rule, 3))) == []


@pytest.mark.parametrize("rule", DRAWN)
def test_another_seed_gives_another_text(rule: str) -> None:
    texts = {tuple(text_of(*decoded(rule, seed))) for seed in range(4)}
    assert len(texts) == 4


def test_greedy_decoding_draws_nothing_and_no_seed_changes_it() -> None:
    prefill, cycles = run("greedy")
    assert [record.draws for record in (prefill, *cycles)] == [()] * (1 + len(cycles))
    assert differences(list(run("greedy")), list(decoded("greedy", 4))) == []


def walked(cycle: Cycle) -> list[int]:
    """The nodes that were tested, in the order tested."""
    nodes, tested = cycle.nodes, []
    assert nodes is not None
    for node in cycle.path:
        for child in (nodes.parent == node).nonzero()[0].tolist():
            tested.append(child)
            if nodes.state[child] == NodeState.ACCEPTED:
                break
    return tested


@pytest.mark.parametrize("rule", DRAWN)
def test_draws_are_the_trees_then_the_tests_then_the_decided_token(rule: str) -> None:
    prefill, cycles = run(rule)
    assert len(prefill.draws) == 1
    for cycle in cycles:
        nodes, tested = cycle.nodes, walked(cycle)
        assert nodes is not None
        tree = len(nodes) - 1 if RULES[rule].get("rule") == "sample" else 0
        uniforms = [] if rule == "typical" else nodes.uniform[tested].tolist()
        assert list(cycle.draws[tree:-1]) == pytest.approx(uniforms, abs=1e-7)
        assert len(cycle.draws) == tree + len(uniforms) + 1


def inverse(weights: torch.Tensor, u: float) -> int:
    goal = u * float(weights.sum())
    return next(i for i, reached in enumerate(accumulate(weights.tolist())) if reached > goal)


@pytest.mark.parametrize("rule", ["ar", "typical"])
def test_the_decided_token_is_read_off_p_at_its_uniform(rule: str) -> None:
    prefill, cycles = run(rule)
    text, decided = list(PROMPT), [prefill, *cycles]
    for record in decided:
        tokens = [record.token] if isinstance(record, Prefill) else list(record.tokens)
        if isinstance(record, Cycle) and record.cut:
            break
        text += tokens
        p = (stock_forward(shared_stock(), text[:-1])[0][-1].double() / 0.9).softmax(-1)
        assert inverse(p, record.draws[-1]) == text[-1]


def test_the_whole_run_is_one_stream_of_its_generator() -> None:
    prefill, cycles = run("sample")
    generator = torch.Generator().manual_seed(3)
    for u in (u for record in (prefill, *cycles) for u in record.draws):
        assert u == float(torch.rand((), dtype=torch.float64, generator=generator))
