"""Training throughput, and what share it is of the matrix-product rate of the same cores.

    python -m benchmarks.bench_train --features FOLDER [--processes 2] [--tokens 40000]

Every process multiplies the draft's own shapes in bf16, trains a fresh draft of the embedded
target, and multiplies again. Useful operations of a response token are 6 a trained parameter and
unroll step (fc runs once) and 2 an element of the target's head over the draft vocabulary; what
prompt tokens cost is not counted. FOLDER holds features that `train draft` made of that target.
The row goes to a CSV with machine, versions and command. Measure on a quiet machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pandas as pd
import torch
from accelerate import Accelerator

from eagle3_viz.pairs import load_pair
from eagle3_viz.provenance import measured_on
from eagle3_viz.training.checkpoint import Progress
from eagle3_viz.training.eagle3_objective import FC, HEAD, Eagle3Objective, fresh_eagle3
from eagle3_viz.training.eagle3_product import architecture_for
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.log import EvaluationRow, LogRow
from eagle3_viz.training.process_group import joined
from eagle3_viz.training.processes import cores, several
from eagle3_viz.training.standardisation import feature_scale
from eagle3_viz.training.trainer import TrainConfig, Trainer
from eagle3_viz.training.vocabulary import DraftVocabulary

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".work" / "bench_train.csv"
WARM_UP = 5  # steps that are not counted
REPEATS = 30  # of each matrix product


@dataclass
class Rows:
    """Keeps every step that the trainer reports."""

    found: list[LogRow] = field(default_factory=list)

    def row(self, row: LogRow) -> None:
        self.found.append(row)

    def evaluation(self, row: EvaluationRow) -> None:
        """Nothing is held out."""

    def checkpoint(self, progress: Progress) -> None:
        """The folder is temporary."""


def objective_for(features: FeatureStore, vocabulary: int, unroll: int) -> Eagle3Objective:
    """A fresh draft of the embedded target."""
    target = load_pair(target="embedded", dtype=torch.bfloat16).target
    scale, head = feature_scale(features), target.head.detach()
    tokens = DraftVocabulary(torch.arange(vocabulary), target.vocab_size)
    weights = fresh_eagle3(architecture_for(target, vocabulary), tokens, head, scale, seed=0)
    return Eagle3Objective(weights, target.embedding.detach(), head, scale, unroll)


def product_rate(objective: Eagle3Objective, rows: int, accelerator: Accelerator) -> float:
    """Operations a second of all processes together on the draft's own matrices, bf16."""
    done = spent = 0.0
    for matrix in (t for t in objective.parameters().values() if t.ndim == 2):
        weight = torch.randn(matrix.shape, dtype=torch.bfloat16)
        x = torch.randn(rows, matrix.shape[1], dtype=torch.bfloat16)
        accelerator.wait_for_everyone()
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            times.append(time.perf_counter() - start)
        done += 2 * rows * matrix.numel()
        spent += median(times)
    return float(accelerator.reduce(torch.tensor(done / spent, dtype=torch.float64), "sum"))


def train(
    arguments: argparse.Namespace,
    objective: Eagle3Objective,
    features: FeatureStore,
    accelerator: Accelerator,
) -> list[LogRow]:
    """Every step of a short run, in the first process; the others get nothing."""
    rows = Rows()
    config = TrainConfig(
        tokens=arguments.tokens,
        batch_tokens=arguments.batch_tokens,
        micro_batches=arguments.micro_batches,
        checkpoint_seconds=1e9,
        log_steps=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            objective,
            features,
            None,
            config,
            Path(folder),
            accelerator=accelerator,
            compute=torch.bfloat16,
            listener=rows,
        ).run()
    return rows.found


def measure(arguments: argparse.Namespace, accelerator: Accelerator) -> None:
    """One process's part; the first one writes the row."""
    features = FeatureStore(arguments.features)
    objective = objective_for(features, arguments.vocabulary, arguments.unroll)
    before = product_rate(objective, arguments.batch_tokens, accelerator)
    steps = train(arguments, objective, features, accelerator)
    after = product_rate(objective, arguments.batch_tokens, accelerator)
    if not accelerator.is_main_process:
        return
    first, last = steps[WARM_UP], steps[-1]
    speed = (last.tokens - first.tokens) / (last.seconds - first.seconds)
    parameters = objective.parameters()
    trained = sum(tensor.numel() for tensor in parameters.values())
    once = parameters[FC].numel()
    useful = 6 * (once + (trained - once) * arguments.unroll) + 2 * parameters[HEAD].numel()
    rate = (before + after) / 2
    row = {
        "processes": arguments.processes,
        "threads": torch.get_num_threads(),
        "batch_tokens": arguments.batch_tokens,
        "micro_batches": arguments.micro_batches,
        "unroll": arguments.unroll,
        "trained_parameters": trained,
        "steps": len(steps) - WARM_UP,
        "response_tokens_per_second": round(speed, 1),
        "useful_mflop_per_token": round(useful / 1e6, 1),
        "useful_gflops": round(speed * useful / 1e9, 1),
        "product_gflops_before": round(before / 1e9, 1),
        "product_gflops_after": round(after / 1e9, 1),
        "share": round(speed * useful / rate, 3),
    }
    save(row, arguments.csv)
    print("\n".join(f"{name:28} {value}" for name, value in row.items()))


def save(row: dict[str, object], path: Path) -> None:
    """Add the row to the CSV, with what it was measured on."""
    about = measured_on(torch.device("cpu"))
    table = pd.DataFrame([row | about])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        table = pd.concat([pd.read_csv(path), table])
    table.to_csv(path, index=False)
    print(f"\nAdded to {path}")


def main() -> None:
    """Run the processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--features", type=Path, required=True, help="a folder of shards")
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--tokens", type=int, default=40_000)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--unroll", type=int, default=4)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    program = ["-m", "benchmarks.bench_train", *sys.argv[1:]]
    with (
        tempfile.TemporaryDirectory() as logs,
        several(arguments.processes, program, Path(logs)),
        joined("cpu") as accelerator,
    ):
        measure(arguments, accelerator)


if __name__ == "__main__":
    main()
