"""The EAGLE-3 draft: one forward, with every switch of the layouts in the wild (FORMATS.md 1)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu

from eagle3_viz.attention import additive_mask, grouped_attention
from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.checkpoints import CheckpointError, read_eagle3
from eagle3_viz.kv_cache import GROWTH_STEP
from eagle3_viz.sampling import Draws
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import DraftTree, Mark, build_dynamic, build_sampled_chain


class Eagle3Draft:
    """Drafts from the target's taps; implements `Draft` and, for the tree builder, `Stepper`.

    Position i of the draft holds the pair (feature of position i, token i + 1) and predicts
    token i + 2 (MATH.md 3). Keys and values of verified positions come from true features only;
    those of a tree stand behind them and are dropped with it.
    """

    def __init__(self, weights: Eagle3Weights, target: TargetModel) -> None:
        refuse_other_target(weights.architecture, target)
        self.architecture = arch = weights.architecture
        self.vocabulary_size = arch.draft_vocab_size
        self.device, self.dtype = target.device, target.dtype
        tensors = {
            name: tensor.to(self.device, self.dtype) for name, tensor in weights.tensors.items()
        }
        self._embedding = tensors.pop("embed_tokens.weight", target.embedding.detach())
        self._head = tensors.pop("lm_head.weight", target.head.detach())
        self._fc, self._fc_bias = tensors["fc.weight"], tensors.get("fc.bias")
        self._layers = [_Layer(arch, tensors, index) for index in range(arch.num_layers)]
        self._tensors = tensors
        offsets = weights.d2t.to(self.device)
        self.target_ids = torch.arange(len(offsets), device=self.device) + offsets
        self._rope = _Rope(arch.head_dim, arch.rope_theta, self.device, self.dtype)
        self._groups = arch.num_heads // arch.num_kv_heads
        self._cache = torch.empty(0)
        self._capacity = 0
        self.reset()

    @classmethod
    def load(cls, folder: Path, target: TargetModel) -> Eagle3Draft:
        """Read a draft folder for `target`. Raises CheckpointError when it does not fit."""
        return cls(read_eagle3(folder), target)

    @property
    def parameters(self) -> int:
        """Trained parameters, without an embedding or head that belongs to the target."""
        own = [*self._tensors.values()]
        own += [self._head] if self.architecture.own_head else []
        own += [self._embedding] if self.architecture.own_embedding else []
        return sum(tensor.numel() for tensor in own)

    def reset(self) -> None:
        """Forget the text."""
        self._length = 0  # verified positions
        self._tree_length = self._tree_level = 0  # rows and levels of the tree behind them
        self._root_hidden = torch.empty(0)
        self._root_logits = torch.empty(0)
        self._beam_hidden = torch.empty(0)  # outputs of the newest level [m, H]
        self._beam_visible = torch.empty(0)  # tree rows that each of them sees, bool

    @torch.inference_mode()
    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Run m verified positions: features [m, K * d], tokens [m] one further on."""
        m = len(tokens)
        self._reserve(self._length + m)
        ids = torch.tensor(tokens, device=self.device)
        mask = None
        if (m > 1 and self._length) or self.architecture.sliding_window:
            keys = torch.arange(self._length + m, device=self.device)
            queries = keys[self._length :]
            visible = keys[None] <= queries[:, None]
            mask = additive_mask(self._windowed(visible, queries, keys), self._groups, self.dtype)
        rope = self._rope.at(self._length, m)
        hidden = self._forward(self._reduce(features), ids, rope, mask, self._length)
        self._length += m
        self._tree_length = 0
        self._root_hidden = hidden[-1:]
        self._root_logits = self._logits(hidden[-1:])[0]

    def propose(self, root: int, shape: TreeShape, mark: Mark) -> DraftTree:
        """A dynamic tree below `root` (MATH.md 2)."""
        with torch.inference_mode():
            return build_dynamic(root, self, shape, mark)

    def propose_sampled(
        self, root: int, depth: int, temperature: float, draws: Draws, mark: Mark
    ) -> DraftTree:
        """A chain of depth + 1 tokens drawn from q."""
        with torch.inference_mode():
            return build_sampled_chain(root, self, depth, temperature, draws, mark)

    def root_logits(self) -> torch.Tensor:
        """Logits [DV] at the last verified position, float32; starts a new tree."""
        self._tree_length = self._tree_level = 0
        self._beam_hidden = self._root_hidden
        self._beam_visible = torch.zeros(1, 0, dtype=torch.bool, device=self.device)
        return self._root_logits

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """Feed the next level of the tree; logits [m, DV], float32. All rows share a position."""
        m, first = len(draft_ids), self._length + self._tree_length
        self._reserve(first + m)
        position = self._length + self._tree_level
        own = torch.eye(m, dtype=torch.bool, device=self.device)
        self._beam_visible = torch.cat([self._beam_visible[parents], own], dim=1)
        visible = torch.cat([own.new_ones((m, self._length)), self._beam_visible], dim=1)
        if self.architecture.sliding_window:
            queries = own.new_full((m,), position, dtype=torch.int64)
            visible = self._windowed(visible, queries, self._tree_key_positions(m))
        mask = additive_mask(visible, self._groups, self.dtype)
        ids, hidden = self.target_ids[draft_ids], self._beam_hidden[parents]
        hidden = self._forward(hidden, ids, self._rope.at(position, 1), mask, first)
        self._tree_length += m
        self._tree_level += 1
        self._beam_hidden = hidden
        return self._logits(hidden)

    def _tree_key_positions(self, width: int) -> torch.Tensor:
        """Positions of all keys in the cache, the verified ones and every level of the tree."""
        verified = torch.arange(self._length, device=self.device)
        levels = torch.arange(self._tree_level + 1, device=self.device)
        return torch.cat([verified, self._length + levels.repeat_interleave(width)])

    def _windowed(
        self, visible: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor
    ) -> torch.Tensor:
        window = self.architecture.sliding_window
        return visible if window is None else visible & (keys[None] > queries[:, None] - window)

    def _reduce(self, features: torch.Tensor) -> torch.Tensor:
        """g [m, H] from taps [m, K * d]."""
        arch, x = self.architecture, features.to(device=self.device, dtype=self.dtype)
        if arch.norm_before_fc:
            x = _norm(x, self._tensors["input_norm.weight"], arch.rms_norm_eps)
        if arch.fc_norm:
            parts = x.chunk(arch.num_taps, dim=-1)
            weights = [self._tensors[f"fc_norm.{k}.weight"] for k in range(arch.num_taps)]
            normed = [_norm(p, w, arch.rms_norm_eps) for p, w in zip(parts, weights, strict=True)]
            x = torch.cat(normed, dim=-1)
        return linear(x, self._fc, self._fc_bias)

    def _forward(
        self,
        g: torch.Tensor,  # [m, H] feature stream
        ids: torch.Tensor,  # int64 [m], target ids
        rope: tuple[torch.Tensor, torch.Tensor],  # cos, sin [m, hd], or [1, hd] for all rows
        mask: torch.Tensor | None,
        first: int,
    ) -> torch.Tensor:
        """Output of the last layer before the final norm [m, H]; keys written at `first`."""
        x = embedding(ids, self._embedding)
        cos, sin = rope
        for layer, cache in zip(self._layers, self._cache, strict=True):
            g = layer.forward(x, g, cos, sin, mask, cache, first)
        if self.architecture.norm_output:
            # Feedback and head both read the normed state: the head's own norm is this one.
            return _norm(g, self._tensors["norm.weight"], self.architecture.rms_norm_eps)
        return g

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [m, DV], float32, of outputs [m, H]."""
        arch = self.architecture
        if arch.final_norm and not arch.norm_output:
            hidden = _norm(hidden, self._tensors["norm.weight"], arch.rms_norm_eps)
        return linear(hidden, self._head).float()

    def _reserve(self, tokens: int) -> None:
        if tokens <= self._capacity:
            return
        arch = self.architecture
        capacity = -(-tokens // GROWTH_STEP) * GROWTH_STEP
        shape = (arch.num_layers, 2, 1, arch.num_kv_heads, capacity, arch.head_dim)
        cache = torch.zeros(shape, dtype=self.dtype, device=self.device)
        if self._capacity:
            cache[..., : self._capacity, :] = self._cache
        self._cache, self._capacity = cache, capacity
        self._rope.reserve(capacity)


class _Layer:
    """One decoder layer. Layer 0 reads embedding and feature side by side, later ones H."""

    def __init__(self, arch: Eagle3Architecture, tensors: dict[str, torch.Tensor], index: int):
        self.arch, self.first = arch, index == 0
        prefix = f"layers.{index}."
        own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        self.norms = {n.removesuffix(".weight"): t for n, t in own.items() if "norm" in n}
        names = ("q_proj", "k_proj", "v_proj")
        self.qkv = torch.cat([own[f"self_attn.{n}.weight"] for n in names])
        biases = [own[f"self_attn.{n}.bias"] for n in names] if arch.attention_bias else []
        self.qkv_bias = torch.cat(biases) if biases else None
        self.output = own["self_attn.o_proj.weight"]
        self.gate_up = torch.cat([own["mlp.gate_proj.weight"], own["mlp.up_proj.weight"]])
        self.down = own["mlp.down_proj.weight"]

    def forward(
        self,
        x: torch.Tensor,  # [m, H] token embeddings
        g: torch.Tensor,  # [m, H] feature stream
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
        cache: torch.Tensor,  # [2, 1, KV, capacity, hd]
        first: int,
    ) -> torch.Tensor:
        """The layer's output [m, H]; keys and values written at `first` onwards."""
        if self.first:
            normed = self._normed(g, "hidden_norm")
            residual = normed if self.arch.norm_before_residual else g
            inputs = torch.cat([self._normed(x, "input_layernorm"), normed], dim=-1)
        else:
            residual, inputs = g, self._normed(g, "input_layernorm")
        y = residual + self._attention(inputs, cos, sin, mask, cache, first)
        gate, up = linear(self._normed(y, "post_attention_layernorm"), self.gate_up).chunk(2, -1)
        return y + linear(silu(gate) * up, self.down)

    def _attention(
        self,
        inputs: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
        cache: torch.Tensor,
        first: int,
    ) -> torch.Tensor:
        arch, m = self.arch, len(inputs)
        heads = linear(inputs, self.qkv, self.qkv_bias).view(m, -1, arch.head_dim).transpose(0, 1)
        qk, v = heads.split([arch.num_heads + arch.num_kv_heads, arch.num_kv_heads])
        if arch.qk_norm:
            q, k = qk.split([arch.num_heads, arch.num_kv_heads])
            q, k = self._normed(q, "self_attn.q_norm"), self._normed(k, "self_attn.k_norm")
            qk = torch.cat([q, k])
        q, k = _rotate(qk, cos, sin).split([arch.num_heads, arch.num_kv_heads])
        cache[0, 0, :, first : first + m] = k
        cache[1, 0, :, first : first + m] = v
        keys, values = cache[:, :, :, : first + m]
        out = grouped_attention(q[None], keys, values, mask)
        return linear(out[0].transpose(0, 1).reshape(m, -1), self.output)

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return _norm(x, self.norms[name], self.arch.rms_norm_eps)


