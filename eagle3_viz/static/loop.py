"""The cycle over fixed buffers: one copy to the device, recordings, one copy back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from eagle3_viz.acceptance import Decision, Verdict
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.endings import Endings
from eagle3_viz.fused_decoder import FusedDecoder
from eagle3_viz.loop import Loop, refuse_broken, spread_q
from eagle3_viz.records import Prefill
from eagle3_viz.sampling import arg_max, warp
from eagle3_viz.static.engine import engine_for
from eagle3_viz.static.recorder import Recorded, Recorder, T
from eagle3_viz.static.rules import ProposalBuffers, verdict_of
from eagle3_viz.static.tree_buffers import nodes_for
from eagle3_viz.target import Step, TargetModel
from eagle3_viz.tree import DraftTree
from kernels import implementation
from kernels.ancestor_bits import MAX_ROWS
from kernels.verify_buffers import read_walk


def runs_static(target: TargetModel, draft: Draft | None, config: DecodeConfig) -> bool:
    """Whether a `StaticLoop` can run this: where Triton runs, on models and trees it is made for.

    `typical` decides on the host. Raises what `kernels.implementation` raises.
    """
    shape = config.tree
    fed = shape.levels * shape.top_k if isinstance(shape, TreeShape) else shape.total
    return (
        implementation(target.device.type) == "triton"
        and isinstance(target.decoder, FusedDecoder)
        and target.decoder.turns_by_position
        and target.dtype != torch.float64
        and config.rule != "typical"
        and (draft is None or max(fed, shape.total) <= MAX_ROWS)
    )


@dataclass
class StaticLoop(Loop):
    """Same records as `Loop`, given the same draws, up to the rounding of other kernels.

    The host waits for the device once a cycle, when it reads the verdict. A draft that is no
    `FeatureDraft`, and a tree that is drawn, still come as they do in `Loop`. recorder: CUDA
    graphs on a GPU where it is not given.
    """

    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = None if self.config.rule == "sample" else self.draft
        self._drafting = chosen if isinstance(chosen, FeatureDraft) else None
        self._last: Verdict | None = None

    def prefill(self, prompt_ids: list[int], endings: Endings) -> Prefill:
        """As `Loop.prefill`, into buffers that have room for the whole text."""
        record = super().prefill(prompt_ids, endings)
        if self._drafting is not None:
            with torch.inference_mode():
                root_state = self._engine.root_state(self._drafting)
                root_state.copy_(self._drafting.root_state)
        return record

    def read_prompt(self, prompt_ids: list[int], endings: Endings) -> Step:
        """As `Loop.read_prompt`."""
        end = min(len(prompt_ids) + self.config.max_new_tokens, self.target.context_limit)
        self._engine = engine_for(self.target, end + MAX_ROWS, self.recorder)
        if self._drafting is not None:
            self._drafting.reserve(self._engine.capacity)
        return self.target.prefill(prompt_ids, self._engine.cache)

    def propose(self, n: int) -> DraftTree:
        """As `Loop.propose`; the tree is in the buffers of its size, too."""
        if self.draft is not None and self._drafting is None:
            tree = super().propose(n)
            self._aim(nodes_for(tree), n)
            self._verification.tree.take(tree)
            return tree
        shape = self.shape(n)
        self._aim(1 if shape is None else shape.total, n)
        if shape is None or self._drafting is None:
            return self._verification.lone_root
        drafting, take_over = self._drafting, self._last is not None
        return self._run(lambda: self._engine.drafted(drafting, shape, n, take_over=take_over))

    def _run(self, find: Callable[[], Recorded[T]]) -> T:
        """Run a recording. Making it, once for many cycles, belongs to the time of none."""
        before = self._engine.recorded
        found = find()
        if self._engine.recorded > before:
            self.timer.skip()
        return found.run(self.timer.mark)

    def _aim(self, nodes: int, n: int) -> None:
        """Choose the buffers of this cycle and tell the device where it stands."""
        self._verification = self._engine.verification(nodes)
        draws = [] if self.config.rule == "greedy" else self.draws.ahead(nodes)
        last = self._last
        if last is None:
            self._engine.inbox.send(length=n, root=self.root, draws=draws)
        else:
            self._engine.inbox.send(
                length=n, root=self.root, draws=draws, path=last.path, tokens=last.tokens
            )

    def judge(self, tree: DraftTree) -> tuple[Step, Decision]:
        """As `Loop.judge`, logits as they came; what is kept moves before the host knows of it."""
        engine, verification = self._engine, self._verification
        nodes, n = len(verification.tree), self.target.cache.length
        proposal = self._proposal(tree, nodes)
        logits = self._run(lambda: engine.judged(nodes, n, self.config.sampling, proposal))
        engine.keep(verification)
        verification.outbox.fetch()
        self.timer.mark("commit")
        self.timer.settle()
        outbox = verification.outbox
        walk = read_walk(outbox.host[:-1])
        refuse_broken(draft=bool(outbox.numbers[-1]), target=walk.broken)
        verdict = verdict_of(walk, self._used(len(walk.tested)))
        step = Step(logits[: len(tree)], engine.features()[: len(tree)])
        return step, self._decision(tree, step.logits, verdict)

    def commit(self, step: Step, verdict: Verdict) -> None:
        """As `Loop.commit`: keys and values were moved already."""
        cache = self.target.cache
        cache.set_length(cache.length + len(verdict.path))
        self._last = verdict
        if self.draft is not None and self._drafting is None:
            rows = torch.tensor(verdict.path, device=step.features.device)
            self.unseen = step.features[rows], list(verdict.tokens)

    def _proposal(self, tree: DraftTree, nodes: int) -> ProposalBuffers | None:
        """What the tree was drawn from, in its buffers; None unless the rule is `sample`."""
        if self.config.rule != "sample" or self.draft is None or len(tree) == 1:
            return None
        shape = self.config.tree
        most = shape.top_k if isinstance(shape, TreeShape) else max(shape.children().values())
        proposal = self._engine.proposal(nodes, self.draft, most)
        proposal.take(tree)
        return proposal

    def _used(self, tests: int) -> list[float]:
        """The draws of the tests; that of the decided token counts as drawn with them."""
        if self.config.rule == "greedy":
            return [math.nan] * tests
        used = [self.draws.uniform() for _ in range(tests)]
        self.draws.uniform()
        return used

    def _decision(self, tree: DraftTree, logits: torch.Tensor, verdict: Verdict) -> Decision:
        """What the rule looked at is worked out again where it is recorded."""
        if self.config.record == "off":
            return Decision(verdict)
        if self.config.rule == "greedy":
            return Decision(verdict, best=arg_max(logits))
        p = warp(logits, self.config.sampling)
        if self.config.rule != "sample" or self.draft is None or len(tree) == 1:
            return Decision(verdict, p=p)
        return Decision(verdict, p=p, q=spread_q(tree, self.draft, p.shape[-1]))
