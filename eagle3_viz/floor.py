"""The least time a forward can take: its matrix products alone, one after the other.

What a forward takes beyond that is attention, norms, positions and the calls between them. A cycle
of speculation has the products of the verification and those of the draft's levels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.projection import Projection
from eagle3_viz.target import TargetModel

Products = Sequence[tuple[Projection, int]]  # each with the rows that it multiplies


def forward_products(target: TargetModel, rows: int) -> Products:
    """The products of one target forward of `rows` tokens, in order."""
    return [(product, rows) for product in target.projections]


def draft_products(draft: FeatureDraft, shape: TreeShape, committed: int) -> Products:
    """Those of a cycle's draft: `committed` positions taken over, then the levels of its tree."""
    *body, head = draft.projections
    taken_over = [*((product, committed) for product in body), (head, 1)]
    level = [(product, shape.top_k) for product in draft.level_projections]
    return [*taken_over, *(level * shape.depth)]


@torch.inference_mode()
def inputs_of(products: Products, dtype: torch.dtype, device: torch.device) -> list[torch.Tensor]:
    """An input for each of them, [rows, in]."""
    shapes = [(rows, product.width) for product, rows in products]
    return [torch.ones(shape, dtype=dtype, device=device) for shape in shapes]


@torch.inference_mode()
def run_products(products: Products, inputs: Sequence[torch.Tensor]) -> None:
    """All of them, their results unused."""
    for (product, _), rows in zip(products, inputs, strict=True):
        product(rows)
