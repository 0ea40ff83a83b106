"""The EAGLE-3 draft against a second reading of its definition, in float64 and without a cache.

The reference runs whole sequences: for a node of a tree it feeds the text and the node's own path,
one full causal pass a step, written from the definition of the switches alone.
"""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.checkpoints import CheckpointError
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.sampling import Draws
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import DraftTree
from tests.tiny_models import (
    random_ids,
    shared_target,
    tiny_architecture,
    tiny_draft,
    tiny_target,
    tiny_weights,
)


class Reference:
    """An EAGLE-3 draft as the definition reads, on whole sequences."""

    def __init__(self, weights: Eagle3Weights, target: TargetModel) -> None:
        self.arch = weights.architecture
        self.w = {name: tensor.double() for name, tensor in weights.tensors.items()}
        shared = {} if self.arch.own_embedding else {"embed_tokens.weight": target.embedding}
        self.w |= {name: tensor.detach().double() for name, tensor in shared.items()}
        self.ids = torch.arange(self.arch.draft_vocab_size) + weights.d2t

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        mean_square = (x * x).mean(-1, keepdim=True)
        return x / (mean_square + self.arch.rms_norm_eps).sqrt() * self.w[f"{name}.weight"]

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        y = x @ self.w[f"{name}.weight"].T
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary embedding of [n, heads, hd] at positions 0..n-1: pairs (i, i + hd / 2)."""
        half = self.arch.head_dim // 2
        rate = self.arch.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * rate
        turned = torch.view_as_complex(torch.stack([x[..., :half], x[..., half:]], -1))
        turned = turned * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([turned.real, turned.imag], dim=-1)

    def attention(self, x: torch.Tensor, layer: str) -> torch.Tensor:
        arch, n = self.arch, len(x)
        q, k, v = (
            self.linear(x, f"{layer}.self_attn.{name}_proj").view(n, -1, arch.head_dim)
            for name in "qkv"
        )
        if arch.qk_norm:
            q, k = (
                self.norm(q, f"{layer}.self_attn.q_norm"),
                self.norm(k, f"{layer}.self_attn.k_norm"),
            )
        q, k = self.rotate(q), self.rotate(k)
        out = torch.zeros_like(q)
        window = arch.sliding_window or n
        for head in range(arch.num_heads):
            shared = head // (arch.num_heads // arch.num_kv_heads)
            for row in range(n):
                seen = slice(max(0, row + 1 - window), row + 1)
                scores = k[seen, shared] @ q[row, head] / arch.head_dim**0.5
                out[row, head] = scores.softmax(0) @ v[seen, shared]
        return self.linear(out.reshape(n, -1), f"{layer}.self_attn.o_proj")

    def outputs(self, g: torch.Tensor, tokens: list[int]) -> torch.Tensor:
        """Output [n, H] of the last layer for features [n, H] and the token after each."""
        x = self.w["embed_tokens.weight"][tokens]
        y = g
        for index in range(self.arch.num_layers):
            layer = f"layers.{index}"
            if index == 0:
                normed = self.norm(g, f"{layer}.hidden_norm")
                residual = normed if self.arch.norm_before_residual else g
                inputs = torch.cat([self.norm(x, f"{layer}.input_layernorm"), normed], dim=-1)
            else:
                residual, inputs = y, self.norm(y, f"{layer}.input_layernorm")
            y = residual + self.attention(inputs, layer)
            z = self.norm(y, f"{layer}.post_attention_layernorm")
            gate, up = (
                self.linear(z, f"{layer}.mlp.gate_proj"),
                self.linear(z, f"{layer}.mlp.up_proj"),
            )
            y = y + self.linear(gate * torch.sigmoid(gate) * up, f"{layer}.mlp.down_proj")
        return y

    def features(self, taps: torch.Tensor) -> torch.Tensor:
        a = taps.double()
        if self.arch.norm_before_fc:
            a = self.norm(a, "input_norm")
        if self.arch.fc_norm:
            parts = a.split(self.arch.target_hidden_size, dim=-1)
            a = torch.cat([self.norm(part, f"fc_norm.{k}") for k, part in enumerate(parts)], -1)
        return self.linear(a, "fc")

    def logits(self, taps: torch.Tensor, tokens: list[int], path: list[int]) -> torch.Tensor:
        """Logits [DV] after `path` (target ids below the root) on top of true features [n, K d].

        tokens [n] are one further on than the features: the last one is the root.
        """
        g, fed = self.features(taps), list(tokens)
        for token in [*path, None]:
            y = self.outputs(g, fed)[-1]
            normed = self.norm(y, "norm")
            if token is None:
                return self.linear(normed, "lm_head")
            g = torch.cat([g, (normed if self.arch.norm_output else y)[None]])
            fed.append(token)
        raise AssertionError


SWITCHES: dict[str, dict] = {
    "published": {},
    "norm_before_fc": {"norm_before_fc": True},
    "fc_norm": {"fc_norm": True},
    "norm_before_residual": {"norm_before_residual": True},
    "norm_output": {"norm_output": True},
    "qk_norm": {"qk_norm": True},
    "fc_bias": {"fc_bias": True},
    "attention_bias": {"attention_bias": True},
    "sliding_window": {"sliding_window": 3},
    "num_layers": {"num_layers": 2},
    "head_dim": {"head_dim": 12},
    "own_embedding": {"own_embedding": True},
    "narrow": {"own_embedding": True, "hidden_size": 20, "num_heads": 2, "num_kv_heads": 1},
    "full_vocabulary": {"draft_vocab_size": 61},
    "rope_theta": {"rope_theta": 50.0},
    "speculators_defaults": {
        "norm_before_residual": True,
        "norm_before_fc": True,
        "norm_output": True,
        "sliding_window": 4,
        "own_embedding": True,
    },
    "everything": {
        "fc_norm": True,
        "norm_before_residual": True,
        "norm_output": True,
        "qk_norm": True,
        "fc_bias": True,
        "attention_bias": True,
        "sliding_window": 5,
        "num_layers": 2,
        "head_dim": 10,
        "num_kv_heads": 4,
    },
}
# The cases that the sizes of the tensors do not force upon every reader.
FORCED = {"head_dim", "own_embedding", "draft_vocab_size"}
VISIBLE = [case for case, switches in SWITCHES.items() if switches and not switches.keys() & FORCED]
N = 7
SHAPE = TreeShape(total=18, depth=3, top_k=3)


def weights_of(case: str) -> Eagle3Weights:
    target = shared_target()
    arch = tiny_architecture(target, **SWITCHES[case])
    weights = tiny_weights(arch, seed=3)
    if arch.draft_vocab_size == arch.vocab_size:
        return replace(weights, d2t=torch.zeros(arch.vocab_size, dtype=torch.int64))
    return weights


def text_and_taps() -> tuple[list[int], torch.Tensor]:
    """Tokens one further on than their taps, and the taps [N, K * d] of the real target."""
    text = random_ids(N + 1, 20)
    return text[1:], shared_target().prefill(text[:N]).features


def no_mark(name: str) -> None:
    """Timing is of no interest here."""


def expanded_paths(tree: DraftTree) -> list[list[int]]:
    """Target ids below the root of each expanded node, in the order of the rows of q."""
    assert tree.pool is not None
    paths = []
    for entry in tree.expanded.tolist():
        path: list[int] = []
        while entry >= 0:
            path.insert(0, int(tree.pool.token[entry]))
            entry = int(tree.pool.parent[entry])
        paths.append(path)
    return paths


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert (found.double() - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("case", SWITCHES)
def test_q_of_every_expanded_node_equals_the_definition_along_its_path(case: str) -> None:
    weights, (tokens, taps) = weights_of(case), text_and_taps()
    draft = Eagle3Draft(weights, shared_target())
    draft.extend(taps, tokens)
    tree = draft.propose(tokens[-1], SHAPE, no_mark)
    paths, reference = expanded_paths(tree), Reference(weights, shared_target())
    assert sorted(len(path) for path in paths) == [0] + [1] * 3 + [2] * 3 + [3] * 3
    for row, path in zip(torch.cat(tree.q_logprobs), paths, strict=True):
        assert_close(row, reference.logits(taps, tokens, path).log_softmax(-1))


@pytest.mark.parametrize("case", VISIBLE)
def test_every_switch_changes_q(case: str) -> None:
    """Else the comparison above could not see a switch that is ignored."""
    weights, (tokens, taps) = weights_of(case), text_and_taps()
    plain = {f.name: f.default for f in fields(Eagle3Architecture) if f.name in SWITCHES[case]}
    plain |= {"num_layers": 1} if "num_layers" in SWITCHES[case] else {}
    plain |= {"rope_theta": 10000.0} if "rope_theta" in SWITCHES[case] else {}
    tensors = {n: t for n, t in weights.tensors.items() if not n.endswith(".bias")}
    other = Eagle3Weights(replace(weights.architecture, **plain), tensors, weights.d2t)
    path = [int(i) for i in Reference(weights, shared_target()).ids[:2]]
    right, wrong = (
        Reference(w, shared_target()).logits(taps, tokens, path) for w in (weights, other)
    )
    assert (right - wrong).abs().max() > 0.01 * right.abs().max()


@pytest.mark.parametrize("case", ["published", "sliding_window", "everything"])
def test_a_sampled_chain_keeps_the_tempered_q_of_its_path(case: str) -> None:
    weights, (tokens, taps) = weights_of(case), text_and_taps()
    draft = Eagle3Draft(weights, shared_target())
    draft.extend(taps, tokens)
    tree = draft.propose_sampled(tokens[-1], TreeShape(5, 3, 1), Sampling(0.7), Draws(1), no_mark)
    reference = Reference(weights, shared_target())
    chain = tree.token[1:].tolist()
    assert len(chain) == 4
    for level, row in enumerate(torch.cat(tree.q_logprobs)):
        logits = reference.logits(taps, tokens, chain[:level])
        assert_close(row, (logits / 0.7).log_softmax(-1))


@pytest.mark.parametrize("case", ["published", "sliding_window", "num_layers", "everything"])
def test_state_after_cycles_is_that_of_a_fresh_draft_on_true_features(case: str) -> None:
    """Nothing of a tree survives it: keys of verified positions come from the target's taps."""
    weights, text = weights_of(case), random_ids(N + 13, 21)
    taps = shared_target().prefill(text[:-1]).features
    cycled, fresh = (Eagle3Draft(weights, shared_target()) for _ in range(2))
    start = 0
    for end in (N, N + 1, N + 5, N + 6, N + 12):
        cycled.extend(taps[start:end], text[start + 1 : end + 1])
        cycled.propose(text[end], SHAPE, no_mark)
        start = end
    fresh.extend(taps, text[1:])
    reference = Reference(weights, shared_target()).logits(taps, text[1:], [])
    for draft in (cycled, fresh):
        assert_close(draft.root_logits(), reference)
    trees = [draft.propose(text[-1], SHAPE, no_mark) for draft in (cycled, fresh)]
    assert torch.equal(trees[0].token, trees[1].token)
    assert_close(torch.cat(trees[0].q_logprobs), torch.cat(trees[1].q_logprobs).double())


