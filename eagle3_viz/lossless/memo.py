"""A target and drafts that start again from one prefix, and repeat no forward (MATH.md 5.2).

Thousands of texts are drawn from the same prefix, so most forwards would be made many times over.
Here each is made once and its results are put where the forward would have put them: logits and
features into what is returned, keys and values into the target's cache. The key of a result is
everything it depends on, earlier trees included, so that a run with the memo equals, bit for bit,
one without. Drawing, building trees, accepting, keeping a path in the cache and taking over what
was verified is the engine's own code in every run.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.sampling import Draws
from eagle3_viz.target import Step, TargetModel
from eagle3_viz.tree import DraftTree, Mark

TARGET_BYTES = 1_000_000_000
DRAFT_BYTES = 300_000_000
"""What the memos may hold; the results that were not used for longest go first."""

T = TypeVar("T")


class _Memo(Generic[T]):
    """Results by key, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._results: OrderedDict[Any, tuple[T, int]] = OrderedDict()

    def get(self, key: Any) -> T | None:
        if key not in self._results:
            return None
        self._results.move_to_end(key)
        return self._results[key][0]

    def put(self, key: Any, result: T, size: int) -> None:
        self._results[key] = (result, size)
        self._held += size
        while self._held > self._limit:
            _, (_, freed) = self._results.popitem(last=False)
            self._held -= freed


@dataclass(frozen=True)
class _Verified:
    """What one verification gave and left behind: rows of the cache, one tensor a device."""

    step: Step
    rows: list[torch.Tensor]

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for t in (self.step.logits, self.step.features, *self.rows))


class MemoTarget:
    """Stands in for `TargetModel` in a `Loop`: verifies each tree once after the same texts.

    What is not here is the target's own.
    """

    def __init__(self, target: TargetModel, limit: int = TARGET_BYTES) -> None:
        self._target = target
        self._memo: _Memo[_Verified] = _Memo(limit)
        self._length = 0
        self._past: tuple[Any, ...] = ()  # every tree verified since the prefix, and its path
        self._newest: tuple[Any, ...] = ()
        self.forwards = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def prefill(self, token_ids: Sequence[int]) -> Step:
        """As `TargetModel.prefill`; `rewind` comes back to here."""
        step = self._target.prefill(token_ids)
        self._length, self._past = len(token_ids), ()
        return step

    def rewind(self) -> None:
        """Forget what was committed after the prefix."""
        self._target.cache.set_length(self._length)
        self._past = ()

    @torch.inference_mode()
    def verify(self, tree: DraftTree) -> Step:
        """As `TargetModel.verify`: a forward for a tree that is new here, else its results."""
        tokens, parents = torch.stack([tree.token, tree.parent]).tolist()
        self._newest = (*self._past, tuple(tokens), tuple(parents))
        known = self._memo.get(self._newest)
        if known is not None:
            self._target.cache.append(known.rows)
            return known.step
        self.forwards += 1
        step = self._target.verify(tree)
        made = _Verified(step, self._target.cache.appended(len(tree)))
        self._memo.put(self._newest, made, made.bytes)
        return step

    def commit(self, path: Sequence[int], features: torch.Tensor) -> torch.Tensor:
        """As `TargetModel.commit`."""
        self._past = (*self._newest, tuple(path))
        return self._target.commit(path, features)


class RestartedDraft:
    """A draft without a distribution, such as prompt lookup: `rewind` has it read the prefix anew.

    Implements `Draft`.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.methods, self.boundaries = draft.methods, draft.boundaries
        self.vocabulary_size, self.target_ids = draft.vocabulary_size, draft.target_ids
        self._first = -1
        self._prefix: tuple[torch.Tensor, list[int]] | None = None

    def start(self, first: int) -> None:
        """A new text begins."""
        self._first, self._prefix = first, None
        self._draft.start(first)

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Take over verified positions; as `Draft.extend`. The first ones are the prefix."""
        if self._prefix is None:
            self._prefix = features, tokens
        self._draft.extend(features, tokens)

    def rewind(self) -> None:
        """Forget what came after the prefix."""
        assert self._prefix is not None
        self._draft.start(self._first)
        self._draft.extend(*self._prefix)

    def propose(self, root: int, tree: TreeShape | FixedTree, mark: Mark) -> DraftTree:
        """As `Draft.propose`."""
        return self._draft.propose(root, tree, mark)

    def propose_sampled(
        self, root: int, tree: TreeShape | FixedTree, sampling: Sampling, draws: Draws, mark: Mark
    ) -> DraftTree:
        """As `Draft.propose_sampled`."""
        return self._draft.propose_sampled(root, tree, sampling, draws, mark)


