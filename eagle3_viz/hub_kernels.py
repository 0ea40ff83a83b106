"""Keeps transformers from mistaking this repository's `kernels` package for the hub library.

transformers reads the version of a distribution called "kernels" and, when it fits, imports names
from a package called `kernels`. With that distribution installed, the version is its own but the
package is ours, and every model import fails. So transformers is asked once, while ours is out of
sight, whether hub kernels are available; it remembers the answer for the life of the process.
"""

from __future__ import annotations

import importlib.metadata
import sys


def keep_unavailable() -> None:
    """Make transformers report hub kernels as unavailable; a no-op where none is installed."""
    try:
        importlib.metadata.version("kernels")
    except importlib.metadata.PackageNotFoundError:
        return
    from transformers.utils.import_utils import is_kernels_available

    ours = sys.modules.get("kernels")
    sys.modules["kernels"] = None  # type: ignore[assignment]  # the documented "not importable"
    try:
        is_kernels_available.cache_clear()
        is_kernels_available()
    finally:
        if ours is None:
            del sys.modules["kernels"]
        else:
            sys.modules["kernels"] = ours
