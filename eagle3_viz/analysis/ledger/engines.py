"""The metrics of vLLM, SGLang and llama.cpp. Their versions differ in details.

Read from vLLM's v1/spec_decode/metrics.py and scheduler, SGLang's tokenizer manager, scheduler
metrics and speculative/eagle_info.py, llama.cpp's examples/speculative, speculative-simple and
server.
"""

from __future__ import annotations

from eagle3_viz.analysis.ledger.counts import Counts
from eagle3_viz.analysis.ledger.entry import (
    CYCLES,
    DRAFTED,
    DRAFTED_CYCLES,
    NOTHING,
    LedgerEntry,
    count,
    ratio,
    ratios,
    worked,
)


def vllm(c: Counts) -> tuple[LedgerEntry, ...]:
    """The three counters of vLLM and what its log makes of them."""
    drafts = (c.drafts,) * (len(c.at_depth) if c.drafts else 0)
    at_depth = c.at_depth[: len(drafts)]
    return (
        count(
            "vLLM",
            "num_drafts",
            c.drafts,
            "cycles with a draft",
            "Drafts are cycles here, not tokens.",
        ),
        count(
            "vLLM",
            "num_draft_tokens",
            c.drafted,
            "drafted tokens verified",
            "Every node of a tree counts, though one a depth at most can be accepted.",
        ),
        count(
            "vLLM",
            "num_accepted_tokens",
            c.accepted,
            "drafted tokens accepted",
            "Counted before the end of the answer is looked for.",
        ),
        LedgerEntry(
            "vLLM",
            "mean acceptance length",
            tuple(1 + value for value in ratio(c.accepted, c.drafts)),
            "1 + num_accepted_tokens / num_drafts",
            f"1 + {c.accepted} / {c.drafts}",
            True,
            DRAFTED_CYCLES,
            "Equals tau where every cycle drafts and the end cuts nothing.",
        ),
        LedgerEntry(
            "vLLM",
            "draft acceptance rate",
            ratio(c.accepted, c.drafted),
            "num_accepted_tokens / num_draft_tokens",
            f"{c.accepted} / {c.drafted}",
            False,
            DRAFTED,
            "Low for a tree by construction: siblings exclude each other.",
        ),
        LedgerEntry(
            "vLLM",
            "per-position acceptance rate",
            ratios(at_depth, drafts),
            "accepted at the position / num_drafts",
            worked(at_depth, drafts),
            False,
            DRAFTED_CYCLES,
            "Unconditional: a cycle that never got there counts as not accepted. Not n-alpha.",
        ),
    )


def sglang(c: Counts) -> tuple[LedgerEntry, ...]:
    """What SGLang returns with a request, and the accept len of its log."""
    kept_drafts = max(0, c.kept - c.cycles)
    guesses = max(0, c.widest - 1)
    return (
        count(
            "SGLang",
            "spec_verify_ct",
            c.cycles,
            "verifications of the request",
            "Forwards of the target after prefill.",
        ),
        LedgerEntry(
            "SGLang",
            "accept_length of a request",
            ratio(c.output, c.cycles),
            "completion_tokens / spec_verify_ct",
            f"{c.output} / {c.cycles}",
            True,
            CYCLES,
            "The token that prefill decides is in the numerator: a short answer reads high.",
        ),
        LedgerEntry(
            "SGLang",
            "accept len of the server log",
            ratio(kept_drafts + c.cycles, c.cycles),
            "(accepted + verifications) / verifications",
            f"({kept_drafts} + {c.cycles}) / {c.cycles}",
            True,
            CYCLES,
            "Without prefill's token; over all requests since the last log line.",
        ),
        LedgerEntry(
            "SGLang",
            "accept_rate of a request",
            ratio(kept_drafts, c.cycles * guesses),
            "accepted / (spec_verify_ct x (num_draft_tokens - 1))",
            f"{kept_drafts} / ({c.cycles} x {guesses})",
            False,
            DRAFTED,
            "num_draft_tokens is the size of the tree with its root, as if every cycle filled it. "
            "A draft behind the end of the answer is not counted as accepted.",
        ),
    )


def llama_cpp(c: Counts) -> tuple[LedgerEntry, ...]:
    """What llama.cpp's examples and server print."""
    return (
        count(
            "llama.cpp",
            "n_drafted",
            c.drafted,
            "drafted tokens sent to the target",
            "Of speculative-simple and the server, which draft chains.",
        ),
        LedgerEntry(
            "llama.cpp",
            "n_drafted of examples/speculative",
            () if c.levels is None else (float(c.levels),),
            "draft steps, one a level of the tree",
            "levels were not recorded" if c.levels is None else str(c.levels),
            False,
            NOTHING,
            "However wide the tree is, a level counts one: another number of the same name.",
        ),
        count(
            "llama.cpp",
            "n_accept",
            c.accepted,
            "drafted tokens accepted",
            "The token sampled after them is not in it.",
        ),
        LedgerEntry(
            "llama.cpp",
            "accept rate",
            ratio(c.accepted, c.drafted),
            "n_accept / n_drafted",
            f"{c.accepted} / {c.drafted}",
            False,
            DRAFTED,
            "With the n_drafted of the same program. A percentage in the examples, a share in the "
            "server.",
        ),
    )
