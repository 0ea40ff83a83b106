"""The runs in a suite's folder as a data frame, one row a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from eagle3_viz.metrics import PHASES, acceptance_by_depth, has_loop
from eagle3_viz.suite.manifest import Asked, Manifest, read_manifest
from eagle3_viz.suite.plan import trace_path
from eagle3_viz.text_lines import DataError
from eagle3_viz.trace import Header, ModelSource, Trace
from eagle3_viz.trace_file import TraceFileError, load
from eagle3_viz.wording import command_words


@dataclass(frozen=True)
class Results:
    """What a suite measured.

    runs        one row a run, of complete prompts alone: `set`, `prompt`, `sha256`, `domain`,
                `turn`, `setting`; `tokens` kept from cycles, `cycles`, `uncut_tokens` and
                `uncut_cycles` for tau; `draft_ms` to `commit_ms` over all cycles, `decode_ms`
                their sum, `prefill_ms`; `finish`; `loop`, whether the text ends in one; `accepted`
                and `tested`, counts by depth from 1 on.
    settings    by name, the DecodeConfig as plain JSON.
    facts       what the numbers need to be repeated: machine, pair, versions, command.
    incomplete  prompts, as "set/id", that some setting has not finished.
    """

    runs: pd.DataFrame
    settings: Mapping[str, Mapping[str, Any]]
    facts: Mapping[str, str]
    incomplete: tuple[str, ...]

    def baseline(self, setting: str) -> str | None:
        """The autoregressive setting with the same sampling, None where there is none."""
        for name, config in self.settings.items():
            if config.get("method") == "ar" and all(
                config.get(key) == self.settings[setting].get(key)
                for key in ("sampling", "max_new_tokens")
            ):
                return name
        return None


def read_results(folder: Path) -> Results:
    """Read every trace that the suite in `folder` has made so far.

    Raises DataError when the folder is none of a suite, when no prompt is complete, and when
    traces were not made under the same circumstances.
    """
    manifest = read_manifest(folder)
    rows, headers, incomplete = [], [], []
    for asked in manifest.prompts:
        found = list(_runs(folder, manifest, asked))
        if len(found) < asked.turns * len(manifest.settings):
            incomplete.append(f"{asked.set}/{asked.id}")
            continue
        rows += [row for row, _ in found]
        headers += [header for _, header in found]
    if not rows:
        raise DataError(
            f"no prompt in {folder} has a run of every setting yet; let the suite go on first"
        )
    facts = _facts(manifest, headers, folder)
    return Results(pd.DataFrame(rows), manifest.settings, facts, tuple(incomplete))


def _runs(
    folder: Path, manifest: Manifest, asked: Asked
) -> Iterator[tuple[dict[str, Any], Header]]:
    place = {
        "set": asked.set,
        "prompt": asked.id,
        "sha256": asked.sha256,
        "domain": asked.domain,
    }
    for turn in range(1, asked.turns + 1):
        for setting in manifest.settings:
            path = trace_path(folder, asked.set, asked.id, turn, setting)
            if not path.exists():
                continue
            try:
                trace = load(path)
            except TraceFileError as error:
                raise DataError(f"{path}: {error}") from error
            yield {**place, "turn": turn, "setting": setting, **measured(trace)}, trace.header


def measured(trace: Trace) -> dict[str, Any]:
    """The counts and times of one run, such that sums over runs mean something."""
    cycles = trace.cycles
    uncut = [cycle for cycle in cycles if not cycle.cut]
    times = {
        f"{phase}_ms": sum(float(getattr(cycle.timing, phase)) for cycle in cycles)
        for phase in PHASES
    }
    depths = acceptance_by_depth(trace)
    prefill = trace.prefill
    return {
        "tokens": sum(len(cycle.tokens) for cycle in cycles),
        "cycles": len(cycles),
        "uncut_tokens": sum(len(cycle.tokens) for cycle in uncut),
        "uncut_cycles": len(uncut),
        **times,
        "decode_ms": sum(times.values()),
        "prefill_ms": 0.0 if prefill is None else prefill.target_ms + prefill.draft_ms,
        "finish": trace.finish or "",
        "loop": has_loop(trace.written),
        "accepted": depths.accepted.tolist(),
        "tested": depths.tested.tolist(),
    }


def _facts(manifest: Manifest, headers: list[Header], folder: Path) -> dict[str, str]:
    """What all runs share. Raises DataError naming what they do not share but must."""
    shared = {
        "pair": Counter(header.pair for header in headers),
        "target": Counter(_source(header.target) for header in headers),
        "dtype": Counter(header.dtype for header in headers),
        "device": Counter(header.device for header in headers),
        "threads": Counter(str(header.threads) for header in headers),
        "versions": Counter(_versions(header) for header in headers),
    }
    for name, values in shared.items():
        if len(values) > 1:
            raise DataError(
                f"the runs in {folder} differ in {name}: {' and '.join(list(values)[:2])}; they "
                "cannot be compared, run the suite into another folder"
            )
    drafts = dict.fromkeys(_source(header.draft) for header in headers if header.draft)
    commits = dict.fromkeys(header.git_commit or "unknown" for header in headers)
    commands = dict.fromkeys(command_words(header.argv) for header in headers)
    return {
        "machine": manifest.machine,
        **{name: next(iter(values)) for name, values in shared.items()},
        "drafts": "; ".join(drafts) or "none",
        "commit": "; ".join(commits),
        "command": "; ".join(commands),
    }


def _source(source: ModelSource) -> str:
    return f"{source.name} {source.revision or source.sha256[:12]}".strip()


def _versions(header: Header) -> str:
    return ", ".join(f"{name} {version}" for name, version in header.versions.items())
