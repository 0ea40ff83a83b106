"""A conversation becomes the token ids of the whole, ready for the next answer."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from eagle3_viz.chat import Exchange, encode_chat
from eagle3_viz.run import vocabulary_bytes
from tests.test_run import tokenizer

HISTORY = [Exchange("Who?", "Me."), Exchange("When?", "Now.")]


def spelled(chat: PreTrainedTokenizerFast, system: str | None, history: list[Exchange]) -> str:
    table = vocabulary_bytes(tokenizer())
    return b"".join(table[i] for i in encode_chat(chat, "Why?", system, history)).decode()


@pytest.mark.parametrize("system", [None, "Be brief"])
def test_what_was_said_before_stands_between_system_message_and_question(
    system: str | None,
) -> None:
    start = "[system]Be brief" if system else ""
    said = "[user]Who?[assistant]Me.[user]When?[assistant]Now."
    assert spelled(tokenizer(), system, HISTORY) == f"{start}{said}[user]Why?[assistant]"
    assert spelled(tokenizer(), system, []) == f"{start}[user]Why?[assistant]"


def test_without_a_template_a_conversation_is_its_texts() -> None:
    plain = PreTrainedTokenizerFast(tokenizer_object=tokenizer().backend_tokenizer)
    found = spelled(plain, "Be brief", HISTORY)
    assert found == "Be brief\n\nWho?\n\nMe.\n\nWhen?\n\nNow.\n\nWhy?"
