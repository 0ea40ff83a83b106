"""The training loop: any objective, one or several processes, resumable to the step."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate import Accelerator

from eagle3_viz.text_lines import DataError
from eagle3_viz.training.batches import anchors_of, epoch_batches, pack
from eagle3_viz.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from eagle3_viz.training.evaluation import accuracy_by_domain
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.log import EvaluationRow, LogRow, TrainingLog
from eagle3_viz.training.objective import Objective
from eagle3_viz.training.optimizer import Masters, Schedule

WINDOW = 20  # steps over which logged loss, accuracy and speed are averaged


@dataclass(frozen=True)
class TrainConfig:
    """How to train. Tokens are response tokens, each pass counted.

    tokens              to pass in all; may be raised later while the rate is still constant.
    batch_tokens        anchors of a micro-batch.
    micro_batches       of an optimizer step, shared out over the processes.
    decay_share         last share of the tokens, over which the rate falls to zero.
    checkpoint_seconds  between checkpoints.
    evaluate_tokens     between held-out evaluations; 0 for one at the end.
    """

    tokens: int
    batch_tokens: int = 512
    micro_batches: int = 2
    learning_rate: float = 1.5e-3
    warmup_steps: int = 40
    decay_share: float = 0.6
    clip_norm: float = 0.5
    seed: int = 0
    checkpoint_seconds: float = 600.0
    evaluate_tokens: int = 0
    log_steps: int = 10


class Listener(Protocol):
    """Who is told how the training goes."""

    def row(self, row: LogRow) -> None:
        """A logged step."""

    def evaluation(self, row: EvaluationRow) -> None:
        """A held-out accuracy."""

    def checkpoint(self, progress: Progress) -> None:
        """A checkpoint is on the disk."""


@dataclass(frozen=True)
class _Place:
    """A micro-batch: where it stands in the data and the conversations in it."""

    epoch: int
    index: int
    chosen: list[int]


@dataclass(frozen=True)
class _Window:
    """One step over all processes.

    sums  float64: loss, anchors, correct by unroll step, valid by unroll step, and whether some
          process wants a checkpoint and wants to stop.
    """

    sums: torch.Tensor
    seconds: float

    @property
    def row(self) -> torch.Tensor:
        return torch.cat([self.sums, torch.tensor([self.seconds], dtype=torch.float64)])


class Trainer:
    """Trains `objective` on `store` into `folder`.

    The same arguments give the same run whatever the number of processes, but for rounding; a
    folder with a checkpoint is gone on with. Raises DataError when that belongs to another job,
    and when no conversation of either store is long enough to predict a token.
    """

    def __init__(
        self,
        objective: Objective,
        store: FeatureStore,
        heldout: FeatureStore | None,
        config: TrainConfig,
        folder: Path,
        *,
        accelerator: Accelerator,
        compute: torch.dtype,
        listener: Listener | None = None,
    ) -> None:
        self._objective, self._store, self._heldout = objective, store, heldout
        self._compute = compute
        self._config, self._folder, self._accelerator = config, folder, accelerator
        self._listener = listener
        if config.micro_batches % accelerator.num_processes:
            raise DataError(
                f"{config.micro_batches} micro-batches a step cannot be shared out over "
                f"{accelerator.num_processes} processes"
            )
        self.masters = Masters(objective, compute, config.clip_norm, accelerator)
        self._schedule = Schedule(
            config.learning_rate, config.warmup_steps, config.tokens, config.decay_share
        )
        self._lengths = store.lengths()
        for name, text in (("training", store), ("held-out", heldout)):
            if text is not None and not any(anchors_of(*pair) for pair in text.lengths()):
                raise DataError(
                    f"none of the {len(text)} conversations of the {name} text has a response of "
                    "two tokens or more: there is nothing to predict"
                )
        self._job = self._identity()
        folder.mkdir(parents=True, exist_ok=True)
        self.progress = Progress()
        self._window = deque[_Window](maxlen=WINDOW)
        if (found := load_checkpoint(folder, self._job)) is not None:
            self.progress, state = found
            self.masters.load(state)
            rows = state.get("window", torch.empty(0))
            self._window.extend(_Window(row[:-1], float(row[-1])) for row in rows)
        self._refuse_risen_rate()
        self._main, self._norm, self._rate = accelerator.is_main_process, 0.0, 0.0
        if self._main:
            self._log = TrainingLog(folder)
            self._log.truncate_after(self.progress.step)

    def run(self) -> Progress:
        """Train until the tokens are passed or somebody interrupts; both leave a checkpoint.

        A job that is finished stays as it is; its last checkpoint comes after its evaluation.
        """
        config, window = self._config, self._window
        stream = self._stream()
        saved = time.monotonic()
        with _interruption() as interrupted:
            while not self.finished:
                due = self._main and time.monotonic() - saved > config.checkpoint_seconds
                window.append(self._step(stream, interrupted(), due))
                stop, due = bool(window[-1].sums[-1]), bool(window[-1].sums[-2])
                if self.finished or self.progress.step % config.log_steps == 0:
                    self._log_row()
                if self.finished or self._crossed(config.evaluate_tokens, window[-1]):
                    self.evaluate()
                if self.finished or stop or due:
                    self._save()
                    saved = time.monotonic()
                if stop:
                    break
        return self.progress

    @property
    def finished(self) -> bool:
        return self.progress.tokens >= self._config.tokens

    def evaluate(self) -> dict[str, tuple[float, ...]]:
        """Held-out accuracy by domain and unroll step, also of a step that was not trained."""
        if self._heldout is None:
            return {}
        found = accuracy_by_domain(
            self._objective, self.masters.copies, self._heldout, self._accelerator
        )
        for domain, accuracy in found.items():
            row = EvaluationRow(self.progress.step, self.progress.tokens, domain, accuracy)
            if self._main:
                self._log.add_evaluation(row)
                if self._listener:
                    self._listener.evaluation(row)
        return found

    def _step(self, stream: Iterator[_Place], interrupted: bool, due: bool) -> _Window:
        """One optimizer step over this process's share of the micro-batches."""
        started, accelerator = time.monotonic(), self._accelerator
        sums = torch.zeros(2 * self._objective.steps + 4, dtype=torch.float64)
        for index in range(self._config.micro_batches):
            place = next(stream)
            if index % accelerator.num_processes == accelerator.process_index:
                sums += self._micro_batch(place)
        sums[-2], sums[-1] = due, interrupted
        gradients, sums = self._reduce(self.masters.gradients(), sums)
        self._rate = self._schedule.rate(self.progress.step, self.progress.tokens)
        self._norm = self.masters.step(gradients, self._rate)
        seconds = time.monotonic() - started
        self.progress = Progress(
            step=self.progress.step + 1,
            tokens=self.progress.tokens + int(sums[1]),
            seconds=self.progress.seconds + seconds,
            epoch=place.epoch,
            micro_batch=place.index + 1,
            planned=self._config.tokens,
        )
        return _Window(sums, seconds)

    def _micro_batch(self, place: _Place) -> torch.Tensor:
        """Forward and backward of one micro-batch; its sums (see `_Window`)."""
        examples = [self._store[i] for i in place.chosen]
        batch = pack(examples, self._objective.steps, self._objective.source).to(
            self._accelerator.device
        )
        draws = (self._config.seed * 1_000_003 + place.epoch) * 1_000_003 + place.index
        noise = torch.Generator().manual_seed(draws % 2**63)  # what a generator takes
        outcome = self._objective.outcome(self.masters.copies, batch, noise)
        (outcome.loss / (self._config.batch_tokens * self._config.micro_batches)).backward()
        return torch.cat(
            [
                torch.tensor([outcome.mean * outcome.valid.shape[1], outcome.valid.shape[1]]),
                outcome.correct.sum(1).cpu(),
                outcome.valid.sum(1).cpu(),
                torch.zeros(2),
            ]
        ).double()

    def _reduce(
        self, gradients: torch.Tensor, sums: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both summed over the processes."""
        if self._accelerator.num_processes == 1:
            return gradients, sums
        gradients = self._accelerator.reduce(gradients, "sum")
        sums = self._accelerator.reduce(sums.to(self._accelerator.device), "sum").cpu()
        return gradients, sums

    def _stream(self) -> Iterator[_Place]:
        """Micro-batches from where the progress is, epoch after epoch."""
        epoch, first = self.progress.epoch, self.progress.micro_batch
        while True:
            batches = epoch_batches(
                self._lengths, self._config.batch_tokens, self._config.seed, epoch
            )
            for index in range(first, len(batches)):
                yield _Place(epoch, index, batches[index])
            epoch, first = epoch + 1, 0

    def _log_row(self) -> None:
        sums = torch.stack([step.sums for step in self._window]).sum(0)
        correct, valid = sums[2:-2].chunk(2)
        row = LogRow(
            step=self.progress.step,
            tokens=self.progress.tokens,
            seconds=self.progress.seconds,
            loss=float(sums[0] / sums[1]),
            learning_rate=self._rate,
            gradient_norm=self._norm,
            tokens_per_second=float(sums[1]) / sum(step.seconds for step in self._window),
            accuracy=tuple((correct / valid).tolist()),
        )
        if self._main:
            self._log.add(row)
            if self._listener:
                self._listener.row(row)

    def _crossed(self, every: int, newest: _Window) -> bool:
        """Whether the newest step passed a multiple of `every` tokens."""
        before = self.progress.tokens - int(newest.sums[1])
        return bool(every) and self.progress.tokens // every > before // every

    def _save(self) -> None:
        state = self.masters.state()
        if self._window:
            state["window"] = torch.stack([step.row for step in self._window])
        if not self._main:
            return
        save_checkpoint(self._folder, self.progress, self._job, state)
        if self._listener:
            self._listener.checkpoint(self.progress)

    def _refuse_risen_rate(self) -> None:
        """Raise DataError where another end would lift a learning rate that has begun to fall."""
        done, config = self.progress, self._config
        fallen = config.decay_share and done.tokens > (1 - config.decay_share) * done.planned
        if done.planned and done.planned != config.tokens and fallen:
            raise DataError(
                f"this job was to pass {done.planned} tokens and has passed {done.tokens}, so its "
                f"learning rate has begun to fall; it cannot be led to {config.tokens} tokens any "
                "more. Train on from its draft into another folder with --start"
            )

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree on; when it is saved and logged may change, and its end."""
        free = ("tokens", "checkpoint_seconds", "evaluate_tokens", "log_steps")
        config = {key: value for key, value in asdict(self._config).items() if key not in free}
        manifest = self._store.manifest
        return {
            **config,
            **self._objective.identity(),
            "data": manifest.data_sha256,
            "examples": len(self._store),
            "target": manifest.target,
            "compute": str(self._compute).removeprefix("torch."),
        }


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C and SIGTERM only set a flag, so that a step is never torn."""
    flag: list[int] = []
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, lambda number, frame: flag.append(number)) for name in names]
    try:
        yield lambda: bool(flag)
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
