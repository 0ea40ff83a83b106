"""The numbers of the Acceptance page from a Parquet file alone: pandas, and none of our code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

ACCEPTED, REJECTED = 1, 2


def acceptance(path: Path) -> dict[str, pd.DataFrame | pd.Series | float]:
    """Every table and number, by name; `position` and depths count from 1, ranks too."""
    cycles = pd.read_parquet(path)
    columns = [name for name in cycles if name.startswith("node_")]
    nodes = cycles[["index", "path", *columns]].explode(columns)
    nodes.columns = [name.removeprefix("node_") for name in nodes]
    nodes["node"] = nodes.groupby("index").cumcount()
    nodes = nodes[nodes.depth > 0].infer_objects()
    nodes["hit"], nodes["seen"] = nodes.state == ACCEPTED, nodes.state.isin([ACCEPTED, REJECTED])
    nodes["rank"], nodes["q"] = (nodes.q_rank + 1).clip(upper=10), np.exp(nodes.draft_logprob)
    nodes["path_q"] = np.exp(nodes.score)
    walked = nodes[[up in path for up, path in zip(nodes.parent, nodes.path, strict=True)]]
    visits = walked.groupby(["index", "depth"]).hit.any().rename("accepted").reset_index()
    at = cycles[["index", "path", "distributions"]].explode("distributions").dropna()
    at["depth"] = [
        path.tolist().index(d["node"]) + 1
        for path, d in zip(at.path, at.distributions, strict=True)
    ]
    at["expected"] = [d["expected_acceptance"] for d in at.distributions]
    visits = visits.merge(at[["index", "depth", "expected"]], how="left")
    depth = visits.groupby("depth").agg(
        tested=("accepted", "size"), accepted=("accepted", "sum"), expected=("expected", "mean")
    )
    uncut = cycles[~cycles.cut]
    root = at[at.depth == 1].set_index("index").expected.reindex(cycles["index"]).to_numpy()
    ms = cycles.draft_levels_ms.map(sum) + cycles[["tree_ms", "verify_ms", "accept_ms"]].sum(axis=1)
    worst = pd.DataFrame(
        {"tokens": cycles.tokens.map(len), "expected": root, "ms": -(ms + cycles.commit_ms)}
    )[~cycles.cut]
    return {
        "depth": depth.assign(unconditional=depth.accepted / len(cycles)),
        "rank": nodes.groupby(["depth", "rank"])[["seen", "hit"]].sum(),
        "lengths": uncut.accepted.value_counts().sort_index(),
        "tau": uncut.tokens.map(len).expanding().mean(),
        "worst": worst.sort_values(list(worst), kind="stable").index[:20].to_series(),
        "misses": misses(cycles, nodes),
        "token_error": calibration_error(nodes.q, nodes.p_raw),
        "path_error": calibration_error(nodes.path_q, nodes.hit.astype(float)),
    }


def calibration_error(confidence: pd.Series, outcome: pd.Series) -> float:
    bins = np.minimum((confidence.astype(float) * 10).astype(int), 9)
    gap = (confidence - outcome).groupby(bins).sum().abs()
    return float(gap.sum() / len(confidence))


def misses(cycles: pd.DataFrame, nodes: pd.DataFrame) -> pd.Series:
    missed = cycles[cycles.miss.notna() & ~cycles.cut & (cycles.drafted > 0)]
    why = pd.json_normalize(missed.miss.tolist())
    children = set(zip(nodes["index"], nodes.parent, nodes.token, strict=True))
    decided = zip(missed["index"], why.node, why.token, strict=True)
    lost = [place in children for place in decided]
    conditions = [~why.in_draft_vocabulary, why.beyond_depth, ~why.expanded, lost, why.pruned]
    names = ["vocabulary", "depth", "unexpanded", "lost", "pruned"]
    return pd.Series(np.select(conditions, names, "rank")).value_counts()
