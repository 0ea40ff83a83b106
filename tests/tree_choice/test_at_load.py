from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eagle3_viz.backend import LocalBackend, Progress, Request
from eagle3_viz.config import DecodeConfig, Method, TreeShape
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.trace import Trace
from eagle3_viz.tree_choice import measuring
from eagle3_viz.tree_choice.at_load import with_trees
from eagle3_viz.tree_choice.choice import Misfit
from eagle3_viz.tree_choice.cycle_cost import CycleCost
from tests.lossless.tiny_pair import chat_pair
from tests.tree_choice.made_up import COST, KNOWN

FASTEST = TreeShape(4, 1, 3)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_CACHE", str(tmp_path))


class Measurement:
    """Made-up costs, and how often they were asked for; what progress said meanwhile."""

    def __init__(self) -> None:
        self.asked: list[Method] = []
        self.said: list[str] = []
        self.found = COST

    def __call__(self, pair: LoadedPair, method: Method, progress: Progress) -> CycleCost:
        self.asked.append(method)
        progress(f"measuring {method}", 0, 1)
        return self.found

    def progress(self, stage: str, done: int, total: int) -> None:
        self.said.append(stage)


def known_pair() -> LoadedPair:
    pair = chat_pair()
    eagle3, *others = pair.drafts
    return replace(pair, drafts=(replace(eagle3, acceptance=KNOWN), *others))


@pytest.fixture
def measurement(monkeypatch: pytest.MonkeyPatch) -> Measurement:
    made_up = Measurement()
    monkeypatch.setattr(measuring, "measure", made_up)
    return made_up


def test_the_usual_tree_is_the_chosen_one_and_is_measured_once(measurement: Measurement) -> None:
    for _ in range(2):
        pair = with_trees(known_pair(), measurement.progress, ["eagle3"])
        assert pair.usual_tree("eagle3") == FASTEST
    assert measurement.asked == ["eagle3"]
    assert len(measurement.said) == 1 and "eagle3" in measurement.said[0]


def test_a_draft_without_a_table_keeps_the_default_and_nothing_is_measured(
    measurement: Measurement,
) -> None:
    pair = with_trees(chat_pair(), measurement.progress)
    assert pair.trees == () and pair.usual_tree("eagle3") == TreeShape()
    assert measurement.asked == measurement.said == []


BUSY = replace(COST, rounds=1)
EVERY = Request("hello", DecodeConfig(), fastest_tree=True)


def test_costs_in_doubt_choose_the_default_and_are_measured_again_before_the_next_run(
    measurement: Measurement,
) -> None:
    measurement.found = BUSY
    pair = with_trees(known_pair(), measurement.progress)
    assert pair.usual_tree("eagle3") == TreeShape(4, 1, 3), "the table's nearest to 8, 2, 4"
    assert pair.trees[0].caveat
    pair = LocalBackend().renewed(pair, EVERY, measurement.progress)
    assert measurement.asked == ["eagle3"] * 2 and pair.trees[0].caveat
    measurement.found = COST
    for _ in range(2):
        pair = LocalBackend().renewed(pair, EVERY, measurement.progress)
        assert not pair.trees[0].caveat
    assert measurement.asked == ["eagle3"] * 3, "good costs are not measured again"


@pytest.mark.parametrize(
    "request_",
    [replace(EVERY, fastest_tree=False), replace(EVERY, config=DecodeConfig(method="lookup"))],
)
def test_a_run_with_a_tree_of_its_own_waits_for_no_measurement(
    request_: Request, measurement: Measurement
) -> None:
    measurement.found = BUSY
    pair = with_trees(known_pair(), measurement.progress)
    again = LocalBackend().renewed(pair, request_, measurement.progress)
    assert again.trees == pair.trees and measurement.asked == ["eagle3"]


def test_costs_that_a_run_did_not_fit_are_measured_again_though_they_are_kept(
    measurement: Measurement,
) -> None:
    pair = with_trees(known_pair(), measurement.progress)
    misfit = replace(pair, trees=(replace(pair.trees[0], misfit=Misfit(10.0, 26.0)),))
    measurement.found = replace(COST, step=8.0, verify=((1, 7.0), (9, 8.0)))
    again = with_trees(misfit, measurement.progress)
    assert again.trees[0].cost == measurement.found
    assert again.trees[0].caveat == "" and again.trees[0].in_runs == 1.0
    assert with_trees(known_pair(), measurement.progress).trees[0].cost == measurement.found
    assert measurement.asked == ["eagle3"] * 2, "what was kept is the new one"


def test_where_measuring_again_finds_the_same_runs_are_expected_to_go_on_taking_longer(
    measurement: Measurement,
) -> None:
    pair = with_trees(known_pair(), measurement.progress)
    misfit = replace(pair, trees=(replace(pair.trees[0], misfit=Misfit(39.0, 26.0)),))
    again = with_trees(misfit, measurement.progress)
    assert again.trees[0].in_runs == 1.5 and again.trees[0].caveat == ""
    measurement.found = BUSY
    busy = with_trees(misfit, measurement.progress)
    assert busy.trees[0].in_runs == 1.0 and busy.trees[0].caveat


def test_the_choices_of_other_methods_stay(measurement: Measurement) -> None:
    pair = with_trees(known_pair(), measurement.progress)
    other = replace(pair.trees[0], method="eagle2")
    both = replace(pair, trees=(other, replace(pair.trees[0], misfit=Misfit(10.0, 26.0))))
    again = with_trees(both, measurement.progress, ["eagle3"])
    assert again.trees[0] == other and again.trees[1].method == "eagle3"


def test_other_methods_keep_the_default_tree(measurement: Measurement) -> None:
    pair = with_trees(known_pair(), measurement.progress, ["lookup", "ar", "eagle1"])
    assert pair.trees == () and measurement.asked == []
    assert pair.usual_tree("lookup") == TreeShape()


@pytest.mark.parametrize(("fastest", "shape"), [(True, FASTEST), (False, TreeShape(6, 2, 2))])
def test_a_request_runs_the_fastest_tree_or_the_one_it_names(
    fastest: bool, shape: TreeShape, measurement: Measurement
) -> None:
    pair = with_trees(known_pair(), measurement.progress)
    config = DecodeConfig(shape=TreeShape(6, 2, 2), max_new_tokens=12)
    request = Request("hello", config, fastest_tree=fastest)
    *_, trace = LocalBackend().run(pair, request, None)
    assert isinstance(trace, Trace)
    assert trace.header.config["shape"] == {
        "total": shape.total,
        "depth": shape.depth,
        "top_k": shape.top_k,
    }
    assert {cycle.verified for cycle in trace.cycles} <= {shape.total}
