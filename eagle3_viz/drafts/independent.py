"""Vanilla speculation's draft: a smaller causal LM of its own, with the target's tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from eagle3_viz.config import Method
from eagle3_viz.drafts.draft_folder import CheckpointError
from eagle3_viz.drafts.fed_tree import FedTree
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.target import TargetError, TargetModel
from eagle3_viz.wording import counted

NAMED_DIFFERENCES = 3
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")


class IndependentDraft(SteppedDraft):
    """Reads tokens, not the target's states. Implements `Draft` and `Stepper`.

    Its cache holds the verified tokens, the root included, and the fed part of a tree behind
    them; the next `extend` rolls the tree back.
    """

    methods: tuple[Method, ...] = ("independent",)
    boundaries: tuple[int, ...] = ()

    def __init__(self, model: TargetModel, vocabulary_size: int) -> None:
        model.taps.select(())
        self._model = model
        self.vocabulary_size = min(vocabulary_size, model.vocab_size)
        self.target_ids = torch.arange(self.vocabulary_size, device=model.device)
        self._fed = FedTree(model.device)
        self._unfed: list[int] = []
        self._root_logits = torch.empty(0)

    @classmethod
    def load(cls, folder: Path, target: TargetModel) -> IndependentDraft:
        """Read a model folder for `target`. Raises CheckpointError when it does not fit.

        A folder without a tokenizer holds a model made for this target's.
        """
        own = any((folder / name).is_file() for name in TOKENIZER_FILES)
        try:
            model = TargetModel.load(
                folder,
                dtype=target.dtype,
                device=target.device,
                tokenizer=None if own else target.tokenizer,
            )
        except TargetError as error:
            raise CheckpointError(f"the draft model cannot be used: {error}") from error
        refuse_other_tokenizer(target.tokenizer, model.tokenizer)
        if model.vocab_size < len(target.tokenizer):
            raise CheckpointError(
                f"the draft model has {model.vocab_size} tokens, the target's tokenizer "
                f"{len(target.tokenizer)}: it was made for another target"
            )
        return cls(model, target.vocab_size)

    @property
    def parameters(self) -> int:
        """Its own parameters; tied ones count once."""
        return sum(tensor.numel() for tensor in self._model.model.parameters())

    def start(self, first: int) -> None:
        """A new text begins."""
        self._model.clear()
        self._unfed = [first]

    @torch.inference_mode()
    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Run m verified tokens; the features are not read."""
        model, cache = self._model, self._model.cache
        new, n = [*self._unfed, *tokens], cache.length
        self._unfed = []
        cache.roll_back()
        keys = torch.arange(n + len(new), device=model.device)
        visible = None
        if n and len(new) > 1:
            visible = keys[None] <= keys[n:, None]
        step = model.append(self._known(torch.tensor(new)), keys[n:], visible, keys, keep=1)
        cache.set_length(n + len(new))
        self._fed.clear()
        self._root_logits = self._logits(step.logits)[0]

    def root_logits(self) -> torch.Tensor:
        """Logits [DV] after the last verified token, float32; starts a new tree."""
        self._fed.clear()
        self._model.cache.roll_back()
        return self._root_logits

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """Feed m tokens of the tree; logits [m, DV], float32; as `Stepper.step`."""
        n = self._model.cache.length
        visible = self._fed.add(parents, level, n)
        keys = self._fed.key_positions(n, n - 1)
        step = self._model.append(draft_ids, keys[-len(draft_ids) :], visible, keys)
        return self._logits(step.logits)

    def _logits(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, : self.vocabulary_size].float()

    def _known(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids beyond this model's table are rows that pad the target's: no token has them."""
        return ids.to(self._model.device).clamp(max=self._model.vocab_size - 1)


def refuse_other_tokenizer(target: Any, draft: Any) -> None:
    """Raise CheckpointError naming tokens that the two tokenizers number differently."""
    ours, theirs = target.get_vocab(), draft.get_vocab()
    if ours == theirs:
        return
    different = [t for t in {**ours, **theirs} if ours.get(t) != theirs.get(t)]
    different.sort(key=lambda token: ours.get(token, len(ours) + theirs.get(token, 0)))
    named = ", ".join(
        f"{token!r} is {_number(ours, token)} in the target's and {_number(theirs, token)} in the "
        "draft's"
        for token in different[:NAMED_DIFFERENCES]
    )
    raise CheckpointError(
        "the draft model has another tokenizer than the target: they differ in "
        f"{counted(len(different), 'token')} ({named}); an independent draft needs the target's "
        "tokenizer"
    )


def _number(vocabulary: dict[str, int], token: str) -> str:
    return str(vocabulary[token]) if token in vocabulary else "missing"
