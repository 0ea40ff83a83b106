from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, Sampling, TreeShape
from eagle3_viz.lossless.greedy_test import (
    Comparison,
    GreedyRun,
    Margins,
    compare,
    margins,
    nodes_of,
    run_greedy,
    summarized,
)
from eagle3_viz.lossless.greedy_texts import Decided
from eagle3_viz.presets import Preset
from eagle3_viz.suite.plan import settings_of
from eagle3_viz.target import Step, TargetModel
from eagle3_viz.tree import DraftTree
from tests.lossless.tiny_pair import chat_pair

PROMPTS = [Preset("one", "chat", "One", "Say it", 20), Preset("two", "chat", "Two", "Go on", 20)]
SETTINGS = settings_of(
    ["eagle3", "lookup"], shapes=(TreeShape(4, 1, 2), TreeShape(8, 2, 3)), max_new_tokens=24
)


def runs(padded_ar: bool = False, settings=SETTINGS) -> list[GreedyRun]:
    steps = run_greedy(chat_pair(), PROMPTS, settings, padded_ar=padded_ar)
    return [step.run for step in steps if step.run is not None]


def plant(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[torch.Tensor, torch.Tensor], None]
) -> None:
    """From now on verifying a tree, and not one token, spoils its logits [T, V] in place.

    `spoil` gets the position of each node as well, [T].
    """
    verify = TargetModel.verify

    def spoiled(self: TargetModel, tree: DraftTree) -> Step:
        step = verify(self, tree)
        if len(tree) > 1:
            step = replace(step, logits=step.logits.clone())
            spoil(self.cache.length + tree.depth, step.logits)
        return step

    monkeypatch.setattr(TargetModel, "verify", spoiled)


def test_every_method_and_tree_writes_what_autoregression_writes() -> None:
    found = runs(padded_ar=True)
    assert len(found) == len(PROMPTS) * len(SETTINGS)
    assert {(run.prompt, run.setting) for run in found} == {
        (prompt.id, name) for prompt in PROMPTS for name in SETTINGS
    }
    for run in found:
        assert run.plain.verdict == "equal" and run.padded is not None
        assert run.padded.verdict == "equal"
        assert run.dtype == "float32" and run.tokens > 8
        assert run.plain.margins.max_noise < 1e-3 < float(run.plain.margins.margin.mean())


