"""Reading drafts in the published EAGLE-3 layout, strictly, into the canonical form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.draft_folder import CheckpointError, DraftFolder

# Settings of other layouts that leave no trace in the weights: ignoring one drafts wrongly.
FOREIGN_SWITCHES = (
    "norm_before_residual",
    "norm_output",
    "eagle_config",
    "eagle_aux_hidden_state_layer_ids",
)
_CANONICAL, _PUBLISHED = "layers.0.", "midlayer."


def published_name(name: str) -> str:
    """The name in the published layout of a tensor with a canonical `name`."""
    if name.startswith(_CANONICAL):
        return _PUBLISHED + name.removeprefix(_CANONICAL)
    return name


def read_eagle3(folder: Path) -> Eagle3Weights:
    """Read a draft in the published EAGLE-3 layout (FORMATS.md 3B).

    Raises CheckpointError naming each missing, misshapen or unused tensor.
    """
    found = DraftFolder.read(folder, "EAGLE-3")
    query = f"{_PUBLISHED}self_attn.q_proj.weight"
    if query not in found.tensors:
        raise CheckpointError(
            f"{folder.name}: no tensor {query}; this is not a draft in the published EAGLE-3 layout"
        )
    tensors = dict(found.tensors)
    d2t, t2d = tensors.pop("d2t", None), tensors.pop("t2d", None)
    weights = replace(found, tensors=tensors)
    architecture = _architecture(weights)
    shapes = architecture.tensor_shapes()
    weights.check_tensors({published_name(name): shape for name, shape in shapes.items()})
    offsets = _vocabulary_map(folder.name, architecture, d2t, t2d)
    canonical = {name: tensors[published_name(name)] for name in shapes}
    return Eagle3Weights(architecture, canonical, offsets)


def _architecture(found: DraftFolder) -> Eagle3Architecture:
    """Sizes from the tensors where they show, from the config where they leave no trace."""
    query_rows, reads = found.matrix(f"{_PUBLISHED}self_attn.q_proj.weight")
    hidden, _ = found.matrix(f"{_PUBLISHED}self_attn.o_proj.weight")
    _, taps_width = found.matrix("fc.weight")
    draft_vocab_size, _ = found.matrix("lm_head.weight")
    heads, kv_heads = found.heads(query_rows)
    target_hidden = found.integer("target_hidden_size", hidden)
    if reads != 2 * hidden:
        raise CheckpointError(
            f"{found.name}: q_proj reads {reads} values; an EAGLE-3 draft of width {hidden} "
            f"reads {2 * hidden} (embedding and feature)"
        )
    found.refuse_settings(FOREIGN_SWITCHES)
    return Eagle3Architecture(
        hidden_size=hidden,
        target_hidden_size=target_hidden,
        intermediate_size=found.matrix(f"{_PUBLISHED}mlp.gate_proj.weight")[0],
        num_layers=1,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=query_rows // heads,
        vocab_size=found.integer("vocab_size"),
        draft_vocab_size=draft_vocab_size,
        num_taps=taps_width // target_hidden,
        rms_norm_eps=found.rms_norm_eps(),
        rope_theta=found.rope_theta(),
        own_embedding="embed_tokens.weight" in found.tensors,
    )


def _vocabulary_map(
    name: str,
    architecture: Eagle3Architecture,
    d2t: torch.Tensor | None,
    t2d: torch.Tensor | None,
) -> torch.Tensor:
    """Offsets [DV], int64 (FORMATS.md 6); zeros where the draft has the whole vocabulary."""
    size, vocab = architecture.draft_vocab_size, architecture.vocab_size
    if size == vocab:
        return torch.zeros(size, dtype=torch.int64)
    if d2t is None:
        raise CheckpointError(
            f"{name}: the draft has {size} of {vocab} tokens but no d2t table, so its tokens "
            "cannot be told apart"
        )
    if d2t.shape != (size,) or d2t.dtype != torch.int64:
        raise CheckpointError(
            f"{name}: d2t must be int64 [{size}]; found {d2t.dtype} {list(d2t.shape)}"
        )
    if t2d is None and not bool(d2t.any()):
        raise CheckpointError(
            f"{name}: d2t is all zero and there is no t2d to confirm that the draft has the first "
            f"{size} tokens: the vocabulary map was probably never saved"
        )
    ids = torch.arange(size) + d2t
    if int(ids.min()) < 0 or int(ids.max()) >= vocab or bool((ids[1:] <= ids[:-1]).any()):
        raise CheckpointError(
            f"{name}: d2t must hold offsets that give rising target ids below {vocab}; "
            "found ids that do not (are they absolute ids?)"
        )
    if t2d is not None:
        inside = torch.zeros(vocab, dtype=torch.bool)
        inside[ids] = True
        if t2d.shape != (vocab,) or not torch.equal(t2d.bool(), inside):
            raise CheckpointError(f"{name}: t2d and d2t disagree on which tokens the draft has")
    return d2t
