"""A trace as one JSON document, for programs that read no Parquet.

It is the Parquet file in other words (`trace_columns.SCHEMA`, `trace_provenance`):

    {"format": "eagle3_viz trace", "format_version": 2,
     "provenance": {"header": {...}, "prefill": {...}, "token_bytes": {"<id>": "<base64>", ...}},
     "cycles": [{"index": 0, "root": 12, "node_token": [12, 7, ...], ...}, ...]}

A cycle has every column of the schema. JSON has no NaN: a number that does not exist is null, and
so is a column, a miss or a distribution that was not recorded. Reading is as strict as for Parquet.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eagle3_viz import trace_check, trace_columns, trace_provenance
from eagle3_viz.trace import FORMAT_VERSION, Trace
from eagle3_viz.trace_file import FORMAT_NAME, MAX_CYCLES, TOO_LARGE, TraceFileError, first_line
from eagle3_viz.wording import json_kind

MAX_BYTES = 64 * 2**20
MAX_VALUES = 8_000_000  # an empty list takes three bytes of text and a hundred of memory
_MEMBERS = {"format", "format_version", "provenance", "cycles"}
_AGAIN = "save or download it again"


def dumps(trace: Trace) -> bytes:
    """`trace` as JSON in UTF-8; a live one as far as it has come.

    Raises ValueError when it breaks an invariant.
    """
    trace = replace(trace, cycles=list(trace.cycles), token_bytes=dict(trace.token_bytes))
    trace_check.check(trace)
    document = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "provenance": trace_provenance.to_json(trace),
        "cycles": _without_nan(trace_columns.to_table(trace.cycles).to_pylist()),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")


def loads(data: bytes) -> Trace:
    """The trace in a JSON document. Raises TraceFileError."""
    _check_size(data)
    try:
        document = trace_provenance.parsed(data.decode("utf-8"), "trace file")
        _check_document(document)
        rows = [_row(number, row) for number, row in enumerate(document["cycles"])]
        trace = trace_provenance.from_json(document["provenance"])
        table = pa.Table.from_pylist(rows, trace_columns.SCHEMA)
        trace.cycles.extend(trace_columns.from_table(table))
        trace_check.check(trace)
    except TraceFileError:
        raise
    except UnicodeDecodeError as error:
        raise TraceFileError(f"the JSON file is not UTF-8 ({error.reason}); {_AGAIN}") from error
    except json.JSONDecodeError as error:
        raise TraceFileError(
            f"the JSON file is truncated or was altered: {error.msg} at character {error.pos}; "
            f"{_AGAIN}"
        ) from error
    except MemoryError as error:
        raise TraceFileError(TOO_LARGE) from error
    except (ValueError, pa.ArrowException) as error:
        raise TraceFileError(
            f"the trace file is damaged or was altered: {first_line(error)}; {_AGAIN}"
        ) from error
    return trace


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BYTES:
        raise TraceFileError(
            f"the JSON file has {len(data) / 2**20:.0f} MB, at most {MAX_BYTES // 2**20} MB are "
            "read; use the Parquet file of the trace"
        )
    values = sum(map(data.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        raise TraceFileError(
            f"the JSON file holds up to {values:,} values, at most {MAX_VALUES:,} are read; use "
            "the Parquet file of the trace"
        )


def _check_document(document: Any) -> None:
    """Format, version and parts; cycles are looked into one by one."""
    if not isinstance(document, dict) or document.get("format") != FORMAT_NAME:
        raise TraceFileError(
            f"expected a JSON object of format {FORMAT_NAME!r}, found something else; choose a "
            "file this program saved"
        )
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise TraceFileError(
            f"expected trace format version {FORMAT_VERSION}, found {str(version)[:20]!r}; update "
            "eagle3_viz, or open the file with the version that saved it"
        )
    if set(document) != _MEMBERS or not isinstance(document["cycles"], list):
        raise ValueError(f"expected the members {sorted(_MEMBERS)} and a list of cycles")
    if len(document["cycles"]) > MAX_CYCLES:
        raise ValueError(f"{len(document['cycles'])} cycles, at most {MAX_CYCLES} are allowed")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    return value


def _row(number: int, row: Any) -> dict[str, Any]:
    schema = trace_columns.SCHEMA
    if not isinstance(row, dict) or set(row) != set(schema.names):
        different = set(row) ^ set(schema.names) if isinstance(row, dict) else ()
        raise ValueError(
            f"cycle {number} has not the columns of a trace: missing or unexpected are "
            f"{sorted(different)[:5] or 'all'}"
        )
    typed = {}
    for field in schema:
        try:
            typed[field.name] = _typed(field, row[field.name])
        except ValueError as error:
            raise ValueError(f"cycle {number}, column {field.name!r}: {error}") from error
    return typed


def _typed(field: pa.Field, value: Any) -> Any:
    """`value` as the type of `field` wants it: nothing is converted but null into NaN."""
    kind = field.type
    if value is None and pa.types.is_floating(kind):
        return math.nan
    if value is None and field.nullable:
        return None
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_typed(kind.value_field, item) for item in value]
    if pa.types.is_struct(kind) and isinstance(value, dict):
        members = [kind.field(i) for i in range(kind.num_fields)]
        if set(value) != {member.name for member in members}:
            raise ValueError(f"expected the members {[member.name for member in members]}")
        return {member.name: _typed(member, value[member.name]) for member in members}
    if _is_scalar(kind, value):
        return value
    raise ValueError(f"expected {kind}, found {json_kind(value)}")


def _is_scalar(kind: pa.DataType, value: Any) -> bool:
    if pa.types.is_boolean(kind):
        return type(value) is bool
    if pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        return type(value) is int and -limit <= value < limit
    if pa.types.is_floating(kind):
        return type(value) is float or (type(value) is int and abs(value) < 2**53)
    return pa.types.is_string(kind) and isinstance(value, str)
