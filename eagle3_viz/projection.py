"""A matrix product with a weight that never changes.

On a CPU oneDNN reads a weight in an order of its own. torch's `linear` brings it into that order,
or works around it, in every call; done once, a product of one or a few rows in bfloat16 takes half
the time (docs/results). A model of ours decodes from such a copy, autoregression and verification
alike. In float32 torch has a product of its own for the fewest rows, and the copy is for more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn.functional import linear

LARGEST_COPY = 1 << 30  # bytes; above it a second copy of a model's weights may not fit


class Weight(NamedTuple):
    """matrix [out, in], its reordered copy, or both; bias [out]; few: so many rows skip the copy.

    TorchScript reads the annotations: in this file they are not postponed.
    """

    matrix: torch.Tensor | None
    copy: torch.Tensor | None
    bias: torch.Tensor | None
    few: int


class Projection:
    """y = x W^T + b for x [.., in]; W is the rows of `weights` one under the other, [out, in].

    joined: those rows in memory, [out, in], or None where only the reordered copy is needed.
    width: in.
    """

    def __init__(
        self,
        weights: Sequence[torch.Tensor],  # each [out_i, in]
        biases: Sequence[torch.Tensor] = (),  # each [out_i]
        *,
        reorder: bool = True,
    ) -> None:
        joined = weights[0] if len(weights) == 1 else torch.cat(list(weights))
        bias = torch.cat(list(biases)) if biases else None
        copy, few = None, 0
        if reorder and can_reorder(joined.device, joined.dtype):
            copy = torch.ops.mkldnn._reorder_linear_weight(joined)
            few = few_rows(joined.dtype)
        self.joined = joined if copy is None or few else None
        self.weight = Weight(self.joined, copy, bias, few)
        self.width = joined.shape[1]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[.., out]"""
        return product(x, self.weight)


def linears_of(module: torch.nn.Module) -> list[Projection]:
    """The linear layers within a module, multiplied as transformers multiplies them."""
    linears = [part for part in module.modules() if isinstance(part, torch.nn.Linear)]
    return [Projection([linear.weight.detach()], reorder=False) for linear in linears]


def product(x: torch.Tensor, weight: Weight) -> torch.Tensor:
    """x W^T + b."""
    matrix, copy = weight.matrix, weight.copy
    if copy is None or (matrix is not None and x.numel() <= weight.few * x.shape[-1]):
        assert matrix is not None
        return linear(x, matrix, weight.bias)
    out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, copy, weight.bias, "none", [], "")
    return out


def few_rows(dtype: torch.dtype) -> int:
    """Rows up to which torch's own product is faster here than one with the copy (docs/results).

    By kind of CPU and not by a measurement, so that a seed gives the same trace every time.
    """
    if dtype != torch.float32:
        return 0
    return 3 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 1


def can_reorder(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN has products of this number format on this device, as inductor asks it."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if dtype == torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return dtype == torch.float32
