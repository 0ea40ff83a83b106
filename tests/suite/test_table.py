"""The table of a suite against sums over the runs it was made of, in plain Python."""

from __future__ import annotations

import csv
import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from eagle3_viz.config import Sampling
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.suite.bootstrap import interval
from eagle3_viz.suite.plan import settings_of, trace_path
from eagle3_viz.suite.report import groups, markdown, overview, write_tables
from eagle3_viz.suite.results import read_results
from eagle3_viz.suite.table import quotient, ratio_of_quotients, tabulate
from eagle3_viz.text_lines import DataError
from eagle3_viz.trace_file import save
from tests.suite_folder import MACHINE, Run, trace_of, write_suite

SETS = (
    PromptSet("math", tuple(Prompt(f"m{n}", "math", ("one",)) for n in range(3))),
    PromptSet(
        "bench",
        (
            Prompt("81", "writing", ("one", "two")),
            Prompt("82", "writing", ("one",)),
            Prompt("x/9", "coding", ("one", "two", "three")),
        ),
    ),
)
SETTINGS = settings_of(["ar", "eagle3"])
Place = tuple[str, str, int, str]


def random_runs(seed: int) -> dict[Place, Run]:
    draw = random.Random(seed)
    runs = {}
    for one in SETS:
        for prompt, setting in itertools.product(one.prompts, SETTINGS):
            for turn in range(1, len(prompt.turns) + 1):
                cycles = draw.randint(2, 6)
                if setting == "ar":
                    accepted, recovered, ms = [0] * cycles, [False] * cycles, [0, 0, 20, 0.5, 0.1]
                else:
                    accepted = [draw.randint(0, 3) for _ in range(cycles)]
                    recovered = [count < 3 and draw.random() < 0.7 for count in accepted]
                    ms = [draw.uniform(1, 5), 0.3, draw.uniform(20, 30), 0.5, 0.2]
                runs[one.name, prompt.id, turn, setting] = Run(
                    accepted, recovered, ms, cut=accepted[-1] > 0 and draw.random() < 0.5
                )
    return runs


RUNS = random_runs(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_suite(tmp_path, SETS, SETTINGS, RUNS)
    return tmp_path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder, SETS, SETTINGS, RUNS)
    return tabulate(read_results(folder))


def of(name: str, domain: str, setting: str) -> dict[str, dict[int, Run]]:
    """The runs of one row of the table: by set and prompt, then turn."""
    found: dict[str, dict[int, Run]] = {}
    for one in SETS:
        for prompt in one.prompts:
            if name in ("all", one.name) and domain in ("all", prompt.domain):
                found[f"{one.name}/{prompt.id}"] = {
                    turn: RUNS[one.name, prompt.id, turn, setting]
                    for turn in range(1, len(prompt.turns) + 1)
                }
    return found


def kept(run: Run) -> int:
    return sum(run.accepted) + len(run.accepted) - (run.accepted[-1] if run.cut else 0)


GROUPS = [("math", "all"), ("bench", "writing"), ("bench", "coding"), ("bench", "all")]
GROUPS.append(("all", "all"))


def row_of(table: pd.DataFrame, name: str, domain: str, setting: str) -> pd.Series:
    where = (table.set == name) & (table.domain == domain) & (table.setting == setting)
    (row,) = [row for _, row in table[where].iterrows()]
    return row


def test_there_is_a_row_for_every_set_domain_and_setting(table: pd.DataFrame) -> None:
    found = [(row.set, row.domain, row.setting) for row in table.itertuples()]
    assert found == [(*group, setting) for group in GROUPS for setting in SETTINGS]
    assert [row_of(table, *group, "eagle3").prompts for group in GROUPS] == [3, 2, 1, 3, 6]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_tau_speed_and_phases_are_sums_over_runs(
    group: tuple[str, str], setting: str, table: pd.DataFrame
) -> None:
    row = row_of(table, *group, setting)
    runs = [run for turns in of(*group, setting).values() for run in turns.values()]
    ar = [run for turns in of(*group, "ar").values() for run in turns.values()]
    uncut = [count for run in runs for count in run.accepted[: len(run.accepted) - run.cut]]
    cycles = sum(len(run.accepted) for run in runs)

    def each(some: list[Run]) -> float:
        return sum(sum(r.ms) * len(r.accepted) for r in some) / sum(kept(r) for r in some)

    assert row.tau == pytest.approx(sum(count + 1 for count in uncut) / len(uncut))
    assert row.ms_per_token == pytest.approx(each(runs))
    assert row.tokens_per_second == pytest.approx(1000 / each(runs))
    assert row.speedup == pytest.approx(each(ar) / each(runs))
    for place, phase in enumerate(("draft", "tree", "verify", "accept", "commit")):
        total = sum(run.ms[place] * len(run.accepted) for run in runs)
        assert row[f"{phase}_ms"] == pytest.approx(total / cycles)


