"""Questions that the target writes itself: the chat template up to the open user turn, a few words.

What a target was trained on is not at hand, but it can be asked what people ask it: its own
questions come out in its own distribution. Nothing here knows a particular template; the strings
around the user's words are read off a rendering with a marker in their place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eagle3_viz.config import Sampling
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.generate import Completion, Request, common_length
from eagle3_viz.training.openers import OPENERS
from eagle3_viz.training.prompts import Prompt

SYSTEMS = (
    "You are a helpful assistant.",
    "You are a patient teacher who explains things simply.",
    "You are an expert programmer and mathematician. Be precise.",
    "Answer briefly and to the point.",
    "You are a friendly writer with a sense of humour.",
)
DOMAINS = tuple(OPENERS)
TEMPERATURES = (0.7, 0.8, 0.9, 1.0)
TOP_K = 60
MAX_QUESTION_TOKENS = 192

_MARKER = "QuestionGoesHere"
_SENTENCE_END = re.compile(r"(?<!\d)[.?!:](?=\s|$)|\n")  # "4." opens a list item


@dataclass(frozen=True)
class OpenTurn:
    """The template around a user's first words. system None: the template's own."""

    system: str | None
    prefix: str
    suffix: str


def open_turns(tokenizer: Any, systems: Sequence[str] = SYSTEMS) -> list[OpenTurn]:
    """The template without a system message first, then with each of `systems` that it takes.

    Raises DataError for a tokenizer without chat template, or one that hides the user's words.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise DataError(
            "this target has no chat template, so it cannot write questions; name prompt files"
        )
    plain = _open_turn(tokenizer, None)
    if plain is None:
        raise DataError(
            "the target's chat template does not show a user's words once and unchanged; name "
            "prompt files"
        )
    turns = {plain.prefix: plain}
    for system in systems:
        turn = _open_turn(tokenizer, system)
        if turn is not None:
            turns.setdefault(turn.prefix, turn)  # some templates ignore the system message
    return list(turns.values())


def _open_turn(tokenizer: Any, system: str | None) -> OpenTurn | None:
    """None where the template refuses the conversation: several know no system role."""
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": _MARKER})
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except Exception:  # templates raise whatever jinja or the author chose
        return None
    parts = text.split(_MARKER)
    return OpenTurn(system, *parts) if len(parts) == 2 else None


class SelfPrompter:
    """The fixed queue of questions: number `index` has domain, opener, template and draws of its
    own, whatever else is asked. Domains take turns, so their shares are equal."""

    def __init__(self, tokenizer: Any, end_of_sequence: frozenset[int], seed: int) -> None:
        """Raises DataError when the tokenizer has no usable chat template."""
        self._tokenizer = tokenizer
        self._turns = open_turns(tokenizer)
        self._seed = seed
        self._special = frozenset(tokenizer.all_special_ids)
        closing = self._encode(self._turns[0].suffix)[:1]
        self.ends = end_of_sequence | frozenset(closing)

    def request(self, index: int) -> Request:
        """What the target is given to write question `index`."""
        turn, opener, temperature = self._plan(index)
        ids, prefix = self._encode(turn.prefix + opener), self._encode(turn.prefix)
        return Request(
            index=index,
            ids=tuple(ids),
            max_new_tokens=MAX_QUESTION_TOKENS,
            sampling=Sampling(temperature, TOP_K),
            seed=f"{self._seed}/draws of question/{index}",
            shared=common_length(ids, prefix),
        )

    def question(self, completion: Completion) -> Prompt | None:
        """The question that was written; None for a loop, an unfinished first sentence, a turn
        that says nothing or that holds special tokens."""
        index, tokens = completion.index, list(completion.tokens)
        if completion.finish == "eos":
            tokens.pop()
        if completion.finish == "loop" or not tokens or self._special & {*tokens}:
            return None
        turn, opener, _ = self._plan(index)
        text = opener + self._continuation(turn, opener, tokens)
        if completion.finish == "len":
            text = _whole_sentences(text, len(opener))
        text = text.strip()
        if len(text) <= len(opener.strip()) or "\ufffd" in text:
            return None
        return Prompt(text, DOMAINS[index % len(DOMAINS)], turn.system)

    def _plan(self, index: int) -> tuple[OpenTurn, str, float]:
        draws = random.Random(f"{self._seed}/question/{index}")
        opener = draws.choice(OPENERS[DOMAINS[index % len(DOMAINS)]])
        # Half of all questions under the template's own system prompt: most people leave it.
        plain = len(self._turns) == 1 or draws.random() < 0.5
        turn = self._turns[0] if plain else draws.choice(self._turns[1:])
        return turn, opener, draws.choice(TEMPERATURES)

    def _continuation(self, turn: OpenTurn, opener: str, tokens: list[int]) -> str:
        """The text that `tokens` add behind the opener; a first space may be part of a token."""
        given = self._encode(turn.prefix + opener)
        tail = given[common_length(given, self._encode(turn.prefix)) :]
        before = self._decode(tail)
        return self._decode([*tail, *tokens])[len(before) :]

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def _whole_sentences(text: str, start: int) -> str:
    """`text` up to the last end of a sentence behind `start`, "" when there is none."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start)]
    return text[: ends[-1]] if ends else ""
