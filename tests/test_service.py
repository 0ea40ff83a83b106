from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from eagle3_viz.backend import Request
from eagle3_viz.service import Engine, Job, Phase, Status
from tests.held_backend import BASELINE, CHOSEN, FakeBackend, ManualClock, eventually, request


def cycles_of(job: Job) -> int:
    return len(job.trace.cycles) if job.trace else 0


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(backend: FakeBackend, clock: ManualClock) -> Iterator[Engine]:
    engine = Engine(backend, grace=10.0, fallback=180.0, clock=clock)
    engine._tick = 0.01
    yield engine
    for _ in range(20):
        backend.cycle.release()
    backend.loading.set()
    backend.token.set()
    engine.close()


def held(backend: FakeBackend) -> None:
    """From now on cycles happen only when the test releases them."""
    backend.cycle = threading.Semaphore(0)


def test_jobs_run_in_the_order_they_were_submitted(engine: Engine, backend: FakeBackend) -> None:
    jobs = [engine.submit("s", request(name)) for name in "abc"]
    eventually(lambda: jobs[-1].status.ended)
    assert backend.order == ["a", "b", "c"]
    assert [job.status.phase for job in jobs] == [Phase.FINISHED] * 3


def test_no_cycle_is_lost(engine: Engine, backend: FakeBackend) -> None:
    job = engine.submit("s", request("a"))
    eventually(lambda: job.status.ended)
    assert job.trace is not None
    assert [c.index for c in job.trace.cycles] == list(range(backend.cycles))


def test_the_pair_is_loaded_once_and_swapped_when_another_is_asked_for(
    engine: Engine, backend: FakeBackend
) -> None:
    jobs = [engine.submit("s", request(str(i), pair=pair)) for i, pair in enumerate("xxyx")]
    eventually(lambda: jobs[-1].status.ended)
    assert backend.loads == ["x", "y", "x"]


def test_the_trees_of_a_pair_are_told_while_it_is_the_loaded_one(engine: Engine) -> None:
    assert engine.trees("x") is None
    job = engine.submit("s", request("a", pair="x"))
    eventually(lambda: job.status.ended)
    assert engine.trees("x") == CHOSEN
    assert engine.trees("y") is None
    job = engine.submit("s", request("a", pair="y"))
    eventually(lambda: job.status.ended)
    assert engine.trees("x") is None and engine.trees("y") == ()


def test_every_job_but_the_one_that_loads_the_pair_renews_it_and_every_finished_run_judges_it(
    engine: Engine, backend: FakeBackend
) -> None:
    jobs = [engine.submit("s", request(name, pair="x")) for name in ("a", "b", "explode", "c")]
    eventually(lambda: jobs[-1].status.ended)
    judged = "pair x judged"
    assert backend.renewals == [(judged, "b"), (judged, "explode"), (judged, "c")]
    assert backend.judgements == [("pair x", 6), (judged, 6), (judged, 6)], "not the failed one"


def test_a_run_that_is_stopped_before_its_end_judges_nothing(
    engine: Engine, backend: FakeBackend
) -> None:
    job = engine.submit("s", request("a"), step=True)
    eventually(lambda: job.status.phase is Phase.PAUSED)
    engine.stop(job)
    eventually(lambda: job.status.ended)
    assert backend.judgements == []


def test_the_baseline_is_measured_anew_for_every_run(engine: Engine, backend: FakeBackend) -> None:
    jobs = [
        engine.submit("s", request("a")),
        engine.submit("s", request("a")),
        engine.submit("s", request("b")),
        engine.submit("s", request("a", pair="other")),
        engine.submit("s", request("b", method="ar")),
    ]
    eventually(lambda: jobs[-1].status.ended)
    assert backend.measured == ["a", "a", "b", "a", "b"]
    assert backend.baselines == [BASELINE] * 5