@dataclass(frozen=True)
class _Told:
    """Something the draft was told, and a digest of that and all it was told before."""

    digest: bytes
    inputs: tuple[Any, ...]


class MemoDraft(SteppedDraft):
    """Wraps a draft with a distribution; the builders of trees drive this one.

    The wrapped draft hears what it was told only when a result is missing, and starts again where
    it stands elsewhere. Implements `Draft` and `Stepper`.
    """

    def __init__(self, draft: SteppedDraft, limit: int = DRAFT_BYTES) -> None:
        own: Any = draft  # a Draft as well
        self._draft, self._memo = own, _Memo[torch.Tensor](limit)
        self.methods, self.boundaries = own.methods, own.boundaries
        self.vocabulary_size, self.target_ids = own.vocabulary_size, own.target_ids
        self._first = -1
        self._read: list[_Told] = []  # verified positions, the prefix first
        self._fed: list[_Told] = []  # levels of a tree
        self._heard: list[bytes] = []  # digests of what the wrapped draft has read
        self._heard_fed: list[bytes] | None = None  # and was fed since; None before `root_logits`

    def start(self, first: int) -> None:
        """A new text begins."""
        self._first, self._read, self._fed, self._heard = first, [], [], []

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Take over verified positions; as `Draft.extend`."""
        digest = _digest("read", self._read, features, torch.tensor(tokens))
        self._read.append(_Told(digest, (features, tokens)))

    def rewind(self) -> None:
        """Forget what came after the prefix."""
        del self._read[1:]

    def root_logits(self) -> torch.Tensor:
        """As `Stepper.root_logits`; starts a new tree."""
        self._fed = []
        return self._result(self._read[-1].digest)

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """As `Stepper.step`."""
        before = self._fed or self._read
        digest = _digest("fed", before, draft_ids, parents, torch.tensor([level]))
        self._fed.append(_Told(digest, (draft_ids, parents, level)))
        return self._result(digest)

    def _result(self, digest: bytes) -> torch.Tensor:
        known = self._memo.get(digest)
        if known is None:
            known = self._ask()
            self._memo.put(digest, known, known.nbytes)
        return known

    def _ask(self) -> torch.Tensor:
        """Tell the wrapped draft what it has not heard; its newest logits."""
        self._catch_up()
        fed = [told.digest for told in self._fed]
        heard = self._heard_fed
        if heard is None or len(heard) >= len(fed) or heard != fed[: len(heard)]:
            logits, heard = self._draft.root_logits(), []
        for told in self._fed[len(heard) :]:
            logits = self._draft.step(*told.inputs)
        self._heard_fed = fed
        return logits

    def _catch_up(self) -> None:
        """The wrapped draft reads what is verified, from the start where it read something else."""
        read = [told.digest for told in self._read]
        if self._heard == read:
            return
        if not self._heard or self._heard != read[: len(self._heard)]:
            self._draft.start(self._first)
            self._heard = []
        for told in self._read[len(self._heard) :]:
            self._draft.extend(*told.inputs)
        self._heard, self._heard_fed = read, None


def _digest(kind: str, before: Sequence[_Told], *tensors: torch.Tensor) -> bytes:
    """Of tensors, their shapes, what they are told as, and everything told before."""
    hashed = hashlib.blake2b(before[-1].digest if before else b"", digest_size=16)
    hashed.update(repr((kind, [tuple(tensor.shape) for tensor in tensors])).encode())
    for tensor in tensors:
        hashed.update(tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return hashed.digest()
