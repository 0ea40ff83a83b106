"""Named target/draft pairs: where they come from, whether they fit, how they are loaded."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from eagle3_viz import embedded, hub
from eagle3_viz.compatibility import check_compatible, parameter_count, read_config, tensor_table
from eagle3_viz.dequantize import without_progress_bars
from eagle3_viz.device import choose_device, choose_dtype
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.checkpoints import CheckpointError
from eagle3_viz.drafts.loading import load_draft
from eagle3_viz.embedded import PairError, Progress
from eagle3_viz.pair_specs import EMBEDDED, KNOWN_PAIRS, find_spec, is_local
from eagle3_viz.target import TargetError, TargetModel
from eagle3_viz.trace import ModelSource

__all__ = [
    "LoadedPair",
    "PairError",
    "Progress",
    "ResolvedPair",
    "check_compatible",
    "load_pair",
    "resolve",
]

PRETRAINED = Path(__file__).parent / "pretrained"
HASH_LIMIT = 2_000_000_000  # bytes; larger weights are named by their revision instead of a hash
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_EMBEDDED_TARGET, _EMBEDDED_DRAFT = "SmolLM2-135M-Instruct", "smollm2-135m-instruct-eagle3"


@dataclass(frozen=True)
class ResolvedPair:
    """A pair on this machine's disk. The draft parts are None for a target alone."""

    name: str
    target_folder: Path
    draft_folder: Path | None
    target_source: ModelSource
    draft_source: ModelSource | None


@dataclass(frozen=True)
class LoadedPair:
    """A pair in memory, ready to decode. dtype_reason says why the weights have their format."""

    name: str
    target: TargetModel
    draft: Draft | None
    tokenizer: Any
    target_source: ModelSource
    draft_source: ModelSource | None
    dtype_reason: str


def resolve(
    name: str | None = None,
    *,
    target: str | None = None,
    draft: str | None = None,
    progress: Progress | None = None,
) -> ResolvedPair:
    """Bring a pair onto this disk, download included, and check that its halves fit.

    Either `name` of a known pair, or `target` and `draft` as local folder, hub id or EMBEDDED; a
    draft alone goes with the embedded target, a target alone has no draft, nothing at all is the
    first known pair. Raises PairError.
    """
    report = progress or (lambda stage, done, total: None)
    if name is not None and (target is not None or draft is not None):
        raise PairError(f"Give the pair name {name!r} or a target and draft of your own, not both.")
    if target is None and draft is None:
        spec = find_spec(name) if name is not None else KNOWN_PAIRS[0]
        name, target, draft = spec.name, spec.target, spec.draft
        if not is_local(spec):
            require_memory(spec.title, int(spec.memory_gb * 1e9), choose_device())
    target = EMBEDDED if target is None else target
    # the draft first: it is small, and tells about a wrong name before gigabytes are fetched
    draft_folder = None if draft is None else _draft_folder(draft, report)
    target_folder = _target_folder(target, report)
    target_source = _source(target, target_folder, _EMBEDDED_TARGET)
    draft_source = None
    if draft is not None and draft_folder is not None:
        if reason := check_compatible(target_folder, draft_folder):
            raise PairError(reason)
        draft_source = _source(draft, draft_folder, _EMBEDDED_DRAFT)
    if name is None:
        name = " + ".join(source.name for source in (target_source, draft_source) if source)
    return ResolvedPair(name, target_folder, draft_folder, target_source, draft_source)


def load_pair(
    name: str | None = None,
    *,
    target: str | None = None,
    draft: str | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
    trust_remote_code: bool = False,
) -> LoadedPair:
    """`resolve` a pair and load it; dtype and device default to what suits this machine.

    Raises PairError for everything that keeps the pair from decoding.
    """
    report = progress or (lambda stage, done, total: None)
    pair = resolve(name, target=target, draft=draft, progress=progress)
    device = device or choose_device()
    reason = f"{str(dtype).removeprefix('torch.')}: asked for"
    if dtype is None:
        report("Choosing the number format", 0, 3)
        dtype, reason = choose_dtype(device)
    sources = [source for source in (pair.target_source, pair.draft_source) if source]
    weights = sum(source.parameters for source in sources) * dtype.itemsize
    require_memory(f"{pair.name} in {str(dtype).removeprefix('torch.')}", weights, device)
    with without_progress_bars():
        model, head = _load_halves(pair, dtype, device, trust_remote_code, report)
    report("The pair is ready", 3, 3)
    return LoadedPair(
        name=pair.name,
        target=model,
        draft=head,
        tokenizer=model.tokenizer,
        target_source=pair.target_source,
        draft_source=pair.draft_source,
        dtype_reason=reason,
    )


def _load_halves(
    pair: ResolvedPair,
    dtype: torch.dtype,
    device: torch.device,
    trust_remote_code: bool,
    report: Progress,
) -> tuple[TargetModel, Draft | None]:
    report(f"Loading the target {pair.target_source.name}", 1, 3)
    with _load_errors("target", pair.target_source.name):
        target = TargetModel.load(
            pair.target_folder, dtype=dtype, device=device, trust_remote_code=trust_remote_code
        )
    if pair.draft_folder is None or pair.draft_source is None:
        return target, None
    report(f"Loading the draft {pair.draft_source.name}", 2, 3)
    with _load_errors("draft", pair.draft_source.name):
        return target, load_draft(pair.draft_folder, target)


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
    return PRETRAINED / _EMBEDDED_DRAFT if location == EMBEDDED else _folder(location, report)


def _folder(location: str, report: Progress) -> Path:
    """A local folder, else a hub snapshot. An existing folder wins over a hub id of that name."""
    path = Path(location).expanduser()
    if not path.is_dir() and _HUB_ID.fullmatch(location) and not location.startswith("."):
        return hub.fetch(location, report)
    read_config(path)
    return path.resolve()


def _source(location: str, folder: Path, embedded_name: str) -> ModelSource:
    """Provenance of one half; parameters counted from the weight files."""
    parameters = parameter_count(tensor_table(folder))
    if location == EMBEDDED:
        target = embedded_name == _EMBEDDED_TARGET
        return ModelSource(
            name=embedded_name,
            location=EMBEDDED,
            revision=f"{embedded.PACKAGE} {embedded.VERSION}" if target else "",
            sha256=embedded.model_sha256() if target else weights_sha256(folder),
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