def test_the_cache_of_the_draft_grows_within_a_text_and_within_a_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("feature_draft", "rope"):
        monkeypatch.setattr(f"eagle3_viz.drafts.{module}.GROWTH_STEP", 4)
    weights, (tokens, taps) = weights_of("published"), text_and_taps()
    draft = Eagle3Draft(weights, shared_target())
    draft.extend(taps[:3], tokens[:3])
    draft.extend(taps[3:], tokens[3:])
    tree = draft.propose(tokens[-1], SHAPE, no_mark)
    reference = Reference(weights, shared_target())
    for row, path in zip(torch.cat(tree.q_logprobs), expanded_paths(tree), strict=True):
        assert_close(row, reference.logits(taps, tokens, path).log_softmax(-1))


def test_a_second_tree_from_the_same_state_is_the_same() -> None:
    draft, (tokens, taps) = tiny_draft(shared_target()), text_and_taps()
    draft.extend(taps, tokens)
    first, second = (draft.propose(tokens[-1], SHAPE, no_mark) for _ in range(2))
    assert torch.equal(torch.cat(first.q_logprobs), torch.cat(second.q_logprobs))
    assert torch.equal(first.token, second.token)


def test_reset_forgets_the_text() -> None:
    draft, (tokens, taps) = tiny_draft(shared_target()), text_and_taps()
    draft.extend(taps, tokens)
    expected = draft.root_logits().clone()
    draft.extend(taps.flip(0), tokens[::-1])
    draft.start(0)
    draft.extend(taps, tokens)
    assert torch.equal(draft.root_logits(), expected)


