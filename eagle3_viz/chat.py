"""From a person's prompt to the token ids the target was trained to answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple


class Exchange(NamedTuple):
    """A question of a conversation with its answer."""

    question: str
    answer: str


def encode_chat(
    tokenizer: Any, prompt: str, system: str | None = None, history: Sequence[Exchange] = ()
) -> list[int]:
    """Token ids of a conversation up to the user's `prompt`, ready for the assistant's answer.

    history: what was asked and answered before. A tokenizer without a chat template gets the plain
    text. Raises ValueError when the template refuses the conversation, for instance because it
    knows no system role.
    """
    if not tokenizer.chat_template:
        spoken = [*([system] if system else []), *(text for said in history for text in said)]
        return list(tokenizer("\n\n".join([*spoken, prompt]))["input_ids"])
    turns = [{"role": "system", "content": system}] if system else []
    for question, answer in history:
        turns.append({"role": "user", "content": question})
        turns.append({"role": "assistant", "content": answer})
    turns.append({"role": "user", "content": prompt})
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates raise whatever jinja or the author chose
        raise ValueError(f"the target's chat template refused the conversation: {error}") from error
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def template_sha256(tokenizer: Any) -> str:
    """Hash of the chat template, "" without one: a draft is trained under one template."""
    template = tokenizer.chat_template
    return hashlib.sha256(str(template).encode()).hexdigest() if template else ""
