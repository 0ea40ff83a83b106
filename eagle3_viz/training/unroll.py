"""The training-time test: every anchor drafts a chain of its own (MATH.md 3, REFERENCE.md g).

The draft of `drafts/eagle3.py` in a form that is trained: packed conversations, gradient through
the state that is fed back, and queries, MLP and head only at anchors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.functional import embedding, linear

from eagle3_viz.drafts.architecture import Eagle3Architecture
from eagle3_viz.training.batches import Batch
from eagle3_viz.training.chains import ChainLayer, Heads, draft_chains


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


class _Layer(ChainLayer):
    """The decoder layer, its projections split into the token's and the feature's share."""

    def __init__(
        self,
        arch: Eagle3Architecture,
        tensors: Mapping[str, torch.Tensor],
        embeddings: torch.Tensor,
        features: torch.Tensor,
        batch: Batch,
    ) -> None:
        super().__init__(arch, tensors)
        self._features, self._fc, self._batch = features, tensors["fc.weight"], batch
        of_token, self._of_feature = self.projections().split(arch.hidden_size, dim=1)
        # A token's share of q, k and v is the same at every step that feeds it.
        embedded = embedding(batch.tokens, embeddings).to(features.dtype)
        self._shares = linear(self.norm(embedded, "input_layernorm"), of_token)

    def read(self) -> tuple[torch.Tensor, Heads]:
        g = linear(self._features, self._fc)
        normed = self.norm(g, "hidden_norm")
        fed, rows = self._batch.fed[0], self._batch.anchors
        width = self.arch.num_heads * self.arch.head_dim
        of_query, of_rest = self._of_feature[:width], self._of_feature[width:]
        q = self.heads(self._shares[fed[rows], :width] + linear(normed[rows], of_query))
        k, v = self.heads(self._shares[fed, width:] + linear(normed, of_rest)).chunk(2, dim=1)
        return g[rows], (q, k, v)

    def feed(self, step: int, output: torch.Tensor) -> tuple[torch.Tensor, Heads]:
        share = self._shares[self._batch.fed[step][self._batch.anchors]]
        normed = self.norm(output, "hidden_norm")
        return output, self.split(share + linear(normed, self._of_feature))
