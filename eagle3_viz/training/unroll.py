"""The training-time test: every anchor drafts a chain of its own (MATH.md 3, REFERENCE.md g).

The draft of `drafts/eagle3.py` in a form that is trained: packed conversations, gradient through
the state that is fed back, and queries, MLP and head only at anchors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu

from eagle3_viz.drafts.architecture import Eagle3Architecture
from eagle3_viz.training.anchored_attention import anchored_attention, block_masks
from eagle3_viz.training.batches import Batch

LAYER = "layers.0."


def unroll(
    arch: Eagle3Architecture,
    tensors: Mapping[str, torch.Tensor],
    embeddings: torch.Tensor,  # [V, H], the target's
    features: torch.Tensor,  # [N, K * d], what fc reads
    batch: Batch,
    steps: int,
) -> list[torch.Tensor]:
    """Outputs [R, H] before the final norm of every anchor at each of `steps` steps.

    `tensors` are named as `Eagle3Architecture.tensor_shapes` and may be in any floating format;
    only the published switches are trained.
    """
    layer = _Layer(arch, tensors)
    dtype, rows = features.dtype, batch.anchors
    cos, sin = _rope(arch, batch, steps, dtype)
    masks = block_masks(batch.spans, arch.num_heads // arch.num_kv_heads, dtype, features.device)
    # A token's share of q, k and v is the same at every step that feeds it: one product for all.
    shares = layer.token_shares(embedding(batch.tokens, embeddings).to(dtype))
    g = linear(features, tensors["fc.weight"])
    state = g[rows]
    outputs: list[torch.Tensor] = []
    guesses: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for step in range(steps):
        at = batch.positions[rows] + step
        if step == 0:
            normed = layer.norm(g, "hidden_norm")
            k, v = layer.keys_values(shares[batch.fed[0]], normed)
            keys, values = _rotate(k, cos[batch.positions], sin[batch.positions]), v
            q = layer.queries(shares[batch.fed[0][rows]], normed[rows])
        else:
            normed = layer.norm(state, "hidden_norm")
            q, k, v = layer.queries_keys_values(shares[batch.fed[step][rows]], normed)
            guesses[0].append(_rotate(k, cos[at], sin[at]))
            guesses[1].append(v)
        q = _rotate(q, cos[at], sin[at])
        attended = anchored_attention(q, keys, values, *guesses, batch.spans, masks)
        state = layer.finish(state, attended)
        outputs.append(state)
    return outputs


class _Layer:
    """The decoder layer, its projections split into the token's and the feature's share."""

    def __init__(self, arch: Eagle3Architecture, tensors: Mapping[str, torch.Tensor]) -> None:
        self._arch, self._tensors = arch, tensors
        qkv = torch.cat([self._weight(f"self_attn.{name}_proj") for name in "qkv"])
        self._of_token, self._of_feature = qkv.split(arch.hidden_size, dim=1)
        self._gate_up = torch.cat([self._weight("mlp.gate_proj"), self._weight("mlp.up_proj")])
        self._query_width = arch.num_heads * arch.head_dim

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(x, (x.shape[-1],), self._weight(name), self._arch.rms_norm_eps)

    def token_shares(self, embedded: torch.Tensor) -> torch.Tensor:
        return linear(self.norm(embedded, "input_layernorm"), self._of_token)

    def queries(self, share: torch.Tensor, feature: torch.Tensor) -> torch.Tensor:
        width = self._query_width
        return self._heads(share[:, :width] + linear(feature, self._of_feature[:width]))

    def keys_values(
        self, share: torch.Tensor, feature: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        width = self._query_width
        both = self._heads(share[:, width:] + linear(feature, self._of_feature[width:]))
        k, v = both.chunk(2, dim=1)
        return k, v

    def queries_keys_values(
        self, share: torch.Tensor, feature: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        kv = self._arch.num_kv_heads
        heads = self._heads(share + linear(feature, self._of_feature))
        return heads.split([self._arch.num_heads, kv, kv], dim=1)

    def finish(self, state: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """The layer's output from its residual and the attention [R, heads, hd]."""
        state = state + linear(attended.flatten(1), self._weight("self_attn.o_proj"))
        inner = linear(self.norm(state, "post_attention_layernorm"), self._gate_up)
        gate, up = inner.chunk(2, dim=-1)
        return state + linear(silu(gate) * up, self._weight("mlp.down_proj"))

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), -1, self._arch.head_dim)

    def _weight(self, name: str) -> torch.Tensor:
        return self._tensors[f"{LAYER}{name}.weight"]


def _rope(
    arch: Eagle3Architecture, batch: Batch, steps: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [positions, 1, hd] of the rotary embedding, half-split form."""
    device = batch.positions.device
    pairs = torch.arange(0, arch.head_dim, 2, dtype=torch.float32, device=device)
    longest = max(span.length for span in batch.spans)
    places = torch.arange(longest + steps, dtype=torch.float32, device=device)
    angles = places[:, None] * (1.0 / arch.rope_theta ** (pairs / arch.head_dim))
    angles = torch.cat([angles, angles], dim=-1)[:, None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [m, heads, hd] turned by the angles [m, 1, hd]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin
