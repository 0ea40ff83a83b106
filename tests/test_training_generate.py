"""Texts decoded side by side: each is what its request alone would have given."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from eagle3_viz.config import Sampling
from eagle3_viz.training.generate import Completion, Request, generate
from tests.tiny_models import (
    FAMILIES,
    VOCABULARY,
    random_ids,
    shared_stock,
    shared_target,
    stock_forward,
)

GREEDY = Sampling(0.0)
NEW_TOKENS = 12


def request(
    index: int, ids: Sequence[int], sampling: Sampling = GREEDY, new: int = NEW_TOKENS, **more: Any
) -> Request:
    return Request(index, tuple(ids), new, sampling, f"seed/{index}", **more)


def texts_of(completions: Iterator[Completion]) -> dict[int, tuple[int, ...]]:
    return {done.index: done.tokens for done in completions}


def run(requests: Sequence[Request], slots: int, family: str = "llama") -> dict[int, Any]:
    longest = max(len(r.ids) + r.max_new_tokens for r in requests)
    ends: frozenset[int] = frozenset()
    return texts_of(
        generate(shared_target(family), requests, slots=slots, capacity=longest, ends=ends)
    )


def alone(stock: Any, ids: Sequence[int], count: int) -> tuple[int, ...]:
    """The greedy text of one prompt, each token from a whole forward of the stock model."""
    text = list(ids)
    for _ in range(count):
        text.append(int(stock_forward(stock, text)[0][-1].argmax()))
    return tuple(text[len(ids) :])


PROMPTS = [random_ids(length, 50 + length) for length in (3, 17, 1, 9, 6, 12)]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_greedy_text_of_a_batch_is_the_one_the_stock_model_writes_alone(family: str) -> None:
    new = [NEW_TOKENS, 2, 7, NEW_TOKENS, 4, NEW_TOKENS]  # slots are refilled at different times
    requests = [request(i, ids, new=n) for i, (ids, n) in enumerate(zip(PROMPTS, new, strict=True))]
    stock = shared_stock(family)
    expected = {i: alone(stock, ids, new[i]) for i, ids in enumerate(PROMPTS)}
    assert run(requests, 3, family) == expected


def mixed_requests() -> list[Request]:
    samplings = [GREEDY, Sampling(0.7), Sampling(1.0, 5), Sampling(1.0), Sampling(0.7), GREEDY]
    return [request(i, ids, samplings[i]) for i, ids in enumerate(PROMPTS)]


@pytest.mark.parametrize("slots", [2, 3, 6])
def test_a_text_does_not_depend_on_slots_order_or_neighbours(slots: int) -> None:
    requests = mixed_requests()
    expected = run(requests, 1)
    assert run(requests, slots) == expected
    random.Random(slots).shuffle(requests)
    assert run(requests, slots) == expected
    last = [r for r in requests if r.index in (1, 4)]
    resumed = generate(shared_target(), last, slots=slots, capacity=29, ends=frozenset())
    assert texts_of(resumed) == {i: expected[i] for i in (1, 4)}


def test_texts_differ_by_their_seed() -> None:
    twice = [request(i, PROMPTS[0], Sampling(1.0)) for i in range(2)]
    texts = run(twice, 2)
    assert texts[0] != texts[1]


def test_a_shared_beginning_changes_nothing() -> None:
    beginning = random_ids(8, 3)
    prompts = [[*beginning, *random_ids(n, n)] for n in (4, 1, 6, 3)]
    plain = [request(i, ids, Sampling(0.9)) for i, ids in enumerate(prompts)]
    shared = [request(i, ids, Sampling(0.9), shared=8) for i, ids in enumerate(prompts)]
    assert run(shared, 2) == run(plain, 2)
    whole = [request(i, beginning, Sampling(0.9), shared=8) for i in range(2)]
    assert run(whole, 2) == run([request(i, beginning, Sampling(0.9)) for i in range(2)], 2)


def test_top_k_draws_from_the_k_most_likely_tokens_of_the_stock_model() -> None:
    tokens = run([request(0, PROMPTS[1], Sampling(1.0, 3), new=40)], 1)[0]
    logits, _ = stock_forward(shared_stock(), [*PROMPTS[1], *tokens])
    best = logits[len(PROMPTS[1]) - 1 : -1].topk(3).indices
    ranks = [row.tolist().index(token) for row, token in zip(best, tokens, strict=True)]
    assert {*ranks} == {0, 1, 2}


def test_what_a_slot_computes_is_the_same_to_the_bit_whatever_the_others_do() -> None:
    target, text = shared_target(), random_ids(10, 4)
    rows = []
    for slot, seed in ((0, 1), (5, 2), (7, 3)):
        cache = target.slot_cache(8, 32)
        for other in {*range(8)} - {slot}:
            target.fill_slot(cache, other, random_ids(3 * other + seed, seed + other))
        target.fill_slot(cache, slot, text)
        ids = torch.tensor(random_ids(8, seed))
        positions = torch.tensor([3 * other + seed for other in range(8)])
        ids[slot], positions[slot] = 7, len(text)
        rows.append(target.step_slots(cache, ids, positions)[slot])
    expected, _ = stock_forward(shared_stock(), [*text, 7])
    assert torch.allclose(rows[0], expected[-1], rtol=1e-4, atol=1e-4)
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])


# Endings, with a target that says what it is told to say


class ScriptedTarget:
    """Goes on from a prompt [p] with the tokens of script p."""

    def __init__(self, scripts: Sequence[Sequence[int]]) -> None:
        self.scripts = scripts
        self.steps = 0
        self.says: dict[int, Iterator[int]] = {}

    def slot_cache(self, slots: int, capacity: int) -> Any:
        class Cache:
            pass

        cache = Cache()
        cache.slots, cache.capacity = slots, capacity  # type: ignore[attr-defined]
        return cache

    def fill_slot(self, cache: Any, slot: int, ids: Sequence[int], start: int = 0) -> None:
        raise AssertionError("a prompt of one token is fed by the first step")

    def step_slots(self, cache: Any, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        logits = torch.zeros(cache.slots, VOCABULARY)
        for slot, (token, position) in enumerate(
            zip(ids.tolist(), positions.tolist(), strict=True)
        ):
            if position == 0:
                self.says[slot] = iter(self.scripts[token])
            logits[slot, next(self.says[slot], 0)] = 1.0
        return logits


def scripted(scripts: Sequence[Sequence[int]], new: int, slots: int = 1) -> Any:
    target: Any = ScriptedTarget(scripts)
    requests = [request(i, [i], new=new) for i in range(len(scripts))]
    done = generate(target, requests, slots=slots, capacity=1 + new, ends=frozenset({50, 51}))
    return target, {completion.index: completion for completion in done}


def test_a_text_ends_with_the_first_end_of_sequence_id_and_keeps_it() -> None:
    _, done = scripted([[5, 6, 51, 7]], new=10)
    assert done[0] == Completion(0, (5, 6, 51), "eos")


def test_a_text_ends_at_its_length() -> None:
    _, done = scripted([[5, 6, 7, 8]], new=3)
    assert done[0] == Completion(0, (5, 6, 7), "len")


def test_a_loop_is_cut_after_its_first_round() -> None:
    _, done = scripted([[9, 8, *[1, 2, 3] * 40]], new=200)
    assert done[0] == Completion(0, (9, 8, 1, 2, 3), "loop")


def test_an_end_of_sequence_at_the_last_token_counts_as_an_end() -> None:
    _, done = scripted([[5, 50]], new=2)
    assert done[0].finish == "eos"


def test_a_free_slot_is_filled_before_the_next_step() -> None:
    """Lengths 9 | 3, 3, 3 in two slots: nine steps when no slot ever waits."""
    scripts = [[*range(1, 9), 50], *[[1, 2, 50]] * 3]
    target, done = scripted(scripts, new=20, slots=2)
    assert target.steps == 9
    assert [len(done[i].tokens) for i in range(4)] == [9, 3, 3, 3]


def test_more_slots_than_texts_and_no_text_at_all_are_fine() -> None:
    _, done = scripted([[5, 50]], new=4, slots=3)
    assert done[0].tokens == (5, 50)
    assert scripted([], new=4)[1] == {}


def test_a_text_that_does_not_fit_its_slot_is_refused() -> None:
    ends: frozenset[int] = frozenset()
    with pytest.raises(ValueError, match="request 0 may reach 15 tokens; slots hold 1 to 14"):
        list(generate(shared_target(), [request(0, [1, 2, 3])], slots=1, capacity=14, ends=ends))
