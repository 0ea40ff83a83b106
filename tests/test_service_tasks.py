"""Tasks in the engine's queue: long work on the loaded pair that is no run."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import pytest

from eagle3_viz.backend import Task, TaskStep
from eagle3_viz.service import Engine, Phase
from tests.held_backend import WAIT, FakeBackend, eventually, request


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def engine(backend: FakeBackend) -> Iterator[Engine]:
    engine = Engine(backend)
    yield engine
    engine.close()


def task(taken: list[str], gate: threading.Semaphore | None = None, fails: bool = False) -> Task:
    def steps(pair: str) -> Generator[TaskStep, None, None]:
        taken.append(pair)
        try:
            for done in range(1, 4):
                if gate is not None:
                    assert gate.acquire(timeout=WAIT)
                if fails:
                    raise ValueError("the task failed\nwith details")
                yield TaskStep(done, 3, ("x",) * done, "Drawing")
        except GeneratorExit:
            taken.append("closed")
            raise

    return Task(steps, "x")


def test_a_task_waits_its_turn_and_works_on_the_pair_of_the_runs(
    engine: Engine, backend: FakeBackend
) -> None:
    taken: list[str] = []
    run = engine.submit("s", request("a", pair="x"))
    job = engine.submit("t", task(taken))
    eventually(lambda: job.status.ended)
    assert run.status.phase is job.status.phase is Phase.FINISHED
    assert taken == ["pair x judged"] and backend.loads == ["x"]
    assert job.result == ("x",) * 3 and job.trace is None
    assert backend.measured == ["a"], "a task has no baseline"


def test_a_task_tells_where_it_is_and_stops_between_two_steps(engine: Engine) -> None:
    taken: list[str] = []
    gate = threading.Semaphore(2)
    job = engine.submit("s", task(taken, gate))
    eventually(lambda: job.status.done == 2)
    assert (job.status.phase, job.status.total) == (Phase.RUNNING, 3)
    assert job.status.message == "Drawing"
    engine.stop(job)
    gate.release()
    eventually(lambda: job.status.ended)
    assert job.status.phase is Phase.STOPPED
    assert taken[-1] == "closed"
    assert len(job.result) >= 2, "what was finished stays"


def test_a_task_that_fails_says_why_and_lets_the_next_one_run(engine: Engine) -> None:
    broken = engine.submit("s", task([], fails=True))
    after = engine.submit("s", task([]))
    eventually(lambda: after.status.ended)
    assert (broken.status.phase, broken.status.message) == (Phase.FAILED, "the task failed")
    assert after.status.phase is Phase.FINISHED
