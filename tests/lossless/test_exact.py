from __future__ import annotations

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from eagle3_viz.config import DecodeConfig, Sampling
from eagle3_viz.decode import decode
from eagle3_viz.lossless.exact import ExactTexts, open_prefix
from tests.lossless.tiny_pair import PREFIX, SMALL, small_pair
from tests.tiny_models import random_ids, stock_forward, stock_model

NO_END: frozenset[int] = frozenset()


def stock_joint(sampling: Sampling, length: int) -> dict[tuple[int, ...], float]:
    """Every text's probability by transformers' own model and warpers, one forward a text."""
    stock, texts = stock_model(small_pair().target), {(): 1.0}
    for _ in range(length):
        longer = {}
        for text, mass in texts.items():
            logits = stock_forward(stock, [*PREFIX.ids, PREFIX.root, *text])[0][-1:].double()
            logits = TemperatureLogitsWarper(sampling.temperature)(None, logits)
            if sampling.top_p < 1.0:
                logits = TopPLogitsWarper(sampling.top_p)(None, logits)
            p = logits.softmax(-1)[0].tolist()
            longer |= {(*text, token): mass * p[token] for token in range(SMALL) if p[token] > 0}
        texts = longer
    return texts


@pytest.mark.parametrize("sampling", [Sampling(0.8), Sampling(1.0, top_p=0.8)], ids=str)
def test_the_joint_distribution_is_the_stock_models(sampling: Sampling) -> None:
    found = ExactTexts(small_pair().target, PREFIX).joint(sampling, 3, 0.0001, NO_END)
    expected = stock_joint(sampling, 3)
    assert found == pytest.approx({t: p for t, p in expected.items() if p >= 0.0001}, rel=1e-4)
    assert len(found) > 10


def test_rare_texts_are_left_out_and_cost_no_forward() -> None:
    exact = ExactTexts(small_pair().target, PREFIX)
    found = exact.joint(Sampling(1.0), 3, 0.01, NO_END)
    assert min(found.values()) >= 0.01
    whole = stock_joint(Sampling(1.0), 3)
    assert found.keys() == {text for text, mass in whole.items() if mass >= 0.01}
    beginnings = {text[:length] for text in whole for length in range(3)}
    assert len(exact._logits) < len(beginnings)


def test_an_end_of_sequence_ends_a_text() -> None:
    exact = ExactTexts(small_pair().target, PREFIX)
    found = exact.joint(Sampling(1.0), 3, 1e-9, frozenset({2}))
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-5)
    assert all(2 not in text[:-1] for text in found)
    assert {len(text) for text in found} == {1, 2, 3}


def test_an_open_prefix_is_a_beginning_of_the_greedy_answer() -> None:
    target = small_pair().target
    prompt = random_ids(8, 3, SMALL)
    prefix = open_prefix(target, prompt)
    config = DecodeConfig(method="ar", max_new_tokens=40, record="off")
    first, *cycles = decode(target, None, prompt, config)
    answer = [first.token, *(cycle.tokens[0] for cycle in cycles)]  # type: ignore[union-attr]
    at = len(prefix.ids) - len(prompt)
    assert prefix.ids == (*prompt, *answer[:at])
    assert prefix.root == answer[at]


def test_an_open_prefix_is_followed_by_choices_of_the_wanted_entropy() -> None:
    target = small_pair().target
    stock, prompt = stock_model(target), random_ids(8, 3, SMALL)
    chosen = open_prefix(target, prompt)
    config = DecodeConfig(method="ar", max_new_tokens=40, record="off")
    first, *cycles = decode(target, None, prompt, config)
    text = [*prompt, first.token, *(cycle.tokens[0] for cycle in cycles)]  # type: ignore[union-attr]
    log_p = stock_forward(stock, text)[0].log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    means = torch.stack([entropy[i : i + 3].mean() for i in range(len(prompt), len(text) - 2)])
    assert int((means - 1.5).abs().argmin()) == len(chosen.ids) - len(prompt)
