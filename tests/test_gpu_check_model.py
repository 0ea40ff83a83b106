"""The section of a whole model, tried on a tiny one; the large one is built without its numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gpu import model_steps
from benchmarks.gpu.model import SECTION
from benchmarks.gpu.model_steps import TOKENS, cases_of
from benchmarks.gpu.model_tokens import token_rows
from benchmarks.gpu.random_pair import LLAMA_8B, TINY, Sizes, random_pair
from benchmarks.gpu.section import Row, Section, Setup, run_section
from benchmarks.gpu.timing import MOST, WARM_UP, Limits, Timer
from eagle3_viz.floor import draft_products, forward_products
from eagle3_viz.loop import Loop
from eagle3_viz.records import Cycle

CPU = torch.device("cpu")
LIMITS = Limits(bytes_per_us=500.0, operations_per_us=1.0)
SETUP = Setup(CPU, tiny=True, timer=Timer(CPU), limits=LIMITS)


class Counted(Loop):
    """A loop that keeps its prompts and cycles."""

    made: list[Counted] = []

    def __post_init__(self) -> None:
        super().__post_init__()
        self.prompt: list[int] = []
        self.cycled: list[Cycle] = []
        Counted.made.append(self)

    def prefill(self, prompt_ids, endings):
        self.prompt = prompt_ids
        return super().prefill(prompt_ids, endings)

    def cycles(self, endings) -> Iterator[Cycle]:
        for cycle in super().cycles(endings):
            self.cycled.append(cycle)
            yield cycle


def rows_of(sizes: Sizes = TINY, setup: Setup = SETUP, **loops: type[Loop]) -> list[Row]:
    """Those of the timed cases, which stand behind the one that compares tokens."""
    loops = loops or {"eager": Loop}
    _, *timed = cases_of(setup, sizes, loops)
    return list(run_section(Section("model", 60.0, lambda setup: iter(timed)), setup))


def test_every_prefix_is_measured_without_a_tree_and_with_each_by_every_loop() -> None:
    rows = rows_of(eager=Loop, again=Loop)
    steps = ["AR step", "cycle of 4 nodes", "cycle of 8 nodes"]
    cases = [f"{step} behind {prefix} tokens" for prefix, step in product((20, 50), steps)]
    assert [(row.case, row.provider) for row in rows] == [*product(cases, ("eager", "again"))]
    for row in rows:
        assert not row.note
        assert row.passed is None
        assert row.numbers["ms"] > 0
        assert row.numbers["verify_ms"] > 0
        assert (row.numbers["draft_ms"] > 1e-3) == row.case.startswith("cycle")


def test_the_section_runs_the_cycle_eagerly_and_over_fixed_buffers() -> None:
    rows = list(run_section(SECTION, SETUP))
    assert not [row.note for row in rows if row.note]
    assert [row.provider for row in rows] == ["eager", "graphs"] * 7
    for row in rows[:2]:
        assert row.passed
        assert row.numbers["accepted"] > 0


class Mistaken(Loop):
    """Takes another token than the rule's wherever a tree was verified."""

    def propose(self, n):
        tree = super().propose(n)
        self.root = tree.token[0] = (int(tree.token[0]) + (len(tree) > 1)) % TINY.vocabulary
        return tree


def test_a_cycle_that_decodes_another_text_does_not_pass() -> None:
    right, wrong = token_rows(CPU, {"eager": Loop, "mistaken": Mistaken})
    assert (right.passed, right.numbers["differ"]) == (True, 0)
    assert not wrong.passed
    assert wrong.numbers["differ"] > 0


def test_a_text_has_room_for_all_cycles_of_a_measurement() -> None:
    deepest = max(shape.levels for shape in LLAMA_8B.trees)
    assert (WARM_UP + MOST) * (deepest + 1) + 1 < TOKENS  # the first token is the prompt's


def test_what_is_timed_are_cycles_of_that_tree_behind_that_prefix() -> None:
    Counted.made.clear()
    rows_of(counted=Counted)
    plan = list(product((20, 50), (None, *TINY.trees)))
    assert len(Counted.made) == len(plan)
    for loop, (prefix, shape) in zip(Counted.made, plan, strict=True):
        assert len(loop.prompt) == prefix
        (first, *_) = loop.cycled
        assert first.prefix_length == prefix
        assert first.verified == (1 if shape is None else shape.total)
        assert first.draft_forwards == (0 if shape is None else shape.depth)
        assert not first.nodes  # recording would be timed too


