"""The tree of a `decode` that names none."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_viz.cli.main import main
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.trace import Trace
from eagle3_viz.tree_choice import measuring
from tests.lossless.tiny_pair import chat_pair
from tests.replayed_runs import by_method
from tests.tree_choice.made_up import COST, KNOWN

FASTEST = TreeShape(4, 1, 3)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[DecodeConfig]:
    """The configurations that were run, on a pair whose EAGLE-3 draft has a table."""
    pair, ran = chat_pair(), []
    eagle3, *others = pair.drafts
    known = replace(pair, drafts=(replace(eagle3, acceptance=KNOWN), *others))

    def run(_pair: Any, _prompt: str, config: DecodeConfig, **_: Any) -> Generator[Trace]:
        ran.append(config)
        yield by_method(config)

    monkeypatch.setenv("EAGLE3_VIZ_CACHE", str(tmp_path))
    monkeypatch.setattr("eagle3_viz.cli.pair_loading.load_pair", lambda *_, **__: known)
    monkeypatch.setattr("eagle3_viz.cli.decode.run", run)
    monkeypatch.setattr(measuring, "measure", lambda *_: COST)
    return ran


def test_without_a_size_the_fastest_tree_is_run_and_told(
    ran: list[DecodeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", "prompt"]) == 0
    assert [config.shape for config in ran] == [FASTEST]
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "chosen tree" in line]
    assert "total 4, depth 1, top-k 3" in line


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        (["--depth", "1"], TreeShape(8, 1, 4)),
        (["--total", "5"], TreeShape(5, 2, 4)),
        (["--top-k", "1"], TreeShape(4, 2, 1)),
        (["--method", "lookup"], TreeShape()),
        (["--draft-kind", "least-likely"], TreeShape()),
    ],
)
def test_a_named_size_a_method_without_choice_and_a_bad_draft_keep_their_tree(
    options: list[str],
    shape: TreeShape,
    ran: list[DecodeConfig],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["decode", "prompt", *options]) == 0
    assert [config.shape for config in ran] == [shape]
    assert "chosen tree" not in capsys.readouterr().err


def test_costs_in_doubt_are_told_in_the_same_line_with_the_reason(
    ran: list[DecodeConfig], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "measure", lambda *_: replace(COST, spread=0.34))
    assert main(["decode", "prompt"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "the nearest to the default, since the fastest could not be told. Not measured reliably:"
        in told
    )
    assert "34%" in told and "choose a size" in told and "the most of all" not in told
