"""RMSNorm with one operation for its statistics, on a CPU too."""

from __future__ import annotations

import torch
from torch.nn.functional import layer_norm, rms_norm

from eagle3_viz.scripted import fastest


class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis.

    twice: the weight, two times in a row.
    """

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.twice, self.eps = torch.cat([weight, weight]), eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[.., width]"""
        return fastest(normed, x)(x, self.twice, self.eps)


def normed(x: torch.Tensor, twice: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm of x [.., width], with the parts of an `RmsNorm`.

    On a CPU torch's own takes eleven operations and layer norm one. The mean of [x, -x] is zero and
    its variance the mean square of x: so layer norm gives the same, its statistics in float32.
    """
    width = x.shape[-1]
    if x.device.type != "cpu":
        return rms_norm(x, [width], twice[:width], eps)
    return layer_norm(torch.cat([x, -x], -1), [2 * width], twice, None, eps)[..., :width]
