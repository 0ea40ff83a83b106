"""The cycle: features, draft, verify, accept, commit; one record each time round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from eagle3_viz.acceptance import (
    Decision,
    Verdict,
    accept_greedy,
    accept_sample,
    accept_topk,
    accept_typical,
)
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.drafts.base import Draft
from eagle3_viz.endings import Endings
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.recording import observe
from eagle3_viz.records import Cycle, Prefill, Timing
from eagle3_viz.sampling import Draws, arg_max, precise, warp
from eagle3_viz.target import Step, TargetModel
from eagle3_viz.timer import PhaseTimer
from eagle3_viz.tree import DraftTree, root_only


@dataclass
class Loop:
    """The state between cycles: the next root, and verified features the draft has not seen.

    A subclass may bring another `propose` or `accept`: that is how wrong ones are tested.
    """

    target: TargetModel
    draft: Draft | None
    config: DecodeConfig

    def __post_init__(self) -> None:
        self.timer = PhaseTimer(self.target.device)
        self.draws = Draws(self.config.seed)
        self.root = -1
        self.unseen: tuple[torch.Tensor, list[int]] | None = None

    @torch.inference_mode()
    def prefill(self, prompt_ids: list[int], endings: Endings) -> Prefill:
        """Both models read the prompt; p decides the first root."""
        self.timer.start()
        self.target.taps.select(() if self.draft is None else self.draft.boundaries)
        step = self.read_prompt(prompt_ids, endings)
        p = warp(step.logits[-1], self.config.sampling)
        greedy = self.config.rule == "greedy"
        self.root = int(p.argmax()) if greedy else int(self.draws.token(p))
        refuse_nan(None, p)
        self.timer.mark("target")
        if self.draft is not None:
            self.draft.start(prompt_ids[0])
            self.draft.extend(step.features, [*prompt_ids[1:], self.root])
        self.timer.mark("draft")
        (_, target_ms), (_, draft_ms) = self.timer.laps()
        _, finish = endings.admit([self.root], len(prompt_ids))
        return Prefill(
            len(prompt_ids), self.root, target_ms, draft_ms, finish, draws=self.draws.take()
        )

    def cycles(self, endings: Endings) -> Iterator[Cycle]:
        """Rounds until the text ends."""
        finish, index = None, 0
        while finish is None:
            cycle = self.cycle(index, endings)
            yield cycle
            finish, index = cycle.finish, index + 1

    @torch.inference_mode()
    def cycle(self, index: int, endings: Endings) -> Cycle:
        """One round. The five steps of the paper, in order."""
        n, root = self.target.cache.length, self.root
        self.timer.start()
        tree = self.propose(n)
        step, decision = self.judge(tree)
        verdict = decision.verdict
        self.commit(step, verdict)
        self.root = verdict.token
        kept, finish = endings.admit(verdict.tokens, self.target.cache.length)
        self.timer.mark("commit")
        seen = observe(self.config, tree, step.logits, decision, self.draft)
        self.timer.mark("record")
        laps = self.timer.laps()
        return Cycle(
            index=index,
            prefix_length=n,
            root=root,
            tokens=verdict.tokens[:kept],
            origins=verdict.origins[:kept],
            accepted=len(verdict.path) - 1,
            path=verdict.path,
            verified=len(tree),
            drafted=0 if tree.pool is None else len(tree.pool.token),
            draft_forwards=max(0, len(timing(laps).draft_levels) - (index == 0)),
            timing=timing(laps),
            draws=self.draws.take(),
            cut=kept < len(verdict.tokens),
            finish=finish,
            nodes=seen.nodes,
            pool=seen.pool,
            distributions=seen.distributions,
            miss=seen.miss,
        )

    def read_prompt(self, prompt_ids: list[int], endings: Endings) -> Step:
        """The target's forward over the prompt."""
        return self.target.prefill(prompt_ids)

    def shape(self, n: int) -> TreeShape | FixedTree | None:
        """The tree to draft behind n committed tokens, None where nothing can be."""
        tree, draft = self.config.tree, self.draft
        levels = min(tree.levels, self.target.context_limit - 1 - n)
        if draft is None or levels < 1:
            return None
        return tree.clipped(levels=levels, top_k=draft.vocabulary_size)

    def propose(self, n: int) -> DraftTree:
        """The draft takes over what was verified last, then guesses below the root."""
        config, draft, tree = self.config, self.draft, self.shape(n)
        if draft is None or tree is None:
            return root_only(self.root, self.target.device)
        if self.unseen is not None:
            draft.extend(*self.unseen)
            self.unseen = None
        if config.rule != "sample":
            return draft.propose(self.root, tree, self.timer.mark)
        sampling = config.draft_sampling
        return draft.propose_sampled(self.root, tree, sampling, self.draws, self.timer.mark)

    def judge(self, tree: DraftTree) -> tuple[Step, Decision]:
        """The target's forward over the tree, with precise logits, and what the rule decides."""
        step = self.target.verify(tree)
        self.timer.mark("verify")
        step = Step(precise(step.logits), step.features)
        decision = self.accept(tree, step.logits)
        refuse_nan(tree, _looked_at(step.logits, decision))
        self.timer.mark("accept")
        return step, decision

    def commit(self, step: Step, verdict: Verdict) -> None:
        """Keep the accepted path; its features are for the draft to take over."""
        features = self.target.commit(verdict.path, step.features)
        self.unseen = features, list(verdict.tokens)

    def accept(self, tree: DraftTree, logits: torch.Tensor) -> Decision:
        """What the configured rule makes of logits [T, V]."""
        rule = self.config.rule
        if rule == "greedy":
            best = arg_max(logits)
            return Decision(accept_greedy(tree, best), best)
        p = warp(logits, self.config.sampling)
        if rule == "typical":
            return Decision(accept_typical(tree, p, self.draws), p=p)
        if rule == "topk" or self.draft is None or len(tree) == 1:
            return Decision(accept_topk(tree, p, self.draws), p=p)
        q = spread_q(tree, self.draft, p.shape[-1])
        return Decision(accept_sample(tree, p, q, self.draws), p=p, q=q)


