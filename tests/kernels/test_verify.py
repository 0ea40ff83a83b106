"""Verification beside the logits against the rules on the host, and against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from eagle3_viz.acceptance import accept_greedy, accept_topk, residual_topk
from eagle3_viz.config import Sampling
from eagle3_viz.sampling import arg_max, warp
from kernels.verify_buffers import VerifyBuffers, Walk
from kernels.verify_torch import score_nodes_torch, verify_greedy_torch, verify_topk_torch
from kernels.verify_triton import (
    _walk,
    score_nodes_triton,
    verify_greedy_triton,
    verify_sample_triton,
    verify_topk_triton,
)
from tests.kernels.verify_problems import (
    CHUNK,
    DEVICE,
    GivenDraws,
    Problem,
    assert_same_bits,
    assert_same_decisions,
    buffers,
    problem,
    walk_of,
)
from tests.tiny_models import tree_of

# numpy, which interprets the kernels, warns of infinities and NaN that are meant here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")
IDS = ["torch", "triton"]
SCORE = pytest.mark.parametrize("score", [score_nodes_torch, score_nodes_triton], ids=IDS)
GREEDY = pytest.mark.parametrize("verify", [verify_greedy_torch, verify_greedy_triton], ids=IDS)
TOPK = pytest.mark.parametrize("verify", [verify_topk_torch, verify_topk_triton], ids=IDS)
Verify = Callable[..., None]
SCORES = {verify_topk_torch: score_nodes_torch, verify_topk_triton: score_nodes_triton}

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SIZES = [(1, 1), (1, 64), (1, 300), (2, 65), (9, 130), (17, 63), (23, 260)]


def topk(verify: Verify, case: Problem, **options) -> Walk:
    out = buffers(case)
    verify(*case.arguments, case.given, out, **options)
    return walk_of(out)


def scored(score: Verify, case: Problem, chunk: int = CHUNK, **options) -> VerifyBuffers:
    out = buffers(case, chunk)
    score(*case.arguments, out, **options)
    return out


def exact_p(case: Problem, temperature: float = 1.0) -> torch.Tensor:
    """p [T, V] in float64 of the logits as they are rounded."""
    return (case.logits.double() / temperature).softmax(-1)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found.cpu().double() - expected) / expected.abs().clamp(min=1e-30)).abs().max())


@SCORE
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_log_sum_exp_and_p_of_every_node_in_every_dtype(
    score: Verify, dtype: torch.dtype, temperature: float
) -> None:
    case = problem(20, 300, 1, dtype=dtype)
    out = scored(score, case, temperature=temperature)
    p_of = exact_p(case, temperature)[case.tree.parent[1:], case.tree.token[1:]]
    log_z = (case.logits.double() / temperature).logsumexp(-1)
    assert relative_error(out.log_z, log_z) < 1e-5
    assert relative_error(out.p[1:], p_of) < 1e-5
    assert bool(out.p[0].isnan())
    assert out.best.tolist() == arg_max(case.logits).tolist()


@SCORE
@pytest.mark.parametrize(("nodes", "vocabulary"), SIZES)
@pytest.mark.parametrize("chunk", [16, 4096])
def test_any_shape_whether_or_not_chunks_divide_it(
    score: Verify, nodes: int, vocabulary: int, chunk: int
) -> None:
    case = problem(nodes, vocabulary, 2)
    out = scored(score, case, chunk)
    assert relative_error(out.log_z, case.logits.double().logsumexp(-1)) < 1e-5
    assert out.best.tolist() == arg_max(case.logits).tolist()


@TOPK
def test_any_strides(verify: Verify) -> None:
    case = problem(9, 200, 4)
    logits, token, parent = case.arguments
    expected = topk(verify, case)
    padded = torch.full((9, 230), float("nan"), device=DEVICE)
    padded[:, :200] = logits
    for strided in (padded[:, :200], logits.T.contiguous().T, logits.repeat_interleave(2, 0)[::2]):
        out = buffers(case)
        verify(strided, token, parent, case.given, out)
        assert walk_of(out) == expected


@TOPK
@pytest.mark.parametrize("seed", range(12))
def test_the_topk_walk_decides_as_the_rule_on_the_host(verify: Verify, seed: int) -> None:
    case = problem(3 + 2 * seed, 90, seed, dtype=(torch.float32, torch.bfloat16)[seed % 2])
    temperature = (1.0, 0.7)[seed // 2 % 2]
    p = warp(case.logits, Sampling(temperature))
    verdict = accept_topk(case.tree, p, GivenDraws(case.uniforms))
    walk = topk(verify, case, temperature=temperature)
    if verify is verify_topk_torch:
        assert_same_bits(walk, verdict)
    assert_same_decisions(walk, verdict)
    expected = [test.p_tested for test in verdict.tests]
    assert walk.p_tested == walk.chances == pytest.approx(expected, rel=1e-5)


def test_given_the_same_p_the_walk_is_the_hosts_to_the_last_bit() -> None:
    """Four children a node, and any p in float32 that they may have."""
    tests, accepted, nodes = 0, 0, 41
    parents = [-1, *((node - 1) // 4 for node in range(1, nodes))]
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        tree = tree_of([node % 4 for node in range(nodes)], parents)
        p = torch.rand(nodes, 5, generator=generator) ** 2
        p = p / p.sum(-1, keepdim=True)
        uniforms = torch.rand(nodes, dtype=torch.float64, generator=generator)
        case = Problem(tree, p, uniforms, torch.zeros(10, 5))
        out = buffers(case)
        out.p[1:] = p[tree.parent[1:], tree.token[1:]].to(DEVICE)
        out.scratch.total.fill_(1.0)
        _, token, parent = case.arguments
        _walk(token, parent, case.given, out, drawn=False)
        verdict = accept_topk(tree, p, GivenDraws(uniforms))
        out.tokens[len(verdict.path) - 1] = verdict.token  # the walk leaves it to the draw
        assert_same_bits(walk_of(out), verdict)
        tests, accepted = tests + len(verdict.tests), accepted + len(verdict.path) - 1
    assert tests > 150
    assert accepted > 40


@TOPK
@pytest.mark.parametrize("seed", range(6))
def test_the_decided_token_is_where_the_residual_reaches_its_uniform(
    verify: Verify, seed: int
) -> None:
    case = problem(14, 600, 40 + seed)
    walk = topk(verify, case)
    stop = walk.path[-1]
    refused = case.tree.token[case.tree.parent == stop].tolist()
    reached = residual_topk(exact_p(case)[stop], refused).cumsum(0)
    goal = float(case.uniforms[len(walk.tested)] * reached[-1])
    token = walk.tokens[-1]
    assert token not in refused
    below = float(reached[token - 1]) if token else 0.0
    assert below - 1e-6 <= goal <= float(reached[token]) + 1e-6


@TOPK
@pytest.mark.parametrize("u", [0.0, 0.5, 1.0 - 2**-53])
def test_no_uniform_draws_a_token_of_weight_zero(verify: Verify, u: float) -> None:
    """Only tokens 70 and 130 have p, in two chunks of four; 70 is a child that is refused."""
    logits = torch.full((2, 200), float("-inf"))
    logits[:, 70], logits[:, 130] = 1.0, -1.0
    tree = tree_of([0, 70], [-1, 0])
    uniforms = torch.tensor([1.0 - 2**-53, u], dtype=torch.float64)
    walk = topk(verify, Problem(tree, logits, uniforms, torch.zeros(1, 200)))
    assert (walk.path, walk.tokens) == ((0,), (130,))


@TOPK
@pytest.mark.parametrize("temperature", [1e-30, 1e-40])
def test_a_temperature_near_zero_leaves_the_arg_max(verify: Verify, temperature: float) -> None:
    """1 / temperature is no float32: nothing may become infinity times zero."""
    case = problem(6, 200, 12)
    greedy = accept_greedy(case.tree, arg_max(case.logits))
    walk = topk(verify, case, temperature=temperature)
    assert (walk.path, walk.tokens, walk.broken) == (greedy.path, greedy.tokens, False)


@TOPK
def test_p_with_one_token_accepts_it_and_draws_it(verify: Verify) -> None:
    logits = torch.full((3, 150), float("-inf"))
    logits[0, 99], logits[1, 3], logits[2, 149] = 5.0, 5.0, -5.0
    tree = tree_of([0, 98, 99], [-1, 0, 0])
    case = Problem(tree, logits, torch.full((3,), 0.999, dtype=torch.float64), torch.zeros(1, 150))
    walk = topk(verify, case)
    assert (walk.path, walk.tokens) == ((0, 2), (99, 149))
    assert (walk.tested, walk.p_tested) == ((1, 2), (0.0, 1.0))


@TOPK
def test_where_rounding_leaves_nothing_p_itself_is_drawn_from(verify: Verify) -> None:
    """A child of p = 1 whose test fails all the same: chance by rounding of its siblings."""
    logits = torch.full((2, 80), float("-inf"))
    logits[:, 40] = 0.0
    tree = tree_of([0, 40], [-1, 0])
    beyond = torch.tensor([1.0, 0.3], dtype=torch.float64)  # no uniform is 1: refuses p = 1
    walk = topk(verify, Problem(tree, logits, beyond, torch.zeros(1, 80)))
    assert walk.tokens == (40,)


@TOPK
def test_where_rounding_leaves_nothing_no_sibling_stays(verify: Verify) -> None:
    logits = torch.full((3, 80), float("-inf"))
    logits[:, 40] = 0.0
    tree = tree_of([0, 40, 41], [-1, 0, 0])
    beyond = torch.tensor([1.0, 0.5, 0.3], dtype=torch.float64)  # no uniform is 1: refuses p = 1
    walk = topk(verify, Problem(tree, logits, beyond, torch.zeros(1, 80)))
    assert (walk.path, walk.tested, walk.chances) == ((0,), (1, 2), (1.0, 0.0))


@TOPK
def test_equal_logits_have_equal_p(verify: Verify) -> None:
    tree = tree_of([0, 7, 250, 128], [-1, 0, 0, 0])
    uniforms = torch.tensor([0.5, 0.5, 0.5, 0.25], dtype=torch.float64)
    walk = topk(verify, Problem(tree, torch.zeros(4, 256), uniforms, torch.zeros(1, 256)))
    assert walk.p_tested == pytest.approx([1 / 256, 1 / 255, 1 / 254])
    assert walk.tokens == (64,)  # a quarter of 253 tokens lie before it: 63.25, less token 7


@TOPK
@pytest.mark.parametrize("top_k", [1, 5, 40])
def test_tokens_below_the_least_logit_have_no_p(verify: Verify, top_k: int) -> None:
    case = problem(11, 220, 6, dtype=torch.bfloat16)  # rounded: ties at the threshold stay
    least = case.logits.float().topk(top_k, -1).values[:, -1].contiguous()
    p = warp(case.logits, Sampling(0.8, top_k))
    verdict = accept_topk(case.tree, p, GivenDraws(case.uniforms))
    walk = topk(verify, case, temperature=0.8, least=least.to(DEVICE))
    assert_same_decisions(walk, verdict)
    score = SCORES[verify]
    out = scored(score, case, temperature=0.8, least=least.to(DEVICE))
    expected = p[case.tree.parent[1:], case.tree.token[1:]]
    assert torch.allclose(out.p[1:].cpu(), expected, rtol=1e-5, atol=0.0)
    kept = case.logits.double().masked_fill(case.logits < least[:, None], float("-inf"))
    assert relative_error(out.log_z, (kept / 0.8).logsumexp(-1)) < 1e-5


@SCORE
def test_rows_of_one_and_of_equal_logits(score: Verify) -> None:
    """One finite logit, all equal, the largest twice in different chunks."""
    logits = torch.full((3, 200), float("-inf"))
    logits[0, 150] = 5.0
    logits[1] = 0.0
    logits[2], logits[2, [70, 180]] = 1.0, 2.0
    case = Problem(tree_of([0, 150, 3], [-1, 0, 1]), logits, torch.zeros(3), torch.zeros(2, 200))
    out = scored(score, case)
    assert out.best.tolist() == [150, 0, 70]
    assert out.p[1:].tolist() == pytest.approx([1.0, 1 / 200])
    expected = [5.0, math.log(200), math.log(198 * math.e + 2 * math.e**2)]
    assert out.log_z.tolist() == pytest.approx(expected)


@SCORE
def test_rows_that_have_no_distribution_say_so(score: Verify) -> None:
    logits = torch.zeros(4, 100)
    logits[0, 70], logits[1, 3], logits[2] = float("nan"), float("inf"), float("-inf")
    case = Problem(
        tree_of([0, 1, 2, 3], [-1, 0, 1, 2]), logits, torch.zeros(4), torch.zeros(3, 100)
    )
    out = scored(score, case)
    assert out.log_z.isnan().tolist() == [True, True, True, False]
    assert bool(out.p.isnan().all())
    assert bool(((out.best >= 0) & (out.best < 100)).all())


@GREEDY
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_greedy_walk_is_the_hosts(verify: Verify, seed: int, dtype: torch.dtype) -> None:
    case = problem(4 + 3 * seed, 40, seed, dtype=dtype, sharpness=3.0)
    out = buffers(case)
    verify(*case.arguments, out)
    verdict = accept_greedy(case.tree, arg_max(case.logits))
    assert_same_bits(walk_of(out), verdict)


@GREEDY
def test_greedy_breaks_ties_by_the_lowest_token_across_chunks(verify: Verify) -> None:
    logits = torch.zeros(2, 300)
    logits[0, [100, 199, 299]] = 2.0
    case = Problem(tree_of([0, 199], [-1, 0]), logits, torch.zeros(2), torch.zeros(1, 300))
    out = buffers(case)
    verify(*case.arguments, out)
    walk = walk_of(out)
    assert (walk.path, walk.tokens, walk.chances) == ((0,), (100,), (0.0,))


@TOPK
def test_what_fills_a_smaller_tree_up_is_never_tested(verify: Verify) -> None:
    case = problem(9, 90, 7)
    expected = topk(verify, case)
    logits, token, parent = case.arguments
    filler = torch.full((4,), -1, device=DEVICE)
    wider = torch.cat([logits, torch.full((4, 90), float("nan"), device=DEVICE)])
    filled = replace(case, logits=wider)
    out = buffers(filled)
    uniforms = torch.cat([case.given, case.given[:4]])
    verify(wider, torch.cat([token, filler]), torch.cat([parent, filler]), uniforms, out)
    assert walk_of(out) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("node", [0, 1, 2])
@pytest.mark.parametrize("verify", [verify_greedy_torch, verify_greedy_triton], ids=IDS)
def test_a_broken_row_is_noticed_where_the_walk_passed(
    verify: Verify, node: int, value: float
) -> None:
    logits = torch.zeros(3, 100)
    logits[0, 5] = 1.0  # node 1 is accepted, node 2 refused
    logits[node, 77 if value != value else 5] = value
    case = Problem(tree_of([0, 5, 6], [-1, 0, 0]), logits, torch.zeros(3), torch.zeros(1, 100))
    out = buffers(case)
    verify(*case.arguments, out)
    assert walk_of(out).broken == (node < 2)


@TOPK
def test_a_row_without_a_finite_logit_is_broken(verify: Verify) -> None:
    case = problem(1, 100, 8)
    walk = topk(verify, replace(case, logits=torch.full((1, 100), float("-inf"))))
    assert walk.broken
    assert 0 <= walk.tokens[0] < 100


@TOPK
def test_misfits_are_named(verify: Verify) -> None:
    case = problem(4, 100, 9)
    logits, token, parent = case.arguments
    out = buffers(case)
    with pytest.raises(ValueError, match="buffers are for 4 nodes"):
        verify(logits[:3], token[:3], parent[:3], case.given, out)
    with pytest.raises(ValueError, match="2 chunks of 64"):
        verify(logits.repeat(1, 2), token, parent, case.given, out)
    with pytest.raises(ValueError, match="token must be contiguous int64"):
        verify(logits, token.int(), parent, case.given, out)
    with pytest.raises(ValueError, match="uniforms must be contiguous float64"):
        verify(logits, token, parent, case.given.float(), out)
    with pytest.raises(ValueError, match="at least 4 entries"):
        verify(logits, token, parent, case.given[:3], out)
    with pytest.raises(ValueError, match="least must be contiguous float32"):
        verify(logits, token, parent, case.given, out, least=torch.zeros(8, device=DEVICE)[::2])
    with pytest.raises(ValueError, match="power of two"):
        buffers(case, 48)


def test_float64_logits_are_refused_by_triton_and_not_rounded() -> None:
    case = problem(4, 100, 9, dtype=torch.float64)
    out = buffers(case)
    with pytest.raises(TypeError, match=r"found torch\.float64: use verify_topk_torch"):
        verify_topk_triton(*case.arguments, case.given, out)
    with pytest.raises(TypeError, match="use verify_greedy_torch"):
        verify_greedy_triton(*case.arguments, out)
    with pytest.raises(TypeError, match="use verify_sample_torch"):
        verify_sample_triton(*case.arguments, case.given, case.proposal(), out)
    with pytest.raises(TypeError, match="use score_nodes_torch"):
        score_nodes_triton(*case.arguments, out)
    verify_topk_torch(*case.arguments, case.given, out)


def test_uniforms_drawn_at_once_are_those_drawn_one_by_one() -> None:
    """So that a cycle's uniforms can be laid out beforehand without changing what a seed draws."""
    one, many = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    single = [float(torch.rand((), dtype=torch.float64, generator=one)) for _ in range(200)]
    laid_out = [torch.rand(n, dtype=torch.float64, generator=many) for n in (1, 3, 60, 136)]
    assert torch.cat(laid_out).tolist() == single


@pytest.mark.exhaustive
@TOPK
@pytest.mark.parametrize("seed", range(150))
def test_many_walks_decide_as_the_host(verify: Verify, seed: int) -> None:
    case = problem(1 + seed % 40, 41 + 7 * (seed % 60), 1000 + seed, sharpness=0.5 + seed % 5)
    verdict = accept_topk(case.tree, warp(case.logits, Sampling(1.0)), GivenDraws(case.uniforms))
    assert_same_decisions(topk(verify, case), verdict)
