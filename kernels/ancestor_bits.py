"""Who sees whom in a token tree, 64 nodes a word: the form in which kernels read it (MATH.md 2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

WORD_BITS = 64
MAX_ROWS = 256  # four words


@dataclass(frozen=True)
class TreeMask:
    """What T queries see of the keys: every key of the prefix, and some of the S behind it.

    The tree's S keys stand in the cache right behind the prefix of their text; the T queries are
    the last T of these rows. In a verification S = T; a draft level queries its newest rows.

    words           int64 [1 or B, T, W], as `pack_visible` packs them; bits from S on are zero.
    prefix_lengths  int32 or int64 [B], keys of each text in front of its tree; 0 is allowed.
    rows            S, at least T and at most MAX_ROWS.
    depth           int32 or int64 [1 or B, S], levels below the root; only a window needs it.

    Nothing is read back from the device: the tensors may be the static buffers of a CUDA graph.
    """

    words: torch.Tensor
    prefix_lengths: torch.Tensor
    rows: int
    depth: torch.Tensor | None = None

    @classmethod
    def pack(
        cls,
        visible: torch.Tensor,  # bool [T, S], or [B, T, S] by text
        prefix_lengths: torch.Tensor,  # int32 or int64 [B]
        depth: torch.Tensor | None = None,  # int32 or int64 [S], or [B, S] by text
    ) -> TreeMask:
        """The mask of an ancestor matrix. Raises ValueError for more than MAX_ROWS columns."""
        words = pack_visible(visible if visible.ndim == 3 else visible[None])
        by_text = depth if depth is None or depth.ndim == 2 else depth[None]
        return cls(words, prefix_lengths, visible.shape[-1], by_text)


def pack_visible(
    visible: torch.Tensor,  # bool [..., S]
    out: torch.Tensor | None = None,  # int64 [..., W]
) -> torch.Tensor:
    """Bit j % 64 of word j // 64 says whether column j is seen; int64 [..., W], W = ceil(S / 64).

    Raises ValueError for more than MAX_ROWS columns, or none.
    """
    columns = visible.shape[-1]
    if not 0 < columns <= MAX_ROWS:
        raise ValueError(
            f"a tree mask has 1 to {MAX_ROWS} columns, found {columns}: verify a smaller tree"
        )
    padded = torch.nn.functional.pad(visible, (0, -columns % WORD_BITS))
    bits = torch.arange(WORD_BITS, device=visible.device)
    by_word = padded.unflatten(-1, (-1, WORD_BITS)).long() << bits
    return torch.sum(by_word, -1, out=out)  # distinct bits: the sum is their union


def unpack_visible(
    words: torch.Tensor,  # int64 [..., W]
    columns: int,
) -> torch.Tensor:
    """The inverse of `pack_visible`: bool [..., columns]."""
    bits = torch.arange(WORD_BITS, device=words.device)
    return ((words[..., None] >> bits) & 1).bool().flatten(-2)[..., :columns]
