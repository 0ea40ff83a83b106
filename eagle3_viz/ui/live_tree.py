"""The tree control of the Live page: fastest on this machine, or a size of one's own."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.config import Method, TreeShape
from eagle3_viz.figures.tree_choice import cost_figure, cost_words, promise_figure, promise_words
from eagle3_viz.fixed_tree import FIXED_TREES
from eagle3_viz.service import Engine
from eagle3_viz.settings import MAX_DEPTH, MAX_TOP_K, MAX_TOTAL, Settings
from eagle3_viz.tree_choice.choice import CHOOSABLE, TreeChoice, unknown_words, words
from eagle3_viz.tree_choice.cycle_cost import TRUSTED_ROUNDS
from eagle3_viz.ui.charts import chart, theme

DEFAULT_TREE = TreeShape()
TOO_FEW = ", too few to rely on and therefore measured again at the next load"
SIZES = ("live_depth", "live_top_k", "live_total")


def tree_control(engine: Engine, method: Method) -> None:
    """The popover: what is chosen by itself and why, or sliders, or the tree of EAGLE-1."""
    with st.popover(
        "Tree", icon=":material/account_tree:", disabled=method == "ar", key="live_tree"
    ):
        fastest = _fastest_toggle(method)
        st.selectbox(
            "Fixed tree",
            list(FIXED_TREES),
            format_func=lambda name: f"{name}: {FIXED_TREES[name].total} nodes",
            key="live_fixed",
            disabled=method != "eagle1",
            bind="query-params",
            help="EAGLE-1 drafts the same branches in every cycle; the other methods choose them.",
        )
        _sliders(disabled=fastest or method == "eagle1")
        if fastest:
            _why(engine, method)
        else:
            st.caption(_in_words(method))


def _fastest_toggle(method: Method) -> bool:
    """Whether the tree is chosen by measurement. An address that names a size asks for that one."""
    # Settled by the first address: what is the default must not change under the toggle.
    usual = st.session_state.setdefault(
        "live_fastest_usual", not any(size in st.query_params for size in SIZES)
    )
    choosable = method in CHOOSABLE
    on = st.toggle(
        "Fastest on this machine",
        usual,
        key="live_fastest",
        disabled=not choosable,
        bind="query-params",
        help="The tree of EAGLE-2 and EAGLE-3 that makes the most of what forwards of different "
        "widths cost here and of how much the draft is known to get accepted. Turn it off to "
        "choose a size.",
    )
    return on and choosable


def _sliders(*, disabled: bool) -> None:
    for label, least, most, usual, key, words_of_it in (
        ("Depth", 0, MAX_DEPTH, DEFAULT_TREE.depth, "live_depth", None),
        (
            "Top-k",
            1,
            MAX_TOP_K,
            DEFAULT_TREE.top_k,
            "live_top_k",
            "Children per expanded node; 1 drafts a chain.",
        ),
        ("Total", 2, MAX_TOTAL, DEFAULT_TREE.total, "live_total", None),
    ):
        st.slider(
            label,
            least,
            most,
            usual,
            key=key,
            disabled=disabled,
            bind="query-params",
            help=words_of_it,
        )


def _why(engine: Engine, method: Method) -> None:
    """The choice, and behind it the curves; before the pair is loaded, what will happen."""
    trees = engine.trees(st.session_state.live_pair)
    if trees is None:
        st.caption("Chosen when the pair is loaded, with the first run.")
        return
    for choice in trees:
        if choice.method == method:
            st.caption(f"Chosen: {words(choice)}.")
            _curves(choice)
            return
    st.caption(f"Chosen: {unknown_words()}. {_shape_in_words(DEFAULT_TREE)}")


def _curves(choice: TreeChoice) -> None:
    with st.expander("Costs and speed-up", key="live_costs", on_change="rerun") as opened:
        if not opened.open:
            return
        mode = theme()
        chart(cost_figure(choice.cost, mode=mode), "live_cost", cost_words(choice.cost))
        chart(promise_figure(choice, mode=mode), "live_promise", promise_words(choice))
        st.caption(_sources(choice))


def _sources(choice: TreeChoice) -> str:
    cost, known = choice.cost, choice.known
    few = TOO_FEW if cost.rounds < TRUSTED_ROUNDS else ""
    return (
        f"Costs: medians of {cost.rounds} or more cycles of each size, measured here at "
        f"{cost.at}{few}. Tokens per cycle: {known.tokens} greedy tokens of {known.prompts} sample "
        "prompts, shipped with the draft; other texts, and sampling, have others."
    )


def _in_words(method: Method) -> str:
    if method == "eagle1":
        tree = FIXED_TREES[st.session_state.live_fixed]
        return f"Verifies {tree.total} nodes a cycle, the root included; {tree.levels} levels."
    at = st.session_state
    shape = Settings(depth=at.live_depth, top_k=at.live_top_k, total=at.live_total).shape
    if method == "lookup":
        nodes = min(shape.total - 1, shape.levels)
        return f"Copies up to {nodes} tokens a cycle and verifies them with the root."
    return _shape_in_words(shape)


def _shape_in_words(shape: TreeShape) -> str:
    return (
        f"Verifies {shape.total} nodes a cycle, the root included; "
        f"{shape.levels} levels, {shape.pool_size} candidates."
    )
