"""Traces and trace files with one thing in them changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eagle3_viz.trace import Trace


def rewritten(
    data: bytes, *, table: pa.Table | None = None, metadata: dict[bytes, bytes] | None = None
) -> bytes:
    """The trace file `data` with another table or metadata."""
    source = pq.ParquetFile(pa.BufferReader(data))
    table = source.read() if table is None else table
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({**source.metadata.metadata, **(metadata or {})})
    return sink.getvalue().to_pybytes()


def with_nodes(trace: Trace, **columns: Callable[[np.ndarray], np.ndarray]) -> Trace:
    """The trace with columns of its first cycle's nodes changed."""
    cycle = trace.cycles[0]
    assert cycle.nodes is not None
    changed = {name: change(getattr(cycle.nodes, name).copy()) for name, change in columns.items()}
    return with_cycle(trace, nodes=replace(cycle.nodes, **changed))


def with_cycle(trace: Trace, **changes: Any) -> Trace:
    """The trace with fields of its first cycle changed."""
    return replace(trace, cycles=[replace(trace.cycles[0], **changes), *trace.cycles[1:]])


def put(index: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    """A change of one entry of an array."""

    def change(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return change


def with_pool(trace: Trace, **columns: Callable[[np.ndarray], np.ndarray]) -> Trace:
    """The trace with columns of its first cycle's candidates changed."""
    pool = trace.cycles[0].pool
    assert pool is not None
    changed = {name: change(getattr(pool, name).copy()) for name, change in columns.items()}
    return with_cycle(trace, pool=replace(pool, **changed))


def with_distribution(trace: Trace, **changes: Any) -> Trace:
    """The trace with fields of the distributions at its first root changed."""
    first, *rest = trace.cycles[0].distributions
    return with_cycle(trace, distributions=(replace(first, **changes), *rest))


def with_header(trace: Trace, **changes: Any) -> Trace:
    """The trace with fields of its header changed."""
    return replace(trace, header=replace(trace.header, **changes))
