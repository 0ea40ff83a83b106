"""The table of a suite: a row for every group of prompts and setting (MATH.md 4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from eagle3_viz.metrics import PHASES
from eagle3_viz.prompt_records import ALL
from eagle3_viz.suite.bootstrap import Statistic, interval
from eagle3_viz.suite.results import Results

Groups = Iterator[tuple[str, str, pd.DataFrame]]


def tabulate(results: Results) -> pd.DataFrame:
    """One row for every set, domain and setting; domain `ALL` is the whole set, set `ALL` all sets.

    tau                 tokens per cycle: tokens over cycles, both summed over uncut cycles.
    tokens_per_second   decode alone, as are the next two.
    ms_per_token        total time over total tokens kept from cycles.
    speedup             ms per token of autoregression over that of the setting, same prompts.
    draft_ms .. commit_ms  of a cycle, on average.
    loops               share of the prompts with an answer that ends in a loop.
    conditional_d       accepted at depth d / tested there.
    unconditional_d     accepted at depth d / cycles.

    `_low` and `_high` bound the 95 % bootstrap interval over prompts. NaN where there is nothing
    to compute a number from.
    """
    deepest = int(results.runs.accepted.map(len).max())
    rows = []
    for set_name, domain, group in grouped(results.runs):
        for setting in results.settings:
            runs = group[group.setting == setting]
            baseline = results.baseline(setting)
            ar = None if baseline is None else group[group.setting == baseline]
            rows.append(
                {
                    "set": set_name,
                    "domain": domain,
                    "setting": setting,
                    "method": str(results.settings[setting].get("method")),
                    "rule": str(results.settings[setting].get("rule")),
                    "prompts": len(runs[["set", "prompt"]].drop_duplicates()),
                    **_tau(runs),
                    **_speed(runs, ar),
                    **_phases(runs),
                    "loops": float(runs.groupby(["set", "prompt"]).loop.any().mean()),
                    **_acceptance(runs, deepest),
                }
            )
    return pd.DataFrame(rows)


def grouped(rows: pd.DataFrame) -> Groups:
    """(set, domain, rows): domains of a set, each set, domains of several sets, everything.

    rows: has columns `set` and `domain`. A set that is one domain and has its name is not divided.
    """
    for name, of_set in rows.groupby("set", sort=False):
        if set(of_set.domain) != {name}:
            yield from ((str(name), str(d), group) for d, group in _by_domain(of_set))
        yield str(name), ALL, of_set
    if rows.set.nunique() > 1:
        for domain, of_domain in _by_domain(rows):
            if of_domain.set.nunique() > 1:
                yield ALL, str(domain), of_domain
        yield ALL, ALL, rows


def _by_domain(rows: pd.DataFrame) -> Iterator[tuple[object, pd.DataFrame]]:
    return iter(rows.groupby("domain", sort=False))


def group_title(name: str, domain: str) -> str:
    """What a group of `grouped` is called on the screen."""
    whole = "All prompts" if name == ALL else name
    return whole if domain == ALL else f"{whole}, {domain}"


def by_prompt(runs: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Sums of `columns` over the turns of each prompt, indexed by set and prompt."""
    return runs.groupby(["set", "prompt"], sort=False)[columns].sum()


def quotient(sums: np.ndarray) -> np.ndarray:
    """First over second, [..., 2] to [...]."""
    return sums[..., 0] / sums[..., 1]


def ratio_of_quotients(sums: np.ndarray) -> np.ndarray:
    """(first / second) / (third / fourth), [..., 4] to [...]."""
    return quotient(sums[..., :2]) / quotient(sums[..., 2:])


def _tau(runs: pd.DataFrame) -> dict[str, float]:
    rows = by_prompt(runs, ["uncut_tokens", "uncut_cycles"]).to_numpy(float)
    low, high = interval(rows, quotient)
    return {"tau": value(quotient, rows), "tau_low": low, "tau_high": high}


def _speed(runs: pd.DataFrame, ar: pd.DataFrame | None) -> dict[str, float]:
    own = by_prompt(runs, ["decode_ms", "tokens"])
    ms = value(quotient, own.to_numpy(float))
    found = {"tokens_per_second": 1000.0 / ms, "ms_per_token": ms}
    if ar is None:
        return {**found, "speedup": np.nan, "speedup_low": np.nan, "speedup_high": np.nan}
    pairs = by_prompt(ar, ["decode_ms", "tokens"]).add_suffix("_ar").join(own, how="inner")
    rows = pairs.to_numpy(float)
    low, high = interval(rows, ratio_of_quotients)
    speedup = value(ratio_of_quotients, rows)
    return {**found, "speedup": speedup, "speedup_low": low, "speedup_high": high}


def value(statistic: Statistic, rows: np.ndarray) -> float:
    """`statistic` of the sums of `rows`; NaN where it divides by nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(statistic(rows.sum(axis=0)))


def _phases(runs: pd.DataFrame) -> dict[str, float]:
    cycles = float(runs.cycles.sum()) or np.nan
    return {f"{phase}_ms": float(runs[f"{phase}_ms"].sum()) / cycles for phase in PHASES}


def _acceptance(runs: pd.DataFrame, deepest: int) -> dict[str, float]:
    accepted, tested = (_by_depth(runs[name], deepest) for name in ("accepted", "tested"))
    cycles = float(runs.cycles.sum()) or np.nan
    with np.errstate(invalid="ignore"):
        shares = accepted / tested
    depths = range(1, deepest + 1)
    return {
        **{f"conditional_{d}": float(shares[d - 1]) for d in depths},
        **{f"unconditional_{d}": float(accepted[d - 1]) / cycles for d in depths},
    }


def _by_depth(counts: pd.Series, deepest: int) -> np.ndarray:
    """Sums of lists of different lengths, [deepest]."""
    total = np.zeros(deepest)
    for row in counts:
        total[: len(row)] += row
    return total
