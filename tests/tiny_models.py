"""Tiny random targets and drafts in float32, and the stock model each target is checked against.

The stock model has the same weights but transformers' own eager attention, no cache of ours, no
tree mask and no hooks: what it computes is what the target must compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from eagle3_viz import attention
from eagle3_viz.config import DecodeConfig, Method, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.records import Cycle, Prefill
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import DraftTree, Mark, make_tree

VOCABULARY = 61
WINDOW = 5  # shorter than every text of the tests

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_ALTERNATING = ["sliding_attention", "full_attention"] * 4
_FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, {}),
    "llama-multi-head": (LlamaConfig, {"num_key_value_heads": 4}),
    "llama-wide-heads": (LlamaConfig, {"head_dim": 16, "attention_bias": True}),
    "qwen2": (Qwen2Config, {}),
    "qwen2-sliding": (
        Qwen2Config,
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 3},
    ),
    "qwen3": (Qwen3Config, {"head_dim": 16}),
    "qwen3-sliding": (
        Qwen3Config,
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 3},
    ),
    "mistral": (MistralConfig, {"sliding_window": None}),
    "mistral-sliding": (MistralConfig, {"sliding_window": WINDOW}),
    "gemma": (GemmaConfig, {"head_dim": 16}),
    "gemma2": (
        Gemma2Config,
        {
            "sliding_window": WINDOW,
            "layer_types": _ALTERNATING,
            "query_pre_attn_scalar": 20,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 4.0,
        },
    ),
    "gemma3": (
        Gemma3TextConfig,
        {"sliding_window": WINDOW, "layer_types": _ALTERNATING, "query_pre_attn_scalar": 20},
    ),
}
FAMILIES = tuple(_FAMILIES)


def tiny_config(family: str = "llama", **changes: Any) -> Any:
    kind, settings = _FAMILIES[family]
    return kind(**(_SIZES | settings | changes))


@torch.no_grad()
def _randomize(model: Any, seed: int, sharpness: float) -> None:
    """Weights at which layers matter and texts differ; the default ones are nearly zero."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim == 2:
            weight.copy_(1.5 * noise / weight.shape[1] ** 0.5)
        else:  # norms keep their 1 (Gemma: 0), biases their 0
            weight.add_(0.2 * noise)
        if name.startswith("lm_head"):
            weight.mul_(sharpness)


def tiny_target(
    family: str = "llama",
    *,
    seed: int = 0,
    sharpness: float = 1.5,
    boundaries: Sequence[int] | None = None,
    tokenizer: Any = None,
    **changes: Any,
) -> TargetModel:
    config = tiny_config(family, tie_word_embeddings=False, **changes)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention.NAME)
    _randomize(model, seed, sharpness)
    return TargetModel(model, tokenizer or SimpleNamespace(eos_token_id=None), boundaries)


def stock_model(target: TargetModel, config: Any = None) -> Any:
    """transformers' own model with the target's weights, under another config if one is given."""
    config = deepcopy(target.config if config is None else config)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.load_state_dict(target.model.state_dict())
    return model.eval()


