"""A tiny pair with a draft of every kind, over so few tokens that every text can be counted."""

from __future__ import annotations

from functools import cache

from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.independent import IndependentDraft
from eagle3_viz.drafts.prompt_lookup import PromptLookupDraft
from eagle3_viz.lossless.exact import Prefix
from eagle3_viz.pairs import LoadedDraft, LoadedPair
from eagle3_viz.target import TargetModel
from eagle3_viz.trace import ModelSource
from tests.test_run import tokenizer
from tests.tiny_models import random_ids, tiny_draft, tiny_target

SOURCE = ModelSource("tiny", "folder", "", "", 1)
SMALL = 6
PREFIX = Prefix(tuple(random_ids(9, 5, SMALL)), 2)


def pair_of(target: TargetModel, *drafts: Draft) -> LoadedPair:
    return LoadedPair(
        name="tiny",
        target=target,
        drafts=tuple(LoadedDraft(draft, SOURCE) for draft in drafts),
        tokenizer=target.tokenizer,
        target_source=SOURCE,
        dtype_reason="float32: tests",
    )


@cache
def small_pair() -> LoadedPair:
    """Six tokens; EAGLE-3 with four of them, an independent draft, prompt lookup."""
    target = tiny_target(vocab_size=SMALL, seed=4, sharpness=0.7, num_hidden_layers=7)
    other = tiny_target(vocab_size=SMALL, seed=7, sharpness=0.7, num_hidden_layers=2)
    return pair_of(
        target,
        tiny_draft(target, draft_vocab_size=4),
        IndependentDraft(other, SMALL),
        PromptLookupDraft(SMALL, target.device),
    )


@cache
def chat_pair() -> LoadedPair:
    """Bytes and a chat template, for texts that begin with a prompt."""
    target = tiny_target(vocab_size=264, seed=3, tokenizer=tokenizer())
    lookup = PromptLookupDraft(target.vocab_size, target.device)
    return pair_of(target, tiny_draft(target, draft_vocab_size=200), lookup)
