"""The target's own distribution of the texts that follow a prefix, without tree or cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eagle3_viz.config import DecodeConfig, Sampling
from eagle3_viz.decode import decode
from eagle3_viz.lossless.chi_square import Text
from eagle3_viz.records import Prefill
from eagle3_viz.sampling import warp
from eagle3_viz.target import TargetModel

SEARCHED = 40  # tokens of the answer among which a prefix is looked for
OPEN = 1.5  # nats: three tokens of this entropy make some dozens of likely texts
_BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Prefix:
    """A fixed beginning: token ids that are in the cache, and the root, decided but not in it."""

    ids: tuple[int, ...]
    root: int


class ExactTexts:
    """p after a prefix and a text, by plain causal forwards of whole texts, each made once."""

    def __init__(self, target: TargetModel, prefix: Prefix) -> None:
        self._target, self._prefix = target, prefix
        self._logits: dict[Text, torch.Tensor] = {}  # [V] each

    def joint(
        self, sampling: Sampling, length: int, least: float, end: frozenset[int]
    ) -> dict[Text, float]:
        """Probability of every text of `length` tokens that has at least `least`.

        An `end` of sequence ends a text early. Texts that begin rarer are not followed up.
        """
        finished: dict[Text, float] = {}
        growing: dict[Text, float] = {(): 1.0}
        for _ in range(length):
            rows = warp(self.logits(list(growing)), sampling).double()
            longer = {
                (*text, token): mass * float(row[token])
                for (text, mass), row in zip(growing.items(), rows, strict=True)
                for token in (row * mass >= least).nonzero()[:, 0].tolist()
            }
            finished |= {text: mass for text, mass in longer.items() if text[-1] in end}
            growing = {text: mass for text, mass in longer.items() if text[-1] not in end}
            if not growing:
                break
        return finished | growing

    @torch.inference_mode()
    def logits(self, texts: Sequence[Text]) -> torch.Tensor:
        """The target's logits [B, V] after the prefix and each of B texts of one length."""
        missing = [text for text in texts if text not in self._logits]
        start = [*self._prefix.ids, self._prefix.root]
        self._target.taps.select(self._target.default_boundaries)
        size = max(1, _BATCH_TOKENS // (len(start) + 3))
        for first in range(0, len(missing), size):
            batch = missing[first : first + size]
            _, hidden = self._target.read(torch.tensor([[*start, *text] for text in batch]))
            rows = self._target.logits(hidden[:, -1])
            self._logits |= zip(batch, rows, strict=True)
        return torch.stack([self._logits[text] for text in texts])


@torch.inference_mode()
def open_prefix(target: TargetModel, prompt_ids: Sequence[int], length: int = 3) -> Prefix:
    """A beginning of the target's greedy answer after which `length` tokens are open choices.

    Taken where the mean entropy of p_raw of these tokens comes closest to `OPEN`: a text that is
    certain proves nothing, and in one that is all open every text is too rare to be counted.
    """
    config = DecodeConfig(method="ar", max_new_tokens=SEARCHED, record="off")
    ids = list(prompt_ids)
    for record in decode(target, None, prompt_ids, config):
        ids += [record.token] if isinstance(record, Prefill) else record.tokens
    target.taps.select(target.default_boundaries)
    _, hidden = target.read(torch.tensor([ids]))
    log_p = target.logits(hidden[0, len(prompt_ids) :]).float().log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1)  # of what follows each token of the answer
    means = entropy.unfold(0, min(length, len(entropy)), 1).mean(-1)
    at = len(prompt_ids) + int((means - OPEN).abs().argmin())
    return Prefix(tuple(ids[:at]), ids[at])
