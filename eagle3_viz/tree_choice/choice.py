"""The tree that measured costs and known acceptance make fastest, and the sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass

from eagle3_viz.config import Method, TreeShape
from eagle3_viz.tree_choice.cycle_cost import CycleCost
from eagle3_viz.tree_choice.known_acceptance import KnownAcceptance

CHOOSABLE: frozenset[Method] = frozenset({"eagle2", "eagle3"})
"""Methods whose dynamic tree is chosen by measurement."""

TOLD_APART = 0.02  # by what share a speed-up has to be greater to count as greater
TOLERANCE = 1.25  # times that a run's cycle may take longer, or less long, than measured


@dataclass(frozen=True)
class Candidate:
    """A tree and what is expected of it: tokens a cycle, ms a cycle, speed-up."""

    shape: TreeShape
    tau: float
    ms: float
    speedup: float


@dataclass(frozen=True)
class Misfit:
    """Milliseconds that a cycle of a run took, and was expected to take."""

    took: float
    expected: float

    @property
    def factor(self) -> float:
        """How many times longer it took."""
        return self.took / self.expected


@dataclass(frozen=True)
class TreeChoice:
    """The default tree of a method on this machine.

    chosen    what it is.
    by_total  the fastest candidate of each number of verified nodes, rising.
    cost      what it follows from, together with `known`.
    in_runs   how many times longer a run's cycles took than measured, where measuring again found
              the same costs: something else is busy during runs.
    misfit    the times of a run that did not fit these costs, None where the last one did.
    """

    method: Method
    chosen: Candidate
    by_total: tuple[Candidate, ...]
    cost: CycleCost
    known: KnownAcceptance
    in_runs: float = 1.0
    misfit: Misfit | None = None

    @property
    def shape(self) -> TreeShape:
        """The tree."""
        return self.chosen.shape

    @property
    def best(self) -> Candidate:
        """The candidate with the greatest predicted speed-up."""
        return max(self.by_total, key=lambda candidate: candidate.speedup)

    @property
    def caveat(self) -> str:
        """Why to measure again, and what can be done; "" where nothing speaks for it."""
        if doubt := self.cost.doubt:
            return (
                f"Not measured reliably: {doubt}. The machine is busy or slow for this pair. It "
                f"is measured again at the next run: close other programs, or choose a size."
            )
        if self.misfit is not None:
            return (
                f"A cycle of the last run took {self.misfit.took:.1f} ms where "
                f"{self.misfit.expected:.1f} ms were expected: the machine is "
                f"{'busier' if self.misfit.factor > 1 else 'idler'} than when it was measured. It "
                f"is measured again at the next run."
            )
        return ""


def choose(method: Method, cost: CycleCost, known: KnownAcceptance) -> TreeChoice:
    """The smallest of the trees that are as fast as the fastest, up to TOLD_APART.

    Of costs that are not to be relied on, the tree nearest to `TreeShape()`. The costs cover the
    tree of two nodes, which every table has.
    """
    of_total: dict[int, Candidate] = {}
    every = []  # by rising size
    for shape, tau in sorted(known.trees(), key=_size):
        if cost.covers(shape):
            found = Candidate(shape, tau, cost.cycle(shape), cost.speedup(shape, tau))
            every.append(found)
            least = of_total.setdefault(shape.total, found)
            if found.speedup > least.speedup:
                of_total[shape.total] = found
    fastest = max(found.speedup for found in every)
    if cost.doubt:
        chosen = min(every, key=_from_usual)
    else:
        chosen = next(found for found in every if found.speedup >= fastest * (1.0 - TOLD_APART))
    return TreeChoice(method, chosen, tuple(of_total.values()), cost, known)


def fits(took: float, expected: float) -> bool:
    """Whether two times of a cycle differ by less than the machine being busier or idler."""
    return 1 / TOLERANCE <= took / expected <= TOLERANCE


def _size(entry: tuple[TreeShape, float]) -> tuple[int, int, int]:
    shape = entry[0]
    return shape.total, shape.depth, shape.top_k


def _from_usual(candidate: Candidate) -> tuple[int, int, int]:
    shape, usual = candidate.shape, TreeShape()
    return (
        abs(shape.total - usual.total),
        abs(shape.depth - usual.depth),
        abs(shape.top_k - usual.top_k),
    )


def words(choice: TreeChoice) -> str:
    """What was chosen and why, in one sentence; without `caveat`."""
    chosen, shape, cost = choice.chosen, choice.shape, choice.cost
    named = f"total {shape.total}, depth {shape.depth}, top-k {shape.top_k}"
    if cost.doubt:
        which = "the default" if shape == TreeShape() else "the nearest to the default"
        return f"{named}, {which}, since the fastest could not be told"
    runs = f" ({choice.in_runs * chosen.ms:.1f} ms in runs)" if choice.in_runs != 1 else ""
    return (
        f"{named}: on this machine such a cycle takes {chosen.ms:.1f} ms{runs} and a step of "
        f"autoregression {cost.step:.1f} ms, and the draft is known to get {chosen.tau:.2f} tokens "
        f"a cycle: {chosen.speedup:.2f}x, {_rank(choice)}"
    )


def _rank(choice: TreeChoice) -> str:
    best = choice.best
    if choice.chosen.speedup >= best.speedup:
        return "the most of all trees"
    shape = best.shape
    return (
        f"which is as good as the most of all trees, {best.speedup:.2f}x with {shape.total}, "
        f"{shape.depth}, {shape.top_k}: less than {TOLD_APART:.0%} apart is not told apart"
    )


def unknown_words() -> str:
    """Why a draft without a table keeps the default tree."""
    return (
        "the default one: what this draft gets accepted with which tree is not known, so the "
        "fastest cannot be told"
    )
