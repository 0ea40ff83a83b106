"""The options that name draft trees."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from eagle3_viz.cli.option_types import whole_number
from eagle3_viz.config import TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES

FIXED, SHAPELESS = "eagle1", ("ar", "eagle1")


def add_tree(
    parser: argparse._ActionsContainer, usual: Sequence[TreeShape], *, several: bool = False
) -> None:
    """Add --tree, which is None where it is not given; `usual` is what it says it stands for."""
    parser.add_argument(
        "--tree",
        nargs="+" if several else None,
        type=tree,
        metavar="TOTAL,DEPTH,TOP_K",
        help=f"the tree makes DEPTH + 1 levels; default: {' '.join(map(_sizes, usual))}",
    )


def add_fixed_tree(parser: argparse._ActionsContainer, *, several: bool = False) -> None:
    """Add --fixed-tree, which is None where it is not given."""
    parser.add_argument(
        "--fixed-tree",
        nargs="+" if several else None,
        choices=FIXED_TREES,
        help=f"the tree of {FIXED}; default: {DEFAULT_FIXED.name}",
    )


def tree(value: str) -> TreeShape:
    """Three sizes of a dynamic tree."""
    parts = value.split(",")
    try:
        total, depth, top_k = (whole_number(0, 10_000)(part) for part in parts)
        return TreeShape(total, depth, top_k)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"in {value!r}: {error}") from error
    except ValueError as error:
        reason = str(error) if len(parts) == 3 else f"expected TOTAL,DEPTH,TOP_K, found {value!r}"
        raise argparse.ArgumentTypeError(reason) from error


def refuse_unused_trees(args: argparse.Namespace, methods: Collection[str] | None) -> None:
    """Raise ValueError for a tree that none of `methods` drafts; None is every method."""
    if methods is None:
        return
    if args.fixed_tree is not None and FIXED not in methods:
        raise ValueError(f"--fixed-tree is for {FIXED}, which does not run: leave it out")
    if args.tree is not None and set(methods) <= set(SHAPELESS):
        raise ValueError(
            f"--tree is for methods with a tree of that shape; {' and '.join(methods)} has none: "
            "leave it out"
        )


def _sizes(shape: TreeShape) -> str:
    return f"{shape.total},{shape.depth},{shape.top_k}"
