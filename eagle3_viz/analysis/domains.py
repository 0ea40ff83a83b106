"""Domains against metrics, from a suite or from several traces, and the prompts of a cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from eagle3_viz.prompt_records import ALL
from eagle3_viz.suite.bootstrap import Statistic, interval
from eagle3_viz.suite.compare import Comparison, compare
from eagle3_viz.suite.results import Results
from eagle3_viz.suite.table import by_prompt, quotient, ratio_of_quotients, value

DEPTHS = 3  # depths that the matrix has columns for
_COUNTS = ["uncut_tokens", "uncut_cycles", "decode_ms", "tokens", "cycles"]


@dataclass(frozen=True)
class Metric:
    """A column of the matrix: `statistic` of the sums over prompts of `columns` of `per_prompt`."""

    title: str
    columns: tuple[str, ...]
    statistic: Statistic


METRICS = {
    "tau": Metric("tau", ("uncut_tokens", "uncut_cycles"), quotient),
    **{
        f"depth_{depth}": Metric(
            f"accepted at depth {depth}", (f"accepted_{depth}", f"tested_{depth}"), quotient
        )
        for depth in range(1, DEPTHS + 1)
    },
    "speedup": Metric(
        "speed-up over AR", ("ar_ms", "ar_tokens", "decode_ms", "tokens"), ratio_of_quotients
    ),
}


def by_domain(results: Results) -> Results:
    """`results` with its domains as sets; a prompt is then called "set/prompt"."""
    runs = results.runs
    renamed = runs.assign(set=runs.domain, prompt=runs.set + "/" + runs.prompt)
    return replace(results, runs=renamed)


def domain_matrix(results: Results) -> pd.DataFrame:
    """Every metric of every domain and setting, and of all domains last where there are several.

    A setting has no row in a domain of which it decoded no prompt.

    Columns: `domain` (`ALL` for all), `setting`, `prompts`, `metric` (a key of `METRICS`), `value`,
    and `low`, `high`, its 95 % bootstrap interval over prompts; NaN for a single prompt, which says
    nothing about others.
    """
    domains = list(dict.fromkeys(results.runs.domain))
    tables = {setting: per_prompt(results, setting) for setting in results.settings}
    rows = []
    for domain in domains if len(domains) == 1 else [*domains, ALL]:
        for setting, prompts in tables.items():
            group = _of_domain(prompts, domain)
            place = {"domain": domain, "setting": setting, "prompts": len(group)}
            rows += [{**place, **cell} for cell in _cells(group) if len(group)]
    return pd.DataFrame(rows)


def _of_domain(prompts: pd.DataFrame, domain: str) -> pd.DataFrame:
    return prompts if domain == ALL else prompts[prompts.index.get_level_values("domain") == domain]


def _cells(prompts: pd.DataFrame) -> list[dict[str, object]]:
    cells: list[dict[str, object]] = []
    for name, metric in METRICS.items():
        rows = prompts[list(metric.columns)].to_numpy(float)
        rows = rows[~np.isnan(rows).any(axis=1)]  # prompts without autoregression
        low, high = interval(rows, metric.statistic)
        number = value(metric.statistic, rows) if len(rows) else np.nan
        cells.append({"metric": name, "value": number, "low": low, "high": high})
    return cells


def per_prompt(results: Results, setting: str) -> pd.DataFrame:
    """Sums over the turns of each prompt under `setting`, indexed by domain, set and prompt.

    Columns: uncut_tokens, uncut_cycles, decode_ms, tokens, cycles; `accepted_d` and `tested_d` for
    depths 1 to `DEPTHS`; `ar_ms` and `ar_tokens` of autoregression on the same prompt, NaN without
    it.
    """
    runs = results.runs[results.runs.setting == setting]
    depths = {
        f"{name}_{depth}": runs[name].map(
            lambda row, at=depth: row[at - 1] if len(row) >= at else 0
        )
        for name in ("accepted", "tested")
        for depth in range(1, DEPTHS + 1)
    }
    prompts = runs.assign(**depths).groupby(["domain", "set", "prompt"], sort=False)
    sums = prompts[[*_COUNTS, *depths]].sum()
    return sums.join(_autoregression(results, setting, prompts))


def _autoregression(results: Results, setting: str, prompts: DataFrameGroupBy) -> pd.DataFrame:
    """`ar_ms` and `ar_tokens` by prompt: measured with the runs, or by a setting of its own."""
    columns = ["ar_ms", "ar_tokens"]
    if set(columns) <= set(results.runs):
        return prompts[columns].sum(skipna=False)
    index = prompts.size().index
    baseline = results.baseline(setting)
    if baseline is None:
        return pd.DataFrame(np.nan, index, columns)
    ar = by_prompt(results.runs[results.runs.setting == baseline], ["decode_ms", "tokens"])
    return ar.reindex(index.droplevel("domain")).set_axis(index).set_axis(columns, axis=1)


def prompts_of_cell(results: Results, domain: str, setting: str) -> pd.DataFrame:
    """The prompts behind a cell, fewest tokens per cycle first; domain `ALL` for all.

    Columns: domain, set, prompt, cycles, tokens, tau, depth_1 to depth_3, speedup.
    """
    prompts = _of_domain(per_prompt(results, setting), domain)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = {
            name: metric.statistic(prompts[list(metric.columns)].to_numpy(float))
            for name, metric in METRICS.items()
        }
    table = prompts[["cycles", "tokens"]].assign(**numbers).reset_index()
    return table.sort_values("tau", kind="stable", ignore_index=True)


def compare_by_domain(a: Results, setting_a: str, b: Results, setting_b: str) -> Comparison:
    """`suite.compare` of one setting of each, by domain in place of set.

    Raises DataError when the two have no prompt in common.
    """
    return compare(by_domain(a), by_domain(b), [(setting_a, setting_b)])
