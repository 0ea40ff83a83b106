"""Greedy speculation gives the target's own text in float32 (MATH.md 5.3, 5.4)."""

from __future__ import annotations

from functools import cache

import pytest

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.adversarial import LeastLikelyDraft, RandomDraft
from eagle3_viz.presets import Preset, in_turn
from eagle3_viz.records import Cycle

pytestmark = pytest.mark.slow

SHAPES = [TreeShape(4, 2, 2), TreeShape(8, 3, 4), TreeShape(16, 5, 4), TreeShape(60, 5, 10)]
NEW_TOKENS = 64


def text_of(target, draft, preset: Preset, config: DecodeConfig) -> tuple[list[int], list[Cycle]]:
    prompt = encode_chat(target.tokenizer, preset.prompt, preset.system)
    first, *cycles = decode(target, draft, prompt, config)
    return [first.token, *(token for cycle in cycles for token in cycle.tokens)], cycles


@cache
def autoregressive(target, preset: Preset) -> list[int]:
    config = DecodeConfig(method="ar", max_new_tokens=NEW_TOKENS, record="off")
    return text_of(target, None, preset, config)[0]


def assert_equal_text(target, draft, preset: Preset) -> None:
    for shape in SHAPES:
        config = DecodeConfig(shape=shape, max_new_tokens=NEW_TOKENS, record="off")
        tokens, _ = text_of(target, draft, preset, config)
        assert tokens == autoregressive(target, preset), (preset.id, shape)


@pytest.mark.parametrize("preset", in_turn(4), ids=lambda preset: preset.id)
def test_greedy_text_equals_autoregression(preset, target, shipped) -> None:
    assert_equal_text(target, shipped, preset)


@pytest.mark.exhaustive
@pytest.mark.parametrize("preset", in_turn(30), ids=lambda preset: preset.id)
def test_greedy_text_equals_autoregression_on_thirty_in_turn(preset, target, shipped) -> None:
    assert_equal_text(target, shipped, preset)


def test_autoregression_equals_generate(target) -> None:
    preset = in_turn(1)[0]
    prompt = encode_chat(target.tokenizer, preset.prompt, preset.system)
    ids = target.tokenizer("", return_tensors="pt").input_ids.new_tensor([prompt])
    out = target.model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False)
    assert out[0, len(prompt) :].tolist() == autoregressive(target, preset)


def assert_only_slower(target, draft, preset: Preset) -> None:
    config = DecodeConfig(shape=TreeShape(8, 3, 4), max_new_tokens=NEW_TOKENS, record="off")
    for bad in (RandomDraft(draft), LeastLikelyDraft(draft)):
        tokens, cycles = text_of(target, bad, preset, config)
        assert tokens == autoregressive(target, preset)
        uncut = [cycle for cycle in cycles if not cycle.cut]
        assert sum(cycle.accepted for cycle in uncut) <= 0.02 * len(uncut)


@pytest.mark.parametrize("preset", in_turn(2), ids=lambda preset: preset.id)
def test_bad_drafts_change_the_speed_and_nothing_else(preset, target, shipped) -> None:
    assert_only_slower(target, shipped, preset)


@pytest.mark.exhaustive
@pytest.mark.parametrize("preset", in_turn(10), ids=lambda preset: preset.id)
def test_bad_drafts_change_only_the_speed_on_ten_in_turn(preset, target, shipped) -> None:
    assert_only_slower(target, shipped, preset)
