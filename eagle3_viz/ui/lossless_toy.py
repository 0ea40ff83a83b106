"""The toy node of the Lossless page: drag p and q, see exactly what each rule commits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from eagle3_viz.figures.toy_node import outcome_in_words, outputs_figure, proposal_figure
from eagle3_viz.toy_node import (
    DELTA,
    EPSILON,
    LOSSLESS,
    MAX_CHILDREN,
    NODE_RULES,
    RELAXED,
    NodeOutcome,
    NodeRule,
    Walk,
    node_outcome,
)
from eagle3_viz.ui.charts import chart, theme

TOKENS = ("a", "b", "c", "d", "e")
FULL = 100  # of a slider
INTRODUCTION = (
    "A rule is lossless when the token committed after a node has the target's distribution p, "
    "whatever the draft's q is. Here that is worked out and not sampled: every order in which "
    "children can be drawn, and every outcome of their tests, with its probability."
)
NOTES: dict[NodeRule, str] = {
    "topk": "The k most likely tokens of q are chosen, not drawn. Accept probability = p when "
    "tested; a refused child is removed from p. q plays no part in the test.",
    "sample": "k tokens are drawn from q without replacement and tested as drawn. Accept "
    "probability = min(1, p/q); a refusal leaves max(0, p - q), normalized, and takes the child "
    "out of q.",
    "typical": "Relaxed: changes the output distribution. The first of the k most likely tokens "
    f"of q with p > min({EPSILON}, {DELTA} exp(-H(p))) is accepted; when none passes, one token is "
    "drawn from p.",
    "ratio": "Wrong: the k most likely tokens of q are chosen as under topk, yet tested with "
    "min(1, p/q) as if they had been drawn.",
    "rerank": "Wrong: k + 1 tokens are drawn and the least confident one is dropped, as a rerank "
    "does. Those left are no draws from q, yet tested with min(1, p/q).",
    "reorder": "Wrong: k tokens are drawn from q, yet tested the most confident one first. With "
    "one child there is nothing to re-order.",
}


@dataclass(frozen=True)
class ToyPreset:
    """Percentages of p and q, and the number of children that makes the point."""

    title: str
    p: tuple[int, ...]
    q: tuple[int, ...]
    k: int


PRESETS = {
    "ratio": ToyPreset("breaks the ratio test", (40, 25, 15, 12, 8), (10, 50, 20, 10, 10), 2),
    "reorder": ToyPreset("breaks re-ordering", (50, 20, 15, 10, 5), (45, 25, 15, 10, 5), 3),
    "rerank": ToyPreset("breaks reranking", (50, 20, 15, 10, 5), (45, 25, 15, 10, 5), 1),
    "equal": ToyPreset("p = q", (40, 25, 15, 12, 8), (40, 25, 15, 12, 8), 2),
    "disjoint": ToyPreset("disjoint", (60, 40, 0, 0, 0), (0, 0, 50, 30, 20), 2),
    "opposite": ToyPreset("opposite", (5, 10, 15, 30, 40), (40, 30, 15, 10, 5), 2),
    "greedy": ToyPreset("p on one token", (0, 100, 0, 0, 0), (30, 40, 15, 10, 5), 2),
}


@st.fragment
def draw() -> None:
    """The whole section. Raises nothing: a distribution without mass is said to be one."""
    st.header("One node, worked out exactly", anchor=False)
    st.caption(INTRODUCTION)
    _preset_control()
    rule = _rule_control()
    with st.container(key="lossless_node"):  # stacked by the style sheet where the page is narrow
        left, right = st.columns([2, 3], gap="large")
    with left:
        p, q = _distributions()
        k = st.slider(
            "k, children of the node", 1, MAX_CHILDREN, key="lossless_k", on_change=_own_values
        )
    if not p.any() or not q.any():
        with right:
            st.text(f"{'q' if p.any() else 'p'} has no mass: raise one of its sliders.")
        return
    outcomes = {name: node_outcome(name, p / p.sum(), q / q.sum(), k) for name in NODE_RULES}
    with left:
        walk = _picked_walk(outcomes[rule])
        _table(_children_table(walk), "lossless_children")
    with right:
        chart(proposal_figure(outcomes[rule], walk, TOKENS, mode=theme()), "lossless_proposal")
        st.caption(NOTES[rule])
        _table(_token_table(outcomes[rule], walk), "lossless_tokens")
    _outputs(list(outcomes.values()))


def _preset_control() -> None:
    chosen = st.pills(
        "Preset",
        list(PRESETS),
        default=next(iter(PRESETS)),
        format_func=lambda name: PRESETS[name].title,
        key="lossless_preset",
        bind="query-params",
    )
    unset = "lossless_p_0" not in st.session_state
    preset = PRESETS.get(chosen or "")
    if preset is None and unset:
        preset = next(iter(PRESETS.values()))
    if preset is not None and (unset or st.session_state.get("lossless_filled") != chosen):
        for place in range(len(TOKENS)):
            st.session_state[f"lossless_p_{place}"] = preset.p[place]
            st.session_state[f"lossless_q_{place}"] = preset.q[place]
        st.session_state.lossless_k = preset.k
    st.session_state.lossless_filled = chosen


def _own_values() -> None:
    """What the sliders hold is no preset any more."""
    st.session_state.lossless_preset = None


def _distributions() -> tuple[np.ndarray, np.ndarray]:
    """The weights [V] of p and q that the sliders hold; not normalized."""
    columns = st.columns(2)
    found = []
    for column, name, meaning in zip(columns, "pq", ("p target", "q draft"), strict=True):
        with column:
            weights = [
                st.slider(
                    f"{meaning}, weight of {token}",
                    0,
                    FULL,
                    key=f"lossless_{name}_{place}",
                    on_change=_own_values,
                )
                for place, token in enumerate(TOKENS)
            ]
        found.append(np.array(weights, dtype=float))
    return found[0], found[1]


def _rule_control() -> NodeRule:
    rule = st.segmented_control(
        "Rule",
        NODE_RULES,
        default="sample",
        required=True,
        format_func=_rule_title,
        key="lossless_rule",
        bind="query-params",
    )
    return rule or "sample"


def _rule_title(rule: NodeRule) -> str:
    kind = "" if rule in LOSSLESS else " (relaxed)" if rule in RELAXED else " (wrong)"
    return rule + kind


def _picked_walk(outcome: NodeOutcome) -> Walk:
    """The proposal of the picked rule that is looked at, the most likely one at first."""
    walks = sorted(outcome.walks, key=lambda walk: -walk.probability)
    place = st.selectbox(
        "Children",
        range(len(walks)),
        format_func=lambda index: _walk_title(walks[index]) if index < len(walks) else "",
        key=f"lossless_walk_{outcome.rule}_{len(walks)}",
        disabled=len(walks) == 1,
    )
    # A pick from a list whose labels have changed meanwhile arrives as its old text.
    return walks[place if isinstance(place, int) else 0]


def _walk_title(walk: Walk) -> str:
    drawn = ", ".join(TOKENS[token] for token in walk.drawn)
    tested = ", ".join(TOKENS[test.token] for test in walk.tests)
    if walk.probability == 1.0:
        return f"children {drawn}"
    order = "" if tested == drawn else f", tested {tested}"
    return f"drawn {drawn}{order}: probability {walk.probability:.3f}"


def _children_table(walk: Walk) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "child": [TOKENS[test.token] for test in walk.tests],
            "p tested": [test.p for test in walk.tests],
            "q tested": [test.q for test in walk.tests],
            "accepted": [test.accept for test in walk.tests],
            "reached": [test.reach for test in walk.tests],
        }
    )


def _token_table(outcome: NodeOutcome, walk: Walk) -> pd.DataFrame:
    p, q = outcome.p, outcome.q
    ratio = np.divide(p, q, out=np.full_like(p, np.nan), where=q > 0.0)
    return pd.DataFrame(
        {
            "token": TOKENS,
            "p": p,
            "q": q,
            "min(p, q)": np.minimum(p, q),
            "min(1, p/q)": np.minimum(1.0, ratio),
            "residual": walk.residual,
            "output": outcome.output,
            "output - p": np.round(outcome.output - p, 12) + 0.0,  # no minus before a zero
        }
    )


def _table(table: pd.DataFrame, key: str) -> None:
    numbers = {
        name: st.column_config.NumberColumn(name, format="%.3f") for name in table.columns[1:]
    }
    st.dataframe(table, hide_index=True, width="stretch", column_config=numbers, key=key)


def _outputs(outcomes: list[NodeOutcome]) -> None:
    st.text("What each rule commits, over all draws and outcomes:")
    chart(outputs_figure(outcomes, TOKENS, mode=theme()), "lossless_outputs")
    with st.container(key="lossless_words", gap=None):
        for outcome in outcomes:
            st.text(outcome_in_words(outcome, TOKENS))