def test_draft_ids_become_target_ids_through_the_offsets() -> None:
    weights = weights_of("published")
    draft = Eagle3Draft(weights, shared_target())
    shifted = [i + int(offset) for i, offset in enumerate(weights.d2t)]
    assert draft.target_ids.tolist() == shifted
    whole = Eagle3Draft(weights_of("full_vocabulary"), shared_target())
    assert whole.target_ids.tolist() == list(range(61))


def test_parameters_count_what_was_trained() -> None:
    weights = weights_of("published")
    expected = sum(tensor.numel() for tensor in weights.tensors.values())
    assert Eagle3Draft(weights, shared_target()).parameters == expected


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"target_hidden_size": 40, "own_embedding": True}, "width 40.*has 32"),
        ({"vocab_size": 60}, "60 tokens.*61"),
        ({"hidden_size": 24}, "no embedding of its own"),
        ({"num_taps": 4}, "reads 4 taps"),
    ],
)
def test_a_draft_of_another_target_is_refused_in_one_sentence(changes: dict, told: str) -> None:
    weights = tiny_weights(tiny_architecture(shared_target(), **changes))
    with pytest.raises(CheckpointError, match=told) as caught:
        Eagle3Draft(weights, shared_target())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layers", [1, 2, 4, 5, 6])
def test_a_target_with_fewer_than_seven_layers_is_refused_for_drafting(layers: int) -> None:
    target = tiny_target(num_hidden_layers=layers)
    with pytest.raises(CheckpointError, match="7 layers or more"):
        tiny_draft(target)


def test_seven_layers_are_enough() -> None:
    target = tiny_target(num_hidden_layers=7)
    assert target.taps.boundaries == (2, 3, 4)
    tiny_draft(target)
