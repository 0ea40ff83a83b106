"""A small language model distilled from the target: the draft that reads no hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch.func import functional_call
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedConfig

from eagle3_viz.training.batches import Batch, Source
from eagle3_viz.training.losses import TargetDistribution, soft_cross_entropy
from eagle3_viz.training.objective import Outcome

TRUNK = "model."  # what lies below the head of a LlamaForCausalLM
EMBEDDING = "model.embed_tokens.weight"  # the head too: they are tied


@dataclass(frozen=True)
class Sizes:
    """Of a small Llama; with 49152 tokens the default is 22 MB in bf16, 19 of them embedding."""

    hidden_size: int = 192
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 3
    num_key_value_heads: int = 1


class IndependentObjective:
    """Trains a causal language model with tied embeddings on the target's text.

    The loss of a response position is the cross-entropy of q against p over all tokens, both for
    the token after. The positions are the anchors of step 0 of the other objectives, so that
    accuracies can be compared; a language model has no further steps to unroll.
    """

    steps = evaluation_steps = 1
    source: Source = "hidden"

    def __init__(
        self,
        model: LlamaForCausalLM,
        target_head: torch.Tensor,  # [V, d], the target's, in the compute format
    ) -> None:
        """`model` stays as it is."""
        self._model = deepcopy(model).to(target_head.device)
        self._target_head = target_head.detach()
        self._parameters = {
            name: tensor.detach().float().clone() for name, tensor in self._model.named_parameters()
        }

    def parameters(self) -> dict[str, torch.Tensor]:
        """Trained tensors by transformers' name, float32; the tied one once."""
        return self._parameters

    def rate(self, name: str) -> float:
        """Factor on the learning rate: all move alike."""
        return 1.0

    def identity(self) -> dict[str, object]:
        """Objective and sizes of the model."""
        config = self._model.config
        sizes = {name: getattr(config, name) for name in Sizes.__dataclass_fields__}
        return {
            "objective": "independent",
            "unroll": self.steps,
            "source": self.source,
            "architecture": sizes | {"vocab_size": config.vocab_size},
        }

    def outcome(
        self,
        tensors: Mapping[str, torch.Tensor],
        batch: Batch,
        generator: torch.Generator | None,
    ) -> Outcome:
        """The loss of `batch`, of which only step 0 is looked at."""
        # What anchor i is fed at step 0 is the last token that a language model has read when it
        # predicts what the anchor predicts.
        states = self.states(tensors, batch)[batch.fed[0][batch.anchors]]
        valid, rows = batch.valid[:1], batch.targets[0]
        p = TargetDistribution(batch.hidden.to(self._target_head), self._target_head)
        weights = valid[0].to(torch.promote_types(states.dtype, torch.float32))
        loss, _, tops = soft_cross_entropy(states, tensors[EMBEDDING], p, rows, weights)
        correct = valid & (tops == batch.top[rows])
        return Outcome(loss, float(loss.detach()) / len(rows), correct, valid)

    def model(self) -> LlamaForCausalLM:
        """The trained model, float32 on the CPU."""
        trained = deepcopy(self._model).to("cpu", torch.float32)
        with torch.no_grad():
            for name, tensor in trained.named_parameters():
                tensor.copy_(self._parameters[name])
        return trained

    def states(self, tensors: Mapping[str, torch.Tensor], batch: Batch) -> torch.Tensor:
        """Final states [U, h] of all tokens of the packed conversations.

        Positions that start again at 0 tell transformers where a conversation ends: none sees
        another.
        """
        lengths = (span.length + 2 for span in batch.spans)  # with the two that are no positions
        positions = torch.cat([torch.arange(length) for length in lengths])
        found = functional_call(
            self._model.model,
            {name.removeprefix(TRUNK): tensor for name, tensor in tensors.items()},
            kwargs={
                "input_ids": batch.tokens[None],
                "position_ids": positions.to(batch.tokens.device)[None],
                "use_cache": False,
            },
        )
        last: torch.Tensor = found.last_hidden_state[0]
        return last


def fresh_independent(
    target_config: PreTrainedConfig,
    embeddings: torch.Tensor,  # [V, d], the target's
    seed: int,
    sizes: Sizes = Sizes(),
) -> LlamaForCausalLM:
    """A model to start from: random, its embedding the target's seen from its widest directions.

    The size of the embedding is the usual one of a start, its special tokens are the target's.
    """
    text = target_config.get_text_config()
    config = LlamaConfig(
        **vars(sizes),
        vocab_size=len(embeddings),
        max_position_embeddings=text.max_position_embeddings,
        tie_word_embeddings=True,
        bos_token_id=text.bos_token_id,
        eos_token_id=text.eos_token_id,
        pad_token_id=None,  # often a token that ends turns: its embedding must learn
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        projected = _widest(embeddings.detach().float().cpu(), sizes.hidden_size)
        table = model.get_input_embeddings().weight
        table.copy_(projected * config.initializer_range / projected.std())
    return model


def _widest(table: torch.Tensor, width: int) -> torch.Tensor:
    """[V, width]: the rows of `table` [V, d] along its `width` leading singular directions."""
    _, directions = torch.linalg.eigh(table.T @ table)  # rising
    return table @ directions[:, -width:]
