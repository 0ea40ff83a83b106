"""The check for GPUs, tried without one: every step on small shapes with interpreted kernels."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu_check
from benchmarks.gpu import attention, commit_and_draft, process, verification
from benchmarks.gpu.limits import limits_of
from benchmarks.gpu.report import Result, table, write
from benchmarks.gpu.section import Case, Row, Section, Setup, compared, judged, run_section
from benchmarks.gpu.sections import SECTIONS
from benchmarks.gpu.timing import Limits, Timer

ROOT = Path(__file__).resolve().parent.parent
CPU = torch.device("cpu")
SETUP = Setup(CPU, tiny=True, timer=Timer(CPU), limits=Limits(1000.0, 2000.0))
TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter"),
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="here the check itself is to be run"),
]


def run_check(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status of the command."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        gpu_check.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@TRITON
def test_every_section_passes_interpreted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_check(monkeypatch, "--device", "cpu", "--tiny", "--out", str(tmp_path)) == 0
    assert "everything passed" in capsys.readouterr().out
    found = json.loads((tmp_path / "gpu_check-interpreted-no-gpu.json").read_text())
    assert found["passed"]
    assert [section["section"] for section in found["sections"]] == [s.name for s in SECTIONS]
    assert "torch=" in found["versions"]
    for section in found["sections"][1:]:
        timed = [row for row in section["rows"] if "of_floor" in row["numbers"]]
        assert timed, section["section"]
        assert all(row["numbers"]["of_floor"] > 0 for row in timed)
    for section, known in zip(found["sections"], SECTIONS, strict=True):
        cases = [case.name for case in known.cases(SETUP)]
        assert list(dict.fromkeys(row["case"] for row in section["rows"])) == cases
    with (tmp_path / "gpu_check-interpreted-no-gpu.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(len(section["rows"]) for section in found["sections"])
    assert {line["verdict"] for line in lines} == {"passed", ""}


def test_where_nothing_can_be_checked_it_says_why_and_ends_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "triton_installed", lambda: True)
    assert run_check(monkeypatch) == 2
    assert "PyTorch sees no CUDA GPU here" in capsys.readouterr().err
    assert run_check(monkeypatch, "--device", "cpu") == 2
    assert "add --tiny" in capsys.readouterr().err
    monkeypatch.setattr(gpu_check, "triton_installed", lambda: False)
    assert run_check(monkeypatch, "--device", "cpu", "--tiny") == 2
    assert "Triton is not installed" in capsys.readouterr().err
    monkeypatch.setattr(gpu_check, "triton_installed", lambda: True)
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "torch")
    assert run_check(monkeypatch, "--device", "cpu", "--tiny") == 2
    assert "unset EAGLE3_VIZ_KERNELS" in capsys.readouterr().err


@TRITON
def test_nothing_imports_triton_before_the_check_asks_for_the_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu_check", "--device", "cpu", "--tiny"]
    environment = {key: text for key, text in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [*command, "--sections", "commit-draft", "--out", str(tmp_path)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "commit-draft: passed" in done.stdout


def test_all_of_it_takes_less_than_four_minutes() -> None:
    starts = 5.0 * len(SECTIONS)  # to import PyTorch and open a device
    assert sum(section.seconds for section in SECTIONS) + starts <= gpu_check.TOTAL_SECONDS < 240


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_a_missing_case_can_be_told_by_its_name(section: Section) -> None:
    for tiny in (True, False):
        names = [case.name for case in section.cases(replace(SETUP, tiny=tiny))]
        assert names
        assert len(set(names)) == len(names)


def rows_of(section: Section) -> list[Row]:
    return list(run_section(section, SETUP))


def wrong_attention(*states: Any, out: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    return torch.zeros_like(states[0]) if out is None else out  # nothing is written


def wrong_scores(
    logits: torch.Tensor, token: torch.Tensor, parent: torch.Tensor, out: Any, **options: Any
) -> None:
    verification.score_nodes_torch(2.0 * logits, token, parent, out, **options)


def wrong_walk(logits: torch.Tensor, token: torch.Tensor, *rest: Any, **options: Any) -> None:
    verification.verify_topk_torch(logits.roll(1, -1), token, *rest, **options)


def wrong_level(logits: torch.Tensor, above: torch.Tensor, out: Any) -> None:
    commit_and_draft.draft_topk_torch(logits.flip(0), above, out)


@TRITON
@pytest.mark.parametrize(
    ("module", "kernel", "wrong", "caught"),
    [
        (attention, "tree_attention_triton", wrong_attention, {"triton"}),
        (verification, "score_nodes_triton", wrong_scores, {"triton scores"}),
        (verification, "verify_topk_triton", wrong_walk, {"triton topk"}),
        (commit_and_draft, "kv_commit_triton", lambda *given: None, {"triton"}),
        (commit_and_draft, "draft_topk_triton", wrong_level, {"triton"}),
    ],
    ids=["attention", "scores", "walk", "commit", "level"],
)
def test_a_kernel_that_is_wrong_does_not_pass(
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    kernel: str,
    wrong: Callable[..., Any],
    caught: set[str],
) -> None:
    monkeypatch.setattr(module, kernel, wrong)
    failed = {row.provider for row in rows_of(module.SECTION) if row.passed is False}
    assert failed == caught


def sleeping(seconds: float) -> Iterator[Row]:
    time.sleep(seconds)
    yield Row("slow", "triton", {"error": 0.0}, True)


def raising() -> Iterator[Row]:
    yield Row("broken", "triton", {"error": 0.0}, True)
    raise RuntimeError("CUDA error: an illegal memory access\nmore of it")


def section_of(*cases: Case, seconds: float = 10.0) -> Section:
    return Section("made up", seconds, lambda setup: iter(cases))


def test_a_case_that_raises_loses_no_other() -> None:
    last = Case("last", lambda: iter([Row("last", "triton", {}, True)]))
    rows = rows_of(section_of(Case("broken", raising), last))
    assert [(row.case, row.passed) for row in rows] == [
        ("broken", True), ("broken", False), ("last", True),
    ]  # fmt: skip
    assert rows[1].note == "RuntimeError: CUDA error: an illegal memory access"


def test_what_is_only_compared_with_may_fail() -> None:
    def out_of_order() -> dict[str, float]:
        raise RuntimeError("cannot be captured")

    row = compared("case", "sdpa", out_of_order)
    assert (row.passed, row.note) == (None, "RuntimeError: cannot be captured")
    assert compared("case", "sdpa", lambda: {"us": 2.0}) == Row("case", "sdpa", {"us": 2.0})


def test_what_a_sections_time_does_not_allow_is_reported_as_not_run() -> None:
    slow = Case("slow", lambda: sleeping(0.02))
    rows = rows_of(section_of(slow, slow, seconds=0.01))
    assert [row.passed for row in rows] == [True, False]
    assert rows[1].note == "not run: the section's 0.01 s were over"


def test_an_error_that_is_no_number_does_not_pass() -> None:
    assert judged("case", "triton", 1e-6, 1e-5).passed
    assert judged("case", "triton", 1e-5, 1e-5).passed
    assert not judged("case", "triton", 2e-5, 1e-5).passed
    assert not judged("case", "triton", float("nan"), 1e-5).passed


def test_a_section_in_its_own_process_returns_its_rows() -> None:
    rows = process.run_apart(SECTIONS[0], "cpu", True, None, 60.0)
    assert [row.case for row in rows] == ["copy", "read", "matrix product"]
    limits = limits_of(rows)
    assert limits is not None
    assert limits.floor_us(1000) == 1000 / limits.bytes_per_us
    assert limits_of(rows[:2]) is None


def test_a_process_that_ends_before_its_first_case_says_why() -> None:
    unknown = replace(SECTIONS[0], name="unheard of")
    (row,) = process.run_apart(unknown, "cpu", True, None, 60.0)
    assert row.passed is False
    assert row.note == "ended with status 1: KeyError: 'unheard of'"
    (row,) = process.run_apart(SECTIONS[0], "cpu", True, None, 0.01)
    assert row.note == "ended after 0 s"


def test_a_process_that_ends_early_keeps_its_rows_and_names_the_missing_cases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crash(command: list[str], seconds: float) -> str:
        whole = '["copy", "read", "product"]\n{"case": "copy", "provider": "torch"}\n'
        Path(command[4]).write_text(whole + '{"case": "re')
        return "ended with status -11: nothing was said"

    monkeypatch.setattr(process, "_trouble", crash)
    rows = process.run_apart(SECTIONS[0], "cpu", True, None, 60.0)
    assert [(row.case, row.passed) for row in rows] == [
        ("copy", None), ("the section's process", False), ("read", False), ("product", False),
    ]  # fmt: skip
    assert rows[1].note == "ended with status -11: nothing was said"
    assert {row.note for row in rows[2:]} == {"not run: the process had ended"}


def test_a_process_that_hangs_is_ended_with_what_it_started() -> None:
    started = "import subprocess; subprocess.run(['sleep', '20'])"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {started!r}])"
    begin = time.monotonic()
    assert process._trouble([sys.executable, "-c", script], 0.5) == "ended after 0 s"
    assert time.monotonic() - begin < 10
    assert process._trouble([sys.executable, "-c", "raise SystemExit('no device')"], 9.0) == (
        "ended with status 1: no device"
    )
    assert process._trouble([sys.executable, "-c", ""], 9.0) == ""


@TRITON
def test_one_failure_makes_the_whole_check_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = section_of(Case("broken", raising))
    good = section_of(Case("good", lambda: iter([Row("good", "torch", {"us": 2.0})])))
    monkeypatch.setattr(gpu_check, "SECTIONS", (bad, replace(good, name="good")))
    assert run_check(monkeypatch, "--device", "cpu", "--tiny", "--out", str(tmp_path)) == 1
    shown = capsys.readouterr().out
    assert "made up: FAILED" in shown
    assert "good: passed" in shown
    assert shown.endswith("FAILED: made up\n")


def test_a_section_without_a_row_did_not_pass() -> None:
    assert not Result("empty", 1.0, []).passed
    assert Result("compared", 1.0, [Row("case", "sdpa", {"us": 1.0})]).passed


def test_numbers_stand_in_columns_and_infinity_is_null_in_json(tmp_path: Path) -> None:
    rows = [
        Row("a case", "triton", {"error": float("inf"), "us": 1234.5}, False, "far off"),
        Row("a case", "torch", {"us": 2.0}),
    ]
    result = Result("made up", 3.2, rows)
    assert table(result).splitlines()[1:] == [
        "made up: FAILED, 3 s",
        "case    provider  error    us",
        "a case  triton      inf  1234  FAILED  far off",
        "        torch               2",
    ]
    paths = write(tmp_path, {"card": "NVIDIA H200 (141 GB)"}, [result])
    assert [path.name for path in paths] == [
        "gpu_check-nvidia-h200-141-gb.json", "gpu_check-nvidia-h200-141-gb.csv",
    ]  # fmt: skip
    found = json.loads(paths[0].read_text())
    assert found["sections"][0]["rows"][0]["numbers"] == {"error": None, "us": 1234.5}
