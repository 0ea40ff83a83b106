"""A suite's tables on the screen and in its folder, and two suites compared."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from eagle3_viz.cli.failure import as_failure
from eagle3_viz.cli.new_file import refuse_unless_folder
from eagle3_viz.plain_text import one_line
from eagle3_viz.suite.compare import compare as compared_suites
from eagle3_viz.suite.report import Cells, compared, groups, overview, write_tables
from eagle3_viz.suite.results import read_results
from eagle3_viz.suite.table import tabulate
from eagle3_viz.text_lines import DataError
from eagle3_viz.wording import counted

SHOWN = 20  # prompts named that only one of two suites has


def table(folder: Path) -> int:
    """Tabulate what the suite in `folder` has made; returns the exit status."""
    refuse_unless_folder("suite table", folder)
    with as_failure(DataError):
        results = read_results(folder)
    found = tabulate(results)
    for title, rows in groups(found):
        print(one_line(title), *aligned_columns(overview(rows)), "", sep="\n")
    if results.incomplete:
        print(f"Left out, as not finished: {named(results.incomplete)}")
    if "typical" in set(found.rule):
        print("The rule typical changes the output distribution.")
    written = write_tables(results, found, folder)
    print(one_line(f"Written: {', '.join(str(path) for path in written)}"))
    return 0


def compare(args: argparse.Namespace) -> int:
    """Compare the two suites that the options name; returns the exit status."""
    pairs = [tuple(args.settings)] if args.settings else None
    with as_failure(DataError):
        found = compared_suites(read_results(args.a), read_results(args.b), pairs)
    print(*aligned_columns(compared(found)), sep="\n")
    print(
        "\nDifferences are second minus first; ratios above 1 say that the second is faster. In "
        "brackets:\n95 % bootstrap intervals over prompts. speed-up b/a: over each suite's own "
        "autoregression."
    )
    for what, prompts in (
        ("only in the first", found.only_a),
        ("only in the second", found.only_b),
        ("of one name, but asking something else", found.changed),
    ):
        if prompts:
            print(f"Left out, {what}: {named(prompts)}")
    for which, settings in (("first", found.alone_a), ("second", found.alone_b)):
        if settings:
            print(one_line(f"Left out, only in the {which}: settings {', '.join(settings)}"))
    return 0


def named(prompts: Sequence[str]) -> str:
    """How many prompts, and the first of them."""
    shown = ", ".join(prompts[:SHOWN]) + (", …" if len(prompts) > SHOWN else "")
    return one_line(f"{counted(len(prompts), 'prompt')} ({shown})")


def aligned_columns(cells: Cells) -> list[str]:
    """Lines of a plain table: the first column on the left, the others on the right."""
    shown = [[one_line(cell) for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]
