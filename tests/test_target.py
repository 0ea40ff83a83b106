"""What can serve as a target, what is refused and how, and what one forward gives."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

from eagle3_viz import attention
from eagle3_viz.target import (
    TargetError,
    TargetModel,
    end_of_sequence_ids,
    refuse_config_file,
    refuse_unsupported,
)
from tests.tiny_models import (
    random_ids,
    shared_stock,
    shared_target,
    stock_forward,
    stock_model,
    tiny_config,
    tiny_target,
    tree_of,
)


def refusal_of_file(folder: Path, config: Any) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(TargetError) as caught:
        refuse_config_file(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("qwen3_next", "linear_attention"),
        ("qwen3_5_text", "linear_attention"),
        ("mamba", "'mamba'"),
        ("mamba2", "'mamba2'"),
        ("jamba", "'jamba'"),
        ("rwkv", "'rwkv'"),
        ("recurrent_gemma", "'recurrent_gemma'"),
        ("t5", "'t5' is not supported"),
        ("bart", "'bart' is not supported"),
        ("gpt2", "'gpt2' is not supported"),
        ("gemma3", "'gemma3' is not supported"),
    ],
)
def test_families_that_cannot_be_verified_are_refused(tmp_path: Path, kind: str, told: str) -> None:
    config = AutoConfig.for_model(kind)
    with pytest.raises(TargetError, match=told):
        refuse_unsupported(config)
    assert told in refusal_of_file(tmp_path, config.to_dict())


def test_a_supported_family_with_recurrent_layers_is_refused(tmp_path: Path) -> None:
    config = {"model_type": "llama", "layer_types": ["full_attention", "linear_attention"]}
    message = refusal_of_file(tmp_path, config)
    assert "linear_attention" in message
    assert "recurrent state" in message


def test_the_supported_families_are_listed_in_the_refusal(tmp_path: Path) -> None:
    message = refusal_of_file(tmp_path, {"model_type": "nonsense"})
    for family in ("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text"):
        assert family in message


@pytest.mark.parametrize("kinds", [3, "full_attention", [["full_attention"]], [None]], ids=str)
def test_layer_kinds_that_are_no_list_of_names_are_refused(tmp_path: Path, kinds: Any) -> None:
    message = refusal_of_file(tmp_path, {"model_type": "llama", "layer_types": kinds})
    assert "list of names" in message


def test_a_rotary_embedding_that_depends_on_the_longest_guess_is_refused() -> None:
    """Its frequencies switch for the whole forward once any position passes the original length."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16}
    with pytest.raises(TargetError, match="longrope"):
        tiny_target(rope_parameters=rope | factors, max_position_embeddings=64)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ],
    ids=lambda rope: rope["rope_type"],
)
def test_other_rotary_embeddings_verify_a_tree_to_the_last_position(rope: dict) -> None:
    target = tiny_target(rope_parameters={"rope_theta": 1e4} | rope, max_position_embeddings=64)
    text, guesses = random_ids(56, 11), random_ids(8, 12)
    target.prefill(text)
    step = target.verify(tree_of(guesses, range(-1, 7)))
    logits, _ = stock_forward(stock_model(target), text + guesses)
    assert torch.allclose(step.logits, logits[56:], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3", "mistral-sliding"])
def test_a_bfloat16_tree_agrees_with_float32_within_rounding(family: str) -> None:
    exact, rounded = (tiny_target(family, seed=8) for _ in range(2))
    coarse = TargetModel(rounded.model.to(torch.bfloat16), SimpleNamespace(eos_token_id=None))
    text, tree = random_ids(12, 13), tree_of(random_ids(6, 14), [-1, 0, 0, 1, 1, 2])
    steps = []
    for target in (exact, coarse):
        target.prefill(text)
        steps.append(target.verify(tree))
    assert steps[1].logits.dtype == steps[1].features.dtype == torch.bfloat16
    error = (steps[1].logits.float() - steps[0].logits).abs().mean()
    assert error < 0.15 * steps[0].logits.std()


def test_a_config_without_a_family_is_refused(tmp_path: Path) -> None:
    assert "not supported" in refusal_of_file(tmp_path, {"hidden_size": 32})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no config.json"),
        (b"{not json", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b'["llama"]', "must hold an object"),
        (b"3", "must hold an object"),
        (b"[" * 200_000, "not valid JSON"),
    ],
    ids=["none", "broken", "binary", "list", "number", "nested"],
)
def test_a_folder_without_a_readable_config_is_refused(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(TargetError, match=told) as caught:
        TargetModel.load(tmp_path, dtype=torch.float32, device=torch.device("cpu"))
    assert tmp_path.name in str(caught.value)


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(TargetError, match="cannot be read"):
        refuse_config_file(tmp_path)


def test_a_target_that_sees_tokens_ahead_is_refused() -> None:
    with pytest.raises(TargetError, match="use_bidirectional_attention"):
        tiny_target("gemma3", use_bidirectional_attention=True)


def test_a_model_with_another_attention_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(tiny_config(), attn_implementation="sdpa")
    with pytest.raises(TargetError, match=attention.NAME):
        TargetModel(model, SimpleNamespace(eos_token_id=None))


@pytest.mark.parametrize(
    ("generation", "config", "tokenizer", "expected"),
    [
        ([2, 7, 9], 4, 5, {2, 7, 9}),
        (3, [4, 8], 5, {3}),
        (None, [4, 8], 5, {4, 8}),
        (None, 4, 5, {4}),
        (None, None, 5, {5}),
        (0, 4, 5, {0}),
        (None, None, None, set()),
    ],
)
def test_every_id_that_ends_a_text_is_known(generation, config, tokenizer, expected) -> None:
    model = SimpleNamespace(
        generation_config=GenerationConfig(eos_token_id=generation),
        config=SimpleNamespace(eos_token_id=config),
    )
    assert end_of_sequence_ids(model, SimpleNamespace(eos_token_id=tokenizer)) == expected


def test_a_model_folder_is_loaded_with_its_ends_and_its_numbers(tmp_path: Path) -> None:
    target = tiny_target(seed=9)
    target.model.generation_config = GenerationConfig(eos_token_id=[7, 11])
    target.model.save_pretrained(tmp_path)
    tokenizer_of(target.vocab_size).save_pretrained(tmp_path)
    loaded = TargetModel.load(tmp_path, dtype=torch.float32, device=torch.device("cpu"))
    assert loaded.end_of_sequence == {7, 11}
    assert loaded.context_limit == 512
    text = random_ids(9, 1)
    assert torch.allclose(loaded.prefill(text).logits, target.prefill(text).logits, atol=1e-4)
    assert (loaded.hidden_size, loaded.vocab_size) == (32, 61)
    half = TargetModel.load(tmp_path, dtype=torch.bfloat16, device=torch.device("cpu"))
    assert half.dtype == half.prefill(text).logits.dtype == torch.bfloat16


def tokenizer_of(size: int) -> PreTrainedTokenizerFast:
    words = {f"w{i}": i for i in range(size)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "w0")))


