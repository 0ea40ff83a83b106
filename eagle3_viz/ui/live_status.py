"""Where a job of the Live page is: one plain sentence, and what the view draws of it."""

from __future__ import annotations

from eagle3_viz.component import live_payload, waiting_payload
from eagle3_viz.component.payload import Json, run_name
from eagle3_viz.component.payload import Status as Shown
from eagle3_viz.service import Job, Phase, Status
from eagle3_viz.trace import Trace
from eagle3_viz.ui.live_asked import run_words
from eagle3_viz.wording import counted

REPEATED = 3  # cycles sent once more: a character cut at their end may have got its rest
ENDS = {
    "eos": "the answer is complete",
    "length": "the token limit is reached",
    "context": "the context is full",
    "stop": "a stop string was produced",
}
SHOWN: dict[Phase, Shown] = {
    Phase.QUEUED: "queued",
    Phase.LOADING: "queued",
    Phase.MEASURING: "running",
    Phase.RUNNING: "running",
    Phase.PAUSED: "paused",
    Phase.FINISHED: "finished",
    Phase.STOPPED: "stopped",
    Phase.FAILED: "failed",
}


def progress(job: Job, *, held: bool, run: str = "", since: int = 0) -> Json:
    """What the live view draws of a job now; of the run `run` its cycles from `since` on.

    While autoregression is measured it is drawn like a run: it is timed under the same conditions.
    """
    status = job.status  # first: a trace is whole once its status says so
    measuring = status.phase is Phase.MEASURING
    trace = job.measured if measuring else job.trace
    shown, sentence = SHOWN[status.phase], describe(status, trace, held=held)
    if trace is None:
        return waiting_payload(shown, sentence, done=status.done, total=status.total)
    first = max(0, since - REPEATED) if run == run_name(trace) else 0
    payload = live_payload(trace, status=shown, first_cycle=first, sentence=sentence)
    return {**payload, "done": status.done, "total": status.total} if measuring else payload


def describe(status: Status, trace: Trace | None, *, held: bool = False) -> str:
    """One plain sentence about where a job is, after the name of its run once that has a trace;
    `held`: the run being decoded is paused."""
    stopping = status.stopping and not status.ended
    where = "Stopping at the next cycle boundary…" if stopping else _plainly(status, trace, held)
    if trace is None or status.phase is Phase.MEASURING:
        return where
    return f"{run_words(trace.header)} · {where}"


def _plainly(status: Status, trace: Trace | None, held: bool) -> str:
    cycles = counted(len(trace.cycles) if trace is not None else 0, "cycle")
    match status.phase:
        case Phase.QUEUED:
            why = "a paused run holds the engine" if held else "one run decodes at a time"
            return f"Queued, position {status.position}: {why}."
        case Phase.LOADING:
            return f"Loading the pair: {status.message or 'starting'}{_amount(status)}"
        case Phase.MEASURING:
            return f"Measuring autoregression on this prompt, for the speed-up{_amount(status)}"
        case Phase.RUNNING:
            return "Pausing at the next cycle boundary…" if status.pausing else "Running"
        case Phase.PAUSED:
            return f"Paused after {cycles}."
        case Phase.STOPPED:
            return f"Stopped after {cycles}."
        case Phase.FAILED:
            return f"Failed: {status.message}"
        case Phase.FINISHED:
            return f"Finished after {cycles}: {_end(trace)}."


def _amount(status: Status) -> str:
    return f" ({status.done} of {status.total})" if status.total else ""


def _end(trace: Trace | None) -> str:
    last = None
    if trace is not None:
        last = trace.cycles[-1] if trace.cycles else trace.prefill
    return ENDS[last.finish] if last is not None and last.finish else "nothing is left to do"
