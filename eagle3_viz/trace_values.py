"""Which values a record must hold, and in which range: probabilities, logarithms, milliseconds.

NaN says that a value does not exist. It is refused where a value must exist, a value is refused
where none can exist, and infinity is refused everywhere: pages draw what they find. Every function
raises ValueError with the first value that is wrong.
"""

from __future__ import annotations

import math
from dataclasses import astuple
from itertools import pairwise

import numpy as np

from eagle3_viz.records import Distributions, Miss, Nodes, NodeState, Pool, Prefill, Timing, Top

MAX_TOP = 20
ROUNDING = 1e-3  # how far a float32 probability may stray from [0, 1], and a sum from 1
DRAWN = ("topk", "sample")  # rules that compare a probability with a draw


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise ValueError with `message` unless `holds`."""
    if not holds:
        raise ValueError(message)


def check_nodes(nodes: Nodes, rule: str) -> None:
    """Values of the verified tree. What the root does not have is NaN there, and only there."""
    drafted = np.arange(len(nodes)) > 0
    tested = np.isin(nodes.state, (NodeState.ACCEPTED, NodeState.REJECTED))
    for name in ("p_raw", "p"):
        _probabilities(name, getattr(nodes, name), drafted)
    for name in ("p_tested", "accept_probability"):
        _probabilities(name, getattr(nodes, name), tested)
    _probabilities("uniform", nodes.uniform, tested & (rule in DRAWN))
    _present("draft_logprob", nodes.draft_logprob, drafted)
    _logarithms(nodes.draft_logprob[1:], nodes.score)
    for name in ("q_rank", "p_rank"):
        require((getattr(nodes, name)[1:] >= 0).all(), f"{name} of a drafted node is negative")
    _check_decisions(nodes, tested, rule)


def _check_decisions(nodes: Nodes, tested: np.ndarray, rule: str) -> None:
    """A draw below the accept probability keeps a node; without draws that probability is 0 or 1.

    Both were rounded to float32 after they were compared, so they may be equal either way.
    """
    kept = nodes.state[tested] == NodeState.ACCEPTED
    chance, draw = nodes.accept_probability[tested], nodes.uniform[tested]
    follows = np.where(kept, draw <= chance, draw >= chance) if rule in DRAWN else kept == chance
    require(follows.all(), "a node's state contradicts its accept probability and draw")


def check_pool(pool: Pool) -> None:
    """Values of the candidates."""
    _present("a candidate's draft_logprob", pool.draft_logprob, np.ones(len(pool), np.bool_))
    _logarithms(pool.draft_logprob, pool.score)


def _logarithms(logprob: np.ndarray, score: np.ndarray) -> None:
    for name, values in (("draft_logprob", logprob), ("score", score)):
        require(np.isfinite(values).all(), f"{name} holds a value that is not finite")
        require((values <= ROUNDING).all(), f"{name} holds a logarithm above 0")


def _present(name: str, values: np.ndarray, expected: np.ndarray) -> None:
    """`values` are NaN exactly where nothing is `expected`; both [n]."""
    missing = np.isnan(values)
    require(not (missing & expected).any(), f"{name} is NaN where a value must exist")
    require((missing | expected).all(), f"{name} has a value where none can exist")


def _probabilities(name: str, values: np.ndarray, expected: np.ndarray) -> None:
    _in_range(name, values[~np.isnan(values)])
    _present(name, values, expected)


def _in_range(name: str, values: np.ndarray) -> None:
    inside = (values >= -ROUNDING) & (values <= 1 + ROUNDING)
    require(inside.all(), f"{name} holds a value outside [0, 1]")


def check_distributions(at: Distributions) -> None:
    """Heads and scalars of the distributions at one node; those of q exist where q does."""
    for name in ("p_raw", "p", "q", "residual"):
        top = getattr(at, name)
        if top is not None:
            _check_top(top)
    shares = {"children_mass", "residual_mass", "expected_acceptance"}
    of_q = {"overlap", "kl", "entropy_q"}
    for name in sorted(shares | of_q | {"entropy_p"}):
        value, exists = float(getattr(at, name)), name not in of_q or at.q is not None
        require(exists or math.isnan(value), f"{name} has a value where none can exist")
        require(not exists or not math.isnan(value), f"{name} is NaN where a value must exist")
        if exists and name in shares | {"overlap"}:
            inside = -ROUNDING <= value <= 1 + ROUNDING
            require(inside, f"{name} holds a value outside [0, 1]")
        elif exists:
            nats = math.isfinite(value) and value >= -ROUNDING
            require(nats, f"{name} is negative or not finite")


def _check_top(top: Top) -> None:
    require(
        len(top.token) == len(top.probability) <= MAX_TOP,
        f"a distribution lists {len(top.token)} tokens, {len(top.probability)} probabilities, "
        f"at most {MAX_TOP} are allowed",
    )
    shares = top.probability.tolist()  # plain numbers: faster than arrays for twenty of them
    total = sum(shares, start=float(top.tail))
    require(not math.isnan(total), "a distribution is NaN where a value must exist")
    inside = all(-ROUNDING <= share <= 1 + ROUNDING for share in (*shares, top.tail))
    require(inside, "a distribution holds a value outside [0, 1]")
    require(all(a >= b for a, b in pairwise(shares)), "a distribution is not sorted")
    require(len(set(top.token.tolist())) == len(top.token), "a distribution lists a token twice")
    require(
        abs(total - 1.0) <= ROUNDING,
        f"a distribution and its tail sum to {total:.4g}, expected 1",
    )


def check_miss(miss: Miss) -> None:
    """q of the missed token is known where its parent was expanded."""
    value = np.array([miss.q])
    _probabilities("q of the missed token", value, np.array([miss.expanded]))
    require(miss.q_rank >= -1, f"q_rank of the missed token is {miss.q_rank}")


def check_timing(timing: Timing) -> None:
    """Milliseconds of every phase."""
    levels, *phases = astuple(timing)
    check_times(*levels, *phases)


def check_prefill(prefill: Prefill) -> None:
    """Milliseconds and draws of the prompt's pass."""
    check_times(prefill.target_ms, prefill.draft_ms)
    check_draws(prefill.draws)


def check_times(*times: float) -> None:
    """Milliseconds that were measured."""
    require(all(0 <= x < math.inf for x in times), "a timing is negative or not finite")


def check_draws(draws: tuple[float, ...]) -> None:
    """Uniforms of the run's generator."""
    require(all(0 <= u <= 1 for u in draws), "a draw is outside [0, 1]")