@pytest.mark.parametrize("length", [0, 512, 513])
def test_a_prompt_that_does_not_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"prompt has {length} tokens; this target takes 1 to 511"):
        shared_target().prefill(random_ids(length, 1))


def test_a_prompt_of_one_token_is_enough() -> None:
    step = shared_target().prefill([5])
    logits, _ = stock_forward(shared_stock(), [5])
    assert torch.allclose(step.logits, logits, rtol=1e-4, atol=1e-4)
    assert step.features.shape == (1, 3 * 32)


def test_prefill_starts_a_new_text() -> None:
    target, text = shared_target(), random_ids(12, 2)
    expected = target.prefill(text).logits
    target.prefill(random_ids(30, 3))
    target.verify(tree_of([1, 2, 3], [-1, 0, 1]))
    assert torch.allclose(target.prefill(text).logits, expected, atol=1e-4)
    assert target.cache.length == 12


def test_verifying_commits_nothing_and_may_be_repeated() -> None:
    target = shared_target()
    target.prefill(random_ids(12, 4))
    tree = tree_of([1, 2, 3, 4], [-1, 0, 0, 1])
    first = target.verify(tree)
    target.verify(tree_of([9, 8], [-1, 0]))
    assert target.cache.length == 12
    again = target.verify(tree)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.features, again.features)


def test_siblings_and_cousins_do_not_see_each_other() -> None:
    """A changed token changes its own subtree's logits and, bit for bit, no others."""
    target, parents = shared_target(), [-1, 0, 0, 1, 1, 2, 4]
    target.prefill(random_ids(12, 5))
    before = target.verify(tree_of([1, 2, 3, 4, 5, 6, 7], parents)).logits
    after = target.verify(tree_of([1, 9, 3, 4, 5, 6, 7], parents)).logits
    changed = (before != after).any(-1).tolist()
    assert changed == [False, True, False, True, True, False, True]


def test_committing_returns_the_features_of_the_path() -> None:
    target = shared_target()
    target.prefill(random_ids(6, 6))
    step = target.verify(tree_of([1, 2, 3, 4], [-1, 0, 0, 2]))
    assert torch.equal(target.commit([0, 2, 3], step.features), step.features[[0, 2, 3]])
    assert target.cache.length == 9
