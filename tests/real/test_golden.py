"""Trees, features and outputs equal those of the published EAGLE code, float32, greedy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from eagle3_viz.drafts.eagle3 import Eagle3Draft
from tests.golden_cycles import TIE, compare, cycles_without_end, shape_of
from tests.golden_files import COMMITTED, LARGE, START_DRAFT, committed

pytestmark = pytest.mark.slow

TREES = sorted(path.stem for path in COMMITTED.glob("trees_*.json"))
LARGE_TREES = sorted(LARGE.glob("e3_*__tt*.json"))


@pytest.mark.parametrize("name", TREES)
def test_every_tree_and_output_equals_the_published_code(name, target, draft) -> None:
    golden = committed(name)
    shape = shape_of(name)
    cycles = cycles_without_end(
        target, draft, golden["prompt_ids"], len(golden["cycles"]), shape=shape
    )
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
        target, draft, golden["prompt_ids"], len(golden["cycle"]), shape=shape_of(shape)
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
        (draft._hidden, arrays["draft_hidden"][-1:]),
        (draft._root_logits[None], arrays["root_logits"].reshape(1, -1)),
        (draft._cache[0, 0, 0, :, : len(prompt)], arrays["draft_k"]),
        (draft._cache[0, 1, 0, :, : len(prompt)], arrays["draft_v"]),
    ]
    for found, expected in pairs:
        error = np.abs(found.numpy() - expected).max(-1) / np.abs(expected).max(-1)
        assert error.max() <= 1e-5
