"""EAGLE-3 against autoregression through the same target forward, on benchmark questions.

    python -m benchmarks.bench_decode [--questions FOLDER] [--count 10] [--shapes 8,2,4 ...]

Runs of one question follow each other in one process: AR, transformers' own generate, each tree
shape with recording off, and the first shape once more with full recording. Speeds are decode
only, prefill apart; a ratio is the median over questions of the two runs of the same question.
Results go to a CSV, one row a run, with machine, versions and command. Measure on a quiet
machine: a second busy process changes everything.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console
from rich.progress import track

from eagle3_viz import attention
from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.metrics import has_loop
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.presets import load_presets
from eagle3_viz.provenance import machine, measured_on
from eagle3_viz.records import Cycle, Prefill

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".work" / "bench_decode.csv"
SETS = ("humaneval", "gsm8k", "mt_bench")
SHAPES = ("8,2,4", "6,1,4", "10,3,4")


@dataclass(frozen=True)
class Question:
    """One prompt of a set."""

    set: str
    id: str
    prompt: str


def questions(folder: Path | None, sets: list[str], count: int) -> list[Question]:
    """The first `count` questions of each set in `folder`; our own prompts without one."""
    if folder is None:
        presets = [p for domain in load_presets().values() for p in domain[:count]]
        return [Question(p.domain, p.id, p.prompt) for p in presets]
    found = []
    for name in sets:
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[:count]
        rows = [json.loads(line) for line in lines]
        found += [Question(name, str(row["question_id"]), row["turns"][0]) for row in rows]
    return found


def measure(pair: LoadedPair, prompt: list[int], config: DecodeConfig) -> dict[str, object]:
    """One run: sizes, phases in ms, wall time of the decoding loop."""
    draft = pair.draft(config.method)
    start = time.perf_counter()
    prefill, *cycles = decode(pair.target, draft, prompt, config)
    wall = (time.perf_counter() - start) * 1e3
    assert isinstance(prefill, Prefill)
    timings = [cycle.timing for cycle in cycles if isinstance(cycle, Cycle)]
    uncut = [cycle for cycle in cycles if isinstance(cycle, Cycle) and not cycle.cut]
    tokens = [prefill.token]
    for cycle in cycles:
        assert isinstance(cycle, Cycle)
        tokens += cycle.tokens
    return {
        "tokens": len(tokens) - 1,
        "cycles": len(cycles),
        "committed_uncut": sum(len(cycle.tokens) for cycle in uncut),
        "cycles_uncut": len(uncut),
        "loop": has_loop(tokens),
        "prefill_ms": prefill.target_ms + prefill.draft_ms,
        "draft_ms": sum(t.draft for t in timings),
        "tree_ms": sum(t.tree for t in timings),
        "verify_ms": sum(t.verify for t in timings),
        "accept_ms": sum(t.accept for t in timings),
        "commit_ms": sum(t.commit for t in timings),
        "record_ms": sum(t.record for t in timings),
        "wall_ms": wall,
    }


def measure_generate(pair: LoadedPair, prompt: list[int], new_tokens: int) -> dict[str, object]:
    """transformers' own greedy generate with its stock attention: is our baseline honest?"""
    model = pair.target.model
    ids = torch.tensor([prompt], device=pair.target.device)
    model.set_attn_implementation("sdpa")
    try:
        start = time.perf_counter()
        out = model.generate(ids, max_new_tokens=new_tokens, do_sample=False)
        wall = (time.perf_counter() - start) * 1e3
    finally:
        model.set_attn_implementation(attention.NAME)
    return {"tokens": out.shape[1] - len(prompt) - 1, "wall_ms": wall}


def runs_of(pair: LoadedPair, question: Question, arguments: argparse.Namespace) -> Iterator[dict]:
    """Every measurement of one question, interleaved."""
    prompt = encode_chat(pair.tokenizer, question.prompt)
    common = {"set": question.set, "question": question.id, "prompt_tokens": len(prompt)}
    new = arguments.new_tokens
    ar = DecodeConfig(method="ar", max_new_tokens=new, record="off")
    yield common | {"run": "ar"} | measure(pair, prompt, ar)
    yield common | {"run": "generate"} | measure_generate(pair, prompt, new)
    for name in arguments.shapes:
        shape = TreeShape(*(int(part) for part in name.split(",")))
        config = DecodeConfig(shape=shape, max_new_tokens=new, record="off")
        yield common | {"run": name} | measure(pair, prompt, config)
    shape = TreeShape(*(int(part) for part in arguments.shapes[0].split(",")))
    full = DecodeConfig(shape=shape, max_new_tokens=new, record="full")
    yield common | {"run": f"{arguments.shapes[0]} recorded"} | measure(pair, prompt, full)


