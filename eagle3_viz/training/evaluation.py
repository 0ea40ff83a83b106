"""Accuracy on held-out text: how often the draft's first choice is the target's."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from accelerate import Accelerator

from eagle3_viz.prompt_records import ALL
from eagle3_viz.training.batches import epoch_batches, pack
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.objective import Objective

BATCH_TOKENS = 1024


@torch.no_grad()
def accuracy_by_domain(
    objective: Objective,
    tensors: Mapping[str, torch.Tensor],
    store: FeatureStore,
    accelerator: Accelerator,
    steps: int | None = None,
) -> dict[str, tuple[float, ...]]:
    """Accuracy by unroll step, for `ALL` and each domain; tokens outside the draft count as wrong.

    As many steps as the objective evaluates unless `steps` says otherwise; teacher-forced.
    """
    steps = objective.evaluation_steps if steps is None else steps
    lengths = store.lengths()
    domains = sorted({store.domain(i) for i in range(len(store))})
    counts = torch.zeros(2, len(domains), steps, dtype=torch.float64)
    batches = epoch_batches(lengths, BATCH_TOKENS, seed=0, epoch=0)
    for chosen in batches[accelerator.process_index :: accelerator.num_processes]:
        batch = pack([store[i] for i in chosen], steps, objective.source).to(accelerator.device)
        outcome = objective.outcome(tensors, batch, None)
        for span, domain in zip(batch.spans, batch.domains, strict=True):
            rows = slice(span.row, span.row + span.anchors)
            for kind, marks in enumerate((outcome.correct, outcome.valid)):
                counts[kind, domains.index(domain)] += marks[:, rows].sum(1).cpu()
    if accelerator.num_processes > 1:
        counts = accelerator.reduce(counts.to(accelerator.device), "sum").cpu()
    shares = counts[0] / counts[1]
    total = counts[0].sum(0) / counts[1].sum(0)
    found = {ALL: tuple(total.tolist())}
    return found | {d: tuple(row.tolist()) for d, row in zip(domains, shares, strict=True)}
