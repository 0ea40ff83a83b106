"""Which run the Live page shows, and whether its controls ask for another by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eagle3_viz.backend import Request
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.service import Job, Status
from eagle3_viz.settings import method_title
from eagle3_viz.trace import Header
from eagle3_viz.wording import counted

USUAL = DecodeConfig()
CHANGED = "The controls have changed since: "
OVER = "Run to see their result."
GOING = "this run goes on as it began."


def run_words(header: Header) -> str:
    """Method, rule and tree of a run: "EAGLE-3, greedy, tree 6, 1, 4" (total, depth, top-k)."""
    return ", ".join([method_title(header.method), _rule(header), *_tree(header)])


def _rule(header: Header) -> str:
    sampling = header.config.get("sampling")
    if header.rule == "greedy" or not isinstance(sampling, Mapping):
        return header.rule
    return f"{header.rule} at temperature {sampling.get('temperature')}"


def _tree(header: Header) -> list[str]:
    """Nothing for autoregression."""
    fixed, shape = header.config.get("fixed"), header.config.get("shape")
    if header.method == "eagle1" and isinstance(fixed, Mapping):
        return [f"tree {fixed.get('name')}"]
    if header.method == "ar" or not isinstance(shape, Mapping):
        return []
    if header.method == "lookup" and isinstance(depth := shape.get("depth"), int):
        return [f"copies up to {counted(depth + 1, 'token')}"]
    return [f"tree {', '.join(str(shape.get(name)) for name in ('total', 'depth', 'top_k'))}"]


def change_words(job: Job, now: Request, status: Status) -> str:
    """That the controls, which ask for `now`, ask for another run than the job's; else nothing."""
    asked = job.request
    if not isinstance(asked, Request) or _essence(asked) == _essence(now):
        return ""
    return CHANGED + (OVER if status.ended else GOING)


def _essence(request: Request) -> tuple[Request, TreeShape | FixedTree | None]:
    """A request without what has no effect, and its tree, None where it leaves that open."""
    config = replace(request.config, shape=USUAL.shape, fixed=USUAL.fixed)
    if config.rule == "greedy":
        config = replace(config, sampling=USUAL.sampling, seed=USUAL.seed)
    free = request.fastest_tree or config.method == "ar"
    return replace(request, config=config), None if free else request.config.tree
