"""EAGLE-1 in training: transformers' own Llama layer anchor by anchor, and the published loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from transformers import LlamaConfig, LlamaModel

from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights
from eagle3_viz.training.batches import Batch, pack
from eagle3_viz.training.conversations import DataError
from eagle3_viz.training.eagle1_objective import Eagle1Objective, feature_noise, fresh_eagle1
from eagle3_viz.training.eagle1_unroll import unroll_eagle1
from eagle3_viz.training.features import Example
from eagle3_viz.training.vocabulary import DraftVocabulary
from tests.target_text import train
from tests.tiny_models import VOCABULARY, random_ids, shared_target, tiny_target

STEPS = 3
WIDTH = 32
ARCHITECTURE = Eagle1Architecture(
    hidden_size=WIDTH,
    intermediate_size=40,
    num_layers=1,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    vocab_size=VOCABULARY,
    rms_norm_eps=1e-5,
    rope_theta=500.0,
)
VOCABULARY_OF_DRAFT = DraftVocabulary(torch.arange(0, VOCABULARY, 3), VOCABULARY)


def weights(**switches: bool) -> Eagle1Weights:
    """Every tensor random: no norm is 1 and no bias is 0."""
    made = fresh_eagle1(replace(ARCHITECTURE, **switches), seed=3)
    generator = torch.Generator().manual_seed(4)
    for tensor in made.tensors.values():
        if tensor.ndim == 1:
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)
    return made


def objective(
    vocabulary: DraftVocabulary | None = None, dtype: torch.dtype = torch.float32
) -> Eagle1Objective:
    target = shared_target()
    embeddings, head = target.embedding.detach().to(dtype), target.head.detach().to(dtype)
    return Eagle1Objective(weights(), embeddings, head, vocabulary)


def example(tokens: int, start: int, seed: int) -> Example:
    """Random text with random states, a tenth of them far off; arg-maxima as the states say."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, WIDTH, generator=generator)
    hidden *= 1 + 9 * (torch.rand(hidden.shape, generator=generator) < 0.1)
    top = linear(hidden, shared_target().head).argmax(-1)
    top[:start] = -1
    ids = torch.tensor(random_ids(tokens, seed))
    return Example(ids, torch.empty(tokens, 0), hidden, top, start, "d")


EXAMPLES = [example(*size, seed) for seed, size in enumerate([(9, 3), (5, 4), (6, 1), (14, 5)])]


class SlowDraft:
    """The head built from transformers' Llama: whole sequences, one anchor at a time."""

    def __init__(self, weights: Eagle1Weights) -> None:
        arch = weights.architecture
        config = LlamaConfig(
            vocab_size=1,
            bos_token_id=None,
            eos_token_id=None,
            hidden_size=arch.hidden_size,
            intermediate_size=arch.intermediate_size,
            num_hidden_layers=1,
            num_attention_heads=arch.num_heads,
            num_key_value_heads=arch.num_kv_heads,
            head_dim=arch.head_dim,
            rms_norm_eps=arch.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": arch.rope_theta},
            attn_implementation="eager",
        )
        self.model = LlamaModel(config)
        self.model.layers[0].input_layernorm = nn.Identity()
        self.model.norm = nn.Identity()
        layer = {n: t for n, t in weights.tensors.items() if n.startswith("layers.0.")}
        missing = self.model.load_state_dict(layer, strict=False)
        assert missing.missing_keys == ["embed_tokens.weight"]
        self.fc, self.bias = weights.tensors["fc.weight"], weights.tensors.get("fc.bias")

    def join(self, token: torch.Tensor, feature: torch.Tensor) -> torch.Tensor:
        return linear(torch.cat([shared_target().embedding[token], feature]), self.fc, self.bias)

    @torch.no_grad()
    def chain(self, e: Example, anchor: int, steps: int) -> list[torch.Tensor]:
        """Outputs [d] from `anchor` on, as many as predict a token that exists."""
        states = [self.join(e.ids[i + 1], e.hidden[i]) for i in range(anchor + 1)]
        outputs: list[torch.Tensor] = []
        for step in range(min(steps, len(e.ids) - anchor - 2)):
            if step:
                states.append(self.join(e.ids[anchor + 1 + step], outputs[-1]))
            found = self.model(inputs_embeds=torch.stack(states)[None], use_cache=False)
            outputs.append(found.last_hidden_state[0, -1])
        return outputs


