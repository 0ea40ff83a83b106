"""The README of a published draft: what it is, how it was made, how well it guesses.

Names in it come from files. They stand in code spans, cut and without backticks or control
characters, so that they are shown and never rendered.
"""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from eagle3_viz.training.draft_provenance import Objective, Provenance

NAME_LIMIT = 100  # characters of a name that comes from a file


@dataclass(frozen=True)
class Kind:
    """What the card says of every draft of one objective.

    options: what `decode` takes besides the folder.
    """

    title: str
    what: str
    layout: str
    tag: str
    options: str


_EAGLE3_LAYOUT = (
    "The published EAGLE-3 layout: `midlayer.*`, `fc`, `norm`, `lm_head`, and for a reduced "
    "vocabulary `d2t` (int64 offsets) and `t2d` (bool). The published EAGLE code reads it; SGLang "
    "reads the same tensors under the architecture name `LlamaForCausalLMEagle3`."
)
KINDS: Mapping[Objective, Kind] = {
    "eagle3": Kind(
        "EAGLE-3 draft",
        "A one-layer draft that reads three hidden states of its target and was trained on its own "
        "outputs (training-time test).",
        _EAGLE3_LAYOUT,
        "eagle3",
        options="",
    ),
    "eagle3-no-ttt": Kind(
        "EAGLE-3 draft without training-time test",
        "A one-layer draft that reads three hidden states of its target. It never saw its own "
        "outputs in training, so its later guesses are expected to be worse: it is made for "
        "comparison.",
        _EAGLE3_LAYOUT,
        "eagle3",
        options="",
    ),
    "eagle1": Kind(
        "EAGLE-1 draft",
        "A one-layer draft that predicts the target's next final hidden state and guesses through "
        "the target's LM head. EAGLE-2 drafts have the same weights.",
        "The published EAGLE-1 layout: `fc`, `layers.*`. The published EAGLE code reads it; SGLang "
        "reads the same tensors under the architecture name `LlamaForCausalLMEagle`.",
        "eagle",
        options=" --method eagle2",
    ),
    "independent": Kind(
        "Independent draft",
        "A small language model of its own with the target's tokens. It reads no hidden states of "
        "the target.",
        "A `LlamaForCausalLM` as transformers saves it, for every engine that runs Llama models. "
        "transformers drafts with it as the `assistant_model` of `generate`.",
        "draft-model",
        options=" --method independent",
    ),
}


def model_card(
    provenance: Provenance, tensors: Mapping[str, torch.Tensor], folder_name: str, licence: str
) -> str:
    """The card, Markdown with a YAML head, of a draft with these `tensors` as they were saved."""
    kind = KINDS[provenance.objective]
    sections = [
        _head(provenance, kind, licence),
        f"# {kind.title} for {_code(provenance.target)}",
        f"{kind.what} The target verifies every token it proposes.",
        "## Use\n\n" + _use(kind, folder_name),
        "## Layout\n\n" + _layout(provenance, kind, tensors),
        "## Training\n\n" + _training(provenance),
        *([_accuracy(provenance.accuracy)] if provenance.accuracy else []),
        *([_coverage(provenance.coverage)] if provenance.coverage else []),
        f"## Licence\n\n{_code(licence)}",
    ]
    return "\n\n".join(sections) + "\n"


def _head(provenance: Provenance, kind: Kind, licence: str) -> str:
    """YAML, in which a JSON string is a string too."""
    tags = json.dumps(["speculative-decoding", kind.tag])
    target, licence = json.dumps(_plain(provenance.target)), json.dumps(_plain(licence))
    return f"---\nlicense: {licence}\nbase_model: {target}\ntags: {tags}\n---"


def _use(kind: Kind, folder_name: str) -> str:
    terms = "the target it was made for, under the chat template it was trained on"
    place = shlex.quote(_plain(folder_name))
    command = f'python -m eagle3_viz decode "Tell me a story." --draft {place}{kind.options}'
    return f"With {terms}:\n\n    {command}"


def _layout(provenance: Provenance, kind: Kind, tensors: Mapping[str, torch.Tensor]) -> str:
    numbers = {name: t for name, t in tensors.items() if t.is_floating_point()}
    formats = sorted({str(t.dtype).removeprefix("torch.") for t in numbers.values()})
    parts = [
        kind.layout,
        f"{sum(t.numel() for t in numbers.values()):,} parameters ({', '.join(formats)}).",
    ]
    if provenance.objective != "independent" and "embed_tokens.weight" not in tensors:
        parts.append("The token embedding is the target's and is not in the file.")
    if provenance.boundaries:
        taps = ", ".join(map(str, provenance.boundaries))
        parts.append(f"It reads the target's residual stream at boundaries {taps} (0: embedding).")
    rows = [
        f"| `{name}` | {' x '.join(map(str, t.shape))} | {str(t.dtype).removeprefix('torch.')} |"
        for name, t in sorted(tensors.items())
    ]
    table = "\n".join(["| tensor | shape | format |", "|---|---|---|", *rows])
    return " ".join(parts) + "\n\n" + table


def _training(provenance: Provenance) -> str:
    facts = [
        ("target", f"{_code(provenance.target)}, {_code(provenance.revision)}"),
        ("chat template, SHA-256", _code(provenance.chat_template_sha256)),
        ("text, SHA-256", _code(provenance.data_sha256)),
        (
            "text",
            f"{provenance.conversations:,} conversations, "
            f"{provenance.response_tokens:,} response tokens written by the target",
        ),
        ("started from", _start(provenance)),
        (
            "run",
            f"{provenance.steps:,} optimizer steps, {provenance.token_passes:,} response tokens "
            f"passed, {provenance.seconds / 60:.1f} minutes",
        ),
        ("settings", ", ".join(f"{_code(k)} {_code(v)}" for k, v in provenance.training.items())),
        ("versions", ", ".join(f"{_code(k)} {_code(v)}" for k, v in provenance.versions.items())),
        ("commit", provenance.commit and _code(provenance.commit)),
    ]
    return "\n".join(f"* {name}: {value}" for name, value in facts if value)


def _start(provenance: Provenance) -> str:
    if provenance.started_from is None:
        return "random weights"
    passed = f"{provenance.started_token_passes:,} response tokens passed before"
    return f"{_code(provenance.started_from)}, {passed}"


def _accuracy(accuracy: tuple[float, ...]) -> str:
    steps = "".join(f" {step} |" for step in range(1, len(accuracy) + 1))
    values = "".join(f" {value:.3f} |" for value in accuracy)
    return (
        "## Accuracy\n\nShare of held-out response positions at which the draft's most likely "
        "token is the target's, by draft step; tokens outside the draft vocabulary count as "
        f"wrong.\n\n| step |{steps}\n|---|{'---|' * len(accuracy)}\n| accuracy |{values}"
    )


def _coverage(coverage: Mapping[str, float]) -> str:
    rows = "\n".join(f"* {_code(domain)}: {share:.1%}" for domain, share in coverage.items())
    return (
        "## Draft vocabulary\n\nShare of the target's response tokens that the draft can propose:"
        f"\n\n{rows}"
    )


def _plain(value: Any) -> str:
    """`value` on one line, cut, every control or format character replaced by a space."""
    text = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in str(value))
    text = text.strip() or "unknown"
    return text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + "…"


def _code(value: Any) -> str:
    """`value` as a Markdown code span, which shows its text as it is."""
    return "`" + _plain(value).replace("`", "'") + "`"
