"""Made-up traces for tests of everything that reads a trace: no model, no torch.

A toy target and a toy draft assign logits to a vocabulary of awkward tokens; the tree, the
acceptance walk and every recorded number then follow from MATH.md in plain numpy, so a trace is
consistent throughout. Same arguments, same trace.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np

from eagle3_viz.config import DecodeConfig, Method, Rule, Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FixedTree
from eagle3_viz.records import (
    Cycle,
    Distributions,
    Finish,
    Miss,
    Nodes,
    NodeState,
    Origin,
    Pool,
    Prefill,
    RecordLevel,
    Timing,
    Top,
)
from eagle3_viz.trace import Baseline, Header, ModelSource, Trace
from tests.toy_pair import (
    DRAFT_LACKS,
    END_ID,
    PROMPT_IDS,
    STOP,
    STOP_ID,
    TEMPERATURE,
    VOCABULARY,
    Candidate,
    ToyPair,
    dynamic_pool,
    fixed_pool,
    rank_of,
    sampled_pool,
)
from tests.toy_rules import Dice, some_accepted, trials


def _verified(pair: ToyPair, context: tuple[int, ...], pool: list[Candidate], total: int) -> Nodes:
    """The kept tree before the acceptance walk: every node untested."""
    kept = sorted(sorted(range(len(pool)), key=lambda i: -pool[i].score)[: total - 1])
    node_of = {-1: 0} | {index: node for node, index in enumerate(kept, start=1)}
    chosen = [pool[i] for i in kept]
    given = [(pair.at(c.context[:-1]), c.token) for c in chosen]
    nan = np.full(len(chosen) + 1, np.nan, np.float32)

    def column(first: float, rest: Sequence[float], dtype: type) -> np.ndarray:
        return np.array([first, *rest], dtype)

    return Nodes(
        token=column(context[-1], [c.token for c in chosen], np.int32),
        parent=column(-1, [node_of[c.parent] for c in chosen], np.int32),
        depth=column(0, [c.depth for c in chosen], np.int32),
        draft_logprob=column(math.nan, [c.logprob for c in chosen], np.float32),
        score=column(0.0, [c.score for c in chosen], np.float32),
        q_rank=column(-1, [c.q_rank for c in chosen], np.int32),
        p_raw=column(math.nan, [float(a.p_raw[t]) for a, t in given], np.float32),
        p=column(math.nan, [float(a.p[t]) for a, t in given], np.float32),
        p_rank=column(-1, [rank_of(a.p_raw, t) for a, t in given], np.int32),
        p_tested=nan.copy(),
        accept_probability=nan.copy(),
        uniform=nan.copy(),
        state=column(NodeState.ROOT, [NodeState.UNREACHED] * len(chosen), np.int8),
        expanded=column(True, [c.expanded for c in chosen], np.bool_),
        pool_index=column(-1, kept, np.int32),
    )


def _walk(
    pair: ToyPair, context: tuple[int, ...], nodes: Nodes, dice: Dice
) -> tuple[list[int], int, Origin]:
    """The acceptance walk: fills the tested columns, gives path, decided token and its origin."""
    path = [0]
    while True:
        at = pair.at(context)
        children = np.flatnonzero(nodes.parent == path[-1]).tolist()
        made, left = trials(pair.rule, at.p, at.q, nodes.token[children].tolist())
        accepted = -1
        for child, trial in zip(children, made, strict=True):
            draw = dice.uniform() if pair.rule in ("topk", "sample") else math.nan
            nodes.p_tested[child], nodes.accept_probability[child] = trial.p, trial.chance
            nodes.uniform[child] = draw
            if draw < trial.chance or (math.isnan(draw) and trial.chance == 1.0):
                accepted = child
                break
            nodes.state[child] = NodeState.REJECTED
        if accepted < 0:
            token = int(at.p.argmax()) if pair.rule == "greedy" else dice.token(left)
            return path, token, Origin.RECOVERED if children else Origin.BONUS
        nodes.state[accepted] = NodeState.ACCEPTED
        path.append(accepted)
        context = (*context, int(nodes.token[accepted]))


def _top(distribution: np.ndarray) -> Top:
    order = np.argsort(-distribution, kind="stable")[:20]
    order = order[distribution[order] > 0]
    tail = max(0.0, 1.0 - float(distribution[order].sum()))
    return Top(order.astype(np.int32), distribution[order].astype(np.float32), tail)


def _entropy(distribution: np.ndarray) -> float:
    positive = distribution[distribution > 0]
    return float(-(positive * np.log(positive)).sum())


def _kl(q: np.ndarray, p: np.ndarray) -> float:
    support = q > 0
    return float((q[support] * np.log(q[support] / p[support])).sum())


def _distributions(
    pair: ToyPair, context: tuple[int, ...], nodes: Nodes, node: int
) -> Distributions:
    at = pair.at(context)
    children = nodes.token[nodes.parent == node].tolist()
    if not nodes.expanded[node]:
        return Distributions(
            node,
            p_raw=_top(at.p_raw),
            p=_top(at.p),
            q=None,
            residual=None,
            overlap=math.nan,
            children_mass=0.0,
            kl=math.nan,
            entropy_p=_entropy(at.p_raw),
            entropy_q=math.nan,
            residual_mass=1.0,
            expected_acceptance=0.0,
        )
    made, left = trials(pair.rule, at.p, at.q, children)
    expected = some_accepted(made)
    if pair.rule == "sample" and len(children) == 1:  # whatever was drawn
        expected = float(np.minimum(at.p, at.q).sum())
    drawn_from = pair.rule != "greedy" and len(children) > 0
    return Distributions(
        node=node,
        p_raw=_top(at.p_raw),
        p=_top(at.p),
        q=_top(at.q),
        residual=_top(left) if drawn_from else None,
        overlap=float(np.minimum(at.p_raw, at.q).sum()),
        children_mass=float(at.p_raw[children].sum()),
        kl=_kl(at.q, at.p_raw),
        entropy_p=_entropy(at.p_raw),
        entropy_q=_entropy(at.q),
        residual_mass=1.0 - expected,
        expected_acceptance=expected,
    )


def _miss(
    pair: ToyPair,
    context: tuple[int, ...],
    nodes: Nodes,
    pool: Pool,
    where: tuple[int, int, int],
) -> Miss:
    """`where` is (node the walk stopped at, decided token, drafted levels)."""
    node, token, levels = where
    q = pair.at(context).q
    expanded = bool(nodes.expanded[node])
    drafted_here = pool.parent == nodes.pool_index[node]
    return Miss(
        node=node,
        token=token,
        q=float(q[token]) if expanded else math.nan,
        q_rank=rank_of(q, token) if expanded and q[token] > 0 else -1,
        in_draft_vocabulary=token not in DRAFT_LACKS,
        expanded=expanded,
        beyond_depth=int(nodes.depth[node]) == levels,
        pruned=bool((drafted_here & (pool.token == token)).any()),
    )


def _pool_table(pool: list[Candidate]) -> Pool:
    return Pool(
        token=np.array([c.token for c in pool], np.int32),
        parent=np.array([c.parent for c in pool], np.int32),
        depth=np.array([c.depth for c in pool], np.int32),
        draft_logprob=np.array([c.logprob for c in pool], np.float32),
        score=np.array([c.score for c in pool], np.float32),
    )


def _timing(rng: np.random.Generator, levels: int, verified: int, record: RecordLevel) -> Timing:
    jitter = rng.uniform(0.9, 1.2, levels + 5)
    return Timing(
        draft_levels=tuple(float(x) for x in 1.1 * jitter[:levels]),
        tree=float(0.3 * jitter[-5]),
        verify=float((18.0 + 0.5 * verified) * jitter[-4]),
        accept=float(0.4 * jitter[-3]),
        commit=float(0.2 * jitter[-2]),
        record={"off": 0.0, "outcomes": 0.2, "full": 2.5}[record] * float(jitter[-1]),
    )


def _cycle(
    pair: ToyPair,
    context: tuple[int, ...],
    index: int,
    tree: TreeShape | FixedTree | None,
    record: RecordLevel,
) -> Cycle:
    """One cycle after `context`, whose last token is the root. `tree` None is autoregression."""
    rng = np.random.default_rng([pair.seed, 1, index])
    dice = Dice(rng)
    if tree is None:
        pool = []
    elif isinstance(tree, FixedTree):
        pool = fixed_pool(pair, context, tree, dice)
    elif pair.rule == "sample":
        pool = sampled_pool(pair, context, tree, dice)
    else:
        pool = dynamic_pool(pair, context, tree)
    nodes = _verified(pair, context, pool, tree.total if tree else 1)
    if tree is None:
        nodes.expanded[0] = False
    path, decided, origin = _walk(pair, context, nodes, dice)
    accepted = tuple(int(nodes.token[i]) for i in path[1:])
    at = [(*context, *accepted[:k]) for k in range(len(path))]
    table = _pool_table(pool)
    full = record == "full"
    forwards = tree.levels if tree else 0
    if pair.rule == "sample" and isinstance(tree, TreeShape):  # one a node that drew
        forwards = 1 + sum(candidate.expanded for candidate in pool)
    where = (path[-1], decided, tree.levels if tree else 0)
    return Cycle(
        index=index,
        prefix_length=len(context) - 1,
        root=context[-1],
        tokens=(*accepted, decided),
        origins=(*[Origin.ACCEPTED] * len(accepted), Origin.PLAIN if tree is None else origin),
        accepted=len(accepted),
        path=tuple(path),
        verified=len(nodes),
        drafted=len(pool),
        draft_forwards=forwards,
        timing=_timing(rng, forwards, len(nodes), record),
        draws=tuple(dice.drawn),
        nodes=None if record == "off" else nodes,
        pool=table if full and tree else None,
        distributions=tuple(
            _distributions(pair, c, nodes, n) for c, n in zip(at, path, strict=True)
        )
        if full
        else (),
        miss=_miss(pair, at[-1], nodes, table, where) if full and tree else None,
    )


def _ended(cycle: Cycle, finish: Finish) -> Cycle:
    """The last cycle: shortened to its first token when it committed more."""
    changes: dict[str, object] = {"finish": finish}
    if len(cycle.tokens) > 1:
        changes |= {"tokens": cycle.tokens[:1], "origins": cycle.origins[:1], "cut": True}
        changes |= {"miss": None}
    return Cycle(**{f.name: getattr(cycle, f.name) for f in fields(cycle)} | changes)


def _header(config: DecodeConfig, seed: int, context_limit: int) -> Header:
    speculative = config.method != "ar"
    return Header(
        method=config.method,
        rule=str(config.rule),
        config=json.loads(json.dumps(asdict(config))),
        pair="made-up",
        target=ModelSource("toy-target", "embedded", "1", "ab" * 32, 1_000_000),
        draft=ModelSource("toy-draft", "embedded", "1", "cd" * 32, 50_000) if speculative else None,
        dtype="float32",
        dtype_reason="float32: the numbers are made up",
        device="cpu",
        threads=2,
        versions={"python": "3.11.0", "numpy": np.__version__},
        git_commit="0" * 40,
        argv=("eagle3_viz", "--prompt", "<script>"),
        seed=seed,
        chat_template_sha256="ef" * 32,
        prompt=b"".join(VOCABULARY[i] for i in PROMPT_IDS).decode("utf-8", "replace"),
        prompt_ids=PROMPT_IDS,
        started_at="2025-01-01T00:00:00+00:00",
        draft_vocabulary=len(VOCABULARY) - len(DRAFT_LACKS) if speculative else 0,
        vocabulary=len(VOCABULARY),
        context_limit=context_limit,
        baseline=Baseline(21.5, 32, "2025-01-01T00:00:00+00:00", "same prompt, threads and dtype"),
    )


def make_trace(
    *,
    cycles: int = 12,
    seed: int = 0,
    shape: TreeShape | None = None,
    rule: Rule = "greedy",
    record: RecordLevel = "full",
    finish: Finish | None = "length",
    method: Method = "eagle3",
) -> Trace:
    """A consistent trace of `cycles` cycles.

    `shape` is TreeShape(10, 3, 4) by default; eagle1 has its usual fixed tree and lookup a chain of
    the toy draft's. `finish` None leaves the run unfinished, as a live one is; "eos" and "stop" end
    it with an accepted end token. The last cycle is cut whenever it committed more than one token.
    """
    shape = shape or TreeShape(10, 3, 4)
    if method == "lookup":
        shape = TreeShape(shape.depth + 2, shape.depth, 1)
    tree = None if method == "ar" else DEFAULT_FIXED if method == "eagle1" else shape
    forced = {"eos": END_ID, "stop": STOP_ID}.get(finish or "", -1)
    pair = ToyPair(seed, rule)
    context = PROMPT_IDS
    first = int(pair.at(context).p.argmax())
    context = (*context, first)
    made: list[Cycle] = []
    for index in range(cycles):
        last = index == cycles - 1
        if last and forced >= 0:
            pair = ToyPair(seed, rule, forced, len(context))
        cycle = _cycle(pair, context, index, tree, record)
        made.append(_ended(cycle, finish) if last and finish else cycle)
        context = (*context, *made[-1].tokens)
    generated = len(context) - len(PROMPT_IDS)
    config = DecodeConfig(
        method=method,
        shape=shape,
        sampling=Sampling(TEMPERATURE[rule]),
        rule=rule,
        max_new_tokens=generated if finish == "length" else 512,
        stop=(STOP.decode(),) if finish == "stop" else (),
        seed=seed,
        record=record,
    )
    return Trace(
        header=_header(config, seed, len(context) if finish == "context" else 2048),
        prefill=Prefill(
            prompt_length=len(PROMPT_IDS),
            token=first,
            target_ms=30.0,
            draft_ms=4.0,
            finish=finish if cycles == 0 else None,
        ),
        cycles=made,
        token_bytes=dict(enumerate(VOCABULARY)),
    )
