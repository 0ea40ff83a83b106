"""Named target/draft pairs: where they come from, whether they fit, how they are loaded."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from eagle3_viz import embedded, hub
from eagle3_viz.compatibility import check_compatible, parameter_count, read_config, tensor_table
from eagle3_viz.config import METHODS, Method, TreeShape
from eagle3_viz.dequantize import without_progress_bars
from eagle3_viz.device import choose_device, choose_dtype
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.checkpoints import CheckpointError
from eagle3_viz.drafts.loading import load_draft
from eagle3_viz.drafts.prompt_lookup import PromptLookupDraft
from eagle3_viz.embedded import PairError, Progress
from eagle3_viz.pair_specs import (
    EMBEDDED,
    KNOWN_PAIRS,
    PRETRAINED,
    SHIPPED,
    find_spec,
    is_local,
)
from eagle3_viz.target import TargetError, TargetModel
from eagle3_viz.trace import ModelSource
from eagle3_viz.tree_choice import known_acceptance
from eagle3_viz.tree_choice.choice import TreeChoice
from eagle3_viz.tree_choice.known_acceptance import KnownAcceptance

__all__ = [
    "LoadedDraft",
    "LoadedPair",
    "PairError",
    "Progress",
    "ResolvedPair",
    "check_compatible",
    "load_pair",
    "resolve",
]

HASH_LIMIT = 2_000_000_000  # bytes; larger weights are named by their revision instead of a hash
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_EMBEDDED_TARGET = "SmolLM2-135M-Instruct"
LOOKUP_SOURCE = ModelSource("prompt lookup", "no model", "", "", 0)


@dataclass(frozen=True)
class ResolvedDraft:
    """A draft on this machine's disk."""

    folder: Path
    source: ModelSource


@dataclass(frozen=True)
class ResolvedPair:
    """A target and its drafts on this machine's disk; a target alone has none."""

    name: str
    target_folder: Path
    target_source: ModelSource
    drafts: tuple[ResolvedDraft, ...]


@dataclass(frozen=True)
class LoadedDraft:
    """A draft in memory, where it came from, and what it is known to get accepted."""

    draft: Draft
    source: ModelSource
    acceptance: KnownAcceptance | None = None


