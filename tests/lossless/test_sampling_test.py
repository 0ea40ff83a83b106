from __future__ import annotations

from functools import cache

import pytest

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.lossless.chi_square import FAMILY_LEVEL
from eagle3_viz.lossless.sampling_test import (
    Case,
    Result,
    cases,
    judged,
    method_with_q,
    run_cases,
    wider,
)
from eagle3_viz.lossless.wrong_rules import WRONG_RULES
from eagle3_viz.records import Origin
from tests.lossless.tiny_pair import PREFIX, small_pair

DRAWS = 400
SAMPLING = Sampling(0.8, top_p=0.95)
FOUND = cases(
    ["eagle3", "independent", "lookup", "ar"],
    ["topk", "sample"],
    [SAMPLING],
    [0],
    wrong_method="independent",
    shape=TreeShape(6, 1, 3),
)


@cache
def results() -> dict[tuple[str, str], Result]:
    steps = run_cases(small_pair(), PREFIX, FOUND, DRAWS)
    made = [step.result for step in steps if step.result is not None]
    return {(result.case.config.method, result.case.rule): result for result in made}


def name(case: Case) -> str:
    return f"{case.config.method}-{case.rule}"


@pytest.mark.parametrize("case", FOUND, ids=name)
def test_right_rules_are_kept_and_every_other_rule_is_rejected(case: Case) -> None:
    found = {(j.result.case.config.method, j.result.case.rule): j for j in judged_results()}
    assert found[case.config.method, case.rule].as_it_should
    assert found[case.config.method, case.rule].rejected != (case.rule in ("topk", "sample"))


@cache
def judged_results():
    return judged(list(results().values()))


def test_every_rule_is_there_for_every_draft_that_has_it() -> None:
    assert {name(case) for case in FOUND} == {
        *("eagle3-topk", "eagle3-sample", "independent-topk", "independent-sample"),
        *("lookup-topk", "ar-topk", "independent-typical"),
        *(f"independent-{wrong}" for wrong in WRONG_RULES),
    }


def test_the_cells_hold_accepted_recovered_and_bonus_tokens() -> None:
    for rule in ("topk", "sample"):
        result = results()["independent", rule]
        tally, committed = result.tally, (Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS)
        assert min(tally.origins[origin] for origin in committed) > 9
        assert tally.accepted_twice > 9
        assert tally.origins.total() == 3 * DRAWS
        assert sum(cell.seen for cell in result.test.cells) == DRAWS


def test_the_power_is_that_of_one_test_among_all() -> None:
    for one in judged_results():
        assert 0.1 < one.detectable < 0.3
        assert one.adjusted >= one.result.test.p_value
        assert one.rejected == (one.adjusted < FAMILY_LEVEL)


def test_the_same_seed_draws_the_same_texts_and_another_one_others() -> None:
    def cells(seed: int):
        of_seed = cases(["eagle3"], ["sample"], [SAMPLING], [seed])
        *_, last = run_cases(small_pair(), PREFIX, of_seed, 200)
        assert last.result is not None
        return last.result.test.cells

    assert cells(0) == cells(0)
    assert cells(0) != cells(1)


def test_progress_counts_every_draw_of_every_test() -> None:
    two = cases(["lookup", "ar"], ["topk"], [SAMPLING], [0])
    steps = list(run_cases(small_pair(), PREFIX, two, 240))
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert (steps[-1].done, steps[-1].total) == (480, 480)
    assert [step.done for step in steps if step.result] == [240, 480]


def test_a_reranked_tree_is_drawn_larger_and_verified_in_the_size_of_the_others() -> None:
    shape = TreeShape(5, 1, 3)
    assert wider(shape) == TreeShape(9, 1, 4)
    assert wider(TreeShape(2, 0, 1)) == TreeShape(3, 0, 2)


def test_wrong_rules_are_tried_on_a_draft_with_a_distribution() -> None:
    assert method_with_q(small_pair()) == "eagle3"


def test_nothing_is_drawn_at_temperature_zero() -> None:
    with pytest.raises(ValueError, match="temperature"):
        cases(["eagle3"], ["topk"], [Sampling(0.0)], [0])
