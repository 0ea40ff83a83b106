"""`pairs`: the pairs that have a name, and what each of them takes."""

from __future__ import annotations

import textwrap

from eagle3_viz.pair_specs import EMBEDDED, KNOWN_PAIRS, SHIPPED, PairSpec, is_local


def list_pairs() -> int:
    """Print the table of known pairs; fits 80 columns."""
    print(f"{'pair':<32}{'download':>10}{'memory':>10}   on this machine")
    for spec in KNOWN_PAIRS:
        print("\n".join(_entry(spec)))
    return 0


def _entry(spec: PairSpec) -> list[str]:
    sizes = f"{_size(spec.download_gb):>10}{_size(spec.memory_gb):>10}"
    return [
        "",
        f"{spec.name:<32}{sizes}   {'yes' if is_local(spec) else 'no'}",
        f"  target  {'embedded' if spec.target == EMBEDDED else spec.target}",
        *(
            f"  draft   {draft}{' (comes with this program)' if draft in SHIPPED else ''}"
            for draft in spec.drafts
        ),
        textwrap.fill(spec.note, 80, initial_indent="  note    ", subsequent_indent=" " * 10),
    ]


def _size(gigabytes: float) -> str:
    return f"{gigabytes * 1000:.0f} MB" if gigabytes < 1 else f"{gigabytes:.0f} GB"
