"""Packed training batches: conversations end to end, no padding, anchors where there is a loss."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from eagle3_viz.training.features import Example

Source = Literal["taps", "hidden"]


@dataclass(frozen=True)
class Span:
    """One conversation inside a packed batch.

    Rows `first` to `first + length` of the batch are its positions 0, 1, ...; its anchors are the
    positions `anchor` to `length`, rows `row` onwards of everything that is computed for anchors.
    """

    first: int
    length: int
    anchor: int
    row: int

    @property
    def anchors(self) -> int:
        return self.length - self.anchor


@dataclass(frozen=True)
class Batch:
    """Several conversations packed for S unroll steps: U tokens, N positions, R anchors, T targets.

    Position i holds the feature of token i and is fed token i + 1; anchor i at step s predicts
    token i + 2 + s (MATH.md 3). The last two tokens of a conversation have nothing to predict, so
    they are no positions.

    features    [N, F], what the draft reads of the target: its taps, or its final states.
    tokens      int64 [U], all tokens of the conversations.
    fed         int64 [S, N], row of `tokens` fed at step s: token i + 1 + s (or the last one).
    positions   int64 [N], place in the conversation.
    anchors     int64 [R], rows of the positions that are anchors.
    hidden      [T, d], the target's final states that targets are computed from.
    top         int64 [T], the target's arg-max after each of them.
    targets     int64 [S, R], row of `hidden` that anchor r predicts from at step s.
    valid       bool [S, R], whether token i + 2 + s exists.
    domains     domain of each span.
    """

    features: torch.Tensor
    tokens: torch.Tensor
    fed: torch.Tensor
    positions: torch.Tensor
    anchors: torch.Tensor
    hidden: torch.Tensor
    top: torch.Tensor
    targets: torch.Tensor
    valid: torch.Tensor
    spans: tuple[Span, ...]
    domains: tuple[str, ...]

    def to(self, device: torch.device) -> Batch:
        """The same batch with its tensors on `device`."""
        moved: dict[str, Any] = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, torch.Tensor)
        }
        return replace(self, **moved)


def pack(examples: Sequence[Example], steps: int, source: Source = "taps") -> Batch:
    """One batch of `examples` for `steps` unroll steps.

    The first anchor is the last prompt token: the first draft of an answer is made when the
    target has written the answer's first token. Examples without a prediction are left out.
    """
    spans, fed, targets, valid = [], [], [], []
    features, hidden, tops = [], [], []
    rows = positions = tokens = target_rows = 0
    kept = [e for e in examples if anchors_of(len(e.ids), e.response_start)]
    shift = torch.arange(steps)[:, None]
    for example in kept:
        n, start = len(example.ids), example.response_start
        span = Span(positions, n - 2, start - 1, rows)
        spans.append(span)
        place = torch.arange(n - 2)
        fed.append(tokens + (place + 1 + shift).clamp(max=n - 1))
        anchors = place[span.anchor :]
        features.append((example.taps if source == "taps" else example.hidden)[: n - 2])
        hidden.append(example.hidden[start : n - 1])
        tops.append(example.top[start : n - 1])
        valid.append(anchors + 2 + shift < n)
        targets.append(target_rows + (anchors + 1 + shift).clamp(max=n - 2) - start)
        positions, rows = positions + n - 2, rows + span.anchors
        tokens, target_rows = tokens + n, target_rows + n - 1 - start
    return Batch(
        features=torch.cat(features),
        tokens=torch.cat([e.ids for e in kept]),
        fed=torch.cat(fed, dim=1),
        positions=torch.cat([torch.arange(s.length) for s in spans]),
        anchors=torch.cat([torch.arange(s.first + s.anchor, s.first + s.length) for s in spans]),
        hidden=torch.cat(hidden),
        top=torch.cat(tops),
        targets=torch.cat(targets, dim=1),
        valid=torch.cat(valid, dim=1),
        spans=tuple(spans),
        domains=tuple(e.domain for e in kept),
    )


def anchors_of(tokens: int, response_start: int) -> int:
    """Anchors of a conversation: its response tokens but the first, which prefill decides."""
    return max(0, tokens - response_start - 1)


def epoch_batches(
    lengths: Sequence[tuple[int, int]], tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Indices of the conversations of each micro-batch of an epoch, in a new order every epoch.

    lengths are (tokens, response_start); a micro-batch is closed before its anchors would exceed
    `tokens` (a longer conversation stands alone). The same arguments give the same batches.
    """
    order = [i for i, pair in enumerate(lengths) if anchors_of(*pair)]
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return list(_fill(order, lengths, tokens))


def _fill(order: list[int], lengths: Sequence[tuple[int, int]], tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    filled = 0
    for index in order:
        anchors = anchors_of(*lengths[index])
        if batch and filled + anchors > tokens:
            yield batch
            batch, filled = [], 0
        batch.append(index)
        filled += anchors
    if batch:
        yield batch
