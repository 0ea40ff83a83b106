"""A command line fit to be kept in what is shared: paths of a machine are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def shareable(argv: Sequence[str], shorten: Callable[[str], str]) -> tuple[str, ...]:
    """`argv` with every argument, or what stands behind an option's "=", shortened."""
    shown = []
    for argument in argv:
        option, equals, value = argument.partition("=")
        with_value = equals and option.startswith("--")
        shown.append(f"{option}={shorten(value)}" if with_value else shorten(argument))
    # names of files may hold bytes that are no UTF-8, which a trace file cannot store
    return tuple(argument.encode("utf-8", "replace").decode() for argument in shown)
