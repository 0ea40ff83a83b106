"""Runs a command and turns whatever ends it into an exit status."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from eagle3_viz.cli.arguments import parse
from eagle3_viz.cli.failure import INTERRUPTED, Failure, sentence
from eagle3_viz.plain_text import one_line

FAILED, READER_GONE = 1, 141  # usage errors exit with 2, in `arguments`
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
        _abandon_output()
        return _failed(str(failure))
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return READER_GONE
    except OSError as error:
        _abandon_output()
        return _failed(sentence(error))
    return status


def _failed(sentence: str) -> int:
    print(f"error: {one_line(sentence, MESSAGE_LIMIT)}", file=sys.stderr)
    return FAILED


def _abandon_output() -> None:
    """Output that cannot be written must not fail once more when the interpreter flushes it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _decode(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.decode import decode

    return decode(args)


def _export(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.export import export

    return export(args)


def _fetch(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.fetch import fetch

    return fetch(args.pair)


def _lossless(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.lossless import lossless

    return lossless(args)


def _pairs(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.listing import list_pairs

    return list_pairs()


def _profile(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.profile import profile

    return profile(args)


def _show(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.show import show

    return show(args.trace)


def _suite(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.suite import suite

    return suite(args)


def _train(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.train import train

    return train(args)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "decode": _decode,
    "export": _export,
    "fetch": _fetch,
    "lossless": _lossless,
    "pairs": _pairs,
    "profile": _profile,
    "show": _show,
    "suite": _suite,
    "train": _train,
}
