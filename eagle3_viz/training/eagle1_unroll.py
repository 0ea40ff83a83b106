"""The EAGLE-1 head as a layer of drafted chains (REFERENCE.md c, FORMATS.md 3A).

Trained for one step; unrolled, as at inference, for held-out accuracy at later ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.functional import embedding, linear

from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture
from eagle3_viz.training.batches import Batch
from eagle3_viz.training.chains import ChainLayer, Heads, draft_chains


def unroll_eagle1(
    arch: Eagle1Architecture,
    tensors: Mapping[str, torch.Tensor],
    embeddings: torch.Tensor,  # [V, d], the target's
    features: torch.Tensor,  # [N, d], the target's final states
    batch: Batch,
    steps: int,
) -> list[torch.Tensor]:
    """Outputs [R, d], read by the target's LM head as they are, of every anchor at each step.

    `tensors` are named as `Eagle1Architecture.tensor_shapes` and may be in any floating format.
    """
    return draft_chains(_Layer(arch, tensors, embeddings, features, batch), batch, steps)


class _Layer(ChainLayer):
    """fc joins token and feature; the layer behind it has no norm before its attention."""

    def __init__(
        self,
        arch: Eagle1Architecture,
        tensors: Mapping[str, torch.Tensor],
        embeddings: torch.Tensor,
        features: torch.Tensor,
        batch: Batch,
    ) -> None:
        super().__init__(arch, tensors)
        self._features, self._batch, self._qkv = features, batch, self.projections()
        of_token, self._of_feature = tensors["fc.weight"].split(arch.hidden_size, dim=1)
        embedded = embedding(batch.tokens, embeddings).to(features.dtype)
        self._shares = linear(embedded, of_token, tensors.get("fc.bias"))

    def read(self) -> tuple[torch.Tensor, Heads]:
        x = self._shares[self._batch.fed[0]] + linear(self._features, self._of_feature)
        residual = x[self._batch.anchors]
        width = self.arch.num_heads * self.arch.head_dim
        q = self.heads(linear(residual, self._qkv[:width]))
        k, v = self.heads(linear(x, self._qkv[width:])).chunk(2, dim=1)
        return residual, (q, k, v)

    def feed(self, step: int, output: torch.Tensor) -> tuple[torch.Tensor, Heads]:
        share = self._shares[self._batch.fed[step][self._batch.anchors]]
        x = share + linear(output, self._of_feature)
        return x, self.split(linear(x, self._qkv))
