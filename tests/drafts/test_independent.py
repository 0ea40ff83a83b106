"""The independent draft against transformers' own forward of whole texts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.checkpoints import CheckpointError
from eagle3_viz.drafts.independent import IndependentDraft, refuse_other_tokenizer
from eagle3_viz.drafts.loading import load_draft
from eagle3_viz.records import Cycle
from eagle3_viz.target import TargetModel
from tests.chat_tokenizer import VOCABULARY_SIZE, chat_tokenizer
from tests.tiny_models import (
    VOCABULARY,
    WINDOW,
    decode_all,
    random_ids,
    shared_target,
    stock_forward,
    stock_model,
    text_of,
    tiny_target,
)

FAMILIES = ["llama", "mistral-sliding", "qwen3-sliding", "gemma2"]
TEXT = random_ids(12, 70)
NO_STATES = torch.empty(0, 0)
CLOSE = {"atol": 1e-4, "rtol": 1e-4}

Fed = list[tuple[int, list[int], list[int]]]
"""Calls of `step`: level, tokens, and what each continues (0: the root, i: the i-th token fed)."""
CHAIN: Fed = [(1, [7], [0]), (2, [8], [1]), (3, [9], [2]), (4, [7], [3])]
TREES: dict[str, Fed] = {
    "chain": CHAIN,
    "level by level": [
        (1, [3, 4, 5], [0, 0, 0]),
        (2, [6, 3, 8, 9], [1, 1, 3, 2]),
        (3, [1, 2], [5, 7]),
    ],
    "best node first": [(1, [3], [0]), (2, [4], [1]), (1, [5], [0]), (3, [6], [2]), (2, [4], [3])],
}


@cache
def made(family: str) -> tuple[IndependentDraft, Any]:
    """A draft, and the stock model with its weights. A test starts it anew with `reading`."""
    model = tiny_target(family, seed=5)
    return IndependentDraft(model, VOCABULARY), stock_model(model)


def reading(draft: IndependentDraft, text: list[int]) -> IndependentDraft:
    draft.start(text[0])
    draft.extend(NO_STATES, text[1:])
    return draft


def logits_after(stock: Any, text: list[int]) -> torch.Tensor:
    return stock_forward(stock, text)[0][-1]


def check_tree(draft: IndependentDraft, stock: Any, text: list[int], tree: Fed) -> None:
    """Feed `tree` behind `text`: every row of logits is the stock forward's of its whole path."""
    assert torch.allclose(draft.root_logits(), logits_after(stock, text), **CLOSE)
    paths: list[list[int]] = [[]]
    for level, tokens, parents in tree:
        new = [[*paths[parent], token] for token, parent in zip(tokens, parents, strict=True)]
        logits = draft.step(torch.tensor(tokens), torch.tensor(parents), level)
        assert logits.dtype == torch.float32
        for row, path in zip(logits, new, strict=True):
            assert torch.allclose(row, logits_after(stock, text + path), **CLOSE)
        paths += new


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_tree_are_those_of_each_whole_path(family: str, tree: str) -> None:
    draft, stock = made(family)
    assert len(TEXT) > WINDOW
    check_tree(reading(draft, TEXT), stock, TEXT, TREES[tree])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_of_one_token_is_enough(family: str) -> None:
    draft, stock = made(family)
    check_tree(reading(draft, TEXT[:2]), stock, TEXT[:2], CHAIN)


