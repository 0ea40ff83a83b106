"""The toy node of the Lossless page, without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz.figures.toy_node import EXACT
from eagle3_viz.toy_node import LOSSLESS, NODE_RULES, WRONG, NodeRule, node_outcome
from eagle3_viz.ui.lossless_toy import PRESETS, TOKENS

PAGE = Path(__file__).resolve().parent.parent / "pages" / "lossless.py"


@pytest.fixture
def page() -> AppTest:
    return ran(AppTest.from_file(str(PAGE), default_timeout=60).run())


def ran(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def texts(page: AppTest) -> list[str]:
    return [element.value for element in page.text]


def sentence(page: AppTest, rule: NodeRule) -> str:
    (found,) = [text for text in texts(page) if text.startswith(f"{rule} ")]
    return found


def pick(page: AppTest, **state: object) -> AppTest:
    for key, value in state.items():
        page.session_state[f"lossless_{key}"] = value
    return ran(page.run())


def weights(page: AppTest, name: str) -> tuple[int, ...]:
    return tuple(page.slider(key=f"lossless_{name}_{i}").value for i in range(len(TOKENS)))


def outcome(name: str, rule: NodeRule):
    preset = PRESETS[name]
    return node_outcome(rule, np.array(preset.p) / 100, np.array(preset.q) / 100, preset.k)


def test_the_page_opens_on_a_case_where_the_right_rules_give_p_and_the_wrong_ones_do_not(
    page: AppTest,
) -> None:
    for rule in NODE_RULES:
        assert (" commits p: " in sentence(page, rule)) == (rule in LOSSLESS)
    assert len(page.get("plotly_chart")) == 2 and len(page.dataframe) == 2


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fills_the_sliders(page: AppTest, name: str) -> None:
    pick(page, preset=name)
    preset = PRESETS[name]
    assert sum(preset.p) == sum(preset.q) == 100
    assert (weights(page, "p"), weights(page, "q")) == (preset.p, preset.q)
    assert page.slider(key="lossless_k").value == preset.k


@pytest.mark.parametrize("rule", WRONG)
def test_the_preset_named_for_a_wrong_rule_breaks_it(rule: NodeRule) -> None:
    assert outcome(rule, rule).error > 0.2
    assert all(outcome(rule, right).error < EXACT for right in LOSSLESS)


def test_moving_a_slider_leaves_the_preset_and_changes_what_is_shown(page: AppTest) -> None:
    before = sentence(page, "ratio")
    ran(page.slider(key="lossless_p_0").set_value(90).run())
    assert page.session_state["lossless_preset"] is None
    assert weights(page, "p")[0] == 90 and weights(page, "q") == PRESETS["ratio"].q
    assert sentence(page, "ratio") != before
    assert " commits p: " in sentence(page, "sample")
    ran(page.run())
    assert weights(page, "p")[0] == 90


def test_a_preset_picked_again_after_a_slider_moved_fills_the_sliders_again(page: AppTest) -> None:
    ran(page.slider(key="lossless_p_0").set_value(90).run())
    pick(page, preset="ratio")
    assert weights(page, "p") == PRESETS["ratio"].p


def test_tables_show_the_picked_rule(page: AppTest) -> None:
    p, q = (np.array(row) / 100 for row in (PRESETS["ratio"].p, PRESETS["ratio"].q))
    for k in (1, 2, 3):
        ran(page.slider(key="lossless_k").set_value(k).run())
        for rule in NODE_RULES:
            pick(page, rule=rule)
            children, tokens = (frame.value for frame in page.dataframe)
            assert len(children) == k
            np.testing.assert_allclose(tokens["output"], node_outcome(rule, p, q, k).output)
            np.testing.assert_allclose(tokens["min(1, p/q)"], [1, 0.5, 0.75, 1, 0.8])


def test_another_draw_shows_other_children(page: AppTest) -> None:
    page.selectbox(key="lossless_walk_sample_20").select_index(5).run()
    drawn = ran(page).selectbox(key="lossless_walk_sample_20").options[5]
    children = page.dataframe[0].value["child"].tolist()
    assert drawn.startswith(f"drawn {', '.join(children)}: probability 0.")


def test_a_distribution_without_mass_is_said_to_have_none(page: AppTest) -> None:
    for place in range(len(TOKENS)):
        page.slider(key=f"lossless_q_{place}").set_value(0)
    ran(page.run())
    assert "q has no mass: raise one of its sliders." in texts(page)
    assert not page.get("plotly_chart")


def test_charts_hold_the_distributions_of_the_sliders(page: AppTest) -> None:
    pick(page, preset="disjoint")
    figure = json.loads(page.get("plotly_chart")[0].proto.spec)
    bars = {bar["name"]: bar for bar in figure["data"]}
    assert {"p target", "q draft", "min(p, q)", "residual"} == bars.keys()
