"""The target: a transformers causal LM that verifies a token tree in one forward.

All contact with transformers' modelling code is here and in `fused_decoder.py`, `taps.py`,
`layer_memory.py`, `kv_cache.py`, `slot_cache.py` and `attention.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from eagle3_viz import attention
from eagle3_viz.fused_decoder import Masks, decoder_of
from eagle3_viz.kv_cache import GROWTH_STEP, LayerSpec, TreeCache
from eagle3_viz.projection import LARGEST_COPY, Projection
from eagle3_viz.slot_cache import SlotCache
from eagle3_viz.taps import Taps
from eagle3_viz.tree import DraftTree
from eagle3_viz.tree_path import rows_along

FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text")
ATTENTION_KINDS = {"full_attention", "sliding_attention"}


class TargetError(ValueError):
    """The model cannot serve as a target; the message says why in one sentence."""


@dataclass(frozen=True)
class Step:
    """What one target forward gives: logits [t, V] in the model's dtype, taps [t, K * d]."""

    logits: torch.Tensor
    features: torch.Tensor


class TargetModel:
    """A causal LM with tree verification, feature taps and a cache of committed tokens.

    A run is `prefill`, then `verify` and `commit` in turn; one run at a time.
    """

    def __init__(self, model: Any, tokenizer: Any, boundaries: Sequence[int] | None = None) -> None:
        refuse_unsupported(model.config)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = model.config
        self.device: torch.device = model.get_input_embeddings().weight.device
        self.dtype: torch.dtype = model.dtype
        self.hidden_size: int = self.config.hidden_size
        self.vocab_size: int = model.get_output_embeddings().weight.shape[0]
        self.context_limit: int = self.config.max_position_embeddings
        layers = len(model.get_decoder().layers)
        self.default_boundaries = default_boundaries(layers)
        self.final_boundary = layers + 1
        usual = self.default_boundaries if boundaries is None else boundaries
        self.taps = Taps(layers, usual)
        copied = sum(weight.nbytes for weight in model.parameters()) <= LARGEST_COPY
        self.decoder = decoder_of(model, self.taps, reorder=copied)
        head = model.get_output_embeddings()
        biases = [] if head.bias is None else [head.bias.detach()]
        self.head_projection = Projection([head.weight.detach()], biases, reorder=copied)
        self.end_of_sequence = end_of_sequence_ids(model, tokenizer)
        self._groups = self.config.num_attention_heads // self.config.num_key_value_heads
        self._windows = _windows_by_kind(self.config)
        self.cache = self.new_cache(GROWTH_STEP)
        self.engine: Any = None  # fixed buffers, kept by whoever decodes over them

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        dtype: torch.dtype,
        device: torch.device,
        trust_remote_code: bool = False,
        tokenizer: Any = None,
    ) -> TargetModel:
        """Read a model folder from disk (no network). Raises TargetError when it cannot serve.

        tokenizer stands in for a folder's own, for a model that comes without one.
        """
        refuse_config_file(folder)
        options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        placement = {} if device.type == "cpu" else {"device_map": {"": device}}
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=attention.NAME, **placement, **options
        )
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        return cls(model, tokenizer)

    @property
    def embedding(self) -> torch.Tensor:
        """Token embedding table [V, d]."""
        return self.model.get_input_embeddings().weight

    @property
    def head(self) -> torch.Tensor:
        """LM head weight [V, d]."""
        return self.model.get_output_embeddings().weight

    @property
    def windows(self) -> list[int | None]:
        """By layer, how many of the last positions it sees, None for all."""
        kinds = getattr(self.config, "layer_types", None)
        if kinds is None or not _takes_mask_by_kind(self.config):
            return [*self._windows.values()] * (self.final_boundary - 1)
        return [self._windows[kind] for kind in kinds]

    @property
    def projections(self) -> list[Projection]:
        """The matrix products of a forward, in order, the LM head last."""
        return [*self.decoder.projections, self.head_projection]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the LM head makes of final states [m, d]: logits [m, V] in the model's dtype."""
        logits = self.head_projection(hidden)
        cap = getattr(self.config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def clear(self, capacity: int = GROWTH_STEP) -> None:
        """Forget everything: an empty cache with room for `capacity` tokens before it grows."""
        self.cache = self.new_cache(capacity)

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int], cache: TreeCache | None = None) -> Step:
        """Run the prompt on an empty cache; logits [1, V] of its last token, features [n, K * d].

        cache: to be emptied and used from now on, instead of a new one.

        Raises ValueError for an empty prompt or one that leaves no room in the context.
        """
        n = len(token_ids)
        if not 0 < n < self.context_limit:
            raise ValueError(
                f"the prompt has {n} tokens; this target takes 1 to {self.context_limit - 1}"
            )
        if cache is None:
            self.clear(n + GROWTH_STEP)
        else:
            self.cache = cache
            cache.set_length(0)
        positions = torch.arange(n, device=self.device)
        ids = torch.tensor(token_ids, device=self.device)
        step = self.append(ids, positions, None, positions, keep=1)
        self.cache.set_length(n)
        return step

    @torch.inference_mode()
    def verify(self, tree: DraftTree) -> Step:
        """One forward over all T nodes behind the committed tokens; logits [T, V].

        A node sees the committed tokens, its ancestors and itself; its position is the number of
        committed tokens plus its depth (MATH.md 2). Nothing is committed yet.
        """
        n = self.cache.length
        positions = n + tree.depth.to(self.device)
        keys = torch.cat([torch.arange(n, device=self.device), positions])
        visible = None
        if len(tree) > 1:
            prefix = torch.ones(len(tree), n, dtype=torch.bool, device=self.device)
            visible = torch.cat([prefix, tree.visible.to(self.device)], dim=1)
        step = self.append(tree.token.to(self.device), positions, visible, keys)
        self.cache.roll_back()
        return step

    @torch.inference_mode()
    def append(
        self,
        ids: torch.Tensor,  # int64 [m]
        positions: torch.Tensor,  # int64 [m]
        visible: torch.Tensor | None,  # bool [m, n]; None for one token, or a prompt
        keys: torch.Tensor,  # int64 [n], positions of everything in the cache, these m included
        keep: int = 0,
    ) -> Step:
        """One forward of m tokens behind whatever was fed; logits of the last `keep`, 0 for all.

        What is fed stays in the cache, uncommitted, until `cache.keep`, `roll_back` or
        `set_length`.
        """
        masks = self._masks(visible, positions, keys)
        states = self.decoder(ids[None], positions[None], masks, self.cache)[0]
        taps = self.taps.take()
        features = states.new_empty(len(ids), 0) if taps is None else taps[0]
        return Step(self.logits(states[-keep:]), features)

    @torch.inference_mode()
    def commit(self, path: Sequence[int], features: torch.Tensor) -> torch.Tensor:
        """Keep the nodes on `path` (root first) of the last verified tree, drop the others.

        Returns their rows of `features` [T, K * d], [len(path), K * d].
        """
        self.cache.keep(path)
        return rows_along(features, path)

    @torch.inference_mode()
    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Teacher-forced forward of whole texts, ids [B, n], without a cache.

        Returns taps [B, n, K * d] and the final hidden states before the LM head [B, n, d].
        Texts of different lengths are padded on the right: what follows a token never reaches it.
        """
        positions = torch.arange(ids.shape[1], device=self.device)
        masks = self._masks(None, positions, positions)
        states = self.decoder(ids.to(self.device), positions[None], masks, None)
        taps = self.taps.take()
        assert taps is not None
        return taps, states

    def slot_cache(self, slots: int, capacity: int) -> SlotCache:
        """An empty cache for `slots` texts of up to `capacity` tokens."""
        return SlotCache(self._layer_specs(), slots, capacity)

    @torch.inference_mode()
    def fill_slot(self, cache: SlotCache, slot: int, ids: Sequence[int], start: int = 0) -> None:
        """Feed `ids` to one slot behind its first `start` tokens; no logits."""
        positions = start + torch.arange(len(ids), device=self.device)[None]
        row = torch.tensor([ids], device=self.device)
        self._feed_slots(cache, slice(slot, slot + 1), row, positions, start + len(ids))

    @torch.inference_mode()
    def step_slots(
        self, cache: SlotCache, ids: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Feed one token to every slot, ids and positions int64 [slots]; logits [slots, V].

        The shapes depend on the cache alone, so that what one slot computes does not depend on
        how long its neighbours are.
        """
        ids, positions = ids.to(self.device)[:, None], positions.to(self.device)[:, None]
        return self.logits(
            self._feed_slots(cache, slice(None), ids, positions, cache.capacity)[:, 0]
        )

    def _feed_slots(
        self,
        cache: SlotCache,
        rows: slice,
        ids: torch.Tensor,
        positions: torch.Tensor,
        extent: int,
    ) -> torch.Tensor:
        """Final states [rows, t, d] of ids [rows, t]; attention sees `extent` positions."""
        cache.aim(rows, positions, extent)
        keys = torch.arange(extent, device=self.device)
        masks = self._masks(keys <= positions[..., None], positions, keys)
        return self.decoder(ids, positions, masks, cache)

    def _masks(
        self, visible: torch.Tensor | None, queries: torch.Tensor, keys: torch.Tensor
    ) -> Masks:
        """Additive masks by attention kind, as transformers takes them.

        visible bool [t, n], None for causal; queries [t] and keys [n] are positions. Many texts
        at once: visible [B, t, n], queries [B, t]. One token, and a causal prefill, need no mask
        without a window: the attention function knows them.
        """
        masks: dict[str, torch.Tensor | None] = {}
        for kind, window in self._windows.items():
            if visible is None and (window is None or len(keys) <= window):
                masks[kind] = None
                continue
            seen = keys[None] <= queries[:, None] if visible is None else visible
            if window is not None:
                seen = seen & (keys > queries[..., None] - window)
            masks[kind] = attention.additive_mask(seen, self._groups, self.dtype)
        return masks if _takes_mask_by_kind(self.config) else next(iter(masks.values()))

    def new_cache(self, capacity: int) -> TreeCache:
        """An empty cache with room for `capacity` tokens before it grows."""
        return TreeCache(self._layer_specs(), capacity)

    def _layer_specs(self) -> list[LayerSpec]:
        default = self.config.hidden_size // self.config.num_attention_heads
        head_dim = getattr(self.config, "head_dim", None) or default
        heads = self.config.num_key_value_heads
        devices = [next(layer.parameters()).device for layer in self.model.get_decoder().layers]
        return [LayerSpec(heads, head_dim, self.dtype, device) for device in devices]