def anchors() -> list[tuple[Example, int]]:
    """Of every row of a batch of EXAMPLES: conversation and position."""
    return [(e, i) for e in EXAMPLES for i in range(e.response_start - 1, len(e.ids) - 2)]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_every_anchor_drafts_what_the_head_computes_alone(bias: bool) -> None:
    made = weights(fc_bias=bias)
    slow, batch = SlowDraft(made), pack(EXAMPLES, STEPS, "hidden")
    embeddings = shared_target().embedding
    found = unroll_eagle1(made.architecture, made.tensors, embeddings, batch.features, batch, STEPS)
    compared = 0
    for row, (e, anchor) in enumerate(anchors()):
        for step, expected in enumerate(slow.chain(e, anchor, STEPS)):
            torch.testing.assert_close(found[step][row], expected, rtol=1e-5, atol=1e-5)
            compared += 1
    assert compared == int(batch.valid.sum()) > 40


def expected_outcome(steps: int, vocabulary: DraftVocabulary | None) -> tuple[float, int]:
    """Loss and number of correct guesses as REFERENCE.md g defines them, in float64."""
    slow, head = SlowDraft(weights()), shared_target().head.detach().double()
    kept = list(range(VOCABULARY)) if vocabulary is None else vocabulary.ids.tolist()
    loss, correct = 0.0, 0
    for e, anchor in anchors():
        for step, out in enumerate(slow.chain(e, anchor, steps)):
            place = anchor + 1 + step
            apart = (out - e.hidden[place]).double().abs()
            loss += float(torch.where(apart < 1, apart.square() / 2, apart - 0.5).mean())
            p = (head @ e.hidden[place].double())[kept].softmax(-1)
            log_q = (head @ out.double())[kept].log_softmax(-1)
            wanted = int(e.top[place])
            if wanted in kept:
                loss += 0.1 * float(-(p * log_q).sum())
                correct += kept[int(log_q.argmax())] == wanted
    return loss, correct


@pytest.mark.parametrize("vocabulary", [None, VOCABULARY_OF_DRAFT], ids=["whole", "restricted"])
@pytest.mark.parametrize("steps", [1, STEPS])
def test_the_loss_is_the_published_one(steps: int, vocabulary: DraftVocabulary | None) -> None:
    trained, batch = objective(vocabulary), pack(EXAMPLES, steps, "hidden")
    found = trained.outcome(trained.parameters(), batch, None)
    loss, correct = expected_outcome(steps, vocabulary)
    assert float(found.loss) == pytest.approx(loss, rel=1e-5)
    assert found.mean == pytest.approx(loss / len(batch.anchors), rel=1e-5)
    assert int(found.correct.sum()) == correct
    assert torch.equal(found.valid, batch.valid)


@pytest.mark.parametrize("vocabulary", [None, VOCABULARY_OF_DRAFT], ids=["whole", "restricted"])
def test_gradients_are_those_of_finite_differences(vocabulary: DraftVocabulary | None) -> None:
    trained = objective(vocabulary, torch.float64)
    names = list(trained.parameters())
    copies = [t.double().requires_grad_() for t in trained.parameters().values()]
    batch = pack([replace(e, hidden=e.hidden.double()) for e in EXAMPLES], 2, "hidden")

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        return trained.outcome(dict(zip(names, tensors, strict=True)), batch, None).loss

    assert loss(*copies).dtype == torch.float64
    assert torch.autograd.gradcheck(loss, copies, fast_mode=True, rtol=1e-6, atol=1e-7)


