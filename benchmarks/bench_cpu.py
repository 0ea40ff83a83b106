"""A token, a cycle, and the least they can take: the matrix products alone.

    python -m benchmarks.bench_cpu [--tokens 48] [--rounds 2] [--csv FILE]

In one process, prompt after prompt: transformers' generate with its stock attention, our
autoregression, EAGLE-3 with recording off and with a full record, and between them the products of
one forward and of one cycle with nothing around them ("floor"), in the order of weights that we use
and as torch's linear does them. Decode only, without prefill. A row of the CSV is one prompt in one
round; the table shows medians over them. Measure on a quiet machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rich.progress import track
from transformers import LogitsProcessorList

from eagle3_viz import attention
from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.floor import Products, draft_products, forward_products, products_ms
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.presets import load_presets
from eagle3_viz.projection import linears_of
from eagle3_viz.provenance import measured_on
from eagle3_viz.records import Cycle

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".work" / "bench_cpu.csv"
SHAPE = TreeShape()
COMMITTED = 2  # positions that a draft takes over in a cycle, rounded
CPU = torch.device("cpu")


def generate_ms(pair: LoadedPair, prompt: list[int], tokens: int) -> float:
    """Milliseconds a token of transformers' greedy generate, from its second token on."""
    model, marks = pair.target.model, []

    def mark(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        marks.append(time.perf_counter())
        return scores

    model.set_attn_implementation("sdpa")
    try:
        model.generate(
            torch.tensor([prompt], device=pair.target.device),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            logits_processor=LogitsProcessorList([mark]),
        )
    finally:
        model.set_attn_implementation(attention.NAME)
    return 1e3 * (marks[-1] - marks[0]) / (len(marks) - 1)


def cycles_of(pair: LoadedPair, prompt: list[int], config: DecodeConfig) -> dict[str, float]:
    """Medians over the cycles of a run, in ms, and their tokens a cycle."""
    draft = None if config.method == "ar" else pair.draft(config.method)
    rows, last = [], time.perf_counter()
    for record in decode(pair.target, draft, prompt, config):
        now = time.perf_counter()
        if isinstance(record, Cycle) and record.index:  # the first pays for the prompt's features
            timing = record.timing
            host = timing.tree + timing.accept + timing.commit
            rows.append((1e3 * (now - last), host, timing.record, len(record.tokens)))
        last = time.perf_counter()
    frame = pd.DataFrame(rows, columns=["cycle", "host", "record", "tau"])
    return frame.median().to_dict() | {"tau": frame.tau.mean()}


def floors_of(pair: LoadedPair) -> dict[str, Products]:
    """By name, the products of each floor."""
    target, draft = pair.target, pair.draft("eagle3")
    assert isinstance(draft, FeatureDraft)
    of_draft = draft_products(draft, SHAPE, COMMITTED)
    linears = linears_of(target.model)
    return {
        "ar floor": forward_products(target, 1),
        "ar floor, linear": [(linear, 1) for linear in linears],
        "cycle floor": [*of_draft, *forward_products(target, SHAPE.total)],
        "cycle floor, linear": [*of_draft, *((linear, SHAPE.total) for linear in linears)],
    }


def measurements(pair: LoadedPair, prompt: list[int], tokens: int) -> dict[str, Any]:
    """One row: everything on one prompt, one after the other."""
    dtype, floors = pair.target.dtype, floors_of(pair)
    row: dict[str, Any] = {"generate": generate_ms(pair, prompt, tokens)}
    row["ar floor"] = products_ms(floors["ar floor"], dtype, CPU)
    ar = cycles_of(pair, prompt, DecodeConfig(method="ar", max_new_tokens=tokens, record="off"))
    row |= {"ar": ar["cycle"], "ar host": ar["host"]}
    row["ar floor, linear"] = products_ms(floors["ar floor, linear"], dtype, CPU)
    runs: dict[str, DecodeConfig] = {
        "eagle3": DecodeConfig(shape=SHAPE, max_new_tokens=tokens, record="off"),
        "recorded": DecodeConfig(shape=SHAPE, max_new_tokens=tokens, record="full"),
    }
    for name, config in runs.items():
        run = cycles_of(pair, prompt, config)
        row |= {name: run["cycle"], f"{name} host": run["host"], f"{name} record": run["record"]}
        row["cycle floor"] = products_ms(floors["cycle floor"], dtype, CPU)
        row["tau"] = run["tau"]
    row["cycle floor, linear"] = products_ms(floors["cycle floor, linear"], dtype, CPU)
    return row


def rows_of(pair: LoadedPair, tokens: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Every prompt in every round; what the first one does is not kept."""
    presets = [presets[0] for presets in load_presets().values()]
    prompts = {preset.id: encode_chat(pair.tokenizer, preset.prompt) for preset in presets}
    measurements(pair, prompts[presets[0].id], tokens)
    jobs = [(turn, name) for turn in range(rounds) for name in prompts]
    for turn, name in track(jobs, "Measuring"):
        yield {"prompt": name, "round": turn} | measurements(pair, prompts[name], tokens)


def ratios(frame: pd.DataFrame) -> dict[str, float]:
    """What is asked of the engine: medians of the ratios of each row."""
    found = {
        "generate / ar": frame.generate / frame.ar,
        "ar / floor": frame.ar / frame["ar floor"],
        "ar / floor of torch's linear": frame.ar / frame["ar floor, linear"],
        "cycle / floor": frame.eagle3 / frame["cycle floor"],
        "cycle / floor of torch's linear": frame.eagle3 / frame["cycle floor, linear"],
        "host % of a cycle": 100 * frame["eagle3 host"] / frame.eagle3,
        "record % of a recorded cycle": 100 * frame["recorded record"] / frame.recorded,
        "EAGLE-3 / ar": frame.ar * frame.tau / frame.eagle3,
    }
    return {name: float(values.median()) for name, values in found.items()}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    pair = load_pair()
    frame = pd.DataFrame(rows_of(pair, arguments.tokens, arguments.rounds))
    print(frame.drop(columns=["prompt", "round"]).median().round(2).to_string())
    for name, value in ratios(frame).items():
        print(f"{name}: {value:.2f}")
    frame = frame.assign(
        dtype=str(pair.target.dtype).removeprefix("torch."), **measured_on(pair.target.device)
    )
    frame.to_csv(arguments.csv, index=False)


if __name__ == "__main__":
    main()
