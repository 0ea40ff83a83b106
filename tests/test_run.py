"""A run on a tiny real pair: the growing trace, its header, and its way through a file."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from eagle3_viz import trace_check, trace_file
from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.pairs import LoadedDraft, LoadedPair
from eagle3_viz.records import Cycle
from eagle3_viz.run import measure_baseline, run, vocabulary_bytes, with_baseline
from eagle3_viz.trace import ModelSource, Trace
from eagle3_viz.training.eagle1_objective import fresh_eagle1
from tests.test_trace_file import differences
from tests.tiny_models import OracleDraft, stock_model, tiny_draft, tiny_target
from tests.training_heads import EAGLE1

PADDING = 7  # rows of the embedding beyond the tokenizer
TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
RULES: dict[str, dict[str, Any]] = {
    "ar": {"method": "ar"},
    "ar sampled": {"method": "ar", "sampling": Sampling(0.9)},
    "greedy": {"shape": TreeShape(12, 3, 4)},
    "topk": {"shape": TreeShape(12, 3, 4), "sampling": Sampling(0.9), "rule": "topk"},
    "topk raw": {"shape": TreeShape(40, 2, 8), "sampling": Sampling(1.0), "rule": "topk"},
    "sample": {"shape": TreeShape(5, 3, 1), "sampling": Sampling(0.7, top_p=0.9), "rule": "sample"},
}


DRAFT_SOURCE = ModelSource("tiny draft", "folder", "", "", 2)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and one special token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={sign: i for i, sign in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=TEMPLATE)


@cache
def pair() -> LoadedPair:
    target = tiny_target(vocab_size=257 + PADDING, seed=3, tokenizer=tokenizer())
    return LoadedPair(
        name="tiny",
        target=target,
        drafts=(LoadedDraft(tiny_draft(target, draft_vocab_size=200), DRAFT_SOURCE),),
        tokenizer=tokenizer(),
        target_source=ModelSource("tiny target", "folder", "", "", 1),
        dtype_reason="float32: tests",
    )


def with_draft(draft: Any) -> LoadedPair:
    return replace(pair(), drafts=(LoadedDraft(draft, DRAFT_SOURCE),) if draft else ())


def finished(prompt: str = "Héllo", **settings: Any) -> Trace:
    *_, trace = run(pair(), prompt, DecodeConfig(**{"max_new_tokens": 12} | settings))
    return trace


@pytest.mark.parametrize("record", ["off", "outcomes", "full"])
@pytest.mark.parametrize("rule", RULES)
def test_a_trace_of_the_engine_goes_through_a_file_unchanged(
    rule: str, record: Any, tmp_path: Path
) -> None:
    trace = finished(record=record, **RULES[rule])
    trace_file.save(trace, tmp_path / "run.parquet")
    loaded = trace_file.load(tmp_path / "run.parquet")
    assert differences(trace, loaded) == []
    assert len(loaded.cycles) > 2
    assert loaded.finish == "length"


@pytest.mark.parametrize("rule", RULES)
def test_a_trace_is_valid_at_every_moment_it_is_seen(rule: str) -> None:
    lengths, seen = [], set()
    for trace in run(pair(), "Hi", DecodeConfig(max_new_tokens=9, **RULES[rule])):
        trace_check.check(trace)
        assert len(trace_file.from_bytes(trace_file.to_bytes(trace)).cycles) == len(trace.cycles)
        lengths.append(len(trace.cycles))
        seen.add(id(trace))
        assert trace.text == b"".join(trace.token_bytes[t] for t in trace.tokens).decode(
            "utf-8", "replace"
        )
    assert lengths == list(range(len(lengths)))
    assert len(seen) == 1


@pytest.mark.parametrize("rule", RULES)
def test_a_trace_holds_what_the_decoder_yields(rule: str) -> None:
    config = DecodeConfig(max_new_tokens=12, **RULES[rule])
    ids = encode_chat(tokenizer(), "Héllo")
    prefill, *cycles = decode(pair().target, pair().drafts[0].draft, ids, config)
    trace = finished(**RULES[rule])
    expected = [prefill.token, *(t for c in cycles if isinstance(c, Cycle) for t in c.tokens)]
    assert list(trace.tokens) == expected
    assert len(trace.origins) == len(trace.tokens) == 12


def test_the_prompt_is_put_into_the_targets_chat_template() -> None:
    trace = finished("Hé")
    spelled = b"".join(vocabulary_bytes(tokenizer())[i] for i in trace.header.prompt_ids)
    assert spelled.decode() == "[user]Hé[assistant]"
    *_, with_system = run(pair(), "Hé", DecodeConfig(max_new_tokens=2), system="Be brief")
    spelled = b"".join(vocabulary_bytes(tokenizer())[i] for i in with_system.header.prompt_ids)
    assert spelled.decode() == "[system]Be brief[user]Hé[assistant]"
    assert trace.header.prompt == "Hé"
    assert len(trace.header.chat_template_sha256) == 64


def test_a_template_that_refuses_the_conversation_is_told() -> None:
    strict = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer().backend_tokenizer,
        chat_template="{{ raise_exception('no system role here') }}",
    )
    with pytest.raises(ValueError, match="no system role here"):
        encode_chat(strict, "Hi", "Be brief")


def test_without_a_template_the_text_is_taken_as_it_is() -> None:
    plain = PreTrainedTokenizerFast(tokenizer_object=tokenizer().backend_tokenizer)
    table = vocabulary_bytes(tokenizer())
    assert b"".join(table[i] for i in encode_chat(plain, "Hi")) == b"Hi"
    assert b"".join(table[i] for i in encode_chat(plain, "Hi", "Be")) == b"Be\n\nHi"


def test_the_header_states_what_was_run() -> None:
    header = finished(seed=5, **RULES["topk"]).header
    assert (header.method, header.rule, header.seed) == ("eagle3", "topk", 5)
    assert header.config["shape"] == {"total": 12, "depth": 3, "top_k": 4}
    assert header.config["sampling"] == {"temperature": 0.9, "top_k": 0, "top_p": 1.0}
    assert header.config["rule"] == "topk"
    assert json.loads(json.dumps(header.config)) == header.config
    assert (header.dtype, header.device, header.threads) == (
        *("float32", "cpu"),
        torch.get_num_threads(),
    )
    assert (header.vocabulary, header.draft_vocabulary, header.context_limit) == (264, 200, 512)
    assert header.draft is not None
    assert {"python", "torch", "transformers"} <= header.versions.keys()
    alone = finished(**RULES["ar"]).header
    assert (alone.rule, alone.draft, alone.draft_vocabulary) == ("greedy", None, 0)


def test_tokens_beyond_the_tokenizer_have_no_bytes() -> None:
    trace = finished(max_new_tokens=40, **RULES["topk raw"])
    beyond = [token for token in trace.token_bytes if token >= 257]
    assert beyond
    assert {trace.token_bytes[token] for token in beyond} == {b""}
    assert trace.token_bytes[tokenizer().convert_tokens_to_ids("A")] == b"A"


def test_a_text_that_ends_at_its_first_token_has_no_cycles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = finished(max_new_tokens=1)
    assert (first.finish, first.cycles) == ("length", [])
    monkeypatch.setattr(pair().target, "end_of_sequence", frozenset({first.tokens[0]}))
    trace = finished()
    assert (trace.finish, trace.cycles) == ("eos", [])
    trace_file.save(trace, tmp_path / "short.parquet")
    assert trace_file.load(tmp_path / "short.parquet").tokens == first.tokens


def test_cut_cycles_keep_the_invariants(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a draft that is mostly right, so that ends fall inside accepted paths."""
    prompt_ids = encode_chat(tokenizer(), "Héllo")
    knowing = OracleDraft(stock_model(pair().target), prompt_ids, range(257), noise=0.3)
    good = with_draft(knowing)
    text, cuts = finished(max_new_tokens=12).tokens, 0
    for eos in set(text[1:]) - {text[0]}:
        monkeypatch.setattr(pair().target, "end_of_sequence", frozenset({eos}))
        *_, trace = run(good, "Héllo", DecodeConfig(shape=TreeShape(8, 3, 2), max_new_tokens=12))
        assert trace.tokens == text[: text.index(eos) + 1]
        loaded = trace_file.from_bytes(trace_file.to_bytes(trace))
        assert loaded.finish == "eos"
        cuts += loaded.cycles[-1].cut
    assert cuts > 2


