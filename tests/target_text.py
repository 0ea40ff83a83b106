"""Text that a tiny target wrote itself, with its features: what a draft can learn from."""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate import Accelerator

from eagle3_viz.prompt_records import ALL
from eagle3_viz.target import TargetModel
from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.features import FeatureStore, extract
from eagle3_viz.training.log import read_evaluations
from eagle3_viz.training.objective import Objective
from eagle3_viz.training.trainer import TrainConfig, Trainer

PROMPT, TOKENS = 4, 24


@torch.no_grad()
def greedy_text(target: TargetModel, texts: int, seed: int) -> list[Conversation]:
    """Random prompts of PROMPT tokens, answered greedily up to TOKENS in all."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(target.vocab_size, (texts, PROMPT), generator=generator)
    while ids.shape[1] < TOKENS:
        _, hidden = target.read(ids)
        ids = torch.cat([ids, (hidden[:, -1] @ target.head.T).argmax(-1, keepdim=True)], dim=1)
    return [Conversation(tuple(row), PROMPT) for row in ids.tolist()]


def train(
    objective: Objective, target: TargetModel, folder: Path, *, tokens: int, rate: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Accuracies by step on the text it is trained on: before and after."""
    extract(target, greedy_text(target, 64, seed=1), folder / "text", target_name="tiny")
    store = FeatureStore(folder / "text")
    config = TrainConfig(
        tokens, batch_tokens=160, micro_batches=1, learning_rate=rate, warmup_steps=5
    )
    trainer = Trainer(
        objective,
        store,
        store,
        config,
        folder / "run",
        accelerator=Accelerator(cpu=True),
        compute=torch.float32,
    )
    before = trainer.evaluate()[ALL]
    trainer.run()
    *_, after = (row for row in read_evaluations(folder / "run") if row.domain == ALL)
    return before, after.accuracy
