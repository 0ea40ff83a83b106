"""The launches of a verification up to the walk: two over the logits, one down the tree.

Imported only where Triton is; `kernels.verify_triton` launches them. What changes with the size of
a tree is not specialized on, or every few sizes would be compiled anew.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Addresses within the result shift with the number of nodes, uniforms may start anywhere.
UNALIGNED = ["uniforms", "header", "path", "tokens", "tests_of", "p_tested", "chances"]


@triton.jit
def weight(x: tl.tensor, top: tl.tensor, inverse: tl.tensor) -> tl.tensor:
    """exp((x - top) / temperature) for float32 logits x of a row whose largest is `top`.

    inverse: 1 / temperature, so that no logit costs a division.
    """
    return tl.exp((x - top) * inverse)


@triton.jit
def row_parts(
    logits: tl.tensor,  # [T, V], floating
    least: tl.tensor,  # float32 [T], read if HAS_LEAST
    tops: tl.tensor,  # float32 [T, S]
    sums: tl.tensor,  # float32 [T, S]
    firsts: tl.tensor,  # int32 [T, S]
    vocabulary: tl.tensor,
    inverse: tl.tensor,
    strides: tl.tensor,
    HAS_LEAST: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    """One program: one chunk of one row; its largest logit, where, and its sum of weights."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    at = logits + row * strides[0] + ids.to(tl.int64) * strides[1]
    x = tl.load(at, mask=ids < vocabulary, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    anchor = tl.where(top == float("-inf"), 0.0, top)  # a chunk without a finite logit weighs 0
    weights = weight(x, anchor, inverse)
    if HAS_LEAST:
        weights = tl.where(x < tl.load(least + row), 0.0, weights)
    part = row * tl.num_programs(1) + chunk
    tl.store(tops + part, top)
    tl.store(sums + part, tl.sum(weights, 0))
    tl.store(firsts + part, tl.min(tl.where(x == top, ids, vocabulary - 1), 0))


@triton.jit
def _whole_rows(
    tops: tl.tensor,
    sums: tl.tensor,
    row: tl.tensor,  # int64 [BLOCK_T]
    used: tl.tensor,  # bool [BLOCK_T]
    chunks: tl.tensor,
    inverse: tl.tensor,
    BLOCK_S: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Largest logit and sum of weights of rows, [BLOCK_T], and their tops, [BLOCK_T, BLOCK_S]."""
    chunk = tl.arange(0, BLOCK_S)[None, :]
    at = row[:, None] * chunks + chunk
    wanted = used[:, None] & (chunk < chunks)
    parts = tl.load(tops + at, mask=wanted, other=float("-inf"))
    masses = tl.load(sums + at, mask=wanted, other=0.0)
    top = tl.max(parts, 1)
    return top, tl.sum(masses * weight(parts, top[:, None], inverse), 1), parts


@triton.jit(do_not_specialize=["nodes"])
def unite_rows(
    logits: tl.tensor,  # [T, V]
    least: tl.tensor,  # float32 [T], read if HAS_LEAST
    token: tl.tensor,  # int64 [T]
    parent: tl.tensor,  # int64 [T]
    tops: tl.tensor,  # float32 [T, S]
    sums: tl.tensor,  # float32 [T, S]
    firsts: tl.tensor,  # int32 [T, S]
    top_of: tl.tensor,  # float32 [T]
    total_of: tl.tensor,  # float32 [T]
    best: tl.tensor,  # int64 [T]
    p: tl.tensor,  # float32 [T]
    log_z: tl.tensor,  # float32 [T]
    nodes: tl.tensor,
    vocabulary: tl.tensor,
    chunks: tl.tensor,
    inverse: tl.tensor,
    strides: tl.tensor,
    HAS_LEAST: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """One program: BLOCK_T nodes; what their own row says, and p of their token in the parent's.

    A parent's row is united here once more: another program may not have got to it.
    """
    node = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    used = node < nodes
    top, total, parts = _whole_rows(tops, sums, node, used, chunks, inverse, BLOCK_S)
    chunk = tl.arange(0, BLOCK_S)[None, :]
    wanted = used[:, None] & (chunk < chunks)
    first = tl.load(firsts + node[:, None] * chunks + chunk, mask=wanted, other=0)
    holds = wanted & (parts == top[:, None])
    tl.store(best + node, tl.min(tl.where(holds, first, vocabulary - 1), 1), mask=used)
    tl.store(top_of + node, top, mask=used)
    tl.store(total_of + node, total, mask=used)
    tl.store(log_z + node, top * inverse + tl.log(total), mask=used)

    above = tl.load(parent + node, mask=used, other=-1)
    born = above >= 0
    top, total, _ = _whole_rows(tops, sums, above, born, chunks, inverse, BLOCK_S)
    own = tl.load(token + node, mask=born, other=0)
    at = logits + above * strides[0] + own * strides[1]
    x = tl.load(at, mask=born, other=0.0).to(tl.float32)
    share = tl.div_rn(weight(x, top, inverse), total)
    if HAS_LEAST:
        share = tl.where(x < tl.load(least + above, mask=born, other=0.0), 0.0, share)
    tl.store(p + node, tl.where(born, share, float("nan")), mask=used)


@triton.jit
def _odds(
    child: tl.tensor,
    node: tl.tensor,
    left: tl.tensor,  # float64, of p after the siblings refused so far
    share: tl.tensor,  # float64, p of the child
    token: tl.tensor,
    best: tl.tensor,
    tested: tl.tensor,
    chance: tl.tensor,
    GREEDY: tl.constexpr,
    DRAWN: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """p of a child when it is tested, and its chance to stay, both float64."""
    if GREEDY:
        odds = (tl.load(token + child) == tl.load(best + node)).to(tl.float64)
        seen = odds
    elif DRAWN:
        odds = tl.load(chance + child).to(tl.float64)
        seen = tl.load(tested + child).to(tl.float64)
    else:
        ratio = share / left
        odds = tl.where(left > 0.0, tl.where(ratio < 1.0, ratio, 1.0), 0.0)
        seen = odds
    return seen, odds


@triton.jit
def _fill(
    row: tl.tensor, start: tl.tensor, nodes: tl.tensor, value: tl.tensor, BLOCK_T: tl.constexpr
) -> None:
    """Write `value` from place `start` of a row of `nodes` on."""
    place = tl.arange(0, BLOCK_T)
    tl.store(row + place, value, mask=(place >= start) & (place < nodes))


@triton.jit
def _child_behind(
    place: tl.tensor, parents: tl.tensor, node: tl.tensor, child: tl.tensor, nodes: tl.tensor
) -> tl.tensor:
    """The first child of `node` that stands behind `child`; `nodes` where there is none."""
    return tl.min(tl.where((parents == node) & (place > child), place, nodes), 0)


@triton.jit(do_not_specialize=[*UNALIGNED, "nodes"])
def walk(
    token: tl.tensor,  # int64 [T]
    parent: tl.tensor,  # int64 [T]
    uniforms: tl.tensor,  # float64 [T], not read if GREEDY
    best: tl.tensor,  # int64 [T]
    p: tl.tensor,  # float32 [T]
    tested: tl.tensor,  # float32 [T], read if DRAWN
    chance: tl.tensor,  # float32 [T], read if DRAWN
    total: tl.tensor,  # float32 [T]
    header: tl.tensor,  # int64 [3], written
    path: tl.tensor,  # int64 [T], written
    tokens: tl.tensor,  # int64 [T], written
    tests_of: tl.tensor,  # int64 [T], written
    p_tested: tl.tensor,  # float64 [T], written
    chances: tl.tensor,  # float64 [T], written
    nodes: tl.tensor,
    GREEDY: tl.constexpr,
    DRAWN: tl.constexpr,
    BLOCK_T: tl.constexpr,
) -> None:
    """The only program: from the root down, a child at a time.

    Children stand behind their parent and siblings in the order tested, so that one sweep over
    the parents, which are held in registers, meets every test in its turn. In float64, operation
    by operation as on the host.
    """
    root, left = tl.full((), 0, tl.int64), tl.full((), 1.0, tl.float64)
    node, kept, tests = root, tl.full((), 1, tl.int32), tl.full((), 0, tl.int32)
    place = tl.arange(0, BLOCK_T)
    parents = tl.load(parent + place, mask=place < nodes, other=-1)
    mass = tl.load(total)
    broken = mass != mass
    tl.store(path, node)
    child = _child_behind(place, parents, node, 0, nodes)
    while child < nodes:
        share = tl.load(p + child).to(tl.float64)
        seen, odds = _odds(child, node, left, share, token, best, tested, chance, GREEDY, DRAWN)
        stays = odds > 0.0
        if not GREEDY:
            stays = tl.load(uniforms + tests) < odds
        tl.store(tests_of + tests, child)
        tl.store(p_tested + tests, seen)
        tl.store(chances + tests, odds)
        tests += 1
        left = tl.where(stays, 1.0, left - share)
        if stays:
            node = root + child
            tl.store(path + kept, node)
            tl.store(tokens + kept - 1, tl.load(token + child))
            kept += 1
            mass = tl.load(total + child)
            broken = broken | (mass != mass)
        child = _child_behind(place, parents, node, child, nodes)
    tl.store(header, kept)
    tl.store(header + 1, tests)
    tl.store(header + 2, broken.to(tl.int64))
    if GREEDY:
        tl.store(tokens + kept - 1, tl.load(best + node))
    _fill(path, kept, nodes, -1, BLOCK_T)
    _fill(tokens, kept, nodes, -1, BLOCK_T)
    _fill(tests_of, tests, nodes, -1, BLOCK_T)
    _fill(p_tested, tests, nodes, float("nan"), BLOCK_T)
    _fill(chances, tests, nodes, float("nan"), BLOCK_T)
