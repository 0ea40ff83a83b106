"""Records out of files that other people wrote: JSON lines, CSV or Parquet, sizes bounded."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eagle3_viz.prompt_records import record_of
from eagle3_viz.text_lines import DataError, lines_of

MAX_FILE_BYTES = 256 * 2**20
MAX_FOOTER_BYTES = 64 * 2**20
_BATCH_ROWS = 64
_MAGIC = b"PAR1"

Record = dict[str, Any]


def records_of(path: Path) -> Iterator[tuple[str, Record]]:
    """(place, record) of each record of a file, read as its suffix says.

    Raises DataError for a file that cannot be read, is too large or is not what its suffix says.
    """
    readers = {".csv": _from_csv, ".parquet": _from_parquet}
    readers |= dict.fromkeys((".jsonl", ".ndjson", ".json"), _from_json)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path} has the suffix {path.suffix!r}, expected one of {', '.join(readers)}; "
            "rename or convert the file"
        )
    return reader(path)


def _from_json(path: Path) -> Iterator[tuple[str, Record]]:
    return ((place, record_of(line, place)) for place, line in lines_of(path))


def _from_csv(path: Path) -> Iterator[tuple[str, Record]]:
    _check_size(path)
    place = f"{path.name} line 1"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            names = next(rows, [])
            if len(set(names)) != len(names):
                raise DataError(f"{place}: two columns have one name; rename one")
            for row in rows:
                place = f"{path.name} line {rows.line_num}"
                if row and len(row) != len(names):
                    raise DataError(f"{place} has {len(row)} columns, the first line {len(names)}")
                if row:
                    yield place, dict(zip(names, row, strict=True))
    except UnicodeDecodeError:
        raise DataError(f"{path.name} is not UTF-8; convert the file first") from None
    except csv.Error as error:
        raise DataError(f"{place} or the next is not CSV ({error}); correct it") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def _from_parquet(path: Path) -> Iterator[tuple[str, Record]]:
    _check_size(path)
    _check_footer(path)
    row, size = 0, 0
    try:
        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                size += batch.nbytes
                if size > MAX_FILE_BYTES:
                    raise DataError(f"{path.name} unpacks into more than {MAX_FILE_BYTES} bytes")
                for record in batch.to_pylist():
                    row += 1
                    yield f"{path.name} row {row}", record
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DataError(f"{path.name} cannot be read after row {row}: {reason}") from error


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if not path.is_file():
        raise DataError(f"{path} is not a regular file; name a file of prompts")
    if size > MAX_FILE_BYTES:
        raise DataError(f"{path.name} has {size} bytes, at most {MAX_FILE_BYTES} are read")


def _check_footer(path: Path) -> None:
    """Frame and size of the metadata: pyarrow takes whatever the footer declares."""
    with path.open("rb") as file:
        start = file.read(4)
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
    if start != _MAGIC or size < 12 or not end.endswith(_MAGIC):
        raise DataError(
            f"{path.name} is no whole Parquet file: it has {size} bytes and starts with {start!r}; "
            "copy it again"
        )
    declared = int.from_bytes(end[:4], "little")
    if declared > min(MAX_FOOTER_BYTES, size - 12):
        raise DataError(f"{path.name} declares {declared} bytes of metadata; it is damaged")