@torch.no_grad()
def stock_forward(model: Any, ids: Sequence[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Logits [n, V] and hidden_states[0..L], each [n, d], of one whole text."""
    out = model(input_ids=torch.tensor([list(ids)]), use_cache=False, output_hidden_states=True)
    return out.logits[0], [states[0] for states in out.hidden_states]


def random_ids(count: int, seed: int, vocabulary: int = VOCABULARY) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (count,), generator=generator).tolist()


def tree_of(tokens: Sequence[int], parents: Sequence[int]) -> DraftTree:
    """A tree for the target and the rules: node 0 is the root, every node was expanded; no q."""
    depth = [0] * len(tokens)
    for node in range(1, len(tokens)):
        depth[node] = depth[parents[node]] + 1
    return make_tree(
        token=torch.tensor(tokens),
        parent=torch.tensor(parents),
        depth=torch.tensor(depth),
        pool_index=torch.arange(-1, len(tokens) - 1),
        pool=None,
        expanded=torch.arange(-1, len(tokens) - 1),
        q_logprobs=(),
        levels=max(depth),
    )


def path_to(parents: Sequence[int], node: int) -> list[int]:
    """Node indices from the root to `node`."""
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return path


def tiny_architecture(target: TargetModel, **switches: Any) -> Eagle3Architecture:
    sizes = Eagle3Architecture(
        hidden_size=target.hidden_size,
        target_hidden_size=target.hidden_size,
        intermediate_size=40,
        num_layers=1,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        vocab_size=target.vocab_size,
        draft_vocab_size=23,
        num_taps=3,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
    )
    return replace(sizes, **switches)


def tiny_weights(arch: Eagle3Architecture, seed: int = 0, sharpness: float = 2.0) -> Eagle3Weights:
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in arch.tensor_shapes().items():
        noise = torch.randn(shape, generator=generator)
        if len(shape) == 2:
            tensors[name] = 1.5 * noise / shape[1] ** 0.5
        else:
            tensors[name] = 0.2 * noise + ("norm" in name)
    tensors["lm_head.weight"] *= sharpness
    return Eagle3Weights(arch, tensors, offsets(arch, seed))


def offsets(arch: Eagle3Architecture, seed: int = 0) -> torch.Tensor:
    """d2t of a random subset of the target's vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(arch.vocab_size, generator=generator)[: arch.draft_vocab_size]
    return chosen.sort().values - torch.arange(arch.draft_vocab_size)


def tiny_draft(target: TargetModel, seed: int = 0, **switches: Any) -> Eagle3Draft:
    return Eagle3Draft(tiny_weights(tiny_architecture(target, **switches), seed), target)


def tiny_eagle1_weights(target: TargetModel, **switches: Any) -> Eagle1Weights:
    sizes = Eagle1Architecture(
        hidden_size=target.hidden_size,
        intermediate_size=40,
        num_layers=1,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        vocab_size=target.vocab_size,
        rms_norm_eps=1e-5,
        rope_theta=1e5,
    )
    arch = replace(sizes, **switches)
    generator = torch.Generator().manual_seed(3)
    tensors = {
        name: torch.randn(shape, generator=generator) / shape[-1] ** 0.5
        for name, shape in arch.tensor_shapes().items()
    }
    return Eagle1Weights(arch, tensors)


def shared_target(family: str = "llama") -> TargetModel:
    """One target a family for tests that only read it; runs on it must not overlap.

    Its taps are as they are at first: a run selects those that its draft reads.
    """
    target = _made_once(family)
    target.taps.select(target.default_boundaries)
    return target


@cache
def _made_once(family: str) -> TargetModel:
    return tiny_target(family)


@cache
def shared_stock(family: str = "llama") -> Any:
    return stock_model(shared_target(family))


class OracleDraft(SteppedDraft):
    """A draft that knows the stock target and adds seeded noise: most of its guesses are right.

    ids: the target ids it can propose, rising.
    """

    def __init__(self, stock: Any, prompt: Sequence[int], ids: Sequence[int], noise: float) -> None:
        self.stock, self.prompt, self.ids, self.noise = stock, list(prompt), list(ids), noise
        self.vocabulary_size = len(self.ids)
        self.target_ids = torch.tensor(self.ids)
        self.boundaries: tuple[int, ...] = ()
        self.methods: tuple[Method, ...] = ("eagle1", "eagle2", "eagle3")
        self.known: dict[tuple[int, ...], torch.Tensor] = {}
        self.text: list[int] = []
        self.paths: list[list[int]] = []

    def start(self, first: int) -> None:
        assert [first] == self.prompt[:1]
        self.text = [first]

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        assert len(features) == len(tokens)
        self.text += tokens

    def propose(self, root: int, tree: TreeShape | FixedTree, mark: Mark) -> DraftTree:
        assert self.text[-1] == root
        return super().propose(root, tree, mark)

    def root_logits(self) -> torch.Tensor:
        self.paths = [[]]
        return self.logits_of([])

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        rows = zip(self.target_ids[draft_ids].tolist(), parents.tolist(), strict=True)
        new = [[*self.paths[parent], token] for token, parent in rows]
        assert all(len(path) == level for path in new)
        self.paths += new
        return torch.stack([self.logits_of(path) for path in new])

    def logits_of(self, path: list[int]) -> torch.Tensor:
        text = (*self.text, *path)
        if text not in self.known:
            seed = sum((i + 1) * token for i, token in enumerate(text))
            noise = torch.randn(len(self.ids), generator=torch.Generator().manual_seed(seed))
            logits = stock_forward(self.stock, text)[0][-1]
            self.known[text] = logits[self.ids] + self.noise * noise
        return self.known[text]


def decode_all(
    target: TargetModel, draft: Draft | None, prompt: Sequence[int], **settings: Any
) -> tuple[Prefill, list[Cycle]]:
    """Every record of one run; settings as DecodeConfig's."""
    prefill, *cycles = decode(target, draft, prompt, DecodeConfig(**settings))
    assert isinstance(prefill, Prefill)
    return prefill, [cycle for cycle in cycles if isinstance(cycle, Cycle)]


def text_of(prefill: Prefill, cycles: list[Cycle]) -> list[int]:
    return [prefill.token, *(token for cycle in cycles for token in cycle.tokens)]
