"""Questions the target writes: read off any chat template, drawn from a fixed queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from eagle3_viz.chat import encode_chat
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.generate import Completion
from eagle3_viz.training.openers import OPENERS
from eagle3_viz.training.self_prompt import SYSTEMS, SelfPrompter, open_turns
from tests.chat_tokenizer import END, NO_SYSTEM, TEMPLATE, chat_tokenizer

SYSTEM_IN_USER_TURN = (
    "{% if messages[0]['role'] == 'system' %}{% set s = messages[0]['content'] + ' ' %}"
    "{% set messages = messages[1:] %}{% else %}{% set s = '' %}{% endif %}"
    "{% for m in messages %}[INST] {{ (s if loop.first else '') + m['content'] }} [/INST]"
    "{% endfor %}"
)
IGNORES_SYSTEM = TEMPLATE.replace("{% for m in messages %}", "{% for m in messages[-1:] %}")


@pytest.mark.parametrize(
    ("template", "count"),
    [
        (TEMPLATE, 1 + len(SYSTEMS)),
        (SYSTEM_IN_USER_TURN, 1 + len(SYSTEMS)),
        (NO_SYSTEM, 1),
        (IGNORES_SYSTEM, 1),
    ],
)
def test_the_open_turn_and_its_close_surround_the_words_as_the_template_does(
    template: str, count: int
) -> None:
    tokenizer = chat_tokenizer(template)
    turns = open_turns(tokenizer)
    assert len(turns) == count
    assert turns[0].system is None
    for turn in turns:
        whole = tokenizer(f"{turn.prefix}How so?{turn.suffix}", add_special_tokens=False)
        assert whole["input_ids"] == encode_chat(tokenizer, "How so?", turn.system)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "has no chat template"),
        ("{{ messages[0]['content'] | upper }}", "does not show a user's words"),
        ("{{ messages[0]['content'] * 2 }}", "does not show a user's words"),
        ("{{ raise_exception('never') }}", "does not show a user's words"),
    ],
)
def test_a_target_whose_template_is_of_no_use_is_told(template: str | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        SelfPrompter(chat_tokenizer(template), frozenset({END}), 0)


def prompter(seed: int = 0, tokenizer: Any = None) -> SelfPrompter:
    return SelfPrompter(tokenizer or chat_tokenizer(), frozenset({99}), seed)


def test_domains_have_equal_shares_and_a_question_keeps_its_number() -> None:
    queue = prompter()
    written = [
        queue.question(Completion(i, tuple(queue._encode(" it is?")), "eos")) for i in range(700)
    ]
    shares = Counter(question.domain for question in written if question)
    assert shares == dict.fromkeys(OPENERS, 100)
    fresh = prompter()
    assert fresh.request(123) == queue.request(123)
    assert prompter(1).request(123) != queue.request(123)


def test_a_request_opens_a_users_turn_with_the_first_words_of_its_domain() -> None:
    queue, tokenizer = prompter(), chat_tokenizer()
    prefixes = {turn.prefix for turn in open_turns(tokenizer)}
    temperatures, used = Counter(), Counter()
    for index in range(210):
        request = queue.request(index)
        text = tokenizer.decode(request.ids)
        prefix = tokenizer.decode(request.ids[: request.shared])
        assert prefix in prefixes
        assert text.removeprefix(prefix) in OPENERS[list(OPENERS)[index % 7]]
        assert request.sampling.top_k == 60
        temperatures[request.sampling.temperature] += 1
        used[prefix] += 1
    assert {*temperatures} == {0.7, 0.8, 0.9, 1.0}
    assert used["[user]"] == pytest.approx(105, abs=30)  # the template's own system prompt
    assert {*used} == prefixes


def test_a_turn_ends_with_the_end_of_sequence_or_the_templates_own_sign() -> None:
    assert prompter().ends == {99, END}


def finished(text: str, finish: Any = "eos", index: int = 0) -> str | None:
    queue, tokenizer = prompter(), chat_tokenizer()
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    question = queue.question(Completion(index, tuple(tokens), finish))
    opener = tokenizer.decode(queue.request(index).ids[queue.request(index).shared :])
    if question is None:
        return None
    assert question.text.startswith(opener)
    return question.text.removeprefix(opener)


def test_the_question_is_the_opener_and_what_was_written_without_the_end() -> None:
    assert finished(" we dream?<|end|>") == " we dream?"
    assert finished(" we dream? \n<|end|>") == " we dream?"


def test_a_turn_that_was_never_closed_is_cut_after_its_last_whole_sentence() -> None:
    assert finished(" we dream? I think 3.5 of us", "len") == " we dream?"
    assert finished(" we dream:\n1. cats\n2. do", "len") == " we dream:\n1. cats"
    assert finished(" we dream of a thing that", "len") is None


def test_what_is_no_question_is_none() -> None:
    assert finished("<|end|>") is None
    assert finished(" \n<|end|>") is None
    assert finished(" a a a a", "loop") is None
    assert finished(" who<|tool|>are you<|end|>") is None
