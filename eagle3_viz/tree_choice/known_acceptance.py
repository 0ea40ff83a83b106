"""What a draft is known to get accepted, by tree: a table that lies beside its weights.

Tokens committed per cycle, tau, depend on the pair and not on the machine, so they are measured
once (`python -m benchmarks.known_acceptance`) and shipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eagle3_viz.config import TreeShape

FILE = "acceptance.json"
FORMAT = 1
MAX_BYTES = 200_000
MAX_PROVENANCE = 20  # entries, of MAX_TEXT characters
MAX_TEXT = 500
AGAIN = "measure it again with `python -m benchmarks.known_acceptance`, or delete it"

Taus = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class KnownAcceptance:
    """tau of dynamic trees under the rule greedy.

    weights_sha256  of the draft that it was measured with.
    prompts, tokens  how many prompts were answered, and the tokens of all answers.
    provenance      when, with which target, versions and command.
    totals          nodes verified a cycle, the root included, rising.
    tau             by top_k: rows are depth 0, 1, ..., columns are `totals`; None where a tree of
                    that depth cannot have so many nodes.
    """

    weights_sha256: str
    prompts: int
    tokens: int
    provenance: Mapping[str, str]
    totals: tuple[int, ...]
    tau: Mapping[int, Taus]

    def trees(self) -> Iterator[tuple[TreeShape, float]]:
        """Every tree of the table with its tau."""
        for top_k, rows in self.tau.items():
            for depth, row in enumerate(rows):
                for total, tau in zip(self.totals, row, strict=True):
                    if tau is not None:
                        yield TreeShape(total, depth, top_k), tau

    def dumps(self) -> str:
        """As the file beside the weights; a row of numbers a line."""
        head = {"format": FORMAT, **asdict(self), "tau": None, "totals": None}
        rows = {
            str(k): "[\n   " + ",\n   ".join(json.dumps(row) for row in table) + "]"
            for k, table in self.tau.items()
        }
        table = ",\n  ".join(f'"{k}": {text}' for k, text in rows.items())
        text = json.dumps(head, indent=1, ensure_ascii=False)
        text = text.replace('"totals": null', f'"totals": {json.dumps(self.totals)}')
        return text.replace('"tau": null', f'"tau": {{\n  {table}}}') + "\n"


def of_draft(folder: Path, weights_sha256: str) -> KnownAcceptance | None:
    """The table in a draft's folder, None where there is none.

    Raises ValueError for a file that is no such table, or is one of other weights.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{FILE} has more than {MAX_BYTES} bytes: {AGAIN}")
    try:
        found = loads(data.decode("utf-8"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{FILE} is no table of acceptance ({error!r:.200}): {AGAIN}") from error
    if found.weights_sha256 != weights_sha256:
        raise ValueError(f"{FILE} was measured with other weights than those beside it: {AGAIN}")
    return found


def loads(text: str) -> KnownAcceptance:
    """What `dumps` wrote, checked. Raises ValueError, or what fields of other types lead to."""
    fields: dict[str, Any] = json.loads(text)
    if fields.pop("format") != FORMAT:
        raise ValueError(f"expected format {FORMAT}")
    totals = tuple(_whole(total) for total in fields["totals"])
    tau = {
        int(k): tuple(tuple(_tau(value) for value in row) for row in rows)
        for k, rows in fields["tau"].items()
    }
    made = {str(k)[:MAX_TEXT]: str(v)[:MAX_TEXT] for k, v in fields["provenance"].items()}
    found = KnownAcceptance(
        weights_sha256=str(fields["weights_sha256"]),
        prompts=_whole(fields["prompts"]),
        tokens=_whole(fields["tokens"]),
        provenance=dict(list(made.items())[:MAX_PROVENANCE]),
        totals=totals,
        tau=tau,
    )
    if not list(found.trees()):  # builds every shape, so that one that cannot exist is refused
        raise ValueError("expected a tree with a tau, found none")
    return found


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"expected a whole number, found {value!r}")
    return value


def _tau(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not 1.0 <= value < 1000.0:
        raise ValueError(f"expected a tau from 1, found {value!r}")
    return float(value)
