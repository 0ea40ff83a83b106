"""Cycles as columns: one row a cycle, ragged data as list columns.

`SCHEMA` is the whole layout. A null in a `node_*`, `pool_*` or `miss` column means that the run did
not record it; a NaN means that the value does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from eagle3_viz import trace_limits
from eagle3_viz.records import (
    Cycle,
    Distributions,
    Finish,
    Miss,
    Nodes,
    Origin,
    Pool,
    Timing,
    Top,
)

Record = TypeVar("Record", Nodes, Pool)


def _list(value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", value, nullable=False))


def _struct(members: dict[str, pa.DataType], nullable: Sequence[str] = ()) -> pa.DataType:
    return pa.struct([pa.field(n, t, nullable=n in nullable) for n, t in members.items()])


_INT, _FLOAT, _DOUBLE, _BOOL = pa.int32(), pa.float32(), pa.float64(), pa.bool_()

NODE_TYPES = {
    "token": _INT,
    "parent": _INT,
    "depth": _INT,
    "draft_logprob": _FLOAT,
    "score": _FLOAT,
    "q_rank": _INT,
    "p_raw": _FLOAT,
    "p": _FLOAT,
    "p_rank": _INT,
    "p_tested": _FLOAT,
    "accept_probability": _FLOAT,
    "uniform": _FLOAT,
    "state": pa.int8(),
    "expanded": _BOOL,
    "pool_index": _INT,
}
POOL_TYPES = {
    "token": _INT,
    "parent": _INT,
    "depth": _INT,
    "draft_logprob": _FLOAT,
    "score": _FLOAT,
}
_SCALARS = {
    "index": _INT,
    "prefix_length": _INT,
    "root": _INT,
    "accepted": _INT,
    "verified": _INT,
    "drafted": _INT,
    "draft_forwards": _INT,
    "cut": _BOOL,
    "finish": pa.string(),
}
_PHASES = ("tree", "verify", "accept", "commit", "record")
_TOP = _struct({"token": _list(_INT), "probability": _list(_FLOAT), "tail": _DOUBLE})
_DISTRIBUTIONS = _struct(
    {
        "node": _INT,
        "p_raw": _TOP,
        "p": _TOP,
        "q": _TOP,
        "residual": _TOP,
        "overlap": _DOUBLE,
        "children_mass": _DOUBLE,
        "kl": _DOUBLE,
        "entropy_p": _DOUBLE,
        "entropy_q": _DOUBLE,
        "residual_mass": _DOUBLE,
        "expected_acceptance": _DOUBLE,
    },
    nullable=("p", "q", "residual"),
)
_MISS = _struct(
    {
        "node": _INT,
        "token": _INT,
        "q": _DOUBLE,
        "q_rank": _INT,
        "in_draft_vocabulary": _BOOL,
        "expanded": _BOOL,
        "beyond_depth": _BOOL,
        "pruned": _BOOL,
    }
)

SCHEMA = pa.schema(
    [
        *(pa.field(name, kind, nullable=name == "finish") for name, kind in _SCALARS.items()),
        pa.field("tokens", _list(_INT), nullable=False),
        pa.field("origins", _list(pa.int8()), nullable=False),
        pa.field("path", _list(_INT), nullable=False),
        pa.field("draft_levels_ms", _list(_DOUBLE), nullable=False),
        pa.field("draws", _list(_DOUBLE), nullable=False),
        *(pa.field(f"{phase}_ms", _DOUBLE, nullable=False) for phase in _PHASES),
        *(pa.field(f"node_{name}", _list(kind)) for name, kind in NODE_TYPES.items()),
        *(pa.field(f"pool_{name}", _list(kind)) for name, kind in POOL_TYPES.items()),
        pa.field("distributions", _list(_DISTRIBUTIONS), nullable=False),
        pa.field("miss", _MISS),
    ]
)

OUTLINE = [
    name
    for name in SCHEMA.names
    if not name.startswith(("node_", "pool_")) and name not in ("draws", "distributions", "miss")
]
"""The columns that a summary needs. Those left out hold nearly all bytes of a trace."""


def to_table(cycles: Sequence[Cycle]) -> pa.Table:
    """The cycles under `SCHEMA`. Raises ValueError when an array has another dtype than that."""
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(c, name) for c in cycles], kind) for name, kind in _SCALARS.items()
    }
    columns["tokens"] = pa.array([c.tokens for c in cycles], _list(_INT))
    columns["origins"] = pa.array([[int(o) for o in c.origins] for c in cycles], _list(pa.int8()))
    columns["path"] = pa.array([c.path for c in cycles], _list(_INT))
    columns["draft_levels_ms"] = pa.array([c.timing.draft_levels for c in cycles], _list(_DOUBLE))
    columns["draws"] = pa.array([c.draws for c in cycles], _list(_DOUBLE))
    for phase in _PHASES:
        columns[f"{phase}_ms"] = pa.array([getattr(c.timing, phase) for c in cycles], _DOUBLE)
    columns |= _ragged_table("node_", NODE_TYPES, [c.nodes for c in cycles])
    columns |= _ragged_table("pool_", POOL_TYPES, [c.pool for c in cycles])
    columns["distributions"] = pa.array(
        [[_distributions_row(d) for d in c.distributions] for c in cycles], _list(_DISTRIBUTIONS)
    )
    columns["miss"] = pa.array([None if c.miss is None else asdict(c.miss) for c in cycles], _MISS)
    return pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _ragged_table(
    prefix: str, types: dict[str, pa.DataType], rows: Sequence[Nodes | Pool | None]
) -> dict[str, pa.Array]:
    return {
        prefix + name: _ragged(
            prefix + name, kind, [None if r is None else getattr(r, name) for r in rows]
        )
        for name, kind in types.items()
    }


def _ragged(name: str, kind: pa.DataType, rows: Sequence[np.ndarray | None]) -> pa.Array:
    dtype = np.dtype(kind.to_pandas_dtype())
    for row in rows:
        if row is not None and (row.dtype != dtype or row.ndim != 1):
            raise ValueError(
                f"column {name!r}: expected one-dimensional {dtype}, found {row.ndim}-dimensional "
                f"{row.dtype}; give the record arrays the dtypes of records.py"
            )
    present = [row for row in rows if row is not None]
    values = np.concatenate(present) if present else np.empty(0, dtype)
    ends = np.cumsum([0 if row is None else len(row) for row in rows], dtype=np.int32)
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()),
        pa.array(values, kind),
        type=_list(kind),
        mask=pa.array([row is None for row in rows], _BOOL),
    )


def _top_row(top: Top | None) -> dict[str, object] | None:
    if top is None:
        return None
    return {"token": top.token, "probability": top.probability, "tail": top.tail}


def _distributions_row(d: Distributions) -> dict[str, object]:
    row = {f.name: getattr(d, f.name) for f in fields(d)}
    return row | {name: _top_row(row[name]) for name in ("p_raw", "p", "q", "residual")}


def from_table(table: pa.Table) -> list[Cycle]:
    """Cycles of a table that has `SCHEMA`, or its `OUTLINE` alone: then as a run recorded "off".

    Raises ValueError when a list is too long, the arrays of one row disagree in length or an
    origin is unknown.
    """
    trace_limits.check_lists(table)
    scalars = {name: table.column(name).to_pylist() for name in _SCALARS}
    tokens, origins, path = (table.column(n).to_pylist() for n in ("tokens", "origins", "path"))
    recorded = _recorded(table) if "miss" in table.column_names else [{}] * table.num_rows
    return [
        Cycle(
            **{name: column[row] for name, column in scalars.items() if name != "finish"},
            finish=cast(Finish | None, scalars["finish"][row]),
            tokens=tuple(tokens[row]),
            origins=tuple(Origin(o) for o in origins[row]),
            path=tuple(path[row]),
            timing=timing,
            **recorded[row],
        )
        for row, timing in enumerate(_timings(table))
    ]


def _recorded(table: pa.Table) -> list[dict[str, Any]]:
    """What an outline leaves out, a row a cycle."""
    rows = zip(
        table.column("draws").to_pylist(),
        _records(table, "node_", NODE_TYPES, Nodes),
        _records(table, "pool_", POOL_TYPES, Pool),
        table.column("distributions").to_pylist(),
        table.column("miss").to_pylist(),
        strict=True,
    )
    return [
        {
            "draws": tuple(draws),
            "nodes": nodes,
            "pool": pool,
            "distributions": tuple(_distributions(d) for d in distributions),
            "miss": None if miss is None else Miss(**miss),
        }
        for draws, nodes, pool, distributions, miss in rows
    ]


def _timings(table: pa.Table) -> Iterator[Timing]:
    levels = table.column("draft_levels_ms").to_pylist()
    phases = [table.column(f"{phase}_ms").to_pylist() for phase in _PHASES]
    for level, *rest in zip(levels, *phases, strict=True):
        yield Timing(tuple(level), **dict(zip(_PHASES, rest, strict=True)))


def _records(
    table: pa.Table, prefix: str, types: Iterable[str], make: Callable[..., Record]
) -> Iterator[Record | None]:
    columns = {name: _rows(table, prefix + name) for name in types}
    for number, row in enumerate(zip(*columns.values(), strict=True)):
        lengths = {name: -1 if v is None else len(v) for name, v in zip(columns, row, strict=True)}
        if len(set(lengths.values())) != 1:
            raise ValueError(
                f"row {number}: the {prefix}* columns must have one length, found {lengths} "
                "(-1 is null)"
            )
        yield None if row[0] is None else make(**dict(zip(columns, row, strict=True)))


def _rows(table: pa.Table, name: str) -> list[np.ndarray | None]:
    column = table.column(name).combine_chunks()
    values = column.values.to_numpy(zero_copy_only=False)
    offsets = column.offsets.to_numpy()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return [
        values[offsets[i] : offsets[i + 1]] if present else None for i, present in enumerate(valid)
    ]


def _top(row: dict[str, Any] | None) -> Top | None:
    if row is None:
        return None
    return Top(
        np.array(row["token"], np.int32), np.array(row["probability"], np.float32), row["tail"]
    )


def _distributions(row: dict[str, Any]) -> Distributions:
    tops = {name: _top(row[name]) for name in ("p_raw", "p", "q", "residual")}
    return Distributions(**(row | tops))
