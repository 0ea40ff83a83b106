"""The decoding loop on tiny random models: what the target would write, whatever is drafted."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.adversarial import LeastLikelyDraft, RandomDraft
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.loop import timing
from eagle3_viz.records import Cycle, Finish, Origin, Prefill
from eagle3_viz.sampling import Draws
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import DraftTree
from tests.tiny_models import (
    OracleDraft,
    decode_all,
    random_ids,
    stock_forward,
    stock_model,
    text_of,
    tiny_architecture,
    tiny_draft,
    tiny_target,
    tiny_weights,
)

V = 16
SHAPES = [(2, 0, 1), (5, 3, 1), (8, 2, 3), (20, 3, 4)]
PROMPT = random_ids(9, 40, V)
FAMILIES = ["llama", "qwen3-sliding", "gemma2"]


@cache
def target_of(family: str = "llama") -> TargetModel:
    return tiny_target(family, vocab_size=V, seed=1)


@cache
def stock_of(family: str = "llama") -> Any:
    return stock_model(target_of(family))


@cache
def oracle(family: str = "llama", noise: float = 1.0) -> OracleDraft:
    ids = [token for token in range(V) if token % 5 != 4]
    return OracleDraft(stock_of(family), PROMPT, ids, noise)


def drafts_of(family: str) -> dict[str, Draft]:
    real = tiny_draft(target_of(family), draft_vocab_size=11)
    return {
        "eagle3": real,
        "least likely": LeastLikelyDraft(real),
        "random": RandomDraft(real, seed=3),
        "oracle": oracle(family),
    }


def run(target: TargetModel, draft: Draft | None, **settings: Any) -> tuple[Prefill, list[Cycle]]:
    return decode_all(target, draft, PROMPT, **settings)


def finish_of(prefill: Prefill, cycles: list[Cycle]) -> Finish | None:
    return cycles[-1].finish if cycles else prefill.finish


@cache
def greedy_text(family: str = "llama", count: int = 24) -> list[int]:
    """What transformers' own generate writes."""
    out = stock_of(family).generate(
        torch.tensor([PROMPT]), do_sample=False, max_new_tokens=count, pad_token_id=0
    )
    return out[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_autoregression_writes_what_transformers_generates(family: str) -> None:
    prefill, cycles = run(target_of(family), None, method="ar", max_new_tokens=24)
    assert text_of(prefill, cycles) == greedy_text(family)
    for cycle in cycles:
        assert (cycle.verified, cycle.drafted, cycle.draft_forwards, cycle.accepted) == (1, 0, 0, 0)
        assert cycle.origins == (Origin.PLAIN,)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_greedy_text_is_the_targets_whatever_the_draft_proposes(family: str, shape) -> None:
    accepted = {}
    for name, draft in drafts_of(family).items():
        prefill, cycles = run(target_of(family), draft, shape=TreeShape(*shape), max_new_tokens=24)
        assert text_of(prefill, cycles) == greedy_text(family), name
        assert finish_of(prefill, cycles) == "length"
        accepted[name] = sum(cycle.accepted for cycle in cycles)
    assert accepted["oracle"] > 3
    assert accepted["oracle"] >= accepted["least likely"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_exactly_max_new_tokens_are_written_though_trees_overshoot(limit, noise) -> None:
    draft = oracle(noise=noise)
    prefill, cycles = run(target_of(), draft, shape=TreeShape(20, 3, 4), max_new_tokens=limit)
    assert text_of(prefill, cycles) == greedy_text()[:limit]
    assert finish_of(prefill, cycles) == "length"
    assert all(cycle.finish is None for cycle in cycles[:-1])
    for cycle in cycles:
        assert cycle.cut == (len(cycle.tokens) < cycle.accepted + 1)
        assert len(cycle.path) == cycle.accepted + 1
    if noise == 0.0 and limit in (2, 3):
        assert cycles[-1].cut


def test_nothing_follows_an_end_of_sequence_even_inside_an_accepted_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuts = 0
    for eos in sorted(set(greedy_text())):
        monkeypatch.setattr(target_of(), "end_of_sequence", frozenset({eos, V + 5}))
        end = greedy_text().index(eos) + 1
        for draft in (None, oracle(noise=0.3)):
            method = "ar" if draft is None else "eagle3"
            prefill, cycles = run(target_of(), draft, method=method, max_new_tokens=24)
            assert text_of(prefill, cycles) == greedy_text()[:end]
            assert finish_of(prefill, cycles) == "eos"
            cuts += any(cycle.cut for cycle in cycles)
    assert cuts > 2


def test_a_stop_string_across_tokens_ends_trees_and_autoregression_alike() -> None:
    spelling = [bytes([97 + token]) for token in range(V)]
    text = "".join(chr(97 + token) for token in greedy_text())
    stop = text[5:8]
    end = text.index(stop) + 3
    for draft in (None, oracle(noise=0.3)):
        config = DecodeConfig(method="eagle3", stop=(stop,), max_new_tokens=24)
        prefill, *cycles = decode(target_of(), draft, PROMPT, config, spelling)
        assert text_of(prefill, cycles) == greedy_text()[:end]
        assert cycles[-1].finish == "stop"


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": TreeShape(20, 3, 4)},
        {"shape": TreeShape(20, 3, 4), "sampling": Sampling(0.8), "rule": "topk"},
        {"shape": TreeShape(6, 4, 1), "sampling": Sampling(0.8), "rule": "sample"},
    ],
    ids=["greedy", "topk", "sample"],
)
def test_the_last_position_of_the_context_is_used_and_none_beyond(settings: dict) -> None:
    limit = 20
    target = tiny_target(vocab_size=V, seed=1, max_position_embeddings=limit)
    room = limit - len(PROMPT) + 1  # the token decided at the last position has none of its own
    texts = []
    for draft in (None, oracle(noise=0.3), tiny_draft(target, draft_vocab_size=11)):
        prefill, cycles = run(target, draft, max_new_tokens=99, **settings)
        texts.append(text_of(prefill, cycles))
        assert len(texts[-1]) == room
        assert finish_of(prefill, cycles) == "context"
        assert all(not cycle.cut for cycle in cycles)
        deepest = [cycle.prefix_length + int(cycle.nodes.depth.max()) for cycle in cycles]
        assert max(deepest) == limit - 1
        for cycle in cycles:
            drafted = draft is not None and cycle.prefix_length < limit - 1
            assert (cycle.verified > 1) == drafted
    if "rule" not in settings:
        assert texts[0] == texts[1] == texts[2] == greedy_text()[:room]


