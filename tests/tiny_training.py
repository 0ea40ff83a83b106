"""A training job that takes milliseconds a step, in this process or, as a module, in another."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.eagle3_objective import Eagle3Objective, fresh_eagle3
from eagle3_viz.training.features import FeatureStore, extract
from eagle3_viz.training.process_group import joined
from eagle3_viz.training.standardisation import feature_scale
from eagle3_viz.training.trainer import Listener, TrainConfig, Trainer
from eagle3_viz.training.vocabulary import choose_vocabulary
from tests.tiny_models import random_ids, shared_target, tiny_architecture

ROOT = Path(__file__).resolve().parent.parent
STEPS = 3
CONFIG: dict[str, Any] = {
    "tokens": 1500,
    "batch_tokens": 64,
    "warmup_steps": 3,
    "checkpoint_seconds": 1e9,
    "log_steps": 1,
}


def random_conversations(count: int, seed: int) -> list[Conversation]:
    draw = random.Random(seed)
    return [
        Conversation(
            tuple(random_ids(draw.randint(8, 30), 1000 * seed + index)),
            draw.randint(1, 6),
            "ab"[index % 2],
        )
        for index in range(count)
    ]


def tiny_features(folder: Path, count: int = 20, seed: int = 1) -> FeatureStore:
    extract(shared_target(), random_conversations(count, seed), folder, target_name="tiny")
    return FeatureStore(folder)


def tiny_objective(store: FeatureStore, steps: int = STEPS) -> Eagle3Objective:
    target, scale = shared_target(), feature_scale(store)
    architecture, head = tiny_architecture(target), target.head.detach()
    texts = [Conversation(tuple(store[i].ids.tolist()), 1) for i in range(len(store))]
    vocabulary = choose_vocabulary(texts, architecture.draft_vocab_size, target.vocab_size)
    weights = fresh_eagle3(architecture, vocabulary, head, scale, seed=0)
    return Eagle3Objective(weights, target.embedding.detach(), head, scale, steps)


def tiny_trainer(
    folder: Path,
    store: FeatureStore,
    *,
    heldout: FeatureStore | None = None,
    steps: int = STEPS,
    listener: Listener | None = None,
    **config: Any,
) -> Trainer:
    return Trainer(
        tiny_objective(store, steps),
        store,
        heldout,
        TrainConfig(**{**CONFIG, **config}),
        folder,
        accelerator=Accelerator(cpu=True),
        compute=torch.float32,
        listener=listener,
    )


def start_process(
    folder: Path, features: Path, environment: dict[str, str] | None = None, **config: Any
) -> subprocess.Popen[bytes]:
    """The same job as a program of its own."""
    command = [sys.executable, "-m", "tests.tiny_training", str(folder), str(features)]
    return subprocess.Popen(
        [*command, json.dumps(config)], cwd=ROOT, env={**os.environ, **(environment or {})}
    )


if __name__ == "__main__":
    out, features, settings = sys.argv[1:]
    with joined("cpu") as accelerator:
        assert accelerator.num_processes == int(os.environ.get("WORLD_SIZE", "1"))
        tiny_trainer(Path(out), FeatureStore(Path(features)), **json.loads(settings)).run()
