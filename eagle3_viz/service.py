"""The process-wide engine behind the pages: load a pair once, queue runs, stream their traces.

One worker thread decodes; pages only submit jobs, set flags and read. A job's trace is appended
to by the worker alone, so a page may read it at any moment without a lock. Nothing here knows
which user interface is in front of it.
"""

from __future__ import annotations

import gc
import logging
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from eagle3_viz.backend import Backend, LocalBackend, PairChoice, Request, Task
from eagle3_viz.trace import Baseline, Trace

if TYPE_CHECKING:
    from eagle3_viz.tree_choice.choice import TreeChoice

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 400  # characters of an error sentence


class Phase(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    LOADING = "loading"
    MEASURING = "measuring"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


ENDED = frozenset({Phase.FINISHED, Phase.STOPPED, Phase.FAILED})


@dataclass(frozen=True)
class Status:
    """A snapshot of a job.

    position counts the jobs ahead plus one while queued. done and total count the units of the
    loading stage, or of the task's stage, named by message; message is the error sentence once
    failed. stopping and pausing are true from the request until the worker reaches its next cycle
    boundary.
    """

    phase: Phase
    message: str = ""
    done: int = 0
    total: int = 0
    position: int = 0
    stopping: bool = False
    pausing: bool = False

    @property
    def ended(self) -> bool:
        """True when nothing will be appended to the trace any more."""
        return self.phase in ENDED

    @property
    def still(self) -> bool:
        """True when nothing changes by itself: ended, or paused and not about to stop."""
        return self.ended or (self.phase is Phase.PAUSED and not self.stopping)


@dataclass(eq=False)
class Job:
    """One run or task in the queue. Pages read it; only the engine writes it.

    A run has a trace, a task a result, once there is anything of it; `measured` is the
    autoregression timed before the run, as far as it has come. Whoever knows the key may look.
    """

    request: Request | Task
    session: str
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    trace: Trace | None = None
    measured: Trace | None = None
    result: Any = None
    status: Status = field(default=Status(Phase.QUEUED))
    _stop: bool = False
    _hold: bool = False  # pause at the next boundary
    _steps: int = 0  # cycles to let through while held
    _seen: float = 0.0  # clock of the last heartbeat
    _released: float | None = None  # clock at which the session went away


class _Stopped(BaseException):
    """Unwinds the worker out of loading; no Exception, so that no loader reports it as its own."""


class Engine:
    """One worker thread and its FIFO of jobs.

    grace     seconds a job survives after its session was released.
    fallback  seconds without heartbeat after which a job is dropped; browsers slow the timers of
              hidden tabs to one a minute, so keep it well above that.
    Raises nothing across threads: whatever a backend raises ends that job as failed.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        grace: float = 10.0,
        fallback: float = 180.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend, self._clock = backend, clock
        self._grace, self._fallback = grace, fallback
        self._tick = min(1.0, grace, fallback)
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._jobs: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()
        self._current: Job | None = None
        self._closed = False
        self._pair: tuple[str | None, Any] | None = None
        self._worker = threading.Thread(target=self._work, name="decoder", daemon=True)
        self._worker.start()

    # Called by pages.

    def pairs(self) -> tuple[PairChoice, ...]:
        """The pairs on offer, the default first."""
        return self._backend.pairs()

    def trees(self, name: str | None) -> tuple[TreeChoice, ...] | None:
        """The trees that were found to be fastest here for the pair `name`; None unless it is
        the loaded one."""
        loaded = self._pair
        return None if loaded is None or loaded[0] != name else self._backend.trees(loaded[1])

    @property
    def paused(self) -> bool:
        """True while the run that holds the engine is paused."""
        with self._changed:
            return self._current is not None and self._current.status.phase is Phase.PAUSED

    def submit(self, session: str, request: Request | Task, *, step: bool = False) -> Job:
        """Queue a run or a task; with `step` it pauses after its first cycle or step."""
        job = Job(request, session, _hold=step, _steps=int(step), _seen=self._clock())
        with self._changed:
            if self._closed:
                raise RuntimeError("the engine is closed: start a new one before submitting")
            self._queue.append(job)
            self._jobs[job.key] = job
            self._number_queue()
            self._changed.notify_all()
        return job

    def find(self, key: str) -> Job | None:
        """The job of that key, for as long as somebody holds it."""
        with self._changed:
            return self._jobs.get(key)

    def pause(self, job: Job) -> None:
        """Hold the job at its next cycle boundary."""
        with self._changed:
            if not job.status.ended:
                job._hold, job._steps = True, 0
                if job.status.phase is not Phase.PAUSED:
                    self._update(job, pausing=True)

    def resume(self, job: Job) -> None:
        """Let a held job run on."""
        with self._changed:
            job._hold, job._steps = False, 0
            if not job.status.ended:
                self._leave_pause(job)

    def step(self, job: Job) -> None:
        """Let exactly one more cycle through, then hold; calls add up."""
        with self._changed:
            if not job.status.ended:
                job._hold, job._steps = True, job._steps + 1
                self._leave_pause(job)

    def stop(self, job: Job) -> None:
        """End the job: at once while queued, else at the next stage, token or cycle boundary."""
        with self._changed:
            if job.status.ended:
                return
            job._stop = True
            if job in self._queue:
                self._queue.remove(job)
                self._number_queue()
                job.status = Status(Phase.STOPPED)
            else:
                self._update(job, stopping=True)
            self._changed.notify_all()

    def heartbeat(self, job: Job) -> None:
        """The job's page is alive; also takes back a release."""
        with self._changed:
            job._seen, job._released = self._clock(), None

    def release(self, session: str) -> None:
        """The session's page went away: its jobs end after the grace unless it comes back."""
        with self._changed:
            for job in (self._current, *self._queue):
                if job is not None and job.session == session:
                    job._released = self._clock()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop every job and the worker; returns when the worker has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            jobs = [job for job in (self._current, *self._queue) if job is not None]
        for job in jobs:
            self.stop(job)
        self._worker.join()

    # The worker.

    def _work(self) -> None:
        while self._work_off_next():
            pass  # a job that ended is held by its page alone

    def _work_off_next(self) -> bool:
        """One job from its start to its end; False when the engine was closed."""
        job = self._next_job()
        if job is None:
            return False
        try:
            end = self._serve(job)
        except _Stopped:
            end = Status(Phase.STOPPED)
        except Exception as error:
            end = Status(Phase.FAILED, _sentence(error))
            # Never the prompt: what a visitor wrote does not belong in a log.
            log.error("run failed: %s", end.message, exc_info=not _explained(error))
        with self._changed:
            job.status, self._current = end, None
            self._changed.notify_all()
        return True

    def _next_job(self) -> Job | None:
        with self._changed:
            while True:
                for job in [job for job in self._queue if self._abandoned(job)]:
                    self._queue.remove(job)
                    job.status = Status(Phase.STOPPED)
                self._number_queue()
                if self._queue:
                    self._current = self._queue.popleft()
                    self._number_queue()
                    self._current.status = Status(Phase.LOADING)
                    return self._current
                if self._closed:
                    return None
                self._changed.wait()

    def _serve(self, job: Job) -> Status:
        pair = self._load(job)
        if isinstance(job.request, Task):
            return self._work_off(job, job.request, pair)
        baseline = self._measure(job, pair, job.request)
        self._enter(job, Phase.RUNNING)
        steps = self._backend.run(pair, job.request, baseline)
        for job.trace in steps:
            if not self._may_go_on(job):
                steps.close()
                return Status(Phase.STOPPED)
        if job.trace is not None:
            self._pair = (job.request.pair, self._backend.judged(pair, job.trace))
        return Status(Phase.FINISHED)

    def _work_off(self, job: Job, task: Task, pair: Any) -> Status:
        self._enter(job, Phase.RUNNING)
        steps = task.steps(pair)
        for step in steps:
            job.result = step.result
            with self._changed:
                self._update(job, message=step.stage, done=step.done, total=step.total)
            if not self._may_go_on(job):
                steps.close()
                return Status(Phase.STOPPED)
        return Status(Phase.FINISHED)

    def _load(self, job: Job) -> Any:
        name, request = job.request.pair, job.request

        def progress(stage: str, done: int, total: int) -> None:
            self._enter(job, Phase.LOADING, message=stage, done=done, total=total)

        if self._pair is not None and self._pair[0] == name:
            if isinstance(request, Request):
                self._pair = (name, self._backend.renewed(self._pair[1], request, progress))
            return self._pair[1]
        if self._pair is not None:
            self._pair = None
            gc.unfreeze()
            gc.collect()
        pair = self._backend.load(name, progress)
        self._pair = (name, pair)
        # Two models are some hundred thousand long-lived objects: keep every later collection,
        # also the ones a user interface triggers, from walking them.
        gc.collect()
        gc.freeze()
        return pair

    def _measure(self, job: Job, pair: Any, request: Request) -> Baseline | None:
        """The baseline on the request's prompt, anew for every run: one from another time was
        measured beside another load."""

        def progress(trace: Trace, total: int) -> None:
            job.measured = trace
            self._enter(job, Phase.MEASURING, done=len(trace.cycles), total=total)

        self._enter(job, Phase.MEASURING)
        return self._backend.measure(pair, request, progress)

    def _may_go_on(self, job: Job) -> bool:
        """Waits at a cycle boundary while held; False when the job has to end."""
        with self._changed:
            while not self._ends(job):
                decided = job.trace is not None and job.trace.finish is not None
                if decided or not job._hold:
                    return True  # no boundary follows the last token
                if job._steps:
                    job._steps -= 1
                    return True
                self._update(job, phase=Phase.PAUSED, pausing=False)
                self._changed.wait(self._tick)
            return False

    def _enter(self, job: Job, phase: Phase, **fields: Any) -> None:
        """A stage boundary before the run: note the stage, or unwind when the job has to end."""
        with self._changed:
            if self._ends(job):
                raise _Stopped
            job.status = Status(phase, pausing=job._hold and not job._steps, **fields)

    # Under the lock.

    def _ends(self, job: Job) -> bool:
        return job._stop or self._abandoned(job)

    def _abandoned(self, job: Job) -> bool:
        now = self._clock()
        released = job._released is not None and now - job._released >= self._grace
        return released or now - job._seen >= self._fallback

    def _leave_pause(self, job: Job) -> None:
        paused = job.status.phase is Phase.PAUSED
        self._update(job, phase=Phase.RUNNING if paused else job.status.phase, pausing=False)
        self._changed.notify_all()

    def _number_queue(self) -> None:
        for place, job in enumerate(self._queue, start=1):
            job.status = Status(Phase.QUEUED, position=place, pausing=job.status.pausing)

    @staticmethod
    def _update(job: Job, **fields: Any) -> None:
        job.status = replace(job.status, **fields)


def _sentence(error: Exception) -> str:
    """The first line of an error; its type where that line would not be understood alone."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else "no further message"
    return (first if _explained(error) else f"{type(error).__name__}: {first}")[:MESSAGE_LIMIT]


def _explained(error: Exception) -> bool:
    """True for the errors whose sentence is written for whoever asked for the run."""
    return isinstance(error, (ValueError, OSError)) or type(error).__name__.endswith("PairError")


_shared: list[Engine] = []
_sharing = threading.Lock()


def shared_engine(backend: Backend | None = None) -> Engine:
    """The engine of this process, started by the first call; only that call's backend counts."""
    with _sharing:
        if not _shared:
            _shared.append(Engine(backend or LocalBackend()))
        return _shared[0]
