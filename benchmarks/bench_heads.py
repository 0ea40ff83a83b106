"""How much of a draft's time its output head takes: the product of its states with a vocabulary.

    python -m benchmarks.bench_heads [--tokens 64] [--csv FILE]

Every method with a draft model decodes the first sample prompt of every domain in turn, in one
process, with a clock around the draft's head. EAGLE-1 and EAGLE-2 multiply with the target's whole
vocabulary, EAGLE-3 with a reduced one, the independent model with its own. Milliseconds a cycle,
medians over cycles; measure on a quiet machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from rich.progress import track

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, Method
from eagle3_viz.decode import decode
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.drafts.independent import IndependentDraft
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.presets import load_presets
from eagle3_viz.provenance import measured_on
from eagle3_viz.records import Cycle

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".work" / "bench_heads.csv"
METHODS: tuple[Method, ...] = ("independent", "eagle1", "eagle2", "eagle3")


class Clock:
    """Milliseconds spent inside a function since the last reading."""

    def __init__(self) -> None:
        self._ms = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments, **options)
            self._ms += (time.perf_counter() - start) * 1e3
            return result

        return timed

    def read(self) -> float:
        ms, self._ms = self._ms, 0.0
        return ms


def clocked_head(draft: object) -> Clock:
    """A clock around the head of `draft`, for as long as the draft lives."""
    clock = Clock()
    if isinstance(draft, FeatureDraft):
        draft.logits = clock.around(draft.logits)  # type: ignore[method-assign]
    elif isinstance(draft, IndependentDraft):
        model = draft._model
        model.logits = clock.around(model.logits)  # type: ignore[method-assign]
    else:
        raise TypeError(f"{type(draft).__name__} has no head")
    return clock


def cycles_of(
    pair: LoadedPair, method: Method, clock: Clock, prompt: list[int], tokens: int
) -> list[dict[str, object]]:
    """One row a cycle; the first one, whose root pass belongs to prefill, is left out."""
    rows: list[dict[str, object]] = []
    config = DecodeConfig(method=method, max_new_tokens=tokens, record="off")
    for record in decode(pair.target, pair.draft(method), prompt, config):
        head = clock.read()
        if isinstance(record, Cycle) and record.index:
            timing = record.timing
            rows.append(
                {"method": method, "draft": timing.draft, "head": head, "verify": timing.verify}
            )
    return rows


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    pair = load_pair()
    clocks: dict[int, Clock] = {}
    rows: list[dict[str, object]] = []
    for presets in track(list(load_presets().values()), "Measuring"):
        prompt = encode_chat(pair.tokenizer, presets[0].prompt, presets[0].system)
        for method in METHODS:
            draft = pair.draft(method)
            if id(draft) not in clocks:
                clocks[id(draft)] = clocked_head(draft)
            clock = clocks[id(draft)]
            rows += cycles_of(pair, method, clock, prompt, arguments.tokens)
    found = (
        pd.DataFrame(rows)
        .groupby("method", sort=False)
        .agg(
            cycles=("head", "size"),
            draft_ms=("draft", median),
            head_ms=("head", median),
            verify_ms=("verify", median),
        )
    )
    found = found.assign(head_share=found.head_ms / found.draft_ms).round(3).reset_index()
    print(found.to_string(index=False))
    about = {"pair": pair.name, **measured_on(pair.target.device)}
    arguments.csv.parent.mkdir(parents=True, exist_ok=True)
    found.assign(**about).to_csv(arguments.csv, index=False)
    print(f"written to {arguments.csv}")


if __name__ == "__main__":
    main()
