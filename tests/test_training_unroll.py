"""The training-time test sees what MATH.md 3 lets it see, and computes what decoding computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import linear, rms_norm

from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.training import eagle3_objective
from eagle3_viz.training.batches import Batch, pack
from eagle3_viz.training.eagle3_objective import STEP_DECAY, Eagle3Objective
from eagle3_viz.training.features import Example
from eagle3_viz.training.losses import soft_cross_entropy
from eagle3_viz.training.unroll import unroll
from tests.tiny_models import VOCABULARY, shared_target, tiny_architecture, tiny_weights

STEPS = 3
SIZES = ((8, 3), (5, 2), (5, 4), (7, 1))  # tokens and response start; the third has no anchor


def scale(seed: int = 8) -> torch.Tensor:
    """Standard deviations as uneven as those of real taps."""
    width = 3 * shared_target().hidden_size
    return torch.randn(width, generator=torch.Generator().manual_seed(seed)).exp()


def objective(dtype: torch.dtype = torch.float32) -> Eagle3Objective:
    target = shared_target()
    embeddings, head = target.embedding.detach().to(dtype), target.head.detach().to(dtype)
    weights = tiny_weights(tiny_architecture(target), seed=5)
    return Eagle3Objective(weights, embeddings, head, scale(), STEPS)


def example(tokens: int, start: int, seed: int) -> Example:
    """Random features and targets; every fourth arg-max lies outside the draft's vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    inside = objective().vocabulary
    outside = torch.arange(VOCABULARY)[~inside.t2d]
    top = inside.ids[torch.randint(len(inside), (tokens,), generator=generator)]
    top[start + 1 :: 4] = outside[seed]
    top[:start] = -1
    width = shared_target().hidden_size
    return Example(
        ids=torch.randint(VOCABULARY, (tokens,), generator=generator),
        taps=torch.randn(tokens, 3 * width, generator=generator) * scale(),
        hidden=torch.randn(tokens, width, generator=generator),
        top=top,
        response_start=start,
        domain="d",
    )


EXAMPLES = [example(*size, seed) for seed, size in enumerate(SIZES)]
Place = tuple[int, int, int]  # conversation, anchor, step


def places() -> list[list[Place]]:
    """Of each step: the anchors in the order of a batch's rows."""
    return [
        [
            (c, i, step)
            for c, (tokens, start) in enumerate(SIZES)
            for i in range(start - 1, tokens - 2)
        ]
        for step in range(STEPS)
    ]


def logits_by_step(trained: Eagle3Objective, batch: Batch) -> list[torch.Tensor]:
    """[R, DV] of each step."""
    arch, tensors = trained.architecture, trained.parameters()
    features = batch.features / scale()
    outputs = unroll(arch, tensors, shared_target().embedding.detach(), features, batch, STEPS)
    return [
        linear(
            rms_norm(out, (arch.hidden_size,), tensors["norm.weight"], arch.rms_norm_eps),
            tensors["lm_head.weight"],
        )
        for out in outputs
    ]


