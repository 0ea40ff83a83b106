"""Trees, features and outputs equal those of the published EAGLE code, float32, greedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.records import Cycle
from eagle3_viz.target import TargetModel
from tests.golden_files import COMMITTED, LARGE, START_DRAFT, committed

pytestmark = pytest.mark.slow

TIE = 1e-4  # below this gap in any top-k, rounding decides and trees may differ
TREES = sorted(path.stem for path in COMMITTED.glob("trees_*.json"))
LARGE_TREES = sorted(LARGE.glob("e3_*__tt*.json"))


def shape_of(name: str) -> TreeShape:
    """TreeShape of a file name that ends in tt{T}_d{D}_k{K}."""
    total, depth, top_k = (part.lstrip("tdk") for part in name.split("_")[-3:])
    return TreeShape(int(total), int(depth), int(top_k))


def cycles_without_end(
    target: TargetModel, draft: Eagle3Draft, prompt: list[int], shape: TreeShape, count: int
) -> list[Cycle]:
    """`count` cycles, past an end of sequence: the published loop looks for it only afterwards."""
    eos, target.end_of_sequence = target.end_of_sequence, frozenset()
    try:
        run = decode(target, draft, prompt, DecodeConfig(shape=shape, max_new_tokens=10_000))
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


@pytest.mark.parametrize("name", TREES)
def test_every_tree_and_output_equals_the_published_code(name, target, draft) -> None:
    golden = committed(name)
    shape = shape_of(name)
    cycles = cycles_without_end(target, draft, golden["prompt_ids"], shape, len(golden["cycles"]))
    assert compare(cycles, golden["cycles"]) <= 1
    output = [cycles[0].root, *(token for cycle in cycles for token in cycle.tokens)]
    assert output[: len(golden["output_ids"])] == golden["output_ids"]
    pool = cycles[0].pool
    assert pool.token.tolist() == golden["pool"]["tokens"]
    assert pool.score == pytest.approx(golden["pool"]["scores"], abs=TIE)


def rows_close(found: torch.Tensor, expected: list[list[float]], scale: list[float]) -> None:
    """1e-5 of each row's own largest value: position 0 is an attention sink 10,000 times larger."""
    for row, values, largest in zip(found.numpy(), expected, scale, strict=True):
        assert np.abs(row - np.array(values)).max() <= 1e-5 * largest


@torch.inference_mode()
def test_taps_features_and_root_logits_equal_the_published_code(target, draft) -> None:
    golden = committed("first_cycle")
    prompt, rows = golden["prompt_ids"], golden["rows"]
    step = target.prefill(prompt)
    root = int(step.logits[-1].argmax())
    g = draft.read(step.features)
    draft.start(0)
    hidden = []
    forward = draft.forward
    draft.forward = lambda *arguments: hidden.append(forward(*arguments)) or hidden[-1]
    try:
        draft.extend(step.features, [*prompt[1:], root])
    finally:
        draft.forward = forward
    width = golden["width_step"]
    rows_close(
        step.features[rows][:, :: golden["tap_columns_step"]],
        golden["taps"],
        golden["max_abs"]["taps"],
    )
    rows_close(g[rows][:, ::width], golden["g"], golden["max_abs"]["g"])
    rows_close(hidden[0][rows][:, ::width], golden["hidden"], golden["max_abs"]["hidden"])
    logits = np.array(golden["root_logits"])
    found = draft.root_logits().numpy()
    assert np.abs(found - logits).max() <= 1e-5 * np.abs(logits).max()


@pytest.mark.skipif(not LARGE_TREES, reason="the larger golden files are not beside this checkout")
@pytest.mark.parametrize("path", LARGE_TREES, ids=lambda path: path.stem)
def test_trees_of_every_golden_file_beside_the_checkout(path: Path, target, draft) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    name, shape, _ = path.stem.split("__")
    if name == "e3_semi":
        draft = Eagle3Draft.load(LARGE / "drafts" / name, target)
    for cycle in golden["cycle"]:
        cycle["gap"] = min(cycle["min_selection_gap"], cycle["min_order_gap"])
    cycles = cycles_without_end(
        target, draft, golden["prompt_ids"], shape_of(shape), len(golden["cycle"])
    )
    compare(cycles, golden["cycle"])


@pytest.mark.skipif(not LARGE_TREES, reason="the larger golden files are not beside this checkout")
@pytest.mark.parametrize("name", ["e3_semi", "e3_start"])
@torch.inference_mode()
def test_whole_first_cycle_equals_the_golden_arrays_beside_the_checkout(name, target) -> None:
    arrays = np.load(LARGE / f"{name}__p0__first_cycle.npz")
    folder = LARGE / "drafts" / name if name == "e3_semi" else START_DRAFT
    draft = Eagle3Draft.load(folder, target)
    prompt = arrays["prompt_ids"].tolist()
    step = target.prefill(prompt)
    draft.extend(step.features, [*prompt[1:], int(step.logits[-1].argmax())])
    pairs = [
        (step.features, arrays["feature_in"]),
        (draft.read(step.features), arrays["g"]),
        (draft._root_hidden, arrays["draft_hidden"][-1:]),
        (draft._root_logits[None], arrays["root_logits"].reshape(1, -1)),
        (draft._cache[0, 0, 0, :, : len(prompt)], arrays["draft_k"]),
        (draft._cache[0, 1, 0, :, : len(prompt)], arrays["draft_v"]),
    ]
    for found, expected in pairs:
        error = np.abs(found.numpy() - expected).max(-1) / np.abs(expected).max(-1)
        assert error.max() <= 1e-5
