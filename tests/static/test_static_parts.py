"""What the host and the device tell each other, and what filters leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eagle3_viz.acceptance import accept_topk
from eagle3_viz.config import Sampling
from eagle3_viz.sampling import Draws, warp
from eagle3_viz.static.mailbox import Inbox, Outbox
from eagle3_viz.static.placed import bucket_of
from eagle3_viz.static.rules import ProposalBuffers, least_kept, verdict_of
from eagle3_viz.static.tree_buffers import TreeBuffers, nodes_for
from eagle3_viz.tree import root_only
from kernels.ancestor_bits import unpack_visible
from kernels.verify import verify_topk
from kernels.verify_buffers import VerifyBuffers, read_walk
from tests.tiny_models import tree_of

CPU = torch.device("cpu")
TREE = tree_of([4, 1, 2, 3, 0], [-1, 0, 0, 1, 1])


def test_one_copy_tells_the_device_everything() -> None:
    inbox = Inbox(4, CPU)
    inbox.send(length=20, root=7, path=(0, 2, 3), tokens=(5, 6, 7), draws=(0.25, 0.5))
    assert [int(n) for n in (inbox.length, inbox.before, inbox.last, inbox.root)] == [20, 17, 2, 7]
    assert inbox.path.tolist() == [0, 2, 3, 0]
    assert inbox.tokens.tolist() == [5, 6, 7, 0]
    assert inbox.uniforms.tolist() == [0.25, 0.5, 0.0, 0.0]
    inbox.send(length=22, root=8, path=(0,), tokens=(8,))
    assert inbox.path.tolist() == [0, 0, 0, 0]
    assert [int(inbox.before), int(inbox.last)] == [21, 0]


def test_the_host_sees_what_was_fetched_last() -> None:
    outbox = Outbox(3, CPU)
    outbox.device.copy_(torch.tensor([1, 2, 3]))
    assert outbox.numbers.tolist() == [0, 0, 0]
    outbox.fetch()
    assert outbox.host.tolist() == outbox.numbers.tolist() == [1, 2, 3]


@pytest.mark.parametrize(("rows", "expected"), [(1, 512), (512, 512), (513, 1024), (3000, 3500)])
def test_a_bucket_is_a_power_of_two_within_the_cache(rows: int, expected: int) -> None:
    assert bucket_of(rows, 3500) == expected


def test_a_smaller_tree_is_filled_up_with_nodes_that_nobody_tests() -> None:
    buffers = TreeBuffers(nodes_for(TREE), CPU)
    assert len(buffers) == 8
    buffers.take(tree_of(list(range(8)), [-1, *range(7)]))  # leaves something behind
    buffers.take(TREE)
    assert buffers.token[:5].tolist() == TREE.token.tolist()
    assert buffers.parent.tolist() == [*TREE.parent.tolist(), -1, -1, -1]
    visible = unpack_visible(buffers.words[0], 8)
    assert torch.equal(visible[:5, :5], TREE.visible)
    assert not visible[:5, 5:].any()
    assert nodes_for(root_only(3, CPU)) == 1


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0, top_k=5),
        Sampling(0.6, top_p=0.8),
        Sampling(1.7, top_k=9, top_p=0.7),
        Sampling(1.0, top_p=0.999999),
        Sampling(1.0, top_k=3, top_p=1e-6),
    ],
)
def test_the_least_logit_leaves_what_the_filters_leave(sampling: Sampling) -> None:
    logits = 2 * torch.randn(40, 33, generator=torch.Generator().manual_seed(5))
    least = least_kept(logits, sampling)
    assert least is not None
    assert torch.equal(logits >= least[:, None], warp(logits, sampling) > 0)


def test_without_filters_everything_stays() -> None:
    logits = torch.randn(2, 33)
    assert least_kept(logits, Sampling(0.7)) is None
    assert least_kept(logits, Sampling(0.7, top_k=33)) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_is_the_verdict_that_the_rule_gives(seed: int) -> None:
    logits = 2 * torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
    draws = Draws(seed)
    uniforms = draws.ahead(5)
    out = VerifyBuffers.allocate(5, 6, CPU)
    verify_topk(logits, TREE.token, TREE.parent, torch.tensor(uniforms, dtype=torch.float64), out)
    walk = read_walk(out.result)
    expected = accept_topk(TREE, warp(logits, Sampling(1.0)), draws)
    found = verdict_of(walk, uniforms[: len(walk.tested)])
    assert (found.path, found.tokens, found.origin) == (
        expected.path,
        expected.tokens,
        expected.origin,
    )
    for mine, other in zip(found.tests, expected.tests, strict=True):
        assert vars(mine) == pytest.approx(vars(other), rel=1e-5)


def test_draws_seen_ahead_are_the_ones_drawn_next() -> None:
    plain, peeking = Draws(3), Draws(3)
    expected = [plain.uniform() for _ in range(6)]
    assert peeking.ahead(4) == expected[:4]
    assert [peeking.uniform() for _ in range(2)] == expected[:2]
    assert peeking.take() == tuple(expected[:2])
    assert peeking.ahead(3) == expected[2:5]
    assert [peeking.uniform() for _ in range(4)] == expected[2:]


def test_a_drawn_tree_knows_its_rows_of_q() -> None:
    ids = torch.tensor([1, 4, 5])
    buffers = ProposalBuffers(8, ids, 7, most_children=2)
    assert buffers.proposal.draft_id is not None
    assert buffers.proposal.draft_id.tolist() == [-1, 0, -1, -1, 1, 2, -1]
    q = torch.randn(2, 3).log_softmax(-1)
    buffers.take(replace(TREE, expanded=torch.tensor([-1, 1]), q_logprobs=(q[:1], q[1:])))
    assert buffers.proposal.row[:5].tolist() == [0, -1, 1, -1, -1]
    assert torch.equal(buffers.proposal.log_q[:2], q)
