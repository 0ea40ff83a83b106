"""What a sampling test has drawn, on disk as soon as one of its cases is finished.

The cases of a whole check take an hour or more. A check that was stopped or killed goes on from
its file; a process that is killed while it writes leaves at most one torn line, which is cut off.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eagle3_viz.config import DecodeConfig
from eagle3_viz.lossless.chi_square import Text
from eagle3_viz.records import Origin
from eagle3_viz.text_lines import DataError


@dataclass(frozen=True)
class Tally:
    """The draws of one case.

    origins        tokens by where they came from.
    accepted_twice texts in which two drafted tokens in a row were accepted.
    forwards       verifications that were really run; the others had been made before.
    """

    texts: Counter[Text]
    origins: Counter[Origin]
    accepted_twice: int
    forwards: int
    seconds: float

    @property
    def draws(self) -> int:
        """Texts that were drawn."""
        return self.texts.total()


class KeptTallies:
    """Tallies by case in one file, for a check that `about` describes.

    A case is the rule it is about, which may be a wrong one, and the configuration it runs with.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """Reads what is there. Raises DataError for a file of another check, or a damaged one."""
        self.path = path
        self._tallies: dict[str, Tally] = {}
        first = json.dumps(dict(about), sort_keys=True).encode() + b"\n"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if whole and whole[0] != first:
            raise DataError(
                f"{path} holds what another check has drawn: other models, numbers, prefix or "
                "draws; delete it, or name another file"
            )
        for number, line in enumerate(whole[1:], start=2):
            self._read(line, number)
        with path.open("wb") as file:
            file.writelines(whole or [first])

    def get(self, rule: str, config: DecodeConfig) -> Tally | None:
        """What was drawn for a case, None for nothing yet."""
        return self._tallies.get(_key(rule, config))

    def add(self, rule: str, config: DecodeConfig, tally: Tally) -> None:
        """Keep the draws of a case that is finished."""
        row = {
            "case": _key(rule, config),
            "texts": [[*text, count] for text, count in tally.texts.items()],
            "origins": {origin.name: count for origin, count in tally.origins.items()},
            "accepted_twice": tally.accepted_twice,
            "forwards": tally.forwards,
            "seconds": tally.seconds,
        }
        with self.path.open("ab", buffering=0) as file:  # a line is one write
            file.write(json.dumps(row).encode() + b"\n")
        self._tallies[_key(rule, config)] = tally

    def _read(self, line: bytes, number: int) -> None:
        try:
            row = json.loads(line)
            tally = Tally(
                Counter({tuple(text): count for *text, count in row["texts"]}),
                Counter({Origin[name]: count for name, count in row["origins"].items()}),
                row["accepted_twice"],
                row["forwards"],
                row["seconds"],
            )
            self._tallies[row["case"]] = tally
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise DataError(
                f"{self.path.name} line {number} is damaged; delete this line to draw the case anew"
            ) from error


def _key(rule: str, config: DecodeConfig) -> str:
    return json.dumps([rule, asdict(config)], sort_keys=True)
