"""What a suite runs: names, order, seeds and places."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, PUBLISHED_FIXED
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.suite.plan import Plan, settings_of, trace_path

PROMPTS = tuple(Prompt(str(n), "d", ("one", "two")) for n in range(7))
SETS = (PromptSet("a", PROMPTS[:4]), PromptSet("b", PROMPTS[4:]))


def test_a_setting_is_called_after_what_it_does_not_share() -> None:
    assert list(settings_of(["ar", "eagle3"])) == ["ar", "eagle3"]
    found = settings_of(
        ["ar", "eagle1", "eagle3"],
        shapes=[TreeShape(8, 2, 4), TreeShape(10, 3, 4)],
        fixed=[DEFAULT_FIXED, PUBLISHED_FIXED],
        samplings=[Sampling(0.0), Sampling(0.8)],
    )
    trees = ["ar", "eagle1 seven", "eagle1 mc_sim_7b_63", "eagle3 8,2,4", "eagle3 10,3,4"]
    assert list(found) == [f"{name} t={t}" for t in ("0", "0.8") for name in trees]
    assert found["eagle1 mc_sim_7b_63 t=0"].fixed == PUBLISHED_FIXED
    assert found["eagle3 10,3,4 t=0.8"].shape == TreeShape(10, 3, 4)
    assert found["eagle3 10,3,4 t=0.8"].sampling.temperature == 0.8
    assert {config.record for config in found.values()} == {"off"}


def test_lookup_keeps_its_own_rule_where_others_draw_from_q() -> None:
    found = settings_of(["ar", "lookup", "eagle3"], samplings=[Sampling(0.8)], rule="sample")
    assert found["lookup"].rule == "topk"
    assert found["eagle3"].rule == "sample"
    assert found["lookup"].sampling == found["eagle3"].sampling == found["ar"].sampling


def test_a_rule_that_does_not_fit_the_temperature_is_refused() -> None:
    with pytest.raises(ValueError, match="rule='sample' does not fit temperature=0"):
        settings_of(["eagle3"], samplings=[Sampling(0.8), Sampling(0.0)], rule="sample")


def test_every_setting_is_first_as_often_as_any_other() -> None:
    settings = settings_of(["ar", "eagle2", "eagle3"])
    found = list(Plan(SETS, settings).conversations())
    assert [(name, prompt.id) for name, prompt, _ in found] == [
        *(("a", str(n)) for n in range(4)),
        *(("b", str(n)) for n in range(4, 7)),
    ]
    assert all(sorted(order) == sorted(settings) for _, _, order in found)
    first = Counter(order[0] for _, _, order in found[:6])
    assert set(first.values()) == {2}


def test_every_turn_draws_with_a_seed_of_its_own_and_all_settings_with_the_same() -> None:
    plan = Plan(SETS, settings_of(["ar", "eagle3"], samplings=[Sampling(0.8)], seed=5))
    places = [(one.name, p, turn) for one in SETS for p in one.prompts for turn in (1, 2)]
    seeds = [plan.config("ar", *place).seed for place in places]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [plan.config("eagle3", *place).seed for place in places]
    other = Plan(SETS, settings_of(["ar"], samplings=[Sampling(0.8)], seed=6))
    assert not set(seeds) & {other.config("ar", *place).seed for place in places}


def test_texts_of_files_stay_in_the_folder_and_never_share_a_file(tmp_path: Path) -> None:
    hostile = ["..", "../../x", "a/b", "a-b", "A-b", "a b", "", "\x00", "ü", "." * 300, "x" * 300]
    paths = {trace_path(tmp_path, s, i, 1, "ar") for s in hostile for i in hostile}
    assert len({str(path).lower() for path in paths}) == len(hostile) ** 2
    for path in paths:
        assert path.resolve().relative_to(tmp_path.resolve()).parts[0] == "traces"
        assert len(path.relative_to(tmp_path).parts) == 3
        assert max(len(part) for part in path.parts) < 200
