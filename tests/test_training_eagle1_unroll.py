"""EAGLE-1 unrolled for training against transformers' own Llama layer, anchor by anchor."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from transformers import LlamaConfig, LlamaModel

from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights
from eagle3_viz.training.batches import pack
from eagle3_viz.training.eagle1_objective import fresh_eagle1
from eagle3_viz.training.eagle1_unroll import unroll_eagle1
from eagle3_viz.training.features import Example
from tests.tiny_models import VOCABULARY, random_ids, shared_target

STEPS = 3
WIDTH = 32
ARCHITECTURE = Eagle1Architecture(
    hidden_size=WIDTH,
    intermediate_size=40,
    num_layers=1,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    vocab_size=VOCABULARY,
    rms_norm_eps=1e-5,
    rope_theta=500.0,
)


def weights(**switches: bool) -> Eagle1Weights:
    """Every tensor random: no norm is 1 and no bias is 0."""
    made = fresh_eagle1(replace(ARCHITECTURE, **switches), seed=3)
    generator = torch.Generator().manual_seed(4)
    for tensor in made.tensors.values():
        if tensor.ndim == 1:
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)
    return made


def example(tokens: int, start: int, seed: int) -> Example:
    """Random text with random states, a tenth of them far off; arg-maxima as the states say."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, WIDTH, generator=generator)
    hidden *= 1 + 9 * (torch.rand(hidden.shape, generator=generator) < 0.1)
    top = linear(hidden, shared_target().head).argmax(-1)
    top[:start] = -1
    ids = torch.tensor(random_ids(tokens, seed))
    return Example(ids, torch.empty(tokens, 0), hidden, top, start, "d")


EXAMPLES = [example(*size, seed) for seed, size in enumerate([(9, 3), (5, 4), (6, 1), (14, 5)])]


class SlowDraft:
    """The head built from transformers' Llama: whole sequences, one anchor at a time."""

    def __init__(self, weights: Eagle1Weights) -> None:
        arch = weights.architecture
        config = LlamaConfig(
            vocab_size=1,
            bos_token_id=None,
            eos_token_id=None,
            hidden_size=arch.hidden_size,
            intermediate_size=arch.intermediate_size,
            num_hidden_layers=1,
            num_attention_heads=arch.num_heads,
            num_key_value_heads=arch.num_kv_heads,
            head_dim=arch.head_dim,
            rms_norm_eps=arch.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": arch.rope_theta},
            attn_implementation="eager",
        )
        self.model = LlamaModel(config)
        self.model.layers[0].input_layernorm = nn.Identity()
        self.model.norm = nn.Identity()
        layer = {n: t for n, t in weights.tensors.items() if n.startswith("layers.0.")}
        missing = self.model.load_state_dict(layer, strict=False)
        assert missing.missing_keys == ["embed_tokens.weight"]
        self.fc, self.bias = weights.tensors["fc.weight"], weights.tensors.get("fc.bias")

    def join(self, token: torch.Tensor, feature: torch.Tensor) -> torch.Tensor:
        return linear(torch.cat([shared_target().embedding[token], feature]), self.fc, self.bias)

    @torch.no_grad()
    def chain(self, e: Example, anchor: int, steps: int) -> list[torch.Tensor]:
        """Outputs [d] from `anchor` on, as many as predict a token that exists."""
        states = [self.join(e.ids[i + 1], e.hidden[i]) for i in range(anchor + 1)]
        outputs: list[torch.Tensor] = []
        for step in range(min(steps, len(e.ids) - anchor - 2)):
            if step:
                states.append(self.join(e.ids[anchor + 1 + step], outputs[-1]))
            found = self.model(inputs_embeds=torch.stack(states)[None], use_cache=False)
            outputs.append(found.last_hidden_state[0, -1])
        return outputs


def anchors() -> list[tuple[Example, int]]:
    """Of every row of a batch of EXAMPLES: conversation and position."""
    return [(e, i) for e in EXAMPLES for i in range(e.response_start - 1, len(e.ids) - 2)]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_every_anchor_drafts_what_the_head_computes_alone(bias: bool) -> None:
    made = weights(fc_bias=bias)
    slow, batch = SlowDraft(made), pack(EXAMPLES, STEPS, "hidden")
    embeddings = shared_target().embedding
    found = unroll_eagle1(made.architecture, made.tensors, embeddings, batch.features, batch, STEPS)
    compared = 0
    for row, (e, anchor) in enumerate(anchors()):
        for step, expected in enumerate(slow.chain(e, anchor, STEPS)):
            torch.testing.assert_close(found[step][row], expected, rtol=1e-5, atol=1e-5)
            compared += 1
    assert compared == int(batch.valid.sum()) > 40
