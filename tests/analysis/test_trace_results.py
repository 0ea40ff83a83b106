"""Traces of the library as the results of a suite."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagle3_viz.analysis.domains import domain_matrix, prompts_of_cell
from eagle3_viz.analysis.trace_results import (
    PART_CHARS,
    MeasuredTrace,
    measured_trace,
    results_of,
    setting_names,
)
from eagle3_viz.config import TreeShape
from eagle3_viz.metrics import summary
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace


def asking(trace: Trace, prompt: str, *ids: int) -> Trace:
    trace.header = replace(trace.header, prompt=prompt, prompt_ids=ids)
    return trace


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    return {
        "a3": asking(make_trace(cycles=9, rule="topk", seed=1), "first", 1, 2),
        "b3": asking(make_trace(cycles=7, rule="topk", seed=2), "second", 3),
        "a1": asking(make_trace(cycles=8, rule="topk", method="eagle1"), "first", 1, 2),
        "aar": asking(make_trace(cycles=9, rule="topk", method="ar"), "first", 1, 2),
    }


def kept(traces: dict[str, Trace], **domains: str) -> list[MeasuredTrace]:
    return [measured_trace(name, domains.get(name, ""), trace) for name, trace in traces.items()]


def test_methods_are_settings_and_equal_prompts_one_prompt(traces: dict[str, Trace]) -> None:
    found = results_of(kept(traces, a3="code", b3="chat"))
    assert list(found.results.settings) == ["eagle3", "eagle1", "ar"]
    assert sorted(found.titles.values()) == ["first", "second"]
    (first,) = [prompt for prompt, title in found.titles.items() if title == "first"]
    assert found.ids["eagle3", first] == ("a3",) and found.ids["eagle1", first] == ("a1",)
    runs = found.results.runs
    assert set(runs[runs.prompt == first].domain) == {"code"}


def test_numbers_are_those_of_the_summary_of_each_trace(traces: dict[str, Trace]) -> None:
    found = results_of(kept(traces))
    matrix = domain_matrix(found.results)
    table = prompts_of_cell(found.results, "unknown", "eagle3").set_index("prompt")
    for name in ("a3", "b3"):
        (prompt,) = [p for (s, p), ids in found.ids.items() if name in ids]
        numbers = summary(traces[name])
        assert table.tau[prompt] == pytest.approx(numbers.tau)
        assert table.speedup[prompt] == pytest.approx(numbers.speedup)
    tau = matrix[(matrix.metric == "tau") & (matrix.setting == "eagle3")].iloc[0]
    assert tau.prompts == 2 and tau.low <= tau.value <= tau.high


def test_a_run_whose_autoregression_was_not_measured_leaves_the_speed_up_of_the_others(
    traces: dict[str, Trace],
) -> None:
    b3 = replace(traces["b3"], header=replace(traces["b3"].header, baseline=None))
    found = results_of(kept({"a3": traces["a3"], "b3": b3}))
    matrix = domain_matrix(found.results)
    speedup = matrix[matrix.metric == "speedup"].iloc[0]
    assert speedup.value == pytest.approx(summary(traces["a3"]).speedup)


def test_two_runs_of_one_setting_and_prompt_are_two_turns_of_it(traces: dict[str, Trace]) -> None:
    again = asking(make_trace(cycles=5, rule="topk", seed=8), "first", 1, 2)
    found = results_of(kept({**traces, "again": again}))
    (first,) = [prompt for prompt, title in found.titles.items() if title == "first"]
    assert found.ids["eagle3", first] == ("a3", "again")
    runs = found.results.runs
    assert runs[(runs.prompt == first) & (runs.setting == "eagle3")].turn.tolist() == [1, 2]


def test_a_setting_is_named_by_what_tells_it_from_the_others() -> None:
    small = make_trace(cycles=1, rule="topk", shape=TreeShape(6, 2, 3)).header
    large = make_trace(cycles=1, rule="topk", shape=TreeShape(10, 3, 4)).header
    assert large.draft is not None
    other = replace(large, draft=replace(large.draft, name="better", sha256="99" * 32))
    assert setting_names([small, large]) == ["eagle3 6,2,3", "eagle3 10,3,4"]
    assert setting_names([large, other]) == ["eagle3 toy-draft cdcdcdcd", "eagle3 better 99999999"]
    assert setting_names([large, large]) == ["eagle3", "eagle3"]
    greedy = make_trace(cycles=1, shape=TreeShape(10, 3, 4)).header
    sampled, plain = setting_names([large, greedy])
    assert sampled != plain and "topk" in sampled and "greedy" in plain


def test_a_config_of_another_kind_names_its_setting_all_the_same() -> None:
    header = make_trace(cycles=1).header
    odd = replace(header, config={"sampling": "<b>", "shape": ["x" * 500]})
    names = setting_names([header, odd])
    assert names[0] != names[1] and len(names[1]) < 4 * PART_CHARS
