"""Tokens per cycle of a draft for every dynamic tree at once, from one pass over sample prompts.

    python -m benchmarks.known_acceptance --method eagle3 [--prompts 28] [--new-tokens 80]

The target decodes its greedy text token by token, and at every position the draft proposes what it
would in a cycle that began there: a pool for each top_k, as deep as the deepest tree. A draft's
state at a position does not depend on the trees before it, so the cycles of any smaller tree are
those positions that it would have reached, and its tau is the one that a run of its own has. The
result is `acceptance.json` beside the draft's weights. Timing plays no part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from rich.progress import track

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.endings import Endings
from eagle3_viz.files import write_atomically
from eagle3_viz.loop import Loop
from eagle3_viz.pair_specs import KNOWN_PAIRS, PRETRAINED
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.presets import Preset, in_turn
from eagle3_viz.provenance import command_line, git_commit, versions
from eagle3_viz.tree import CandidatePool, DraftTree, root_only
from eagle3_viz.tree_choice.known_acceptance import FILE, KnownAcceptance, Taus

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10)  # top_k
DEPTH = 5
TOTALS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)


@dataclass(frozen=True)
class Proposal:
    """A pool on the host: token, parent int64 [C], score float32 [C]."""

    token: np.ndarray
    parent: np.ndarray
    score: np.ndarray

    @classmethod
    def of(cls, pool: CandidatePool) -> Proposal:
        return cls(*(part.numpy(force=True) for part in (pool.token, pool.parent, pool.score)))


class EveryPosition(Loop):
    """Commits one token a cycle and keeps, for each, what the draft proposes by top_k."""

    widths: Sequence[int] = WIDTHS
    depth: int = DEPTH

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proposals: list[list[Proposal]] = []

    def propose(self, n: int) -> DraftTree:
        draft = self.draft
        assert draft is not None
        if self.unseen is not None:
            draft.extend(*self.unseen)
            self.unseen = None
        trees = [
            draft.propose(self.root, TreeShape(2, self.depth, k), self.timer.mark)
            for k in self.widths
        ]
        self.proposals.append([Proposal.of(tree.pool) for tree in trees if tree.pool is not None])
        return root_only(self.root, self.target.device)


def accepted(
    proposal: Proposal, continuation: Sequence[int], top_k: int, depth: int, totals: Sequence[int]
) -> np.ndarray:
    """Drafted tokens that greedy verification keeps, int [depth + 1, totals], one row a depth.

    continuation: the text's tokens after the root.
    """
    chain, parent = [], -1
    for token in continuation:
        child = np.flatnonzero((proposal.parent == parent) & (proposal.token == token))
        if not len(child):
            break
        parent = int(child[0])
        chain.append(parent)
    kept = np.zeros((depth + 1, len(totals)), dtype=int)
    drafted = np.asarray(totals) - 1
    for row in range(depth + 1):
        score = proposal.score[: top_k + row * top_k**2]  # levels follow each other in the pool
        for node in chain:
            if node < len(score):
                better = (score > score[node]).sum() + (score[:node] == score[node]).sum()
                kept[row] += better < drafted
    return kept


def cycles_of(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, cycles) that trees commit in one text, both int [...], uncut cycles only.

    kept: int [positions, ...], what a cycle that begins there accepts; the text has one token
    more than it has positions.
    """
    positions, trees = len(kept), kept.shape[1:]
    tokens, cycles = np.zeros(trees, dtype=int), np.zeros(trees, dtype=int)
    for tree in np.ndindex(*trees):
        at = 0
        while at < positions:
            step = int(kept[(at, *tree)]) + 1
            if at + step > positions:
                break
            at += step
            tokens[tree] += step
            cycles[tree] += 1
    return tokens, cycles


def text_of(
    pair: LoadedPair, prompt: Sequence[int], config: DecodeConfig
) -> tuple[list[int], list[list[Proposal]]]:
    """The greedy text, and the draft's proposals at each of its tokens but the last."""
    loop = EveryPosition(pair.target, pair.draft(config.method), config)
    endings = Endings(pair.target.end_of_sequence, pair.target.context_limit, config, ())
    prefill = loop.prefill(list(prompt), endings)
    text = [prefill.token]
    if prefill.finish is None:
        for cycle in loop.cycles(endings):
            text += cycle.tokens
    return text, loop.proposals


def counted(
    pair: LoadedPair, prompts: Iterable[Preset], config: DecodeConfig
) -> Iterator[tuple[int, np.ndarray]]:
    """(positions, [tokens, cycles]) of each prompt, the latter int [2, widths, depths, totals]."""
    for preset in prompts:
        prompt = encode_chat(pair.tokenizer, preset.prompt, preset.system)
        text, proposals = text_of(pair, prompt, config)
        if proposals:
            kept = [
                [
                    accepted(proposal, text[at + 1 :], k, DEPTH, TOTALS)
                    for k, proposal in zip(WIDTHS, by_width, strict=True)
                ]
                for at, by_width in enumerate(proposals)
            ]
            yield len(kept), np.stack(cycles_of(np.array(kept)))


def table_of(tokens: np.ndarray, cycles: np.ndarray) -> dict[int, Taus]:
    """tau of all texts together; None for trees that cannot be drafted."""
    return {
        k: tuple(
            tuple(
                round(float(tokens[w, depth, t] / cycles[w, depth, t]), 3)
                if total - 1 <= k + depth * k**2
                else None
                for t, total in enumerate(TOTALS)
            )
            for depth in range(DEPTH + 1)
        )
        for w, k in enumerate(WIDTHS)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default=KNOWN_PAIRS[0].name)
    parser.add_argument("--method", default="eagle3", choices=("eagle2", "eagle3"))
    parser.add_argument("--prompts", type=int, default=28)
    parser.add_argument("--new-tokens", type=int, default=80)
    parser.add_argument("--out", type=Path, help="default: beside the shipped draft's weights")
    arguments = parser.parse_args()
    pair = load_pair(arguments.pair, dtype=torch.float32)
    config = DecodeConfig(
        method=arguments.method, max_new_tokens=arguments.new_tokens, record="off"
    )
    loaded = pair.draft_for(arguments.method)
    assert loaded is not None
    prompts = in_turn(arguments.prompts)
    found = list(counted(pair, track(prompts, "Prompts"), config))
    positions = sum(part[0] for part in found)
    tokens, cycles = np.sum([part[1] for part in found], axis=0)
    known = KnownAcceptance(
        weights_sha256=loaded.source.sha256,
        prompts=len(prompts),
        tokens=positions,
        provenance={
            "measured": datetime.now(UTC).date().isoformat(),
            "rule": "greedy",
            "prompts": "sample_prompts, one of each domain in turn",
            "new_tokens": str(arguments.new_tokens),
            "dtype": "float32",
            "target": f"{pair.target_source.name} {pair.target_source.revision}",
            "draft": loaded.source.name,
            "versions": " ".join(f"{name}={found}" for name, found in versions().items()),
            "commit": git_commit(),
            "command": " ".join(command_line()),
        },
        totals=TOTALS,
        tau=table_of(tokens, cycles),
    )
    out = arguments.out or PRETRAINED / loaded.source.name / FILE
    write_atomically(out, known.dumps().encode())
    print(f"{out.name}: {known.tokens} tokens of {known.prompts} prompts")


if __name__ == "__main__":
    main()
