"""Which form of an operation runs where, and what importing the package costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernels
from kernels import implementation
from kernels.draft_topk import DraftTop, draft_topk
from kernels.kv_commit import kv_commit
from kernels.verify import score_nodes, verify_greedy, verify_sample, verify_topk
from tests.kernels.verify_problems import buffers, problem

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EAGLE3_VIZ_KERNELS", raising=False)


def python(script: str, **environment: str) -> str:
    """Standard output of `script` in a fresh interpreter."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_gpus_get_triton_and_everything_else_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "triton_installed", lambda: True)
    monkeypatch.setattr(kernels, "gpus_are_recent", lambda: True)
    found = {device: implementation(device) for device in ("cuda", "cpu", "mps", "xpu")}
    assert found == {"cuda": "triton", "cpu": "torch", "mps": "torch", "xpu": "torch"}


def test_without_triton_a_gpu_gets_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "triton_installed", lambda: False)
    assert implementation("cuda") == "torch"


def test_a_gpu_without_tensor_cores_for_triton_gets_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "triton_installed", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for capabilities, expected in (((9, 0), (8, 0)), "triton"), (((9, 0), (7, 5)), "torch"):
        monkeypatch.setattr("torch.cuda.get_device_capability", lambda i, c=capabilities: c[i])
        kernels.gpus_are_recent.cache_clear()
        assert implementation("cuda") == expected
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "triton")
    assert implementation("cuda") == "triton"
    kernels.gpus_are_recent.cache_clear()


def test_one_variable_overrules_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "triton_installed", lambda: True)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "triton")
    assert implementation("cpu") == "triton"
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "torch")
    assert implementation("cuda") == "torch"
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "cuda")
    with pytest.raises(ValueError, match="must be torch, triton or unset; it is 'cuda'"):
        implementation("cuda")


def test_triton_is_refused_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "triton")
    monkeypatch.setattr(kernels, "triton_installed", lambda: True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match="'cpu': Triton compiles for GPUs only"):
        implementation("cpu")
    monkeypatch.setattr(kernels, "triton_installed", lambda: False)
    with pytest.raises(RuntimeError, match="Triton is not installed"):
        implementation("cuda")


CASE = problem(4, 80, 1)
TOP = (torch.zeros(2, 70), torch.zeros(2), DraftTop.allocate(2, 70, 3, torch.device("cpu")))
ROWS = (torch.zeros(1, 2, 1, 1, 8, 4), torch.arange(2), torch.tensor([2]), torch.tensor([3]))
CALLS = {
    "verify_triton.score_nodes": lambda: score_nodes(*CASE.arguments, buffers(CASE)),
    "verify_triton.verify_greedy": lambda: verify_greedy(*CASE.arguments, buffers(CASE)),
    "verify_triton.verify_topk": lambda: verify_topk(*CASE.arguments, CASE.given, buffers(CASE)),
    "verify_triton.verify_sample": lambda: verify_sample(
        *CASE.arguments, CASE.given, CASE.proposal(), buffers(CASE)
    ),
    "kv_commit.kv_commit": lambda: kv_commit(*ROWS),
    "draft_topk.draft_topk": lambda: draft_topk(*TOP),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="calls with tensors on the CPU")
@pytest.mark.parametrize("operation", CALLS)
def test_every_operation_asks_which_of_its_forms_to_run(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    monkeypatch.setattr(f"kernels.{operation}_triton", lambda *args, **options: called.append(1))
    CALLS[operation]()
    assert called == []
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "triton")
    CALLS[operation]()
    assert called == [1]


VERIFIED = {
    "score_nodes": (score_nodes, ()),
    "verify_topk": (verify_topk, (CASE.given,)),
    "verify_sample": (verify_sample, (CASE.given, CASE.proposal())),
}


@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("name", VERIFIED)
def test_temperature_and_least_logit_reach_either_form(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, drawn = VERIFIED[name]
    arguments = (*CASE.arguments, *drawn, buffers(CASE))
    options = {"temperature": 0.7, "least": torch.zeros(4)}
    called = []
    where = {"torch": "verify", "triton": "verify_triton"}[form]
    monkeypatch.setattr(f"kernels.{where}.{name}_{form}", lambda *a, **o: called.append((a, o)))
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", form)
    operation(*arguments, **options)
    [(given, asked)] = called
    assert all(found is sent for found, sent in zip(given, arguments, strict=True))
    assert asked == options


def test_importing_the_package_imports_neither_torch_nor_triton() -> None:
    script = "import sys, kernels; print({'torch', 'triton', 'transformers'} & set(sys.modules))"
    assert python(script) == "set()"


ABSENT = """
import sys
sys.modules["triton"] = None  # as where there is none
import torch
from kernels import implementation
from kernels.draft_topk import DraftTop, draft_topk
import kernels.kv_commit, kernels.verify
out = DraftTop.allocate(1, 3, 1, torch.device("cpu"))
draft_topk(torch.tensor([[0.0, 2.0, 1.0]]), torch.zeros(1), out)
print(out.ids.tolist())
"""


def test_every_operation_runs_where_there_is_no_triton() -> None:
    assert python(ABSENT) == "[[1]]"
