"""The Markdown report: complete, and nothing in it that a model wrote is Markdown or HTML."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from eagle3_viz.config import METHODS, Method
from eagle3_viz.export import markdown_summary
from eagle3_viz.metrics import acceptance_by_depth, summary
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

HOSTILE = (
    "```\n# Broken out\n",
    "````\n<img src=x onerror=alert(1)>\n````\n",
    "`````````````````````",
    "\n```text\n[link](https://example.org)\n```\n",
    "\r```\r<script>alert(1)</script>\r",
    "| a | b |\n|---|---|\n",
    "~~~\n</code></pre>\n~~~",
    "    ```\n\u2028```\u2029```\x0b```\x0c```\x85```\n",
    "@everyone closes #1",
)


def outside_fences(text: str) -> list[str]:
    """Lines that are not in fenced code, fences told apart as CommonMark 4.5 tells them."""
    found, fence = [], ""
    for line in re.split(r"\r\n|\n|\r", text):  # the line endings of CommonMark 2.1
        ticks = len(line) - len(line.lstrip("`"))
        if fence:
            if ticks >= len(fence) and line.strip("` ") == "":
                fence = ""
        elif ticks >= 3 and "`" not in line[ticks:]:
            fence = line[:ticks]
        else:
            found.append(line)
    assert fence == ""
    return found


def hostile_trace(text: str) -> Trace:
    trace = make_trace(cycles=3, rule="topk")
    header = replace(
        trace.header,
        prompt=text,
        pair=text,
        argv=("eagle3_viz", text),
        versions={"torch": text, text: "1"},
        git_commit=text,
        dtype_reason=text,
        device=text,
        target=replace(trace.header.target, name=text, location=text, revision=text, sha256=text),
        baseline=replace(trace.header.baseline, how=text) if trace.header.baseline else None,
    )
    return replace(
        trace, header=header, token_bytes=dict.fromkeys(trace.token_bytes, text.encode())
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_a_model_or_a_person_wrote_stands_outside_a_fence(text: str) -> None:
    plain = outside_fences(markdown_summary(make_trace(cycles=3, rule="topk"), "plain"))
    assert outside_fences(markdown_summary(hostile_trace(text), text)) == plain


def test_the_check_itself_sees_a_fence_that_is_broken_out_of() -> None:
    assert "# out" in outside_fences("```\na\n```\n# out\n")
    assert outside_fences("````\n```\n# in\n```\n````") == []


def test_controls_that_hide_or_reorder_text_are_shown_as_signs() -> None:
    report = markdown_summary(hostile_trace("a\u202eb\x1b[31m\x00c"), "n\u2066")
    assert not set("\u202e\x1b\x00\u2066") & set(report)
    assert "a⟨U+202E⟩b␛[31m␀c" in report


def test_the_report_names_the_run_its_versions_and_its_numbers() -> None:
    trace = make_trace(cycles=12, rule="topk", seed=4)
    report = markdown_summary(trace, "my run")
    found = summary(trace)
    header = trace.header
    for text in (
        *("my run", header.pair, header.git_commit, header.started_at, header.dtype),
        *(f"{name} {version}" for name, version in header.versions.items()),
        *(header.target.name, header.draft.name if header.draft else ""),
        *(f"{found.tau:.2f} tokens per cycle", f"{found.tokens_per_second:.1f} tokens/s"),
        f"{found.speedup:.2f}x over autoregression",
    ):
        assert text in report, text


def test_acceptance_by_depth_is_a_table_of_the_counted_values() -> None:
    trace = make_trace(cycles=20, rule="topk", seed=1)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in outside_fences(markdown_summary(trace, "a"))
        if line.startswith("|")
    ]
    _, _, *values = rows
    table = acceptance_by_depth(trace)
    assert len(values) == len(table) > 1
    for cells, row in zip(values, table.itertuples(), strict=True):
        assert [int(cell) for cell in cells[:3]] == [row.depth, row.accepted, row.tested]
        assert cells[3:] == [f"{row.conditional:.1%}", f"{row.unconditional:.1%}"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_report(method: Method) -> None:
    assert markdown_summary(make_trace(cycles=3, method=method), "a").startswith("# ")
    assert markdown_summary(make_trace(cycles=0, method=method), "a").startswith("# ")


def test_a_long_prompt_and_a_long_text_are_cut_and_say_so() -> None:
    trace = hostile_trace("x" * 9000)
    report = markdown_summary(trace, "a")
    assert "x" * 4000 + "… (5000 more characters)" in report
    assert len(report) < 65_536  # what an issue tracker takes