class _Rope:
    """Rotary embedding in the half-split form, from a table that grows with the text."""

    def __init__(self, head_dim: int, theta: float, device: torch.device, dtype: torch.dtype):
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
        self._frequencies = 1.0 / theta**exponents
        self._dtype = dtype
        self.reserve(GROWTH_STEP)

    def reserve(self, positions: int) -> None:
        """Have the angles of the first `positions` positions ready."""
        steps = torch.arange(positions, dtype=torch.float32, device=self._frequencies.device)
        angles = steps[:, None] * self._frequencies
        angles = torch.cat([angles, angles], dim=-1)
        self._table = torch.stack([angles.cos(), angles.sin()]).to(self._dtype)

    def at(self, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [count, hd] at positions `first` onwards."""
        cos, sin = self._table[:, first : first + count]
        return cos, sin


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return rms_norm(x, (x.shape[-1],), weight, eps)


def refuse_other_target(arch: Eagle3Architecture, target: TargetModel) -> None:
    """Raise CheckpointError when the draft was made for another target than `target`."""
    if arch.target_hidden_size != target.hidden_size:
        raise CheckpointError(
            f"the draft reads features of width {arch.target_hidden_size}, this target has "
            f"{target.hidden_size}: it was trained for another target"
        )
    if arch.vocab_size != target.vocab_size:
        raise CheckpointError(
            f"the draft's target has {arch.vocab_size} tokens, this target has "
            f"{target.vocab_size}: it was trained for another target"
        )
    if arch.hidden_size != target.hidden_size and not arch.own_embedding:
        raise CheckpointError(
            f"the draft is {arch.hidden_size} wide, its target {target.hidden_size}, and it has "
            "no embedding of its own"
        )
    if len(set(target.taps.boundaries)) != arch.num_taps:
        raise CheckpointError(
            f"the draft reads {arch.num_taps} taps; this target gives "
            f"{len(set(target.taps.boundaries))} distinct ones (boundaries "
            f"{target.taps.boundaries}); EAGLE-3 needs a target of 7 layers or more"
        )
