"""From logits to the distribution that is sampled, and the seeded draws."""

from __future__ import annotations

from collections import deque
from itertools import islice

import torch

from eagle3_viz.config import Sampling

NUCLEUS_HEAD = 2048  # most nuclei end within this many tokens; a full sort is the exception


def precise(logits: torch.Tensor) -> torch.Tensor:
    """What is computed with: float32, and float64 of a float64 model."""
    return logits if logits.dtype == torch.float64 else logits.float()


def warp(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The target's sampling transform: p for logits [..., V]; float32, float64 for float64.

    temperature, then top-k, then top-p, as transformers orders them. Every token that ties with
    the k-th best stays, as in transformers. Temperature 0 gives a one-hot row at the arg-max
    (the lowest index among ties).
    """
    logits = precise(logits)
    if sampling.temperature == 0.0:
        return torch.zeros_like(logits).scatter_(-1, arg_max(logits)[..., None], 1.0)
    if sampling.temperature != 1.0:
        # relative to the largest, so that a tiny temperature overflows to zero and not to NaN
        logits = (logits - logits.amax(-1, keepdim=True)) / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    p = logits.softmax(-1)
    return _nucleus(p, sampling.top_p) if sampling.top_p < 1.0 else p


def _nucleus(p: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the smallest set of most likely tokens whose mass reaches top_p; renormalize."""
    head = min(NUCLEUS_HEAD, p.shape[-1])
    values, ids = p.topk(head, dim=-1)
    before = values.cumsum(-1) - values
    if head < p.shape[-1] and bool((before[..., -1] < top_p).any()):
        values, ids = p.sort(dim=-1, descending=True, stable=True)
        before = values.cumsum(-1) - values
    kept = values * (before < top_p)
    return torch.zeros_like(p).scatter_(-1, ids, kept / kept.sum(-1, keepdim=True))


def arg_max(logits: torch.Tensor) -> torch.Tensor:
    """Arg-max [...] of logits [..., V]; the lowest index among ties, in every number format.

    A NaN counts as the largest. On a CPU by NumPy, which is ten times as fast as PyTorch at this.
    """
    if logits.device.type == "cpu":
        return torch.as_tensor(precise(logits).detach().numpy().argmax(-1))
    return precise(logits).max(-1).indices


def inverse_transform(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Indices int64 [B] into weights [B, n], drawn in proportion to them by uniform float64 [B].

    In float64; an index of weight zero is never returned.
    """
    cumulative = weights.double().cumsum(-1)
    total = cumulative[:, -1:].contiguous()
    index = torch.searchsorted(cumulative, total * uniform[:, None], right=True)
    last = torch.searchsorted(cumulative, total)  # U * total may round to total
    # Weights that are NaN lie past the end: a CUDA device does not survive such an index.
    return torch.minimum(index, last).clamp(max=weights.shape[-1] - 1)[:, 0]


class Draws:
    """Every random decision of a run, from one seeded generator on the CPU.

    Tests replace it to enumerate all outcomes with their probabilities.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._fresh = torch.empty((), dtype=torch.float64)
        self._value = self._fresh.numpy()
        self._ahead: deque[float] = deque()
        self._drawn: list[float] = []

    def uniform(self) -> float:
        """A fresh U in [0, 1)."""
        u = self.ahead(1)[0]
        self._ahead.popleft()
        self._drawn.append(u)
        return u

    def ahead(self, count: int) -> list[float]:
        """The next `count` of them, none of which counts as drawn."""
        while len(self._ahead) < count:
            torch.rand((), generator=self._generator, out=self._fresh)
            self._ahead.append(float(self._value))
        return list(islice(self._ahead, count))

    def take(self) -> tuple[float, ...]:
        """Every U drawn since the last call, in order."""
        drawn, self._drawn = tuple(self._drawn), []
        return drawn

    def accepts(self, probability: float) -> tuple[bool, float]:
        """Whether a fresh U falls strictly below `probability`, and U."""
        u = self.uniform()
        return u < probability, u

    def token(self, weights: torch.Tensor) -> torch.Tensor:
        """An index, int64 scalar on the device of `weights` [n], drawn in proportion to them.

        `inverse_transform` of a fresh U.
        """
        uniform = torch.tensor([self.uniform()], dtype=torch.float64, device=weights.device)
        return inverse_transform(weights[None], uniform)[0]
