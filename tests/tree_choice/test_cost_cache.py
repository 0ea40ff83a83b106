from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from eagle3_viz.tree_choice import cost_cache
from eagle3_viz.tree_choice.cost_cache import FOLDER, keep, kept, key_of
from tests.lossless.tiny_pair import chat_pair
from tests.tree_choice.made_up import COST

KEY = {"target": "t", "draft": "d", "machine": "m"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EAGLE3_VIZ_CACHE", str(tmp_path))
    return tmp_path / FOLDER


def test_kept_costs_are_found_again_under_their_key_alone(cache: Path) -> None:
    assert kept(KEY) is None
    keep(KEY, COST)
    assert kept(KEY) == COST
    assert kept(KEY | {"machine": "another"}) is None
    assert [path.suffix for path in cache.iterdir()] == [".json"], "nothing is left beside it"


@pytest.mark.parametrize(
    "changes",
    [
        {"verify": []},
        {"verify": [[2, 1.0], [4, 2.0]]},
        {"verify": [[1, 1.0], [1, 2.0]]},
        {"verify": [[1, float("nan")]]},
        {"level": [[1, -1.0]]},
        {"level": [[1]]},
        {"step": None},
        {"rest": float("inf")},
        {"spread": float("nan")},
        {"spread": -0.1},
        {"spread": 0.5},
        {"rounds": 1},
    ],
)
def test_costs_that_no_machine_has_count_as_not_measured(
    changes: dict[str, object], cache: Path
) -> None:
    keep(KEY, COST)
    (file,) = cache.iterdir()
    content = json.loads(file.read_text())
    content["cost"] |= changes
    file.write_text(json.dumps(content))
    assert kept(KEY) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 9000, b" " * 30_000])
def test_a_damaged_file_counts_as_not_measured_and_is_replaced(data: bytes, cache: Path) -> None:
    keep(KEY, COST)
    (file,) = cache.iterdir()
    file.write_bytes(data)
    assert kept(KEY) is None
    keep(KEY, COST)
    assert kept(KEY) == COST


@pytest.mark.parametrize("changes", [{"rounds": 2}, {"spread": 0.3}])
def test_costs_of_a_machine_that_was_too_busy_are_not_kept(
    changes: dict[str, Any], cache: Path
) -> None:
    keep(KEY, replace(COST, **changes))
    assert kept(KEY) is None and not cache.exists()


def test_costs_under_the_name_of_another_key_are_not_taken(cache: Path) -> None:
    keep(KEY, COST)
    (file,) = cache.iterdir()
    content = json.loads(file.read_text())
    content["key"]["machine"] = "another"
    file.write_text(json.dumps(content))
    assert kept(KEY) is None


def test_a_folder_that_cannot_be_made_is_said_and_nothing_fails(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.write_text("a file where the folder would be")
    keep(KEY, COST)
    assert "could not be kept" in caplog.text
    assert kept(KEY) is None


def test_the_key_tells_weights_method_threads_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = chat_pair()
    first = key_of(pair, "eagle3")
    assert key_of(pair, "eagle3") == first
    other = replace(pair, target_source=replace(pair.target_source, sha256="cd" * 32))
    assert key_of(other, "eagle3") != first
    assert key_of(pair, "lookup") != first
    monkeypatch.setattr(cost_cache.provenance, "machine", lambda device: "another")
    moved = key_of(pair, "eagle3")
    monkeypatch.undo()
    assert moved != first
    monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    assert key_of(pair, "eagle3") != first
