"""Stored features are the stock model's own hidden states, whatever the batching and the crash."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eagle3_viz.text_lines import DataError
from eagle3_viz.training import features
from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.features import (
    Example,
    FeatureStore,
    bytes_needed,
    extract,
    read_manifest,
)
from eagle3_viz.training.standardisation import feature_scale
from tests.tiny_models import VOCABULARY, random_ids, shared_stock, shared_target, stock_forward

FILES = ["shard-00000.safetensors", "shard-00001.safetensors", "shard-00002.safetensors"]


@pytest.fixture(autouse=True)
def _small_shards_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "SHARD_SIZE", 4)
    monkeypatch.setattr(features, "BATCH_TOKENS", 60)
    monkeypatch.setattr(features, "HEAD_ROWS", 5)


def conversations(count: int = 11) -> list[Conversation]:
    draw = random.Random(1)
    found = []
    for index in range(count):
        ids = random_ids(draw.randint(2, 30), 70 + index)
        start = draw.randint(1, len(ids) - 1)
        found.append(Conversation(tuple(ids), start, f"domain {index % 3}"))
    return found


def extracted(folder: Path, family: str = "llama", **options: object) -> FeatureStore:
    texts = conversations()
    extract(shared_target(family), texts, folder, target_name="tiny", **options)
    return FeatureStore(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Sliding windows and masks by kind of layer too: a padded batch must not shift or widen them.
@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral-sliding", "gemma3"])
def test_features_are_the_hidden_states_of_the_stock_model_alone(
    tmp_path: Path, family: str
) -> None:
    store, stock = extracted(tmp_path, family), shared_stock(family)
    for example in (store[i] for i in range(len(store))):
        logits, states = stock_forward(stock, example.ids.tolist())
        taps = torch.cat([states[b] for b in store.manifest.boundaries], dim=-1)
        # Half a unit in the last place of bf16, and a float32's rounding that tips it over.
        for ours, reference in ((example.taps, taps), (example.hidden, states[-1])):
            assert ours.dtype == torch.bfloat16
            torch.testing.assert_close(ours.float(), reference, rtol=2**-7, atol=1e-4)
        start = example.response_start
        assert example.top[:start].eq(-1).all()
        assert torch.equal(example.top[start:], logits.argmax(-1)[start:])


def test_every_conversation_is_stored_once_with_its_start_and_domain(tmp_path: Path) -> None:
    store = extracted(tmp_path)
    found = [
        (tuple(e.ids.tolist()), e.response_start, e.domain)
        for e in (store[i] for i in range(len(store)))
    ]
    assert Counter(found) == Counter((c.ids, c.response_start, c.domain) for c in conversations())
    assert store.lengths() == [(len(ids), start) for ids, start, _ in found]
    assert [store.domain(i) for i in range(len(store))] == [domain for _, _, domain in found]
    assert store.complete


def test_the_disk_that_is_needed_is_the_disk_that_is_filled(tmp_path: Path) -> None:
    need = bytes_needed(conversations(), shared_target())
    extracted(tmp_path)
    filled = sum(len(c) for name, c in contents(tmp_path).items() if name in FILES)
    headers = 1024 * len(FILES)
    assert need <= filled <= need + headers


def test_shards_are_random_samples_that_depend_on_the_seed(tmp_path: Path) -> None:
    stores = [extracted(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    first = [[store[i].ids.tolist() for i in range(4)] for store in stores]
    assert first[0] != first[1]


def test_an_extraction_goes_on_where_it_stopped(tmp_path: Path) -> None:
    extracted(tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    folder = tmp_path / "torn"
    extracted(folder)
    kept = (folder / FILES[0]).stat()
    (folder / FILES[1]).unlink()
    (folder / FILES[2]).unlink()
    (folder / FILES[1]).with_suffix(".partial").write_bytes(b"half a shard")
    assert len(FeatureStore(folder)) == 4 and not FeatureStore(folder).complete
    reports: list[tuple[int, int]] = []
    extracted(folder, report=lambda done, total: reports.append((done, total)))
    assert contents(folder) == whole
    assert (folder / FILES[0]).stat().st_mtime_ns == kept.st_mtime_ns
    assert reports == [(4, 11), (8, 11), (11, 11)]


def test_shares_of_several_processes_give_the_files_of_one(tmp_path: Path) -> None:
    extracted(tmp_path / "one")
    for process in (1, 0):
        extract(
            shared_target(),
            conversations(),
            tmp_path / "two",
            target_name="tiny",
            share=(process, 2),
        )
        made = [path.name for path in sorted((tmp_path / "two").glob("shard-*"))]
        assert made == (FILES[1:2] if process else FILES)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def _other_text() -> list[Conversation]:
    first, *rest = conversations()
    return [replace(first, ids=((first.ids[0] + 1) % VOCABULARY, *first.ids[1:])), *rest]


@pytest.mark.parametrize(
    ("texts", "name", "seed", "named"),
    [
        (_other_text(), "tiny", 0, "data_sha256"),
        (conversations()[::-1], "tiny", 0, "data_sha256"),
        (conversations(), "other", 0, "target"),
        (conversations(), "tiny", 1, "seed"),
        (conversations(10), "tiny", 0, "data_sha256, conversations, positions"),
    ],
)
def test_a_folder_of_something_else_is_refused_and_left_alone(
    tmp_path: Path, texts: list[Conversation], name: str, seed: int, named: str
) -> None:
    extracted(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=named):
        extract(shared_target(), texts, tmp_path, target_name=name, seed=seed)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("texts", [[], [Conversation(tuple([1] * 513), 5)]])
def test_a_text_that_the_target_cannot_take_is_refused_before_anything_is_made(
    tmp_path: Path, texts: list[Conversation]
) -> None:
    with pytest.raises(DataError, match="takes 1 to 512"):
        extract(shared_target(), texts, tmp_path / "new", target_name="tiny")
    assert not (tmp_path / "new").exists()


def test_a_folder_without_features_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no features\.json"):
        FeatureStore(tmp_path)
    extracted(tmp_path)
    for name in FILES:
        (tmp_path / name).unlink()
    with pytest.raises(DataError, match="holds no features yet"):
        FeatureStore(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", '{"seed": 0}', '{"boundaries": 3}', "\x00"])
def test_a_manifest_of_another_version_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "features.json").write_text(content)
    with pytest.raises(DataError, match="not a manifest"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("keep", [0, 7, 200, -1])
def test_a_damaged_shard_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    extracted(tmp_path)
    path = tmp_path / FILES[1]
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"shard-00001\.safetensors is damaged"):
        FeatureStore(tmp_path)


def drawn(tokens: int, seed: int) -> Example:
    generator = torch.Generator().manual_seed(seed)
    taps = 3 + torch.arange(1.0, 7) * torch.randn(tokens, 6, generator=generator)
    hidden = 5 * torch.randn(tokens, 2, generator=generator)
    taps[:, 5] = 2.0  # a dimension that never moves
    ids = torch.zeros(tokens, dtype=torch.int64)
    return Example(ids, taps.bfloat16(), hidden.bfloat16(), ids, 1, "d")


@pytest.mark.parametrize("source", ["taps", "hidden"])
def test_the_scale_is_the_deviation_over_all_positions_but_the_first(source: str) -> None:
    examples = [drawn(tokens, seed) for seed, tokens in enumerate((40, 2, 300))]
    rows = torch.cat([getattr(e, source)[1:].double() for e in examples])
    expected = rows.std(dim=0, correction=0).float().clamp(min=1e-6)
    for e in examples:
        getattr(e, source)[0] = 1e4  # the attention sink
    found = feature_scale(examples, source)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
