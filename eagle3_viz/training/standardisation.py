"""The spread of the target's features, by which fc's input is divided while it is trained.

The taps differ eight-fold in size and single dimensions a hundred-fold; a draft trained on raw
features learns the small ones last. The scale is folded into fc on export, so the published
layout does not know of it.
"""

from __future__ import annotations

import torch

from eagle3_viz.training.batches import Source
from eagle3_viz.training.features import FeatureStore

SAMPLE = 512  # conversations


def feature_scale(store: FeatureStore, source: Source = "taps") -> torch.Tensor:
    """Standard deviation of each dimension of the features, float32 [F], from a fixed sample.

    Position 0 is left out: it is an attention sink with values a thousand times larger.
    """
    chosen = range(min(len(store), SAMPLE))
    count, total, squares = 0, torch.tensor(0.0), torch.tensor(0.0)
    for index in chosen:
        example = store[index]
        rows = (example.taps if source == "taps" else example.hidden)[1:].double()
        count += len(rows)
        total, squares = total + rows.sum(0), squares + rows.square().sum(0)
    variance = squares / count - (total / count).square()
    return variance.clamp(min=1e-12).sqrt().float()