@pytest.mark.parametrize("group", GROUPS)
def test_acceptance_at_a_depth_is_accepted_over_tested_and_over_cycles(
    group: tuple[str, str], table: pd.DataFrame
) -> None:
    row = row_of(table, *group, "eagle3")
    walks = [
        (count, refused and not (run.cut and place == len(run.accepted) - 1))
        for turns in of(*group, "eagle3").values()
        for run in turns.values()
        for place, (count, refused) in enumerate(zip(run.accepted, run.recovered, strict=True))
    ]
    for depth in (1, 2, 3):
        accepted = sum(count >= depth for count, _ in walks)
        tested = sum(count + refused >= depth for count, refused in walks)
        assert row[f"conditional_{depth}"] == pytest.approx(accepted / tested)
        assert row[f"unconditional_{depth}"] == pytest.approx(accepted / len(walks))


def test_intervals_draw_whole_prompts_with_both_methods_together(table: pd.DataFrame) -> None:
    taus, speeds = [], []
    for at, turns in of("bench", "all", "eagle3").items():
        ar = of("bench", "all", "ar")[at]
        whole = [run.accepted[: len(run.accepted) - run.cut] for run in turns.values()]
        taus.append([sum(sum(a) + len(a) for a in whole), sum(len(a) for a in whole)])
        speeds.append([])
        for runs in (ar.values(), turns.values()):
            speeds[-1] += [sum(sum(r.ms) * len(r.accepted) for r in runs), sum(map(kept, runs))]
    row = row_of(table, "bench", "all", "eagle3")
    expected = interval(pd.DataFrame(taus).to_numpy(float), quotient)
    assert (row.tau_low, row.tau_high) == pytest.approx(expected)
    expected = interval(pd.DataFrame(speeds).to_numpy(float), ratio_of_quotients)
    assert (row.speedup_low, row.speedup_high) == pytest.approx(expected)
    assert row.tau_low < row.tau < row.tau_high
    assert row.speedup_low < row.speedup < row.speedup_high
    alone = row_of(table, "bench", "coding", "eagle3")
    assert math.isnan(alone.tau_low) and math.isnan(alone.speedup_high)


def test_autoregression_has_tau_1_and_speed_up_1_exactly(table: pd.DataFrame) -> None:
    for group in GROUPS:
        row = row_of(table, *group, "ar")
        assert row.tau == row.speedup == 1.0
        if row.prompts > 1:
            assert (row.tau_low, row.tau_high) == (1.0, 1.0)
            assert (row.speedup_low, row.speedup_high) == (1.0, 1.0)


def test_a_prompt_counts_as_a_loop_when_any_of_its_answers_ends_in_one(tmp_path: Path) -> None:
    runs = dict(RUNS)
    for turn in (2, 3):
        runs["bench", "x/9", turn, "eagle3"] = Run([1] * 9, [True] * 9, [1] * 5, token=7)
    write_suite(tmp_path, SETS, SETTINGS, runs)
    table = tabulate(read_results(tmp_path))
    assert row_of(table, "bench", "all", "eagle3").loops == pytest.approx(1 / 3)
    assert row_of(table, "bench", "writing", "eagle3").loops == 0
    assert row_of(table, "bench", "all", "ar").loops == 0
    assert row_of(table, "all", "all", "eagle3").loops == pytest.approx(1 / 6)


def test_a_prompt_that_one_setting_lacks_counts_under_none(folder: Path) -> None:
    trace_path(folder, "bench", "81", 2, "eagle3").unlink()
    results = read_results(folder)
    assert results.incomplete == ("bench/81",)
    assert "81" not in set(results.runs.prompt)
    assert row_of(tabulate(results), "bench", "all", "ar").prompts == 2
    assert "not counted, as some setting has not finished them: 1 prompt" in markdown(
        results, tabulate(results)
    )


def test_a_domain_of_several_files_is_a_group_of_its_own(tmp_path: Path) -> None:
    sets = tuple(
        PromptSet(name, (Prompt("1", "code", ("x",)), Prompt("2", other, ("y",))))
        for name, other in (("a", "math"), ("b", "prose"))
    )
    settings = settings_of(["ar"])
    runs = {
        (one.name, prompt.id, 1, "ar"): Run([0], [False], [ms, 0, 0, 0, 0])
        for ms, (one, prompt) in enumerate(((s, p) for s in sets for p in s.prompts), start=1)
    }
    write_suite(tmp_path, sets, settings, runs)
    table = tabulate(read_results(tmp_path))
    assert [title for title, _ in groups(table)] == [
        *("a, code", "a, math", "a", "b, code", "b, prose", "b", "All prompts, code"),
        "All prompts",
    ]
    assert row_of(table, "all", "code", "ar").ms_per_token == pytest.approx((1 + 3) / 2)


