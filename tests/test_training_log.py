"""The training log: what was added is read back, whatever a crash left behind."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from eagle3_viz.text_lines import DataError
from eagle3_viz.training import log as training_log
from eagle3_viz.training.log import (
    EvaluationRow,
    LogRow,
    TrainingLog,
    read_evaluations,
    read_log,
)

HOSTILE = '\x1b[2J<b>,"x"\n\'=1+1\u202e\ud800'


def row(step: int, unroll: int = 4) -> LogRow:
    draw = random.Random(step).random
    accuracy = tuple(draw() for _ in range(unroll))
    return LogRow(step, 768 * step, draw() * 1e4, draw(), draw() * 1e-3, draw(), draw(), accuracy)


def evaluation(step: int, domain: str = "all", unroll: int = 5) -> EvaluationRow:
    draw = random.Random(f"{step}{domain!r}").random
    return EvaluationRow(step, 768 * step, domain, tuple(draw() for _ in range(unroll)))


def filled(folder: Path, *, steps: int = 5) -> TrainingLog:
    log = TrainingLog(folder)
    for step in range(1, steps + 1):
        log.add(row(step))
        for domain in ("all", "code"):
            log.add_evaluation(evaluation(step, domain))
    return log


def test_rows_are_read_back_exactly_as_they_were_added(tmp_path: Path) -> None:
    filled(tmp_path / "new" / "job")
    assert read_log(tmp_path / "new" / "job") == [row(step) for step in range(1, 6)]
    assert read_evaluations(tmp_path / "new" / "job") == [
        evaluation(step, domain) for step in range(1, 6) for domain in ("all", "code")
    ]


def test_every_row_is_in_the_file_as_soon_as_it_is_added(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    for step in range(1, 4):
        log.add(row(step))
        assert read_log(tmp_path)[-1] == row(step)


def test_a_table_program_reads_one_header_and_the_same_numbers(tmp_path: Path) -> None:
    filled(tmp_path)
    filled_again = TrainingLog(tmp_path)
    filled_again.add(row(6))
    table = pd.read_csv(tmp_path / "log.csv")
    assert list(table.step) == [1, 2, 3, 4, 5, 6]
    assert list(table.columns[-4:]) == [f"accuracy_{step}" for step in (1, 2, 3, 4)]
    assert table.accuracy_3.tolist() == pytest.approx([row(s).accuracy[2] for s in range(1, 7)])


def test_a_loss_that_diverged_and_an_accuracy_of_nothing_are_kept(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    log.add(replace(row(1), loss=math.nan, gradient_norm=math.inf, accuracy=(math.nan, 0.0)))
    (found,) = read_log(tmp_path)
    assert math.isnan(found.loss) and found.gradient_norm == math.inf
    assert math.isnan(found.accuracy[0]) and found.accuracy[1] == 0


def test_numbers_of_tensors_are_written_as_numbers(tmp_path: Path) -> None:
    loss = torch.tensor(0.5)
    accuracy = tuple(torch.tensor([0.25, 1.0]))
    TrainingLog(tmp_path).add(replace(row(1), loss=loss, accuracy=accuracy))  # type: ignore[arg-type]
    assert read_log(tmp_path)[0].loss == 0.5 and read_log(tmp_path)[0].accuracy == (0.25, 1.0)


def test_nothing_is_there_before_the_first_row(tmp_path: Path) -> None:
    TrainingLog(tmp_path)
    assert read_log(tmp_path) == [] and read_evaluations(tmp_path) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for read in (read_log, read_evaluations):
        with pytest.raises(DataError, match="no folder"):
            read(tmp_path / "missing")


@pytest.mark.parametrize("step", [0, 1, 3, 4, 5, 9])
def test_truncation_leaves_the_rows_up_to_the_checkpoint(tmp_path: Path, step: int) -> None:
    log = filled(tmp_path)
    log.truncate_after(step)
    assert [row.step for row in read_log(tmp_path)] == list(range(1, min(step, 5) + 1))
    assert {row.step for row in read_evaluations(tmp_path)} == set(range(1, min(step, 5) + 1))
    log.add(row(10))
    assert read_log(tmp_path)[-1] == row(10)


def test_a_job_restarted_from_step_0_may_have_other_unroll_steps(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.truncate_after(0)
    log.add(row(1, unroll=2))
    assert read_log(tmp_path) == [row(1, unroll=2)]


def test_a_crash_during_truncation_leaves_the_old_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path)

    def crash(self: Path, other: Path) -> None:
        raise OSError("gone")

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(OSError, match="gone"):
        log.truncate_after(2)
    assert len(read_log(tmp_path)) == 5


def test_a_row_of_other_unroll_steps_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with pytest.raises(DataError, match=r"log\.csv has 4 accuracies a row.*has 3"):
        log.add(row(6, unroll=3))
    with pytest.raises(DataError, match=r"heldout\.csv has 5"):
        log.add_evaluation(evaluation(6, unroll=4))
    assert len(read_log(tmp_path)) == 5


def test_wherever_the_last_line_is_torn_the_rows_before_it_are_read(tmp_path: Path) -> None:
    filled(tmp_path, steps=2)
    path = tmp_path / "log.csv"
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        complete = content[:end].count(b"\n")
        assert read_log(tmp_path) == [row(1)][: max(complete - 1, 0)]


def test_opening_removes_a_torn_line_so_that_the_next_row_stands_alone(tmp_path: Path) -> None:
    filled(tmp_path, steps=2)
    path = tmp_path / "log.csv"
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        before = read_log(tmp_path)
        TrainingLog(tmp_path).add(row(9))
        assert read_log(tmp_path) == [*before, row(9)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"step,", b"stop,"),
        (b",accuracy_2", b""),
        (b"\n3,", b"\n2,"),
        (b"\n3,", b"\n-3,"),
        (b"\n3,", b"\n\xff3,"),
        (b"\n3,", b'\n"3,'),
        (b"\n3,", b"\n3,3,"),
        (b"\n3,", b"\n\n3,"),
        (b"\n3,", b"\n" + b"9" * 5000 + b","),
        (b"\n3,2304,", b"\n3,2304,?"),
        (b"\n3,2304,", b"\n3,\0,"),
    ],
)
def test_a_line_that_was_not_written_here_is_named(tmp_path: Path, old: bytes, new: bytes) -> None:
    filled(tmp_path)
    path = tmp_path / "log.csv"
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    line = 1 if old[:1] != b"\n" else 4
    with pytest.raises(DataError, match=rf"log\.csv line {line}\b") as error:
        read_log(tmp_path)
    assert len(str(error.value)) < 200 + len(str(path))


@pytest.mark.parametrize("share", ["1.5", "-0.1", "inf", ""])
def test_an_accuracy_is_a_share(tmp_path: Path, share: str) -> None:
    path = tmp_path / "heldout.csv"
    path.write_text(f"step,tokens,domain,accuracy_1\n1,2,all,0.5\n1,2,code,{share}\n")
    with pytest.raises(DataError, match=r"heldout\.csv line 3: expected a"):
        read_evaluations(tmp_path)


def test_a_file_of_any_size_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    monkeypatch.setattr(training_log, "MAX_BYTES", 100)
    for read in (read_log, read_evaluations):
        with pytest.raises(DataError, match=r"\.csv is longer than 100 bytes"):
            read(tmp_path)


def test_a_hostile_domain_stays_one_cell_of_one_line_without_control_characters(
    tmp_path: Path,
) -> None:
    log = TrainingLog(tmp_path)
    log.add_evaluation(evaluation(1, HOSTILE))
    log.add_evaluation(evaluation(1, "d" * 1000))
    first, second = read_evaluations(tmp_path)
    assert first.domain == '�[2J<b>,"x"�\'=1+1��'
    assert second.domain == "d" * 40
    assert first.accuracy == evaluation(1, HOSTILE).accuracy
    assert len((tmp_path / "heldout.csv").read_bytes().splitlines()) == 3


def test_a_domain_with_control_characters_in_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "heldout.csv"
    path.write_text("step,tokens,domain,accuracy_1\n1,2,\x1b[2J,0.5\n")
    with pytest.raises(DataError, match=r"line 2: a domain"):
        read_evaluations(tmp_path)
