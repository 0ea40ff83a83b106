"""A run beside autoregression, in words and numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagle3_viz.cli.report import agreement, comparison
from eagle3_viz.config import Method, Rule
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace


def speculated() -> Trace:
    return make_trace(cycles=8)


def one_by_one() -> Trace:
    """As many tokens as `speculated` has, by autoregression."""
    return make_trace(cycles=len(speculated().tokens) - 1, method="ar")


@pytest.mark.parametrize("method", ["eagle3", "independent", "lookup"])
def test_the_columns_of_a_comparison_are_as_wide_as_its_longest_name(method: Method) -> None:
    table = comparison(make_trace(cycles=4, method=method), make_trace(cycles=4, method="ar"))
    rows = [line for line in table[:6] if line]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert rows[0].split()[-1] == "AR"


def test_texts_that_part_are_told_with_place_and_tokens() -> None:
    trace = speculated()
    other = one_by_one()
    at = 6
    tokens = list(other.cycles[at - 1].tokens)
    assert other.tokens[at] == tokens[0]
    changed = replace(other.cycles[at - 1], tokens=((tokens[0] + 1) % len(other.token_bytes),))
    other.cycles[at - 1] = changed
    trace.token_bytes[trace.tokens[at]] = b" left"
    said = agreement(trace, other)
    assert f"part at token {at + 1} of" in said
    assert "EAGLE-3 has ·left" in said
    assert "float32" in said


def test_a_text_that_only_ends_earlier_parts_after_its_last_token() -> None:
    trace = speculated()
    shorter = one_by_one()
    del shorter.cycles[-1]
    assert "AR nothing" in agreement(trace, shorter)


def test_rounding_is_named_as_the_cause_only_below_float32() -> None:
    trace = speculated()
    shorter = one_by_one()
    del shorter.cycles[-1]
    assert "rounds" not in agreement(trace, shorter)
    trace.header = replace(trace.header, dtype="bfloat16")
    assert "bfloat16 rounds differently" in agreement(trace, shorter)


@pytest.mark.parametrize("rule", ["topk", "sample", "typical"])
def test_sampled_texts_are_not_compared(rule: Rule) -> None:
    trace = make_trace(rule=rule)
    assert "not compared" in agreement(trace, make_trace(rule=rule, method="ar"))


def test_no_shared_distribution_is_claimed_for_a_rule_that_changes_it() -> None:
    said = agreement(make_trace(rule="typical"), make_trace(rule="typical", method="ar"))
    assert "share is the distribution" not in said
    assert "typical changes the output distribution" in said
