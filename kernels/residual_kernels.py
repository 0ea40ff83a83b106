"""The launches of a verification that read a vocabulary after the walk's tests: what is left of p.

Imported only where Triton is; `kernels.verify_triton` launches them. No p and no q is stored: both
are read off the logits again wherever they are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from kernels.verify_kernels import UNALIGNED, weight

TINY = tl.constexpr(2.0**-126)  # the smallest normal float32; as the host guards its division


class Target(NamedTuple):
    """p of a row: logits [T, V] with their strides, least float32 [T], top and total [T]."""

    logits: tl.tensor
    least: tl.tensor
    top: tl.tensor
    total: tl.tensor
    vocabulary: tl.tensor
    inverse: tl.tensor  # 1 / temperature
    row_stride: tl.tensor
    column_stride: tl.tensor


class Tree(NamedTuple):
    """token and parent, int64 [T]."""

    token: tl.tensor
    parent: tl.tensor


class Drawn(NamedTuple):
    """q: log_q float32 [E, DV] with its strides, row int64 [T], draft_id int64 [V].

    p_left, q_left float64 [T, S]: masses by child and chunk, as far as they are known.
    """

    log_q: tl.tensor
    row: tl.tensor
    draft_id: tl.tensor
    p_left: tl.tensor
    q_left: tl.tensor
    width: tl.tensor
    row_stride: tl.tensor
    column_stride: tl.tensor


@triton.jit
def _p_at(target: Target, node: tl.tensor, ids: tl.tensor, HAS_LEAST: tl.constexpr) -> tl.tensor:
    """p after `node` of tokens ids, float32; zero outside the vocabulary."""
    inside = ids < target.vocabulary
    at = target.logits + node * target.row_stride + ids * target.column_stride
    x = tl.load(at, mask=inside, other=float("-inf")).to(tl.float32)
    share = weight(x, tl.load(target.top + node), target.inverse)
    share = tl.div_rn(share, tl.load(target.total + node))
    if HAS_LEAST:
        share = tl.where(x < tl.load(target.least + node), 0.0, share)
    return tl.where(inside, share, 0.0)


@triton.jit
def _q_at(
    drawn: Drawn, target: Target, node: tl.tensor, ids: tl.tensor, MAPPED: tl.constexpr
) -> tl.tensor:
    """q after `node` of target tokens ids, float32; zero outside the draft's vocabulary."""
    row = tl.load(drawn.row + node)
    place = ids
    known = (ids < target.vocabulary) & (row >= 0)
    if MAPPED:
        place = tl.load(drawn.draft_id + ids, mask=known, other=-1).to(tl.int64)
    known = known & (place >= 0) & (place < drawn.width)
    at = drawn.log_q + row * drawn.row_stride + place * drawn.column_stride
    return tl.exp(tl.load(at, mask=known, other=float("-inf")))


