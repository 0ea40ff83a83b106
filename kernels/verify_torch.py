"""`kernels.verify` in PyTorch's operations: one row of probabilities at a time.

Only rows that the walk comes to are looked at. Every operation and rounding is that of
`eagle3_viz.acceptance` on p in float32 (float64 for float64 logits). What is decided is decided
on the host: on a GPU each step of the walk waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels.verify_buffers import HEADER, Proposal, VerifyBuffers, refuse_misfits

Tests = list[tuple[float, float]]
"""p when tested and chance to stay of each child of a node, if all before it were refused."""
Left = Callable[[], torch.Tensor]
"""What is left of p [V], not normalized, when all of them were."""
Rule = Callable[[int, torch.Tensor, list[int]], tuple[Tests, Left]]
"""Makes both of a node, p [V] after it and its children."""


def score_nodes_torch(
    logits: torch.Tensor,  # [T, V], floating
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """As `kernels.verify.score_nodes`."""
    refuse_misfits(logits, token, parent, out, least=least)
    accurate = logits.to(torch.promote_types(logits.dtype, torch.float32))
    top, best = accurate.max(-1)
    scaled = (accurate - top[:, None]) / temperature
    if least is not None:
        scaled = scaled.masked_fill(accurate < least[:, None], float("-inf"))
    log_total = scaled.logsumexp(-1)
    out.best.copy_(best)
    out.log_z.copy_(top / temperature + log_total)
    above = parent.clamp(min=0)
    p = (scaled[above, token.clamp(min=0)] - log_total[above]).exp()
    out.p.copy_(torch.where(parent >= 0, p, float("nan")))


def verify_greedy_torch(
    logits: torch.Tensor,  # [T, V], floating
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    out: VerifyBuffers,
) -> None:
    """As `kernels.verify.verify_greedy`."""
    refuse_misfits(logits, token, parent, out)
    children, trail = _children_of(parent.tolist()), _Trail(token.tolist())
    between = [0.5] * len(token)  # a chance of 0 or 1 leaves nothing to be drawn
    node: int | None = 0
    while node is not None:
        top, best = logits[node].float().max(-1)  # bfloat16's own is ten times slower on a CPU
        trail.broken |= not top.isfinite()
        decided = int(best)
        hits = [float(trail.tokens[child] == decided) for child in children[node]]
        node = trail.test(children[node], [(hit, hit) for hit in hits], between)
    trail.write(decided, out)


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
    refuse_misfits(logits, token, parent, out, uniforms=uniforms, least=least)

    def chosen(node: int, p: torch.Tensor, children: list[int]) -> tuple[Tests, Left]:
        return _tests_of_chosen(p, token[children])

    trail = _Trail(token.tolist())
    trail.write(_descend(logits, parent, uniforms, chosen, trail, temperature, least), out)


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
    refuse_misfits(logits, token, parent, out, uniforms=uniforms, least=least, proposal=proposal)

    def drawn(node: int, p: torch.Tensor, children: list[int]) -> tuple[Tests, Left]:
        q = _proposed(proposal, node) if children else p
        return _tests_of_drawn(p, q, token[children])

    trail = _Trail(token.tolist())
    trail.write(_descend(logits, parent, uniforms, drawn, trail, temperature, least), out)


def _descend(
    logits: torch.Tensor,
    parent: torch.Tensor,
    uniforms: torch.Tensor,
    rule: Rule,
    trail: _Trail,
    temperature: float,
    least: torch.Tensor | None,
) -> int:
    """From the root to where every child is refused; the token decided there."""
    children, draws = _children_of(parent.tolist()), uniforms.tolist()
    node: int | None = 0
    while node is not None:
        p = _distribution(logits[node], temperature, None if least is None else least[node])
        trail.broken |= bool(p[0].isnan())  # one value that is no number spoils the whole row
        tests, left = rule(node, p, children[node])
        node = trail.test(children[node], tests, draws)
    return _inverse_transform(left(), draws[len(trail.tests)])


def _children_of(parents: list[int]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    return children


def _distribution(
    logits: torch.Tensor,  # [V]
    temperature: float,
    least: torch.Tensor | None,  # float32 scalar
) -> torch.Tensor:
    """p [V] of one row, in float32 or float64."""
    accurate = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scaled = accurate
    if temperature != 1.0:
        # relative to the largest, so that a tiny temperature overflows to zero and not to NaN
        scaled = (accurate - accurate.max()) / temperature
    if least is not None:
        scaled = scaled.masked_fill(accurate < least, float("-inf"))
    return scaled.softmax(-1)


def _tests_of_chosen(
    p: torch.Tensor,  # [V]
    chosen: torch.Tensor,  # int64 [k], tokens
) -> tuple[Tests, Left]:
    """MATH.md 1.2: each child is a point mass, and a refusal takes its token off p."""
    tests, mass = [], 1.0
    for p_child in p[chosen].tolist():
        chance = min(1.0, p_child / mass) if mass > 0.0 else 0.0
        tests.append((chance, chance))
        mass -= p_child

    def left() -> torch.Tensor:
        rest = p.index_fill(0, chosen, 0.0)
        return torch.where(rest.sum() > 0, rest, p)  # nothing is left by rounding alone

    return tests, left


def _tests_of_drawn(
    p: torch.Tensor,  # [V]
    q: torch.Tensor,  # [V]
    drawn: torch.Tensor,  # int64 [k], tokens
) -> tuple[Tests, Left]:
    """MATH.md 1.3: recursive rejection."""
    tests, left, q = [], p, q.clone()
    for place in range(len(drawn)):
        own = drawn[place]
        tests.append((float(left[own]), float((left[own] / q[own]).clamp(max=1.0))))
        rest = (left - q).clamp(min=0.0)
        rest = torch.where(rest.sum() > 0, rest, left)  # p = q: refused by rounding alone
        left = rest / rest.sum()
        q[own] = 0.0
        q = q / q.sum().clamp(min=torch.finfo(q.dtype).tiny)
    return tests, lambda: left


def _proposed(proposal: Proposal, node: int) -> torch.Tensor:
    """q [V] after `node`, over the target's vocabulary."""
    q = proposal.log_q[proposal.row[node]].exp()
    if proposal.draft_id is None:
        return q
    return torch.where(proposal.draft_id >= 0, q[proposal.draft_id.clamp(min=0)], 0.0)


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
        self.tokens, self.path, self.broken = tokens, [0], False
        self.tests: list[tuple[int, float, float]] = []

    def test(self, children: list[int], tests: Tests, draws: list[float]) -> int | None:
        """The first child that stays, if one does: each is given the next of `draws`."""
        for child, (p_tested, chance) in zip(children, tests, strict=True):
            stays = draws[len(self.tests)] < chance
            self.tests.append((child, p_tested, chance))
            if stays:
                self.path.append(child)
                return child
        return None

    def write(self, decided: int, out: VerifyBuffers) -> None:
        """Put the walk and the token decided at its end into out.result."""
        accepted = [self.tokens[node] for node in self.path[1:]]
        nodes, p_tested, chances = zip(*self.tests, strict=True) if self.tests else ((), (), ())
        whole = [self.path, [*accepted, decided], nodes]
        padded = [[*row, *[-1] * (out.nodes - len(row))] for row in whole]
        header = [len(self.path), len(self.tests), int(self.broken)]
        split = HEADER + len(whole) * out.nodes
        out.result[:split] = torch.tensor([*header, *(n for row in padded for n in row)])
        nan = [float("nan")] * (out.nodes - len(self.tests))
        numbers = torch.tensor([*p_tested, *nan, *chances, *nan], dtype=torch.float64)
        out.result[split:] = numbers.view(torch.int64)
