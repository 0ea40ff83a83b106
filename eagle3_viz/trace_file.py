"""A trace as one Parquet file: a row a cycle, provenance as JSON in the file's metadata.

Files come from other people too: sizes are bounded before anything is unpacked, layout and content
are checked, and whatever is wrong ends in a `TraceFileError`.
"""

from __future__ import annotations

import errno
import io
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eagle3_viz import trace_check, trace_columns, trace_provenance
from eagle3_viz.files import write_atomically
from eagle3_viz.trace import FORMAT_VERSION, Trace

FORMAT_NAME = "eagle3_viz trace"
MAX_FILE_BYTES = 256 * 2**20
MAX_METADATA_BYTES = 32 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20
MAX_CYCLES = 100_000
TOO_LARGE = (
    "the trace file unpacks into more memory than there is for it; record fewer cycles or a lower "
    "record level"
)
_BATCH_ROWS = 64
_MAGIC = b"PAR1"
_NAME, _VERSION, _PROVENANCE = b"format", b"format_version", b"provenance"


class TraceFileError(ValueError):
    """The file is no trace this program can read; the message says why and what to do."""


def save(trace: Trace, path: Path | str) -> None:
    """Write `trace` to `path`; a reader sees the old file or the new one, never half of one.

    A symbolic link keeps pointing where it did; the file it names is written. Raises ValueError
    when the trace breaks an invariant and OSError, about `path`, when writing fails or something
    other than a regular file is there; in all cases, as on an interrupt, what existed stays as it
    was and nothing is left behind.
    """
    data = to_bytes(trace)
    write_atomically(destination(path), data)


def destination(path: Path | str) -> Path:
    """The file that saving to `path` writes: `path` with its symbolic links followed.

    Raises OSError where something other than a regular file is: renaming over a device, a pipe or
    a socket would destroy it.
    """
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_file():
        reason = "only a regular file is written, something else is there; name another file"
        raise OSError(errno.EINVAL, reason, str(path))
    return target


def load(path: Path | str) -> Trace:
    """The trace in the file at `path`. Raises TraceFileError."""
    return from_bytes(content(Path(path)))


def outline(path: Path | str) -> Trace:
    """The trace at `path` as if it had been recorded "off": enough for a summary, and quick.

    What is left out is neither read nor checked. Raises TraceFileError.
    """
    return _parsed(content(Path(path)), trace_columns.OUTLINE)


