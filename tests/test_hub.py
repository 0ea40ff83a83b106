import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants, errors
from huggingface_hub.errors import (
    DryRunError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import filter_repo_objects

from eagle3_viz import hub
from eagle3_viz.embedded import PairError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "owner/model"


def silent(stage: str, done: int, total: int) -> None:
    return None


def response(status: int) -> Any:
    """What the hub client keeps of an HTTP answer."""
    return SimpleNamespace(headers={}, request=None, status_code=status)


def file(name: str, size: int, will_download: bool = True) -> SimpleNamespace:
    return SimpleNamespace(filename=name, file_size=size, will_download=will_download)


def fill(folder: Path, names: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def hub_cache_entry(cache: Path, names: list[str]) -> Path:
    """A snapshot as the hub client lays it out."""
    repository = cache / "models--owner--model"
    fill(repository / "refs", [])
    (repository / "refs" / "main").write_text(COMMIT)
    return fill(repository / "snapshots" / COMMIT, names)


class FakeHub:
    """Answers snapshot_download: nothing cached, a plan for the dry run, then files."""

    def __init__(self, folder: Path, plan: list[SimpleNamespace]) -> None:
        self.folder, self.plan, self.calls = folder, plan, list[dict[str, Any]]()

    def __call__(self, repo_id: str, **options: Any) -> object:
        if options.get("local_files_only"):
            raise LocalEntryNotFoundError("nothing cached")
        if options.get("dry_run"):
            return self.plan
        self.calls.append(options)
        bar = options["tqdm_class"](total=0, unit="B")
        files = options["tqdm_class"](total=2, unit="it")
        for _ in range(4):
            bar.update(25)
            files.update(1)
        return str(fill(self.folder, ["config.json", "model.safetensors"]))


def raising(error: BaseException) -> Callable[..., object]:
    def snapshot_download(repo_id: str, **options: Any) -> object:
        if options.get("local_files_only"):
            raise LocalEntryNotFoundError("nothing cached")
        raise error

    return snapshot_download


def hidden_in_dry_run(error: BaseException) -> DryRunError:
    outer = DryRunError("Dry run cannot be performed")
    outer.__cause__ = error
    return outer


CASES = [
    (GatedRepoError("403", response=response(403)), "is gated: accept its licence"),
    (RepositoryNotFoundError("401", response=response(401)), "There is no model 'owner/model'"),
    (hidden_in_dry_run(GatedRepoError("403", response=response(403))), "is gated"),
    (hidden_in_dry_run(RepositoryNotFoundError("404", response=response(404))), "no model"),
    (hidden_in_dry_run(OfflineModeIsEnabled("offline")), "HF_HUB_OFFLINE"),
    (hidden_in_dry_run(errors.HTTPError("no route")), "cannot be reached"),
    (HfHubHTTPError("503", response=response(503)), "HTTP 503"),
    (ConnectionError("connection reset"), "cannot be reached"),
    (OSError(errno.ENOSPC, "No space left on device"), "disk filled up"),
    (PermissionError(errno.EACCES, "Permission denied"), "not writable"),
]


@pytest.mark.parametrize(("error", "expected"), CASES, ids=[expected for _, expected in CASES])
def test_whatever_the_hub_client_raises_becomes_one_sentence(
    cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: str
) -> None:
    monkeypatch.setattr(hub, "snapshot_download", raising(error))
    with pytest.raises(PairError, match=expected) as caught:
        hub.fetch(REPO, silent)
    assert REPO in str(caught.value)
    assert "\n" not in str(caught.value)


def test_interrupt_during_a_download_is_not_swallowed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "snapshot_download", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        hub.fetch(REPO, silent)


@pytest.mark.skipif(os.environ.get("HF_HUB_OFFLINE") != "1", reason="the hub client is online")
def test_offline_client_without_a_cached_copy_says_so(cache: Path) -> None:
    with pytest.raises(PairError, match="not fully in the local hub cache and HF_HUB_OFFLINE"):
        hub.fetch(REPO, silent)


def test_impossible_repository_name_is_one_sentence(cache: Path) -> None:
    with pytest.raises(PairError, match="There is no model 'owner/--bad--'"):
        hub.fetch("owner/--bad--", silent)


def test_download_reports_bytes_and_never_asks_for_code_or_pickles(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = [
        file("model.safetensors", 90),
        file("pytorch_model.bin", 1000),
        file("config.json", 10),
        file("tokenizer.json", 7, will_download=False),
    ]
    fake = FakeHub(tmp_path / "out", plan)
    monkeypatch.setattr(hub, "snapshot_download", fake)
    stages: list[tuple[str, int, int]] = []
    folder = hub.fetch(REPO, lambda *stage: stages.append(stage))
    assert folder == tmp_path / "out"
    assert [done for _, done, _ in stages] == [25, 50, 75, 100]
    assert {total for *_, total in stages} == {100}
    (call,) = fake.calls
    offered = ["config.json", "chat_template.jinja", "tokenizer.model", "model-1.safetensors"]
    refused = [
        "modeling_x.py",
        "tokenizer.py",
        "pytorch_model.bin",
        "original/params.json",
        "a.pth",
    ]
    patterns = {key: call[key] for key in ("allow_patterns", "ignore_patterns")}
    assert list(filter_repo_objects([*offered, *refused], **patterns)) == offered


def test_pickled_weights_are_fetched_when_there_are_no_others(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeHub(tmp_path / "out", [file("pytorch_model.bin", 100), file("config.json", 1)])
    monkeypatch.setattr(hub, "snapshot_download", fake)
    hub.fetch(REPO, silent)
    assert "*.bin" not in fake.calls[0]["ignore_patterns"]


def test_download_larger_than_the_disk_is_refused_before_it_starts(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeHub(tmp_path / "out", [file("model.safetensors", 141_000_000_000)])
    monkeypatch.setattr(hub, "snapshot_download", fake)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=77_000_000_000))
    with pytest.raises(PairError, match=r"141\.0 GB of disk .* 77\.0 GB are free"):
        hub.fetch(REPO, silent)
    assert fake.calls == []


def test_repository_without_a_model_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeHub(tmp_path / "out", [file("config.json", 1)])
    monkeypatch.setattr(hub, "snapshot_download", fake)
    monkeypatch.setattr(hub, "is_complete", lambda folder: False)
    with pytest.raises(PairError, match="no complete transformers model"):
        hub.fetch(REPO, silent)


def test_complete_cached_copy_is_used_without_the_network(cache: Path) -> None:
    snapshot = hub_cache_entry(cache, ["config.json", "model.safetensors"])
    assert hub.cached_snapshot(REPO) == snapshot
    assert hub.fetch(REPO, silent) == snapshot


@pytest.mark.parametrize("names", [[], ["config.json"], ["model.safetensors"]])
def test_partial_cached_copy_is_not_taken_for_a_model(cache: Path, names: list[str]) -> None:
    hub_cache_entry(cache, names)
    assert hub.cached_snapshot(REPO) is None


@pytest.mark.parametrize(
    ("present", "complete"),
    [(["a.safetensors", "b.safetensors"], True), (["a.safetensors"], False), ([], False)],
)
def test_sharded_model_is_complete_when_every_shard_is_there(
    tmp_path: Path, present: list[str], complete: bool
) -> None:
    fill(tmp_path, ["config.json", *present])
    shards = {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    assert hub.is_complete(tmp_path) is complete


@pytest.mark.parametrize("text", ["", "[]", '{"weight_map": 3}'])
def test_damaged_shard_index_is_not_complete(tmp_path: Path, text: str) -> None:
    fill(tmp_path, ["config.json"])
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert hub.is_complete(tmp_path) is False
