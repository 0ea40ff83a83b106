"""A tokenizer of single characters with a chat template, small enough for tiny targets."""

from __future__ import annotations

import string
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from eagle3_viz.target import TargetModel
from tests.tiny_models import tiny_target

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    + TEMPLATE
)
SPECIAL = ("<|end|>", "<|tool|>")
END = 0
LETTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
VOCABULARY_SIZE = len(SPECIAL) + len(LETTERS)


def chat_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    words = {word: i for i, word in enumerate((*SPECIAL, *LETTERS))}
    backend = Tokenizer(models.WordLevel(words, "?"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=SPECIAL[END],
        extra_special_tokens=list(SPECIAL[1:]),
    )
    tokenizer.chat_template = template
    return tokenizer


def chat_target(seed: int = 2, template: str | None = TEMPLATE) -> TargetModel:
    """A tiny llama over these characters; it knows nothing and ends its texts now and then."""
    return tiny_target(
        seed=seed,
        sharpness=0.8,
        tokenizer=chat_tokenizer(template),
        vocab_size=VOCABULARY_SIZE,
        eos_token_id=END,
    )


def save_chat_target(folder: Path) -> None:
    """`chat_target` as a model folder."""
    target = chat_target()
    target.model.save_pretrained(folder)
    target.tokenizer.save_pretrained(folder)
