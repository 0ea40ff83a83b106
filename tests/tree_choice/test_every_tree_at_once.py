"""tau of every tree from one pass against runs with each tree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import known_acceptance
from benchmarks.known_acceptance import accepted, cycles_of, table_of, text_of
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.drafts.base import Draft
from tests.tiny_models import (
    OracleDraft,
    decode_all,
    random_ids,
    stock_model,
    tiny_draft,
    tiny_target,
)
from tests.tiny_models import text_of as text_of_run

V, LENGTH, DEPTH = 16, 40, 3
PROMPT = random_ids(9, 40, V)
WIDTHS, TOTALS = (1, 2, 4), (2, 3, 4, 6, 9, 14)
TARGET = tiny_target(vocab_size=V, seed=1)


def draft_of(kind: str) -> Draft:
    if kind == "eagle3":
        return tiny_draft(TARGET, draft_vocab_size=11)
    return OracleDraft(stock_model(TARGET), PROMPT, [t for t in range(V) if t % 5 != 4], 1.0)


@pytest.fixture(autouse=True)
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WIDTHS", WIDTHS), ("TOTALS", TOTALS), ("DEPTH", DEPTH)):
        monkeypatch.setattr(known_acceptance, name, value)
    monkeypatch.setattr(known_acceptance.EveryPosition, "widths", WIDTHS)
    monkeypatch.setattr(known_acceptance.EveryPosition, "depth", DEPTH)


@pytest.mark.parametrize("kind", ["eagle3", "oracle"])
def test_tau_of_each_tree_is_that_of_a_run_with_it(kind: str) -> None:
    draft = draft_of(kind)
    pair: Any = SimpleNamespace(target=TARGET, draft=lambda method: draft)
    text, proposals = text_of(pair, PROMPT, DecodeConfig(max_new_tokens=LENGTH, record="off"))
    kept = [
        [
            accepted(proposal, text[at + 1 :], k, DEPTH, TOTALS)
            for k, proposal in zip(WIDTHS, by_width, strict=True)
        ]
        for at, by_width in enumerate(proposals)
    ]
    found = table_of(*cycles_of(np.array(kept)))
    compared = 0
    for k in WIDTHS:
        for depth in range(DEPTH + 1):
            for column, total in enumerate(TOTALS):
                tau = found[k][depth][column]
                assert (tau is None) == (total - 1 > k + depth * k * k)
                if tau is None:
                    continue
                shape = TreeShape(total, depth, k)
                prefill, cycles = decode_all(
                    TARGET, draft, PROMPT, shape=shape, max_new_tokens=LENGTH, record="off"
                )
                assert text_of_run(prefill, cycles) == text
                whole = [len(cycle.tokens) for cycle in cycles if not cycle.cut]
                assert tau == pytest.approx(sum(whole) / len(whole), abs=6e-4), shape
                compared += 1
    assert compared > 25
