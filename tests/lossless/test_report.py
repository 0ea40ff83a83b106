from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from eagle3_viz.config import DecodeConfig, Sampling
from eagle3_viz.lossless.chi_square import Cell, ChiSquare
from eagle3_viz.lossless.greedy_test import Comparison, GreedyRun, Margins
from eagle3_viz.lossless.kept import Tally
from eagle3_viz.lossless.report import (
    greedy_cells,
    greedy_table,
    greedy_words,
    grouped,
    sampling_cells,
    sampling_table,
    sampling_words,
)
from eagle3_viz.lossless.sampling_test import Case, Result, judged
from eagle3_viz.records import Origin

CELLS = (Cell((1, 2, 3), 60.0, 55), Cell(None, 40.0, 45))
ALL = Counter({Origin.ACCEPTED: 150, Origin.RECOVERED: 90, Origin.BONUS: 60})


def result(rule: str, p: float, seed: int = 0, origins=ALL, twice: int = 9) -> Result:
    built_on = rule if rule in ("topk", "sample", "typical") else "sample"
    config = DecodeConfig(sampling=Sampling(0.8), rule=built_on, seed=seed)  # type: ignore[arg-type]
    test = ChiSquare(CELLS, 1.0, 1, p, 0.05)
    tally = Tally(Counter({(1, 2, 3): 55, (4, 5, 6): 45}), origins, twice, 7, 1.5)
    return Result(Case(rule, config), test, tally)


RESULTS = [
    result("topk", 0.4),
    result("topk", 0.9, 1),
    result("reorder", 1e-12),
    result("reorder", 0.5, 1),
    result("typical", 0.7),
]


def test_the_words_give_the_verdict_every_wrong_rule_and_the_power() -> None:
    words = list(sampling_words(judged(RESULTS)))
    assert words[0].startswith("Lossless, as far as 2 tests can tell")
    assert words[1] == (
        "eagle3 reorder, temperature 0.8: the wrong rule is rejected with 1 of 2 seeds."
    )
    assert words[2].startswith("eagle3 typical, temperature 0.8: the relaxed rule was not detected")
    assert words[3].startswith("Power: with 100 draws of 3 tokens in 2 cells, a total variation")
    assert "at level 0.002 (0.01 for 5 tests together)" in words[3]
    assert len(words) == 4


def test_a_lossless_rule_that_is_rejected_is_said_first() -> None:
    words = list(sampling_words(judged([*RESULTS, result("sample", 1e-6)])))
    assert words[0].startswith("REJECTED: 1 of 3 tests")
    assert not any(word.startswith("Lossless") for word in words)


def test_what_was_not_exercised_is_named() -> None:
    origins = Counter({Origin.ACCEPTED: 10, Origin.PLAIN: 290})
    words = list(sampling_words(judged([result("topk", 0.5, origins=origins, twice=0)])))
    assert words[1] == (
        "eagle3 topk, temperature 0.8 never committed two accepted tokens in a row or a recovered "
        "token or a bonus token: that part is not tested here."
    )


def test_nothing_finished_says_nothing() -> None:
    assert list(sampling_words([])) == []


def test_groups_are_the_seeds_of_one_rule() -> None:
    groups = grouped(judged(RESULTS))
    assert [(group.rule, len(group.tests)) for group in groups] == [
        ("topk", 2),
        ("reorder", 2),
        ("typical", 1),
    ]
    head, topk, reorder, typical = sampling_cells(groups)
    assert head[0] == "test"
    assert topk == [
        "eagle3 topk, temperature 0.8",
        "1 1",
        "0.050",
        *("300", "180", "120"),
        "the target's distribution",
    ]
    assert reorder[1] == "5e-12 1".replace("5e-12", "<1e-9") and reorder[-1] == "rejected, 1 of 2"
    assert typical[-1] == "not detected"


def test_the_table_has_a_row_a_test_with_both_p_values() -> None:
    table = sampling_table(judged(RESULTS))
    assert table.p_value.tolist() == [0.4, 0.9, 1e-12, 0.5, 0.7]
    assert table.p_corrected.tolist() == [1.0, 1.0, 5e-12, 1.0, 1.0]
    assert table.lossless.tolist() == [True, True, False, False, False]
    assert table.rejected.tolist() == [False, False, True, False, False]
    row = table.iloc[0]
    assert (row.accepted, row.recovered, row.bonus, row.plain) == (150, 90, 60, 0)
    assert (row.temperature, row.seed, row.draws, row.cells) == (0.8, 0, 100, 2)


def beside(position: int | None, flipped: bool) -> Comparison:
    margin, noise = torch.tensor([2.0, 0.1]), torch.tensor([0.2, 0.3])
    return Comparison(Margins(margin, noise, torch.tensor([False, flipped])), position)


EQUAL = GreedyRun("one", "eagle3", "bfloat16", 3, beside(None, False), None)
NEAR = replace(EQUAL, prompt="two", plain=beside(2, True), padded=beside(None, False))


def test_greedy_words_count_each_number_format_by_itself() -> None:
    words = list(greedy_words([EQUAL, NEAR, replace(EQUAL, dtype="float32")]))
    assert words[0].startswith("bfloat16: 1 of 2 texts equal, 1 part at a near tie")
    assert words[1].startswith("bfloat16, autoregression in the shape of the verification: 100%")
    assert words[2] == "float32: 1 of 1 text equal."


def test_greedy_rows_name_the_first_other_token_with_margin_and_noise() -> None:
    head, equal, near = greedy_cells([EQUAL, NEAR])
    assert equal == ["eagle3, bfloat16", "1", "-", "-", "0.25", "0.3", "equal"]
    assert near == [
        "eagle3, bfloat16, two",
        "1",
        "token 2 of 3",
        *("0.1", "0.2", "0.2"),
        "numerical",
    ]
    assert len(head) == len(near)


def test_the_greedy_table_holds_padded_columns_where_there_are_any() -> None:
    table = greedy_table([EQUAL, NEAR])
    assert table.verdict.tolist() == ["equal", "numerical"]
    assert table.padded_verdict.isna().tolist() == [True, False]
    assert table.position.isna().tolist() == [True, False]
