"""The Acceptance page, without a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from eagle3_viz.analysis.ledger.table import ledger
from eagle3_viz.analysis.worst import worst_cycles
from eagle3_viz.config import Method
from eagle3_viz.interpreter import typed
from eagle3_viz.library import place
from eagle3_viz.library.store import Library
from eagle3_viz.metrics import acceptance_by_depth, summary
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.suite.plan import settings_of
from eagle3_viz.trace import Trace
from eagle3_viz.ui import acceptance_domains, acceptance_suite, trace_choice
from tests.suite_folder import Run, write_suite
from tests.synthetic import make_trace

PAGE = Path(__file__).resolve().parent.parent / "pages" / "acceptance.py"
HOSTILE = "<img src=x onerror=alert(1)> **bold** $x$"
Opened = list[tuple[str, int]]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library(tmp_path / "library", None)
    monkeypatch.setattr(place, "shared", lambda: made)
    monkeypatch.setattr(acceptance_suite, "CHECKOUT", tmp_path / "nowhere")
    st.cache_resource.clear()
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """What was asked to be shown on the Trace page."""
    asked: Opened = []
    monkeypatch.setattr(
        trace_choice,
        "open_in_trace_page",
        lambda name, cycle, node=None: asked.append((name, cycle)),
    )
    return asked


def shown(page: AppTest | None = None, **query: str) -> AppTest:
    page = page or AppTest.from_file(str(PAGE), default_timeout=60)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    assert not page.exception
    return page


def texts(page: AppTest) -> list[str]:
    return [element.value for element in page.text]


def figure(page: AppTest, title: str) -> dict[str, Any]:
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    (found,) = [spec for spec in specs if spec["layout"]["title"]["text"].startswith(title)]
    return found


def kept(library: Library, trace: Trace, name: str = "made up", domain: str = "") -> str:
    return library.save(trace, name, (), domain).id


@pytest.mark.parametrize("rule", ["greedy", "topk", "sample"])
def test_the_page_shows_the_numbers_of_the_trace(library: Library, rule: Any) -> None:
    trace = make_trace(cycles=30, rule=rule)
    page = shown(trace=kept(library, trace))
    tau = summary(trace).tau
    assert page.metric[0].value == f"{tau:.2f}"
    row = acceptance_by_depth(trace).iloc[0]
    assert page.metric[1].value == f"{100 * row.conditional:.1f} %"
    assert len(page.get("plotly_chart")) == 8
    conditional = figure(page, "Acceptance by depth")["data"][0]
    assert conditional["name"] == "conditional"


def test_every_chart_says_what_it_shows(library: Library) -> None:
    page = shown(trace=kept(library, make_trace(cycles=20, rule="topk")))
    assert all(chart.proto.alt for chart in page.get("plotly_chart"))


def test_the_numbers_of_the_charts_are_there_as_tables_when_asked_for(library: Library) -> None:
    trace = make_trace(cycles=20, rule="topk")
    page = shown(trace=kept(library, trace))
    before = len(page.dataframe)
    page.session_state["acceptance_tables"] = True
    page.run()
    assert len(page.dataframe) == before + 8
    depths = next(one.value for one in page.dataframe if "unconditional" in one.value)
    assert depths.accepted.tolist() == acceptance_by_depth(trace).accepted.tolist()


def test_a_worst_cycle_is_one_click_away(library: Library, opened: Opened) -> None:
    trace = make_trace(cycles=30, rule="topk")
    name = kept(library, trace)
    page = shown(trace=name)
    worst = worst_cycles(trace)
    labels = [b.label for b in page.button if b.label.startswith("Cycle")]
    assert labels == [f"Cycle {cycle.index + 1}" for cycle in worst]
    page.button(key=f"acceptance_worst_{worst[3].index}").click().run()
    assert opened == [(name, worst[3].index)]


def test_the_ledger_lists_every_entry(library: Library) -> None:
    trace = make_trace(cycles=12, rule="topk")
    page = shown(trace=kept(library, trace))
    (frame,) = [one.value for one in page.dataframe if "with this run's counts" in one.value]
    assert frame["with this run's counts"].tolist() == [entry.worked for entry in ledger(trace)]


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        (lambda: make_trace(cycles=5, method="ar"), "Autoregression drafts nothing"),
        (lambda: make_trace(cycles=0, finish="eos"), "This run ended with the token that prefill"),
        (lambda: make_trace(cycles=0, finish=None), "This run has no cycle yet."),
    ],
)
def test_a_run_without_drafts_says_so(
    library: Library, trace: Callable[[], Trace], sentence: str
) -> None:
    page = shown(trace=kept(library, trace()))
    assert any(text.startswith(sentence) for text in texts(page))
    assert not page.get("plotly_chart") and not page.metric


def test_without_record_counts_stay_and_the_rest_says_what_it_needs(library: Library) -> None:
    page = shown(trace=kept(library, make_trace(cycles=20, rule="topk", record="off")))
    assert len(page.get("plotly_chart")) == 3
    assert sum(text.startswith("This needs") for text in texts(page)) == 5


def test_lookup_has_no_confidence_to_calibrate(library: Library) -> None:
    page = shown(trace=kept(library, make_trace(cycles=20, rule="topk", method="lookup")))
    assert sum("no confidence" in text for text in texts(page)) == 2


def test_typical_acceptance_is_said_to_be_lossy(library: Library) -> None:
    page = shown(trace=kept(library, make_trace(cycles=20, rule="typical")))
    assert "changes the output distribution" in page.warning[0].value


def several(page: AppTest, *ids: str) -> AppTest:
    page.multiselect(key="acceptance_traces").set_value(list(ids)).run()
    assert not page.exception
    return page


@pytest.fixture
def four(library: Library) -> dict[str, str]:
    """Two methods on two prompts, by method and domain."""
    found = {}
    methods: tuple[Method, ...] = ("eagle3", "eagle1")
    for seed, domain in enumerate(("code", "chat")):
        for method in methods:
            trace = make_trace(cycles=12, rule="topk", method=method, seed=seed)
            ids = (seed, *trace.header.prompt_ids[1:])
            trace.header = replace(trace.header, prompt=f"{domain} {HOSTILE}", prompt_ids=ids)
            found[f"{method} {domain}"] = kept(library, trace, f"{method} {HOSTILE}", domain)
    return found


def test_several_traces_are_shown_by_domain(library: Library, four: dict[str, str]) -> None:
    page = several(shown(acceptance_of="Several traces"), *four.values())
    matrix = next(one.value for one in page.dataframe if "setting" in one.value)
    rows = set(zip(matrix.domain, matrix.setting, strict=True))
    assert rows == {(d, s) for d in ("code", "chat", "all") for s in ("eagle3", "eagle1")}
    alone = matrix[matrix.domain == "code"]
    assert not alone.tau.str.contains("to").any()
    assert matrix[matrix.domain == "all"].tau.str.contains(" to ").all()


def test_two_settings_are_compared_with_the_interval_of_the_difference(
    library: Library, four: dict[str, str]
) -> None:
    page = several(shown(acceptance_of="Several traces"), *four.values())
    assert page.selectbox(key="acceptance_a").value == "eagle3"
    assert page.selectbox(key="acceptance_b").value == "eagle1"
    frame = next(one.value for one in page.dataframe if "difference" in one.value)
    assert frame.domain.tolist()[-1] == "all"
    assert " to " in frame.difference.tolist()[-1]
    page.selectbox(key="acceptance_b").select("eagle3").run()
    assert "A and B are the same setting." in texts(page)


def test_other_traces_have_other_settings_to_choose_from(
    library: Library, four: dict[str, str]
) -> None:
    page = several(shown(acceptance_of="Several traces"), *four.values())
    page.selectbox(key="acceptance_setting").select("eagle1").run()
    greedy = kept(library, make_trace(cycles=12), "greedy", "code")
    page = several(page, *four.values(), greedy)
    names = page.selectbox(key="acceptance_a").options
    assert "eagle3 greedy" in names and "eagle1" not in names
    for key in ("acceptance_a", "acceptance_b", "acceptance_setting"):
        assert page.selectbox(key=key).value in names


def test_from_a_cell_to_its_prompts_and_on_to_a_cycle(
    library: Library, four: dict[str, str], opened: Opened
) -> None:
    page = several(shown(acceptance_of="Several traces"), *four.values())
    page.selectbox(key="acceptance_domain").select("chat").run()
    page.selectbox(key="acceptance_setting").select("eagle1").run()
    prompts = next(one.value for one in page.dataframe if "prompt" in one.value)
    assert len(prompts) == 1 and prompts.prompt[0].startswith("chat <img")
    buttons = [b for b in page.button if b.label.startswith("Cycle")]
    buttons[0].click().run()
    assert opened[0][0] == four["eagle1 chat"]


def test_a_click_on_a_cell_moves_the_selects_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(acceptance_matrix={"selection": {"cells": [(1, "tau")]}})
    monkeypatch.setattr(st, "session_state", state)
    rows = pd.DataFrame({"domain": ["code", "chat"], "setting": ["eagle1", "eagle3"]})
    acceptance_domains.cell_picked(rows)
    assert (state.acceptance_domain, state.acceptance_setting) == ("chat", "eagle3")
    state.acceptance_matrix["selection"]["cells"] = []
    acceptance_domains.cell_picked(rows)
    assert state.acceptance_domain == "chat"


def test_one_trace_is_too_few_to_compare(library: Library, four: dict[str, str]) -> None:
    page = several(shown(acceptance_of="Several traces"), four["eagle3 code"])
    assert any(text.startswith("Choose two traces") for text in texts(page))


SETTINGS = settings_of(["ar", "eagle1", "eagle3"])
SETS = (
    PromptSet(
        "p",
        (*(Prompt(f"{n}", "code", ("x",)) for n in range(3)), Prompt("9", "chat", ("x", "y"))),
    ),
)


def write(folder: Path, more: int = 0) -> None:
    runs = {}
    for number, prompt in enumerate(SETS[0].prompts):
        for setting in SETTINGS:
            for turn in range(1, len(prompt.turns) + 1):
                lengths = [0, 0] if setting == "ar" else [1 + more, 2, number % 2, 2]
                runs["p", prompt.id, turn, setting] = Run(
                    lengths, [False] * len(lengths), [1.0] * 5
                )
    write_suite(folder, SETS, SETTINGS, runs)


def test_without_a_suite_the_page_says_how_to_make_one(library: Library) -> None:
    page = shown(acceptance_of="A suite")
    assert any(text.startswith("There is no suite yet") for text in texts(page))
    assert page.code[0].value.startswith(typed(["eagle3_viz", "suite", "--out"]))


def test_a_suite_is_shown_by_domain_and_its_cycles_open_through_the_library(
    library: Library, opened: Opened
) -> None:
    write(library.folder / "suites" / "mine")
    page = shown(acceptance_of="A suite")
    matrix = next(one.value for one in page.dataframe if "setting" in one.value)
    assert set(matrix.domain) == {"code", "chat", "all"} and len(matrix) == 9
    page.selectbox(key="acceptance_setting").select("eagle3").run()
    page.selectbox(key="acceptance_domain").select("chat").run()
    for _ in range(2):
        next(b for b in page.button if b.label.startswith("Cycle")).click().run()
    assert not page.exception
    (entry,) = library.entries()
    assert entry.tags == ("suite",) and "p/9" in entry.name
    assert [name for name, _ in opened] == [entry.id] * 2


def test_a_suite_is_compared_with_another(library: Library) -> None:
    write(library.folder / "suites" / "first")
    write(library.folder / "suites" / "second", more=1)
    page = shown(acceptance_of="A suite")
    page.selectbox(key="acceptance_other").select("second").run()
    frame = next(one.value for one in page.dataframe if "difference" in one.value)
    assert all(float(cell.split()[0]) == 0.25 for cell in frame.difference)


def test_a_suite_that_is_damaged_says_so(library: Library) -> None:
    folder = library.folder / "suites" / "mine"
    write(folder)
    (folder / "suite.json").write_text("{}")
    page = shown(acceptance_of="A suite")
    assert any("is not the manifest of a suite" in text for text in texts(page))


def test_a_link_opens_the_traces_it_names_and_says_which_are_not_here(library: Library) -> None:
    one = kept(library, make_trace(cycles=3, seed=1), "one")
    two = kept(library, make_trace(cycles=3, seed=2, method="eagle1"), "two")
    page = shown(traces=f"{one},nope,{two},<b>x</b>")
    assert page.multiselect(key="acceptance_traces").value == [one, two]
    (sentence,) = [text for text in texts(page) if "which the link names" in text]
    assert "'nope', '<b>x</b>'" in sentence
    page.multiselect(key="acceptance_traces").set_value([two, one]).run()
    assert page.query_params["traces"] == f"{two},{one}"
    assert not any("which the link names" in text for text in texts(page))