@pytest.mark.parametrize("place", [3, 9])
def test_a_planted_difference_is_found_where_it_is_and_not_called_numerical(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = len(encode_chat(chat_pair().tokenizer, PROMPTS[0].prompt))  # position of the root

    def spoil(positions: torch.Tensor, logits: torch.Tensor) -> None:
        for row in (positions == first + place).nonzero().flatten().tolist():
            logits[row, (logits[row].argmax() + 1) % logits.shape[1]] += 20.0

    plant(monkeypatch, spoil)
    found = runs(settings={"tree": SETTINGS["eagle3 8,2,3"]})[0].plain
    assert found.position == place + 1
    assert found.margins.flipped.nonzero().flatten().tolist() == [place]
    assert found.margin is not None and found.margin > found.margins.max_noise
    assert found.verdict == "different"


def test_noise_on_every_logit_is_measured_and_a_near_tie_that_flips_is_numerical() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.zeros(20, 5)
    logits[:, 0], logits[:, 1] = 4.0, 1.0
    logits[7, 1] = 3.99  # a near tie
    theirs = Decided((9, *[0] * 20), logits)
    noisy = logits + 0.1 * torch.randn(20, 5, generator=generator)
    noisy[7, 0], noisy[7, 1] = 3.98, 4.01
    ours = Decided((9, *noisy.argmax(-1).tolist()), noisy)
    found = compare(ours, theirs, lambda: Decided(ours.tokens, logits))
    assert (found.position, found.margin) == (8, pytest.approx(0.01, abs=1e-5))
    assert found.margins.flipped.nonzero().flatten().tolist() == [7]
    expected = ((logits[:, 0] - logits[:, 1]) - (noisy[:, 0] - noisy[:, 1])).abs()
    others = [i for i in range(20) if i != 7]
    assert found.margins.mean_noise == pytest.approx(float(expected[others].mean()))
    assert found.margins.max_noise == pytest.approx(float(expected[others].max()))
    assert found.verdict == "numerical"


def comparison(margin: list[float], noise: list[float], flipped: list[int]) -> Comparison:
    flags = torch.zeros(len(margin), dtype=torch.bool)
    flags[flipped] = True
    return Comparison(
        Margins(torch.tensor(margin), torch.tensor(noise), flags),
        flipped[0] + 1 if flipped else None,
    )


@pytest.mark.parametrize(
    ("margin", "noise", "flipped", "verdict"),
    [
        ([3, 2, 0.1, 4], [0.1, 0.2, 0.3, 0.1], [2], "numerical"),
        ([3, 2, 0.3, 4], [0.1, 0.2, 0.9, 0.1], [2], "different"),  # outside the others' noise
        ([3, 0.1, 0.1, 4], [0.1, 0.2, 0.3, 0.2], [1, 2], "numerical"),
        ([3, 0.1, 1.0, 4], [0.1, 0.2, 0.3, 0.2], [1, 2], "different"),  # a later one is clear
        ([3, 2, 0.1, 4], [1.0, 1.5, 0.3, 1.0], [2], "different"),  # such noise is no rounding
        ([0.0], [0.0], [0], "different"),  # nothing to measure noise on
        ([3, 2], [9, 9], [], "equal"),
    ],
)
def test_numerical_means_that_every_flip_lies_inside_small_noise_of_the_others(
    margin, noise, flipped, verdict
) -> None:
    assert comparison(margin, noise, flipped).verdict == verdict


def test_the_first_difference_counts_the_root_as_zero() -> None:
    one, other = (Decided((4, 2, third), torch.eye(2, 4)) for third in (1, 3))
    assert compare(one, other, lambda: one).position == 2


def test_margins_compare_the_same_two_tokens() -> None:
    theirs = Decided((0, 1), torch.tensor([[1.0, 5.0, 4.0]]))
    ours = Decided((0, 2), torch.tensor([[7.0, 4.0, 6.0]]))
    found = margins(ours, theirs)
    assert found.margin.tolist() == [1.0]
    assert found.noise.tolist() == [3.0]  # 5 - 4 here, 4 - 6 there
    assert found.flipped.tolist() == [True]


def test_a_difference_that_comes_from_the_shape_vanishes_with_padding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The spoiled logits are the same in every forward of several rows, as rounding may be."""

    def spoil(positions: torch.Tensor, logits: torch.Tensor) -> None:
        logits += torch.sin(positions[:, None] * torch.arange(1.0, logits.shape[1] + 1))

    plant(monkeypatch, spoil)
    found = runs(padded_ar=True, settings={"tree": SETTINGS["eagle3 8,2,3"]})
    assert [run.plain.position is None for run in found] == [False, False]
    assert [run.padded.verdict for run in found if run.padded] == ["equal", "equal"]
    summary = summarized(found)
    assert summary.vanished == 1.0
    assert summary.noise_left == pytest.approx(0.0, abs=1e-3)


def test_the_summary_counts_verdicts_and_what_padding_leaves() -> None:
    flip = comparison([3, 2, 0.1, 4], [0.1, 0.2, 0.3, 0.1], [2])
    far = comparison([3, 2, 0.9, 4], [0.1, 0.2, 0.3, 0.1], [2])
    same = comparison([3, 2], [0.1, 0.1], [])
    quiet = comparison([3, 2], [0.0, 0.0], [])
    run = GreedyRun("one", "tree", "float32", 5, same, quiet)
    found = summarized([run, replace(run, plain=flip), replace(run, plain=far, padded=far)])
    assert (found.equal, found.numerical, found.different) == (1, 1, 1)
    assert found.vanished == pytest.approx(0.5)
    mean = (0.1 + 0.2 + 0.1) / 3
    assert found.noise_left == pytest.approx(mean / (0.1 + 2 * mean))
    assert summarized([replace(run, padded=None)]).vanished is None


def test_a_copied_text_is_padded_to_its_longest_chain() -> None:
    shape = TreeShape(8, 2, 4)
    assert nodes_of(DecodeConfig(method="eagle3", shape=shape)) == 8
    assert nodes_of(DecodeConfig(method="lookup", shape=shape)) == 4
    assert nodes_of(DecodeConfig(method="eagle1")) == 8
    assert nodes_of(DecodeConfig(method="ar")) == 1


def test_settings_that_draw_are_refused() -> None:
    drawn = {"drawn": DecodeConfig(sampling=Sampling(0.8))}
    with pytest.raises(ValueError, match="temperature 0"):
        next(run_greedy(chat_pair(), PROMPTS, drawn))