def default_boundaries(layers: int) -> tuple[int, ...]:
    """EAGLE-3's taps: the residual stream before layers 2, L // 2 and L - 3 (FORMATS.md 4).

    Rising and distinct, so a shallow target gives fewer than three.
    """
    return tuple(sorted({2, layers // 2, layers - 3} & set(range(layers))))


def refuse_config_file(folder: Path) -> None:
    """Raise TargetError for a folder that holds no model of a supported family."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TargetError(f"{folder.name}: there is no config.json; is this a model?") from None
    except OSError as error:
        raise TargetError(f"{folder.name}: config.json cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested without end
        raise TargetError(f"{folder.name}: config.json is not valid JSON ({error})") from None
    if not isinstance(config, dict):
        raise TargetError(f"{folder.name}: config.json must hold an object")
    kinds = config.get("layer_types") or []
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise TargetError(f"{folder.name}: layer_types in config.json must be a list of names")
    _refuse_family(str(config.get("model_type")), kinds)


def refuse_unsupported(config: Any) -> None:
    """Raise TargetError unless tree verification is known to be exact for this model."""
    _refuse_family(config.model_type, getattr(config, "layer_types", None))
    if getattr(config, "use_bidirectional_attention", None):
        raise TargetError(
            f"target family {config.model_type!r} is set to see tokens ahead "
            "(use_bidirectional_attention): it does not decode from left to right"
        )
    if "longrope" in _rope_types(config):
        raise TargetError(
            "this target's rotary embedding is 'longrope': it turns every token of a forward by "
            "the length of the longest guess, so a tree would change the distribution"
        )
    if config._attn_implementation != attention.NAME:
        raise TargetError(
            f"the model was loaded with {config._attn_implementation!r} attention; verifying trees "
            f"needs attn_implementation={attention.NAME!r}"
        )


def _rope_types(config: Any) -> set[Any]:
    """Kinds of rotary embedding; some families have one for each attention kind."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return {part.get("rope_type") for part in (parameters, *nested)}


def _refuse_family(model_type: str, layer_types: Sequence[str] | None) -> None:
    kinds = set(layer_types or ()) - ATTENTION_KINDS
    if kinds:
        raise TargetError(
            f"target family {model_type!r} has layers of kind {', '.join(sorted(kinds))}: a "
            "recurrent state cannot hold a tree of guesses, so it cannot be verified here"
        )
    if model_type not in FAMILIES:
        raise TargetError(
            f"target family {model_type!r} is not supported; supported are {', '.join(FAMILIES)}"
        )


def end_of_sequence_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """All ids that end a text: the generation config's, else the config's, else the tokenizer's."""
    generation = getattr(model, "generation_config", None)
    for ids in (
        getattr(generation, "eos_token_id", None),
        getattr(model.config, "eos_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    ):
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()


def _windows_by_kind(config: Any) -> dict[str, int | None]:
    """Sliding window by attention kind; one kind for families that take a single mask."""
    window = getattr(config, "sliding_window", None)
    if not _takes_mask_by_kind(config):
        return {"full_attention": window if config.model_type == "mistral" else None}
    kinds = dict.fromkeys(config.layer_types)
    return {kind: window if kind == "sliding_attention" else None for kind in kinds}


def _takes_mask_by_kind(config: Any) -> bool:
    return config.model_type in ("qwen2", "qwen3", "gemma2", "gemma3_text")
