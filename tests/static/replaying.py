"""A CUDA graph's bargain without a GPU: operations are noted with their very tensors and redone.

What Python decided while they were noted stays decided; results land where the first ones did.
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


class Tape(TorchDispatchMode):
    """Notes every operation, and every launch, as a step that does it again."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[str, list[Step]]] = []
        self._open: list[Step] = []

    def end(self, name: str) -> None:
        """What was noted since the last mark is a piece of this name."""
        self.pieces.append((name, self._open))
        self._open = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        given = {storage_of(tensor) for tensor in tensors_in((args, kwargs))}
        fresh = [i for i, t in enumerate(tensors_in(results)) if storage_of(t) not in given]
        places = tensors_in(results)

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


def storage_of(tensor: torch.Tensor) -> int:
    """Its address, by which a view is known; a weight in oneDNN's order is nobody's view."""
    return id(tensor) if tensor.is_mkldnn else tensor.untyped_storage()._cdata


class Replays:
    """Implements `Recorder`. recorded: how many recordings; busy: one of them is being redone."""

    def __init__(self) -> None:
        self.recorded, self.busy = 0, False

    def record(self, work: Any) -> Any:
        self.recorded += 1
        work(lambda name: None)  # fills what is computed once, as the warm-up of a graph does
        tape = Tape()
        with tape.noting():
            result = work(tape.end)
        return _Replay(self, tape.pieces, result)


class _Replay:
    def __init__(self, owner: Replays, pieces: list[tuple[str, list[Step]]], result: Any) -> None:
        self._owner, self._pieces, self._result = owner, pieces, result

    def run(self, mark: Callable[[str], None]) -> Any:
        with _disable_current_modes():
            for name, steps in self._pieces:
                self._owner.busy = True
                for step in steps:
                    step()
                self._owner.busy = False
                mark(name)
        return self._result
