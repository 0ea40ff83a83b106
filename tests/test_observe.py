"""What is observed of logits whose differences another number format loses."""

from __future__ import annotations

import torch

from eagle3_viz.acceptance import Decision, accept_greedy
from eagle3_viz.config import DecodeConfig
from eagle3_viz.recording import observe
from eagle3_viz.sampling import arg_max
from tests.tiny_models import tree_of


def test_the_arg_max_shown_is_that_of_the_logits_when_log_p_rounds_to_a_tie() -> None:
    logits = torch.full((2, 40_000), 0.5)
    logits[:, 7] = torch.nextafter(torch.tensor(0.5), torch.tensor(1.0))
    log_p = logits.log_softmax(-1)
    assert log_p[0].argmax() != 7  # the tie that the logits do not have
    tree = tree_of([1, 7], [-1, 0])
    best = arg_max(logits)
    decision = Decision(accept_greedy(tree, best), best)
    assert decision.verdict.path == (0, 1)
    seen = observe(DecodeConfig(record="full"), tree, logits, decision, None)
    assert seen.distributions[0].expected_acceptance == 1.0
    assert seen.distributions[0].p.token.tolist() == [7]
    assert seen.nodes.p_rank.tolist() == [-1, 0]


def test_ranks_of_a_float64_target_tell_apart_what_float32_cannot() -> None:
    logits = torch.zeros(3, 5, dtype=torch.float64)
    logits[:, 3], logits[:, 1] = 1.0 + 1e-12, 1.0
    assert torch.equal(logits.float()[:, 3], logits.float()[:, 1])
    tree, best = tree_of([0, 1, 3], [-1, 0, 0]), arg_max(logits)
    seen = observe(
        DecodeConfig(record="outcomes"),
        tree,
        logits,
        Decision(accept_greedy(tree, best), best),
        None,
    )
    assert seen.nodes.p_rank.tolist() == [-1, 1, 0]
