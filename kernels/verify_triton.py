"""`kernels.verify` as Triton launches. Importable without Triton; only a call needs it. Every
launcher raises TypeError for float64.

Logits are read once. The rows of nodes whose children were drawn, and the row where the walk
stopped, are read again wherever p is needed, since neither p nor q is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels.launch import on_device, power_of_two, refuse_double
from kernels.verify_buffers import HEADER, Proposal, VerifyBuffers, refuse_misfits

if TYPE_CHECKING:
    from kernels.residual_kernels import Drawn, Target, Tree

NODES_A_PROGRAM = 16
WARPS = 8  # of a program that reads a chunk: 16 numbers a thread
_LARGEST = torch.finfo(torch.float32).max


def score_nodes_triton(
    logits: torch.Tensor,  # [T, V], float32, bfloat16 or float16, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """As `kernels.verify.score_nodes`."""
    refuse_misfits(logits, token, parent, out, least=least)
    refuse_double(logits, "score_nodes_torch")
    with on_device(logits):
        _score(logits, token, parent, out, temperature, least)


def verify_greedy_triton(
    logits: torch.Tensor,  # [T, V], float32, bfloat16 or float16, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    out: VerifyBuffers,
) -> None:
    """As `kernels.verify.verify_greedy`."""
    refuse_misfits(logits, token, parent, out)
    refuse_double(logits, "verify_greedy_torch")
    with on_device(logits):
        _score(logits, token, parent, out, 1.0, None)
        _walk(token, parent, None, out, drawn=False)


def verify_topk_triton(
    logits: torch.Tensor,  # [T, V], float32, bfloat16 or float16, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    uniforms: torch.Tensor,  # float64 [at least T], in [0, 1), in the order they are used
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """As `kernels.verify.verify_topk`."""
    refuse_misfits(logits, token, parent, out, uniforms=uniforms, least=least)
    refuse_double(logits, "verify_topk_torch")
    with on_device(logits):
        _score(logits, token, parent, out, temperature, least)
        _walk(token, parent, uniforms, out, drawn=False)
        _draw(logits, token, parent, uniforms, None, out, temperature, least)


def verify_sample_triton(
    logits: torch.Tensor,  # [T, V], float32, bfloat16 or float16, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    uniforms: torch.Tensor,  # float64 [at least T], in [0, 1), in the order they are used
    proposal: Proposal,
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """As `kernels.verify.verify_sample`."""
    refuse_misfits(logits, token, parent, out, uniforms=uniforms, least=least, proposal=proposal)
    refuse_double(logits, "verify_sample_torch")
    with on_device(logits):
        _score(logits, token, parent, out, temperature, least)
        _refuse_in_turn(logits, token, parent, proposal, out, temperature, least)
        _walk(token, parent, uniforms, out, drawn=True)
        _draw(logits, token, parent, uniforms, proposal, out, temperature, least)


def _inverse(temperature: float) -> float:
    """1 / temperature, finite in float32: the largest logit stands at 0 then, and not at NaN."""
    return min(1.0 / temperature, _LARGEST)


def _score(
    logits: torch.Tensor,
    token: torch.Tensor,
    parent: torch.Tensor,
    out: VerifyBuffers,
    temperature: float,
    least: torch.Tensor | None,
) -> None:
    """best, p and log_z of every node: one pass over the logits, and the union of its parts."""
    from kernels.verify_kernels import row_parts, unite_rows

    (nodes, vocabulary), scratch = logits.shape, out.scratch
    chunks = scratch.tops.shape[1]
    limit = scratch.top if least is None else least
    row_parts[(nodes, chunks)](
        logits, limit, scratch.tops, scratch.sums, scratch.firsts, vocabulary,
        _inverse(temperature), logits.stride(), HAS_LEAST=least is not None, CHUNK=out.chunk,
        num_warps=WARPS,
    )  # fmt: skip
    unite_rows[(-(-nodes // NODES_A_PROGRAM),)](
        logits, limit, token, parent, scratch.tops, scratch.sums, scratch.firsts,
        scratch.top, scratch.total, out.best, out.p, out.log_z,
        nodes, vocabulary, chunks, _inverse(temperature), logits.stride(),
        HAS_LEAST=least is not None, BLOCK_T=NODES_A_PROGRAM, BLOCK_S=power_of_two(chunks),
    )  # fmt: skip


def _walk(
    token: torch.Tensor,
    parent: torch.Tensor,
    uniforms: torch.Tensor | None,
    out: VerifyBuffers,
    *,
    drawn: bool,
) -> None:
    """The tests, from the root down, by `out.p` or by the chances of drawn children.

    Writes all of the result but the decided token, and that as well where no uniforms are given:
    greedy.
    """
    from kernels.verify_kernels import walk

    nodes, scratch = out.nodes, out.scratch
    path, tokens, tested, p_tested, chances = out.result[HEADER:].view(-1, nodes)
    walk[(1,)](
        token, parent, scratch.whole if uniforms is None else uniforms, out.best, out.p,
        scratch.tested, scratch.chance, scratch.total, out.result, path, tokens, tested,
        p_tested.view(torch.float64), chances.view(torch.float64), nodes,
        GREEDY=uniforms is None, DRAWN=drawn, BLOCK_T=power_of_two(nodes), num_warps=1,
    )  # fmt: skip


def _refuse_in_turn(
    logits: torch.Tensor,
    token: torch.Tensor,
    parent: torch.Tensor,
    proposal: Proposal,
    out: VerifyBuffers,
    temperature: float,
    least: torch.Tensor | None,
) -> None:
    """The residual chain of every node at once, a sibling a round: each round needs the masses
    of the one before. Then the chances of all children."""
    from kernels.residual_kernels import drawn_chances, refuse_children

    nodes, chunks = out.scratch.tops.shape
    target, tree, drawn = _operands(logits, token, parent, proposal, out, temperature, least)
    cases = {"HAS_LEAST": least is not None, "MAPPED": proposal.draft_id is not None}
    blocks = {"BLOCK_T": power_of_two(nodes), "BLOCK_S": power_of_two(chunks)}
    for rank in range(proposal.most_children):
        refuse_children[(nodes, chunks)](
            target, tree, drawn, rank, chunks, **cases, **blocks, CHUNK=out.chunk, num_warps=WARPS
        )
    drawn_chances[(nodes,)](
        target, tree, drawn, out.scratch.tested, out.scratch.chance, chunks,
        **cases, **blocks, num_warps=1,
    )  # fmt: skip


def _draw(
    logits: torch.Tensor,
    token: torch.Tensor,
    parent: torch.Tensor,
    uniforms: torch.Tensor,
    proposal: Proposal | None,
    out: VerifyBuffers,
    temperature: float,
    least: torch.Tensor | None,
) -> None:
    """The decided token, from what is left of p where the walk stopped."""
    from kernels.residual_kernels import draw_token, left_parts

    scratch, nodes = out.scratch, out.nodes
    chunks = len(scratch.whole)
    operands = _operands(logits, token, parent, proposal, out, temperature, least)
    cases = {
        "HAS_LEAST": least is not None,
        "DRAWN": proposal is not None,
        "MAPPED": proposal is not None and proposal.draft_id is not None,
        "CHUNK": out.chunk,
        "BLOCK_T": power_of_two(nodes),
        "BLOCK_S": power_of_two(chunks),
        "num_warps": WARPS,
    }
    left_parts[(chunks,)](
        *operands, out.result, out.path, scratch.whole, scratch.residual, nodes, **cases
    )
    draw_token[(1,)](
        *operands, out.result, out.path, out.tokens, uniforms, scratch.whole, scratch.residual,
        nodes, chunks, **cases,
    )  # fmt: skip


def _operands(
    logits: torch.Tensor,
    token: torch.Tensor,
    parent: torch.Tensor,
    proposal: Proposal | None,
    out: VerifyBuffers,
    temperature: float,
    least: torch.Tensor | None,
) -> tuple[Target, Tree, Drawn]:
    """What the launches on p and q read. Without a proposal q is never looked at."""
    from kernels.residual_kernels import Drawn, Target, Tree

    scratch, vocabulary = out.scratch, logits.shape[1]
    limit = scratch.top if least is None else least
    target = Target(
        logits, limit, scratch.top, scratch.total, vocabulary, _inverse(temperature),
        *logits.stride(),
    )  # fmt: skip
    log_q, row = (scratch.tops, parent) if proposal is None else (proposal.log_q, proposal.row)
    draft_id = row if proposal is None or proposal.draft_id is None else proposal.draft_id
    masses = scratch.p_left, scratch.q_left
    drawn = Drawn(log_q, row, draft_id, *masses, log_q.shape[1], *log_q.stride())
    return target, Tree(token, parent), drawn
