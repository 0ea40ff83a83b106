"""Values of options, checked while the command line is read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

DTYPES = ("float32", "bfloat16", "float16")
MAX_SEED = 2**63 - 1  # what a torch generator and the trace file hold


def text(value: str) -> str:
    """Text that a tokenizer can read."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("the text is not UTF-8") from error
    return value


def place(value: str) -> Path:
    """The path of a file or folder; an empty one would be the current folder."""
    if not value.strip():
        raise argparse.ArgumentTypeError("the name is empty: name a file or folder")
    return Path(value)


def location(value: str) -> str:
    """A folder or the id of a model on a hub."""
    if not value.strip():
        raise argparse.ArgumentTypeError("the name is empty: name a folder or a hub id")
    return value


def device(value: str) -> str:
    """The name of a torch device."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", value):
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:N, found {value!r}")
    return value


def seed(value: str) -> int:
    """A seed of random draws."""
    return whole_number(0, MAX_SEED)(value)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number from `least` to `most`."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", value) or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} to {most}, found {value!r}"
            )
        return int(value)

    return parse


def share(value: str) -> float:
    """A part of a whole, from 0 to 1."""
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, found {value!r}")
    return found


def rate(value: str) -> float:
    """A number above 0."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {value!r}")
    return found