def test_a_pair_without_a_draft_runs_autoregression_only() -> None:
    alone = with_draft(None)
    with pytest.raises(
        ValueError, match=r"'eagle3' needs a draft that tiny does not have; .* run ar$"
    ):
        next(run(alone, "Hi", DecodeConfig()))
    *_, trace = run(alone, "Hi", DecodeConfig(method="ar", max_new_tokens=4))
    assert len(trace.tokens) == 4


def test_a_draft_runs_by_the_methods_it_is_for() -> None:
    target = pair().target
    weights = fresh_eagle1(replace(EAGLE1, vocab_size=target.vocab_size), seed=0)
    head = with_draft(Eagle1Draft(weights, target))
    with pytest.raises(ValueError, match=r"'eagle3' needs a draft .* can run ar, eagle1, eagle2$"):
        next(run(head, "Hi", DecodeConfig()))
    # the target's two favourites are never closer than 0.03 here: rounding decides nothing
    *_, alone = run(head, "Héllo", DecodeConfig(method="ar", max_new_tokens=9))
    *_, drafted = run(head, "Héllo", DecodeConfig(method="eagle2", max_new_tokens=9))
    assert drafted.tokens == alone.tokens
    assert drafted.header.method == "eagle2"
    loaded = trace_file.from_bytes(trace_file.to_bytes(drafted))
    assert loaded.tokens == drafted.tokens


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    with pytest.raises(ValueError, match="this target takes 1 to 511"):
        finished("x" * 600)