def test_pause_holds_the_run_and_resume_lets_it_finish(
    engine: Engine, backend: FakeBackend
) -> None:
    held(backend)
    job = engine.submit("s", request("a"))
    backend.cycle.release()
    eventually(lambda: cycles_of(job) == 1)
    engine.pause(job)
    assert job.status.pausing and job.status.phase is Phase.RUNNING
    for _ in range(10):
        backend.cycle.release()
    eventually(lambda: job.status.phase is Phase.PAUSED)
    before = cycles_of(job)
    time.sleep(0.1)
    assert cycles_of(job) == before == 2
    engine.resume(job)
    eventually(lambda: job.status.phase is Phase.FINISHED)
    assert cycles_of(job) == backend.cycles


def test_step_lets_exactly_one_cycle_through(engine: Engine) -> None:
    job = engine.submit("s", request("a"), step=True)
    for done in (1, 2, 3):
        eventually(lambda: job.status.phase is Phase.PAUSED)
        assert cycles_of(job) == done
        time.sleep(0.03)
        assert cycles_of(job) == done
        engine.step(job)
        assert job.status.phase is Phase.RUNNING or cycles_of(job) == done + 1


def test_two_quick_steps_let_two_cycles_through(engine: Engine, backend: FakeBackend) -> None:
    job = engine.submit("s", request("a"), step=True)
    eventually(lambda: job.status.phase is Phase.PAUSED)
    held(backend)
    engine.step(job)
    engine.step(job)
    backend.cycle.release(5)
    eventually(lambda: job.status.phase is Phase.PAUSED)
    assert cycles_of(job) == 3


def test_a_run_stepped_past_its_last_cycle_is_finished_and_not_paused(
    engine: Engine, backend: FakeBackend
) -> None:
    backend.cycles = 1
    job = engine.submit("s", request("a"), step=True)
    eventually(lambda: job.status.ended)
    assert job.status.phase is Phase.FINISHED


def test_a_queued_job_knows_its_position_and_stops_at_once(
    engine: Engine, backend: FakeBackend
) -> None:
    held(backend)
    first, second, third = (engine.submit("s", request(name)) for name in "abc")
    eventually(lambda: first.status.phase is Phase.RUNNING)
    assert (second.status.position, third.status.position) == (1, 2)
    engine.stop(second)
    assert second.status.phase is Phase.STOPPED
    assert third.status.position == 1
    backend.cycle.release(50)
    eventually(lambda: third.status.ended)
    assert backend.order == ["a", "c"]


def test_stop_ends_a_running_job_at_the_next_cycle_and_closes_the_run(
    engine: Engine, backend: FakeBackend
) -> None:
    held(backend)
    job = engine.submit("s", request("a"))
    backend.cycle.release()
    eventually(lambda: cycles_of(job) == 1)
    engine.stop(job)
    assert job.status.stopping
    backend.cycle.release()
    eventually(lambda: job.status.phase is Phase.STOPPED)
    assert cycles_of(job) == 2
    assert backend.closed == ["a"]


def test_stop_ends_a_paused_job(engine: Engine, backend: FakeBackend) -> None:
    job = engine.submit("s", request("a"), step=True)
    eventually(lambda: job.status.phase is Phase.PAUSED)
    engine.stop(job)
    eventually(lambda: job.status.phase is Phase.STOPPED)
    assert cycles_of(job) == 1 and backend.closed == ["a"]


def test_stop_while_loading_ends_between_stages_and_the_pair_can_be_loaded_later(
    engine: Engine, backend: FakeBackend
) -> None:
    backend.loading.clear()
    job = engine.submit("s", request("a"))
    eventually(lambda: job.status.message == "reading weights")
    assert (job.status.done, job.status.total) == (0, 2)
    engine.stop(job)
    backend.loading.set()
    eventually(lambda: job.status.phase is Phase.STOPPED)
    assert backend.loads == [] and job.trace is None
    again = engine.submit("s", request("b"))
    eventually(lambda: again.status.phase is Phase.FINISHED)
    assert backend.loads == [None]


def test_stop_while_measuring_ends_between_tokens_and_keeps_no_baseline(
    engine: Engine, backend: FakeBackend
) -> None:
    backend.token.clear()
    job = engine.submit("s", request("a"))
    eventually(backend.measuring.is_set)
    engine.stop(job)
    backend.token.set()
    eventually(lambda: job.status.phase is Phase.STOPPED)
    assert backend.measured == [] and backend.order == []
    again = engine.submit("s", request("a"))
    eventually(lambda: again.status.phase is Phase.FINISHED)
    assert backend.measured == ["a"]


@pytest.mark.parametrize(
    ("failing", "sentence"),
    [
        (request("a", pair="broken"), "pair 'broken' has no draft"),
        (request("explode"), "RuntimeError: kernel launch failed"),
    ],
)
def test_a_failure_is_one_sentence_and_the_worker_lives_on(
    engine: Engine, failing: Request, sentence: str
) -> None:
    job = engine.submit("s", failing)
    eventually(lambda: job.status.ended)
    assert (job.status.phase, job.status.message) == (Phase.FAILED, sentence)
    after = engine.submit("s", request("b"))
    eventually(lambda: after.status.phase is Phase.FINISHED)


@pytest.mark.parametrize(
    ("failing", "traced"), [(request("s3cret", pair="broken"), False), (request("explode"), True)]
)
def test_the_log_has_a_traceback_of_unexpected_errors_only_and_never_the_request(
    engine: Engine, caplog: pytest.LogCaptureFixture, failing: Request, traced: bool
) -> None:
    job = engine.submit("s", failing)
    eventually(lambda: job.status.ended)
    (record,) = caplog.records
    assert record.getMessage() == f"run failed: {job.status.message}"
    assert bool(record.exc_info) is traced


def test_controls_on_an_ended_job_change_nothing(engine: Engine) -> None:
    job = engine.submit("s", request("a"))
    eventually(lambda: job.status.ended)
    before = job.status
    for control in (engine.pause, engine.resume, engine.step, engine.stop):
        control(job)
        assert job.status == before


def test_a_released_session_loses_its_jobs_after_the_grace_and_others_keep_theirs(
    engine: Engine, backend: FakeBackend, clock: ManualClock
) -> None:
    gone = engine.submit("gone", request("a"), step=True)
    queued = engine.submit("gone", request("b"))
    other = engine.submit("other", request("c"))
    eventually(lambda: gone.status.phase is Phase.PAUSED)
    engine.release("gone")
    clock.now = 9.0
    time.sleep(0.05)
    assert gone.status.phase is Phase.PAUSED
    clock.now = 10.5
    eventually(lambda: other.status.ended)
    phases = [job.status.phase for job in (gone, queued, other)]
    assert phases == [Phase.STOPPED, Phase.STOPPED, Phase.FINISHED]
    assert backend.order == ["a", "c"]


def test_a_session_that_comes_back_within_the_grace_keeps_its_job(
    engine: Engine, clock: ManualClock
) -> None:
    job = engine.submit("s", request("a"), step=True)
    eventually(lambda: job.status.phase is Phase.PAUSED)
    engine.release("s")
    clock.now = 5.0
    engine.heartbeat(job)
    clock.now = 50.0
    time.sleep(0.05)
    assert job.status.phase is Phase.PAUSED


def test_a_job_without_heartbeat_is_dropped_after_the_fallback(
    engine: Engine, clock: ManualClock
) -> None:
    job = engine.submit("s", request("a"), step=True)
    eventually(lambda: job.status.phase is Phase.PAUSED)
    clock.now = 179.0
    engine.heartbeat(job)
    clock.now = 300.0
    time.sleep(0.05)
    assert job.status.phase is Phase.PAUSED
    clock.now = 360.0
    eventually(lambda: job.status.phase is Phase.STOPPED)


def test_a_paused_run_that_was_told_to_stop_is_not_still() -> None:
    """A page that takes it for still would wait for half a minute to say that it stopped."""
    assert Status(Phase.PAUSED).still and Status(Phase.STOPPED, stopping=True).still
    assert not Status(Phase.PAUSED, stopping=True).still
    assert not Status(Phase.RUNNING).still
