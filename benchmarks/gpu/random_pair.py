"""A target and an EAGLE-3 draft of given sizes with random weights, made where they run.

What a forward costs does not depend on what the weights are; how many drafted tokens stay does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from eagle3_viz import attention
from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.target import TargetModel

TAPS = 3
EPSILON, ROPE_THETA = 1e-5, 500_000.0
CONTEXT = 131_072


@dataclass(frozen=True)
class Sizes:
    """Of a Llama and its draft, of the texts in front of a step, and of the trees.

    drafted: tokens of the draft's vocabulary, at most `vocabulary`. layers: 7 at least, of which
    three are tapped.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    drafted: int
    dtype: torch.dtype
    prefixes: tuple[int, ...]
    trees: tuple[TreeShape, ...]

    @property
    def config(self) -> LlamaConfig:
        """The target's."""
        return LlamaConfig(
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab_size=self.vocabulary,
            max_position_embeddings=CONTEXT,
            initializer_range=self.hidden**-0.5,  # a state stays about as large as it is
            rms_norm_eps=EPSILON,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )

    @property
    def architecture(self) -> Eagle3Architecture:
        """The draft's: one layer like the target's."""
        return Eagle3Architecture(
            hidden_size=self.hidden,
            target_hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_layers=1,
            num_heads=self.heads,
            num_kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab_size=self.vocabulary,
            draft_vocab_size=self.drafted,
            num_taps=TAPS,
            rms_norm_eps=EPSILON,
            rope_theta=ROPE_THETA,
        )

    @property
    def target_bytes(self) -> int:
        """The weights that every forward of the target reads: all but the embedding."""
        inner, shared = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention_rows = 2 * inner + 2 * shared  # of q and o, of k and v
        layer = self.hidden * (attention_rows + 3 * self.intermediate + 2)  # and two norms
        head = self.hidden * (self.vocabulary + 1)  # and the norm before it
        return (self.layers * layer + head) * self.dtype.itemsize

    @property
    def fc_bytes(self) -> int:
        """The weight through which the taps enter the draft."""
        return self._draft_numbers("fc.") * self.dtype.itemsize

    @property
    def level_bytes(self) -> int:
        """The weights that every forward of the draft reads: all but `fc`."""
        return self._draft_numbers("") * self.dtype.itemsize - self.fc_bytes

    @property
    def memory(self) -> int:
        """Bytes of all weights, and of the keys and values of the longest text."""
        embedding = self.vocabulary * self.hidden * self.dtype.itemsize
        weights = self.target_bytes + embedding + self.fc_bytes + self.level_bytes
        return weights + (self.layers + 1) * self._row_bytes * max(self.prefixes)

    def step_bytes(self, prefix: int) -> int:
        """What a step of autoregression, or a verification, reads at least behind `prefix` tokens:
        weights, keys and values once."""
        return self.target_bytes + self.layers * self._row_bytes * prefix

    def cycle_bytes(self, prefix: int, shape: TreeShape) -> int:
        """A verification's bytes and the draft's: it takes the last cycle's tokens over, then runs
        `depth` levels, and reads its layer, its head, its keys and values each time."""
        forward = self.level_bytes + self._row_bytes * prefix
        return self.step_bytes(prefix) + self.fc_bytes + (1 + shape.depth) * forward

    @property
    def _row_bytes(self) -> int:
        """Key and value of a token in one layer."""
        return 2 * self.kv_heads * self.head_dim * self.dtype.itemsize

    def _draft_numbers(self, names: str) -> int:
        shapes = self.architecture.tensor_shapes()
        return sum(prod(shape) for name, shape in shapes.items() if name.startswith(names))


LLAMA_8B = Sizes(
    hidden=4096, intermediate=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
    vocabulary=128_256, drafted=32_000, dtype=torch.bfloat16, prefixes=(512, 8192),
    trees=(TreeShape(8, 2, 4), TreeShape(16, 4, 6), TreeShape(32, 5, 8), TreeShape(60, 7, 10)),
)  # fmt: skip
TINY = Sizes(
    hidden=64, intermediate=96, layers=8, heads=4, kv_heads=2, head_dim=16,
    vocabulary=300, drafted=100, dtype=torch.float32, prefixes=(20, 50),
    trees=(TreeShape(4, 1, 3), TreeShape(8, 2, 4)),
)  # fmt: skip


@torch.no_grad()
def random_pair(sizes: Sizes, device: torch.device) -> tuple[TargetModel, Eagle3Draft]:
    """The target and its draft; no weight is ever on the host unless it runs there."""
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(
            sizes.config, dtype=sizes.dtype, attn_implementation=attention.NAME
        )
        target = TargetModel(model, SimpleNamespace(eos_token_id=None))
        tensors = {
            name: _random(shape, sizes.dtype)
            for name, shape in sizes.architecture.tensor_shapes().items()
        }
    drafted = torch.arange(sizes.drafted)
    offsets = drafted * sizes.vocabulary // sizes.drafted - drafted  # evenly over the vocabulary
    return target, Eagle3Draft(Eagle3Weights(sizes.architecture, tensors, offsets), target)


def random_text(vocabulary: int, tokens: int) -> list[int]:
    """Ids of a text; of the same length the same."""
    generator = torch.Generator().manual_seed(tokens)
    ids: list[int] = torch.randint(vocabulary, (tokens,), generator=generator).tolist()
    return ids


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Norms of 1; matrices as the target's are."""
    if len(shape) == 1:
        return torch.ones(shape, dtype=dtype)
    return torch.randn(shape, dtype=dtype) / shape[-1] ** 0.5
