"""Random trees with logits and uniforms, and what the rules on the host make of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from eagle3_viz.acceptance import Verdict
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree
from kernels.verify_buffers import Proposal, VerifyBuffers, Walk, read_walk
from tests.tiny_models import tree_of

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CHUNK = 64  # so that small vocabularies have several


class GivenDraws(Draws):
    """Draws whose uniforms are known beforehand."""

    def __init__(self, uniforms: torch.Tensor) -> None:
        super().__init__(0)
        self._left = iter(uniforms.tolist())

    def uniform(self) -> float:
        u = next(self._left)
        self._drawn.append(u)
        return u


@dataclass(frozen=True)
class Problem:
    """A tree of T nodes, logits [T, V], uniforms float64 [T]; q float32 [E, V] by `expanded`."""

    tree: DraftTree
    logits: torch.Tensor
    uniforms: torch.Tensor
    q: torch.Tensor

    @property
    def arguments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """logits, token and parent where the kernels run."""
        return tuple(x.to(DEVICE) for x in (self.logits, self.tree.token, self.tree.parent))

    @property
    def given(self) -> torch.Tensor:
        return self.uniforms.to(DEVICE)

    def proposal(self, ids: torch.Tensor | None = None) -> Proposal:
        """What `q` says over the draft's vocabulary: target ids int64 [DV], None: all."""
        vocabulary = self.logits.shape[1]
        nodes = len(self.tree)
        row = torch.full((nodes,), -1)
        row[self.tree.expanded + 1] = torch.arange(len(self.tree.expanded))
        draft_id = None
        if ids is not None:
            draft_id = torch.full((vocabulary,), -1)
            draft_id[ids] = torch.arange(len(ids))
        log_q = (self.q if ids is None else self.q[:, ids]).log().to(DEVICE)
        most = max(self.tree.parent.tolist().count(node) for node in range(nodes))
        draft_id = None if draft_id is None else draft_id.to(DEVICE)
        return Proposal(log_q.contiguous(), row.to(DEVICE), draft_id, most)


def random_parents(nodes: int, generator: torch.Generator) -> list[int]:
    """Parents before their children, deep and bushy ones mixed; -1 at the root."""
    parents = [-1]
    for node in range(1, nodes):
        newest = max(0, node - 4)
        low = newest if torch.rand((), generator=generator) < 0.7 else 0
        parents.append(int(torch.randint(low, node, (), generator=generator)))
    return parents


def drawn_tree(tokens: list[int], parents: list[int]) -> DraftTree:
    """A tree whose inner nodes are those that the draft expanded."""
    inner = sorted({parent for parent in parents if parent >= 0})
    expanded = torch.tensor(inner, dtype=torch.int64) - 1  # pool indices: node numbers less one
    return replace(tree_of(tokens, parents), expanded=expanded)


def problem(
    nodes: int,
    vocabulary: int,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    sharpness: float = 2.0,
    drafted: torch.Tensor | None = None,
) -> Problem:
    """Children are drawn without replacement from a q near p; drafted: bool [V], q's support."""
    generator = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(nodes, vocabulary, generator=generator)
    parents = random_parents(nodes, generator)
    tokens = [0] * nodes
    q_rows = []
    for parent in sorted(set(parents) - {-1}):
        guess = logits[parent] + 0.7 * torch.randn(vocabulary, generator=generator)
        if drafted is not None:
            guess = guess.masked_fill(~drafted, float("-inf"))
        q = guess.softmax(-1)
        children = [node for node in range(nodes) if parents[node] == parent]
        drawn = torch.multinomial(q, len(children), generator=generator).tolist()
        for child, token in zip(children, drawn, strict=True):
            tokens[child] = token
        q_rows.append(q)
    uniforms = torch.rand(nodes, dtype=torch.float64, generator=generator)
    q = torch.stack(q_rows) if q_rows else torch.zeros(0, vocabulary)
    return Problem(drawn_tree(tokens, parents), logits.to(dtype), uniforms, q)


def buffers(problem: Problem, chunk: int = CHUNK) -> VerifyBuffers:
    """Poisoned: whatever is not written is noticed."""
    out = VerifyBuffers.allocate(*problem.logits.shape, DEVICE, chunk)
    for tensor in (*vars(out).values(), *vars(out.scratch).values()):
        if isinstance(tensor, torch.Tensor):
            tensor.fill_(-7.5e8 if tensor.is_floating_point() else -750_000_000)
    return out


def walk_of(out: VerifyBuffers) -> Walk:
    """The walk, read as the host does; the views for the device must say the same."""
    walk = read_walk(out.result.cpu())
    assert out.kept.tolist() == [len(walk.path)]
    padding = [-1] * (out.nodes - len(walk.path))
    assert out.path.tolist() == [*walk.path, *padding]
    assert out.tokens.tolist() == [*walk.tokens, *padding]
    return walk


def assert_same_decisions(walk: Walk, verdict: Verdict) -> None:
    """Path, tokens and tested nodes are equal."""
    assert walk.path == verdict.path
    assert walk.tokens == verdict.tokens
    assert walk.tested == tuple(test.node for test in verdict.tests)
    assert not walk.broken


def assert_same_bits(walk: Walk, verdict: Verdict) -> None:
    """The decisions and every number that led to them are equal, to the last bit."""
    assert_same_decisions(walk, verdict)
    assert walk.p_tested == tuple(test.p_tested for test in verdict.tests)
    assert walk.chances == tuple(test.accept_probability for test in verdict.tests)
