"""The training-time test: every anchor drafts a chain of its own (MATH.md 3, REFERENCE.md g).

The draft of `drafts/eagle3.py` in a form that is trained: packed conversations, gradient through
the state that is fed back, and queries, MLP and head only at anchors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu

from eagle3_viz.drafts.architecture import Eagle3Architecture
from eagle3_viz.training.batches import Batch
from eagle3_viz.training.chains import Heads, draft_chains

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
    return draft_chains(_Layer(arch, tensors, embeddings, features, batch), batch, steps)


class _Layer:
    """The decoder layer, its projections split into the token's and the feature's share."""

    def __init__(
        self,
        arch: Eagle3Architecture,
        tensors: Mapping[str, torch.Tensor],
        embeddings: torch.Tensor,
        features: torch.Tensor,
        batch: Batch,
    ) -> None:
        self._arch, self._tensors = arch, tensors
        self._features, self._batch = features, batch
        qkv = torch.cat([self._weight(f"self_attn.{name}_proj") for name in "qkv"])
        of_token, self._of_feature = qkv.split(arch.hidden_size, dim=1)
        self._gate_up = torch.cat([self._weight("mlp.gate_proj"), self._weight("mlp.up_proj")])
        # A token's share of q, k and v is the same at every step that feeds it: one product for
        # all.
        embedded = embedding(batch.tokens, embeddings).to(features.dtype)
        self._shares = linear(self._norm(embedded, "input_layernorm"), of_token)

    @property
    def groups(self) -> int:
        return self._arch.num_heads // self._arch.num_kv_heads

    @property
    def rope(self) -> tuple[int, float]:
        return self._arch.head_dim, self._arch.rope_theta

    def read(self) -> tuple[torch.Tensor, Heads]:
        g = linear(self._features, self._tensors["fc.weight"])
        normed = self._norm(g, "hidden_norm")
        fed, rows = self._batch.fed[0], self._batch.anchors
        width = self._arch.num_heads * self._arch.head_dim
        of_query, of_rest = self._of_feature[:width], self._of_feature[width:]
        q = self._heads(self._shares[fed[rows], :width] + linear(normed[rows], of_query))
        k, v = self._heads(self._shares[fed, width:] + linear(normed, of_rest)).chunk(2, dim=1)
        return g[rows], (q, k, v)

    def feed(self, step: int, output: torch.Tensor) -> tuple[torch.Tensor, Heads]:
        share = self._shares[self._batch.fed[step][self._batch.anchors]]
        normed = self._norm(output, "hidden_norm")
        heads = self._heads(share + linear(normed, self._of_feature))
        kv = self._arch.num_kv_heads
        q, k, v = heads.split([self._arch.num_heads, kv, kv], dim=1)
        return output, (q, k, v)

    def finish(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        state = residual + linear(attended.flatten(1), self._weight("self_attn.o_proj"))
        inner = linear(self._norm(state, "post_attention_layernorm"), self._gate_up)
        gate, up = inner.chunk(2, dim=-1)
        return state + linear(silu(gate) * up, self._weight("mlp.down_proj"))

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(x, (x.shape[-1],), self._weight(name), self._arch.rms_norm_eps)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), -1, self._arch.head_dim)

    def _weight(self, name: str) -> torch.Tensor:
        return self._tensors[f"{LAYER}{name}.weight"]
