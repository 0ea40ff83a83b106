"""A result of the Live page names its run, and says when the controls ask for another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz.config import METHODS, DecodeConfig, Method, Sampling, TreeShape
from eagle3_viz.fixed_tree import PUBLISHED_FIXED
from eagle3_viz.service import Phase
from eagle3_viz.settings import Settings
from eagle3_viz.ui.live_asked import run_words
from tests.fake_backend import SyntheticBackend
from tests.live_page import eventually, finish, job_of, opened, press, sent
from tests.synthetic import make_trace


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    yield from opened(SyntheticBackend(cycles=6), monkeypatch)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (DecodeConfig(shape=TreeShape(6, 1, 4)), "EAGLE-3, greedy, tree 6, 1, 4"),
        (
            DecodeConfig(method="eagle2", rule="sample", sampling=Sampling(0.7)),
            "EAGLE-2, sample at temperature 0.7, tree 8, 2, 4",
        ),
        (DecodeConfig(method="eagle1"), "EAGLE-1, greedy, tree seven"),
        (
            Settings(method="lookup", depth=3, total=2).config(),
            "Prompt lookup, greedy, copies up to 4 tokens",
        ),
        (DecodeConfig(method="ar"), "Autoregression, greedy"),
    ],
)
def test_a_run_is_named_by_method_rule_and_tree(config: DecodeConfig, words: str) -> None:
    settings = json.loads(json.dumps(asdict(config)))
    header = replace(
        make_trace(cycles=0).header, method=config.method, rule=config.rule, config=settings
    )
    assert run_words(header) == words


OVER = "The controls have changed since: Run to see their result."
GOING = "The controls have changed since: this run goes on as it began."


def test_a_result_says_when_the_controls_ask_for_another_run(page: AppTest) -> None:
    finish(page)
    assert sent(page)["note"] == ""
    page.selectbox(key="live_method").set_value("lookup").run()
    assert sent(page)["note"] == OVER
    assert sent(page)["run"]["sentence"].startswith("EAGLE-3")
    page.selectbox(key="live_method").set_value("eagle3").run()
    assert sent(page)["note"] == ""
    page.number_input(key="live_temperature").set_value(0.7).run()
    assert sent(page)["note"] == OVER
    page.number_input(key="live_temperature").set_value(0.0).run()
    page.text_area(key="live_prompt").set_value("another").run()
    assert sent(page)["note"] == OVER
    finish(page)
    assert sent(page)["note"] == ""


def test_a_paused_run_says_that_it_does_not_take_changed_controls_over(page: AppTest) -> None:
    press(page, "live_step")
    eventually(lambda: job_of(page).status.phase is Phase.PAUSED)
    page.run()
    assert sent(page)["note"] == ""
    page.number_input(key="live_max_tokens").set_value(40).run()
    assert sent(page)["note"] == GOING


def test_controls_without_effect_on_a_run_do_not_make_its_result_another(page: AppTest) -> None:
    finish(page)
    page.selectbox(key="live_method").set_value("eagle1").run()
    page.selectbox(key="live_fixed").set_value(PUBLISHED_FIXED.name).run()
    page.selectbox(key="live_method").set_value("eagle3").run()
    page.number_input(key="live_temperature").set_value(0.7).run()
    page.number_input(key="live_seed").set_value(5).run()
    page.slider(key="live_target_top_p").set_value(0.5).run()
    assert sent(page)["note"] == OVER
    page.number_input(key="live_temperature").set_value(0.0).run()
    assert sent(page)["note"] == ""


def test_what_only_draws_depend_on_can_be_set_only_where_something_is_drawn(page: AppTest) -> None:
    def movable() -> set[bool]:
        numbers = [page.number_input(key=f"live_{name}") for name in ("seed", "target_top_k")]
        return {not control.disabled for control in (*numbers, page.slider("live_target_top_p"))}

    assert movable() == {False}
    page.number_input(key="live_temperature").set_value(0.7).run()
    assert movable() == {True}


@pytest.mark.parametrize("method", METHODS)
def test_a_size_that_can_be_moved_has_an_effect(page: AppTest, method: Method) -> None:
    page.toggle(key="live_fastest").set_value(False).run()
    page.selectbox(key="live_method").set_value(method).run()
    sizes = {"live_depth": 1, "live_top_k": 3, "live_total": 5}
    movable = {key for key in sizes if not page.slider(key=key).disabled}
    none: set[str] = set()
    fewer = {"lookup": {"live_depth"}, "eagle1": none, "ar": none}
    assert movable == fewer.get(method, set(sizes))
    for key in movable:
        before = finish(page).request.config.tree
        page.slider(key=key).set_value(sizes[key]).run()
        assert finish(page).request.config.tree != before
