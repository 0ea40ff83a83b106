"""A run on a loaded pair: the growing trace with its header, and the baseline beside it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from eagle3_viz import provenance
from eagle3_viz.chat import Exchange, encode_chat, template_sha256
from eagle3_viz.config import DecodeConfig
from eagle3_viz.decode import decode
from eagle3_viz.records import Prefill
from eagle3_viz.tokens import token_bytes
from eagle3_viz.trace import Baseline, Header, Trace

if TYPE_CHECKING:
    from eagle3_viz.pairs import LoadedPair


def run(
    pair: LoadedPair,
    prompt: str,
    config: DecodeConfig,
    *,
    system: str | None = None,
    history: Sequence[Exchange] = (),
    baseline: Baseline | None = None,
) -> Generator[Trace, None, None]:
    """Decode `prompt`; yields the same growing Trace after prefill and after each cycle.

    history: the exchanges before it, if it goes on with a conversation; they are in the header's
    `prompt_ids`, its `prompt` is the last question alone.

    Raises ValueError when the pair has no draft for the method, or the prompt does not fit the
    context.
    """
    draft = pair.draft(config.method)
    header = planned_header(pair, prompt, config, system=system, history=history)
    trace = Trace(replace(header, baseline=baseline))
    table = vocabulary_bytes(pair.tokenizer)
    _spell(trace, table, set(header.prompt_ids))
    for record in decode(pair.target, draft, header.prompt_ids, config, table):
        _spell(trace, table, record.token_ids)
        if isinstance(record, Prefill):
            trace.prefill = record
        else:
            trace.cycles.append(record)
        yield trace


def measure_baseline(
    pair: LoadedPair,
    prompt: str,
    *,
    system: str | None = None,
    tokens: int = 32,
    warm_up: int = 8,
    progress: Callable[[Trace, int], None] | None = None,
) -> Baseline | None:
    """Autoregression on the same prompt through the same forward: mean ms a token, greedy.

    The mean, as the run beside it is counted, of `tokens` steps after `warm_up` others (of a text
    that ends early, of its second half): what asked for the measurement may still be busy with
    that. None when the text ends with its first token. `progress(trace so far, steps in all)` is
    called after every token; what it raises ends the measurement.
    """
    steps = warm_up + tokens
    config = DecodeConfig(method="ar", max_new_tokens=steps + 1, record="off")
    for trace in run(pair, prompt, config, system=system):
        if progress is not None:
            progress(trace, steps)
    skipped = min(warm_up, len(trace.cycles) // 2)
    times = [cycle.timing.total for cycle in trace.cycles[skipped:]]
    how = (
        f"mean of {len(times)} greedy one-token steps on the same prompt before the run, after "
        f"{skipped} that do not count, {_name(pair.target.dtype)}, through the same target forward"
    )
    return Baseline(statistics.fmean(times), len(times), _now(), how) if times else None


@lru_cache(maxsize=2)
def vocabulary_bytes(tokenizer: Any) -> list[bytes]:
    """`tokens.token_bytes`, once per tokenizer."""
    return token_bytes(tokenizer)


def _spell(trace: Trace, table: list[bytes], ids: set[int]) -> None:
    """Add the bytes of token ids that the trace mentions now.

    Ids beyond the tokenizer are padding rows of the model's embedding: they have no bytes.
    """
    for token in ids - trace.token_bytes.keys():
        trace.token_bytes[token] = table[token] if token < len(table) else b""


def planned_header(
    pair: LoadedPair,
    prompt: str,
    config: DecodeConfig,
    *,
    system: str | None = None,
    history: Sequence[Exchange] = (),
) -> Header:
    """The header that `run` gives its trace when it starts now. Raises ValueError as `run` does."""
    target, loaded = pair.target, pair.draft_for(config.method)
    return Header(
        method=config.method,
        rule=str(config.rule),
        config=json.loads(json.dumps(asdict(config))),  # tuples become lists, as in the file
        pair=pair.name,
        target=pair.target_source,
        draft=None if loaded is None else loaded.source,
        dtype=_name(target.dtype),
        dtype_reason=pair.dtype_reason,
        device=str(target.device),
        threads=torch.get_num_threads(),
        versions=provenance.versions(),
        git_commit=provenance.git_commit(),
        argv=provenance.command_line(),
        seed=config.seed,
        chat_template_sha256=template_sha256(pair.tokenizer),
        prompt=prompt,
        prompt_ids=tuple(encode_chat(pair.tokenizer, prompt, system, history)),
        started_at=_now(),
        draft_vocabulary=0 if loaded is None else loaded.draft.vocabulary_size,
        vocabulary=target.vocab_size,
        context_limit=target.context_limit,
    )


def with_baseline(trace: Trace, baseline: Baseline) -> None:
    """Put a baseline measured after the run into its header."""
    trace.header = replace(trace.header, baseline=baseline)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