@triton.jit
def _children_before(
    tree: Tree, node: tl.tensor, last: tl.tensor, BLOCK_T: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Where the children of `node` that stand before `last` begin, and where they end.

    Siblings mostly stand side by side: a loop from there to there meets few other nodes.
    """
    place = tl.arange(0, BLOCK_T)
    theirs = tl.load(tree.parent + place, mask=place < last, other=-1) == node
    return tl.min(tl.where(theirs, place, last), 0), tl.max(tl.where(theirs, place + 1, 0), 0)


@triton.jit
def _after_refusals(
    p: tl.tensor,
    q: tl.tensor,
    ids: tl.tensor,
    node: tl.tensor,
    last: tl.tensor,
    tree: Tree,
    drawn: Drawn,
    chunks: tl.tensor,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """p_i and q_i of tokens ids once the children of `node` that stand before `last` are refused.

    MATH.md 1.3, token by token: only the masses that normalize depend on other tokens.
    """
    chunk = tl.arange(0, BLOCK_S)
    first, end = _children_before(tree, node, last, BLOCK_T)
    for child in range(first, end):
        if tl.load(tree.parent + child) == node:
            at = child * chunks + chunk
            p_mass = tl.sum(tl.load(drawn.p_left + at, mask=chunk < chunks, other=0.0), 0)
            q_mass = tl.sum(tl.load(drawn.q_left + at, mask=chunk < chunks, other=0.0), 0)
            rest = tl.div_rn(tl.maximum(p - q, 0.0), p_mass.to(tl.float32))
            p = tl.where(p_mass > 0.0, rest, p)  # p = q: no draft is refused but by rounding
            q = tl.where(ids == tl.load(tree.token + child), 0.0, q)
            q = tl.div_rn(q, tl.maximum(q_mass.to(tl.float32), TINY))
    return p, q


@triton.jit(do_not_specialize=["rank"])  # one binary for all rounds
def refuse_children(
    target: Target,
    tree: Tree,
    drawn: Drawn,
    rank: tl.tensor,
    chunks: tl.tensor,
    HAS_LEAST: tl.constexpr,
    MAPPED: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """One program: one child with `rank` earlier siblings and one chunk of the vocabulary.

    The masses of max(0, p - q) and of q without the child, should it be refused too.
    """
    child, part = tl.program_id(0), tl.program_id(1)
    node = tl.load(tree.parent + child)
    earlier = tl.arange(0, BLOCK_T)
    parents = tl.load(tree.parent + earlier, mask=earlier < child, other=-2)
    if (node >= 0) & (tl.sum((parents == node).to(tl.int32), 0) == rank):
        ids = part.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
        p = _p_at(target, node, ids, HAS_LEAST)
        q = _q_at(drawn, target, node, ids, MAPPED)
        p, q = _after_refusals(p, q, ids, node, child, tree, drawn, chunks, BLOCK_T, BLOCK_S)
        q_rest = tl.where(ids == tl.load(tree.token + child), 0.0, q)
        at = child * chunks + part
        tl.store(drawn.p_left + at, tl.sum(tl.maximum(p - q, 0.0).to(tl.float64), 0))
        tl.store(drawn.q_left + at, tl.sum(q_rest.to(tl.float64), 0))


@triton.jit
def drawn_chances(
    target: Target,
    tree: Tree,
    drawn: Drawn,
    tested: tl.tensor,  # float32 [T], written
    chance: tl.tensor,  # float32 [T], written
    chunks: tl.tensor,
    HAS_LEAST: tl.constexpr,
    MAPPED: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """One program: one child; p_i(c_i) and min(1, p_i(c_i) / q_i(c_i)) if it comes to its test."""
    child = tl.program_id(0)
    node = tl.load(tree.parent + child)
    above = tl.maximum(node, 0)
    own = tl.where(node >= 0, tl.load(tree.token + child), 0)  # what fills a tree up has no token
    p = _p_at(target, above, own, HAS_LEAST)
    q = _q_at(drawn, target, above, own, MAPPED)
    p, q = _after_refusals(p, q, own, above, child, tree, drawn, chunks, BLOCK_T, BLOCK_S)
    ratio = tl.div_rn(p, q)
    tl.store(tested + child, tl.where(node >= 0, p, float("nan")))
    tl.store(chance + child, tl.where(node >= 0, tl.where(ratio > 1.0, 1.0, ratio), float("nan")))


@triton.jit
def _left_at(
    p: tl.tensor,
    ids: tl.tensor,
    node: tl.tensor,
    target: Target,
    tree: Tree,
    drawn: Drawn,
    nodes: tl.tensor,
    chunks: tl.tensor,
    DRAWN: tl.constexpr,
    MAPPED: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> tl.tensor:
    """What is left of p at tokens ids after every child of `node` was refused."""
    if DRAWN:
        q = _q_at(drawn, target, node, ids, MAPPED)
        p, q = _after_refusals(p, q, ids, node, nodes, tree, drawn, chunks, BLOCK_T, BLOCK_S)
    else:
        first, end = _children_before(tree, node, nodes, BLOCK_T)
        for child in range(first, end):
            if tl.load(tree.parent + child) == node:
                p = tl.where(ids == tl.load(tree.token + child), 0.0, p)
    return p


@triton.jit(do_not_specialize=[*UNALIGNED, "nodes"])
def left_parts(
    target: Target,
    tree: Tree,
    drawn: Drawn,
    header: tl.tensor,  # int64 [3]
    path: tl.tensor,  # int64 [T]
    whole: tl.tensor,  # float64 [S], written
    residual: tl.tensor,  # float64 [S], written
    nodes: tl.tensor,
    HAS_LEAST: tl.constexpr,
    DRAWN: tl.constexpr,
    MAPPED: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """One program: one chunk; its mass of p where the walk stopped, and of what is left of p."""
    part, chunks = tl.program_id(0), tl.num_programs(0)
    node = tl.load(path + tl.load(header) - 1)
    ids = part.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    p = _p_at(target, node, ids, HAS_LEAST)
    left = _left_at(
        p, ids, node, target, tree, drawn, nodes, chunks, DRAWN, MAPPED, BLOCK_T, BLOCK_S
    )
    tl.store(whole + part, tl.sum(p.to(tl.float64), 0))
    tl.store(residual + part, tl.sum(left.to(tl.float64), 0))


@triton.jit
def _place(
    weights: tl.tensor, before: tl.tensor, goal: tl.tensor, BLOCK: tl.constexpr
) -> tl.tensor:
    """The first place where before + the running sum of weights float64 [BLOCK] passes `goal`.

    A weight of zero is never hit, and rounding cannot run past the end: the last place with a
    positive weight then.
    """
    place = tl.arange(0, BLOCK)
    hit = (before + tl.cumsum(weights, 0) > goal) & (weights > 0.0)
    last = tl.max(tl.where(weights > 0.0, place, 0), 0)
    return tl.min(tl.where(hit, place, last), 0)


@triton.jit(do_not_specialize=[*UNALIGNED, "nodes"])
def draw_token(
    target: Target,
    tree: Tree,
    drawn: Drawn,
    header: tl.tensor,  # int64 [3]
    path: tl.tensor,  # int64 [T]
    tokens: tl.tensor,  # int64 [T], one entry written: the decided token
    uniforms: tl.tensor,  # float64 [T]
    whole: tl.tensor,  # float64 [S]
    residual: tl.tensor,  # float64 [S]
    nodes: tl.tensor,
    chunks: tl.tensor,
    HAS_LEAST: tl.constexpr,
    DRAWN: tl.constexpr,
    MAPPED: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """The only program: inverse transform of the next uniform, first by chunk, then inside it."""
    kept = tl.load(header)
    node = tl.load(path + kept - 1)
    part = tl.arange(0, BLOCK_S)
    left = tl.load(residual + part, mask=part < chunks, other=0.0)
    something = tl.sum(left, 0) > 0.0  # else by rounding alone: p itself
    masses = tl.where(something, left, tl.load(whole + part, mask=part < chunks, other=0.0))
    goal = tl.sum(masses, 0) * tl.load(uniforms + tl.load(header + 1))
    chosen = _place(masses, 0.0, goal, BLOCK_S)
    before = tl.sum(tl.where(part < chosen, masses, 0.0), 0)
    ids = chosen.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    p = _p_at(target, node, ids, HAS_LEAST)
    left = _left_at(
        p, ids, node, target, tree, drawn, nodes, chunks, DRAWN, MAPPED, BLOCK_T, BLOCK_S
    )
    weights = tl.where(something, left, p).to(tl.float64)
    token = chosen.to(tl.int64) * CHUNK + _place(weights, before, goal, CHUNK)
    tl.store(tokens + kept - 1, token)
