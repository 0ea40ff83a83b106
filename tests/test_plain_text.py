"""Text of other people is shown as it is, and steers nothing."""

from __future__ import annotations

import sys
import unicodedata

from eagle3_viz.plain_text import aligned, one_line, safe


def test_only_line_breaks_tabs_and_joiners_remain_of_all_control_characters() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    left = {c for c in safe(every) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert left == set("\n\t\u200c\u200d")


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "café ñ 你好 שלום مرحبا 👩‍🚀 e\u0301\n\tx"
    assert safe(text) == text


def test_one_line_has_no_line_break_and_a_limit() -> None:
    assert one_line("a\nb\tc\ud800") == "a↵b⇥c‹ED A0 80›"
    assert one_line("x" * 1000, limit=10) == "x" * 9 + "…"


def test_values_stand_below_each_other_each_on_one_line() -> None:
    assert aligned([("a", "x\ny"), ("long", "\x1b[2J")]) == ["a     x↵y", "long  ␛[2J"]
