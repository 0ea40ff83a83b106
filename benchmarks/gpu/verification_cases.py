"""Random trees to verify: logits, tokens drawn from a draft's q, uniforms."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.verify_buffers import Proposal

SUPPORT = 512  # tokens a row that have any probability: no token's share is lost in rounding
KEPT = 50  # of which a threshold leaves so many


@dataclass(frozen=True)
class Problem:
    """logits [T, V]; token and parent int64 [T]; uniforms float64 [T]; least float32 [T]."""

    logits: torch.Tensor
    token: torch.Tensor
    parent: torch.Tensor
    uniforms: torch.Tensor
    least: torch.Tensor
    proposal: Proposal

    @property
    def tree(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What every rule takes first."""
        return self.logits, self.token, self.parent


def problem(
    nodes: int, vocabulary: int, seed: int, dtype: torch.dtype, device: torch.device
) -> Problem:
    """Children are drawn without replacement from a q near p, over the even tokens."""
    generator = torch.Generator().manual_seed(seed)
    logits = _rows(nodes, vocabulary, generator).to(dtype)
    parents = [-1, *(_parent(node, generator) for node in range(1, nodes))]
    token, log_q = _drawn(logits, parents, generator)
    ids = torch.arange(vocabulary)
    proposal = Proposal(
        log_q=log_q.to(device),
        row=torch.arange(nodes, device=device),
        draft_id=torch.where(ids % 2 == 0, ids // 2, -1).to(device),
        most_children=max(parents.count(node) for node in range(nodes)),
    )
    least = logits.float().topk(min(KEPT, vocabulary), -1).values[:, -1].contiguous()
    uniforms = torch.rand(nodes, dtype=torch.float64, generator=generator)
    return Problem(
        logits=logits.to(device),
        token=token.to(device),
        parent=torch.tensor(parents, device=device),
        uniforms=uniforms.to(device),
        least=least.to(device),
        proposal=proposal,
    )


def _rows(nodes: int, vocabulary: int, generator: torch.Generator) -> torch.Tensor:
    """Logits [T, V] of which few have any probability."""
    logits = 2.0 * torch.randn(nodes, vocabulary, generator=generator)
    within = torch.rand(nodes, vocabulary, generator=generator) < SUPPORT / vocabulary
    return logits.masked_fill(~within, float("-inf"))


def _parent(node: int, generator: torch.Generator) -> int:
    """One of the six nodes before: deep and bushy trees mixed."""
    return int(torch.randint(max(0, node - 6), node, (), generator=generator))


def _drawn(
    logits: torch.Tensor,  # [T, V]
    parents: list[int],
    generator: torch.Generator,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens int64 [T] of all nodes, and log q float32 [T, (V + 1) // 2] after each."""
    token = torch.zeros(len(parents), dtype=torch.int64)
    log_q = torch.full((len(parents), (logits.shape[1] + 1) // 2), float("-inf"))
    for parent in sorted(set(parents) - {-1}):
        guess = logits[parent, ::2].float()
        guess = guess + 0.7 * torch.randn(guess.shape, generator=generator)
        log_q[parent] = guess.log_softmax(-1)
        children = [node for node, above in enumerate(parents) if above == parent]
        drawn = torch.multinomial(log_q[parent].exp(), len(children), generator=generator)
        token[children] = 2 * drawn
    return token, log_q
