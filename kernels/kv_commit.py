"""Keys and values of the accepted path move to where the committed text ends, for all layers.

The PyTorch form is here; the Triton form, one launch, is in `kv_commit_kernels`.
"""

from __future__ import annotations

import torch

from kernels import implementation
from kernels.launch import on_device, power_of_two

HEADS_A_PROGRAM = 4


def kv_commit(
    buffer: torch.Tensor,  # [L, 2, B, H, capacity, D], any dtype and strides
    path: torch.Tensor,  # int64 [P], rising offsets of nodes behind the committed rows
    kept: torch.Tensor,  # int64 [1], how many of them are kept
    length: torch.Tensor,  # int64 [1], committed rows
) -> None:
    """Copy row length + path[i] to row length + i for i < kept, in place, in every layer.

    What `path` holds from `kept` on is not looked at. Sources and destinations may overlap: since
    path rises, path[i] >= i, and no row is overwritten before it was read. The caller sees to
    length + P <= capacity, since looking would wait for the device; nothing is allocated under
    Triton, and a CUDA graph can replay the call. Raises ValueError for arguments of other shapes,
    and what `implementation` raises.
    """
    _refuse_misfits(buffer, path, kept, length)
    if implementation(buffer.device.type) == "torch":
        return kv_commit_torch(buffer, path, kept, length)
    return kv_commit_triton(buffer, path, kept, length)


def kv_commit_torch(
    buffer: torch.Tensor,  # [L, 2, B, H, capacity, D]
    path: torch.Tensor,  # int64 [P]
    kept: torch.Tensor,  # int64 [1]
    length: torch.Tensor,  # int64 [1]
) -> None:
    """`kv_commit` in PyTorch's operations, without waiting for the device.

    All P rows are copied: those that are not kept, onto themselves.
    """
    places = torch.arange(len(path), device=path.device)
    sources = torch.where(places < kept, path, places) + length
    buffer.index_copy_(4, places + length, buffer.index_select(4, sources))


def kv_commit_triton(
    buffer: torch.Tensor,  # [L, 2, B, H, capacity, D]
    path: torch.Tensor,  # int64 [P]
    kept: torch.Tensor,  # int64 [1]
    length: torch.Tensor,  # int64 [1]
) -> None:
    """`kv_commit` as one Triton launch."""
    from kernels.kv_commit_kernels import move_rows

    layers, sides, texts, heads, _, head_dim = buffer.shape
    block_h = min(power_of_two(heads), HEADS_A_PROGRAM)
    with on_device(buffer):
        move_rows[(layers * sides, texts, -(-heads // block_h))](
            buffer, path, kept, length, sides, heads, head_dim, buffer.stride(),
            BLOCK_H=block_h, BLOCK_D=power_of_two(head_dim), num_warps=2,
        )  # fmt: skip


def _refuse_misfits(
    buffer: torch.Tensor, path: torch.Tensor, kept: torch.Tensor, length: torch.Tensor
) -> None:
    if buffer.ndim != 6 or buffer.shape[1] != 2:
        raise ValueError(
            "buffer must be [layers, 2, texts, heads, capacity, head size], keys and values of "
            f"all layers; found {list(buffer.shape)}"
        )
    if path.ndim != 1 or len(path) > buffer.shape[4]:
        raise ValueError(
            f"path must be int64 of at most {buffer.shape[4]} entries, the capacity; found "
            f"{list(path.shape)}"
        )
    for name, tensor, shape in (
        ("path", path, path.shape),
        ("kept", kept, (1,)),
        ("length", length, (1,)),
    ):
        if tensor.dtype != torch.int64 or tensor.shape != shape or not tensor.is_contiguous():
            raise ValueError(
                f"{name} must be contiguous int64 {list(shape)}; found {tensor.dtype} "
                f"{list(tensor.shape)}"
            )
