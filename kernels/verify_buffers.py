"""What a verification reads and writes, whichever form of it runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

CHUNK = 4096  # tokens of the vocabulary that one program of a Triton launch reads
HEADER = 3  # kept, tests, broken
ROWS = 5  # path, tokens, tested, p_tested, chances


@dataclass(frozen=True)
class Proposal:
    """What the children of each expanded node were drawn from (MATH.md 1.3).

    log_q          float32 [E, DV], log of q after its warping, -inf where q is zero.
    row            int64 [T], each node's row of log_q, -1 where the draft did not expand it.
    draft_id       int64 [V], the draft's id of each target token, -1 outside its vocabulary;
                   None where both vocabularies are the same.
    most_children  that any node has: so many rounds of the residual chain are launched.
    """

    log_q: torch.Tensor
    row: torch.Tensor
    draft_id: torch.Tensor | None
    most_children: int


@dataclass(frozen=True)
class Scratch:
    """Partial results between the launches, by node T and chunk S of the vocabulary.

    tops, sums         float32 [T, S], largest kept logit and sum of exp(logit - largest).
    firsts             int32 [T, S], arg-max within the chunk.
    top, total         float32 [T], the same of whole rows.
    tested, chance     float32 [T], of drawn children: p when tested, and its chance to stay.
    p_left, q_left     float64 [T, S], mass of max(0, p - q) and of q after a child is refused.
    whole, residual    float64 [S], mass of p where the walk stopped, and of what is left of it.
    """

    tops: torch.Tensor
    sums: torch.Tensor
    firsts: torch.Tensor
    top: torch.Tensor
    total: torch.Tensor
    tested: torch.Tensor
    chance: torch.Tensor
    p_left: torch.Tensor
    q_left: torch.Tensor
    whole: torch.Tensor
    residual: torch.Tensor


@dataclass(frozen=True)
class VerifyBuffers:
    """What a verification of T nodes writes; made once, so that a CUDA graph can replay it.

    result  int64 [3 + 5 T], the walk: all that the host reads, once a cycle (`read_walk`).

    Written by `score_nodes`; a `verify_...` may leave anything there:
    best    int64 [T], arg-max of each node's logits, the lowest index among ties.
    p       float32 [T], p of each node's token given its parent; NaN where there is no parent.
    log_z   float32 [T], log-sum-exp of each node's logits / temperature over the kept tokens.
    """

    result: torch.Tensor
    best: torch.Tensor
    p: torch.Tensor
    log_z: torch.Tensor
    scratch: Scratch
    chunk: int

    @classmethod
    def allocate(
        cls, nodes: int, vocabulary: int, device: torch.device, chunk: int = CHUNK
    ) -> VerifyBuffers:
        """Buffers for trees of `nodes` nodes. Raises ValueError unless chunk is a power of two."""
        if chunk < 1 or chunk & (chunk - 1):
            raise ValueError(f"chunk must be a power of two, found {chunk}")
        chunks = -(-vocabulary // chunk)

        def new(dtype: torch.dtype, *shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        part = (nodes, chunks)
        scratch = Scratch(
            tops=new(torch.float32, *part),
            sums=new(torch.float32, *part),
            firsts=new(torch.int32, *part),
            top=new(torch.float32, nodes),
            total=new(torch.float32, nodes),
            tested=new(torch.float32, nodes),
            chance=new(torch.float32, nodes),
            p_left=new(torch.float64, *part),
            q_left=new(torch.float64, *part),
            whole=new(torch.float64, chunks),
            residual=new(torch.float64, chunks),
        )
        return cls(
            result=new(torch.int64, HEADER + ROWS * nodes),
            best=new(torch.int64, nodes),
            p=new(torch.float32, nodes),
            log_z=new(torch.float32, nodes),
            scratch=scratch,
            chunk=chunk,
        )

    @property
    def nodes(self) -> int:
        return len(self.best)

    @property
    def kept(self) -> torch.Tensor:
        """int64 [1], nodes on the path, the root included; a view of `result`."""
        return self.result[:1]

    @property
    def path(self) -> torch.Tensor:
        """int64 [T], nodes from the root to the last accepted one, then -1; a view of `result`."""
        return self.result[HEADER : HEADER + self.nodes]

    @property
    def tokens(self) -> torch.Tensor:
        """int64 [T], accepted tokens, the decided one, then -1; a view of `result`."""
        return self.result[HEADER + self.nodes : HEADER + 2 * self.nodes]


@dataclass(frozen=True)
class Walk:
    """A verification as the host reads it.

    path      node indices from the root to the last accepted node.
    tokens    the accepted nodes' tokens and the decided one: what is committed.
    tested    the nodes put to the test, in order; the i-th used the i-th uniform. The decided
              token used the next one (none is used under `greedy`).
    p_tested  p of each tested token after its earlier siblings were removed.
    chances   with which each of them stayed.
    broken    a visited row had no finite log-sum-exp: the target computed NaN, or overflowed.
    """

    path: tuple[int, ...]
    tokens: tuple[int, ...]
    tested: tuple[int, ...]
    p_tested: tuple[float, ...]
    chances: tuple[float, ...]
    broken: bool


def read_walk(result: torch.Tensor) -> Walk:
    """The walk in `VerifyBuffers.result`, int64 [3 + 5 T], once it is on the CPU."""
    kept, tests, broken = result[:HEADER].tolist()
    rows = result[HEADER:].view(ROWS, -1)
    path, tokens = rows[:2, :kept].tolist()
    p_tested, chances = rows[3:].view(torch.float64)[:, :tests].tolist()
    return Walk(
        path=tuple(path),
        tokens=tuple(tokens),
        tested=tuple(rows[2, :tests].tolist()),
        p_tested=tuple(p_tested),
        chances=tuple(chances),
        broken=bool(broken),
    )


def refuse_misfits(
    logits: torch.Tensor,  # [T, V]
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T]
    out: VerifyBuffers,
    *,
    uniforms: torch.Tensor | None = None,  # float64 [at least T]
    least: torch.Tensor | None = None,  # float32 [T]
    proposal: Proposal | None = None,
) -> None:
    """Raise ValueError where the arguments of a verification do not fit together.

    What a rule does not take, or was not given, is None. Looks at shapes and dtypes only: nothing
    waits for the device.
    """
    nodes, vocabulary = logits.shape
    chunks = out.scratch.tops.shape[1]
    if out.nodes != nodes or chunks != -(-vocabulary // out.chunk):
        raise ValueError(
            f"logits are [{nodes}, {vocabulary}], but the buffers are for {out.nodes} nodes and "
            f"{chunks} chunks of {out.chunk} tokens; allocate them for these sizes"
        )
    _refuse_unless_row("token", token, torch.int64, nodes, "node")
    _refuse_unless_row("parent", parent, torch.int64, nodes, "node")
    if uniforms is not None:
        _refuse_uniforms(uniforms, nodes)
    if least is not None:
        _refuse_unless_row("least", least, torch.float32, nodes, "node")
    if proposal is not None:
        _refuse_proposal(proposal, nodes, vocabulary)


def _refuse_unless_row(
    name: str, tensor: torch.Tensor, dtype: torch.dtype, count: int, each: str
) -> None:
    """Unless it holds `count` numbers in a row, one for each of something."""
    if tensor.dtype != dtype or tensor.shape != (count,) or not tensor.is_contiguous():
        raise ValueError(
            f"{name} must be contiguous {str(dtype).removeprefix('torch.')} [{count}], one a "
            f"{each}; found {tensor.dtype} {list(tensor.shape)} with strides {tensor.stride()}"
        )


def _refuse_uniforms(uniforms: torch.Tensor, nodes: int) -> None:
    """Unless there is one for every test and one more for the token."""
    flat = uniforms.ndim == 1 and uniforms.is_contiguous()
    if uniforms.dtype != torch.float64 or not flat or len(uniforms) < nodes:
        raise ValueError(
            f"uniforms must be contiguous float64 with at least {nodes} entries, one a node; "
            f"found {uniforms.dtype} {list(uniforms.shape)}"
        )


def _refuse_proposal(proposal: Proposal, nodes: int, vocabulary: int) -> None:
    """Unless it describes `nodes` nodes and `vocabulary` tokens."""
    log_q, draft_id = proposal.log_q, proposal.draft_id
    if log_q.dtype != torch.float32 or log_q.ndim != 2:
        raise ValueError(f"log_q must be float32 [E, DV]; found {log_q.dtype} {list(log_q.shape)}")
    _refuse_unless_row("row", proposal.row, torch.int64, nodes, "node")
    if draft_id is None:
        if log_q.shape[1] != vocabulary:
            raise ValueError(
                f"log_q covers {log_q.shape[1]} tokens and the target has {vocabulary}: give "
                "draft_id, the draft's id of each target token"
            )
    else:
        _refuse_unless_row("draft_id", draft_id, torch.int64, vocabulary, "target token")
