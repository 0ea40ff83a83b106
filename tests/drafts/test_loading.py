"""A draft folder is read by the layout that its tensors show."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from eagle3_viz.drafts.draft_folder import CheckpointError
from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.drafts.loading import load_draft
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.export import export_eagle1, export_eagle3
from tests.tiny_models import shared_target, tiny_architecture, tiny_weights
from tests.training_heads import eagle1_weights


def provenance(objective: str) -> Provenance:
    facts = {"target": "t", "revision": "", "chat_template_sha256": "", "data_sha256": ""}
    counts = dict.fromkeys(
        ("conversations", "response_tokens", "steps", "token_passes", "seconds"), 1
    )
    return Provenance(objective, boundaries=(), training={}, **facts, **counts)  # type: ignore[arg-type]


def test_each_layout_becomes_its_draft(tmp_path: Path) -> None:
    target = shared_target()
    export_eagle1(eagle1_weights(), tmp_path / "a", provenance("eagle1"), licence="mit")
    weights = tiny_weights(tiny_architecture(target))
    export_eagle3(weights, tmp_path / "b", provenance("eagle3"), licence="mit")
    first, third = load_draft(tmp_path / "a", target), load_draft(tmp_path / "b", target)
    assert isinstance(first, Eagle1Draft) and first.methods == ("eagle1", "eagle2")
    assert isinstance(third, Eagle3Draft) and third.methods == ("eagle3",)


def test_something_else_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"w": torch.zeros(2)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="not a draft in the published EAGLE-3 layout"):
        load_draft(folder, shared_target())
