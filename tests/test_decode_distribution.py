"""The joint distribution of the first tokens is the target's: exactly, and by sampling.

The other side is the stock model warped by transformers' processors. Wrong rules put into the same
engine are caught by the same comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from eagle3_viz import acceptance
from eagle3_viz import loop as loop_module
from eagle3_viz.acceptance import Verdict, children_of, residual_topk
from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.drafts.adversarial import LeastLikelyDraft, RandomDraft
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.records import Origin
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import DraftTree
from tests.enumeration import ScriptedDraws, exact_distribution
from tests.tiny_models import (
    decode_all,
    random_ids,
    stock_forward,
    stock_model,
    text_of,
    tiny_architecture,
    tiny_target,
    tiny_weights,
)


def joint_of_target(stock: Any, prompt: list[int], sampling: Sampling, count: int) -> dict:
    """The stock target's own probability of each text, warped by transformers' processors."""
    texts = {(): 1.0}
    for _ in range(count):
        longer = {}
        for text, mass in texts.items():
            logits = stock_forward(stock, [*prompt, *text])[0][-1:].double()
            logits = TemperatureLogitsWarper(sampling.temperature)(None, logits)
            if sampling.top_p < 1.0:
                logits = TopPLogitsWarper(sampling.top_p)(None, logits)
            for token, p in enumerate(logits.softmax(-1)[0].tolist()):
                if p > 0:
                    longer[(*text, token)] = mass * p
        texts = longer
    return texts


def exact_joint(draft: Draft, target: TargetModel, prompt, monkeypatch, **settings) -> dict:
    """The engine's probability of each text, over every outcome of every draw."""

    def text(draws: ScriptedDraws) -> tuple[int, ...]:
        monkeypatch.setattr(loop_module, "Draws", lambda seed: draws)
        return tuple(text_of(*decode_all(target, draft, prompt, record="off", **settings)))

    return exact_distribution(text)


def distance(found: dict, expected: dict) -> float:
    """Total variation."""
    keys = found.keys() | expected.keys()
    return sum(abs(found.get(key, 0.0) - expected.get(key, 0.0)) for key in keys) / 2


def accept_by_ratio(tree: DraftTree, p: torch.Tensor, draws: Any) -> Verdict:
    """Wrong on purpose: tokens that were chosen, not drawn, tested with min(1, p / q)."""
    tokens, children = tree.token.tolist(), children_of(tree.parent.tolist())
    assert tree.pool is not None
    q = [1.0, *tree.pool.logprob[tree.pool_index[1:]].exp().tolist()]
    path = [0]
    while True:
        node, refused = path[-1], []
        for child in children[node]:
            if draws.accepts(min(1.0, float(p[node, tokens[child]]) / q[child]))[0]:
                path.append(child)
                break
            refused.append(tokens[child])
        if path[-1] == node:
            token = int(draws.token(residual_topk(p[node], refused)))
            committed = (*(tokens[n] for n in path[1:]), token)
            return Verdict(tuple(path), committed, Origin.RECOVERED, ())


class RepeatableNoise(RandomDraft):
    """Random draft that starts from the same noise in every run: outcomes can be enumerated."""

    def start(self, first: int) -> None:
        super().start(first)
        self._generator.manual_seed(8)


SMALL = 3
SMALL_PROMPT = random_ids(6, 41, SMALL)
EXACT: dict[str, dict] = {
    "topk": {
        "shape": TreeShape(4, 1, 2),
        "sampling": Sampling(0.8),
        "rule": "topk",
        "max_new_tokens": 3,
    },
    "topk in a nucleus": {
        "shape": TreeShape(5, 1, 3),
        "sampling": Sampling(1.3, top_p=0.8),
        "rule": "topk",
        "max_new_tokens": 3,
    },
    "sample": {
        "shape": TreeShape(2, 0, 1),
        "sampling": Sampling(0.8),
        "rule": "sample",
        "max_new_tokens": 3,
    },
    "sample, two levels": {
        "shape": TreeShape(3, 1, 1),
        "sampling": Sampling(1.4),
        "rule": "sample",
        "max_new_tokens": 2,
    },
    "sample, a tree cut within siblings": {
        "shape": TreeShape(4, 1, 2),
        "sampling": Sampling(0.8),
        "rule": "sample",
        "max_new_tokens": 3,
    },
    "sample, a tree in a nucleus": {
        "shape": TreeShape(4, 2, 2),
        "sampling": Sampling(1.3, top_p=0.8),
        "rule": "sample",
        "max_new_tokens": 3,
    },
    "sample, a fixed tree": {
        "method": "eagle1",
        "fixed": FixedTree("three", ((0,), (1,), (1, 0))),
        "sampling": Sampling(0.8),
        "rule": "sample",
        "max_new_tokens": 3,
    },
    "sample, a q of its own": {
        "shape": TreeShape(4, 1, 2),
        "sampling": Sampling(0.8),
        "draft_temperature": 1.5,
        "rule": "sample",
        "max_new_tokens": 3,
    },
    "topk, a fixed tree": {
        "method": "eagle1",
        "fixed": FixedTree("three", ((0,), (1,), (1, 0))),
        "sampling": Sampling(0.8),
        "rule": "topk",
        "max_new_tokens": 3,
    },
}