@dataclass(frozen=True)
class LoadedPair:
    """A target in memory with whatever drafts for it, ready to decode.

    drafts        each serves other methods; prompt lookup is always among them.
    dtype_reason  says why the weights have their format.
    trees         the dynamic trees that were found to be fastest here (`tree_choice`).
    """

    name: str
    target: TargetModel
    drafts: tuple[LoadedDraft, ...]
    tokenizer: Any
    target_source: ModelSource
    dtype_reason: str
    trees: tuple[TreeChoice, ...] = ()

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods that can run, autoregression first."""
        having = {name for loaded in self.drafts for name in loaded.draft.methods}
        return tuple(name for name in METHODS if name == "ar" or name in having)

    def usual_tree(self, method: Method) -> TreeShape:
        """The dynamic tree of who names none: the fastest here, where that is known."""
        chosen = {choice.method: choice.shape for choice in self.trees}
        return chosen.get(method, TreeShape())

    def draft(self, method: Method) -> Draft | None:
        """`draft_for` without its source."""
        loaded = self.draft_for(method)
        return None if loaded is None else loaded.draft

    def with_draft(self, method: Method, draft: Draft, note: str) -> LoadedPair:
        """The pair with another draft for `method`; the source of the old one gets the note."""
        old = self.draft_for(method)
        if old is None:
            raise ValueError("autoregression has no draft that could be another one")
        source = replace(old.source, name=f"{old.source.name} ({note})")
        others = (loaded for loaded in self.drafts if loaded is not old)
        return replace(self, drafts=(LoadedDraft(draft, source), *others))

    def draft_for(self, method: Method) -> LoadedDraft | None:
        """The draft of `method`, None for autoregression. Raises ValueError when there is none."""
        if method == "ar":
            return None
        for loaded in self.drafts:
            if method in loaded.draft.methods:
                return loaded
        raise ValueError(
            f"method {method!r} needs a draft that {self.name} does not have; it can run "
            f"{', '.join(self.methods)}"
        )


def resolve(
    name: str | None = None,
    *,
    target: str | None = None,
    drafts: Sequence[str] = (),
    progress: Progress | None = None,
) -> ResolvedPair:
    """Bring a pair onto this disk, download included, and check that its parts fit.

    Either `name` of a known pair, or `target` and `drafts` as local folders or hub ids, EMBEDDED
    or SHIPPED names; drafts alone go with the embedded target, a target alone has none, nothing at
    all is the first known pair. Raises PairError.
    """
    report = progress or (lambda stage, done, total: None)
    if name is not None and (target is not None or drafts):
        raise PairError(
            f"Give the pair name {name!r} or a target and drafts of your own, not both."
        )
    if target is None and not drafts:
        spec = find_spec(name) if name is not None else KNOWN_PAIRS[0]
        name, target, drafts = spec.name, spec.target, spec.drafts
        if not is_local(spec):
            require_memory(spec.title, int(spec.memory_gb * 1e9), choose_device())
    target = EMBEDDED if target is None else target
    # the drafts first: they are small, and tell about a wrong name before gigabytes are fetched
    folders = [_draft_folder(draft, report) for draft in drafts]
    target_folder = _target_folder(target, report)
    target_source = _source(target, target_folder)
    for folder in folders:
        if reason := check_compatible(target_folder, folder):
            raise PairError(reason)
    found = tuple(
        ResolvedDraft(folder, _source(draft, folder))
        for draft, folder in zip(drafts, folders, strict=True)
    )
    if name is None:
        name = " + ".join([target_source.name, *(draft.source.name for draft in found)])
    return ResolvedPair(name, target_folder, target_source, found)


def load_pair(
    name: str | None = None,
    *,
    target: str | None = None,
    drafts: Sequence[str] = (),
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
    trust_remote_code: bool = False,
) -> LoadedPair:
    """`resolve` a pair and load it; dtype and device default to what suits this machine.

    Raises PairError for everything that keeps the pair from decoding.
    """
    report = progress or (lambda stage, done, total: None)
    pair = resolve(name, target=target, drafts=drafts, progress=progress)
    device = device or choose_device()
    reason = f"{str(dtype).removeprefix('torch.')}: asked for"
    stages = 2 + len(pair.drafts)
    if dtype is None:
        report("Choosing the number format", 0, stages)
        dtype, reason = choose_dtype(device)
    sources = [pair.target_source, *(draft.source for draft in pair.drafts)]
    weights = sum(source.parameters for source in sources) * dtype.itemsize
    require_memory(f"{pair.name} in {str(dtype).removeprefix('torch.')}", weights, device)
    with without_progress_bars():
        report(f"Loading the target {pair.target_source.name}", 1, stages)
        with _load_errors("target", pair.target_source.name):
            model = TargetModel.load(
                pair.target_folder, dtype=dtype, device=device, trust_remote_code=trust_remote_code
            )
        loaded = []
        for number, draft in enumerate(pair.drafts):
            report(f"Loading the draft {draft.source.name}", 2 + number, stages)
            with _load_errors("draft", draft.source.name):
                acceptance = known_acceptance.of_draft(draft.folder, draft.source.sha256)
                loaded.append(
                    LoadedDraft(load_draft(draft.folder, model), draft.source, acceptance)
                )
    lookup = PromptLookupDraft(model.vocab_size, model.device)
    _refuse_rivals(loaded)
    report("The pair is ready", stages, stages)
    return LoadedPair(
        name=pair.name,
        target=model,
        drafts=(*loaded, LoadedDraft(lookup, LOOKUP_SOURCE)),
        tokenizer=model.tokenizer,
        target_source=pair.target_source,
        dtype_reason=reason,
    )


def _refuse_rivals(drafts: Sequence[LoadedDraft]) -> None:
    """Raise PairError when two drafts are for the same method."""
    names: dict[Method, str] = {}
    for loaded in drafts:
        for method in loaded.draft.methods:
            if method in names:
                raise PairError(
                    f"The drafts {names[method]} and {loaded.source.name} are both for {method}: "
                    "give one of them."
                )
            names[method] = loaded.source.name


@contextmanager
def _load_errors(half: str, name: str) -> Iterator[None]:
    """What reading weights can raise, as one PairError; the full error stays chained to it."""
    try:
        yield
    except (TargetError, CheckpointError) as error:
        raise PairError(str(error)) from error
    except torch.OutOfMemoryError as error:
        raise PairError(
            f"The memory ran out while loading the {half} {name}: close other programs or choose "
            "a smaller pair."
        ) from error
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PairError(f"The {half} {name} could not be loaded: {first.rstrip('.')}.") from error


def _target_folder(location: str, report: Progress) -> Path:
    return embedded.ensure_embedded(report) if location == EMBEDDED else _folder(location, report)


def _draft_folder(location: str, report: Progress) -> Path:
    return PRETRAINED / location if location in SHIPPED else _folder(location, report)


def _folder(location: str, report: Progress) -> Path:
    """A local folder, else a hub snapshot. An existing folder wins over a hub id of that name."""
    path = Path(location).expanduser()
    if not path.is_dir() and _HUB_ID.fullmatch(location) and not location.startswith("."):
        return hub.fetch(location, report)
    read_config(path)
    return path.resolve()


def _source(location: str, folder: Path) -> ModelSource:
    """Provenance of one part; parameters counted from the weight files."""
    parameters = parameter_count(tensor_table(folder))
    if location == EMBEDDED:
        return ModelSource(
            name=_EMBEDDED_TARGET,
            location=EMBEDDED,
            revision=f"{embedded.PACKAGE} {embedded.VERSION}",
            sha256=embedded.model_sha256(),
            parameters=parameters,
        )
    from_hub = folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models-")
    return ModelSource(
        name=location.rsplit("/", 1)[-1] if from_hub else folder.name,
        location=location if from_hub else folder.name,
        revision=folder.name if from_hub else "",
        sha256=weights_sha256(folder),
        parameters=parameters,
    )


def weights_sha256(folder: Path) -> str:
    """sha256 of the folder's single weight file; "" for several files or more than 2 GB."""
    found = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    if len(found) != 1:
        return ""
    status = found[0].stat()
    if status.st_size > HASH_LIMIT:
        return ""
    return _hash_once(found[0], status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _hash_once(path: Path, size: int, modified_ns: int) -> str:
    """Hash a file once per content; size and time are there to notice that it changed."""
    return embedded.file_sha256(path)


def require_memory(what: str, needed: int, device: torch.device) -> None:
    """Raises PairError when `device` has fewer than `needed` bytes left, if that can be known."""
    free = available_memory(device)
    if free is not None and needed > free:
        raise PairError(
            f"{what} needs {needed / 1e9:.1f} GB of memory and the {device.type} device has "
            f"{free / 1e9:.1f} GB free: close other programs or choose a smaller pair."
        )


def available_memory(device: torch.device) -> int | None:
    """Free bytes on the device; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    names: Sequence[str] = tuple(getattr(os, "sysconf_names", {}))
    if "SC_PAGE_SIZE" in names and "SC_PHYS_PAGES" in names:  # macOS: the total, an upper bound
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
