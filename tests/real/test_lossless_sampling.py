"""The sampling test of MATH.md 5.2 on the pair that ships, in float32, with few draws.

`python -m eagle3_viz lossless sampling` makes the same test with all methods, seeds and more draws.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

from eagle3_viz.chat import encode_chat
from eagle3_viz.cli.lossless_arguments import SAMPLING_PROMPT
from eagle3_viz.config import Method, Rule, Sampling
from eagle3_viz.lossless.exact import open_prefix
from eagle3_viz.lossless.greedy_test import run_greedy
from eagle3_viz.lossless.sampling_test import Case, cases, judged, run_cases
from eagle3_viz.lossless.wrong_rules import WRONG_RULES
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.presets import in_turn
from eagle3_viz.records import Origin
from eagle3_viz.suite.plan import settings_of

pytestmark = pytest.mark.slow

REPETITIVE = "List ten animals. Write each as 'The animal is a ...'."
DRAWS = {
    "topk": 400,
    "typical": 200,
    "sample": 150,
}  # drawn trees differ: every text costs a forward


@cache
def pair() -> LoadedPair:
    return load_pair(dtype=torch.float32)


def outcome(case: Case, prompt: str = SAMPLING_PROMPT):
    loaded = pair()
    prefix = open_prefix(loaded.target, encode_chat(loaded.tokenizer, prompt))
    *_, last = run_cases(loaded, prefix, [case], DRAWS[str(case.config.rule)])
    assert last.result is not None
    (one,) = judged([last.result])
    return one


def one_case(method: Method, rule: Rule) -> Case:
    (case,) = cases([method], [rule], [Sampling(1.0, top_p=0.9)], [0])
    return case


@pytest.mark.parametrize("method", ["independent", "eagle1", "eagle2", "eagle3"])
def test_chosen_trees_write_texts_of_the_targets_distribution(method: Method) -> None:
    found = outcome(one_case(method, "topk"))
    assert found.as_it_should
    origins = found.result.tally.origins
    assert min(origins[o] for o in (Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS)) > 0


def test_drawn_trees_write_texts_of_the_targets_distribution() -> None:
    found = outcome(one_case("eagle3", "sample"))
    assert found.as_it_should
    assert found.result.tally.accepted_twice > 0


def test_copied_texts_are_of_the_targets_distribution() -> None:
    found = outcome(one_case("lookup", "topk"), REPETITIVE)
    assert found.as_it_should
    assert found.result.tally.accepted_twice > 0 and found.result.tally.origins[Origin.BONUS] > 0


@pytest.mark.parametrize("rule", [*WRONG_RULES, "typical"])
def test_every_other_rule_is_rejected(rule: str) -> None:
    found = cases([], [], [Sampling(1.0, top_p=0.9)], [0], wrong_method="eagle3")
    (case,) = [case for case in found if case.rule == rule]
    assert outcome(case).rejected


def test_greedy_texts_are_equal_in_float32_and_their_noise_is_rounding() -> None:
    settings = settings_of(["eagle3", "lookup"], max_new_tokens=24)
    runs = [s.run for s in run_greedy(pair(), in_turn(1), settings, padded_ar=True) if s.run]
    assert [run.plain.verdict for run in runs] == ["equal", "equal"]
    assert all(run.plain.margins.max_noise < 1e-3 for run in runs)
