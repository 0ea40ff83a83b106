"""Verification of drawn children: the residual chain against the host's and against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from eagle3_viz.acceptance import accept_sample, residual_chain
from eagle3_viz.config import Sampling
from eagle3_viz.sampling import warp
from kernels.verify_buffers import Walk
from kernels.verify_torch import verify_sample_torch
from kernels.verify_triton import verify_sample_triton
from tests.kernels.verify_problems import (
    DEVICE,
    GivenDraws,
    Problem,
    assert_same_bits,
    assert_same_decisions,
    buffers,
    drawn_tree,
    problem,
    walk_of,
)

# numpy, which interprets the kernels, warns of infinities and NaN that are meant here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

FORMS = pytest.mark.parametrize(
    "verify", [verify_sample_torch, verify_sample_triton], ids=["torch", "triton"]
)
Verify = Callable[..., None]


def sample(verify: Verify, case: Problem, ids: torch.Tensor | None = None, **options) -> Walk:
    out = buffers(case)
    verify(*case.arguments, case.given, case.proposal(ids), out, **options)
    return walk_of(out)


def exact_chain(case: Problem, walk: Walk) -> dict[int, tuple[float, float]]:
    """In float64, p when tested and the chance of each child of a node on the path."""
    p, exact = case.logits.double().softmax(-1), {}
    row_of = {node + 1: row for row, node in enumerate(case.tree.expanded.tolist())}
    for node in walk.path:
        children = (case.tree.parent == node).nonzero()[:, 0]
        if len(children):
            drawn = case.tree.token[children]
            tested, chances, _ = residual_chain(p[node], case.q[row_of[node]].double(), drawn)
            values = zip(tested.tolist(), chances.tolist(), strict=True)
            exact |= dict(zip(children.tolist(), values, strict=True))
    return exact


@FORMS
@pytest.mark.parametrize("seed", range(12))
def test_the_sample_walk_decides_as_the_rule_on_the_host(verify: Verify, seed: int) -> None:
    case = problem(3 + seed, 90, seed, dtype=(torch.float32, torch.bfloat16)[seed % 2])
    temperature = (1.0, 0.7)[seed // 2 % 2]
    p = warp(case.logits, Sampling(temperature))
    q = case.q.log().exp()  # as the trees keep it
    verdict = accept_sample(case.tree, p, q, GivenDraws(case.uniforms))
    walk = sample(verify, case, temperature=temperature)
    if verify is verify_sample_torch:
        assert_same_bits(walk, verdict)
    assert_same_decisions(walk, verdict)


@FORMS
@pytest.mark.parametrize("seed", range(6))
def test_tokens_below_the_least_logit_have_no_p_in_the_residual_chain(
    verify: Verify, seed: int
) -> None:
    case = problem(12, 150, 30 + seed, dtype=torch.bfloat16)  # rounded: ties at the threshold
    least = case.logits.float().topk(9, -1).values[:, -1].contiguous()
    p = warp(case.logits, Sampling(0.8, 9))
    verdict = accept_sample(case.tree, p, case.q.log().exp(), GivenDraws(case.uniforms))
    walk = sample(verify, case, temperature=0.8, least=least.to(DEVICE))
    assert_same_decisions(walk, verdict)
    expected = [test.p_tested for test in verdict.tests]
    assert walk.p_tested == pytest.approx(expected, rel=1e-5, abs=1e-6)


@FORMS
@pytest.mark.parametrize("seed", range(6))
def test_p_and_chances_of_drawn_children_against_float64(verify: Verify, seed: int) -> None:
    case = problem(16, 200, 50 + seed, sharpness=1.0)
    walk = sample(verify, case)
    exact = exact_chain(case, walk)
    assert walk.tested
    for child, *found in zip(walk.tested, walk.p_tested, walk.chances, strict=True):
        assert found == pytest.approx(exact[child], rel=1e-5, abs=1e-6)  # p - q cancels digits


@FORMS
@pytest.mark.parametrize("seed", range(4))
def test_a_draft_of_another_vocabulary_is_mapped(verify: Verify, seed: int) -> None:
    drafted = torch.rand(150, generator=torch.Generator().manual_seed(seed)) < 0.4
    case = problem(8, 150, 70 + seed, drafted=drafted)
    ids = drafted.nonzero()[:, 0]
    verdict = accept_sample(
        case.tree, warp(case.logits, Sampling(1.0)), case.q, GivenDraws(case.uniforms)
    )
    assert_same_decisions(sample(verify, case, ids), verdict)
    assert sample(verify, case, ids) == sample(verify, case)


@FORMS
def test_the_residual_chain_by_hand(verify: Verify) -> None:
    """p = (.5 .3 .2 0), q = (.2 .4 .3 .1), children 1 and 2: chances .75 and 0, then token 0."""
    p, q = torch.tensor([0.5, 0.3, 0.2, 0.0]), torch.tensor([[0.2, 0.4, 0.3, 0.1]])
    tree = drawn_tree([0, 1, 2], [-1, 0, 0])
    uniforms = torch.tensor([0.76, 0.0, 0.99], dtype=torch.float64)
    walk = sample(verify, Problem(tree, p.log().repeat(3, 1), uniforms, q))
    assert (walk.path, walk.tokens, walk.tested) == ((0,), (0,), (1, 2))
    assert walk.p_tested == pytest.approx((0.3, 0.0), abs=1e-6)
    assert walk.chances == pytest.approx((0.75, 0.0), abs=1e-6)


@FORMS
def test_a_child_stays_below_its_chance_and_not_at_it(verify: Verify) -> None:
    p, q = torch.tensor([0.25, 0.75]), torch.tensor([[0.5, 0.5]])
    tree = drawn_tree([0, 0], [-1, 0])
    for u, path in ((0.5 - 1e-3, (0, 1)), (0.5 + 1e-3, (0,))):
        uniforms = torch.tensor([u, 0.5], dtype=torch.float64)
        walk = sample(verify, Problem(tree, p.log().repeat(2, 1), uniforms, q))
        assert walk.path == path


@FORMS
def test_where_p_equals_q_a_refusal_leaves_p(verify: Verify) -> None:
    """By rounding alone: no uniform is 1, and nothing less refuses a chance of 1."""
    q = torch.tensor([[0.0, 1.0, 0.0]])
    tree = drawn_tree([0, 1], [-1, 0])
    uniforms = torch.tensor([1.0, 0.9], dtype=torch.float64)
    walk = sample(verify, Problem(tree, q.log().repeat(2, 1), uniforms, q))
    assert (walk.path, walk.tokens, walk.chances) == ((0,), (1,), (1.0,))


@FORMS
def test_where_p_equals_q_the_next_child_is_tested_with_p(verify: Verify) -> None:
    """p = q = (0 .5 .5), child 1 refused by rounding: nothing is left to renormalize."""
    q = torch.tensor([[0.0, 0.5, 0.5]])
    tree = drawn_tree([0, 1, 2], [-1, 0, 0])
    uniforms = torch.tensor([1.0, 0.4, 0.9], dtype=torch.float64)
    walk = sample(verify, Problem(tree, q.log().repeat(3, 1), uniforms, q))
    assert (walk.path, walk.tested) == ((0, 2), (1, 2))
    assert walk.chances == pytest.approx((1.0, 0.5), rel=1e-5)


@FORMS
def test_where_nothing_is_left_of_q_the_next_child_stays(verify: Verify) -> None:
    """q = (0 1 0) by underflow, p = (0 .5 .5): without child 1, p / q of child 2 is 1 / 0."""
    p, q = torch.tensor([0.0, 0.5, 0.5]), torch.tensor([[0.0, 1.0, 0.0]])
    tree = drawn_tree([0, 1, 2], [-1, 0, 0])
    uniforms = torch.tensor([0.9, 0.9, 0.1], dtype=torch.float64)
    walk = sample(verify, Problem(tree, p.log().repeat(3, 1), uniforms, q))
    assert (walk.path, walk.tested) == ((0, 2), (1, 2))
    assert walk.chances == pytest.approx((0.5, 1.0), abs=1e-6)


@FORMS
def test_disjoint_supports_refuse_every_child_and_draw_from_p(verify: Verify) -> None:
    p = torch.tensor([0.5, 0.5, 0.0, 0.0])
    q = torch.tensor([[0.0, 0.0, 0.4, 0.6]])
    tree = drawn_tree([0, 2, 3], [-1, 0, 0])
    for u, token in ((0.25, 0), (0.75, 1)):
        uniforms = torch.tensor([0.0, 0.0, u], dtype=torch.float64)
        walk = sample(verify, Problem(tree, p.log().repeat(3, 1), uniforms, q))
        assert (walk.tokens, walk.chances) == ((token,), (0.0, 0.0))


@FORMS
def test_a_lone_root_is_drawn_from_p(verify: Verify) -> None:
    case = problem(1, 120, 3)
    walk = sample(verify, replace(case, q=torch.zeros(0, 120)))
    reached = case.logits[0].double().softmax(-1).cumsum(0)
    assert walk.tokens == (int(torch.searchsorted(reached, case.uniforms[0], right=True)),)


@FORMS
def test_misfits_of_the_proposal_are_named(verify: Verify) -> None:
    case = problem(5, 60, 4)
    out, proposal = buffers(case), case.proposal()

    def refused(match: str, **changed: object) -> None:
        with pytest.raises(ValueError, match=match):
            verify(*case.arguments, case.given, replace(proposal, **changed), out)

    refused("log_q must be float32", log_q=proposal.log_q.double())
    refused("log_q must be float32", log_q=proposal.log_q[0])
    refused("row must be contiguous int64", row=proposal.row[:4])
    refused("give draft_id", log_q=proposal.log_q[:, :50])
    ids = torch.zeros(120, dtype=torch.int64, device=DEVICE)
    refused(r"draft_id must be contiguous int64 \[60\]", draft_id=ids[:59])
    refused(r"draft_id must be contiguous int64 \[60\]", draft_id=ids[::2])


@pytest.mark.exhaustive
@FORMS
@pytest.mark.parametrize("seed", range(100))
def test_many_walks_decide_as_the_host(verify: Verify, seed: int) -> None:
    case = problem(1 + seed % 30, 41 + 7 * (seed % 50), 1000 + seed, sharpness=0.5 + seed % 4)
    p = warp(case.logits, Sampling(1.0))
    verdict = accept_sample(case.tree, p, case.q.log().exp(), GivenDraws(case.uniforms))
    assert_same_decisions(sample(verify, case), verdict)