@pytest.mark.parametrize("length", [0, 512, 600])
def test_a_prompt_that_does_not_fit_is_refused_at_once(length: int) -> None:
    with pytest.raises(ValueError, match="prompt has"):
        next(iter(decode(target_of(), None, random_ids(length, 1, V), DecodeConfig())))


def test_a_prompt_that_fills_the_context_but_one_position_still_gets_two_tokens() -> None:
    target = tiny_target(vocab_size=V, seed=1, max_position_embeddings=len(PROMPT) + 1)
    prefill, cycles = run(target, oracle(), max_new_tokens=99)
    assert text_of(prefill, cycles) == greedy_text()[:2]
    assert finish_of(prefill, cycles) == "context"


RULES: dict[str, dict] = {
    "greedy": {"shape": TreeShape(12, 3, 3)},
    "topk": {"shape": TreeShape(12, 3, 3), "sampling": Sampling(0.9, top_p=0.9), "rule": "topk"},
    "sample": {"shape": TreeShape(5, 3, 1), "sampling": Sampling(0.9), "rule": "sample"},
    "ar": {"method": "ar", "sampling": Sampling(0.9)},
}


@pytest.mark.parametrize("rule", RULES)
def test_recording_changes_nothing_and_a_seed_decides_everything(rule: str) -> None:
    texts = {}
    for seed in (0, 1):
        for level in ("off", "outcomes", "full", "full"):
            _, cycles = run(
                *(target_of(), oracle()), seed=seed, record=level, max_new_tokens=20, **RULES[rule]
            )
            texts.setdefault(seed, []).append(
                [(cycle.tokens, cycle.path, cycle.origins) for cycle in cycles]
            )
            assert all((cycle.nodes is None) == (level == "off") for cycle in cycles)
            assert all((cycle.distributions == ()) == (level != "full") for cycle in cycles)
    for repeated in texts.values():
        assert all(text == repeated[0] for text in repeated)
    assert (texts[0] == texts[1]) == (rule == "greedy")


@pytest.mark.parametrize("rule", RULES)
def test_cycles_join_without_a_gap(rule: str) -> None:
    prefill, cycles = run(target_of(), oracle(), max_new_tokens=20, **RULES[rule])
    n, root = len(PROMPT), prefill.token
    for index, cycle in enumerate(cycles):
        assert (cycle.index, cycle.prefix_length, cycle.root) == (index, n, root)
        assert len(cycle.tokens) == len(cycle.origins)
        assert cycle.origins[:-1] == (Origin.ACCEPTED,) * (len(cycle.tokens) - 1)
        n, root = n + len(cycle.tokens), cycle.tokens[-1]


