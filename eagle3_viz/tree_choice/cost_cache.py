"""Measured costs, kept on the disk: a machine that stays the same is measured once.

Only what can be relied on: a machine that was busy, or is slow for the pair, is measured again at
the next run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from eagle3_viz import provenance
from eagle3_viz.config import Method
from eagle3_viz.embedded import cache_root
from eagle3_viz.files import write_atomically
from eagle3_viz.tree_choice.cycle_cost import Curve, CycleCost

if TYPE_CHECKING:
    from eagle3_viz.pairs import LoadedPair
    from eagle3_viz.trace import ModelSource

log = logging.getLogger(__name__)

FOLDER = "cycle-costs"
FORMAT = 2
MAX_BYTES = 20_000

Key = Mapping[str, str]
"""Everything that a cost depends on, by name."""


def key_of(pair: LoadedPair, method: Method) -> Key:
    """What the costs of this pair and method depend on, here and now."""
    loaded, target = pair.draft_for(method), pair.target
    versions = provenance.versions()
    return {
        "format": str(FORMAT),
        "target": _version(pair.target_source),
        "draft": "" if loaded is None else _version(loaded.source),
        "method": method,
        "dtype": str(target.dtype),
        "device": str(target.device),
        "machine": provenance.machine(target.device),
        "threads": str(torch.get_num_threads()),
        **{name: versions[name] for name in ("eagle3_viz", "torch", "transformers")},
    }


def kept(key: Key) -> CycleCost | None:
    """The costs kept under `key`; None where there are none, or the file is damaged."""
    try:
        with _path(key).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        content = json.loads(data.decode("utf-8"))
        return _checked(content["cost"]) if content["key"] == dict(key) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("measuring again: %s cannot be used (%r)", _path(key).name, error)
        return None


def keep(key: Key, cost: CycleCost) -> None:
    """Write them down unless they are not to be relied on.

    A folder that cannot be written to costs the next load a measurement.
    """
    if cost.doubt:
        return
    path = _path(key)
    content = json.dumps({"key": dict(key), "cost": asdict(cost)}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.encode())
    except OSError as error:
        log.warning("the measured costs of a cycle could not be kept in %s: %s", FOLDER, error)


def _path(key: Key) -> Path:
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    return cache_root() / FOLDER / f"{digest[:32]}.json"


def _version(source: ModelSource) -> str:
    return " ".join((source.name, source.revision, source.sha256))


def _checked(fields: Mapping[str, Any]) -> CycleCost:
    step, root, select, rest = (_ms(fields[name]) for name in ("step", "root", "select", "rest"))
    verify, level = _curve(fields["verify"]), _curve(fields["level"])
    if verify[0][0] != 1:
        raise ValueError("expected the cost of verifying a lone root")
    rounds, at, spread = int(fields["rounds"]), str(fields["at"])[:40], float(fields["spread"])
    found = CycleCost(step, verify, level, root, select, rest, rounds, at, spread)
    if found.doubt or not spread >= 0:
        raise ValueError("expected costs that can be relied on")
    return found


def _curve(points: Any) -> Curve:
    curve = tuple((int(width), _ms(ms)) for width, ms in points)
    widths = [width for width, _ in curve]
    if not widths or widths != sorted(set(widths)):
        raise ValueError(f"expected rising widths, found {widths[:20]}")
    return curve


def _ms(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"expected milliseconds, found {value!r:.40}")
    return float(value)
