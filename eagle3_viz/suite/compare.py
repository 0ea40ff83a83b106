"""Two suites, or two settings of one, prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from eagle3_viz.suite.bootstrap import interval
from eagle3_viz.suite.results import Results
from eagle3_viz.suite.table import by_prompt, grouped, quotient, ratio_of_quotients, value
from eagle3_viz.text_lines import DataError

_COUNTS = ["uncut_tokens", "uncut_cycles", "decode_ms", "tokens"]


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. Prompts are named "set/id".

    table    a row for every pair of settings and group of `table.grouped`: set and domain, each
             `ALL` for all of them.
    only_a   prompts that the second suite has not; only_b the other way round.
    changed  prompts of one name that ask something else; left out, as the former are.
    alone_a  settings that the second suite has not, where all of one name were compared; alone_b
             the other way round.
    """

    table: pd.DataFrame
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed: tuple[str, ...]
    alone_a: tuple[str, ...] = ()
    alone_b: tuple[str, ...] = ()


def compare(
    a: Results, b: Results, settings: Sequence[tuple[str, str]] | None = None
) -> Comparison:
    """Compare on the prompts that both have.

    settings: pairs of a setting of `a` and one of `b`; by default those of one name.

    Columns: `tau_a`, `tau_b`, `tau_difference` = b - a; `speed_ratio`, ms per token of a over that
    of b, above 1 where b is faster; `speedup_ratio`, the same of their speed-ups over their own
    autoregression, in which a machine that was faster that day cancels. Each with the bounds of a
    95 % interval over prompts, both sides drawn together. Raises DataError when nothing is common.
    """
    pairs = _pairs(a, b, settings)
    hashes_a, hashes_b = _hashes(a.runs), _hashes(b.runs)
    common = [at for at, sha256 in hashes_a.items() if hashes_b.get(at) == sha256]
    if not common:
        raise DataError("the two suites have no prompt in common; compare runs of the same prompts")
    domains = a.runs.groupby(["set", "prompt"]).domain.first()
    rows = []
    for setting_a, setting_b in pairs:
        side_a, side_b = _side(a, setting_a), _side(b, setting_b)
        both = side_a.add_suffix("_a").join(side_b.add_suffix("_b"), how="inner")
        both = both.loc[both.index.isin(common)]
        for name, domain, group in grouped(both.join(domains).reset_index("set")):
            rows.append(
                {
                    "set": name,
                    "domain": domain,
                    "setting_a": setting_a,
                    "setting_b": setting_b,
                    "prompts": len(group),
                    **_tau(group),
                    **_speed(group),
                }
            )
    return Comparison(
        table=pd.DataFrame(rows),
        only_a=_named(hashes_a.keys() - hashes_b.keys()),
        only_b=_named(hashes_b.keys() - hashes_a.keys()),
        changed=_named((hashes_a.keys() & hashes_b.keys()) - set(common)),
        alone_a=() if settings else tuple(n for n in a.settings if n not in b.settings),
        alone_b=() if settings else tuple(n for n in b.settings if n not in a.settings),
    )


def _pairs(
    a: Results, b: Results, settings: Sequence[tuple[str, str]] | None
) -> Sequence[tuple[str, str]]:
    pairs = [(n, n) for n in a.settings if n in b.settings] if settings is None else settings
    for name, results in ((n, r) for pair in pairs for n, r in zip(pair, (a, b), strict=True)):
        if name not in results.settings:
            raise DataError(
                f"there is no setting {name!r}; the suite has {', '.join(results.settings)}"
            )
    if not pairs:
        raise DataError(
            f"the suites share no setting: one has {', '.join(a.settings)}, the other "
            f"{', '.join(b.settings)}; name the two to compare"
        )
    return pairs


def _hashes(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    first = runs.drop_duplicates(["set", "prompt"])
    return {(row.set, row.prompt): row.sha256 for row in first.itertuples()}


def _named(prompts: set[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(sorted(f"{name}/{prompt}" for name, prompt in prompts))


def _side(results: Results, setting: str) -> pd.DataFrame:
    """Sums by prompt, and beside them those of autoregression, NaN without it."""
    own = by_prompt(results.runs[results.runs.setting == setting], _COUNTS)
    baseline = results.baseline(setting)
    if baseline is None:
        return own.assign(ar_ms=np.nan, ar_tokens=np.nan)
    ar = by_prompt(results.runs[results.runs.setting == baseline], _COUNTS)
    return own.assign(ar_ms=ar.decode_ms, ar_tokens=ar.tokens)


def _tau(both: pd.DataFrame) -> dict[str, float]:
    columns = ["uncut_tokens_b", "uncut_cycles_b", "uncut_tokens_a", "uncut_cycles_a"]
    rows = both[columns].to_numpy(float)
    low, high = interval(rows, _difference)
    return {
        "tau_a": value(quotient, rows[:, 2:]),
        "tau_b": value(quotient, rows[:, :2]),
        "tau_difference": value(_difference, rows),
        "tau_difference_low": low,
        "tau_difference_high": high,
    }


def _difference(sums: np.ndarray) -> np.ndarray:
    return quotient(sums[..., :2]) - quotient(sums[..., 2:])


def _speed(both: pd.DataFrame) -> dict[str, float]:
    raw = both[["decode_ms_a", "tokens_a", "decode_ms_b", "tokens_b"]].to_numpy(float)
    ar = both[["ar_ms_b", "ar_tokens_b", "ar_ms_a", "ar_tokens_a"]].to_numpy(float)
    found: dict[str, float] = {}
    for name, rows, statistic in (
        ("speed_ratio", raw, ratio_of_quotients),
        ("speedup_ratio", np.hstack([raw, ar]), _speedup_ratio),
    ):
        low, high = interval(rows, statistic)
        found |= {name: value(statistic, rows), f"{name}_low": low, f"{name}_high": high}
    return found


def _speedup_ratio(sums: np.ndarray) -> np.ndarray:
    """The ratio of speeds times (AR's ms per token in b / in a), [..., 8] to [...]."""
    return ratio_of_quotients(sums[..., :4]) * ratio_of_quotients(sums[..., 4:])