@pytest.mark.parametrize("rule", ["greedy", "topk", "sample"])
def test_the_draft_is_fed_the_taps_of_the_committed_text(rule: str) -> None:
    """Each cycle's q at the root is that of a fresh draft on the stock model's hidden states."""
    target, settings = target_of(), RULES[rule]
    weights = tiny_weights(tiny_architecture(target, draft_vocab_size=11))
    prefill, cycles = run(target, Eagle3Draft(weights, target), max_new_tokens=24, **settings)
    temperature = settings["sampling"].temperature if rule == "sample" else 1.0
    text = [*PROMPT, prefill.token]
    for cycle in cycles:
        _, hidden = stock_forward(stock_of(), text[:-1])
        fresh = Eagle3Draft(weights, target)
        fresh.extend(torch.cat([hidden[b] for b in target.taps.boundaries], dim=-1), text[1:])
        q = (fresh.root_logits() / temperature).log_softmax(-1)
        assert cycle.pool is not None
        first = cycle.pool.parent == -1
        ids = fresh.target_ids.tolist()
        rows = [ids.index(token) for token in cycle.pool.token[first]]
        found = torch.from_numpy(cycle.pool.draft_logprob[first])
        assert torch.allclose(found, q[rows], atol=1e-3)
        text += cycle.tokens
    assert any(cycle.accepted for cycle in cycles)


def test_the_tree_has_the_shape_that_was_asked_for() -> None:
    _, cycles = run(target_of(), oracle(), shape=TreeShape(9, 2, 3), max_new_tokens=20)
    for cycle in cycles:
        forwards = 3 - (cycle.index == 0)  # the first root pass is part of prefill
        assert (cycle.verified, cycle.drafted, cycle.draft_forwards) == (9, 3 + 2 * 9, forwards)
    _, chain = run(target_of(), oracle(), max_new_tokens=20, **RULES["sample"])
    assert {(c.verified, c.drafted) for c in chain} == {(5, 4)}
    assert [c.draft_forwards for c in chain] == [3, *[4] * (len(chain) - 1)]


def test_a_shape_wider_than_the_draft_vocabulary_is_clipped() -> None:
    draft = tiny_draft(target_of(), draft_vocab_size=3)
    prefill, cycles = run(target_of(), draft, shape=TreeShape(60, 3, 10), max_new_tokens=12)
    assert text_of(prefill, cycles) == greedy_text()[:12]
    assert {cycle.drafted for cycle in cycles} == {3 + 3 * 9}


def test_phases_of_a_cycle_are_summed_and_recording_stays_apart() -> None:
    laps = [("draft", 1.0), ("tree", 2.0), ("draft", 3.0), ("tree", 4.0), ("verify", 5.0)]
    laps += [("accept", 6.0), ("commit", 7.0), ("record", 100.0)]
    found = timing(laps)
    assert found.draft_levels == (1.0, 3.0)
    assert (found.tree, found.verify, found.accept, found.commit) == (6.0, 5.0, 6.0, 7.0)
    assert (found.draft, found.total, found.record) == (4.0, 28.0, 100.0)
    _, cycles = run(target_of(), oracle(), shape=TreeShape(9, 2, 3), max_new_tokens=8)
    for cycle in cycles:
        assert len(cycle.timing.draft_levels) == 3
        assert min(*cycle.timing.draft_levels, cycle.timing.verify, cycle.timing.record) > 0


def broken_draft(target: TargetModel) -> Eagle3Draft:
    weights = tiny_weights(tiny_architecture(target, draft_vocab_size=11))
    weights.tensors["layers.0.mlp.down_proj.weight"][3, 3] = float("nan")
    return Eagle3Draft(weights, target)


@pytest.mark.parametrize("rule", ["greedy", "topk", "sample"])
@pytest.mark.parametrize("level", ["off", "full"])
def test_a_draft_that_computes_nan_is_named(rule: str, level: str) -> None:
    with pytest.raises(FloatingPointError, match="the draft computed NaN"):
        run(target_of(), broken_draft(target_of()), record=level, **RULES[rule])


@pytest.mark.parametrize("rule", RULES)
def test_a_target_that_computes_nan_is_named(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of()
    honest = TargetModel.verify

    def break_after(self: TargetModel, tree: DraftTree) -> Any:
        step = honest(self, tree)
        if self.cache.length > len(PROMPT) + 4:
            step.logits[:, 5] = float("nan")
        return step

    monkeypatch.setattr(TargetModel, "verify", break_after)
    with pytest.raises(FloatingPointError, match="the target computed NaN"):
        run(target, oracle(), max_new_tokens=30, **RULES[rule])


@pytest.mark.parametrize("rule", ["greedy", "topk"])
def test_a_target_that_computes_nan_is_named_at_prefill(rule: str) -> None:
    target = tiny_target(vocab_size=V)
    with torch.no_grad():
        target.embedding[:, 0] = float("nan")
    with pytest.raises(FloatingPointError, match="the target computed NaN"):
        run(target, None, **RULES[rule])


def test_draws_of_a_run_come_from_its_seed_alone() -> None:
    """A generator used elsewhere in the process does not move the text."""
    settings = RULES["topk"] | {"max_new_tokens": 12}
    first = text_of(*run(target_of(), oracle(), **settings))
    torch.manual_seed(99)
    torch.rand(7)
    Draws(5).uniform()
    assert text_of(*run(target_of(), oracle(), **settings)) == first
