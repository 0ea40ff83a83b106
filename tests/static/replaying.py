"""A CUDA graph's bargain without a GPU: operations are noted with their very tensors and redone.

What Python decided while they were noted stays decided; results land where the first ones did, and
stay until another recording of their pool is run, whose tensors may be in the same memory. What
waits for the device, or copies a number of the host to it, is refused: a GPU refuses it.
Kernels of Triton, interpreted, are noted as launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from triton.runtime.interpreter import InterpretedFunction

Step = Callable[[], None]
_launch = InterpretedFunction.run
_aten = torch.ops.aten
_WAITS = (_aten._local_scalar_dense.default, _aten.nonzero.default, _aten.masked_select.default)
_INDEXED = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)


class Tape(TorchDispatchMode):
    """Notes every operation, and every launch, as a step that does it again."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[str, list[Step]]] = []
        self._open: list[Step] = []
        self.made: list[torch.Tensor] = []

    def end(self, name: str) -> None:
        """What was noted since the last mark is a piece of this name."""
        self.pieces.append((name, self._open))
        self._open = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        refuse_what_a_gpu_refuses(func, args)
        results = func(*args, **kwargs)
        given = {storage_of(tensor) for tensor in tensors_in((args, kwargs))}
        fresh = [i for i, t in enumerate(tensors_in(results)) if storage_of(t) not in given]
        places = tensors_in(results)
        self.made += [places[index] for index in fresh]

        def again() -> None:
            found = tensors_in(func(*args, **kwargs))
            for index in fresh:
                places[index].copy_(found[index])

        self._open.append(again)
        return results

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Operations and launches within are noted, and done a first time."""

        def launch(kernel: Any, *args: Any, **options: Any) -> None:
            with _disable_current_modes():
                _launch(kernel, *args, **options)
            self._open.append(lambda: _launch(kernel, *args, **options))

        with patch.object(InterpretedFunction, "run", launch), self:
            yield


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def refuse_what_a_gpu_refuses(func: Any, args: Any) -> None:
    """While a graph is recorded. `x[index] = 1` makes a tensor on the host, too."""
    assert func not in _WAITS, f"{func} waits for the device"
    assert func != _aten.lift_fresh.default, f"{args[0]} is copied from the host"
    if func in _INDEXED:
        masks = [index for index in tensors_in(args[1]) if index.dtype == torch.bool]
        assert not masks, "how many are selected is read from the device"


def storage_of(tensor: torch.Tensor) -> int:
    """Its address, by which a view is known; a weight in oneDNN's order is nobody's view."""
    return id(tensor) if tensor.is_mkldnn else tensor.untyped_storage()._cdata


class Replays:
    """Implements `Recorder`. recorded: how many recordings; busy: one of them is being redone."""

    def __init__(self) -> None:
        self.recorded, self.busy = 0, False
        self.pools: dict[str, list[_Replay]] = {}

    def record(self, work: Any, pool: str) -> Any:
        self.recorded += 1
        work(lambda name: None)  # fills what is computed once, as the warm-up of a graph does
        tape = Tape()
        with tape.noting():
            result = work(tape.end)
        return _Replay(self, self.pools.setdefault(pool, []), tape, result)


class _Replay:
    def __init__(self, owner: Replays, pool: list[_Replay], tape: Tape, result: Any) -> None:
        self._owner, self._pool, self._tape, self._result = owner, pool, tape, result
        pool.append(self)

    def run(self, mark: Callable[[str], None]) -> Any:
        with _disable_current_modes():
            for other in self._pool:
                if other is not self:
                    other.spoil()
            for name, steps in self._tape.pieces:
                self._owner.busy = True
                for step in steps:
                    step()
                self._owner.busy = False
                mark(name)
        return self._result

    def spoil(self) -> None:
        """Another recording wrote where the tensors of this one are."""
        for tensor in self._tape.made:
            tensor.fill_(1 if tensor.dtype == torch.bool else limits_of(tensor.dtype).max)


def limits_of(dtype: torch.dtype) -> torch.finfo | torch.iinfo:
    return torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
