"""The matrix of domains and metrics against sums in plain Python and against the suite's table."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from eagle3_viz.analysis.domains import (
    METRICS,
    by_domain,
    compare_by_domain,
    domain_matrix,
    prompts_of_cell,
)
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.suite.compare import compare
from eagle3_viz.suite.plan import settings_of
from eagle3_viz.suite.results import Results, read_results
from eagle3_viz.suite.table import tabulate
from eagle3_viz.text_lines import DataError
from tests.suite_folder import Run, write_suite

SETTINGS = settings_of(["ar", "eagle1", "eagle3"])
SETS = (
    PromptSet("one", tuple(Prompt(f"{n}", "code" if n < 3 else "chat", ("x",)) for n in range(5))),
    PromptSet("two", (Prompt("0", "chat", ("x", "y")), Prompt("1", "math", ("x",)))),
)
Place = tuple[str, str, int, str]


def random_runs(seed: int) -> dict[Place, Run]:
    draw = random.Random(seed)
    runs = {}
    for one in SETS:
        for prompt in one.prompts:
            for setting in SETTINGS:
                for turn in range(1, len(prompt.turns) + 1):
                    accepted = [draw.randint(0, 3) for _ in range(draw.randint(3, 9))]
                    recovered = [count < 3 for count in accepted]
                    if setting == "ar":
                        accepted, recovered = [0] * 4, [False] * 4
                    ms = [draw.uniform(1, 9) for _ in range(5)]
                    runs[one.name, prompt.id, turn, setting] = Run(accepted, recovered, ms)
    return runs


RUNS = random_runs(7)
DOMAIN = {(one.name, prompt.id): prompt.domain for one in SETS for prompt in one.prompts}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder, SETS, SETTINGS, RUNS)
    return read_results(folder)


def of(domain: str, setting: str) -> list[Run]:
    return [
        run
        for (name, prompt, _, at), run in RUNS.items()
        if at == setting and domain in (DOMAIN[name, prompt], "all")
    ]


def ms_per_token(runs: list[Run]) -> float:
    spent = sum(sum(run.ms) * len(run.accepted) for run in runs)
    return spent / sum(sum(run.accepted) + len(run.accepted) for run in runs)


def shares(runs: list[Run], depth: int) -> float:
    cycles = [(a, r) for run in runs for a, r in zip(run.accepted, run.recovered, strict=True)]
    tested = sum(a + r >= depth for a, r in cycles)
    return sum(a >= depth for a, _ in cycles) / tested if tested else math.nan


@pytest.mark.parametrize("domain", ["code", "chat", "math", "all"])
@pytest.mark.parametrize("setting", ["ar", "eagle1", "eagle3"])
def test_values_are_those_of_sums_over_the_prompts(
    results: Results, domain: str, setting: str
) -> None:
    matrix = domain_matrix(results)
    cells = matrix[(matrix.domain == domain) & (matrix.setting == setting)].set_index("metric")
    runs = of(domain, setting)
    tokens = sum(sum(run.accepted) + len(run.accepted) for run in runs)
    assert cells.value["tau"] == pytest.approx(tokens / sum(len(run.accepted) for run in runs))
    for depth in (1, 2, 3):
        expected = shares(runs, depth)
        assert cells.value[f"depth_{depth}"] == pytest.approx(expected, nan_ok=True)
    speedup = ms_per_token(of(domain, "ar")) / ms_per_token(runs)
    assert cells.value["speedup"] == pytest.approx(speedup)


def test_tau_and_speed_up_have_the_intervals_of_the_suite_s_own_table(results: Results) -> None:
    """Domains as sets: two ways through the same bootstrap."""
    table = tabulate(by_domain(results)).set_index(["set", "setting"])
    for row in domain_matrix(results).itertuples():
        if row.metric in ("tau", "speedup"):
            own = table.loc[(row.domain, row.setting)]
            bounds = own[[row.metric, f"{row.metric}_low", f"{row.metric}_high"]].tolist()
            assert [row.value, row.low, row.high] == pytest.approx(bounds, nan_ok=True)
            assert row.prompts == own.prompts


def test_a_domain_of_one_prompt_has_numbers_without_intervals(results: Results) -> None:
    matrix = domain_matrix(results)
    math_cells = matrix[(matrix.domain == "math") & (matrix.setting == "eagle3")]
    assert math_cells.prompts.tolist() == [1] * len(METRICS)
    assert math_cells.value.notna().any() and math_cells.low.isna().all()


def test_a_difference_is_by_domain_and_over_all(results: Results) -> None:
    table = compare_by_domain(results, "eagle1", results, "eagle3").table.set_index("set")
    assert table.index.tolist() == ["code", "chat", "math", "all"]
    for domain in table.index:
        taus = []
        for setting in ("eagle1", "eagle3"):
            runs = of(domain, setting)
            tokens = sum(sum(run.accepted) + len(run.accepted) for run in runs)
            taus.append(tokens / sum(len(run.accepted) for run in runs))
        assert table.tau_difference[domain] == pytest.approx(taus[1] - taus[0])
    found = compare(results, results, [("eagle1", "eagle3")]).table.set_index(["set", "domain"])
    whole = found.loc["all", "all"]
    columns = ["tau_difference_low", "tau_difference_high", "speed_ratio"]
    np.testing.assert_allclose(
        table.loc["all", columns].to_numpy(float), whole[columns].to_numpy(float), rtol=1e-9
    )


def test_suites_without_a_common_prompt_cannot_be_compared(
    results: Results, tmp_path: Path
) -> None:
    sets = (PromptSet("else", (Prompt("9", "code", ("z",)),)),)
    runs = {("else", "9", 1, s): Run([1, 2], [True, False], [1, 1, 1, 1, 1]) for s in SETTINGS}
    write_suite(tmp_path, sets, SETTINGS, runs)
    with pytest.raises(DataError, match="no prompt in common"):
        compare_by_domain(results, "eagle3", read_results(tmp_path), "eagle3")


def test_the_prompts_of_a_cell_come_with_their_own_numbers_worst_first(results: Results) -> None:
    table = prompts_of_cell(results, "chat", "eagle3")
    assert sorted(zip(table["set"], table.prompt, strict=True)) == [
        ("one", "3"),
        ("one", "4"),
        ("two", "0"),
    ]
    assert table.tau.is_monotonic_increasing
    row = table[(table["set"] == "two")].iloc[0]
    runs = [RUNS["two", "0", turn, "eagle3"] for turn in (1, 2)]
    cycles = sum(len(run.accepted) for run in runs)
    assert row.cycles == cycles
    assert row.tau == pytest.approx(sum(sum(r.accepted) for r in runs) / cycles + 1)
    assert row.depth_1 == pytest.approx(shares(runs, 1))
    ar = [RUNS["two", "0", turn, "ar"] for turn in (1, 2)]
    assert row.speedup == pytest.approx(ms_per_token(ar) / ms_per_token(runs))
    assert len(prompts_of_cell(results, "all", "eagle3")) == 7
