"""`export`: a saved trace in another form, to a new file or to standard output."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from eagle3_viz.cli.failure import Failure, as_failure
from eagle3_viz.cli.new_file import refuse_unless_new
from eagle3_viz.export import cycles_csv, graphml, html_file, markdown_summary, nodes_csv
from eagle3_viz.files import write_atomically
from eagle3_viz.library.content import trace_at
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import TraceFileError
from eagle3_viz.wording import counted

FORMS: dict[str, Callable[[Trace, str], str]] = {
    "html": lambda trace, name: html_file(trace, name=name),
    "csv": lambda trace, _: cycles_csv(trace),
    "nodes": lambda trace, _: nodes_csv(trace),
    "markdown": markdown_summary,
}


def export(args: argparse.Namespace) -> int:
    """Write the trace in the form that the options name; returns the exit status."""
    out: Path | None = None if args.out is None or str(args.out) == "-" else args.out
    if out is None and args.form == "html" and sys.stdout.isatty():
        raise Failure("a web page is nothing to read on a terminal: name a file with --out")
    if out is not None:
        refuse_unless_new("--out", out)
    with as_failure(TraceFileError):
        trace = trace_at(args.trace)
    with as_failure(ValueError):
        content = _content(args, trace)
    if out is None:
        # The bytes as they are: an encoding of the terminal's own would lose characters.
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        _write(out, content)
    return 0


def _content(args: argparse.Namespace, trace: Trace) -> bytes:
    if args.graphml is None:
        name = os.fsencode(args.trace.stem).decode("utf-8", "replace")
        return FORMS[args.form](trace, name).encode()
    if args.graphml > len(trace.cycles):
        raise Failure(
            f"--graphml {args.graphml}: the trace has {counted(len(trace.cycles), 'cycle')}; name "
            "one of them"
        )
    return graphml(trace, args.graphml - 1)


def _write(out: Path, content: bytes) -> None:
    try:
        write_atomically(out, content)
    except OSError as error:  # about the temporary file, whose name means nothing to the reader
        raise Failure(f"--out {out} could not be written: {error.strerror or error}") from error