def test_floors_are_the_bytes_of_weights_keys_and_values_at_the_measured_rate() -> None:
    """By hand for the tiny pair, 4 bytes a number; one key and value have 2 x 2 x 16 numbers."""
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 64 * 96 * 3 + 64 * 2
    target = 8 * layer + 64 * 300 + 64
    level = 2 * 64 * (64 + 32 + 32) + 64 * 64 + 64 * 96 * 3 + 64 * 4 + 64 * 100
    fc = 3 * 64 * 64
    for row in rows_of():
        prefix = 20 if "behind 20" in row.case else 50
        numbers = target + 8 * 64 * prefix
        if row.case.startswith("cycle"):
            levels = 1 + (1 if "4 nodes" in row.case else 2)
            numbers += fc + levels * (level + 64 * prefix)
        assert row.numbers["gb"] == pytest.approx(4 * numbers / 1e9, rel=1e-12)
        assert row.numbers["floor_ms"] == pytest.approx(4 * numbers / 500 / 1e3, rel=1e-12)
        share = row.numbers["floor_ms"] / row.numbers["ms"]
        assert row.numbers["of_floor"] == pytest.approx(share)


def test_without_a_measured_rate_no_floor_is_told() -> None:
    for row in rows_of(setup=replace(SETUP, limits=None)):
        assert "ms" in row.numbers
        assert not {"floor_ms", "of_floor"} & set(row.numbers)


def numbers_in(products) -> int:
    """Of the weights of products, each counted as often as it is multiplied with."""
    return sum(product.weight.matrix.numel() for product, _ in products)


def test_the_8b_pair_has_the_published_sizes_and_reads_what_its_floors_say() -> None:
    """On the meta device, which has shapes and no numbers."""
    target, draft = random_pair(LLAMA_8B, torch.device("meta"))
    assert target.dtype is torch.bfloat16
    weights = sum(weight.numel() for weight in target.model.parameters())
    assert weights == 8_030_261_248  # Llama 3.1 8B
    embedding, norms = 128_256 * 4096, 4096 * (2 * 32 + 1)
    assert LLAMA_8B.target_bytes == 2 * (weights - embedding)
    assert numbers_in(forward_products(target, 1)) == weights - embedding - norms
    prefix = 8192
    row = 2 * 8 * 128 * 2  # a key and a value of a layer, in bytes
    assert LLAMA_8B.step_bytes(prefix) == LLAMA_8B.target_bytes + 32 * row * prefix
    for shape in LLAMA_8B.trees:
        forwards = 1 + shape.depth
        read = numbers_in(draft_products(draft, shape, 1)) + forwards * 4 * 4096  # four norms
        expected = LLAMA_8B.step_bytes(prefix) + 2 * read + forwards * row * prefix
        assert LLAMA_8B.cycle_bytes(prefix, shape) == expected
    assert {shape.total for shape in LLAMA_8B.trees} == {8, 16, 32, 60}
    assert LLAMA_8B.prefixes == (512, 8192)


def test_the_documents_bytes_are_the_floors() -> None:
    text = (Path(__file__).parent.parent / "docs/kernels.md").read_text("utf-8")
    parts = LLAMA_8B.target_bytes, LLAMA_8B.fc_bytes, LLAMA_8B.level_bytes
    assert all(f"{size:,}" in text for size in parts)
    for shape in (None, *LLAMA_8B.trees):
        told = "| 1 | |" if shape is None else f"| {shape.total} | {shape.depth}, {shape.top_k} |"
        for prefix in LLAMA_8B.prefixes:
            size = LLAMA_8B.cycle_bytes(prefix, shape) if shape else LLAMA_8B.step_bytes(prefix)
            told += f" {size / 1e9:.2f} GB |"
        assert told in text


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operation returned, by device and dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, torch.dtype], int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                key = tensor.device.type, tensor.dtype
                self.found[key] = max(self.found.get(key, 0), tensor.nbytes)
        return out


def test_weights_are_made_in_the_models_dtype_and_where_it_runs() -> None:
    """A copy on the host would be 16 GB more, one in float32 twice that."""
    with Largest() as largest:
        random_pair(LLAMA_8B, torch.device("meta"))
    assert largest.found.pop(("meta", torch.bfloat16)) == 2 * 128_256 * 4096  # the embedding
    assert max(largest.found.values()) < 2**20


def test_states_of_the_random_pair_neither_vanish_nor_explode() -> None:
    """Else a NaN would end the measurement on a card of another precision."""
    target, draft = random_pair(TINY, CPU)
    step = target.prefill(list(range(50)))
    assert bool(step.logits.isfinite().all())
    assert 1e-3 < float(step.features.std()) < 1e3
    draft.start(0)
    draft.extend(step.features, [*range(1, 50), 7])
    assert 1e-2 < float(draft.root_logits().std()) < 1e2
    ids = draft.target_ids
    assert bool((ids.diff() > 0).all())
    assert int(ids[-1]) < TINY.vocabulary


def test_a_card_that_is_too_small_is_told_in_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (16_000_000_000, 0))
    monkeypatch.setattr(model_steps, "random_pair", lambda *given: pytest.fail("made all the same"))
    card = replace(SETUP, device=torch.device("cuda"))
    (row,) = rows_of(LLAMA_8B, card)
    assert row.passed is False
    assert row.note == (
        "not run: weights, keys and values need 18.0 GB, 16.0 GB of the card are free"
    )


def test_other_sections_do_not_wait_for_transformers() -> None:
    script = "import sys, benchmarks.gpu.process; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
