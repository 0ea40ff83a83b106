"""The EAGLE-1 head in tests: random weights, and a slow second reading of its definition."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import LlamaConfig, LlamaModel

from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights
from eagle3_viz.training.eagle1_objective import fresh_eagle1
from tests.tiny_models import VOCABULARY, shared_target

EAGLE1 = Eagle1Architecture(
    hidden_size=32,
    intermediate_size=40,
    num_layers=1,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    vocab_size=VOCABULARY,
    rms_norm_eps=1e-5,
    rope_theta=500.0,
)


def eagle1_weights(**switches: bool) -> Eagle1Weights:
    """Every tensor random: no norm is 1 and no bias is 0."""
    made = fresh_eagle1(replace(EAGLE1, **switches), seed=3)
    generator = torch.Generator().manual_seed(4)
    for tensor in made.tensors.values():
        if tensor.ndim == 1:
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)
    return made


class SlowDraft:
    """The head built from transformers' Llama: whole sequences, nothing kept between calls."""

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
    def last(self, states: list[torch.Tensor]) -> torch.Tensor:
        """Output [d] at the last of the joined states [d]."""
        found = self.model(inputs_embeds=torch.stack(states)[None], use_cache=False)
        output: torch.Tensor = found.last_hidden_state[0, -1]
        return output
