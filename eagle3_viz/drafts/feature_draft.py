"""Drafts that read the target's states: positions, cache and tree, whatever their layers are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch

from eagle3_viz.attention import additive_mask
from eagle3_viz.config import Method
from eagle3_viz.drafts.fed_tree import FedTree
from eagle3_viz.drafts.rope import Architecture, Rope
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.kv_cache import GROWTH_STEP
from eagle3_viz.layer_memory import Appended, Memory
from eagle3_viz.llama_block import Angles, LlamaBlock
from eagle3_viz.llama_stack import KeysAndValues, LlamaStack
from eagle3_viz.projection import Projection
from eagle3_viz.target import TargetModel


class FeatureDraft(SteppedDraft):
    """Implements `Draft` and, for the tree builders, `Stepper`.

    Position i of the draft holds the pair (feature of position i, token i + 1) and predicts
    token i + 2 (MATH.md 3). Keys and values of verified positions come from true features only;
    those of a tree stand behind them and are dropped with it.

    capacity: rows of keys and values, and angles, that there is room for; another capacity is
    other memory.
    """

    methods: tuple[Method, ...]

    def __init__(
        self,
        arch: Architecture,
        target: TargetModel,
        boundaries: tuple[int, ...],
        target_ids: torch.Tensor,  # int64 [DV]
        sliding_window: int | None = None,
    ) -> None:
        self.boundaries, self.target_ids = boundaries, target_ids
        self.vocabulary_size = len(target_ids)
        self.device, self.dtype = target.device, target.dtype
        self._layer_count, self._head_dim = arch.num_layers, arch.head_dim
        self._kv_heads = arch.num_kv_heads
        self._groups = arch.num_heads // arch.num_kv_heads
        self.window = sliding_window
        self.rope = Rope(arch, self.device, self.dtype)
        self._cache = torch.empty(0)
        self.capacity = 0
        self._forget()

    def start(self, first: int) -> None:
        """A new text begins; its first token is seen through its feature only."""
        self._forget()

    def _forget(self) -> None:
        self._length = 0  # verified positions
        self._root_logits = torch.empty(0)
        self._hidden = torch.empty(0)  # outputs at the root and at every row fed since [1 + R, H]
        self._fed = FedTree(self.device)

    @torch.inference_mode()
    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Run m verified positions: features [m, K * d], tokens [m] one further on."""
        m = len(tokens)
        self.reserve(self._length + m)
        ids = torch.tensor(tokens, device=self.device)
        mask = None
        if (m > 1 and self._length) or self.window:
            keys = torch.arange(self._length + m, device=self.device)
            queries = keys[self._length :]
            visible = keys[None] <= queries[:, None]
            mask = additive_mask(self._windowed(visible, queries, keys), self._groups, self.dtype)
        angles = self.rope.at(self._length, m)
        stream = self.read(features.to(device=self.device, dtype=self.dtype))
        hidden = self.forward(stream, ids, angles, self._behind(self._length, mask))
        self._length += m
        self._hidden = hidden[-1:]
        self._fed.clear()
        self._root_logits = self.logits(hidden[-1:])[0]

    def root_logits(self) -> torch.Tensor:
        """Logits [DV] at the last verified position, float32; starts a new tree."""
        self._hidden = self._hidden[:1]
        self._fed.clear()
        return self._root_logits

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """Feed m tokens of the tree; logits [m, DV], float32; as `Stepper.step`."""
        m, first = len(draft_ids), self._length + len(self._fed)
        self.reserve(first + m)
        position = self._length + level - 1
        visible = self._fed.add(parents, level, self._length)
        if self.window:
            queries = torch.full((m,), position, device=self.device)
            keys = self._fed.key_positions(self._length, self._length - 1)
            visible = self._windowed(visible, queries, keys)
        mask = additive_mask(visible, self._groups, self.dtype)
        ids, stream = self.target_ids[draft_ids], self._hidden[parents]
        angles = self.rope.at(position, 1)
        hidden = self.forward(stream, ids, angles, self._behind(first, mask))
        self._hidden = torch.cat([self._hidden, hidden])
        return self.logits(hidden)

    @property
    @abstractmethod
    def projections(self) -> list[Projection]:
        """The matrix products over verified positions, in order, the head last."""

    @property
    def level_projections(self) -> list[Projection]:
        """Those over a level of a tree."""
        return self.projections

    @abstractmethod
    def read(self, features: torch.Tensor) -> torch.Tensor:
        """What the layers take as feature, [m, H], from the target's states [m, K * d]."""

    @abstractmethod
    def forward(
        self,
        stream: torch.Tensor,  # [m, H], of `read`, or outputs of the level before
        ids: torch.Tensor,  # int64 [m], target ids
        angles: Angles,
        memory: Memory,
    ) -> torch.Tensor:
        """Outputs [m, H]: what is fed back as feature, and what `logits` reads."""

    @abstractmethod
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [m, DV], float32, of outputs [m, H]."""

    @property
    def by_layer(self) -> list[KeysAndValues]:
        """Keys and values of every layer."""
        return [(own[0], own[1]) for own in self._cache]

    @property
    def root_state(self) -> torch.Tensor:
        """What the draft feeds back at the last verified position, [1, H]."""
        return self._hidden[:1]

    @property
    def length(self) -> int:
        """Verified positions."""
        return self._length

    def _behind(self, first: int, mask: torch.Tensor | None) -> Appended:
        return Appended(self.by_layer, [mask] * self._layer_count, first)

    def _windowed(
        self, visible: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor
    ) -> torch.Tensor:
        window = self.window
        return visible if window is None else visible & (keys[None] > queries[:, None] - window)

    def reserve(self, tokens: int) -> None:
        """Make room for `tokens` rows of keys and values."""
        if tokens <= self.capacity:
            return
        capacity = -(-tokens // GROWTH_STEP) * GROWTH_STEP
        shape = (self._layer_count, 2, 1, self._kv_heads, capacity, self._head_dim)
        cache = torch.zeros(shape, dtype=self.dtype, device=self.device)
        if self.capacity:
            cache[..., : self.capacity, :] = self._cache
        self._cache, self.capacity = cache, capacity
        self.rope.reserve(capacity)


def blocks_of(arch: Architecture, tensors: Mapping[str, torch.Tensor]) -> list[LlamaBlock]:
    """The layers of a checkpoint."""
    layers: list[dict[str, torch.Tensor]] = [{} for _ in range(arch.num_layers)]
    for name, tensor in tensors.items():
        if name.startswith("layers."):
            _, index, own = name.split(".", 2)
            layers[int(index)][own] = tensor
    return [LlamaBlock(arch, layer) for layer in layers]


def stack_of(blocks: Sequence[LlamaBlock]) -> LlamaStack:
    """The layers one behind the other; what layer 0 attends from, its draft makes ready."""
    return LlamaStack(blocks, [None, *(block.norms["input_layernorm"] for block in blocks[1:])])


def fc_of(tensors: Mapping[str, torch.Tensor]) -> Projection:
    """The layer that mixes the features of a checkpoint."""
    biases = [tensors["fc.bias"]] if "fc.bias" in tensors else []
    return Projection([tensors["fc.weight"]], biases)
