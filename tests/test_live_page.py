from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz.config import METHODS, RULES, DecodeConfig, Method, Rule, TreeShape
from eagle3_viz.cycle_view import distributions_at, node_labels, node_table, stop_node
from eagle3_viz.fixed_tree import DEFAULT_FIXED, PUBLISHED_FIXED
from eagle3_viz.records import NodeState
from eagle3_viz.service import Engine, Phase, Status
from eagle3_viz.settings import MAX_DEPTH, MAX_TOP_K, MAX_TOTAL, Settings, rules_for
from eagle3_viz.ui import live_controls, live_state
from eagle3_viz.ui.live_controls import NO_PROMPT
from eagle3_viz.ui.live_status import describe
from tests.fake_backend import SyntheticBackend
from tests.live_page import eventually, finish, job_of, opened, press, sent, texts
from tests.synthetic import make_trace


@pytest.fixture
def backend() -> SyntheticBackend:
    return SyntheticBackend(cycles=6)


@pytest.fixture
def page(backend: SyntheticBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    yield from opened(backend, monkeypatch)


def test_the_page_opens_with_a_preset_in_the_prompt_box_and_only_run_and_step_enabled(
    page: AppTest,
) -> None:
    assert not page.exception
    assert page.text_area(key="live_prompt").value.strip()
    enabled = {
        name: not page.button(key=f"live_{name}").disabled
        for name in ("run", "pause", "step", "stop")
    }
    assert enabled == {"run": True, "pause": False, "step": True, "stop": False}


def test_a_preset_of_another_domain_fills_the_prompt_box_and_an_edit_is_kept(
    page: AppTest,
) -> None:
    before = page.text_area(key="live_prompt").value
    page.session_state["live_domain"] = "math"
    page.run()
    filled = page.text_area(key="live_prompt").value
    assert filled != before
    page.text_area(key="live_prompt").set_value("my own").run()
    assert page.text_area(key="live_prompt").value == "my own"


def test_a_pair_that_cannot_run_is_not_selectable_and_says_why(page: AppTest) -> None:
    control = page.selectbox(key="live_pair")
    assert control.options == ["A made-up pair"]
    assert "A huge pair: needs 145 GB" in control.help


def test_the_rule_follows_the_temperature(page: AppTest) -> None:
    assert page.selectbox(key="live_rule").options == ["greedy"]
    page.number_input(key="live_temperature").set_value(0.7).run()
    typical = "typical (changes the output distribution)"
    assert page.selectbox(key="live_rule").options == ["topk", "sample", typical]
    assert page.selectbox(key="live_rule").value == "topk"
    page.selectbox(key="live_rule").set_value("sample").run()
    page.selectbox(key="live_method").set_value("lookup").run()
    assert page.selectbox(key="live_rule").options == ["topk", typical]
    assert page.selectbox(key="live_rule").value == "topk"
    page.number_input(key="live_temperature").set_value(0.0).run()
    assert page.selectbox(key="live_rule").value == "greedy"


def test_a_finished_run_shows_sentence_charts_table_and_download(page: AppTest) -> None:
    job = finish(page)
    assert job.status.phase is Phase.FINISHED
    name = "EAGLE-3, greedy, tree 8, 2, 4"
    assert sent(page)["run"]["sentence"].startswith(f"{name} · Finished after 6 cycles")
    assert len(sent(page)["run"]["cycles"]) == 6
    assert page.number_input(key="live_cycle").value == 6
    assert len(page.get("plotly_chart")) == 3
    assert len(page.dataframe) == 1
    assert len(page.get("download_button")) == 1


def test_a_run_that_ended_at_prefill_still_offers_its_trace_and_says_what_made_it(
    page: AppTest, backend: SyntheticBackend
) -> None:
    backend.cycles = 0
    job = finish(page)
    assert job.trace is not None and job.trace.prefill is not None and not job.trace.cycles
    assert len(page.get("download_button")) == 1 and not page.get("plotly_chart")
    assert any(text.startswith("target") for text in texts(page))


def test_the_controls_reach_the_run(page: AppTest) -> None:
    page.number_input(key="live_temperature").set_value(0.8).run()
    page.selectbox(key="live_rule").set_value("sample").run()
    page.toggle(key="live_fastest").set_value(False).run()
    page.slider(key="live_depth").set_value(3).run()
    page.slider(key="live_top_k").set_value(2).run()
    page.slider(key="live_total").set_value(9).run()
    page.number_input(key="live_max_tokens").set_value(40).run()
    page.text_area(key="live_prompt").set_value("hello").run()
    request = finish(page).request
    assert request.prompt == "hello" and request.pair == "made-up"
    config = request.config
    assert (config.rule, config.shape, config.max_new_tokens) == ("sample", TreeShape(9, 3, 2), 40)


def test_eagle1_takes_a_fixed_tree_and_no_sizes_and_the_others_the_opposite(page: AppTest) -> None:
    sizes = ("live_depth", "live_top_k", "live_total")
    page.toggle(key="live_fastest").set_value(False).run()
    assert page.selectbox(key="live_fixed").disabled
    assert not any(page.slider(key=key).disabled for key in sizes)
    page.selectbox(key="live_method").set_value("eagle1").run()
    assert not page.selectbox(key="live_fixed").disabled
    assert all(page.slider(key=key).disabled for key in sizes)
    page.selectbox(key="live_fixed").set_value(PUBLISHED_FIXED.name).run()
    assert any("26 nodes a cycle" in caption.value for caption in page.caption)
    assert finish(page).request.config.tree == PUBLISHED_FIXED


def test_the_tree_of_prompt_lookup_is_told_as_what_it_copies(page: AppTest) -> None:
    page.selectbox(key="live_method").set_value("lookup").run()
    page.slider(key="live_depth").set_value(3).run()
    assert any("Copies up to 4 tokens" in caption.value for caption in page.caption)
    assert finish(page).request.config.shape == TreeShape(5, 3, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", RULES)
def test_every_method_under_every_rule_is_drawn(page: AppTest, method: Method, rule: Rule) -> None:
    """What does not fit gives way; what is left runs and every part of the page is drawn."""
    page.selectbox(key="live_method").set_value(method).run()
    if rule != "greedy":
        page.number_input(key="live_temperature").set_value(0.7).run()
    if rule in rules_for(0.7, method) and method != "ar":
        page.selectbox(key="live_rule").set_value(rule).run()
    job = finish(page)
    assert job.trace is not None
    assert job.status.phase is Phase.FINISHED
    assert job.trace.header.method == method
    fitting = rules_for(0.0 if rule == "greedy" else 0.7, method)
    chosen = rule in fitting and method != "ar"
    assert job.trace.header.rule == (rule if chosen else fitting[0])


def test_autoregression_disables_tree_and_rule_and_runs(page: AppTest) -> None:
    page.selectbox(key="live_method").set_value("ar").run()
    assert page.selectbox(key="live_rule").disabled
    job = finish(page)
    assert job.trace is not None and job.trace.header.method == "ar"
    assert any("Autoregression" in text for text in texts(page))
    assert len(page.get("plotly_chart")) == 2 and not page.dataframe


def test_step_on_a_fresh_page_runs_one_cycle_and_each_further_step_one_more(
    page: AppTest,
) -> None:
    for done in (1, 2):
        press(page, "live_step")
        job = job_of(page)
        eventually(lambda job=job: job.status.phase is Phase.PAUSED)
        page.run()
        assert job.trace is not None and len(job.trace.cycles) == done
        assert page.button(key="live_pause").label == "Resume"
    press(page, "live_pause")
    eventually(lambda: job_of(page).status.phase is Phase.FINISHED)


def test_stop_ends_the_run_and_run_is_enabled_again(
    page: AppTest, backend: SyntheticBackend
) -> None:
    backend.pause = 0.05
    press(page, "live_run")
    press(page, "live_stop")
    job = job_of(page)
    eventually(lambda: job.status.phase is Phase.STOPPED)
    page.run()
    assert not page.button(key="live_run").disabled and page.button(key="live_stop").disabled


def test_a_failure_is_shown_as_plain_text(page: AppTest) -> None:
    page.text_area(key="live_prompt").set_value("fail").run()
    finish(page)
    failed = [text for text in texts(page) if "Failed" in text]
    assert len(failed) == 1
    assert failed[0].endswith(" · Failed: the made-up pair <b>failed</b> as asked")


def test_no_token_reaches_markdown_or_html(page: AppTest) -> None:
    page.number_input(key="live_temperature").set_value(0.7).run()
    finish(page)
    for cycle in range(1, 7):
        page.number_input(key="live_cycle").set_value(cycle).run()
        rendered = [element.value for element in (*page.markdown, *page.caption)]
        assert not any("script" in text or "**bold" in text or "$x" in text for text in rendered)


def test_cycle_and_node_widgets_and_the_view_follow_each_other(page: AppTest) -> None:
    finish(page)
    page.number_input(key="live_cycle").set_value(2).run()
    state = page.session_state["live_state"]
    assert (state.cycle, state.node) == (1, None)
    page.selectbox(key="live_node").select_index(3).run()
    assert (state.cycle, state.node) == (1, 3)
    state.cycle, state.node = 4, 1  # what the view's callback does
    page.run()
    assert page.number_input(key="live_cycle").value == 5
    assert page.selectbox(key="live_node").value == 1


def test_another_run_forgets_the_selection(page: AppTest) -> None:
    finish(page)
    page.number_input(key="live_cycle").set_value(2).run()
    finish(page)
    assert page.number_input(key="live_cycle").value == 6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_every_position_of_the_controls_is_a_valid_run(temperature: float, method: Method) -> None:
    for rule in RULES:
        for depth in range(MAX_DEPTH + 1):
            for top_k in range(1, MAX_TOP_K + 1):
                for total in (2, MAX_TOTAL):
                    settings = Settings(
                        method=method,
                        rule=rule,
                        temperature=temperature,
                        depth=depth,
                        top_k=top_k,
                        total=total,
                    )
                    config = settings.config()
                    assert isinstance(config, DecodeConfig)
                    assert config.rule in rules_for(temperature, method)
                    assert config.rule == rule or rule not in rules_for(temperature, method)
                    if method == "lookup":
                        assert config.shape == TreeShape(depth + 2, depth, 1)
                        continue
                    assert config.shape.total == min(total, 1 + top_k + depth * top_k**2)
                    assert (config.shape.depth, config.shape.top_k) == (depth, top_k)


def test_an_unknown_fixed_tree_gives_way_to_the_usual_one() -> None:
    assert Settings(fixed="no such tree").config().fixed == DEFAULT_FIXED
    assert Settings(fixed=PUBLISHED_FIXED.name).config().fixed == PUBLISHED_FIXED


def test_the_distributions_of_an_unvisited_node_are_those_of_its_nearest_visited_ancestor() -> None:
    for cycle in make_trace(cycles=8, rule="topk").cycles:
        assert cycle.nodes is not None
        for node, state in enumerate(cycle.nodes.state):
            at = distributions_at(cycle, node)
            assert at is not None
            if state in (NodeState.ROOT, NodeState.ACCEPTED):
                assert at.node == node
            elif state == NodeState.REJECTED:
                assert at.node == cycle.nodes.parent[node]
            else:
                assert at.node in cycle.path


def test_labels_and_table_have_one_row_per_verified_node_and_none_without_a_tree() -> None:
    trace = make_trace(cycles=3)
    for cycle in trace.cycles:
        assert len(node_labels(trace, cycle)) == len(node_table(trace, cycle)) == cycle.verified
        assert stop_node(cycle) == cycle.path[-1]
    bare = make_trace(cycles=1, record="off")
    assert node_labels(bare, bare.cycles[0]) == [] and node_table(bare, bare.cycles[0]).empty


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (Status(Phase.QUEUED, position=2), "Queued, position 2"),
        (Status(Phase.QUEUED, position=2), "one run decodes at a time"),
        (Status(Phase.LOADING, message="Reading", done=1, total=3), "Reading (1 of 3)"),
        (Status(Phase.MEASURING), "Measuring autoregression"),
        (Status(Phase.RUNNING, pausing=True), "Pausing"),
        (Status(Phase.RUNNING, stopping=True), "Stopping"),
        (Status(Phase.STOPPED), "Stopped"),
    ],
)
def test_every_state_of_a_job_has_a_sentence(status: Status, sentence: str) -> None:
    assert sentence in describe(status, None)


