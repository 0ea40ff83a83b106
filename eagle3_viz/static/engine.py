"""The buffers of a target that stay where they are, and what was recorded over them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.fused_decoder import FusedDecoder
from eagle3_viz.static.drafting import Drafting
from eagle3_viz.static.mailbox import Inbox, Outbox
from eagle3_viz.static.placed import Placed, bucket_of, first_rows
from eagle3_viz.static.recorder import Recorded, Recorder, T, Work, recorder_for
from eagle3_viz.static.rules import ProposalBuffers, least_kept
from eagle3_viz.static.tree_buffers import TreeBuffers
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import DraftTree, Mark
from kernels.ancestor_bits import MAX_ROWS
from kernels.kv_commit import kv_commit
from kernels.verify import verify_greedy, verify_sample, verify_topk
from kernels.verify_buffers import HEADER, ROWS, VerifyBuffers

B = TypeVar("B")
MOST_RECORDINGS = 32  # each keeps its results in memory; the one unused for longest goes first


class Verification:
    """Everything that verifying trees of T nodes writes."""

    def __init__(self, nodes: int, target: TargetModel) -> None:
        self.tree = TreeBuffers(nodes, target.device)
        self.decided = VerifyBuffers.allocate(nodes, target.vocab_size, target.device)
        self.outbox = Outbox(HEADER + ROWS * nodes + 1, target.device)
        self.lone_root = self.tree.lone_root()

    def send(self) -> None:
        """The walk, then whether the draft is broken, to where one copy fetches them."""
        self.outbox.device[:-1].copy_(self.decided.result)
        self.outbox.device[-1:].copy_(self.tree.broken)


class Engine:
    """For texts of up to `capacity` rows, trees included. One run at a time.

    recorded: how many recordings were made.
    """

    def __init__(self, target: TargetModel, capacity: int, recorder: Recorder) -> None:
        assert isinstance(target.decoder, FusedDecoder)
        self.target, self.capacity, self.recorder = target, capacity, recorder
        self._decoder = target.decoder
        self.cache = target.new_cache(capacity)
        self.inbox = Inbox(MAX_ROWS, target.device)
        self._steps = torch.arange(MAX_ROWS, device=target.device)
        self._buffers: dict[Hashable, Any] = {}
        self._recordings: OrderedDict[Hashable, Recorded[Any]] = OrderedDict()
        self.recorded = 0

    def verification(self, nodes: int) -> Verification:
        """The buffers of trees of `nodes` nodes."""
        return self._kept(("verification", nodes), lambda: Verification(nodes, self.target))

    def proposal(self, nodes: int, draft: Draft, most_children: int) -> ProposalBuffers:
        """The buffers of what trees of `nodes` nodes are drawn from."""
        ids, vocabulary = draft.target_ids, self.target.vocab_size
        return self._kept(
            ("proposal", nodes, draft, most_children),
            lambda: ProposalBuffers(nodes, ids, vocabulary, most_children),
        )

    def features(self) -> torch.Tensor:
        """States at the present taps of the tree that was verified last, [T, K * d]."""
        taps, target = self.target.taps.boundaries, self.target
        shape = (MAX_ROWS, len(set(taps)) * target.hidden_size)
        return self._kept(
            ("features", taps),
            lambda: torch.zeros(shape, dtype=target.dtype, device=target.device),
        )

    def root_state(self, draft: FeatureDraft) -> torch.Tensor:
        """What `draft` feeds back at the root, [1, H]."""
        return self._kept(("root", draft), lambda: torch.zeros_like(draft.root_state))

    def drafted(
        self, draft: FeatureDraft, shape: TreeShape | FixedTree, length: int, *, take_over: bool
    ) -> Recorded[DraftTree]:
        """A tree behind `length` tokens, into the buffers of its size."""
        fed = shape.levels * shape.top_k if isinstance(shape, TreeShape) else shape.total
        rows = bucket_of(length + max(fed, 1 + shape.levels), self.capacity)

        # whoever decodes a longer text elsewhere may make the draft move to larger buffers
        key = (draft, draft.capacity, shape, rows, take_over)

        def work() -> Work[DraftTree]:
            drafting = Drafting(draft, self.inbox, rows, self.features(), self.root_state(draft))
            into = self.verification(shape.total).tree
            return lambda mark: drafting.tree(shape, into, mark, take_over=take_over)

        return self._recorded("drafted", key, work)

    def judged(
        self, nodes: int, length: int, sampling: Sampling, proposal: ProposalBuffers | None
    ) -> Recorded[torch.Tensor]:
        """Logits [T, V] of the tree in the buffers of `nodes`, and the verdict on it.

        A temperature of 0 is `greedy`, a proposal makes it `sample`, neither is `topk`.
        """
        rows = bucket_of(length + nodes, self.capacity)
        key = (nodes, rows, self.target.taps.boundaries, sampling, proposal)

        def work() -> Work[torch.Tensor]:
            verification, features = self.verification(nodes), self.features()

            def judge(mark: Mark) -> torch.Tensor:
                logits = self._forward(verification.tree, rows, features)
                mark("verify")
                self._decide(logits, verification, sampling, proposal)
                verification.send()
                mark("accept")
                return logits

            return judge

        return self._recorded("judged", key, work)

    def forget(self) -> None:
        """Drop all recordings and their buffers. They hold this object, and it holds them."""
        self._recordings.clear()
        self._buffers.clear()

    def keep(self, verification: Verification) -> None:
        """Move keys and values of the accepted path to where the committed text ends."""
        decided = verification.decided
        for buffer in self.cache.buffers:
            kv_commit(buffer, decided.path, decided.kept, self.inbox.length)

    def _forward(self, tree: TreeBuffers, rows: int, features: torch.Tensor) -> torch.Tensor:
        target, length, nodes = self.target, self.inbox.length, len(tree)
        tree.token[:1].copy_(self.inbox.root)
        layers = first_rows(self.cache.by_layer, rows)
        places = length + self._steps[:nodes]
        memory = Placed(layers, places, tree.mask(length), target.windows)
        positions = length + tree.depth
        states = self._decoder.over(tree.token[None], positions[None], memory)[0]
        taps = target.taps.take()
        if taps is not None:
            features[:nodes].copy_(taps[0])
        return target.logits(states)

    def _decide(
        self,
        logits: torch.Tensor,
        verification: Verification,
        sampling: Sampling,
        proposal: ProposalBuffers | None,
    ) -> None:
        tree, out, draws = verification.tree, verification.decided, self.inbox.uniforms
        if sampling.temperature == 0.0:
            return verify_greedy(logits, tree.token, tree.parent, out)
        least, heat = least_kept(logits, sampling), sampling.temperature
        if proposal is None:
            return verify_topk(
                logits, tree.token, tree.parent, draws, out, temperature=heat, least=least
            )
        drawn = proposal.proposal
        return verify_sample(
            logits, tree.token, tree.parent, draws, drawn, out, temperature=heat, least=least
        )

    def _kept(self, key: Hashable, make: Callable[[], B]) -> B:
        if key not in self._buffers:
            self._buffers[key] = make()
        buffers: B = self._buffers[key]
        return buffers

    def _recorded(
        self, kind: str, about: tuple[Hashable, ...], work: Callable[[], Work[T]]
    ) -> Recorded[T]:
        """What was recorded of this kind, or what `work` gives, recorded now.

        A cycle needs the results of each kind until its end, and runs one recording of each.
        """
        key = (kind, *about)
        if key not in self._recordings:
            while len(self._recordings) >= MOST_RECORDINGS:
                self._recordings.popitem(last=False)
            self._recordings[key] = self.recorder.record(work(), kind)
            self.recorded += 1
        self._recordings.move_to_end(key)
        return self._recordings[key]


def engine_for(target: TargetModel, rows: int, recorder: Recorder | None) -> Engine:
    """The target's engine, or a new one when that is too small or a recorder is given."""
    found: Engine | None = target.engine
    if found is not None and recorder is None and found.capacity >= rows:
        return found
    if found is not None:  # its memory is free before the next one takes more
        found.forget()
        found = target.engine = None
        target.clear()
    capacity = bucket_of(rows, target.context_limit + MAX_ROWS)
    engine = target.engine = Engine(target, capacity, recorder or recorder_for(target.device))
    return engine
