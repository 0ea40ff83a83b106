"""The least time a forward can take: its matrix products alone, one after the other.

What a forward takes beyond that is attention, norms, positions and the calls between them. A cycle
of speculation has the products of the verification and those of the draft's levels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.projection import Projection
from eagle3_viz.target import TargetModel

REPEATS = 7
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
def products_ms(products: Products, dtype: torch.dtype, device: torch.device) -> float:
    """Median milliseconds of all of them, one after the other, their results unused."""
    return median_ms(_multiplying(products, dtype, device), device)


@torch.inference_mode()
def products_once_ms(products: Products, dtype: torch.dtype, device: torch.device) -> float:
    """Milliseconds of multiplying them once, with whatever the caches hold now."""
    return _once_ms(_multiplying(products, dtype, device), device)


def median_ms(work: Callable[[], None], device: torch.device) -> float:
    """Median milliseconds of `work`, after one call that is not counted."""
    took = [_once_ms(work, device) for _ in range(1 + REPEATS)]
    return median(took[1:])


def _multiplying(
    products: Products, dtype: torch.dtype, device: torch.device
) -> Callable[[], None]:
    inputs = [
        torch.ones(rows, product.width, dtype=dtype, device=device) for product, rows in products
    ]

    def run() -> None:
        for (product, _), own in zip(products, inputs, strict=True):
            product(own)

    return run


def _once_ms(work: Callable[[], None], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - start)
