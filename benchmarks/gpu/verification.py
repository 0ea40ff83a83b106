"""Verification beside the logits: scores and decisions by dtype, and the time of each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch

from benchmarks.gpu.section import Case, Row, Section, Setup, compared, judged
from benchmarks.gpu.verification_cases import Problem, problem
from kernels.verify_buffers import Proposal, VerifyBuffers, Walk, read_walk
from kernels.verify_torch import (
    score_nodes_torch,
    verify_greedy_torch,
    verify_sample_torch,
    verify_topk_torch,
)
from kernels.verify_triton import (
    score_nodes_triton,
    verify_greedy_triton,
    verify_sample_triton,
    verify_topk_triton,
)

TOLERANCE = 1e-5  # of log-sum-exp and p, whatever the logits' dtype: they are exact as rounded
SEEDS = 4
CHECKED = [
    *product((60,), (128256,), (torch.bfloat16, torch.float16, torch.float32)),
    (1, 151936, torch.bfloat16),
    (23, 50257, torch.bfloat16),  # no multiple of anything
    (256, 32000, torch.bfloat16),
]
CHECKED_TINY = [(7, 301, torch.bfloat16)]
TIMED, VOCABULARY, DRAFTED = (1, 8, 16, 32, 60), 128256, 32000
RULES = ("greedy", "topk", "sample")


def _cases(setup: Setup) -> Iterator[Case]:
    for nodes, vocabulary, dtype in CHECKED_TINY if setup.tiny else CHECKED:
        name = f"{nodes} nodes, {vocabulary} tokens, {str(dtype).removeprefix('torch.')}"
        for kind, check in (("scores", _scores), ("walks", _decisions)):
            case = f"{kind}, {name}"
            yield Case(case, partial(check, setup, case, nodes, vocabulary, dtype))
    for nodes in (3,) if setup.tiny else TIMED:
        name = f"times, {nodes} nodes, {300 if setup.tiny else VOCABULARY} tokens, bfloat16"
        yield Case(name, partial(_times, setup, name, nodes))


def _scores(
    setup: Setup, name: str, nodes: int, vocabulary: int, dtype: torch.dtype
) -> Iterator[Row]:
    """log-sum-exp and p against float64; another arg-max than PyTorch's is an infinite error."""
    case = problem(nodes, vocabulary, 0, dtype, setup.device)
    found = _poisoned(nodes, vocabulary, setup.device)
    score_nodes_triton(*case.tree, found, temperature=0.7)
    scaled = case.logits.double() / 0.7
    exact = scaled.log_softmax(-1)[case.parent[1:], case.token[1:]].exp()
    errors = [_relative(found.log_z, scaled.logsumexp(-1)), _relative(found.p[1:], exact)]
    reference = _poisoned(nodes, vocabulary, setup.device)
    score_nodes_torch(*case.tree, reference)
    if not torch.equal(found.best, reference.best):
        errors.append(float("inf"))
    yield judged(name, "triton scores", max(errors), TOLERANCE)


def _decisions(
    setup: Setup, name: str, nodes: int, vocabulary: int, dtype: torch.dtype
) -> Iterator[Row]:
    """How many walks of the kernels differ from those of PyTorch, by rule."""
    seeds = range(1 if setup.tiny else SEEDS)
    cases = [problem(nodes, vocabulary, seed, dtype, setup.device) for seed in seeds]
    for rule in RULES:
        accepted, differ = 0, []
        for seed, case in enumerate(cases):
            found, expected = (_walk(case, rule, form) for form in ("triton", "torch"))
            accepted += len(expected.path) - 1
            if _decided(found) != _decided(expected) or found.broken:
                differ.append(seed)
        numbers = {"walks": len(seeds), "accepted": accepted, "differ": len(differ)}
        note = f"seeds {differ}" if differ else ""
        yield Row(name, f"triton {rule}", numbers, not differ, note)


def _decided(walk: Walk) -> tuple[tuple[int, ...], ...]:
    return walk.path, walk.tokens, walk.tested


def _walk(case: Problem, rule: str, form: str) -> Walk:
    """With a temperature and a threshold where the rule takes them."""
    nodes, vocabulary = case.logits.shape
    out = _poisoned(nodes, vocabulary, case.logits.device)
    if rule == "greedy":
        {"torch": verify_greedy_torch, "triton": verify_greedy_triton}[form](*case.tree, out)
    elif rule == "topk":
        topk = {"torch": verify_topk_torch, "triton": verify_topk_triton}[form]
        topk(*case.tree, case.uniforms, out, temperature=0.7, least=case.least)
    else:
        sample = {"torch": verify_sample_torch, "triton": verify_sample_triton}[form]
        sample(*case.tree, case.uniforms, case.proposal, out)
    return read_walk(out.result.cpu())


def _poisoned(nodes: int, vocabulary: int, device: torch.device) -> VerifyBuffers:
    """Buffers in which whatever is not written is noticed."""
    out = VerifyBuffers.allocate(nodes, vocabulary, device)
    for tensor in (*vars(out).values(), *vars(out.scratch).values()):
        if isinstance(tensor, torch.Tensor):
            tensor.fill_(-7.5e8 if tensor.is_floating_point() else -750_000_000)
    return out


def _relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest relative error; 0 of nothing."""
    if not len(exact):
        return 0.0
    return float(((found.double() - exact) / exact.abs().clamp(min=1e-30)).abs().max())


def _times(setup: Setup, name: str, nodes: int) -> Iterator[Row]:
    """The three rules on a chain of the likeliest tokens, all accepted: PyTorch's longest walk."""
    vocabulary, drafted = (300, 100) if setup.tiny else (VOCABULARY, DRAFTED)
    logits = torch.randn(nodes, vocabulary, device=setup.device).bfloat16()
    parent = torch.arange(-1, nodes - 1, device=setup.device)
    token = torch.cat([parent[:1] * 0, logits.argmax(-1)[:-1]])
    uniforms = torch.full((nodes,), 1e-9, dtype=torch.float64, device=setup.device)
    log_q = torch.randn(nodes, drafted, device=setup.device).log_softmax(-1)
    ids = torch.arange(vocabulary, device=setup.device)
    proposal = Proposal(log_q, parent + 1, torch.where(ids < drafted, ids, -1), 1)
    out = VerifyBuffers.allocate(nodes, vocabulary, setup.device)
    tree, size = (logits, token, parent), logits.nbytes
    forms: list[tuple[str, int, Callable[..., None], Callable[..., None], tuple[object, ...]]] = [
        ("greedy", size, verify_greedy_torch, verify_greedy_triton, ()),
        ("topk", size, verify_topk_torch, verify_topk_triton, (uniforms,)),
        ("sample", size + log_q.nbytes, verify_sample_torch, verify_sample_triton,
         (uniforms, proposal)),
    ]  # fmt: skip
    for rule, moved, by_torch, by_triton, given in forms:
        call = partial(by_triton, *tree, *given, out)
        yield Row(name, f"triton {rule}", setup.time(call, moved))
        call = partial(by_torch, *tree, *given, out)
        measure = partial(setup.time, call, moved, waits=True)
        yield compared(name, f"torch {rule}", measure)


SECTION = Section("verify", 35, _cases)
