"""The sections of the check, in the order in which they run."""

from __future__ import annotations

from benchmarks.gpu import attention, commit_and_draft, limits, model, verification
from benchmarks.gpu.section import Section

SECTIONS: tuple[Section, ...] = (
    limits.SECTION,  # first: the others' floors come from it
    attention.SECTION,
    verification.SECTION,
    commit_and_draft.SECTION,
    model.SECTION,
    attention.FLEX_SECTION,
)


def section_named(name: str) -> Section:
    """Raises KeyError for a name that no section has."""
    return {section.name: section for section in SECTIONS}[name]