def test_a_run_that_moves_is_left_to_its_feed_and_a_still_one_is_sent(
    page: AppTest, backend: SyntheticBackend
) -> None:
    backend.pause = 0.05
    press(page, "live_run")
    job = job_of(page)
    moving = sent(page)
    assert moving["run"] is None and moving["feed"] == f"feed/{job.key}"
    press(page, "live_pause")
    eventually(lambda: job.status.phase is Phase.PAUSED)
    page.run()
    held = sent(page)
    assert held["run"]["status"] == "paused" and held["feed"] == f"feed/{job.key}"
    press(page, "live_stop")
    eventually(lambda: job.status.ended)
    page.run()
    assert sent(page)["run"]["status"] == "stopped" and sent(page)["feed"] is None


def test_a_run_that_ends_while_the_page_is_drawn_can_be_followed_by_another(
    page: AppTest, backend: SyntheticBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.pause = 0.05
    press(page, "live_run")
    job, draw = job_of(page), live_controls.run_buttons

    def end_after_buttons(engine: Engine, status: Status) -> None:
        draw(engine, status)
        engine.stop(job)
        eventually(lambda: job.status.ended)

    monkeypatch.setattr(live_controls, "run_buttons", end_after_buttons)
    page.run()
    assert not page.exception
    assert not page.button(key="live_run").disabled and page.button(key="live_stop").disabled
    assert sent(page)["run"]["status"] == "stopped"


def test_a_queued_run_says_when_a_paused_one_holds_the_engine() -> None:
    queued = Status(Phase.QUEUED, position=1)
    assert describe(queued, None, held=True) == "Queued, position 1: a paused run holds the engine."


def test_one_cycle_is_one_cycle() -> None:
    one, two = make_trace(cycles=1, finish=None), make_trace(cycles=2, finish=None)
    assert describe(Status(Phase.PAUSED), one).endswith(" · Paused after 1 cycle.")
    assert describe(Status(Phase.PAUSED), two).endswith(" · Paused after 2 cycles.")


def test_a_pick_from_a_list_that_has_changed_names_no_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = {"live_state": live_state.View(), "live_cycle": 3, "live_node": "1  ·a  accepted"}
    monkeypatch.setattr(live_state.st, "session_state", SimpleNamespace(**state))
    monkeypatch.setattr(live_state, "view", lambda: state["live_state"])
    live_state.node_picked()
    assert (state["live_state"].cycle, state["live_state"].node) == (None, None)


def test_a_prompt_comes_back_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    at = SimpleNamespace(live_prompt="offered", live_system="be brief")
    at.get = lambda name, otherwise: getattr(at, name, otherwise)
    now = live_state.View()
    monkeypatch.setattr(live_state.st, "session_state", at)
    monkeypatch.setattr(live_state, "view", lambda: now)
    live_state.restore_texts()  # the page is drawn
    at.live_prompt = "my own"
    live_state.keep_texts()  # the box tells that it changed, and another page is drawn
    live_state.leave()
    del at.live_prompt, at.live_system  # as Streamlit does with the boxes of a page not shown
    live_state.restore_texts()
    assert (at.live_prompt, at.live_system) == ("my own", "be brief")


def test_without_a_prompt_run_is_disabled_and_says_why(page: AppTest) -> None:
    assert NO_PROMPT not in [caption.value for caption in page.caption]
    page.text_area(key="live_prompt").set_value("  ").run()
    assert page.button(key="live_run").disabled
    assert NO_PROMPT in [caption.value for caption in page.caption]
