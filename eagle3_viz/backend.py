"""What the engine decodes with: the real pair, or whatever stands in for it in a test."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from eagle3_viz.config import DecodeConfig
from eagle3_viz.trace import Baseline, Trace

if TYPE_CHECKING:
    from eagle3_viz.tree_choice.choice import TreeChoice


@dataclass(frozen=True)
class Request:
    """What a job is asked to run. pair is a name of `KNOWN_PAIRS`, None for the default.

    fastest_tree: the pair's own tree for the method takes the place of the config's shape.
    """

    prompt: str
    config: DecodeConfig
    pair: str | None = None
    system: str | None = None
    fastest_tree: bool = False


@dataclass(frozen=True)
class TaskStep:
    """Where a task is. result: what there is of it so far; later steps never change it."""

    done: int
    total: int
    result: Any
    stage: str = ""


@dataclass(frozen=True)
class Task:
    """Work on a loaded pair that is no run. `steps(pair)` does it, in the worker thread."""

    steps: Callable[[Any], Generator[TaskStep, None, None]]
    pair: str | None = None


Progress = Callable[[str, int, int], None]
DRAWN = "drawn by the page meanwhile, at the pace at which it draws the run"


@dataclass(frozen=True)
class PairChoice:
    """A pair on offer; `obstacle` says in a few words why it cannot be run here, "" if it can."""

    name: str
    title: str
    obstacle: str = ""


class Backend(Protocol):
    """What the engine decodes with. All but `pairs` and `trees` is called in the worker thread."""

    def pairs(self) -> tuple[PairChoice, ...]:
        """The pairs on offer, the default first."""

    def load(self, name: str | None, progress: Progress) -> Any:
        """A loaded pair; progress(stage, done, total) is called between stages."""

    def trees(self, pair: Any) -> tuple[TreeChoice, ...]:
        """The trees that are fastest here, of the methods whose tree is chosen by measurement."""

    def renewed(self, pair: Any, request: Request, progress: Progress) -> Any:
        """The pair, loaded for an earlier job, with what came into doubt found out again."""

    def judged(self, pair: Any, trace: Trace) -> Any:
        """The pair with what a finished run says about it."""

    def measure(
        self, pair: Any, request: Request, progress: Callable[[Trace, int], None]
    ) -> Baseline | None:
        """Autoregression on the request's own prompt, short; progress(trace so far, steps in all)
        is called between tokens."""

    def run(
        self, pair: Any, request: Request, baseline: Baseline | None
    ) -> Generator[Trace, None, None]:
        """The growing trace, yielded after prefill and after each cycle."""


class LocalBackend:
    """The real pair, decoded in this process.

    torch and transformers take seconds to import: that waits until something needs them.
    """

    def pairs(self) -> tuple[PairChoice, ...]:
        """The default pair, and whatever else is on this disk already; a run starts no download
        of tens of gigabytes from a page."""
        from eagle3_viz.pair_specs import EMBEDDED, KNOWN_PAIRS, is_local

        return tuple(
            PairChoice(
                spec.name,
                spec.title,
                ""
                if spec.target == EMBEDDED or is_local(spec)
                else f"needs {spec.memory_gb:.0f} GB and a download"
                + ("" if spec.tried else "; not tried here"),
            )
            for spec in KNOWN_PAIRS
        )

    def load(self, name: str | None, progress: Progress) -> Any:
        """`pairs.load_pair` and the measurement of its trees; raises `pairs.PairError`."""
        from eagle3_viz.pairs import load_pair
        from eagle3_viz.tree_choice.at_load import with_trees

        return with_trees(load_pair(name, progress=progress), progress)

    def trees(self, pair: Any) -> tuple[TreeChoice, ...]:
        """Those of `load` and `renewed`, with the caveats of `judged`."""
        return tuple(pair.trees)

    def renewed(self, pair: Any, request: Request, progress: Progress) -> Any:
        """Measures again for a run with the pair's own tree, where its choice has a caveat."""
        from eagle3_viz.tree_choice.at_load import with_trees

        methods = [request.config.method] if request.fastest_tree else []
        return with_trees(pair, progress, methods)

    def judged(self, pair: Any, trace: Trace) -> Any:
        """`after_run.judged`."""
        from eagle3_viz.tree_choice.after_run import judged

        return judged(pair, trace)

    def measure(
        self, pair: Any, request: Request, progress: Callable[[Trace, int], None]
    ) -> Baseline | None:
        """`run.measure_baseline` on the request's prompt."""
        from eagle3_viz.run import measure_baseline

        baseline = measure_baseline(pair, request.prompt, system=request.system, progress=progress)
        return baseline and replace(baseline, how=f"{baseline.how}; {DRAWN}")

    def run(
        self, pair: Any, request: Request, baseline: Baseline | None
    ) -> Generator[Trace, None, None]:
        """`run.run` on the request's prompt."""
        from eagle3_viz.run import run

        config = request.config
        if request.fastest_tree:
            config = replace(config, shape=pair.usual_tree(config.method))
        yield from run(pair, request.prompt, config, system=request.system, baseline=baseline)
