"""The cycle over fixed buffers decides what the other cycle decides, however it is run."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kernels
from eagle3_viz import timer
from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.independent import IndependentDraft
from eagle3_viz.drafts.prompt_lookup import PromptLookupDraft
from eagle3_viz.endings import Endings
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.loop import Loop
from eagle3_viz.records import Cycle
from eagle3_viz.static import engine, placed
from eagle3_viz.static.loop import StaticLoop, runs_static
from eagle3_viz.static.recorder import Called
from eagle3_viz.target import TargetModel
from kernels.ancestor_bits import MAX_ROWS
from tests.static.pairs import PROMPT, run, small_draft, small_eagle1, small_target, texts
from tests.static.replaying import Replays
from tests.tiny_models import random_ids, tiny_target

SHAPE = TreeShape(total=8, depth=2, top_k=3)
SMALL = TreeShape(total=6, depth=1, top_k=3)
BRANCHES = FixedTree("branches", ((0,), (1,), (0, 0), (0, 1), (0, 0, 0)))
RULES = {
    "greedy": {"rule": "greedy"},
    "topk": {"rule": "topk", "sampling": Sampling(1.0)},
    "topk, filtered": {"rule": "topk", "sampling": Sampling(0.8, top_k=5, top_p=0.9)},
    "sample": {"rule": "sample", "sampling": Sampling(1.0)},
    "sample, filtered": {"rule": "sample", "sampling": Sampling(1.3, top_k=6, top_p=0.95)},
    "typical": {"rule": "typical", "sampling": Sampling(1.0)},
}
LOOKED_AT = ("timing", "nodes", "pool", "distributions", "miss")
STATIC_RULES = [name for name in RULES if name != "typical"]


@pytest.fixture
def torch_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.OVERRIDE, "torch")


@pytest.fixture
def triton_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small buckets, since every key that attention looks at takes the interpreter its time."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    monkeypatch.setenv(kernels.OVERRIDE, "triton")
    monkeypatch.setattr(placed, "SMALLEST_BUCKET", 32)


def config_of(rule: str, **settings: Any) -> DecodeConfig:
    usual = {"method": "eagle3", "shape": SHAPE, "max_new_tokens": 24, "record": "off"}
    return DecodeConfig(**(usual | RULES[rule] | settings))


def draft_of(method: str, target: TargetModel) -> Draft | None:
    if method == "ar":
        return None
    if method == "lookup":
        return PromptLookupDraft(target.vocab_size, target.device)
    if method == "independent":
        return IndependentDraft(small_target(sharpness=0.7), target.vocab_size)
    if method == "eagle1":
        return small_eagle1(target)
    return small_draft(target)


def fields_of(cycle: Cycle) -> dict[str, Any]:
    """What must be the same to the bit."""
    return {name: value for name, value in vars(cycle).items() if name not in LOOKED_AT}


@pytest.mark.usefixtures("torch_kernels")
@pytest.mark.parametrize("rule", STATIC_RULES)
@pytest.mark.parametrize("method", ["ar", "lookup", "independent", "eagle1", "eagle2", "eagle3"])
def test_every_method_gives_the_same_records(method: str, rule: str) -> None:
    if (method, rule.split(",")[0]) == ("lookup", "sample"):
        pytest.skip("lookup has no q")
    target = small_target()
    draft = draft_of("eagle1" if method == "eagle2" else method, target)
    config = config_of(rule, method=method, fixed=BRANCHES)
    expected, found = (run(kind(target, draft, config)) for kind in (Loop, StaticLoop))
    assert expected[0].token == found[0].token
    assert [fields_of(c) for c in expected[1]] == [fields_of(c) for c in found[1]]
    if method not in ("ar", "lookup"):
        assert max(cycle.accepted for cycle in found[1]) > 0


@pytest.mark.usefixtures("torch_kernels")
@pytest.mark.parametrize("family", ["mistral-sliding", "qwen2-sliding", "qwen3", "qwen3-sliding"])
def test_every_family_that_is_fused_gives_the_same_tokens(family: str) -> None:
    target = small_target(family)
    draft = small_draft(target, sliding_window=4)
    config = config_of("greedy", max_new_tokens=40)
    assert texts(StaticLoop(target, draft, config)) == texts(Loop(target, draft, config))


@pytest.mark.usefixtures("torch_kernels")
@pytest.mark.parametrize("rule", STATIC_RULES)
def test_a_full_record_shows_the_same(rule: str) -> None:
    target = small_target()
    draft, config = small_draft(target), config_of(rule, record="full", max_new_tokens=12)
    for expected, found in zip(
        run(Loop(target, draft, config))[1], run(StaticLoop(target, draft, config))[1], strict=True
    ):
        assert expected.nodes is not None and found.nodes is not None
        for name, values in vars(expected.nodes).items():
            np.testing.assert_allclose(getattr(found.nodes, name), values, rtol=2e-4, atol=1e-6)
        assert expected.miss is not None and found.miss is not None
        assert vars(expected.miss) == pytest.approx(vars(found.miss), rel=1e-4, nan_ok=True)


@pytest.mark.parametrize("rule", RULES)
def test_decoding_with_triton_gives_the_tokens_of_pytorch(
    rule: str, triton_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = small_target()
    draft, config = small_draft(target), config_of(rule, max_new_tokens=8)
    found = list(decode(target, draft, PROMPT, config))
    assert (target.engine is None) == (rule == "typical")
    monkeypatch.setenv(kernels.OVERRIDE, "torch")
    expected = list(decode(target, draft, PROMPT, config))
    assert [record.token_ids for record in found] == [record.token_ids for record in expected]


@pytest.mark.usefixtures("triton_kernels")
@pytest.mark.parametrize(
    ("method", "rule"),
    [("ar", "topk"), ("eagle1", "greedy"), ("eagle3", "topk, filtered"), ("eagle3", "sample")],
)
def test_replayed_recordings_give_the_tokens_of_calls(method: str, rule: str) -> None:
    target = small_target()
    draft = draft_of(method, target)
    config = config_of(rule, method=method, fixed=BRANCHES, max_new_tokens=10)
    recorder = Replays()
    found = texts(StaticLoop(target, draft, config, recorder))
    assert found == texts(Loop(target, draft, config))
    assert recorder.recorded < len(found)


@pytest.mark.usefixtures("triton_kernels")
@pytest.mark.parametrize("method", ["eagle1", "eagle3"])
def test_what_a_recording_returned_is_there_to_be_shown_behind_the_others(method: str) -> None:
    target = small_target()
    draft = draft_of(method, target)
    config = config_of(
        "topk", method=method, fixed=BRANCHES, record="full", max_new_tokens=8, shape=SMALL
    )
    pairs = zip(
        run(Loop(target, draft, config))[1],
        run(StaticLoop(target, draft, config, Replays()))[1],
        strict=True,
    )
    for expected, found in pairs:
        for part in ("nodes", "pool"):
            for name, values in vars(getattr(expected, part)).items():
                shown = getattr(getattr(found, part), name)
                np.testing.assert_allclose(shown, values, rtol=2e-3, atol=1e-5)


@pytest.mark.usefixtures("torch_kernels")
def test_recording_is_in_no_cycles_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(step=1000)
    made: list[str] = []

    class Slow(Called):
        def record(self, work: Any, pool: str) -> Any:
            made.append(pool)
            nonlocal now
            now = itertools.count(next(now) + 10**12, 1000)
            return super().record(work, pool)

    clock = SimpleNamespace(perf_counter_ns=lambda: next(now))
    monkeypatch.setattr(timer, "time", clock)
    target = small_target()
    _, cycles = run(StaticLoop(target, small_draft(target), config_of("greedy"), Slow()))
    assert made == ["drafted", "judged", "drafted"]  # the second with something to take over
    assert max(cycle.timing.total for cycle in cycles) < 1


@pytest.mark.usefixtures("torch_kernels")
def test_a_draft_that_grew_elsewhere_is_recorded_anew() -> None:
    target = small_target()
    draft, config = small_draft(target), config_of("greedy")
    run(StaticLoop(target, draft, config))
    draft.reserve(draft.capacity + 1)
    other = random_ids(9, 2, target.vocab_size)
    expected, found = (run(k(target, draft, config), other)[1] for k in (Loop, StaticLoop))
    assert [fields_of(c) for c in expected] == [fields_of(c) for c in found]


@pytest.mark.usefixtures("torch_kernels")
def test_a_text_may_outgrow_what_a_recording_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "SMALLEST_BUCKET", 16)
    target = small_target()
    draft, config = small_draft(target), config_of("greedy", max_new_tokens=60)
    found = texts(StaticLoop(target, draft, config))
    looked_at = {key[2] for key in target.engine._recordings if key[0] == "judged"}
    assert looked_at == {32, 64, 128}
    assert found == texts(Loop(target, draft, config))


@pytest.mark.usefixtures("torch_kernels")
def test_a_text_may_end_with_the_context() -> None:
    target = small_target(max_position_embeddings=30)
    draft, config = small_draft(target), config_of("greedy", max_new_tokens=60)
    expected, found = (run(kind(target, draft, config))[1] for kind in (Loop, StaticLoop))
    assert [fields_of(c) for c in expected] == [fields_of(c) for c in found]
    assert found[-1].finish == "context"
    assert target.engine.capacity == 30 + MAX_ROWS  # more could not be used


@pytest.mark.usefixtures("torch_kernels")
def test_later_runs_find_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_target()
    draft, config = small_draft(target), config_of("greedy")
    first = texts(StaticLoop(target, draft, config))
    before, count = target.engine, len(target.engine._recordings)
    assert texts(StaticLoop(target, draft, config)) == first
    assert target.engine is before and len(before._recordings) == count
    run(StaticLoop(target, draft, config), random_ids(600, 2, target.vocab_size)[:400])
    assert target.engine is not before  # the longer text did not fit


@pytest.mark.usefixtures("torch_kernels")
def test_an_engine_that_is_too_small_is_gone_before_a_larger_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = small_target()
    loop = StaticLoop(target, small_draft(target), config_of("greedy"))
    texts(loop)
    cache = weakref.ref(target.engine.cache)
    del loop
    alive = []
    make = target.new_cache
    monkeypatch.setattr(
        target, "new_cache", lambda rows: (alive.append(cache() is not None), make(rows))[1]
    )
    engine.engine_for(target, target.engine.capacity + 1, None)
    assert alive == [True, False]  # the small one that stands in for it, then the larger one


@pytest.mark.usefixtures("torch_kernels")
def test_recordings_that_are_not_used_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_RECORDINGS", 4)
    target = small_target()
    draft = small_draft(target)
    for temperature in (0.5, 0.7, 0.9, 1.1):
        config = config_of("topk", sampling=Sampling(temperature), max_new_tokens=6)
        texts(StaticLoop(target, draft, config))
    assert len(target.engine._recordings) == 4


@pytest.mark.usefixtures("torch_kernels")
@pytest.mark.parametrize("rule", ["greedy", "topk, filtered"])
@pytest.mark.parametrize("who", ["draft", "target"])
def test_values_that_are_no_numbers_name_their_model(who: str, rule: str) -> None:
    target = small_target()
    draft = small_draft(target)
    loop = StaticLoop(target, draft, config_of(rule))
    broken = draft._blocks[0].norms["hidden_norm"] if who == "draft" else target.decoder._norm
    with pytest.raises(FloatingPointError, match=f"the {who} computed NaN"):
        for number, _ in enumerate(cycles_of(loop)):
            if number == 1:
                broken.twice.fill_(float("nan"))


def cycles_of(loop: Loop) -> Iterator[Cycle]:
    endings = Endings(loop.target.end_of_sequence, loop.target.context_limit, loop.config, ())
    loop.prefill(list(PROMPT), endings)
    yield from loop.cycles(endings)


def test_what_it_was_not_made_for_is_left_to_the_other_loop(
    triton_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = small_target()
    draft, usual = small_draft(target), config_of("greedy")
    assert runs_static(target, draft, usual)
    assert not runs_static(target, draft, config_of("typical"))
    wide = TreeShape(total=200, depth=12, top_k=20)
    assert not runs_static(target, draft, config_of("greedy", shape=wide))
    assert runs_static(target, None, config_of("greedy", shape=wide, method="ar"))
    gemma = tiny_target("gemma")
    assert not runs_static(gemma, None, usual)
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    assert not runs_static(small_target(rope_parameters=dynamic), None, usual)
    monkeypatch.setenv(kernels.OVERRIDE, "torch")
    assert not runs_static(target, draft, usual)
