"""The pairs that have a name, and whether they are on this disk. Imports no model code."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from eagle3_viz import embedded, hub
from eagle3_viz.embedded import PairError

EMBEDDED = "embedded"
"""The location of the default target."""

PRETRAINED = Path(__file__).parent / "pretrained"
SHIPPED = (
    "smollm2-135m-instruct-eagle3",
    "smollm2-135m-instruct-eagle1",
    "smollm2-135m-instruct-independent",
)
"""Drafts that come with this program, folders of PRETRAINED; their names are locations."""


@dataclass(frozen=True)
class PairSpec:
    """A pair that can be chosen by name.

    target is a hub id or EMBEDDED, drafts are hub ids or SHIPPED names, at most one a method.
    download_gb is for all of them; memory_gb is their weights in bfloat16. Sizes of pairs not
    tried are estimates from the published shapes.
    """

    name: str
    title: str
    target: str
    drafts: tuple[str, ...]
    target_parameters_b: float
    download_gb: float
    memory_gb: float
    note: str
    tried: bool


_UNTRIED = "Not tried here. Sizes are estimates."
KNOWN_PAIRS: tuple[PairSpec, ...] = (
    PairSpec(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct with the drafts trained for it",
        target=EMBEDDED,
        drafts=SHIPPED,
        target_parameters_b=0.135,
        download_gb=0.093,
        memory_gb=0.3,
        note="The default. Runs on a CPU; 540 MB stay in the cache after the first use.",
        tried=True,
    ),
    PairSpec(
        name="llama-3.1-8b",
        title="Llama-3.1-8B-Instruct",
        target="meta-llama/Llama-3.1-8B-Instruct",
        drafts=("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",),
        target_parameters_b=8.03,
        download_gb=17.0,
        memory_gb=17.0,
        note=f"{_UNTRIED} Gated: needs the licence accepted on the hub.",
        tried=False,
    ),
    PairSpec(
        name="deepseek-r1-distill-llama-8b",
        title="DeepSeek-R1-Distill-Llama-8B",
        target="deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        drafts=("yuhuili/EAGLE3-DeepSeek-R1-Distill-LLaMA-8B",),
        target_parameters_b=8.03,
        download_gb=17.0,
        memory_gb=17.0,
        note=_UNTRIED,
        tried=False,
    ),
    PairSpec(
        name="vicuna-13b",
        title="Vicuna-13B v1.3",
        target="lmsys/vicuna-13b-v1.3",
        drafts=("yuhuili/EAGLE3-Vicuna1.3-13B",),
        target_parameters_b=13.0,
        download_gb=27.4,
        memory_gb=27.4,
        note=f"{_UNTRIED} Non-commercial licence.",
        tried=False,
    ),
    PairSpec(
        name="llama-3.3-70b",
        title="Llama-3.3-70B-Instruct, narrow draft",
        target="meta-llama/Llama-3.3-70B-Instruct",
        drafts=("yuhuili/EAGLE3-LLaMA3.3-Instruct-70B",),
        target_parameters_b=70.6,
        download_gb=145.0,
        memory_gb=145.0,
        note=f"{_UNTRIED} Gated: needs the licence accepted on the hub.",
        tried=False,
    ),
)


def find_spec(name: str) -> PairSpec:
    """The known pair of that name. Raises PairError with the closest and all known names."""
    known = {spec.name: spec for spec in KNOWN_PAIRS}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise PairError(f"There is no pair named {name!r}: {hint}Known are {', '.join(known)}.")


def is_local(spec: PairSpec) -> bool:
    """True when target and drafts are on this disk already. Never asks the network."""
    target = embedded.is_built() if spec.target == EMBEDDED else _is_cached(spec.target)
    return target and all(name in SHIPPED or _is_cached(name) for name in spec.drafts)


def _is_cached(hub_id: str) -> bool:
    return hub.cached_snapshot(hub_id) is not None
