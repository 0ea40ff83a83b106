"""Model folders from the Hugging Face hub: weights, JSON and tokenizer files, never code."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import tqdm

from eagle3_viz.embedded import PairError, Progress

ALLOWED = (
    *("*.safetensors", "pytorch_model*.bin", "*.json", "*.jinja"),
    *("tokenizer.model", "merges.txt", "vocab.txt"),
)
_SUBFOLDERS = "*/*"
_PICKLED = "*.bin"


def cached_snapshot(repo_id: str) -> Path | None:
    """The repository's folder in the hub cache if it is complete; never asks the network."""
    try:
        folder = snapshot_download(
            repo_id,
            allow_patterns=list(ALLOWED),
            ignore_patterns=[_SUBFOLDERS, _PICKLED],  # pickled weights are checked by is_complete
            local_files_only=True,
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return Path(folder) if is_complete(Path(folder)) else None


def is_complete(folder: Path) -> bool:
    """True when config.json and every weight file (each shard an index names) are present."""
    if not (folder / "config.json").is_file():
        return False
    for stem in ("model.safetensors", "pytorch_model.bin"):
        if (folder / stem).is_file():
            return True
        try:
            index = json.loads((folder / f"{stem}.index.json").read_text(encoding="utf-8"))
            return all((folder / shard).is_file() for shard in set(index["weight_map"].values()))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
    return False


def fetch(repo_id: str, progress: Progress) -> Path:
    """The repository's snapshot folder, from the hub cache, else downloaded.

    A complete cached copy is used as it is, without looking for a newer one, so that a pair keeps
    working offline and keeps its revision. safetensors are preferred to pickled weights.

    Raises PairError: unknown or gated repository, no network, disk too small or full.
    """
    if folder := cached_snapshot(repo_id):
        return folder
    with hub_errors(repo_id):
        plan = snapshot_download(
            repo_id,
            allow_patterns=list(ALLOWED),
            ignore_patterns=[_SUBFOLDERS],
            tqdm_class=_reporting_bar(f"Looking up {repo_id}", 0, progress),
            dry_run=True,
        )
        safe = any(file.filename.endswith(".safetensors") for file in plan)
        ignored = [_SUBFOLDERS, _PICKLED] if safe else [_SUBFOLDERS]
        kept = [file for file in plan if not (safe and file.filename.endswith(".bin"))]
        missing = sum(file.file_size or 0 for file in kept if file.will_download)
        check_disk(repo_id, missing)
        folder = Path(
            snapshot_download(
                repo_id,
                allow_patterns=list(ALLOWED),
                ignore_patterns=ignored,
                tqdm_class=_reporting_bar(f"Downloading {repo_id}", missing, progress),
            )
        )
    if not is_complete(folder):
        raise PairError(
            f"The hub repository {repo_id} holds no complete transformers model: config.json with "
            "model.safetensors or pytorch_model.bin (or their shards) was expected."
        )
    return folder


def check_disk(repo_id: str, needed: int) -> None:
    """Raises PairError when the hub cache's disk cannot take `needed` bytes more."""
    folder = Path(constants.HF_HUB_CACHE).expanduser()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise PairError(
            f"{repo_id} needs {needed / 1e9:.1f} GB of disk in {constants.HF_HUB_CACHE} and "
            f"{free / 1e9:.1f} GB are free: free some space or set HF_HOME to another disk."
        )


@contextmanager
def hub_errors(repo_id: str) -> Iterator[None]:
    """Turn whatever the hub client raises into one PairError that says what to do."""
    try:
        yield
    except (HTTPError, OSError, HFValidationError) as error:
        causes = list(_causes(error))
        raise PairError(_sentence(repo_id, causes)) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it was raised from: a dry run hides the real one behind its own."""
    while error is not None:
        yield error
        error = error.__cause__


def _sentence(repo_id: str, causes: list[BaseException]) -> str:
    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if caused_by(GatedRepoError):
        return (
            f"{repo_id} is gated: accept its licence at https://huggingface.co/{repo_id} and log "
            "in with `hf auth login`, then try again."
        )
    if caused_by(RepositoryNotFoundError, HFValidationError):
        return (
            f"There is no model {repo_id!r} on the hub, or it is private: check the spelling "
            "(owner/name), or log in with `hf auth login`."
        )
    if caused_by(OfflineModeIsEnabled):
        return (
            f"{repo_id} is not fully in the local hub cache and HF_HUB_OFFLINE forbids "
            "fetching it: unset HF_HUB_OFFLINE, or give a local folder."
        )
    if any(getattr(cause, "errno", None) == errno.ENOSPC for cause in causes):
        return (
            f"The disk filled up while downloading {repo_id} to {constants.HF_HUB_CACHE}: free "
            "some space or set HF_HOME to another disk; the download then resumes."
        )
    last = causes[-1]
    if caused_by(PermissionError):
        return (
            f"{repo_id} cannot be stored, the hub cache {constants.HF_HUB_CACHE} is not writable: "
            "change its permissions or set HF_HOME to a folder that is."
        )
    if isinstance(last, HfHubHTTPError):
        return f"The hub refused {repo_id} (HTTP {last.response.status_code}): try again later."
    return (
        f"{repo_id} is not fully in the local hub cache and the hub cannot be reached "
        f"({type(last).__name__}): check the network, or give a local folder."
    )


def _reporting_bar(stage: str, total: int, progress: Progress) -> type[tqdm]:
    """A tqdm class that draws nothing and passes bytes on to `progress`."""
    guard = threading.Lock()
    best = 0

    class Bar(tqdm):
        def __init__(self, *args: object, **settings: object) -> None:
            self._bytes = 0.0 if settings.get("unit") == "B" else None
            super().__init__(*args, **(settings | {"disable": True}))

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal best
            if self._bytes is not None:
                self._bytes += n or 0
                with guard:  # several files arrive at once, through several bars
                    best = min(total, max(best, int(self._bytes)))
                    progress(stage, best, total)
            return super().update(n)

    return Bar
