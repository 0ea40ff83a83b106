"""Runs a command and turns whatever ends it into an exit status."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from eagle3_viz.cli.arguments import parse
from eagle3_viz.cli.failure import Failure
from eagle3_viz.cli.terminal import one_line

FAILED, INTERRUPTED, READER_GONE = 1, 130, 141  # usage errors exit with 2, in `arguments`
MESSAGE_LIMIT = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`, by default the process's own; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a narrow encoding shows "?", not a traceback
            stream.reconfigure(errors="replace")
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        status = COMMANDS[args.command](args)
        sys.stdout.flush()
    except Failure as failure:
        print(f"error: {one_line(str(failure), MESSAGE_LIMIT)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered must not fail once more when the interpreter flushes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    return status


def _decode(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.decode import decode

    return decode(args)


def _fetch(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.fetch import fetch

    return fetch(args.pair)


def _pairs(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.listing import list_pairs

    return list_pairs()


def _show(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.show import show

    return show(args.trace)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "decode": _decode,
    "fetch": _fetch,
    "pairs": _pairs,
    "show": _show,
}