def test_the_baseline_counts_the_steps_after_those_that_warm_up() -> None:
    steps: list[tuple[int, int]] = []
    times: list[float] = []

    def progress(trace: Trace, total: int) -> None:
        steps.append((len(trace.cycles), total))
        times[:] = [cycle.timing.total for cycle in trace.cycles]

    baseline = measure_baseline(pair(), "Hi", tokens=5, warm_up=3, progress=progress)
    assert baseline.tokens == 5
    assert steps == [(done, 8) for done in range(9)]
    assert baseline.ms_per_token == pytest.approx(sum(times[3:]) / 5)
    assert "mean of 5 greedy one-token steps" in baseline.how
    assert "after 3 that do not count" in baseline.how
    trace = finished()
    with_baseline(trace, baseline)
    assert trace_file.from_bytes(trace_file.to_bytes(trace)).header.baseline == baseline


def test_of_a_text_that_ends_early_the_second_half_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = pair()
    *_, alone = run(loaded, "Hi", DecodeConfig(method="ar", max_new_tokens=6))
    monkeypatch.setattr(loaded.target, "end_of_sequence", frozenset(alone.tokens[-1:]))
    steps = alone.tokens.index(alone.tokens[-1])
    baseline = measure_baseline(loaded, "Hi", tokens=5, warm_up=100)
    assert baseline.tokens == steps - steps // 2


def test_a_text_that_ends_with_its_first_token_has_no_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = pair()
    monkeypatch.setattr(loaded.target, "end_of_sequence", frozenset(range(1000)))
    assert measure_baseline(loaded, "Hi", tokens=5) is None
