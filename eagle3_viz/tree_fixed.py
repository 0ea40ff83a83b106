"""EAGLE-1's fixed tree (REFERENCE.md c), built without a host synchronization."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.likely_children import likely_children
from eagle3_viz.tree import DraftTree, Level, Mark, Stepper, make_pool, whole_pool


def build_fixed(root: int, stepper: Stepper, fixed: FixedTree, mark: Mark) -> DraftTree:
    """Child of rank r is the draft's r-th most likely token; only parents are fed to the draft.

    `mark` as in `build_dynamic`.
    """
    plan = plan_levels(fixed, stepper.target_ids.device)
    logits = stepper.root_logits()[None]
    mark("draft")
    levels: list[Level] = []
    q: list[torch.Tensor] = []
    score = logits.new_zeros(1)
    for level, step in enumerate(plan):
        if level:
            ids, score = levels[-1].ids[step.fed], levels[-1].score[step.fed]
            mark("tree")
            logits = stepper.step(ids, step.fed_parents, level)
            mark("draft")
        found = likely_children(logits, score, step.widest)
        q.append(found.log_q)
        ids, logprob, score = (part[step.rows, step.ranks] for part in found[1:])
        levels.append(Level(level + 1, ids, logprob, score, step.parents, step.ranks))
    tree = whole_pool(
        root,
        make_pool(levels, stepper.target_ids),
        expanded=torch.cat([step.expanded for step in plan]),
        q_logprobs=tuple(q),
        levels=fixed.levels,
    )
    mark("tree")
    return tree


@dataclass(frozen=True)
class LevelPlan:
    """How one level of m children comes from n parents; int64 tensors.

    widest           children of the parent that has most.
    fed [n]          the parents, as places in the level above.
    fed_parents [n]  what each parent continues, as `Stepper.step` counts.
    expanded [n]     the parents' pool indices, -1 the root.
    rows [m], ranks [m]  whose child each is, as a row among the parents, and its rank there.
    parents [m]      the same parent as a pool index.
    """

    widest: int
    fed: torch.Tensor
    fed_parents: torch.Tensor
    expanded: torch.Tensor
    rows: torch.Tensor
    ranks: torch.Tensor
    parents: torch.Tensor


@cache  # for ever: a recording may read it
def plan_levels(fixed: FixedTree, device: torch.device) -> tuple[LevelPlan, ...]:
    """One plan a level, from the root's children down."""
    index = {(): -1} | {path: i for i, path in enumerate(fixed.paths)}
    counts = fixed.children()
    order_fed: dict[tuple[int, ...], int] = {(): 0}
    plans: list[LevelPlan] = []
    above: list[tuple[int, ...]] = [()]
    for level in range(fixed.levels):
        parents = [path for path in counts if len(path) == level]
        children = [path for path in fixed.paths if len(path) == level + 1]
        numbers = (
            [above.index(path) for path in parents],
            [order_fed[path[:-1]] for path in parents],
            [index[path] for path in parents],
            [parents.index(path[:-1]) for path in children],
            [path[-1] for path in children],
            [index[path[:-1]] for path in children],
        )
        widest = max(counts[path] for path in parents)
        plans.append(LevelPlan(widest, *(torch.tensor(n, device=device) for n in numbers)))
        if level:
            order_fed |= {path: len(order_fed) + i for i, path in enumerate(parents)}
        above = children
    return tuple(plans)