def _looked_at(logits: torch.Tensor, decision: Decision) -> torch.Tensor:
    """What the rule saw of the visited nodes: p, or under greedy the largest logit, which is NaN
    where any logit is."""
    path = list(decision.verdict.path)
    if decision.p is not None:
        return decision.p[path]
    assert decision.best is not None
    return logits[path, decision.best[path]]


def refuse_nan(tree: DraftTree | None, visited: torch.Tensor) -> None:
    """Raise FloatingPointError naming the model whose values are not numbers.

    visited: the target's values at the nodes that decided something. Comparisons with NaN are
    false, so a broken model would look like a bad one.
    """
    scores = visited[:0] if tree is None or tree.pool is None else tree.pool.score
    broken = torch.stack([scores.isnan().any(), visited.isnan().any()]).tolist()
    refuse_broken(draft=broken[0], target=broken[1])


def refuse_broken(*, draft: bool, target: bool) -> None:
    """Raise FloatingPointError naming the model that computed values that are not numbers."""
    for name, is_broken in (("draft", draft), ("target", target)):
        if is_broken:
            raise FloatingPointError(
                f"the {name} computed NaN: its weights are damaged or its number format "
                "overflows; try float32"
            )


def spread_q(tree: DraftTree, draft: Draft, vocabulary: int) -> torch.Tensor:
    """q of each expanded node over the target's vocabulary, [E, V]; zero outside the draft's."""
    logprobs = torch.cat(tree.q_logprobs)
    ids = draft.target_ids
    q = logprobs.new_zeros(len(logprobs), vocabulary)
    q[:, ids] = logprobs.exp()
    return q


def timing(laps: Sequence[tuple[str, float]]) -> Timing:
    """Sum laps of the same phase; drafting stays apart by level."""
    total = dict.fromkeys(("tree", "verify", "accept", "commit", "record"), 0.0)
    for name, ms in laps:
        if name != "draft":
            total[name] += ms
    return Timing(draft_levels=tuple(ms for name, ms in laps if name == "draft"), **total)
