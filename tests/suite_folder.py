"""Suite folders made by hand: runs with chosen acceptance, times and tokens, no model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eagle3_viz.config import DecodeConfig
from eagle3_viz.prompt_sets import PromptSet
from eagle3_viz.records import Cycle, Origin, Prefill, Timing
from eagle3_viz.suite.manifest import claim, manifest_of
from eagle3_viz.suite.plan import Plan, trace_path
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import save
from tests.synthetic import make_trace

MACHINE = "Made-up CPU, 2 cores"
WIDTH = 60  # token ids that the runs use


@dataclass(frozen=True)
class Run:
    """accepted: drafted tokens of each cycle. recovered: whether a refused child ended its walk.

    ms: one number a phase in the order of `metrics.PHASES`, the same in every cycle. cut: the last
    cycle keeps one token alone. token: the only token written, None for a text without a loop.
    """

    accepted: Sequence[int]
    recovered: Sequence[bool]
    ms: Sequence[float]
    cut: bool = False
    token: int | None = None


def trace_of(run: Run, config: DecodeConfig, prompt: str = "why?") -> Trace:
    """`run` as a trace of record level "off"."""
    blank = make_trace(cycles=1, record="off", method="ar")
    prompt_ids = blank.header.prompt_ids
    tokens = iter(_tokens(run))
    first = next(tokens)
    cycles: list[Cycle] = []
    root, length = first, len(prompt_ids)
    draft, tree, verify, accept, commit = run.ms
    for index, (accepted, recovered) in enumerate(zip(run.accepted, run.recovered, strict=True)):
        last = index == len(run.accepted) - 1
        cut = last and run.cut
        kept = 1 if cut else accepted + 1
        end = Origin.RECOVERED if recovered else Origin.BONUS
        origins = (*[Origin.ACCEPTED] * accepted, Origin.PLAIN if config.method == "ar" else end)
        written = tuple(next(tokens) for _ in range(accepted + 1))[:kept]
        cycles.append(
            Cycle(
                index=index,
                prefix_length=length,
                root=root,
                tokens=written,
                origins=origins[:kept],
                accepted=accepted,
                path=tuple(range(accepted + 1)),
                verified=accepted + 2,
                drafted=0,
                draft_forwards=0,
                timing=Timing((draft,), tree, verify, accept, commit, 0.0),
                cut=cut,
                finish="length" if last else None,
            )
        )
        length, root = length + kept, written[-1]
    header = replace(
        blank.header,
        method=config.method,
        rule=str(config.rule),
        config=json.loads(json.dumps(asdict(config))),
        prompt=prompt,
    )
    prefill = Prefill(len(prompt_ids), first, 30.0, 4.0)
    return Trace(header, prefill, cycles, blank.token_bytes)


def _tokens(run: Run) -> list[int]:
    count = sum(run.accepted) + len(run.accepted) + 1
    if run.token is not None:
        return [run.token] * count
    # distances grow: no block of it comes three times in a row
    return [(n * (n + 1) // 2) % WIDTH for n in range(count)]


def write_suite(
    folder: Path,
    sets: Sequence[PromptSet],
    settings: Mapping[str, DecodeConfig],
    runs: Mapping[tuple[str, str, int, str], Run],
) -> None:
    """A suite's folder with the given runs, by set, prompt, turn and setting."""
    folder.mkdir(parents=True, exist_ok=True)
    claim(folder, manifest_of(Plan(tuple(sets), settings), MACHINE))
    for (set_name, prompt, turn, setting), run in runs.items():
        path = trace_path(folder, set_name, prompt, turn, setting)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(trace_of(run, settings[setting]), path)
