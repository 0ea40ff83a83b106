"""The card states what the provenance says, and shows foreign names without rendering them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
import yaml
from markdown_it import MarkdownIt

from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.model_card import model_card

TENSORS = {
    "fc.weight": torch.zeros(4, 12, dtype=torch.bfloat16),
    "norm.weight": torch.zeros(4, dtype=torch.bfloat16),
    "d2t": torch.zeros(5, dtype=torch.int64),
}
HOSTILE = "evil`<script>alert(1)</script>\n# Heading\r[link](http://x.test) ![i](i.png)|\x1b[31m"


def provenance(**changes: Any) -> Provenance:
    usual = Provenance(
        objective="eagle3",
        target="Tiny-Target",
        revision="r1",
        chat_template_sha256="c" * 64,
        boundaries=(2, 4, 5),
        data_sha256="d" * 64,
        conversations=1234,
        response_tokens=56789,
        training={"learning_rate": 0.002, "unroll": 4},
        steps=321,
        token_passes=98765,
        seconds=90.0,
        accuracy=(0.5, 0.25),
        coverage={"code": 0.984, "all": 0.5},
        versions={"torch": "1.2"},
        commit="abc",
    )
    return replace(usual, **changes)


def card(**changes: Any) -> str:
    return model_card(provenance(**changes), TENSORS, "tiny-draft", "apache-2.0")


def test_the_card_states_the_facts_of_the_provenance() -> None:
    text = card()
    for fact in (
        *("EAGLE-3 draft for `Tiny-Target`", "`r1`", "c" * 64, "d" * 64, "boundaries 2, 4, 5"),
        *("1,234 conversations", "56,789 response tokens", "98,765 response tokens passed"),
        *("321 optimizer steps", "1.5 minutes", "`learning_rate` `0.002`", "`torch` `1.2`"),
        *("| step | 1 | 2 |", "| accuracy | 0.500 | 0.250 |", "`code`: 98.4%", "random weights"),
        *("52 parameters (bfloat16)", "| `fc.weight` | 4 x 12 | bfloat16 |", "| `d2t` | 5 | int64"),
        'python -m eagle3_viz decode "Tell me a story." --draft tiny-draft',
    ):
        assert fact in text


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        ("eagle1", ("published EAGLE-1 layout", "published EAGLE code reads it", "SGLang")),
        ("independent", ("`LlamaForCausalLM` as transformers saves it", "`assistant_model`")),
    ],
)
def test_a_draft_names_the_programs_that_read_its_layout(
    objective: Any, told: tuple[str, ...]
) -> None:
    text = card(objective=objective)
    assert all(fact in text for fact in told)


def test_the_card_says_how_this_program_runs_the_draft() -> None:
    plain = 'eagle3_viz decode "Tell me a story." --draft tiny-draft'
    assert f"{plain}\n" in card() and f"{plain} --method eagle2\n" in card(objective="eagle1")
    assert f"{plain} --method independent\n" in card(objective="independent")


def test_what_was_not_measured_has_no_section() -> None:
    text = card(accuracy=(), coverage={}, commit="")
    assert "Accuracy" not in text
    assert "Draft vocabulary" not in text
    assert "commit" not in text


def test_a_draft_that_went_on_from_another_says_so() -> None:
    text = card(started_from="older", started_token_passes=1000)
    assert "started from: `older`, 1,000 response tokens passed before" in text


def test_the_embedding_is_said_to_be_the_targets_when_it_is_not_in_the_file() -> None:
    told = "embedding is the target's"
    assert told in card()
    own = TENSORS | {"embed_tokens.weight": torch.zeros(9, 4)}
    assert told not in model_card(provenance(), own, "tiny-draft", "mit")


@pytest.mark.parametrize("objective", ["eagle1", "eagle3", "eagle3-no-ttt", "independent"])
def test_foreign_names_are_shown_and_never_rendered(objective: Any) -> None:
    hostile = card(
        objective=objective,
        target=HOSTILE,
        revision=HOSTILE,
        started_from=HOSTILE,
        coverage={HOSTILE: 0.5},
        training={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        commit=HOSTILE,
    )
    harmless = card(objective=objective, started_from="older")
    assert "\x1b" not in hostile
    assert kinds(hostile) <= kinds(harmless)
    assert headings(hostile) == headings(harmless)
    assert "<script>alert(1)</script>" in hostile


def kinds(text: str) -> set[str]:
    """Kinds of Markdown elements of the card behind its YAML head."""
    body = text.split("---\n", 2)[2]
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    return {child.type for token in tokens for child in (token, *(token.children or []))}


def headings(text: str) -> int:
    return len(re.findall(r"^#", text, re.MULTILINE))


def test_the_head_is_yaml_with_the_name_as_one_string() -> None:
    head = yaml.safe_load(card(target='a": b\n- c').split("---\n")[1])
    assert head["base_model"] == 'a": b - c'
    assert head["license"] == "apache-2.0"
    assert head["tags"] == ["speculative-decoding", "eagle3"]


def test_a_long_name_is_cut() -> None:
    assert "x" * 101 not in card(target="x" * 5000)


def test_a_folder_name_is_quoted_for_the_shell() -> None:
    text = model_card(provenance(), TENSORS, "my draft; rm x", "mit")
    assert "--draft 'my draft; rm x'" in text


def test_an_objective_that_nothing_trains_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown objective 'medusa'"):
        provenance(objective="medusa")