def cached(draft: IndependentDraft) -> list[torch.Tensor]:
    """Keys and values of the verified tokens, as every layer holds them."""
    cache = draft._model.cache
    return [
        torch.stack([layer.keys[0, :, : cache.length], layer.values[0, :, : cache.length]])
        for layer in cache.layers
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_after_many_trees_the_state_is_that_of_a_fresh_draft(family: str) -> None:
    """What is verified next may be a path of the tree, part of one, or none of it."""
    draft, stock = made(family)
    text = list(TEXT)
    reading(draft, text)
    verified = [[3, 6, 1, 20], [30], [7, 31], [4, 8], [7, 8, 9, 7, 32], [33, 34, 35]]
    for cycle, tokens in enumerate(verified * 2):
        check_tree(draft, stock, text, list(TREES.values())[cycle % len(TREES)])
        draft.extend(NO_STATES, tokens)
        text += tokens
    worn = [layer.clone() for layer in cached(draft)], draft.root_logits().clone()
    reading(draft, text)
    assert draft._model.cache.length == len(text)
    for old, fresh in zip(worn[0], cached(draft), strict=True):
        assert old.shape == fresh.shape
        assert torch.allclose(old, fresh, **CLOSE)
    assert torch.allclose(worn[1], draft.root_logits(), **CLOSE)


def test_asking_for_the_root_again_drops_the_tree_fed_before() -> None:
    draft, stock = made("llama")
    reading(draft, TEXT)
    for _ in range(2):
        check_tree(draft, stock, TEXT, TREES["level by level"])
    assert draft._model.cache.length == len(TEXT)


SHAPE = TreeShape(8, 3, 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_draft_that_is_the_target_is_always_right(family: str) -> None:
    """Every guess of a chain is accepted, so that the draft stands where the target stands."""
    target = shared_target(family)
    twin = IndependentDraft(tiny_target(family), VOCABULARY)
    chain = TreeShape(5, 3, 1)
    settings = {"method": "independent", "shape": chain, "max_new_tokens": 41}
    prefill, cycles = decode_all(target, twin, TEXT, **settings)
    assert [cycle.accepted for cycle in cycles] == [4] * 8
    ar = decode_all(target, None, TEXT, method="ar", max_new_tokens=41)
    assert text_of(prefill, cycles) == text_of(*ar)


def test_q_equal_to_p_is_never_refused_when_drawn() -> None:
    target, twin = shared_target(), IndependentDraft(tiny_target(), VOCABULARY)
    config = DecodeConfig(
        method="independent",
        shape=SHAPE,
        sampling=Sampling(0.9, top_k=20, top_p=0.95),
        rule="sample",
        max_new_tokens=40,
    )
    cycles = [record for record in decode(target, twin, TEXT, config) if isinstance(record, Cycle)]
    first_tested = [cycle.nodes.accept_probability[1] for cycle in cycles if cycle.nodes]
    assert first_tested == pytest.approx([1.0] * len(cycles), abs=1e-3)


# Folders


def saved(
    folder: Path, *, tokenizer: Any = None, size: int = VOCABULARY_SIZE, **options: Any
) -> Path:
    model = tiny_target(seed=9, vocab_size=size, **options).model
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def target_of(size: int = VOCABULARY_SIZE) -> TargetModel:
    return tiny_target(seed=2, tokenizer=chat_tokenizer(), vocab_size=size)


def renumbered(first: str, second: str, *, without: str) -> SimpleNamespace:
    """The tests' tokenizer with two tokens' numbers exchanged and one token missing."""
    vocabulary = chat_tokenizer().get_vocab()
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    del vocabulary[without]
    return SimpleNamespace(get_vocab=lambda: vocabulary)


def test_a_folder_with_the_targets_tokenizer_becomes_an_independent_draft(tmp_path: Path) -> None:
    draft = load_draft(saved(tmp_path, tokenizer=chat_tokenizer()), target_of())
    assert isinstance(draft, IndependentDraft)
    assert draft.methods == ("independent",)
    assert draft.boundaries == ()
    assert draft.target_ids.tolist() == list(range(VOCABULARY_SIZE))


def test_a_folder_without_a_tokenizer_takes_the_targets(tmp_path: Path) -> None:
    folder, target = saved(tmp_path), target_of()
    assert not [path for path in folder.iterdir() if "token" in path.name]
    draft = IndependentDraft.load(folder, target)
    assert draft._model.tokenizer is target.tokenizer


def test_the_draft_is_read_in_the_number_format_of_the_target(tmp_path: Path) -> None:
    target = target_of()
    target.dtype = torch.bfloat16
    draft = IndependentDraft.load(saved(tmp_path), target)
    assert {p.dtype for p in draft._model.model.parameters()} == {torch.bfloat16}
    assert reading(draft, [1, 2, 3]).root_logits().dtype == torch.float32


def test_another_tokenizer_is_refused_with_the_tokens_that_differ(tmp_path: Path) -> None:
    other = chat_tokenizer()
    other.add_tokens(["<|more|>"])
    folder = saved(tmp_path, tokenizer=other, size=VOCABULARY_SIZE + 1)
    with pytest.raises(CheckpointError, match=r"differ in 1 token \(") as caught:
        load_draft(folder, target_of())
    assert f"'<|more|>' is missing in the target's and {VOCABULARY_SIZE} in the draft's" in str(
        caught.value
    )


def test_exchanged_and_missing_tokens_are_named_with_both_numbers() -> None:
    ids = chat_tokenizer().get_vocab()
    with pytest.raises(CheckpointError) as caught:
        refuse_other_tokenizer(chat_tokenizer(), renumbered("a", "z", without="m"))
    message = str(caught.value)
    assert "differ in 3 tokens" in message
    assert f"'a' is {ids['a']} in the target's and {ids['z']} in the draft's" in message
    assert f"'m' is {ids['m']} in the target's and missing in the draft's" in message
    assert "\n" not in message


def test_the_same_tokenizer_is_not_refused() -> None:
    refuse_other_tokenizer(chat_tokenizer(), chat_tokenizer())


def test_a_family_that_cannot_be_rolled_back_is_refused_as_the_draft(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    config = (folder / "config.json").read_text().replace('"llama"', '"mamba2"')
    (folder / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=r"the draft model cannot be used: .*'mamba2'"):
        load_draft(folder, target_of())


# Tables of other sizes


def test_rows_beyond_the_targets_table_are_never_proposed(tmp_path: Path) -> None:
    draft = IndependentDraft.load(saved(tmp_path, size=VOCABULARY_SIZE + 30), target_of())
    assert draft.vocabulary_size == VOCABULARY_SIZE
    text = random_ids(9, 3, VOCABULARY_SIZE)
    stock = stock_model(draft._model)
    reading(draft, text)
    expected = logits_after(stock, text)[:VOCABULARY_SIZE]
    assert torch.allclose(draft.root_logits(), expected, **CLOSE)
    logits = draft.step(torch.tensor([4]), torch.tensor([0]), 1)
    expected = logits_after(stock, [*text, 4])[:VOCABULARY_SIZE]
    assert torch.allclose(logits[0], expected, **CLOSE)


def test_a_target_whose_table_is_padded_decodes_with_an_unpadded_draft(tmp_path: Path) -> None:
    target = target_of(VOCABULARY_SIZE + 6)
    draft = IndependentDraft.load(saved(tmp_path), target)
    assert draft.vocabulary_size == VOCABULARY_SIZE
    padding = VOCABULARY_SIZE + 5  # a row of the target that is no token: it may still commit it
    assert reading(draft, [1, padding, 2]).root_logits().isfinite().all()
    settings = {"method": "independent", "shape": SHAPE, "max_new_tokens": 12}
    run = decode_all(target, draft, TEXT, **settings)
    assert text_of(*run) == text_of(*decode_all(target, None, TEXT, **settings | {"method": "ar"}))
    pools = [cycle.pool for cycle in run[1] if cycle.pool is not None]
    assert pools
    assert all(int(pool.token.max()) < VOCABULARY_SIZE for pool in pools)


def test_a_table_that_lacks_tokens_of_the_target_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, size=VOCABULARY_SIZE - 1)
    with pytest.raises(CheckpointError, match=f"{VOCABULARY_SIZE - 1} tokens, the target's"):
        load_draft(folder, target_of())


def test_parameters_count_tied_tables_once() -> None:
    model = tiny_target()
    count = sum(weight.numel() for weight in model.model.parameters())
    table = model.embedding.numel()
    assert IndependentDraft(model, VOCABULARY).parameters == count
    model.model.lm_head.weight = model.model.model.embed_tokens.weight
    assert IndependentDraft(model, VOCABULARY).parameters == count - table
