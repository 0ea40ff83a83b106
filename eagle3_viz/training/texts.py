"""The text of a training job and its features, made once and shared by the processes of the job."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerate import Accelerator

from eagle3_viz.target import TargetModel
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import Conversation, read_conversations
from eagle3_viz.training.features import FeatureStore, Report, bytes_needed, extract


@dataclass(frozen=True)
class Texts:
    """Conversations to train on and, where there are any, to be scored on."""

    train: Sequence[Conversation]
    heldout: Sequence[Conversation]


def read_texts(
    train: Sequence[Path], heldout: Sequence[Path], target: TargetModel, limit: int | None
) -> Texts:
    """Both sets; `limit` takes a random sample of so many to train on, the same every time.

    Raises DataError when a file cannot be read or nothing is there to train on.
    """
    found = read_conversations(train, target.vocab_size)
    if not found:
        raise DataError(f"there is no conversation in {', '.join(p.name for p in train)}")
    if limit is not None and limit < len(found):
        found = random.Random(0).sample(found, limit)
    return Texts(found, read_conversations(heldout, target.vocab_size))


def disk_need(texts: Texts, target: TargetModel, folder: Path) -> tuple[int, int]:
    """Bytes that the features still need and bytes that are free. Raises DataError if too few."""
    whole = sum(bytes_needed(part, target) for part in (texts.train, texts.heldout))
    there = sum(path.stat().st_size for path in folder.glob("*/shard-*.safetensors"))
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    need, free = max(0, whole - there), shutil.disk_usage(existing).free
    if need > free:
        raise DataError(
            f"the features need {need / 1e9:.3g} GB in {folder}, where {free / 1e9:.3g} GB are "
            "free: name another folder with --features, or train on fewer conversations"
        )
    return need, free


def make_features(
    texts: Texts,
    target: TargetModel,
    target_name: str,
    folder: Path,
    accelerator: Accelerator,
    report: Report,
) -> tuple[FeatureStore, FeatureStore | None]:
    """Features of both sets in `folder`, each process making its share of what is missing."""
    share = (accelerator.process_index, accelerator.num_processes)
    for name, part in (("train", texts.train), ("heldout", texts.heldout)):
        if part:
            extract(
                target,
                part,
                folder / name,
                target_name=target_name,
                share=share,
                report=report,
            )
    accelerator.wait_for_everyone()
    heldout = FeatureStore(folder / "heldout") if texts.heldout else None
    return FeatureStore(folder / "train"), heldout