ONE_OF_EACH = ("topk", "topk in a nucleus", "sample, two levels")


@cache
def small_pair() -> tuple[TargetModel, Any, Eagle3Draft]:
    """Models of little conviction, so that every outcome has some probability."""
    target = tiny_target(vocab_size=SMALL, seed=4, sharpness=0.5)
    weights = tiny_weights(tiny_architecture(target, draft_vocab_size=2), sharpness=0.5)
    return target, stock_model(target), Eagle3Draft(weights, target)


def assert_exact(case: str, monkeypatch: pytest.MonkeyPatch, draft: Draft) -> None:
    (target, stock, _), settings = small_pair(), EXACT[case]
    expected = joint_of_target(
        stock, SMALL_PROMPT, settings["sampling"], settings["max_new_tokens"]
    )
    found = exact_joint(draft, target, SMALL_PROMPT, monkeypatch, **settings)
    assert distance(found, expected) < 1e-5


@pytest.mark.parametrize("case", EXACT)
def test_the_engine_writes_every_text_with_the_targets_probability(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_exact(case, monkeypatch, small_pair()[2])


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_a_draft_that_proposes_the_least_likely_changes_no_probability(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_exact(case, monkeypatch, LeastLikelyDraft(small_pair()[2]))


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_a_draft_of_pure_noise_changes_no_probability(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_exact(case, monkeypatch, RepeatableNoise(small_pair()[2]))


@pytest.mark.parametrize(
    ("case", "where", "name", "wrong"),
    [
        ("topk", loop_module, "accept_topk", accept_by_ratio),
        ("topk", acceptance, "residual_topk", lambda p, refused: p),
        ("sample", acceptance, "residual_sample", lambda p, q: p),
        ("sample", loop_module, "spread_q", lambda tree, draft, size: torch.ones(1, size) / size),
    ],
    ids=["ratio test of chosen tokens", "refused tokens stay", "p for residual", "another q"],
)
def test_a_wrong_rule_writes_other_texts(
    case: str, where: Any, name: str, wrong: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison above can fail."""
    monkeypatch.setattr(where, name, wrong)
    target, stock, draft = small_pair()
    settings = EXACT[case] | {"max_new_tokens": 2}
    expected = joint_of_target(stock, SMALL_PROMPT, settings["sampling"], 2)
    found = exact_joint(draft, target, SMALL_PROMPT, monkeypatch, **settings)
    assert distance(found, expected) > 0.05


def chi_square_z(texts: list[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Pearson's statistic with rare texts pooled, as standard deviations above its mean."""
    runs = len(texts)
    cells: dict[Any, list[float]] = {}
    for text, mass in expected.items():
        cell = cells.setdefault(text if runs * mass >= 8 else "rare", [0.0, 0.0])
        cell[0] += runs * mass
        cell[1] += texts.count(text)
    assert sum(seen for _, seen in cells.values()) == runs  # no text of probability zero
    statistic = sum((seen - mean) ** 2 / mean for mean, seen in cells.values())
    freedom = len(cells) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["topk", "sample"])
def test_many_seeded_runs_follow_the_target(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, stock, draft = small_pair()
    settings = EXACT[rule] | {"shape": TreeShape(6, 2, 2) if rule == "topk" else TreeShape(4, 2, 1)}
    expected = joint_of_target(stock, SMALL_PROMPT, settings["sampling"], 3)

    def texts(runs: int) -> list[tuple[int, ...]]:
        seeded = [
            decode_all(target, draft, SMALL_PROMPT, record="off", seed=seed, **settings)
            for seed in range(runs)
        ]
        return [tuple(text_of(*records)) for records in seeded]

    assert chi_square_z(texts(600), expected) < 4.0
    if rule == "topk":
        monkeypatch.setattr(loop_module, "accept_topk", accept_by_ratio)
    else:
        monkeypatch.setattr(acceptance, "residual_sample", lambda p, q: p)
    assert chi_square_z(texts(600), expected) > 6.0
