"""The tree of a `decode` that names none: the fastest on this machine, where that can be told."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from eagle3_viz.cli.progress import reporting
from eagle3_viz.config import DecodeConfig
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.plain_text import Row
from eagle3_viz.tree_choice.at_load import with_trees
from eagle3_viz.tree_choice.choice import CHOOSABLE, unknown_words, words


def is_open(args: argparse.Namespace) -> bool:
    """Whether the tree is left to this program: one that may be chosen, and no size is named."""
    named = any(size is not None for size in (args.depth, args.top_k, args.total))
    return args.method in CHOOSABLE and args.draft_kind == "trained" and not named


def settle(pair: LoadedPair, args: argparse.Namespace) -> LoadedPair:
    """The pair with what was found out; `args.config` gets the tree if it is open."""
    if not is_open(args):
        return pair
    config: DecodeConfig = args.config
    with reporting(sys.stderr) as progress:
        pair = with_trees(pair, progress, [config.method])
    args.config = replace(config, shape=pair.usual_tree(config.method))
    return pair


def rows(pair: LoadedPair, args: argparse.Namespace) -> list[Row]:
    """Why the tree is what it is; nothing where the command names it."""
    if not is_open(args):
        return []
    chosen = [f"{words(choice)}. {choice.caveat}".rstrip(". ") for choice in pair.trees]
    return [("chosen tree", chosen[0] if chosen else unknown_words())]
