"""The whole pipeline on random targets: a draft learns its own training text by heart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate import Accelerator

from eagle3_viz.config import Sampling
from eagle3_viz.prompt_records import ALL
from eagle3_viz.target import TargetModel
from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.eagle3_objective import Eagle3Objective, fresh_eagle3
from eagle3_viz.training.evaluation import accuracy_by_domain
from eagle3_viz.training.features import FeatureStore, extract
from eagle3_viz.training.generate import Request, generate
from eagle3_viz.training.log import read_log
from eagle3_viz.training.standardisation import feature_scale
from eagle3_viz.training.trainer import TrainConfig, Trainer
from eagle3_viz.training.vocabulary import choose_vocabulary
from tests.tiny_models import random_ids, tiny_architecture, tiny_target

WORDS, PROMPT, ANSWER, TEXTS, STEPS = 200, 8, 24, 32, 4
SIZES = {"vocab_size": WORDS, "hidden_size": 64, "intermediate_size": 96}
SHARPNESS = 6.0  # of the target's head: a flat p has no clear arg-max to learn


def own_text(target: TargetModel) -> list[Conversation]:
    prompts = [tuple(random_ids(PROMPT, seed, WORDS)) for seed in range(TEXTS)]
    requests = [
        Request(index, ids, ANSWER, Sampling(0.0), "overfit") for index, ids in enumerate(prompts)
    ]
    done = generate(target, requests, slots=TEXTS, capacity=PROMPT + ANSWER, ends=frozenset())
    return [Conversation((*prompts[c.index], *c.tokens), PROMPT) for c in done]


def objective(
    target: TargetModel, texts: list[Conversation], store: FeatureStore
) -> Eagle3Objective:
    used = len({token for c in texts for token in c.ids[PROMPT:]})
    vocabulary = choose_vocabulary(texts, used, WORDS)
    architecture = tiny_architecture(
        target, intermediate_size=128, head_dim=16, draft_vocab_size=len(vocabulary)
    )
    head, scale = target.head.detach(), feature_scale(store)
    weights = fresh_eagle3(architecture, vocabulary, head, scale, seed=0)
    return Eagle3Objective(weights, target.embedding.detach(), head, scale, STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_draft_learns_the_text_of_an_eight_layer_target_by_heart(
    tmp_path: Path, family: str
) -> None:
    target = tiny_target(family, sharpness=SHARPNESS, **SIZES)
    texts = own_text(target)
    assert len({c.ids[PROMPT:] for c in texts}) == TEXTS
    extract(target, texts, tmp_path / "features", target_name=family)
    store, accelerator = FeatureStore(tmp_path / "features"), Accelerator(cpu=True)
    trained = objective(target, texts, store)
    trainer = Trainer(
        trained,
        store,
        None,
        TrainConfig(tokens=45_000, batch_tokens=192, learning_rate=5e-3, warmup_steps=10),
        tmp_path / "job",
        accelerator=accelerator,
        compute=torch.float32,
    )
    trainer.run()
    rows = read_log(tmp_path / "job")
    assert rows[0].accuracy[0] < 0.5
    assert rows[-1].loss < 0.1 * rows[0].loss
    accuracy = accuracy_by_domain(trained, trainer.masters.copies, store, accelerator, STEPS)[ALL]
    assert accuracy[0] > 0.9
    assert accuracy[3] > 0.8