@torch.no_grad()
def losses(trained: Eagle3Objective, examples: list[Example]) -> dict[Place, float]:
    """The loss of each (anchor, step) that has one, as the objective computes it on its way."""
    recorded: list[tuple[torch.Tensor, ...]] = []

    def recording(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        recorded.append(soft_cross_entropy(*inputs))
        return recorded[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eagle3_objective, "soft_cross_entropy", recording)
        trained.outcome(trained.parameters(), pack(examples, STEPS), None)
    rows = zip((place for step in places() for place in step), recorded[0][1], strict=True)
    return {place: float(loss) for place, loss in rows if loss}


def may_see(kind: str, place: int, anchor: int, step: int) -> bool:
    """MATH.md 3 for an input of the anchor's own conversation."""
    if kind == "feature":  # true features end at the anchor, at every step
        return place <= anchor
    if kind == "token":  # position j is fed token j + 1, a guess the token one further on
        return 1 <= place <= anchor + 1 + step
    return place == anchor + 1 + step  # the distribution for the token after the one it was fed


def perturbed(e: Example, kind: str, place: int) -> Example:
    generator = torch.Generator().manual_seed(100 + place)
    if kind == "token":
        ids = e.ids.clone()
        ids[place] = (ids[place] + 1 + place) % VOCABULARY
        return replace(e, ids=ids)
    name = {"feature": "taps", "target": "hidden"}[kind]
    rows = getattr(e, name).clone()
    rows[place] = rows[place].std() * torch.randn(rows[place].shape, generator=generator)
    return replace(e, **{name: rows})


@pytest.mark.parametrize("kind", ["feature", "token", "target"])
def test_an_input_changes_the_losses_that_may_see_it_and_no_bit_of_the_others(kind: str) -> None:
    trained = objective()
    before = losses(trained, EXAMPLES)
    assert {step for _, _, step in before} == set(range(STEPS))
    for c, (tokens, _) in enumerate(SIZES):
        for place in range(tokens):
            examples = [*EXAMPLES]
            examples[c] = perturbed(EXAMPLES[c], kind, place)
            after = losses(trained, examples)
            changed = {key for key in before if after[key] != before[key]}
            assert changed == {
                key for key in before if key[0] == c and may_see(kind, place, *key[1:])
            }


def draft_text(trained: Eagle3Objective, seed: int, tokens: int) -> list[int]:
    """Tokens that the draft can be fed, all from its vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(trained.vocabulary), (tokens,), generator=generator)
    return trained.vocabulary.ids[chosen].tolist()


@torch.no_grad()
def read_by_target(ids: list[int], start: int) -> Example:
    target = shared_target()
    taps, hidden = target.read(torch.tensor([ids]))
    top = (hidden[0] @ target.head.T).argmax(-1)
    return Example(torch.tensor(ids), taps[0].clone(), hidden[0].clone(), top, start, "d")


def decoded_chain(draft: Eagle3Draft, e: Example, anchor: int) -> Iterator[torch.Tensor]:
    """Logits [DV] of the chain that decoding drafts from `anchor`, fed the text's own tokens."""
    draft.start(0)
    draft.extend(e.taps[: anchor + 1], e.ids[1 : anchor + 2].tolist())
    yield draft.root_logits()
    for level, token in enumerate(e.ids[anchor + 2 :], start=1):
        (draft_id,) = (draft.target_ids == token).nonzero()[0]
        yield draft.step(draft_id[None], torch.tensor([level - 1]), level)[0]


@torch.inference_mode()
def test_every_anchor_computes_what_decoding_computes_from_there() -> None:
    trained = objective()
    examples = [
        read_by_target(draft_text(trained, seed, tokens), start)
        for seed, (tokens, start) in enumerate([(14, 4), (5, 1), (21, 15)])
    ]
    batch = pack(examples, STEPS)
    unrolled = logits_by_step(trained, batch)
    draft = Eagle3Draft(trained.weights(), shared_target())  # fc reads raw taps again
    compared = 0
    for span, e in zip(batch.spans, examples, strict=True):
        for anchor in range(e.response_start - 1, len(e.ids) - 2):
            row = span.row + anchor - span.anchor
            chain = decoded_chain(draft, e, anchor)
            for step, expected in zip(range(STEPS), chain, strict=False):
                if anchor + 2 + step < len(e.ids):
                    error = (unrolled[step][row] - expected).norm() / expected.norm()
                    assert error < 1e-5
                    compared += 1
    assert compared == sum(int(batch.valid[step].sum()) for step in range(STEPS)) > 40


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_scale_is_folded_into_fc_as_it_was_rounded_for_the_division(dtype: torch.dtype) -> None:
    trained = objective(dtype)
    divided_by = scale().to(dtype).float()
    raw, scaled = trained.weights().tensors["fc.weight"], trained.parameters()["fc.weight"]
    torch.testing.assert_close(raw * divided_by, scaled, rtol=1e-6, atol=0)
    start = tiny_weights(trained.architecture, seed=5).tensors["fc.weight"]
    torch.testing.assert_close(raw, start, rtol=1e-6, atol=0)


@torch.no_grad()
def losses_by_definition(trained: Eagle3Objective, examples: list[Example]) -> dict[Place, float]:
    """Cross-entropy of q against p at each (anchor, step) that has one, row by row."""
    kept, head, found = trained.vocabulary.ids, shared_target().head.detach(), {}
    unrolled = logits_by_step(trained, pack(examples, STEPS))
    for anchors, logits in zip(places(), unrolled, strict=True):
        for (c, i, step), row in zip(anchors, logits, strict=True):
            source = i + 1 + step  # the token fed; p is what follows it
            if source + 1 < SIZES[c][0] and examples[c].top[source] in kept:
                p = (examples[c].hidden[source] @ head.T).softmax(-1)[kept]
                found[c, i, step] = -float(p / p.sum() @ row.log_softmax(-1))
    return found


@torch.no_grad()
def test_the_loss_of_a_batch_is_the_decayed_sum_of_its_anchors_losses() -> None:
    trained, batch = objective(), pack(EXAMPLES, STEPS)
    wanted = losses_by_definition(trained, EXAMPLES)
    assert losses(trained, EXAMPLES) == pytest.approx(wanted, rel=1e-5)
    expected = sum(STEP_DECAY**step * loss for (_, _, step), loss in wanted.items())
    found = trained.outcome(trained.parameters(), batch, None)
    assert float(found.loss) == pytest.approx(expected, rel=1e-5)
    assert found.mean == pytest.approx(expected / len(batch.anchors), rel=1e-5)


@torch.no_grad()
def test_a_token_is_correct_where_q_and_p_agree_on_it_and_wrong_outside_the_vocabulary() -> None:
    trained, batch = objective(), pack(EXAMPLES, STEPS)
    expected = [
        [
            i + 2 + step < SIZES[c][0]
            and int(trained.vocabulary.ids[row.argmax()]) == int(EXAMPLES[c].top[i + 1 + step])
            for (c, i, step), row in zip(anchors, logits, strict=True)
        ]
        for anchors, logits in zip(places(), logits_by_step(trained, batch), strict=True)
    ]
    found = trained.outcome(trained.parameters(), batch, None)
    assert found.correct.tolist() == expected
    assert torch.equal(found.valid, batch.valid)


@pytest.mark.parametrize("name", tiny_architecture(shared_target()).tensor_shapes())
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    trained = objective(torch.float64)
    tensors = {n: t.double().requires_grad_() for n, t in trained.parameters().items()}
    examples = [replace(e, taps=e.taps.double(), hidden=e.hidden.double()) for e in EXAMPLES]
    batch, generator = pack(examples, STEPS), torch.Generator().manual_seed(4)

    def loss(tensor: torch.Tensor) -> torch.Tensor:
        return trained.outcome({**tensors, name: tensor}, batch, None).loss

    (slopes,) = torch.autograd.grad(loss(tensors[name]), tensors[name])
    for _ in range(3):
        direction = torch.randn(slopes.shape, generator=generator, dtype=torch.float64)
        ahead, behind = (
            float(loss(tensors[name].detach() + eps * direction).detach()) for eps in (1e-6, -1e-6)
        )
        found, expected = float((slopes * direction).sum()), (ahead - behind) / 2e-6
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6 * float(slopes.norm()))


def test_the_state_that_is_fed_back_carries_gradient_of_its_own_anchor_alone() -> None:
    trained, batch = objective(), pack(EXAMPLES, STEPS)
    tensors = {name: t.clone().requires_grad_() for name, t in trained.parameters().items()}
    embeddings = shared_target().embedding.detach()
    features = batch.features / scale()
    first, second, _ = unroll(trained.architecture, tensors, embeddings, features, batch, STEPS)
    for row in range(len(batch.anchors)):
        (slopes,) = torch.autograd.grad(second[row].square().sum(), first, retain_graph=True)
        assert slopes.any(dim=1).nonzero().tolist() == [[row]]
    layer = tensors["layers.0.mlp.down_proj.weight"]
    loss = second.square().sum()
    (whole,) = torch.autograd.grad(loss, layer, retain_graph=True)
    (slopes,) = torch.autograd.grad(loss, first, retain_graph=True)
    (through_state,) = torch.autograd.grad(first, layer, slopes)
    assert through_state.norm() > 0.1 * whole.norm()  # what cutting the state would lose