def content(path: Path) -> bytes:
    """What is in the file at `path`, which no trace file is larger than. Raises TraceFileError."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise TraceFileError(f"{str(path)!r} is not a regular file; choose a trace file")
        _check_size(size)
        return path.read_bytes()
    except OSError as error:
        raise TraceFileError(
            f"{str(path)!r} cannot be read: {error.strerror}; check that the file exists"
        ) from error


def to_bytes(trace: Trace) -> bytes:
    """`trace` as the content of a trace file; a live one as far as it has come.

    Raises ValueError when it breaks an invariant.
    """
    trace = replace(trace, cycles=list(trace.cycles), token_bytes=dict(trace.token_bytes))
    trace_check.check(trace)
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        trace_columns.SCHEMA,
        compression="zstd",
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(trace_columns.to_table(trace.cycles))
        writer.add_key_value_metadata(
            {
                _NAME: FORMAT_NAME,
                _VERSION: str(FORMAT_VERSION),
                _PROVENANCE: trace_provenance.dumps(trace),
            }
        )
    return buffer.getvalue()


def from_bytes(data: bytes) -> Trace:
    """The trace in the content of a trace file. Raises TraceFileError."""
    return _parsed(data, trace_columns.SCHEMA.names)


def _parsed(data: bytes, columns: list[str]) -> Trace:
    """The trace in `data` with what `columns` of its cycles hold."""
    _check_size(len(data))
    _check_frame(data)
    try:
        with pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True) as parquet:
            provenance = _check_layout(parquet)
            table = _read_bounded(parquet, columns)
            table.validate(full=True)
        trace = trace_provenance.loads(provenance)
        trace.cycles.extend(trace_columns.from_table(table))
        trace_check.check(trace)
    except TraceFileError:
        raise
    except MemoryError as error:
        raise TraceFileError(TOO_LARGE) from error
    except (ValueError, pa.ArrowException, OSError) as error:
        raise TraceFileError(
            f"the trace file is damaged or was altered: {first_line(error)}; save or download it "
            "again"
        ) from error
    return trace


def first_line(error: BaseException) -> str:
    """What an error says, fit for one sentence."""
    return (str(error) or type(error).__name__).splitlines()[0][:300]


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise TraceFileError(
            f"the file has {size / 2**20:.0f} MB, a trace at most {MAX_FILE_BYTES // 2**20} MB; "
            "choose a trace file, or record fewer cycles"
        )


def _check_frame(data: bytes) -> None:
    if not data.startswith(_MAGIC):
        raise TraceFileError(
            f"expected a Parquet file, found {len(data)} bytes that start with {data[:4]!r}; "
            "choose a file this program saved"
        )
    if len(data) < 12 or not data.endswith(_MAGIC):
        raise TraceFileError(
            f"the Parquet file is truncated: its end is missing after {len(data)} bytes; copy or "
            "download it again"
        )
    footer = int.from_bytes(data[-8:-4], "little")
    if footer > min(MAX_METADATA_BYTES, len(data) - 12):
        raise TraceFileError(
            f"the file declares {footer} bytes of metadata, allowed are "
            f"{min(MAX_METADATA_BYTES, len(data) - 12)}; it is damaged, download it again"
        )


def _check_layout(parquet: pq.ParquetFile) -> str:
    """Format, version, sizes and columns, all from the footer; returns the provenance JSON."""
    metadata = parquet.metadata.metadata or {}
    if metadata.get(_NAME) != FORMAT_NAME.encode():
        raise TraceFileError(
            f"expected a Parquet file of format {FORMAT_NAME!r}, found one of something else with "
            f"{parquet.metadata.num_columns} columns; choose a file this program saved"
        )
    version = metadata.get(_VERSION, b"")
    if version != str(FORMAT_VERSION).encode():
        raise TraceFileError(
            f"expected trace format version {FORMAT_VERSION}, found {version[:20]!r}; update "
            "eagle3_viz, or open the file with the version that saved it"
        )
    _check_volume(parquet.metadata)
    _check_schema(parquet.schema_arrow)
    if _PROVENANCE not in metadata:
        raise TraceFileError(
            "the trace file has no provenance: expected it in the metadata; save the trace again"
        )
    return str(metadata[_PROVENANCE], "utf-8")


def _check_volume(metadata: pq.FileMetaData) -> None:
    """Sizes as declared. pyarrow aborts the process in per-column metadata of a bad footer."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    for what, found, most in (
        ("cycles", metadata.num_rows, MAX_CYCLES),
        ("unpacked bytes", sum(group.total_byte_size for group in groups), MAX_UNPACKED_BYTES),
    ):
        if not 0 <= found <= most:
            raise TraceFileError(
                f"the trace file declares {found} {what}, allowed are {most}; record fewer cycles "
                "or a lower record level"
            )


def _read_bounded(parquet: pq.ParquetFile, columns: list[str]) -> pa.Table:
    """Columns of all rows, given up once they exceed `MAX_UNPACKED_BYTES` whatever was declared."""
    batches, size = [], 0
    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
        batches.append(batch)
        size += batch.nbytes
        if size > MAX_UNPACKED_BYTES:
            raise TraceFileError(
                f"the trace file unpacks into more than the allowed {MAX_UNPACKED_BYTES} bytes; "
                "record fewer cycles or a lower record level"
            )
    schema = pa.schema([trace_columns.SCHEMA.field(name) for name in columns])
    return pa.Table.from_batches(batches, schema)


def _check_schema(found: pa.Schema) -> None:
    expected = trace_columns.SCHEMA
    if found.names != expected.names:
        different = sorted(set(found.names) ^ set(expected.names))
        raise TraceFileError(
            f"the columns are not those of a trace: missing, unexpected or misplaced are "
            f"{different[:5] or 'some'}; save the trace again"
        )
    for field, given in zip(expected, found, strict=True):
        if not field.equals(given):
            raise TraceFileError(
                f"column {field.name!r}: expected {field.type}, found {given.type}"
                f"{'' if given.nullable == field.nullable else ' with other nullability'}; save "
                "the trace again"
            )
