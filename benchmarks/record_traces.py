"""Records the traces that ship with the project: docs/traces/<method>-<domain>.parquet.

    python -m benchmarks.record_traces [--out docs/traces] [--tokens 64] [--domains chat code]

One run of every method on the first sample prompt of every domain, with everything recorded and a
baseline measured on the same prompt right before. Some domains are decoded greedily and some
sampled, so that the pages have every acceptance rule to show. The timings in a trace are those of
the machine it states: record on a quiet one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.progress import track

from eagle3_viz import trace_file
from eagle3_viz.config import METHODS, DecodeConfig, Method, Rule, Sampling
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.presets import DOMAINS, Preset, load_presets
from eagle3_viz.run import measure_baseline, run
from eagle3_viz.trace import Baseline

OUT = Path(__file__).resolve().parent.parent / "docs" / "traces"
SAMPLED: dict[str, tuple[float, Rule]] = {  # the other domains are greedy
    "chat": (0.8, "topk"),
    "instruction": (0.8, "sample"),
    "creative": (1.0, "sample"),
}


SEEDS = {"instruction": 9}  # with 0, as elsewhere, some methods end that text after a few tokens


def config_for(method: Method, domain: str, tokens: int) -> DecodeConfig:
    """How a domain's prompt is decoded. Copied text has no q: lookup keeps its own rule."""
    temperature, rule = SAMPLED.get(domain, (0.0, None))
    own = method in ("ar", "lookup")
    return DecodeConfig(
        method=method,
        sampling=Sampling(temperature),
        rule=None if own else rule,
        max_new_tokens=tokens,
        record="full",
        seed=SEEDS.get(domain, 0),
    )


def recorded(
    pair: LoadedPair, preset: Preset, config: DecodeConfig, baseline: Baseline | None
) -> bytes:
    """The content of the trace file of one run."""
    steps = run(pair, preset.prompt, config, system=preset.system, baseline=baseline)
    *_, trace = steps
    return trace_file.to_bytes(trace)


def jobs(domains: Sequence[str]) -> Iterator[tuple[Preset, Method]]:
    """Every method on the first prompt of each domain; a prompt's runs follow each other."""
    presets = load_presets()
    for domain in domains:
        for method in METHODS:
            yield presets[domain][0], method


def main() -> None:
    """Record all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=DOMAINS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pair = load_pair()
    baselines: dict[str, Baseline | None] = {}
    for preset, method in track(list(jobs(arguments.domains)), "Recording"):
        if preset.id not in baselines:
            baselines[preset.id] = measure_baseline(pair, preset.prompt, system=preset.system)
        config = config_for(method, preset.domain, arguments.tokens)
        data = recorded(pair, preset, config, baselines[preset.id])
        (arguments.out / f"{method}-{preset.domain}.parquet").write_bytes(data)


if __name__ == "__main__":
    main()
