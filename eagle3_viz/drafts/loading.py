"""A draft from its folder, by the layout that its tensors show."""

from __future__ import annotations

from pathlib import Path

from eagle3_viz.compatibility import is_language_model, tensor_table
from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.drafts.independent import IndependentDraft
from eagle3_viz.target import TargetModel

EAGLE1_MARKS = {"fc.weight", "layers.0.self_attn.q_proj.weight"}


def load_draft(folder: Path, target: TargetModel) -> Eagle1Draft | Eagle3Draft | IndependentDraft:
    """Read a draft folder for `target`; every reader is strict.

    Raises CheckpointError when the folder does not fit its layout or the target, and PairError
    when it holds no weights.
    """
    table = tensor_table(folder)
    if is_language_model(table):
        return IndependentDraft.load(folder, target)
    if table.keys() >= EAGLE1_MARKS:
        return Eagle1Draft.load(folder, target)
    return Eagle3Draft.load(folder, target)
