"""One process of a training job: features, training, and the draft that comes out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from math import isfinite
from pathlib import Path
from typing import TextIO

from accelerate import Accelerator

from eagle3_viz.chat import template_sha256
from eagle3_viz.cli.data_passes import passes_in_words
from eagle3_viz.cli.failure import INTERRUPTED, as_failure
from eagle3_viz.cli.going_on import going_on
from eagle3_viz.cli.pair_loading import load_target, target_version
from eagle3_viz.cli.progress import reporting
from eagle3_viz.cli.terminal import aligned
from eagle3_viz.cli.watch import Watch
from eagle3_viz.embedded import PairError
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.plain_text import one_line
from eagle3_viz.prompt_records import ALL
from eagle3_viz.trace import ModelSource
from eagle3_viz.training.checkpoint import Progress
from eagle3_viz.training.conversations import fingerprint
from eagle3_viz.training.draft_provenance import Provenance, passes_of, steps_of
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.log import EvaluationRow, LogRow, read_evaluations, read_log
from eagle3_viz.training.optimizer import OPTIMIZER
from eagle3_viz.training.process_group import joined
from eagle3_viz.training.products import make_product
from eagle3_viz.training.recipe import Product, Recipe
from eagle3_viz.training.texts import Texts, disk_need, make_features, read_texts
from eagle3_viz.training.trainer import TrainConfig, Trainer
from eagle3_viz.training.vocabulary import coverage_by_domain

USUAL_VOCABULARY, USUAL_UNROLL = 8192, 4
_ERRORS = (ArithmeticError, OSError, PairError, RuntimeError, ValueError)


def run(args: argparse.Namespace) -> int:
    """Train what the options ask for; returns the exit status. Only the first process speaks.

    Ctrl-C ends at the next step, with a checkpoint that the same command goes on from.
    """
    with as_failure(*_ERRORS), joined(args.device) as accelerator, _voice(accelerator) as stream:
        pair = load_target(args, stream, accelerator.device)
        texts = read_texts(args.data, args.heldout, pair.target, args.conversations)
        store, heldout = _features(args, pair, texts, accelerator, stream)
        for line in passes_in_words(args.tokens, store.lengths()):
            print(line, file=stream)
        recipe = _recipe(args)
        made = make_product(recipe, pair.target, texts.train, store)
        about = _Target(pair.target_source, template_sha256(pair.tokenizer))
        del pair  # of the target, training needs what the product took over
        job = _Job(args, recipe, about, texts, made)
        progress = job.train(store, heldout, accelerator, stream)
        if progress.tokens < args.tokens:
            print(f"Stopped, with a checkpoint. {going_on(args.argv)}", file=stream)
            return INTERRUPTED
        if accelerator.is_main_process:
            print(aligned(job.summary(progress), sys.stdout))
    return 0


@contextmanager
def _voice(accelerator: Accelerator) -> Iterator[TextIO]:
    """Standard error for the first process, nothing for the others."""
    if accelerator.is_main_process:
        yield sys.stderr
    else:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            yield nowhere


def _features(
    args: argparse.Namespace,
    pair: LoadedPair,
    texts: Texts,
    accelerator: Accelerator,
    stream: TextIO,
) -> tuple[FeatureStore, FeatureStore | None]:
    folder: Path = args.features or args.out / "features"
    need, free = disk_need(texts, pair.target, folder)
    if need:
        print(
            one_line(f"Features: {need / 1e9:.1f} GB to make in {folder} ({free / 1e9:.0f} free)"),
            file=stream,
        )
    with reporting(stream) as report:
        return make_features(
            texts,
            pair.target,
            target_version(pair.target_source),
            folder,
            accelerator,
            partial(report, "Features, in conversations"),
        )


def _recipe(args: argparse.Namespace) -> Recipe:
    if args.train_command == "independent":
        return Recipe(
            objective="independent",
            vocabulary=None,
            unroll=1,
            taps="top",
            start=None,
            seed=args.seed,
            licence=args.licence,
            width=args.width,
            layers=args.layers,
        )
    return Recipe(
        objective=args.objective,
        vocabulary=args.vocabulary or (None if args.objective == "eagle1" else USUAL_VOCABULARY),
        unroll=args.unroll or (USUAL_UNROLL if args.objective == "eagle3" else 1),
        taps=args.taps or ("top" if args.objective == "eagle1" else "three"),
        start=args.start,
        seed=args.seed,
        licence=args.licence,
    )


@dataclass(frozen=True)
class _Target:
    """What a card says of the target."""

    source: ModelSource
    chat_template_sha256: str


class _Job:
    """Feeds what the trainer reports to the screen, and publishes the draft at every checkpoint."""

    def __init__(
        self,
        args: argparse.Namespace,
        recipe: Recipe,
        target: _Target,
        texts: Texts,
        made: Product,
    ) -> None:
        self._args, self._recipe, self._target, self._texts = args, recipe, target, texts
        self._made = made
        self._scored: EvaluationRow | None = None  # the newest over all domains
        self._watch = Watch(args.tokens, stream=sys.stderr)

    def train(
        self,
        store: FeatureStore,
        heldout: FeatureStore | None,
        accelerator: Accelerator,
        stream: TextIO,
    ) -> Progress:
        """Run the trainer to its end or an interruption."""
        main = accelerator.is_main_process
        trainer = Trainer(
            self._made.objective,
            store,
            heldout,
            self.config,
            self._args.out,
            accelerator=accelerator,
            compute=self._made.compute,
            listener=self if main else None,
        )
        logged = read_log(self._args.out), read_evaluations(self._args.out)
        self._watch = Watch(
            self._args.tokens,
            stream=stream,
            full=self._args.watch,
            log=logged[0],
            evaluations=logged[1],
        )
        if main and trainer.finished:
            self._publish_what_is_missing(trainer.progress, logged[1])
        with self._watch:
            return trainer.run()

    def _publish_what_is_missing(
        self, progress: Progress, evaluations: Sequence[EvaluationRow]
    ) -> None:
        """Publish the draft of a finished job that was killed between its checkpoint and that."""
        if steps_of(self._args.out / "draft") != progress.step:
            self._scored = next((row for row in reversed(evaluations) if row.domain == ALL), None)
            self._publish(progress)

    @property
    def config(self) -> TrainConfig:
        """The trainer's settings among the options."""
        args = self._args
        return TrainConfig(
            tokens=args.tokens,
            batch_tokens=args.batch_tokens,
            micro_batches=args.micro_batches,
            learning_rate=args.learning_rate,
            warmup_steps=args.warmup,
            decay_share=args.decay,
            seed=args.seed,
            checkpoint_seconds=60 * args.checkpoint_minutes,
            evaluate_tokens=args.evaluate,
        )

    def row(self, row: LogRow) -> None:
        """Show a logged step."""
        self._watch.row(row)

    def evaluation(self, row: EvaluationRow) -> None:
        """Show a held-out accuracy and keep it for the card."""
        if row.domain == ALL:
            self._scored = row
        self._watch.evaluation(row)

    def checkpoint(self, progress: Progress) -> None:
        """Show the checkpoint and publish the draft as it is."""
        self._publish(progress)
        self._watch.checkpoint(progress.step)

    def _publish(self, progress: Progress) -> None:
        if self._made.publish is not None:
            self._made.publish(self._args.out / "draft", self._provenance(progress))

    def summary(self, progress: Progress) -> list[tuple[str, str]]:
        """What came out, as rows of label and value."""
        scored = [row for row in read_evaluations(self._args.out) if row.domain == ALL]
        found = scored[-1].accuracy if scored else ()
        draft = str(self._args.out / "draft") if self._made.publish else "not published"
        return [
            ("steps", f"{progress.step}"),
            ("response tokens", f"{progress.tokens} in {progress.seconds:.0f} s"),
            ("held-out accuracy", " ".join(f"{a:.3f}" for a in found) or "not measured"),
            ("draft", draft),
        ]

    def _provenance(self, progress: Progress) -> Provenance:
        texts, source = self._texts, self._target.source
        vocabulary = self._made.vocabulary
        # An accuracy of other weights does not belong on the card of these.
        scored = self._scored if self._scored and self._scored.step == progress.step else None
        return Provenance(
            objective=self._recipe.objective,
            target=source.name,
            revision=source.revision or source.sha256,
            chat_template_sha256=self._target.chat_template_sha256,
            boundaries=self._made.boundaries,
            data_sha256=fingerprint(texts.train),
            conversations=len(texts.train),
            response_tokens=sum(c.response_tokens for c in texts.train),
            training={
                **self._recipe.settings(),
                "optimizer": OPTIMIZER,
                **asdict(self.config),
            },
            steps=progress.step,
            token_passes=progress.tokens,
            seconds=round(progress.seconds),
            accuracy=tuple(takewhile(isfinite, scored.accuracy)) if scored else (),
            coverage=coverage_by_domain(vocabulary, texts.heldout or texts.train),
            started_from=self._recipe.start.name if self._recipe.start else None,
            started_token_passes=passes_of(self._recipe.start) if self._recipe.start else 0,
        )
