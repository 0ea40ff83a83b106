from __future__ import annotations

import json

import numpy as np
import pytest

from eagle3_viz.figures.colours import palette
from eagle3_viz.figures.toy_node import outcome_in_words, outputs_figure, proposal_figure
from eagle3_viz.toy_node import NODE_RULES, node_outcome

TOKENS = ["a", "b", "c", "d", "<i>"]
P = np.array([0.40, 0.25, 0.15, 0.12, 0.08])
Q = np.array([0.10, 0.50, 0.20, 0.10, 0.10])


def outcomes(p=P, q=Q, k=2):
    return [node_outcome(rule, p, q, k) for rule in NODE_RULES]


def test_the_proposal_shows_p_q_their_minimum_and_what_is_left() -> None:
    outcome = node_outcome("topk", P, Q, 2)
    figure = proposal_figure(outcome, outcome.walks[0], TOKENS)
    bars = {bar.name: bar.y for bar in figure.data}
    np.testing.assert_allclose(bars["p target"], P)
    np.testing.assert_allclose(bars["q draft"], Q)
    np.testing.assert_allclose(bars["min(p, q)"], np.minimum(P, Q))
    np.testing.assert_allclose(bars["residual"], np.array([0.4, 0, 0, 0.12, 0.08]) / 0.6)
    assert figure.layout.title.text == "All children refused with probability 0.600"


def test_there_is_no_residual_where_a_child_is_always_accepted() -> None:
    outcome = node_outcome("sample", P, P, 1)
    figure = proposal_figure(outcome, outcome.walks[0], TOKENS)
    assert "residual" not in {bar.name for bar in figure.data}
    assert figure.layout.title.text == "Some child is always accepted"


def test_the_bars_of_a_panel_add_up_to_what_its_rule_commits() -> None:
    shown = outcomes()
    figure = outputs_figure(shown, TOKENS)
    for panel, outcome in enumerate(shown):
        accepted, recovered, p = figure.data[3 * panel : 3 * panel + 3]
        total = np.array(accepted.y) + np.array(recovered.y)
        np.testing.assert_allclose(total, outcome.output, atol=1e-12)
        np.testing.assert_allclose(p.y, P)
    headings = [note.text for note in figure.layout.annotations]
    assert [("≠" in heading) for heading in headings] == [False, False, True, True, True, True]


def test_one_colour_has_one_meaning_in_both_themes() -> None:
    for mode in ("light", "dark"):
        colours = palette(mode)
        outcome = node_outcome("topk", P, Q, 1)
        proposal = proposal_figure(outcome, outcome.walks[0], TOKENS, mode=mode)
        paint = {bar.name: bar.marker.color for bar in proposal.data}
        assert paint["p target"] == colours.accepted and paint["q draft"] == colours.q
        assert paint["residual"] == colours.decided
        accepted, recovered, _ = outputs_figure(outcomes(), TOKENS, mode=mode).data[:3]
        assert (accepted.marker.color, recovered.marker.color) == (
            colours.accepted,
            colours.decided,
        )


def test_token_names_are_no_markup() -> None:
    outcome = node_outcome("topk", P[::-1], Q[::-1], 3)
    for figure in (
        proposal_figure(outcome, outcome.walks[0], TOKENS),
        outputs_figure([outcome], TOKENS),
    ):
        assert "<i>" not in json.dumps(json.loads(figure.to_json()), ensure_ascii=False)


def test_words_say_which_rule_misses_p_and_by_how_much() -> None:
    words = {o.rule: outcome_in_words(o, TOKENS) for o in outcomes(k=1)}
    assert words["sample"].startswith("sample commits p: ")
    assert "0.250, at token b, committed with probability 0.500 where p is 0.250" in words["ratio"]
    assert "changes the distribution, as it says" in words["typical"]
    assert "happens to commit p" in words["reorder"]


@pytest.mark.parametrize("rule", NODE_RULES)
def test_figures_of_extreme_distributions_hold_finite_numbers_alone(rule) -> None:
    left, right = np.array([0.5, 0.5, 0, 0, 0]), np.array([0, 0, 0, 0.3, 0.7])
    one_hot = np.array([0, 0, 1.0, 0, 0])
    for p, q in ((left, right), (one_hot, left), (left, one_hot), (one_hot, one_hot)):
        outcome = node_outcome(rule, p, q, 3)
        figures = [proposal_figure(outcome, walk, TOKENS) for walk in outcome.walks]
        for figure in (*figures, outputs_figure([outcome], TOKENS)):
            assert all(np.isfinite(trace.y).all() for trace in figure.data)
