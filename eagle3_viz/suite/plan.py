"""What a suite runs, in which order, and where each run is kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from eagle3_viz.config import DecodeConfig, Method, Rule, Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FixedTree
from eagle3_viz.prompt_sets import Prompt, PromptSet
from eagle3_viz.records import RecordLevel

TRACES = "traces"
_SLUG_CHARS = 60


@dataclass(frozen=True)
class Plan:
    """Every prompt of `sets` under every one of `settings`, which have names."""

    sets: tuple[PromptSet, ...]
    settings: Mapping[str, DecodeConfig]

    def conversations(self) -> Iterator[tuple[str, Prompt, tuple[str, ...]]]:
        """Set, prompt, and the settings in the order in which they take their turns on it.

        The order starts one setting later at each prompt: settings share the drift of a machine
        that warms up or gets busy, and none is always first.
        """
        names = tuple(self.settings)
        prompts = ((one.name, prompt) for one in self.sets for prompt in one.prompts)
        for index, (name, prompt) in enumerate(prompts):
            first = index % len(names)
            yield name, prompt, names[first:] + names[:first]

    def config(self, setting: str, set_name: str, prompt: Prompt, turn: int) -> DecodeConfig:
        """The run of one turn. Its seed is its own, so that the prompts draw independently."""
        config = self.settings[setting]
        place = f"{config.seed}/{set_name}/{prompt.id}/{turn}".encode()
        own = int.from_bytes(hashlib.sha256(place).digest()[:4], "big")
        return replace(config, seed=own)


def settings_of(
    methods: Sequence[Method],
    *,
    shapes: Sequence[TreeShape] = (TreeShape(),),
    fixed: Sequence[FixedTree] = (DEFAULT_FIXED,),
    samplings: Sequence[Sampling] = (Sampling(),),
    rule: Rule | None = None,
    max_new_tokens: int = 128,
    seed: int = 0,
    record: RecordLevel = "off",
) -> dict[str, DecodeConfig]:
    """The settings of all methods, by name; a name says what a setting does not share with others.

    Autoregression has no tree and runs once a sampling. Lookup copies text and has no q to draw
    from: under `sample` it keeps its own rule, `topk`, whose output has the same distribution.
    Recording is off because timing is the purpose: tau and acceptance by depth need what every
    cycle keeps anyway. Raises ValueError for a combination that has no meaning.
    """
    settings: dict[str, DecodeConfig] = {}
    for sampling, method in product(samplings, methods):
        has_own_rule = method == "ar" or (method == "lookup" and rule == "sample")
        base = DecodeConfig(
            method=method,
            sampling=sampling,
            rule=None if has_own_rule else rule,
            max_new_tokens=max_new_tokens,
            seed=seed,
            record=record,
        )
        suffix = f" t={sampling.temperature:g}" if len(samplings) > 1 else ""
        for tree, config in _with_trees(base, shapes, fixed):
            settings[f"{method}{tree}{suffix}"] = config
    return settings


def _with_trees(
    base: DecodeConfig, shapes: Sequence[TreeShape], fixed: Sequence[FixedTree]
) -> Iterator[tuple[str, DecodeConfig]]:
    """`base` under each tree of its method, and the words that tell these trees apart."""
    if base.method == "ar":
        yield "", base
    elif base.method == "eagle1":
        for tree in fixed:
            yield f" {tree.name}" if len(fixed) > 1 else "", replace(base, fixed=tree)
    else:
        for shape in shapes:
            sizes = f" {shape.total},{shape.depth},{shape.top_k}"
            yield sizes if len(shapes) > 1 else "", replace(base, shape=shape)


def trace_path(folder: Path, set_name: str, prompt_id: str, turn: int, setting: str) -> Path:
    """The file of one run. turn counts from 1."""
    name = f"{_slug(prompt_id)}.{turn}.{_slug(setting)}.parquet"
    return folder / TRACES / _slug(set_name) / name


def _slug(text: str) -> str:
    """`text` as a part of a file name; texts that differ give names that differ."""
    if re.fullmatch(rf"[a-z0-9_-]{{1,{_SLUG_CHARS}}}", text):
        return text
    plain = re.sub(r"[^a-z0-9_-]+", "-", text)[:_SLUG_CHARS].strip("-")
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
