"""The checks of the Lossless page on a tiny pair, through the engine's queue, without a browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import service
from eagle3_viz.backend import PairChoice, Progress
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.service import Engine, Job, Phase, Status
from eagle3_viz.ui import lossless_pair
from eagle3_viz.ui.lossless_pair import Section, describe
from tests.fake_backend import SyntheticBackend
from tests.lossless.tiny_pair import chat_pair

PAGE = Path(__file__).resolve().parent.parent / "pages" / "lossless.py"
WAIT = 60.0


class TinyBackend(SyntheticBackend):
    """Loads a tiny pair in place of the real one."""

    def load(self, name: str | None, progress: Progress) -> LoadedPair:  # type: ignore[override]
        return chat_pair()

    def pairs(self) -> tuple[PairChoice, ...]:
        return (PairChoice("tiny", "A tiny pair"),)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    engine = Engine(TinyBackend())
    monkeypatch.setattr(service, "_shared", [engine])
    yield engine
    engine.close()


@pytest.fixture
def page(engine: Engine) -> AppTest:
    return ran(AppTest.from_file(str(PAGE), default_timeout=60).run())


def ran(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def waited_for(job: Job) -> Job:
    """The job once it has ended."""
    deadline = time.monotonic() + WAIT
    while not job.status.ended:
        assert time.monotonic() < deadline, job.status
        time.sleep(0.02)
    return job


def finished(page: AppTest, section: str) -> list[str]:
    """Press Run, wait for the end; every text of the page."""
    ran(page.button(key=f"lossless_{section}_run").click().run())
    job = waited_for(page.session_state["lossless_pair"].jobs[section])
    assert job.status.phase is Phase.FINISHED, job.status
    return [element.value for element in ran(page.run()).text]


def test_a_check_that_ends_while_the_page_is_drawn_can_be_followed_by_another(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = lossless_pair._buttons

    def end_after_buttons(engine: Engine, name: str, section: Section, active: bool) -> None:
        draw(engine, name, section, active)
        if active:
            engine.stop(job := page.session_state["lossless_pair"].jobs[name])
            waited_for(job)

    ran(page.button(key="lossless_contrast_run").click().run())
    monkeypatch.setattr(lossless_pair, "_buttons", end_after_buttons)
    ran(page.run())
    assert not page.button(key="lossless_contrast_run").disabled
    assert page.button(key="lossless_contrast_stop").disabled


def test_a_sampling_test_ends_in_words_charts_and_a_table(page: AppTest) -> None:
    page.number_input(key="lossless_sampling_draws").set_value(150)
    page.number_input(key="lossless_sampling_seeds").set_value(1)
    texts = finished(page, "sampling")
    assert any(text.startswith("Lossless, as far as 2 tests can tell") for text in texts), texts
    assert any(text.startswith("Power: with 150 draws") for text in texts)
    assert any(text.startswith("eagle3 ratio, temperature 1: the wrong rule") for text in texts)
    table = page.dataframe[-1].value
    assert table.rule.tolist() == ["topk", "sample", "ratio", "rerank", "reorder", "typical"]
    assert set(table.draws) == {150}
    assert len(page.get("plotly_chart")) == 4  # two of the toy node


def test_a_greedy_comparison_says_how_many_texts_are_equal(page: AppTest) -> None:
    page.session_state["lossless_greedy_formats"] = ["float32"]
    page.number_input(key="lossless_greedy_prompts").set_value(2)
    page.number_input(key="lossless_greedy_tokens").set_value(16)
    page.checkbox(key="lossless_greedy_padded").check()
    texts = finished(page, "greedy")
    assert "float32: 4 of 4 texts equal." in texts
    assert any(text.startswith("float32, autoregression in the shape") for text in texts)
    assert page.dataframe[-1].value.padded_verdict.tolist() == ["equal"] * 4


def test_four_short_runs_tell_strings_from_distributions(page: AppTest) -> None:
    texts = finished(page, "contrast")
    assert any(text.startswith("The same seed and two methods: the strings") for text in texts)
    adversarial = next(text for text in texts if text.startswith("A draft that always proposes"))
    assert "the same text" in adversarial and "Only the speed changes" in adversarial
    assert len(page.code) == 4
    assert page.code[2].value == page.code[3].value


def test_nothing_runs_without_a_method_or_a_prompt(page: AppTest) -> None:
    ran(page.multiselect(key="lossless_greedy_methods").set_value([]).run())
    assert page.button(key="lossless_greedy_run").disabled
    ran(page.text_input(key="lossless_sampling_prompt").set_value(" ").run())
    assert page.button(key="lossless_sampling_run").disabled


def test_a_check_that_is_stopped_keeps_what_was_finished(page: AppTest, engine: Engine) -> None:
    page.number_input(key="lossless_sampling_draws").set_value(10_000)
    ran(page.button(key="lossless_sampling_run").click().run())
    job = page.session_state["lossless_pair"].jobs["sampling"]
    assert not page.button(key="lossless_sampling_stop").disabled
    ran(page.button(key="lossless_sampling_stop").click().run())
    deadline = time.monotonic() + WAIT
    while not job.status.ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    texts = [element.value for element in ran(page.run()).text]
    below = {True: "What was finished is below.", False: "nothing is finished."}[bool(job.result)]
    assert any(text.startswith("Stopped") and text.endswith(below) for text in texts)
    assert page.button(key="lossless_sampling_stop").disabled


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (Status(Phase.QUEUED, position=2), "Queued, position 2: one job at a time uses the pair."),
        (Status(Phase.LOADING, "Reading", 1, 3), "Reading (1 of 3)"),
        (Status(Phase.RUNNING, "Drawing", 5, 9), "Drawing (5 of 9)"),
        (Status(Phase.RUNNING, "Drawing", 5, 9, stopping=True), "Stopping…"),
        (Status(Phase.FAILED, "no draft"), "Failed: no draft"),
    ],
)
def test_the_status_is_one_sentence(status: Status, sentence: str) -> None:
    assert describe(status) == sentence


def test_a_stopped_check_says_whether_anything_is_below() -> None:
    stopped = Status(Phase.STOPPED)
    assert describe(stopped) == "Stopped: nothing is finished."
    assert describe(stopped, found=True) == "Stopped. What was finished is below."