def with_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Decode time without prefill and recording, and ms a token."""
    phases = ["draft_ms", "tree_ms", "verify_ms", "accept_ms", "commit_ms"]
    frame = frame.assign(decode_ms=frame[phases].sum(axis=1))
    return frame.assign(ms_per_token=frame.decode_ms / frame.tokens.clip(lower=1))


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per set and run: tau, tokens/s, phases a cycle, ratio to AR."""
    frame = with_rates(frame[frame.run != "generate"])
    ar = frame[frame.run == "ar"].set_index(["set", "question"]).ms_per_token
    frame = frame.join(ar.rename("ar_ms"), on=["set", "question"])
    frame["ratio"] = frame.ar_ms / frame.ms_per_token
    rows = []
    for (name, run), group in frame.groupby(["set", "run"], sort=False):
        straight = group[~group.loop.astype(bool)]
        cycles = group.cycles.sum()
        overhead = group[["tree_ms", "accept_ms", "commit_ms"]].sum().sum()
        rows.append(
            {
                "set": name,
                "run": run,
                "tau": group.committed_uncut.sum() / group.cycles_uncut.sum(),
                "tau no loops": straight.committed_uncut.sum() / straight.cycles_uncut.sum(),
                "tokens/s": 1e3 * group.tokens.sum() / group.decode_ms.sum(),
                "ratio": group.ratio.median(),
                "draft": group.draft_ms.sum() / cycles,
                "tree": group.tree_ms.sum() / cycles,
                "verify": group.verify_ms.sum() / cycles,
                "accept": group.accept_ms.sum() / cycles,
                "commit": group.commit_ms.sum() / cycles,
                "record": group.record_ms.sum() / cycles,
                "host %": 100 * overhead / group.decode_ms.sum(),
                "record %": 100 * group.record_ms.sum() / group.wall_ms.sum(),
            }
        )
    return pd.DataFrame(rows)


def honest_baseline(frame: pd.DataFrame) -> float:
    """Median over questions of generate's wall time over our AR's, prefill included in both."""
    wall = frame.pivot_table(index=["set", "question"], columns="run", values="wall_ms")
    tokens = frame.pivot_table(index=["set", "question"], columns="run", values="tokens")
    return float(((wall.generate / tokens.generate) / (wall.ar / tokens.ar)).median())


def save(frame: pd.DataFrame, pair: LoadedPair, path: Path) -> None:
    """Write the CSV atomically, every row with what it needs to be repeated."""
    frame = frame.assign(
        dtype=str(pair.target.dtype).removeprefix("torch."),
        pair=pair.name,
        **measured_on(pair.target.device),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    frame.to_csv(temporary, index=False)
    temporary.replace(path)


def main() -> None:
    """Measure, print the table, write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--questions", type=Path, help="folder of SET.jsonl files with turns; default: our prompts"
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--count", type=int, default=10, help="questions a set")
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), help="total,depth,top_k")
    parser.add_argument("--pair")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    console = Console(width=150)
    pair = load_pair(arguments.pair)
    console.print(f"{machine(pair.target.device)}; {pair.dtype_reason}")
    console.print(f"prompts: {arguments.questions or ROOT / 'sample_prompts'}")
    asked = questions(arguments.questions, arguments.sets, arguments.count)
    list(runs_of(pair, asked[0], arguments))  # warm-up
    rows = []
    for question in track(asked, "Measuring", console=console):
        rows += list(runs_of(pair, question, arguments))
    frame = pd.DataFrame(rows)
    save(frame, pair, arguments.csv)
    with pd.option_context("display.width", 200, "display.max_columns", 20):
        console.print(summarize(frame).round(2).to_string(index=False))
    console.print(f"generate / our AR, wall time a token: {honest_baseline(frame):.2f}")
    console.print(f"written to {arguments.csv}")


if __name__ == "__main__":
    main()
