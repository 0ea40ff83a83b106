"""EAGLE-1's tree: the same branches in every cycle (REFERENCE.md c).

A node is named by its path from the root, one rank a level: (0, 2) is the third child of the
root's first child. Its parent and its elder siblings are nodes too.
"""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[int, ...]
MAX_NODES = 1023


@dataclass(frozen=True)
class FixedTree:
    """A tree of ranks. name says which; paths are in the order (depth, path).

    Raises ValueError for paths without a parent or an elder sibling, and for no paths at all.
    """

    name: str
    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", tuple(sorted(map(tuple, self.paths), key=_order)))
        known = set(self.paths)
        if not 1 <= len(known) == len(self.paths) <= MAX_NODES or () in known:
            raise ValueError(
                f"the fixed tree {self.name!r} needs 1 to {MAX_NODES} different paths below the "
                f"root; got {len(self.paths)}, {len(known)} of them different"
            )
        for path in self.paths:
            needed = [path[:-1]] if len(path) > 1 else []
            needed += [(*path[:-1], path[-1] - 1)] if path[-1] > 0 else []
            missing = [other for other in needed if other not in known]
            if missing or min(path) < 0:
                raise ValueError(
                    f"the fixed tree {self.name!r} holds {path} but not "
                    f"{missing[0] if missing else 'ranks from 0 on'}: a node needs its parent and "
                    "its elder siblings"
                )

    @property
    def total(self) -> int:
        """Nodes verified per cycle, the root included."""
        return len(self.paths) + 1

    @property
    def levels(self) -> int:
        """Drafted levels below the root."""
        return len(self.paths[-1])

    def children(self) -> dict[Path, int]:
        """How many children each node has that has any, the root as (); in the order of nodes."""
        counts: dict[Path, int] = {}
        for path in self.paths:
            counts[path[:-1]] = counts.get(path[:-1], 0) + 1
        return counts

    def clipped(self, *, levels: int, top_k: int) -> FixedTree:
        """This tree without what lies deeper than `levels` or has a rank of `top_k` or more."""
        kept = tuple(p for p in self.paths if len(p) <= levels and max(p) < top_k)
        return self if kept == self.paths else FixedTree(self.name, kept)


def _order(path: Path) -> tuple[int, Path]:
    return len(path), path


def _named(name: str, text: str) -> FixedTree:
    """A tree from paths written as digits, "0 1 00 01"."""
    return FixedTree(name, tuple(tuple(map(int, word)) for word in text.split()))


DEFAULT_FIXED = _named("seven", "0 1 2 00 01 10 000")
"""Seven drafted nodes: what two CPU cores verify for little more than one token. They are the seven
places of the published tree that were accepted most often by the default pair, in 3,645 cycles over
the twelve prompt sets of docs/results."""

PUBLISHED_FIXED = _named(
    "mc_sim_7b_63",
    "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001",
)
"""The 25 nodes that the EAGLE-1 authors publish under this name."""

FIXED_TREES = {tree.name: tree for tree in (DEFAULT_FIXED, PUBLISHED_FIXED)}
