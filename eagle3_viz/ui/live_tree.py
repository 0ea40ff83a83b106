"""The tree control of the Live page: fastest on this machine, or a size of one's own."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.config import Method, TreeShape
from eagle3_viz.figures.tree_choice import cost_figure, cost_words, promise_figure, promise_words
from eagle3_viz.fixed_tree import FIXED_TREES
from eagle3_viz.service import Engine
from eagle3_viz.settings import MAX_DEPTH, MAX_TOP_K, MAX_TOTAL, Settings
from eagle3_viz.tree_choice.choice import CHOOSABLE, TreeChoice, unknown_words, words
from eagle3_viz.ui.charts import chart, theme
from eagle3_viz.wording import counted

DEFAULT_TREE = TreeShape()
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
        choice = _choice(engine, method) if fastest else None
        if choice is None:
            _sliders(() if fastest else _sizes_of(method))
        else:
            _chosen_sizes(choice.shape)
        if fastest:
            _why(engine, choice)
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


def _sizes_of(method: Method) -> tuple[str, ...]:
    """The sizes that the method's tree has: lookup copies a chain, eagle1 has a tree of its own."""
    if method in ("ar", "eagle1"):
        return ()
    return SIZES[:1] if method == "lookup" else SIZES


def _sliders(movable: tuple[str, ...]) -> None:
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
            disabled=key not in movable,
            bind="query-params",
            help=words_of_it,
        )


def _chosen_sizes(shape: TreeShape) -> None:
    """The size that was chosen, where the sliders are that would choose another."""
    for label, most, key, usual, value in (
        ("Depth", MAX_DEPTH, "live_depth", DEFAULT_TREE.depth, shape.depth),
        ("Top-k", MAX_TOP_K, "live_top_k", DEFAULT_TREE.top_k, shape.top_k),
        ("Total", MAX_TOTAL, "live_total", DEFAULT_TREE.total, shape.total),
    ):
        # A slider that is not drawn forgets the visitor's own size unless it is set again.
        st.session_state[key] = st.session_state.get(key, usual)
        st.slider(label, 0, max(most, value), value, key=f"{key}_chosen_{value}", disabled=True)


def _choice(engine: Engine, method: Method) -> TreeChoice | None:
    """What was chosen for the method; None before the pair is loaded, and without a table."""
    trees = engine.trees(st.session_state.live_pair) or ()
    return next((choice for choice in trees if choice.method == method), None)


def _why(engine: Engine, choice: TreeChoice | None) -> None:
    """The choice, and behind it the curves; before the pair is loaded, what will happen."""
    if choice is not None:
        st.caption(f"Chosen: {words(choice)}.")
        if choice.caveat:
            st.warning(choice.caveat, icon=":material/warning:")
        _curves(choice)
    elif engine.trees(st.session_state.live_pair) is None:
        st.caption("Chosen when the pair is loaded, with the first run.")
    else:
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
    return (
        f"Costs: medians of {cost.rounds} or more cycles of each size, measured here at "
        f"{cost.at}; the middle half of the cycles of a size spreads over {cost.spread:.0%}. "
        f"Tokens per cycle: {known.tokens} greedy tokens of {known.prompts} sample prompts, "
        "shipped with the draft; other texts, and sampling, have others."
    )


def _in_words(method: Method) -> str:
    if method == "eagle1":
        tree = FIXED_TREES[st.session_state.live_fixed]
        return f"Verifies {tree.total} nodes a cycle, the root included; {tree.levels} levels."
    at = st.session_state
    shape = Settings(method, depth=at.live_depth, top_k=at.live_top_k, total=at.live_total).shape
    if method == "lookup":
        copied = counted(shape.levels, "token")
        return f"Copies up to {copied} a cycle and verifies them with the root."
    return _shape_in_words(shape)


def _shape_in_words(shape: TreeShape) -> str:
    return (
        f"Verifies {shape.total} nodes a cycle, the root included; "
        f"{shape.levels} levels, {shape.pool_size} candidates."
    )
