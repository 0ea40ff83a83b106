"""Fixed trees as lists of paths: what is a tree, what is cut off, what the authors published."""

from __future__ import annotations

import pytest

from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES, MAX_NODES, PUBLISHED_FIXED, FixedTree
from tests.golden_files import committed

PUBLISHED = committed("static_tree_mc_sim_7b_63")


def test_paths_are_put_in_the_order_of_depth_and_path() -> None:
    tree = FixedTree("t", ((1,), (0, 1), (0,), (0, 0), (1, 0)))
    assert tree.paths == ((0,), (1,), (0, 0), (0, 1), (1, 0))
    assert (tree.total, tree.levels) == (6, 2)
    assert list(tree.children().items()) == [((), 2), ((0,), 2), ((1,), 1)]


def test_lists_read_from_a_file_make_the_same_tree() -> None:
    assert FixedTree("t", ([0], [0, 0])) == FixedTree("t", ((0,), (0, 0)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ((), "got 0, 0 of them different"),
        (((0,), (0,)), "got 2, 1 of them different"),
        (((),), "below the root"),
        (((0,), (1, 0)), r"holds \(1, 0\) but not \(1,\)"),
        (((0,), (2,)), r"holds \(2,\) but not \(1,\)"),
        (((0,), (0, 1)), r"holds \(0, 1\) but not \(0, 0\)"),
        (((0,), (-1,)), r"holds \(-1,\) but not ranks from 0 on"),
        (tuple((rank,) for rank in range(MAX_NODES + 1)), f"1 to {MAX_NODES} different paths"),
    ],
)
def test_paths_that_are_no_tree_are_refused(paths: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        FixedTree("mine", paths)
    assert "the fixed tree 'mine'" in str(caught.value)


def test_the_largest_tree_is_taken() -> None:
    assert FixedTree("t", tuple((rank,) for rank in range(MAX_NODES))).total == MAX_NODES + 1


def test_clipping_drops_deep_nodes_and_high_ranks_with_all_below_them() -> None:
    tree = FixedTree("t", ((0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (2, 0), (0, 0, 0)))
    assert tree.clipped(levels=2, top_k=2).paths == ((0,), (1,), (0, 0), (0, 1), (1, 0))
    assert tree.clipped(levels=1, top_k=9).paths == ((0,), (1,), (2,))
    assert tree.clipped(levels=9, top_k=1).paths == ((0,), (0, 0), (0, 0, 0))
    assert tree.clipped(levels=3, top_k=3) is tree


def test_clipping_always_leaves_a_tree() -> None:
    for tree in FIXED_TREES.values():
        for levels in range(1, 7):
            for top_k in range(1, 6):
                clipped = tree.clipped(levels=levels, top_k=top_k)
                assert clipped.levels <= levels
                assert set(clipped.paths) <= set(tree.paths)
                assert all(max(path) < top_k for path in clipped.paths)
                assert clipped.clipped(levels=levels, top_k=top_k) is clipped


def test_the_published_tree_is_the_authors() -> None:
    assert [list(path) for path in ((), *PUBLISHED_FIXED.paths)] == PUBLISHED["paths"]
    assert PUBLISHED_FIXED.total == 26
    assert PUBLISHED_FIXED.levels == max(PUBLISHED["depth"])


def test_trees_are_known_by_their_names() -> None:
    assert FIXED_TREES == {"seven": DEFAULT_FIXED, "mc_sim_7b_63": PUBLISHED_FIXED}
    assert DEFAULT_FIXED.total == 8
