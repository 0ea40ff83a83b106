"""Cycles of the engine beside those of the published code, which skips what we stop for."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.base import Draft
from eagle3_viz.records import Cycle
from eagle3_viz.target import TargetModel

TIE = 1e-4  # below this gap in any top-k, rounding decides and trees may differ


def shape_of(name: str) -> TreeShape:
    """TreeShape of a file name that ends in tt{T}_d{D}_k{K}."""
    total, depth, top_k = (part.lstrip("tdk") for part in name.split("_")[-3:])
    return TreeShape(int(total), int(depth), int(top_k))


def cycles_without_end(
    target: TargetModel, draft: Draft, prompt: list[int], count: int, **settings: Any
) -> list[Cycle]:
    """`count` cycles, past an end of sequence: the published loop looks for it only afterwards."""
    eos, target.end_of_sequence = target.end_of_sequence, frozenset()
    try:
        run = decode(target, draft, prompt, DecodeConfig(max_new_tokens=10_000, **settings))
        next(run)
        return [next(run) for _ in range(count)]
    finally:
        target.end_of_sequence = eos


def compare(cycles: list[Cycle], golden: list[dict[str, Any]]) -> int:
    """Assert equality wherever no tie is near; returns how many cycles were decided by rounding."""
    ties = 0
    for cycle, expected in zip(cycles, golden, strict=True):
        nodes = cycle.nodes
        assert cycle.prefix_length == expected["prefix_len"]
        assert [cycle.root, *cycle.tokens[:-1]] == expected["appended_tokens"]
        assert cycle.tokens[-1] == expected["bonus_token"]
        if expected["gap"] <= TIE:
            ties += 1
            continue
        assert nodes.token.tolist() == expected["tree_tokens"]
        assert nodes.parent.tolist() == expected["parent"]
        assert nodes.depth.tolist() == expected["depth"]
        assert nodes.pool_index[1:].tolist() == expected["flat_index"]
        assert list(cycle.path) == expected["accepted_path"]
        assert nodes.score == pytest.approx(expected["score"], abs=TIE)
    return ties
