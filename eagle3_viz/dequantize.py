"""A GGUF file turned into a transformers folder, exact in float32."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging


def dequantize(gguf: Path, folder: Path) -> None:
    """Write the GGUF's model, exact in float32, and its tokenizer as a transformers folder."""
    with _silence():
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        # transformers refuses save_pretrained for a model read from GGUF, although its tensors are
        # plain float32 by now: the three parts are saved one by one instead.
        config = model.config
        del config.quantization_config
        config.architectures = [type(model).__name__]
        config._name_or_path = ""
        config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        if config.tie_word_embeddings:
            del weights["lm_head.weight"]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        # The GGUF names its pre-tokenizer "smollm": every digit stands alone, and is cut off before
        # white space is grouped. transformers' conversion drops that first step.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        tokenizer.save_pretrained(folder)


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing bars on the console within."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


@contextmanager
def _silence() -> Iterator[None]:
    """Nothing of transformers on the console within; real failures still raise."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        # the GGUF reader draws a bar that no setting turns off
        with without_progress_bars(), redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
