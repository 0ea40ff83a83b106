"""Where golden values and the weights they belong to lie."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = ROOT / "tests" / "golden"
START_DRAFT = COMMITTED / "eagle3_start"  # the draft that the golden values were computed with
SHIPPED_DRAFT = ROOT / "eagle3_viz" / "pretrained" / "smollm2-135m-instruct-eagle3"
LARGE = ROOT.parent / "shared" / "golden" / "reference"  # beside a development checkout, or absent


@cache
def committed(name: str) -> Any:
    """A golden JSON file of this repository."""
    return json.loads((COMMITTED / f"{name}.json").read_text(encoding="utf-8"))
