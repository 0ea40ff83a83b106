"""Training on a terminal: the numbers of the rows, no steering, at most a few lines elsewhere."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from eagle3_viz.cli.watch import (
    DOMAINS,
    LOSSES,
    PLAIN_SECONDS,
    REFRESHES,
    Watch,
    Watched,
    one_line_view,
    sparkline,
    summary,
    whole_view,
)
from eagle3_viz.training.log import EvaluationRow, LogRow
from tests.fake_terminal import Terminal

TOTAL = 10_000_000
HOSTILE = "\x1b[2J[red]a\nb:smile:"
View = Callable[[Watched, float], RenderableType]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def row(tokens: int = 4_000_000, **changes: object) -> LogRow:
    base = LogRow(5000, tokens, 3723.0, 2.3456, 1.5e-3, 0.41, 1234.0, (0.551, 0.462, 0.373))
    return replace(base, **changes)  # type: ignore[arg-type]


def evaluation(domain: str = "all", step: int = 4800, shift: float = 0.0) -> EvaluationRow:
    accuracy = (0.479, 0.403, 0.326, 0.291)
    return EvaluationRow(step, 3_900_000, domain, tuple(a + shift for a in accuracy))


def watched(*evaluations: EvaluationRow, **changes: object) -> Watched:
    state = Watched(TOTAL).with_row(row(**changes), 0.0)
    for found in evaluations:
        state = state.with_evaluation(found)
    return state


def shown(view: View, state: Watched, now: float = 0.0, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(
        view(state, now)
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)


def test_the_whole_view_shows_each_number_of_the_row() -> None:
    text = "\n".join(shown(whole_view, watched()))
    for number in (
        "40 %",
        "4.00 of 10.00 M tokens",
        "2.3456",
        "1.50e-03",
        "0.41",
        "1,234",
        "5,000",
    ):
        assert number in text
    assert "1:02:03 for" in text


def test_training_and_held_out_accuracy_stand_beside_the_unroll_step() -> None:
    lines = shown(whole_view, watched(evaluation()))
    cells = [re.sub("[━╸╺]", " ", line).split() for line in lines]
    for expected in (["1", "0.551", "0.479"], ["2", "0.462", "0.403"], ["3", "0.373", "0.326"]):
        assert expected in cells
    assert any(line.startswith("4, not trained") and line.endswith("0.291") for line in lines)


def test_a_bar_is_as_long_as_its_accuracy() -> None:
    def filled(share: float) -> float:
        out = io.StringIO()
        console = Console(file=out, width=80, force_terminal=True, color_system="standard")
        console.print(whole_view(watched(accuracy=(share,)), 0.0))
        text = out.getvalue()
        green = re.findall(r"\x1b\[32m([━╸]+)", text)
        grey = re.findall(r"\x1b\[90m([━╺]+)", text[text.index("unroll step") :])
        length = sum(len(part) for part in green)
        return length / (length + sum(len(part) for part in grey))

    assert filled(0.0) == 0 and filled(1.0) == 1
    assert filled(0.25) == pytest.approx(0.25, abs=0.05)
    assert filled(0.75) == pytest.approx(0.75, abs=0.05)


def test_an_accuracy_of_nothing_and_a_lost_loss_are_shown_as_such() -> None:
    lines = shown(whole_view, watched(accuracy=(math.nan,), loss=math.nan))
    assert any(line.startswith("1") and line.endswith("–") for line in lines)
    assert any(line.startswith("loss") and "nan  ×" in line for line in lines)


def test_domains_are_listed_with_every_unroll_step_in_order_of_their_names() -> None:
    state = watched(evaluation(), evaluation("math", shift=0.1), evaluation("code", shift=-0.1))
    lines = shown(whole_view, state)
    at = lines.index(next(line for line in lines if line.startswith("held out at step 4,800")))
    assert [line.split() for line in lines[at + 1 : at + 3]] == [
        ["code", "0.379", "0.303", "0.226", "0.191"],
        ["math", "0.579", "0.503", "0.426", "0.391"],
    ]


def test_more_domains_than_have_room_are_counted() -> None:
    state = watched(*(evaluation(f"domain {n:02}") for n in range(DOMAINS + 3)))
    lines = shown(whole_view, state)
    assert sum(line.startswith("domain ") for line in lines) == DOMAINS
    assert "and 3 more" in lines


def test_a_new_evaluation_replaces_the_one_before_it() -> None:
    state = watched(evaluation("math"), evaluation("gone"), evaluation("math", step=9600))
    text = "\n".join(shown(whole_view, state))
    assert "step 9,600" in text and "gone" not in text and text.count("math") == 1


@pytest.mark.parametrize("view", [whole_view, one_line_view])
def test_a_view_of_seven_unroll_steps_and_five_domains_fits_a_usual_terminal(view: View) -> None:
    seven = tuple(0.5 for _ in range(7))
    rows = [replace(evaluation(d), accuracy=(*seven, 0.5)) for d in ("all", *"abcde")]
    state = replace(watched(*rows, accuracy=seven), checkpoint=(0.0, 4800), losses=(1.0,) * LOSSES)
    lines = shown(view, state)
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert len(shown(one_line_view, state)) == 1


@pytest.mark.parametrize("view", [whole_view, one_line_view])
def test_a_view_before_the_first_row_is_a_bar_at_nothing(view: View) -> None:
    text = "\n".join(shown(view, Watched(TOTAL)))
    assert "0 %" in text and "left" not in text and "loss" not in text


def test_a_hostile_domain_is_text_and_cut() -> None:
    lines = shown(whole_view, watched(evaluation(HOSTILE), evaluation("d" * 1000)))
    assert any(line.startswith("␛[2J[red]a↵b:smile:  ") for line in lines)
    assert any(line.startswith("d" * 22 + "…  ") for line in lines)


def test_the_sparkline_runs_from_the_lowest_value_to_the_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([7.0, math.nan, 0.0, math.inf]) == "█×▁×"
    assert sparkline([2.5, 2.5]) == "▁▁"
    assert sparkline([]) == ""


def test_the_sparkline_keeps_the_last_losses() -> None:
    state = Watched(TOTAL)
    for step in range(LOSSES + 5):
        state = state.with_row(row(loss=float(step)), 0.0)
    assert state.losses == tuple(float(step) for step in range(5, LOSSES + 5))


def test_the_time_left_follows_the_mean_speed_of_this_run() -> None:
    state = Watched(TOTAL).with_row(row(4_000_000, tokens_per_second=1000.0), 50.0)
    assert state.seconds_left() == 6000  # one row: its own speed
    state = state.with_row(row(5_000_000, tokens_per_second=1000.0), 2050.0)  # 500 a second
    assert state.seconds_left() == 10_000
    assert state.with_row(row(TOTAL), 3000.0).seconds_left() == 0
    assert Watched(TOTAL).with_row(row(tokens_per_second=0.0), 0.0).seconds_left() is None


def test_without_a_terminal_a_line_is_printed_now_and_then() -> None:
    out, clock = io.StringIO(), Clock()
    with Watch(TOTAL, stream=out, full=True, clock=clock) as watch:
        for second in range(91):
            clock.now = 100.0 + second
            watch.row(row(4_000_000 + second, step=second))
    steps = re.findall(r"step (\d+)", out.getvalue())
    assert steps == ["0", "30", "60", "90", "90"] and PLAIN_SECONDS == 30
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("training · 40 %") and lines[-1].startswith("stopped · 40 %")
    assert "\x1b" not in out.getvalue()


def test_without_a_terminal_evaluations_and_checkpoints_have_their_lines() -> None:
    out = io.StringIO()
    with Watch(TOTAL, stream=out) as watch:
        watch.evaluation(evaluation("code"))
        watch.evaluation(evaluation())
        watch.checkpoint(4800)
    assert out.getvalue().splitlines() == [
        "held out at step 4,800 · accuracy 0.479 0.403 0.326 0.291",
        "checkpoint of step 4,800 written",
    ]


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    with Watch(TOTAL, stream=out) as watch:
        watch.row(row())
    assert "\x1b" not in out.getvalue() and out.getvalue().count("\n") == 2


@pytest.mark.parametrize("full", [True, False])
def test_the_last_view_stays_and_the_cursor_comes_back_even_when_interrupted(full: bool) -> None:
    out = Terminal()
    with pytest.raises(KeyboardInterrupt), Watch(TOTAL, stream=out, full=full) as watch:
        watch.row(row())
        raise KeyboardInterrupt
    assert "stopped" in out.getvalue() and ("2.3456" if full else "loss 2.346") in out.getvalue()
    assert out.getvalue().rstrip("\n").endswith("\x1b[?25h")


def test_a_terminal_is_refreshed_at_most_four_times_a_second_however_many_rows_come() -> None:
    out = Terminal()
    assert 0 < REFRESHES <= 4
    with Watch(TOTAL, stream=out) as watch:
        for tokens in range(2000):
            watch.row(row(tokens))
    assert out.getvalue().count("loss") < 200


def test_training_that_passed_all_tokens_has_finished() -> None:
    out = io.StringIO()
    with Watch(TOTAL, stream=out) as watch:
        watch.row(row(TOTAL))
    assert out.getvalue().splitlines()[-1].startswith("finished · 100 % · 10.00 of 10.00 M")


def test_what_goes_on_is_named_until_the_next_row() -> None:
    out = Terminal()
    with Watch(TOTAL, stream=out) as watch:
        watch.row(row())
        watch.doing("evaluating")
        assert "evaluating" in shown(one_line_view, watch._state)[0]
        watch.row(row())
        assert "evaluating" not in shown(one_line_view, watch._state)[0]


def test_a_resumed_job_shows_what_earlier_runs_wrote() -> None:
    earlier = [row(tokens, loss=float(tokens)) for tokens in (1_000_000, 2_000_000)]
    out, clock = Terminal(), Clock()
    watch = Watch(
        TOTAL, stream=out, full=True, log=earlier, evaluations=[evaluation()], clock=clock
    )
    with watch:
        pass
    assert "20 %" in out.getvalue() and "▁█" in out.getvalue() and "0.479" in out.getvalue()


def test_small_totals_are_counted_in_tokens() -> None:
    assert " 900 of 1,500 tokens " in summary(Watched(1500).with_row(row(900), 0.0))
