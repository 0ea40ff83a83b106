"""How large the parts of a trace may be: files come from other people, and pages show them.

Every function raises ValueError with the first part that is too large or out of range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields

import pyarrow as pa
import pyarrow.compute as pc

from eagle3_viz.config import MAX_DEPTH, MAX_TOP_K, MAX_TOTAL, METHODS, RULES
from eagle3_viz.records import Nodes, Pool
from eagle3_viz.trace import Baseline, Header, ModelSource, Trace
from eagle3_viz.trace_values import MAX_TOP, require

MAX_LABEL = 300  # characters of a name, a hash, a version
MAX_SENTENCE = 4_000  # characters of an explanation
MAX_PROMPT = 2_000_000  # characters, also of a command line, which may hold a prompt
MAX_VERSIONS = 100
MAX_CONFIG_DEPTH = 8
MAX_CONFIG_VALUES = 100_000
MAX_TOKEN_BYTES = 4_096
MAX_COUNT = 2**63 - 1
MAX_TOKEN_ID = 2**31 - 1
MAX_POOL = MAX_TOP_K + MAX_DEPTH * MAX_TOP_K**2

MOST = {
    **dict.fromkeys(("tokens", "origins", "path", "distributions"), MAX_TOTAL),
    "draft_levels_ms": MAX_TOTAL + 1,
    "draws": 2 * MAX_TOTAL,
    **{f"node_{f.name}": MAX_TOTAL for f in fields(Nodes)},
    **{f"pool_{f.name}": MAX_POOL for f in fields(Pool)},
}
"""Entries that a cycle may have in each list column: no run is configured larger."""


def check_lists(table: pa.Table) -> None:
    """Lengths of the list columns of `trace_columns`, before anything becomes a Python object."""
    for name in MOST:
        if name in table.column_names:
            _check_lengths(name, table.column(name), MOST[name])
    if "distributions" in table.column_names:
        entries = pc.list_flatten(table.column("distributions"))
        for top in ("p_raw", "p", "q", "residual"):
            for part in ("token", "probability"):
                lengths = pc.list_value_length(pc.struct_field(entries, [top, part]))
                longest = pc.max(lengths).as_py() or 0
                require(
                    longest <= MAX_TOP,
                    f"a distribution lists {longest:,} tokens, at most {MAX_TOP} are allowed",
                )


def _check_lengths(name: str, column: pa.ChunkedArray, most: int) -> None:
    lengths = pc.list_value_length(column)
    longest = pc.max(lengths).as_py() or 0
    if longest > most:
        row = pc.index(lengths, longest).as_py()
        raise ValueError(
            f"cycle {row}: {longest:,} entries in {name}, at most {most:,} are allowed"
        )


def check_header(header: Header) -> None:
    """Known method and rule, texts that can be shown, counts that are counts."""
    require(header.method in METHODS, f"unknown method {header.method[:20]!r}")
    require(header.rule in RULES, f"unknown rule {header.rule[:20]!r}")
    labels = {
        name: getattr(header, name)
        for name in ("pair", "dtype", "device", "git_commit", "chat_template_sha256", "started_at")
    }
    _texts(labels, MAX_LABEL)
    _texts({"dtype_reason": header.dtype_reason}, MAX_SENTENCE)
    _texts({"prompt": header.prompt, "argv": "".join(header.argv)}, MAX_PROMPT)
    require(len(header.versions) <= MAX_VERSIONS, f"versions lists {len(header.versions)} packages")
    for name, version in header.versions.items():
        _texts({"name of a package": name, "version of a package": version}, MAX_LABEL)
    for name in ("threads", "seed", "draft_vocabulary", "vocabulary", "context_limit"):
        _count(name, getattr(header, name))
    _check_config(header.config)
    for source in (header.target, header.draft):
        _check_source(source)
    _check_baseline(header.baseline)


def check_tokens(trace: Trace, mentioned: Iterable[int]) -> None:
    """Every id that is `mentioned` or has bytes is one a vocabulary can have; bytes are few."""
    for token in (*mentioned, *trace.token_bytes):
        require(0 <= token <= MAX_TOKEN_ID, f"{token} is no token id")
    longest = max(map(len, trace.token_bytes.values()), default=0)
    require(
        longest <= MAX_TOKEN_BYTES,
        f"token_bytes has a token of {longest} bytes, at most {MAX_TOKEN_BYTES} are allowed",
    )


def _check_source(source: ModelSource | None) -> None:
    if source is not None:
        _texts({n: v for n, v in vars(source).items() if isinstance(v, str)}, MAX_LABEL)
        _count("parameters", source.parameters)


def _check_baseline(baseline: Baseline | None) -> None:
    if baseline is not None:
        _texts({"measured_at": baseline.measured_at}, MAX_LABEL)
        _texts({"how": baseline.how}, MAX_SENTENCE)
        _count("tokens of the baseline", baseline.tokens)
        spent = baseline.ms_per_token
        require(0 < spent < math.inf, f"the baseline took {spent} ms a token")


def _check_config(config: Mapping[str, object]) -> None:
    """A level at a time, so that no nesting exhausts the stack."""
    level: list[object] = [config]
    values = 0
    for _ in range(MAX_CONFIG_DEPTH):
        level = [inner for value in level for inner in _inner(value)]
        values += len(level)
        finite = all(math.isfinite(value) for value in level if isinstance(value, float))
        require(finite, "config holds a number that is not finite")
    require(not level, f"config is nested deeper than {MAX_CONFIG_DEPTH} levels")
    require(values <= MAX_CONFIG_VALUES, f"config holds {values} values")


def _inner(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _texts(texts: Mapping[str, str], limit: int) -> None:
    for name, text in texts.items():
        require(
            len(text) <= limit,
            f"{name} has {len(text)} characters, at most {limit} are allowed",
        )


def _count(name: str, value: int) -> None:
    require(0 <= value <= MAX_COUNT, f"{name} is no count: {str(value)[:20]}")