def test_the_only_domain_of_a_file_is_named_where_it_is_not_called_like_the_file(
    tmp_path: Path,
) -> None:
    sets = (PromptSet("quiz", (Prompt("1", "history", ("x",)),)),)
    run = Run([0], [False], [1, 0, 0, 0, 0])
    write_suite(tmp_path, sets, settings_of(["ar"]), {("quiz", "1", 1, "ar"): run})
    titles = [title for title, _ in groups(tabulate(read_results(tmp_path)))]
    assert titles == ["quiz, history", "quiz"]


def test_each_temperature_is_held_against_autoregression_at_its_own(tmp_path: Path) -> None:
    settings = settings_of(["ar", "eagle3"], samplings=[Sampling(0.0), Sampling(0.8)])
    sets = (PromptSet("a", (Prompt("1", "d", ("x",)),)),)
    ms = {"ar t=0": 10.0, "ar t=0.8": 30.0, "eagle3 t=0": 8.0, "eagle3 t=0.8": 8.0}
    runs = {("a", "1", 1, name): Run([1], [True], [t, 0, 0, 0, 0]) for name, t in ms.items()}
    write_suite(tmp_path, sets, settings, runs)
    table = tabulate(read_results(tmp_path))
    table = table[table.domain == "all"].set_index("setting")
    assert table.speedup["eagle3 t=0"] == pytest.approx(10 / 8)
    assert table.speedup["eagle3 t=0.8"] == pytest.approx(30 / 8)


def test_without_autoregression_there_is_no_speed_up(tmp_path: Path) -> None:
    runs = {place: run for place, run in RUNS.items() if place[3] == "eagle3"}
    write_suite(tmp_path, SETS, settings_of(["eagle3"]), runs)
    table = tabulate(read_results(tmp_path))
    assert table[["speedup", "speedup_low", "speedup_high"]].isna().all(axis=None)
    assert overview(table)[1][4] == "-"


def test_the_files_hold_the_table_with_what_it_takes_to_repeat_it(folder: Path) -> None:
    results = read_results(folder)
    table = tabulate(results)
    written = write_tables(results, table, folder)
    assert [path.name for path in written] == [
        "table.csv",
        "table.parquet",
        "table.md",
        "runs.parquet",
    ]
    rows = list(csv.DictReader((folder / "table.csv").open(encoding="utf-8")))
    assert len(rows) == len(table)
    assert float(rows[3]["tau"]) == table.tau[3]
    for name in ("machine", "pair", "target", "drafts", "dtype", "versions", "commit", "command"):
        assert rows[0][name] == results.facts[name] != ""
    assert rows[0]["machine"] == MACHINE
    back = pq.read_table(folder / "table.parquet").to_pandas()
    assert back.speedup.tolist() == table.speedup.tolist()
    assert len(pq.read_table(folder / "runs.parquet")) == len(RUNS)
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert [title for title, _ in groups(table)] == [
        line[3:] for line in text.splitlines() if line.startswith("## ")
    ]
    assert f"* machine: {MACHINE}" in text


def test_names_out_of_files_are_text_in_markdown(tmp_path: Path) -> None:
    hostile = "a|b <script>\x1b[2J\n# x [y](z)"
    sets = (PromptSet(hostile, (Prompt("1", "d", ("x",)),)),)
    runs = {(hostile, "1", 1, name): Run([0], [False], [1] * 5) for name in SETTINGS}
    write_suite(tmp_path, sets, SETTINGS, runs)
    results = read_results(tmp_path)
    text = markdown(results, tabulate(results))
    assert r"## a\|b \<script\>" in text
    assert r"\[y\]\(z\)" in text
    assert "\x1b" not in text
    assert "\n# x" not in text


def test_a_rule_that_changes_the_distribution_is_said_to(tmp_path: Path) -> None:
    settings = settings_of(["ar", "eagle3"], samplings=[Sampling(0.8)], rule="typical")
    places = [("math", f"m{n}", 1, name) for n in range(3) for name in settings]
    runs = dict.fromkeys(places, Run([0], [False], [1] * 5))
    write_suite(tmp_path, SETS[:1], settings, runs)
    results = read_results(tmp_path)
    assert "`typical` changes the output distribution" in markdown(results, tabulate(results))


def test_a_folder_without_a_complete_prompt_is_told(tmp_path: Path) -> None:
    write_suite(tmp_path, SETS, SETTINGS, {})
    with pytest.raises(DataError, match=r"no prompt in .* has a run of every setting yet"):
        read_results(tmp_path)


def test_a_damaged_trace_is_named(folder: Path) -> None:
    path = trace_path(folder, "math", "m1", 1, "ar")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"m1\.1\.ar\.parquet: "):
        read_results(folder)


def test_runs_of_other_circumstances_are_not_put_into_one_table(folder: Path) -> None:
    trace = trace_of(RUNS["math", "m1", 1, "ar"], SETTINGS["ar"])
    trace.header = replace(trace.header, threads=64)
    save(trace, trace_path(folder, "math", "m1", 1, "ar"))
    with pytest.raises(DataError, match="differ in threads: 2 and 64"):
        read_results(folder)
