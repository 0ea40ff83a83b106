"""The tree that measured costs and known acceptance make fastest, and the sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass

from eagle3_viz.config import Method, TreeShape
from eagle3_viz.tree_choice.cycle_cost import CycleCost
from eagle3_viz.tree_choice.known_acceptance import KnownAcceptance

CHOOSABLE: frozenset[Method] = frozenset({"eagle2", "eagle3"})
"""Methods whose dynamic tree is chosen by measurement."""


@dataclass(frozen=True)
class Candidate:
    """A tree and what is expected of it: tokens a cycle, ms a cycle, speed-up."""

    shape: TreeShape
    tau: float
    ms: float
    speedup: float


@dataclass(frozen=True)
class TreeChoice:
    """The default tree of a method on this machine.

    by_total  the best candidate of each number of verified nodes, rising.
    cost      what it follows from, together with `known`.
    """

    method: Method
    best: Candidate
    by_total: tuple[Candidate, ...]
    cost: CycleCost
    known: KnownAcceptance

    @property
    def shape(self) -> TreeShape:
        """The tree."""
        return self.best.shape


def choose(method: Method, cost: CycleCost, known: KnownAcceptance) -> TreeChoice:
    """The tree with the greatest speed-up; of equals, the one that verifies and drafts least.

    The costs cover the tree of two nodes, which every table has.
    """
    of_total: dict[int, Candidate] = {}
    for shape, tau in sorted(known.trees(), key=_size):
        if cost.covers(shape):
            found = Candidate(shape, tau, cost.cycle(shape), cost.speedup(shape, tau))
            least = of_total.setdefault(shape.total, found)
            if found.speedup > least.speedup:
                of_total[shape.total] = found
    by_total = tuple(of_total.values())
    best = max(by_total, key=lambda candidate: candidate.speedup)
    return TreeChoice(method, best, by_total, cost, known)


def _size(entry: tuple[TreeShape, float]) -> tuple[int, int, int]:
    shape = entry[0]
    return shape.total, shape.depth, shape.top_k


def words(choice: TreeChoice) -> str:
    """What was chosen and why, in one sentence."""
    best, shape, cost = choice.best, choice.shape, choice.cost
    return (
        f"total {shape.total}, depth {shape.depth}, top-k {shape.top_k}: on this machine such a "
        f"cycle takes {best.ms:.1f} ms and a step of autoregression {cost.step:.1f} ms, and the "
        f"draft is known to get {best.tau:.2f} tokens a cycle: {best.speedup:.2f}x, the most of "
        f"all trees"
    )


def unknown_words() -> str:
    """Why a draft without a table keeps the default tree."""
    return (
        "the default one: what this draft gets accepted with which tree is not known, so the "
        "fastest cannot be told"
    )
