"""Two suites compared prompt by prompt, against sums in plain Python."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eagle3_viz.config import TreeShape
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.suite.bootstrap import interval
from eagle3_viz.suite.compare import compare
from eagle3_viz.suite.plan import settings_of
from eagle3_viz.suite.report import compared
from eagle3_viz.suite.results import Results, read_results
from eagle3_viz.text_lines import DataError
from tests.suite_folder import Run, write_suite

SETTINGS = settings_of(["ar", "eagle3"])
SETS = tuple(
    PromptSet(name, tuple(Prompt(f"{n}", name, ("x",)) for n in range(4))) for name in "pq"
)
Made = dict[tuple[str, str, int, str], Run]


def runs_of(seed: int, factor: float = 1.0, more: int = 0) -> Made:
    """Random runs; times are those of the seed times `factor`, walks `more` longer."""
    draw = random.Random(seed)
    runs = {}
    for one in SETS:
        for prompt in one.prompts:
            for setting in SETTINGS:
                accepted = [draw.randint(0, 2) + more for _ in range(draw.randint(2, 6))]
                if setting == "ar":
                    accepted = [0] * len(accepted)
                ms = [factor * draw.uniform(1, 9) for _ in range(5)]
                runs[one.name, prompt.id, 1, setting] = Run(
                    accepted, [False] * len(accepted), ms, cut=accepted[-1] > 0
                )
    return runs


def suite(folder: Path, runs: Made, sets: tuple[PromptSet, ...] = SETS) -> Results:
    named = {(one.name, prompt.id) for one in sets for prompt in one.prompts}
    write_suite(folder, sets, SETTINGS, {at: run for at, run in runs.items() if at[:2] in named})
    return read_results(folder)


def sums(runs: Made, setting: str, names: str) -> list[tuple[float, float, float, float]]:
    """Uncut tokens, uncut cycles, ms and kept tokens of each prompt of the sets `names`."""
    found = []
    for (name, _, _, at), run in runs.items():
        if at == setting and name in names:
            whole = run.accepted[: len(run.accepted) - run.cut]
            ms = sum(run.ms) * len(run.accepted)
            kept = sum(whole) + len(whole) + run.cut
            found.append((sum(whole) + len(whole), len(whole), ms, kept))
    return found


@pytest.mark.parametrize("names", ["p", "q", "pq"])
def test_differences_and_ratios_are_of_sums_over_common_prompts(tmp_path: Path, names: str) -> None:
    first, second = runs_of(1), runs_of(2, 0.7, more=1)
    found = compare(suite(tmp_path / "a", first), suite(tmp_path / "b", second))
    table = found.table[found.table.set == (names if len(names) == 1 else "all")]
    row = table[table.setting_a == "eagle3"].iloc[0]
    a, b = (np.array(sums(runs, "eagle3", names)) for runs in (first, second))
    ar_a, ar_b = (np.array(sums(runs, "ar", names)) for runs in (first, second))

    def tau(rows: np.ndarray) -> float:
        return rows[:, 0].sum() / rows[:, 1].sum()

    def each(rows: np.ndarray) -> float:
        return rows[:, 2].sum() / rows[:, 3].sum()

    assert row.prompts == 4 * len(names)
    assert (row.tau_a, row.tau_b) == pytest.approx((tau(a), tau(b)))
    assert row.tau_difference == pytest.approx(tau(b) - tau(a))
    assert row.speed_ratio == pytest.approx(each(a) / each(b))
    expected = (each(ar_b) / each(b)) / (each(ar_a) / each(a))
    assert row.speedup_ratio == pytest.approx(expected)
    paired = np.hstack([a[:, 2:], b[:, 2:]])
    bounds = interval(paired, lambda s: s[..., 0] * s[..., 3] / (s[..., 1] * s[..., 2]))
    assert (row.speed_ratio_low, row.speed_ratio_high) == pytest.approx(bounds)
    paired = np.hstack([a[:, :2], b[:, :2]])
    bounds = interval(paired, lambda s: s[..., 2] / s[..., 3] - s[..., 0] / s[..., 1])
    assert (row.tau_difference_low, row.tau_difference_high) == pytest.approx(bounds)


def test_a_suite_differs_from_itself_by_nothing_at_all(tmp_path: Path) -> None:
    results = suite(tmp_path, runs_of(3))
    for row in compare(results, results).table.itertuples():
        assert row.tau_difference == row.tau_difference_low == row.tau_difference_high == 0
        assert row.speed_ratio == row.speed_ratio_low == row.speed_ratio_high == 1
        assert row.speedup_ratio == pytest.approx(1)


def test_a_machine_that_was_slower_that_day_cancels_in_the_speed_up(tmp_path: Path) -> None:
    a, b = suite(tmp_path / "a", runs_of(4)), suite(tmp_path / "b", runs_of(4, factor=3.0))
    table = compare(a, b).table
    assert table.speed_ratio.tolist() == pytest.approx([1 / 3] * len(table))
    assert table.speedup_ratio.tolist() == pytest.approx([1.0] * len(table))


def test_prompts_that_only_one_has_or_that_ask_something_else_are_named_and_left_out(
    tmp_path: Path,
) -> None:
    p = SETS[0]
    changed = replace(p.prompts[1], turns=("something else",))
    other = PromptSet("p", (p.prompts[0], changed, *p.prompts[3:], Prompt("new", "p", ("x",))))
    second = runs_of(6)
    for setting in SETTINGS:
        second["p", "new", 1, setting] = second["p", "0", 1, setting]
    found = compare(suite(tmp_path / "a", runs_of(5)), suite(tmp_path / "b", second, (other,)))
    assert found.only_a == ("p/2", "q/0", "q/1", "q/2", "q/3")
    assert found.only_b == ("p/new",)
    assert found.changed == ("p/1",)
    assert set(found.table.set) == {"p"}
    assert set(found.table.prompts) == {2}


def test_two_settings_of_one_suite_are_compared_by_name(tmp_path: Path) -> None:
    settings = settings_of(["ar", "eagle3"], shapes=[TreeShape(8, 2, 4), TreeShape(10, 3, 4)])
    sets = (PromptSet("p", (Prompt("1", "p", ("x",)), Prompt("2", "p", ("x",)))),)
    ms = {"ar": 30.0, "eagle3 8,2,4": 20.0, "eagle3 10,3,4": 10.0}
    runs = {
        ("p", prompt, 1, name): Run([1, 1], [True] * 2, [t, 0, 0, 0, 0])
        for prompt in "12"
        for name, t in ms.items()
    }
    write_suite(tmp_path, sets, settings, runs)
    results = read_results(tmp_path)
    found = compare(results, results, [("eagle3 8,2,4", "eagle3 10,3,4")])
    assert found.table.speed_ratio.tolist() == [2.0]
    assert compared(found)[1][:3] == ["p", "eagle3 8,2,4 / eagle3 10,3,4", "2"]
    with pytest.raises(DataError, match="no setting 'eagle2'; the suite has ar, eagle3 8,2,4"):
        compare(results, results, [("eagle2", "ar")])


def test_domains_of_a_file_are_compared_apart(tmp_path: Path) -> None:
    domains = ("code", "code", "math", "math")
    sets = (PromptSet("p", tuple(Prompt(f"{n}", d, ("x",)) for n, d in enumerate(domains))),)
    a, b = (suite(tmp_path / f"{seed}", runs_of(seed), sets) for seed in (1, 2))
    found = compare(a, b, [("eagle3", "eagle3")])
    rows = found.table.set_index(["set", "domain"])
    assert list(rows.index) == [("p", "code"), ("p", "math"), ("p", "all")]
    code = np.array(sums(runs_of(2), "eagle3", "p")[:2]).sum(axis=0)
    assert rows.tau_b["p", "code"] == pytest.approx(code[0] / code[1])
    assert [row[0] for row in compared(found)[1:]] == ["p, code", "p, math", "p"]


def test_suites_with_nothing_in_common_are_refused(tmp_path: Path) -> None:
    a = suite(tmp_path / "a", runs_of(7), SETS[:1])
    b = suite(tmp_path / "b", runs_of(7), SETS[1:])
    with pytest.raises(DataError, match="no prompt in common"):
        compare(a, b)
    other = replace(b, settings={"eagle2": b.settings["eagle3"]})
    with pytest.raises(DataError, match="share no setting: one has ar, eagle3, the other eagle2"):
        compare(a, other)


def test_settings_that_only_one_suite_has_are_named(tmp_path: Path) -> None:
    runs = runs_of(1)
    a = suite(tmp_path / "a", runs)
    only_ar = {"ar": SETTINGS["ar"]}
    kept = {at: run for at, run in runs.items() if at[3] == "ar"}
    write_suite(tmp_path / "b", SETS, only_ar, kept)
    b = read_results(tmp_path / "b")
    assert (compare(a, b).alone_a, compare(a, b).alone_b) == (("eagle3",), ())
    assert (compare(b, a).alone_a, compare(b, a).alone_b) == ((), ("eagle3",))
    chosen = compare(a, b, [("eagle3", "ar")])
    assert (chosen.alone_a, chosen.alone_b) == ((), ())