def test_the_head_and_the_embedding_stay_as_they_are() -> None:
    trained, batch = objective(), pack(EXAMPLES, 1, "hidden")
    copies = {name: t.clone().requires_grad_() for name, t in trained.parameters().items()}
    trained.outcome(copies, batch, None).loss.backward()
    assert copies.keys() == ARCHITECTURE.tensor_shapes().keys()
    assert all(bool(t.grad.any()) for t in copies.values() if t.grad is not None)
    assert all(t.grad is not None for t in copies.values())
    target = shared_target()
    assert target.head.grad is None and target.embedding.grad is None


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_training_reads_noisy_features_and_keeps_clean_targets() -> None:
    trained, batch = objective(), pack(EXAMPLES, 1, "hidden")
    tensors = trained.parameters()
    found = trained.outcome(tensors, batch, seeded(1)).loss
    noisy = replace(batch, features=batch.features + feature_noise(batch, seeded(1)))
    assert torch.equal(found, trained.outcome(tensors, noisy, None).loss)
    assert torch.equal(found, trained.outcome(tensors, batch, seeded(1)).loss)
    clean = trained.outcome(tensors, batch, None).loss
    assert torch.equal(clean, trained.outcome(tensors, batch, None).loss)
    assert (
        len({float(clean), float(found), float(trained.outcome(tensors, batch, seeded(2)).loss)})
        == 3
    )


def test_noise_is_uniform_and_narrower_in_longer_conversations() -> None:
    batch: Batch = pack([example(12, 2, 1), example(130, 2, 2)], 1, "hidden")
    noise = feature_noise(batch, seeded(0))
    for span, tokens in zip(batch.spans, (12, 130), strict=True):
        rows = noise[span.first : span.first + span.length]
        width = 0.2 * 512 / tokens
        assert rows.abs().max() <= width / 2
        assert rows.abs().max() > 0.95 * width / 2
        assert abs(float(rows.mean())) < 0.1 * width
        assert float(rows.std()) == pytest.approx(width / 12**0.5, rel=0.1)


def test_training_on_the_targets_own_text_raises_accuracy(tmp_path: Path) -> None:
    target = tiny_target(num_hidden_layers=2, boundaries=(0, 1, 2))
    made = fresh_eagle1(ARCHITECTURE, seed=0)
    trained = Eagle1Objective(made, target.embedding.detach(), target.head.detach())
    before, after = train(trained, target, tmp_path, tokens=20000, rate=1e-2)
    assert len(before) == len(after) == trained.evaluation_steps == 2
    assert all(late > early + 0.1 for early, late in zip(before, after, strict=True))


def test_the_trained_weights_are_handed_back_in_float32() -> None:
    trained = objective(dtype=torch.bfloat16)
    with torch.no_grad():
        trained.parameters()["fc.bias"] += 1
    back = trained.weights()
    assert back.architecture == ARCHITECTURE
    for name, tensor in weights().tensors.items():
        assert back.tensors[name].dtype == torch.float32
        assert torch.equal(back.tensors[name], tensor + (name == "fc.bias"))


def test_identity_tells_vocabularies_and_sizes_apart() -> None:
    other = Eagle1Objective(
        fresh_eagle1(replace(ARCHITECTURE, intermediate_size=48), 0),
        shared_target().embedding.detach(),
        shared_target().head.detach(),
    )
    found = [objective(), objective(VOCABULARY_OF_DRAFT), other]
    assert objective().identity() == objective().identity()
    assert len({str(o.identity()) for o in found}) == 3


@pytest.mark.parametrize("switch", ["attention_bias", "own_embedding"])
def test_a_head_that_is_not_trained_here_is_refused(switch: str) -> None:
    with pytest.raises(DataError, match=f"{switch}=True"):
        Eagle1Objective(
            weights(**{switch: True}),
            shared_target().embedding.detach(),
            shared_target().head.detach(),
        )


def test_the_same_seed_gives_the_same_start() -> None:
    first, again, other = (fresh_eagle1(ARCHITECTURE, seed).tensors for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])
