"""Between its recordings a cycle allocates nothing, reads the verdict alone, and moves nothing."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from triton.runtime.interpreter import InterpretedFunction

import kernels
from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.endings import Endings
from eagle3_viz.records import Cycle
from eagle3_viz.static import placed
from eagle3_viz.static.loop import StaticLoop
from tests.static.pairs import PROMPT, small_draft, small_target
from tests.static.replaying import Replays, storage_of, tensors_in

WARM_UP = 2  # cycles until everything was recorded
WAITS = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__")
SAMPLING = {"greedy": Sampling(), "topk": Sampling(1.0)}


class Allocations(TorchDispatchMode):
    """Counts results that are neither their operation's arguments nor views of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        given = {storage_of(tensor) for tensor in tensors_in((args, kwargs or {}))}
        if any(storage_of(tensor) not in given for tensor in tensors_in(results)):
            self.seen.append(str(func))
        return results


@pytest.fixture(params=SAMPLING)
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StaticLoop:
    monkeypatch.setenv(kernels.OVERRIDE, "triton")
    monkeypatch.setattr(placed, "SMALLEST_BUCKET", 32)
    target = small_target()
    config = DecodeConfig(
        shape=TreeShape(total=8, depth=1, top_k=3),
        sampling=SAMPLING[request.param],
        max_new_tokens=10,
        record="off",
    )
    return StaticLoop(target, small_draft(target), config, Replays())


def cycles(loop: StaticLoop) -> Iterator[Cycle]:
    endings = Endings(loop.target.end_of_sequence, loop.target.context_limit, loop.config, ())
    loop.prefill(list(PROMPT), endings)
    yield from loop.cycles(endings)


def steady(loop: StaticLoop) -> Iterator[Cycle]:
    """The cycles after the last one that records anything."""
    running = cycles(loop)
    for _ in range(WARM_UP):
        next(running)
    return running


@contextmanager
def launches_by(replays: Replays) -> Iterator[None]:
    """A launch outside of recordings counts as one of their operations: it runs on the device."""
    launch = InterpretedFunction.run

    def run(*args: Any, **options: Any) -> None:
        replays.busy = True
        with _disable_current_modes():
            launch(*args, **options)
        replays.busy = False

    with patch.object(InterpretedFunction, "run", run):
        yield


def test_a_steady_cycle_allocates_no_tensor(loop: StaticLoop) -> None:
    assert isinstance(loop.recorder, Replays)
    running = steady(loop)
    recorded = loop.recorder.recorded
    with launches_by(loop.recorder), Allocations() as allocations:
        assert len(list(running)) > 1
    assert loop.recorder.recorded == recorded
    assert allocations.seen == []


def test_the_host_reads_nothing_but_the_verdict(
    loop: StaticLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays, read = loop.recorder, []
    assert isinstance(replays, Replays)
    running = steady(loop)

    def noting(name: str) -> Callable[..., Any]:
        original = getattr(torch.Tensor, name)

        def wait(tensor: torch.Tensor, *args: Any) -> Any:
            callers = {frame.name for frame in traceback.extract_stack()}
            if not replays.busy:
                read.append((name, "read_walk" in callers))
            return original(tensor, *args)

        return wait

    for name in WAITS:
        monkeypatch.setattr(torch.Tensor, name, noting(name))
    with launches_by(replays):
        count = len(list(running))
    assert count > 1
    assert read and all(by_the_verdict for _, by_the_verdict in read)
    assert len(read) <= 4 * count  # four rows of one buffer, which is on the host already


def test_every_address_stays(loop: StaticLoop) -> None:
    running = steady(loop)
    before = addresses(loop)
    assert len(before) > 30
    assert len(list(running)) > 1
    assert addresses(loop) == before


def addresses(loop: StaticLoop) -> dict[str, int]:
    """Of everything that a recording of this run may have seen, by where it hangs."""
    engine, draft = loop.target.engine, loop.draft
    assert isinstance(draft, Eagle3Draft)
    roots = {
        "cache": engine.cache.buffers,
        "inbox": vars(engine.inbox),
        "draft": draft.by_layer,
        "angles": draft.rope._table,
    }
    for key, kept in engine._buffers.items():
        roots[str(key)] = kept if isinstance(kept, torch.Tensor) else _tensors_of(kept)
    return {
        f"{name} {number}": tensor.data_ptr()
        for name, kept in roots.items()
        for number, tensor in enumerate(tensors_in(kept))
    }


def _tensors_of(buffers: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in vars(buffers).values():
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif hasattr(value, "__dict__"):
            found += _tensors_of(value)
    return found
