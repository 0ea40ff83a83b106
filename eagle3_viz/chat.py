"""From a person's prompt to the token ids the target was trained to answer."""

from __future__ import annotations

import hashlib
from typing import Any


def encode_chat(tokenizer: Any, prompt: str, system: str | None = None) -> list[int]:
    """Token ids of one user turn, ready for the assistant's answer.

    A tokenizer without a chat template gets the plain text. Raises ValueError when the template
    refuses the conversation, for instance because it knows no system role.
    """
    if not tokenizer.chat_template:
        text = f"{system}\n\n{prompt}" if system else prompt
        return list(tokenizer(text)["input_ids"])
    turns = [{"role": "system", "content": system}] if system else []
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
