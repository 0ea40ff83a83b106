"""`fetch`: a pair brought onto this disk."""

from __future__ import annotations

import sys

from eagle3_viz.cli.failure import as_failure
from eagle3_viz.cli.progress import reporting
from eagle3_viz.embedded import PairError, ensure_embedded
from eagle3_viz.plain_text import one_line


def fetch(name: str | None) -> int:
    """Get the embedded target ready, or both halves of the pair of that name."""
    with as_failure(PairError), reporting(sys.stderr) as progress:
        if name is None:
            ready, folder = "The embedded target", ensure_embedded(progress)
        else:
            from eagle3_viz.pairs import resolve  # brings torch

            ready, folder = f"The pair {name}", resolve(name, progress=progress).target_folder
    print(one_line(f"{ready} is ready: {folder}"))
    return 0
