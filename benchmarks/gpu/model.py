"""The section of a whole model: an 8B-shaped Llama and its EAGLE-3 draft, with random weights."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu.section import Case, Section, Setup


def _cases(setup: Setup) -> Iterator[Case]:
    # transformers takes seconds to import: the processes of other sections do without it
    from benchmarks.gpu.model_steps import cases_of
    from benchmarks.gpu.random_pair import LLAMA_8B, TINY

    yield from cases_of(setup, TINY if setup.tiny else LLAMA_8B)


SECTION = Section("model", 50, _cases)
