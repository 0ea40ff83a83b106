from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from eagle3_viz.config import TreeShape
from eagle3_viz.pair_specs import PRETRAINED
from eagle3_viz.pairs import weights_sha256
from eagle3_viz.tree_choice.known_acceptance import FILE, MAX_BYTES, loads, of_draft
from tests.tree_choice.made_up import KNOWN

SHIPPED = sorted(path.parent.name for path in PRETRAINED.glob(f"*/{FILE}"))


def test_a_table_that_was_written_is_read_back_the_same() -> None:
    assert loads(KNOWN.dumps()) == KNOWN


def test_the_trees_of_a_table_are_those_with_a_tau() -> None:
    trees = dict(KNOWN.trees())
    assert len(trees) == 9
    assert trees[TreeShape(3, 1, 1)] == 1.7 and trees[TreeShape(4, 1, 3)] == 1.9


def test_a_draft_without_a_table_has_none(tmp_path: Path) -> None:
    assert of_draft(tmp_path, KNOWN.weights_sha256) is None


def test_a_table_of_other_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(KNOWN.dumps())
    assert of_draft(tmp_path, KNOWN.weights_sha256) == KNOWN
    with pytest.raises(ValueError, match="other weights"):
        of_draft(tmp_path, "cd" * 32)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"tau": {}},
        {"tau": {"1": [["2.0", None, None]]}},
        {"tau": {"1": [[0.5, None, None]]}},
        {"tau": {"1": [[float("nan"), None, None]]}},
        {"tau": {"1": [[1.5, 1.6, None]]}},  # more nodes than such a tree has
        {"tau": {"3": [[1.5]]}},
        {"tau": {"900": [[1.5, 1.5, 1.5]]}},
        {"tau": [[1.5]]},
        {"totals": [2, "3", 4]},
        {"tokens": -1},
        {"provenance": "mine"},
    ],
)
def test_a_file_that_is_no_such_table_is_refused_by_name(
    changes: dict[str, object], tmp_path: Path
) -> None:
    fields = json.loads(KNOWN.dumps()) | changes
    (tmp_path / FILE).write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=r"acceptance\.json is no table"):
        of_draft(tmp_path, KNOWN.weights_sha256)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_bytes_that_are_no_table_are_refused_by_name(data: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(ValueError, match=r"acceptance\.json is no table"):
        of_draft(tmp_path, "")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match=f"more than {MAX_BYTES} bytes"):
        of_draft(tmp_path, "")


def test_the_default_draft_ships_with_a_table() -> None:
    assert "smollm2-135m-instruct-eagle3" in SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_table_belongs_to_the_weights_beside_it(name: str) -> None:
    known = of_draft(PRETRAINED / name, weights_sha256(PRETRAINED / name))
    assert known is not None and known.tokens > 1000
    assert {"command", "versions", "target", "measured"} <= set(known.provenance)


@pytest.mark.parametrize("name", SHIPPED)
def test_in_a_shipped_table_more_nodes_never_get_less_accepted(name: str) -> None:
    known = of_draft(PRETRAINED / name, weights_sha256(PRETRAINED / name))
    assert known is not None
    for rows in known.tau.values():
        for row in rows:
            found = [tau for tau in row if tau is not None]
            assert all(less <= more + 0.02 for less, more in itertools.pairwise(found))
