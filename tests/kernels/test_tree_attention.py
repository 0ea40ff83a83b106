"""Tree attention, in PyTorch and in Triton, against float64 key by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels import tree_attention_triton as triton_form
from kernels.ancestor_bits import TreeMask
from kernels.tree_attention import (
    tree_attention,
    tree_attention_torch,
    visible_keys,
    workspace_size,
)
from kernels.tree_attention_triton import tree_attention_triton
from tests.kernels.attention_problems import DEVICE, Problem, answer, error, problem

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
FORMS = pytest.mark.parametrize(
    "attend", [tree_attention_torch, tree_attention_triton], ids=["torch", "triton"]
)
Attend = Callable[..., torch.Tensor]


def with_plan(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    plan = triton_form.plan_launch
    monkeypatch.setattr(triton_form, "plan_launch", lambda *given: replace(plan(*given), **changes))


@FORMS
@pytest.mark.parametrize("head_dim", [8, 64, 80, 96, 128, 256])
def test_every_head_size_and_grouping(attend: Attend, head_dim: int) -> None:
    for seed, heads in enumerate([(2, 2), (6, 2), (5, 1)]):
        case = problem(prefixes=[37], nodes=3, heads=heads, head_dim=head_dim, seed=seed)
        assert error(attend(*case.states, case.mask), answer(case)) < 1e-5


@FORMS
@pytest.mark.parametrize("prefixes", [[0], [64], [300], [0, 5, 131]])
@pytest.mark.parametrize("nodes", [1, 17])
def test_every_prefix_length_alone_and_side_by_side(
    attend: Attend, prefixes: list[int], nodes: int
) -> None:
    case = problem(prefixes=prefixes, nodes=nodes, heads=(2, 1))
    assert error(attend(*case.states, case.mask), answer(case)) < 1e-5


@FORMS
def test_without_a_window_a_long_prefix_is_seen_to_its_first_key(attend: Attend) -> None:
    case = problem(prefixes=[5000], nodes=1, heads=(1, 1), head_dim=16)
    assert error(attend(*case.states, case.mask), answer(case)) < 1e-5


@FORMS
@pytest.mark.parametrize("rows", [63, 64, 65, 129, 256])
def test_trees_of_one_to_four_words_whole_and_their_newest_rows(
    monkeypatch: pytest.MonkeyPatch, attend: Attend, rows: int
) -> None:
    with_plan(monkeypatch, splits=1)
    for nodes in (rows, 5):
        case = problem(prefixes=[9], nodes=nodes, rows=rows, heads=(2, 1), head_dim=16)
        assert error(attend(*case.states, case.mask), answer(case)) < 1e-5


@FORMS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head_dim", [64, 80, 256])
def test_half_precision_is_accumulated_in_float32(
    attend: Attend, dtype: torch.dtype, head_dim: int
) -> None:
    case = problem(prefixes=[150, 3], nodes=4, head_dim=head_dim).to(dtype)
    found = attend(*case.states, case.mask)
    assert found.dtype == dtype
    assert error(found, answer(case)) < TOLERANCE[dtype]


def test_float64_stays_float64_in_pytorch_and_is_refused_by_triton() -> None:
    case = problem(prefixes=[40, 0], nodes=7).to(torch.float64)
    assert error(tree_attention_torch(*case.states, case.mask), answer(case)) < 1e-13
    with pytest.raises(TypeError, match=r"found torch\.float64: use tree_attention_torch"):
        tree_attention_triton(*case.states, case.mask)


OPTIONS: list[dict[str, Any]] = [
    {"scale": 0.3},
    {"softcap": 1.5},
    {"window": 1},
    {"window": 3},
    {"window": 1000},
    {"scale": 0.7, "softcap": 5.0, "window": 12},
]


@FORMS
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("nodes", [1, 6])
def test_scale_soft_cap_and_window_are_honoured(
    attend: Attend, options: dict[str, Any], nodes: int
) -> None:
    case = problem(prefixes=[90, 0], nodes=nodes, rows=20)
    assert error(attend(*case.states, case.mask, **options), answer(case, **options)) < 1e-5


@FORMS
def test_a_soft_cap_far_above_the_scores_changes_next_to_nothing(attend: Attend) -> None:
    """tanh(x) is x - x^3 / 3 there: its rounding error must not be multiplied by the cap."""
    case = problem(prefixes=[90], nodes=3)
    found = attend(*case.states, case.mask, softcap=1e4)
    assert error(found, answer(case, softcap=1e4)) < 2e-6
    assert error(found, answer(case)) < 1e-5


def test_a_window_hides_what_lies_too_far_back() -> None:
    case = problem(prefixes=[50], nodes=8)
    chain = replace(
        case, visible=torch.ones(1, 8, 8, dtype=torch.bool).tril(), depth=torch.arange(8)[None]
    )
    seen = visible_keys(chain.mask, 61, window=4)
    for node in range(8):
        assert seen[0, node].nonzero()[:, 0].tolist() == [50 + node - back for back in (3, 2, 1, 0)]


@pytest.mark.parametrize("splits", [1, 2, 5, 13])
@pytest.mark.parametrize("block_n", [16, 64])
def test_any_number_of_splits_gives_the_same_attention(
    monkeypatch: pytest.MonkeyPatch, splits: int, block_n: int
) -> None:
    case = problem(prefixes=[0, 140], nodes=4, heads=(2, 1))
    with_plan(monkeypatch, splits=splits, block_n=block_n, block_m=16)
    for options in ({}, {"window": 9, "softcap": 3.0}):
        found = tree_attention_triton(*case.states, case.mask, **options)
        assert error(found, answer(case, **options)) < 1e-5


def strided(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """The same values in another memory layout."""
    if kind == "layer of a cache":
        buffer = torch.full((3, 2, *tensor.shape), torch.nan, device=DEVICE)
        buffer[1, 1] = tensor
        return buffer[1, 1]
    if kind == "heads next to each other":
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    dims = tensor.shape[3]
    wide = torch.full((*tensor.shape[:3], 2 * dims), torch.nan, device=DEVICE)
    part = wide[..., ::2] if kind == "every second" else wide[..., :dims]
    return part.copy_(tensor)


@FORMS
@pytest.mark.parametrize(
    "kind", ["layer of a cache", "heads next to each other", "every second", "part of wider rows"]
)
def test_strides_change_nothing(attend: Attend, kind: str) -> None:
    case = problem(prefixes=[70, 1], nodes=2, heads=(2, 2), head_dim=80)
    expected = attend(*case.states, case.mask)
    for moved in range(3):
        states = list(case.states)
        states[moved] = strided(states[moved], kind)
        assert error(attend(*states, case.mask), expected.double()) < 1e-6
    out = strided(torch.zeros_like(expected), kind)
    assert attend(*case.states, case.mask, out=out) is out
    assert torch.equal(out, expected)


@FORMS
def test_lengths_and_masks_may_be_parts_of_what_the_caller_keeps(attend: Attend) -> None:
    """A column of a table, and one length for all texts."""
    case = problem(prefixes=[70, 1, 9], nodes=3)
    table = torch.tensor([[70, -5], [1, -5], [9, -5]], device=DEVICE)
    apart = replace(
        case.mask,
        prefix_lengths=table[:, 0],
        words=torch.stack([case.mask.words] * 2, -1)[..., 0],
        depth=torch.stack([case.depth.to(DEVICE)] * 2, -1)[..., 0],
    )
    assert error(attend(*case.states, apart, window=4), answer(case, window=4)) < 1e-5
    same = problem(prefixes=[20, 20, 20], nodes=3)
    alike = replace(same.mask, prefix_lengths=same.mask.prefix_lengths[:1].expand(3))
    assert error(attend(*same.states, alike), answer(same)) < 1e-5


@FORMS
@pytest.mark.parametrize("window", [None, 3])
def test_one_tree_serves_every_text_of_a_batch(attend: Attend, window: int | None) -> None:
    own = problem(prefixes=[20, 5, 0], nodes=4)
    visible, depth = own.visible[:1], own.depth[:1]
    case = replace(own, visible=visible.expand(3, -1, -1), depth=depth.expand(3, -1))
    mask = TreeMask.pack(visible[0].to(DEVICE), own.mask.prefix_lengths, depth[0].to(DEVICE))
    found = attend(*case.states, mask, window=window)
    assert error(found, answer(case, window=window)) < 1e-5


@FORMS
@pytest.mark.parametrize("nodes", [1, 6])
def test_outputs_are_overwritten_and_what_lies_behind_the_tree_is_not_read(
    attend: Attend, nodes: int
) -> None:
    case = problem(prefixes=[33, 0, 7], nodes=nodes, spare=40)
    expected = answer(case)
    for text, prefix in enumerate(case.prefixes):
        case.key[text, :, prefix + nodes :] = torch.nan
        case.value[text, :, prefix + nodes :] = torch.nan
    buffer = torch.full((5, *case.query.shape[1:]), torch.nan, device=DEVICE)
    out = buffer[1:4]
    attend(*case.states, case.mask, out=out)
    assert error(out, expected) < 1e-5
    assert buffer[[0, 4]].isnan().all()


def test_a_poisoned_workspace_does_not_reach_the_output() -> None:
    case = problem(prefixes=[3, 0], nodes=3, spare=900)  # far fewer keys than the cache has room
    size = triton_form.workspace_size(case.query, case.key)
    assert size > 0
    workspace = torch.full((size + 5,), torch.nan, device=DEVICE)
    found = tree_attention_triton(*case.states, case.mask, workspace=workspace)
    assert error(found, answer(case)) < 1e-5
    assert workspace[size:].isnan().all()
    with pytest.raises(ValueError, match=f"must hold {size} float32 numbers"):
        tree_attention_triton(*case.states, case.mask, workspace=workspace[: size - 1])
    with pytest.raises(ValueError, match="float64"):
        tree_attention_triton(*case.states, case.mask, workspace=workspace.double())


@FORMS
def test_a_query_that_sees_nothing_gets_zeros(attend: Attend) -> None:
    case = problem(prefixes=[0, 4], nodes=4)
    case.visible[:, 2] = False
    found = attend(*case.states, case.mask)
    assert error(found, answer(case)) < 1e-5
    assert (found[0, :, 2] == 0).all()
    assert (found[1, :, 2] != 0).any()


@FORMS
def test_equal_scores_give_the_mean_and_huge_ones_the_best_key(attend: Attend) -> None:
    case = problem(prefixes=[20], nodes=1, heads=(2, 1), spare=0)
    mean = attend(torch.zeros_like(case.query), case.key, case.value, case.mask)
    assert torch.allclose(mean, case.value.mean(2, keepdim=True).expand_as(mean), atol=1e-6)
    scores = (case.query[0] @ case.key[0].transpose(1, 2))[:, 0]  # [H, n]
    best = case.value[0, 0, scores.argmax(-1)]
    huge = attend(*case.states, case.mask, scale=1e4)
    assert torch.allclose(huge[0, :, 0], best, rtol=0.0, atol=1e-5)  # products may be tf32x3


@FORMS
def test_the_same_buffers_serve_the_next_cycle(attend: Attend) -> None:
    """As under a CUDA graph: lengths, words and keys change in place, shapes and addresses not."""
    first, second = (problem(prefixes=[n, 2 * n], nodes=6, spare=40 - 2 * n) for n in (4, 17))
    mask, out = first.mask, torch.empty_like(first.query)
    attend(*first.states, mask, out=out, window=8)
    for buffer, new in zip(first.states, second.states, strict=True):
        buffer.copy_(new)
    for name in ("words", "prefix_lengths", "depth"):
        getattr(mask, name).copy_(getattr(second.mask, name))
    attend(*first.states, mask, out=out, window=8)
    assert error(out, answer(second, window=8)) < 1e-5


def test_no_value_is_read_back_from_the_device() -> None:
    """Meta tensors have shapes and no values: reading one would raise."""
    case = problem(prefixes=[9], nodes=4)
    query, key, value = (x.to("meta") for x in case.states)
    lengths = torch.empty(1, dtype=torch.int32, device="meta")
    mask = TreeMask.pack(case.visible.to("meta"), lengths, case.depth.to("meta"))
    assert tree_attention_torch(query, key, value, mask, window=3, softcap=2.0).is_meta


@pytest.mark.parametrize("name", ["torch", "triton"])
def test_the_override_chooses_the_form(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", name)
    case = problem(prefixes=[70], nodes=4)
    forms = {"torch": tree_attention_torch, "triton": tree_attention_triton}
    expected = forms[name](*case.states, case.mask, scale=0.2)
    size = workspace_size(case.query, case.key)
    assert (size > 0) == (name == "triton")
    workspace = torch.empty(size, device=DEVICE)
    found = tree_attention(*case.states, case.mask, scale=0.2, workspace=workspace)
    assert torch.equal(found, expected)
    double = case.to(torch.float64)
    if name == "torch":
        assert tree_attention(*double.states, double.mask).dtype == torch.float64
    else:
        with pytest.raises(TypeError, match="float64"):
            tree_attention(*double.states, double.mask)
        with pytest.raises(ValueError, match="workspace must hold"):
            tree_attention(*case.states, case.mask, workspace=workspace[:-1])


STATES = ("query", "key", "value")


def cut(case: Problem, **changes: Any) -> tuple[list[torch.Tensor], TreeMask, dict[str, Any]]:
    """The arguments of a call, some of them replaced: states, fields of the mask, options."""
    states = dict(zip(STATES, case.states, strict=True))
    fields = {"words", "prefix_lengths", "rows", "depth"}
    mask = replace(case.mask, **{k: v for k, v in changes.items() if k in fields})
    options = {k: v for k, v in changes.items() if k not in fields | set(states)}
    return [changes.get(name, state) for name, state in states.items()], mask, options


CASE = problem(prefixes=[5, 3], nodes=4, head_dim=8)
WIDE = problem(prefixes=[5, 3], nodes=4, head_dim=257)
LONG = torch.zeros(2, 2, 300, 8, device=DEVICE)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"value": CASE.value[:, :, 1:]}, r"key and value must be \[2, KV, N, 8\]"),
    ({"key": CASE.key[..., :4], "value": CASE.value[..., :4]}, "as query .* asks, found"),
    ({"key": CASE.key[:1], "value": CASE.value[:1]}, r"asks, found \[1, 2, 12, 8\]"),
    ({"query": CASE.query[:, :3]}, "3 query heads cannot share 2"),
    (dict(zip(STATES, WIDE.states, strict=True)), "head size is at most 256, found 257"),
    ({"query": CASE.query.half()}, r"share one floating dtype, found torch\.float16"),
    (dict(zip(STATES, CASE.to(torch.int32).states, strict=True)), r"found torch\.int32"),
    ({"value": CASE.value.to("meta")}, "on one device, found"),
    ({"out": torch.empty(2, 4, 4, 9)}, "out must be"),
    ({"rows": 3}, r"4 rows \(as many as queries\) to 12, found 3"),
    ({"rows": 13}, "found 13"),
    ({"rows": 257, "key": LONG, "value": LONG}, "to 256, found 257"),
    ({"words": CASE.mask.words[:, :3]}, r"tree\.words must be \[1 or 2, 4, 1\]"),
    ({"words": CASE.mask.words.int()}, "must be int64, found torch.int32"),
    ({"prefix_lengths": CASE.mask.prefix_lengths[:1]}, r"prefix_lengths must be \[2\]"),
    ({"depth": CASE.depth[:, :3]}, r"tree\.depth must be \[1 or 2, 4\]"),
    ({"depth": None, "window": 4}, "a sliding window needs the tree's depth"),
    ({"window": 0}, "window must be at least 1 token, found 0"),
    ({"softcap": 0.0}, r"softcap must be positive, found 0\.0"),
]


@FORMS
@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_arguments_that_do_not_fit_are_refused(
    attend: Attend, changes: dict[str, Any], message: str
) -> None:
    states, mask, options = cut(CASE, **changes)
    with pytest.raises(ValueError, match=message):
        attend(*states, mask, **options)


def random_case(seed: int) -> tuple[Problem, dict[str, Any], torch.dtype]:
    generator = torch.Generator().manual_seed(seed)

    def pick(options: list[Any]) -> Any:
        return options[int(torch.randint(len(options), (1,), generator=generator))]

    kv_heads, rows = pick([1, 2, 3]), pick([1, 2, 8, 33, 64, 65, 100])
    case = problem(
        prefixes=[pick([0, 1, 15, 63, 64, 100, 257]) for _ in range(pick([1, 2, 3]))],
        nodes=min(rows, pick([1, 4, 60, 100])),
        rows=rows,
        heads=(kv_heads * pick([1, 2, 5]), kv_heads),
        head_dim=pick([16, 64, 80, 96, 128, 256]),
        spare=pick([0, 1, 50]),
        seed=seed,
    )
    options = {"window": pick([None, None, 1, 5, 64]), "softcap": pick([None, None, 2.0, 30.0])}
    return case, options, pick(list(TOLERANCE))


def check_random(attend: Attend, seed: int) -> None:
    case, options, dtype = random_case(seed)
    case = case.to(dtype)
    found = attend(*case.states, case.mask, **options)
    assert error(found, answer(case, **options)) < TOLERANCE[dtype]


@FORMS
@pytest.mark.parametrize("seed", range(5))
def test_random_problems(attend: Attend, seed: int) -> None:
    check_random(attend, seed)


@FORMS
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(5, 300))
def test_many_random_problems(attend: Attend, seed: int) -> None:
    check_random(attend, seed)
