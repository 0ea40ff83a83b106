"""Tree attention: its errors by dtype, and its time beside SDPA's and flex attention's.

Flex attention is a section of its own, since compiling it takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.attention_cases import Problem, Shape, problem
from benchmarks.gpu.section import Case, Row, Section, Setup, compared, judged
from kernels.tree_attention import tree_attention_torch, visible_keys
from kernels.tree_attention_triton import tree_attention_triton, workspace_size

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
HALF = (torch.bfloat16, torch.float16)

CHECKED = [
    *product([Shape((512,), 60)], TOLERANCE),
    *product([Shape((300, 0, 131), 8, (14, 2), 64)], TOLERANCE),
    *product([Shape((257,), 17, (8, 8), 80)], HALF),
    *product([Shape((1000,), 1, (12, 4), 96)], HALF),
    (Shape((777,), 32, (8, 4), 256, {"window": 100, "softcap": 50.0}), torch.bfloat16),
    (Shape((8192,), 256, (4, 4)), torch.bfloat16),
]
CHECKED_TINY = [
    (Shape((20,), 5, (4, 2), 16, {"window": 6, "softcap": 50.0}), torch.float32),
    (Shape((30, 0), 1, (2, 1), 16), torch.bfloat16),
]
TIMED = [
    *(Shape((prefix,), nodes) for prefix, nodes in product((512, 8192), (1, 8, 16, 32, 60))),
    *(Shape((2048,) * 8, nodes) for nodes in (1, 8)),
]
TIMED_TINY = [Shape((20,), 3, (2, 1), 16), Shape((9,) * 2, 1, (2, 1), 16)]
COMPILED = [Shape((8192,), nodes) for nodes in (1, 60)]


def _cases(setup: Setup) -> Iterator[Case]:
    for shape, dtype in CHECKED_TINY if setup.tiny else CHECKED:
        name = f"{shape}, {str(dtype).removeprefix('torch.')}"
        yield Case(name, partial(_check, setup, name, shape, dtype))
    for shape in TIMED_TINY if setup.tiny else TIMED:
        yield Case(str(shape), partial(_measure, setup, shape, _providers))


def _flex_cases(setup: Setup) -> Iterator[Case]:
    for shape in TIMED_TINY[:1] if setup.tiny else COMPILED:
        yield Case(str(shape), partial(_measure, setup, shape, _flex))


def _check(setup: Setup, name: str, shape: Shape, dtype: torch.dtype) -> Iterator[Row]:
    """Both forms against float64; the kernel's output and workspace are poisoned before."""
    case = problem(shape, dtype, setup.device)
    exact = case.exact()
    out = torch.full_like(case.query, torch.nan)
    scratch = workspace_size(case.query, case.key)
    workspace = torch.full((scratch,), torch.nan, device=setup.device)
    tree_attention_triton(*case.arguments, **shape.options, out=out, workspace=workspace)
    yield judged(name, "triton", case.error(out, exact), TOLERANCE[dtype])
    by_torch = tree_attention_torch(*case.arguments, **shape.options)
    yield Row(name, "torch", {"error": case.error(by_torch, exact)})


Providers = Callable[[Setup, Problem], Iterator[tuple[str, Callable[[], torch.Tensor]]]]


def _measure(setup: Setup, shape: Shape, providers: Providers) -> Iterator[Row]:
    """Every provider in bfloat16, with its error; only the kernel's is judged."""
    case = problem(shape, torch.bfloat16, setup.device)
    exact = case.exact()
    for provider, call in providers(setup, case):
        measure = partial(_numbers, setup, case, exact, call)
        if provider == "triton":
            numbers = measure()
            yield judged(str(shape), provider, numbers["error"], TOLERANCE[torch.bfloat16], numbers)
        else:
            yield compared(str(shape), provider, measure)


def _numbers(
    setup: Setup, case: Problem, exact: torch.Tensor, call: Callable[[], torch.Tensor]
) -> dict[str, float]:
    error = case.error(call(), exact)
    return {"error": error, **setup.time(call, case.bytes, case.operations)}


def _providers(setup: Setup, case: Problem) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """The kernel, its PyTorch form, and SDPA as a decoder without the kernel would best call it."""
    query, key, value, tree = case.arguments
    out = torch.empty_like(query)
    workspace = torch.empty(workspace_size(query, key), device=setup.device)
    attend = partial(tree_attention_triton, out=out, workspace=workspace)
    yield "triton", partial(attend, *case.arguments)
    yield "torch", partial(tree_attention_torch, *case.arguments)
    folded = query.reshape(len(query), key.shape[1], -1, query.shape[3])
    if query.shape[2] == 1:  # without a mask SDPA has faster kernels
        key, value = (x[:, :, : case.used[0]] for x in (key, value))
        yield "sdpa", partial(scaled_dot_product_attention, folded, key, value)
    else:
        mask = visible_keys(tree, key.shape[2]).repeat(1, query.shape[1] // key.shape[1], 1)
        masked = partial(scaled_dot_product_attention, attn_mask=mask[:, None])
        yield "sdpa", partial(masked, folded, key, value)


def _flex(setup: Setup, case: Problem) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """Flex attention with the tree as its mask; compiled, but for the interpreter's device."""
    query, key, value, tree = case.arguments
    seen = visible_keys(tree, key.shape[2])[0]

    def visible(
        text: torch.Tensor, head: torch.Tensor, node: torch.Tensor, at: torch.Tensor
    ) -> torch.Tensor:
        return seen[node, at]

    nodes, keys = seen.shape
    mask = create_block_mask(visible, None, None, nodes, keys, device=setup.device.type)
    attend = flex_attention if setup.tiny else torch.compile(flex_attention, dynamic=False)
    yield "flex", partial(attend, query, key, value, block_mask=mask, enable_gqa=True)


SECTION = Section("attention", 50, _cases)
FLEX_SECTION = Section("flex", 40, _flex_cases)
