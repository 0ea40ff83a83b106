"""`kernels.verify` in PyTorch's operations: one row of probabilities at a time.

In every operation and rounding as `eagle3_viz.acceptance` decides, on p in float32 (float64 for
float64 logits). Tests and tokens are decided on the host, so that a GPU would be waited for.
"""

from __future__ import annotations

from typing import Protocol

import torch

from kernels.verify_buffers import (
    HEADER,
    ROWS,
    Proposal,
    VerifyBuffers,
    refuse_drawing,
    refuse_misfits,
    refuse_proposal,
)


def verify_greedy_torch(
    logits: torch.Tensor,  # [T, V], floating
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    out: VerifyBuffers,
) -> None:
    """As `kernels.verify.verify_greedy`."""
    refuse_misfits(logits, token, parent, out)
    top, best = logits.float().max(-1)  # bfloat16's own is ten times slower on a CPU
    out.best.copy_(best)
    trail = _Trail(token.tolist())
    choices, finite = best.tolist(), top.isfinite().tolist()
    for node, above in enumerate(parent.tolist()):
        if node and above == trail.node:
            hit = trail.tokens[node] == choices[above]
            trail.test(node, float(hit), float(hit), hit)
    trail.write(choices[trail.node], finite, out)


def verify_topk_torch(
    logits: torch.Tensor,  # [T, V], floating
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    uniforms: torch.Tensor,  # float64 [at least T]
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """As `kernels.verify.verify_topk`."""
    refuse_misfits(logits, token, parent, out)
    refuse_drawing(uniforms, least, len(token))
    _descend(logits, token, parent, uniforms, _Chosen(token), out, temperature, least)


def verify_sample_torch(
    logits: torch.Tensor,  # [T, V], floating
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    uniforms: torch.Tensor,  # float64 [at least T]
    proposal: Proposal,
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """As `kernels.verify.verify_sample`."""
    refuse_misfits(logits, token, parent, out)
    refuse_drawing(uniforms, least, len(token))
    refuse_proposal(proposal, *logits.shape)
    _descend(logits, token, parent, uniforms, _Drawn(token, proposal), out, temperature, least)


class _Tests(Protocol):
    """A rule at the node where the walk stands."""

    def enter(self, node: int, p: torch.Tensor, children: list[int]) -> None:
        """The walk has come to `node`: p [V] after it, and its children."""

    def test(self, child: int) -> tuple[float, float]:
        """p of the child when tested, and its chance to stay; the child before it was refused."""

    def left(self) -> torch.Tensor:
        """What is left of p [V], not normalized, after every child was refused."""


class _Chosen:
    """MATH.md 1.2: each child is a point mass."""

    def __init__(self, token: torch.Tensor) -> None:
        self._token = token

    def enter(self, node: int, p: torch.Tensor, children: list[int]) -> None:
        self._p, self._children, self._mass = p, children, 1.0
        self._p_of = dict(zip(children, p[self._token[children]].tolist(), strict=True))

    def test(self, child: int) -> tuple[float, float]:
        chance = min(1.0, self._p_of[child] / self._mass) if self._mass > 0.0 else 0.0
        self._mass -= self._p_of[child]
        return chance, chance

    def left(self) -> torch.Tensor:
        left = self._p.clone()
        left[self._token[self._children]] = 0.0
        return torch.where(left.sum() > 0, left, self._p)  # nothing is left by rounding alone


class _Drawn:
    """MATH.md 1.3: recursive rejection."""

    def __init__(self, token: torch.Tensor, proposal: Proposal) -> None:
        self._token, self._proposal = token, proposal

    def enter(self, node: int, p: torch.Tensor, children: list[int]) -> None:
        self._left, self._tests = p, {}
        if not children:
            return
        q = self._proposed(node)
        for child, own in zip(children, self._token[children].split(1), strict=True):
            chance = (self._left[own] / q[own]).clamp(max=1.0)
            self._tests[child] = (float(self._left[own]), float(chance))
            rest = (self._left - q).clamp(min=0.0)
            rest = torch.where(rest.sum() > 0, rest, self._left)  # p = q: by rounding alone
            self._left = rest / rest.sum()
            q[own] = 0.0
            q = q / q.sum().clamp(min=torch.finfo(q.dtype).tiny)

    def test(self, child: int) -> tuple[float, float]:
        return self._tests[child]

    def left(self) -> torch.Tensor:
        return self._left

    def _proposed(self, node: int) -> torch.Tensor:
        """q [V] after `node` over the target's vocabulary."""
        drafted = self._proposal.log_q[self._proposal.row[node]].exp()
        if self._proposal.draft_id is None:
            return drafted
        known = self._proposal.draft_id >= 0
        return torch.where(known, drafted[self._proposal.draft_id.clamp(min=0)], 0.0)


def _descend(
    logits: torch.Tensor,
    token: torch.Tensor,
    parent: torch.Tensor,
    uniforms: torch.Tensor,
    rule: _Tests,
    out: VerifyBuffers,
    temperature: float,
    least: torch.Tensor | None,
) -> None:
    """One sweep over the nodes: the test of each in its turn, then p after it."""
    parents, draws = parent.tolist(), uniforms.tolist()
    children = _children_of(parents)
    trail, finite = _Trail(token.tolist()), []
    out.p.fill_(float("nan"))
    for node, above in enumerate(parents):
        if node and above == trail.node:
            p_tested, chance = rule.test(node)
            trail.test(node, p_tested, chance, draws[len(trail.tests)] < chance)
        best, p, log_z = _row(logits[node], temperature, None if least is None else least[node])
        out.best[node], out.log_z[node] = best, log_z
        out.p[children[node]] = p[token[children[node]]].to(out.p.dtype)
        finite.append(bool(log_z.isfinite()))
        if node == trail.node:
            rule.enter(node, p, children[node])
    drawn = _inverse_transform(rule.left(), draws[len(trail.tests)])
    trail.write(drawn, finite, out)


def _children_of(parents: list[int]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    return children


def _row(
    logits: torch.Tensor,  # [V]
    temperature: float,
    least: torch.Tensor | None,  # float32 scalar
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Arg-max, p [V] and log-sum-exp of one row."""
    accurate = logits.to(torch.promote_types(logits.dtype, torch.float32))
    top, best = accurate.max(-1)
    scaled = (accurate - top) / temperature
    if least is not None:
        scaled = scaled.masked_fill(accurate < least, float("-inf"))
    p = scaled.softmax(-1)
    return best, p, top / temperature - p[best].log()


def _inverse_transform(
    weights: torch.Tensor,  # [V]
    uniform: float,
) -> int:
    """The token drawn in proportion to the weights, in float64; never one of weight zero."""
    cumulative = weights.double().cumsum(-1)
    total = cumulative[-1:]
    index = torch.searchsorted(cumulative, total * uniform, right=True)
    last = torch.searchsorted(cumulative, total)  # uniform * total may round to total
    return int(torch.minimum(index, last).clamp(max=len(weights) - 1))


class _Trail:
    """The walk so far: nodes accepted, and (node, p when tested, chance) of each test."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens, self.path = tokens, [0]
        self.tests: list[tuple[int, float, float]] = []

    @property
    def node(self) -> int:
        """Where the walk stands."""
        return self.path[-1]

    def test(self, child: int, p_tested: float, chance: float, stays: bool) -> None:
        self.tests.append((child, p_tested, chance))
        if stays:
            self.path.append(child)

    def write(self, decided: int, finite: list[bool], out: VerifyBuffers) -> None:
        """Put the walk into out.result; finite: whether each row had a log-sum-exp."""
        broken = not all(finite[node] for node in self.path)
        rows = torch.full((ROWS, out.nodes), -1, dtype=torch.int64)
        floats = rows[3:].view(torch.float64).fill_(float("nan"))
        rows[0, : len(self.path)] = torch.tensor(self.path)
        committed = [*(self.tokens[node] for node in self.path[1:]), decided]
        rows[1, : len(committed)] = torch.tensor(committed)
        for place, (node, p_tested, chance) in enumerate(self.tests):
            rows[2, place] = node
            floats[0, place], floats[1, place] = p_tested, chance
        header = torch.tensor([len(self.path), len(self.tests), broken])
        out.result[:HEADER] = header
        out.result[HEADER:] = rows.flatten()
