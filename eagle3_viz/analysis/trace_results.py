"""Several traces as the results of a suite: a prompt each, a setting for each way of decoding."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from eagle3_viz.prompt_records import UNKNOWN_DOMAIN
from eagle3_viz.suite.results import Results, measured
from eagle3_viz.trace import Header, Trace

SET = "traces"  # the one set that all of them are in
GREEDY = "greedy"
TITLE_CHARS = 60
PART_CHARS = 40  # of what names a setting; a file may hold anything


@dataclass(frozen=True)
class MeasuredTrace:
    """What is kept of a trace. domain "" where it is unknown; numbers: a row of a suite's runs."""

    id: str
    domain: str
    header: Header
    numbers: Mapping[str, object]


def measured_trace(trace_id: str, domain: str, trace: Trace) -> MeasuredTrace:
    """`trace` measured as a run of a suite; autoregression as it was measured with this run."""
    numbers = measured(trace)
    baseline = trace.header.baseline
    ar_ms = float("nan") if baseline is None else baseline.ms_per_token * numbers["tokens"]
    numbers |= {"ar_ms": ar_ms, "ar_tokens": float(numbers["tokens"])}
    return MeasuredTrace(trace_id, domain, trace.header, numbers)


@dataclass(frozen=True)
class TraceResults:
    """results: as of a suite. titles: of each prompt. ids: the traces of a setting and prompt."""

    results: Results
    titles: Mapping[str, str]
    ids: Mapping[tuple[str, str], tuple[str, ...]]


def results_of(traces: Sequence[MeasuredTrace]) -> TraceResults:
    """What `traces`, at least one, amount to.

    Traces whose prompts have the same token ids are one prompt, whichever setting decoded it; two
    of one setting are two turns of it, so that they are drawn together.
    """
    settings = setting_names([one.header for one in traces])
    rows: list[dict[str, object]] = []
    titles: dict[str, str] = {}
    ids: dict[tuple[str, str], tuple[str, ...]] = {}
    configs: dict[str, Mapping[str, object]] = {}
    for one, setting in zip(traces, settings, strict=True):
        header = one.header
        sha256 = hashlib.sha256(repr(header.prompt_ids).encode()).hexdigest()
        prompt = sha256[:12]
        ids[setting, prompt] = (*ids.get((setting, prompt), ()), one.id)
        titles.setdefault(prompt, " ".join(header.prompt.split())[:TITLE_CHARS])
        configs.setdefault(setting, header.config)
        rows.append(
            {
                "set": SET,
                "prompt": prompt,
                "sha256": sha256,
                "domain": one.domain or UNKNOWN_DOMAIN,
                "turn": len(ids[setting, prompt]),
                "setting": setting,
                **one.numbers,
            }
        )
    results = Results(_one_domain_a_prompt(pd.DataFrame(rows)), configs, {}, ())
    return TraceResults(results, titles, ids)


def _one_domain_a_prompt(runs: pd.DataFrame) -> pd.DataFrame:
    """The first domain that a trace of the prompt names holds for all of them."""
    named = runs[runs.domain != UNKNOWN_DOMAIN].drop_duplicates("prompt")
    known = dict(zip(named.prompt, named.domain, strict=True))
    return runs.assign(domain=[known.get(prompt, UNKNOWN_DOMAIN) for prompt in runs.prompt])


def setting_names(headers: Sequence[Header]) -> list[str]:
    """A name for the setting of each header: its method, and what tells it from the others.

    Pair, sampling and rule are told where any two differ in them (of greedy ones the rule is the
    sampling); draft and tree, which are a method's own, where two of that method and pair do.
    Seed, prompt and token limit make no setting.
    """
    parts = [_parts(header) for header in headers]
    found: dict[tuple[str, ...], set[str]] = {}
    for part in parts:
        for key, text in part.items():
            found.setdefault(_scope(part, key), set()).add(text)
    return [
        " ".join(
            text[:PART_CHARS]
            for key, text in part.items()
            if key == "method" or (len(found[_scope(part, key)]) > 1 and not _said(key, text))
        )
        for part in parts
    ]


def _said(key: str, text: str) -> bool:
    """Whether another part says the same: greedy sampling has no other rule."""
    return (key, text) == ("rule", GREEDY)


def _scope(part: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Where texts under `key` are held against each other."""
    return (key, part["method"], part["pair"]) if key in ("draft", "tree") else (key,)


def _parts(header: Header) -> dict[str, str]:
    """What can tell a setting from another, most telling first. Autoregression has no draft."""
    config = header.config
    parts = {"method": header.method, "pair": header.pair}
    parts["sampling"] = _sampling(config.get("sampling"))
    if header.draft is not None:
        source = header.draft
        parts["draft"] = f"{source.name} {source.sha256[:8] or source.revision}".strip()
    if header.method != "ar":
        parts["rule"] = header.rule
        parts["tree"] = _tree(config)
    return parts


def _sampling(sampling: object) -> str:
    """Only what is switched on, as `config.Sampling` means it."""
    if not isinstance(sampling, Mapping):
        return "unknown sampling"
    if sampling.get("temperature") == 0:
        return GREEDY
    off = {"temperature": None, "top_k": 0, "top_p": 1.0}
    short = {"temperature": "t", "top_k": "k", "top_p": "p"}
    return " ".join(
        f"{short.get(name, name)}={number}"
        for name, number in sampling.items()
        if number != off.get(name)
    )


def _tree(config: Mapping[str, object]) -> str:
    key = "fixed" if config.get("method") == "eagle1" else "shape"
    tree = config.get(key)
    if not isinstance(tree, Mapping):
        return "unknown tree"
    if key == "fixed":
        return str(tree.get("name"))
    return ",".join(str(tree.get(name)) for name in ("total", "depth", "top_k"))
