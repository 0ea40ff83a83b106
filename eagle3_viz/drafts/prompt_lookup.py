"""Prompt lookup: the text repeats itself, so copy what followed last time. No model at all."""

from __future__ import annotations

import torch

from eagle3_viz.config import Method, Sampling, TreeShape
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import CandidatePool, DraftTree, Mark, root_only, whole_pool

LONGEST, SHORTEST = 3, 1
"""Lengths of the n-grams that are looked up, longest first."""


class PromptLookupDraft:
    """Proposes a chain: what followed the latest earlier occurrence of the last n tokens.

    The longest n with an earlier occurrence wins. q is a point mass, so nothing can be drawn from
    it: the rule is `topk` or `greedy`.
    """

    methods: tuple[Method, ...] = ("lookup",)
    boundaries: tuple[int, ...] = ()

    def __init__(self, vocabulary_size: int, device: torch.device) -> None:
        self.vocabulary_size = vocabulary_size
        self.target_ids = torch.arange(vocabulary_size, device=device)
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}

    def start(self, first: int) -> None:
        """A new text begins."""
        self._tokens, self._ends = [first], {}

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Take over verified tokens; what they continue can be found from now on."""
        for token in tokens:
            end = len(self._tokens)
            for n in range(SHORTEST, min(LONGEST, end) + 1):
                self._ends[tuple(self._tokens[-n:])] = end
            self._tokens.append(token)

    def propose(self, root: int, tree: TreeShape | FixedTree, mark: Mark) -> DraftTree:
        """A chain as deep as `tree` allows; the root alone where nothing repeats."""
        guess = self.copied(min(tree.levels, tree.total - 1))
        mark("draft")
        if not guess:
            return root_only(root, self.target_ids.device)
        built = self._chain(root, guess, tree.levels)
        mark("tree")
        return built

    def propose_sampled(
        self, root: int, tree: TreeShape | FixedTree, sampling: Sampling, draws: Draws, mark: Mark
    ) -> DraftTree:
        """Raises ValueError: a point mass is not drawn from (`DecodeConfig` refuses it before)."""
        raise ValueError("prompt lookup copies text: its rule is topk, not sample")

    def copied(self, count: int) -> list[int]:
        """Up to `count` tokens that followed the longest n-gram at the end when it last stood."""
        for n in range(min(LONGEST, len(self._tokens)), SHORTEST - 1, -1):
            end = self._ends.get(tuple(self._tokens[-n:]))
            if end is not None:
                return self._tokens[end : end + count]
        return []

    def _chain(self, root: int, guess: list[int], levels: int) -> DraftTree:
        """Every copied token is certain: log q is 0, and nothing ranks before it."""
        token = torch.tensor(guess, device=self.target_ids.device)
        index, zeros = torch.arange(len(guess), device=token.device), torch.zeros_like(token)
        pool = CandidatePool(
            token=token,
            parent=index - 1,
            depth=index + 1,
            rank=zeros,
            logprob=zeros.float(),
            score=zeros.float(),
        )
        q = torch.full((len(guess), self.vocabulary_size), float("-inf"), device=token.device)
        q[index, token] = 0.0
        return whole_pool(root, pool, expanded=index - 1, q_logprobs=(q,), levels=levels)
