"""What can be typed on the command line, and what it amounts to."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eagle3_viz.cli import arguments
from eagle3_viz.config import METHODS, DecodeConfig, Method, Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, PUBLISHED_FIXED
from eagle3_viz.pair_specs import EMBEDDED, find_spec

ROOT = Path(__file__).resolve().parent.parent


def parsed(*argv: str) -> argparse.Namespace:
    return arguments.parse(["decode", "prompt", *argv])


def test_without_options_a_run_is_the_default_one_and_records_nothing() -> None:
    assert parsed().config == DecodeConfig(record="off")


def test_a_trace_is_recorded_in_full_unless_told_otherwise() -> None:
    assert parsed("--trace", "a.parquet").config.record == "full"
    assert parsed("--trace", "a.parquet", "--record", "outcomes").config.record == "outcomes"


def test_every_option_of_a_run_reaches_its_configuration() -> None:
    config = parsed(
        *("--depth", "5", "--top-k", "2", "--total", "7", "--temperature", "0.5"),
        *("--target-top-k", "40", "--top-p", "0.9", "--rule", "topk", "--seed", "3"),
        *("--max-new-tokens", "9", "--stop", "a", "--stop", "b"),
    ).config
    assert config.shape == TreeShape(total=7, depth=5, top_k=2)
    sampling = config.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 40, 0.9)
    assert (config.rule, config.seed, config.max_new_tokens) == ("topk", 3, 9)
    assert config.stop == ("a", "b")


def test_the_sample_rule_draws_the_tree_asked_for() -> None:
    config = parsed("--rule", "sample", "--temperature", "1", "--depth", "3").config
    assert config.shape == TreeShape(total=8, depth=3, top_k=4)
    assert config.draft_sampling == config.sampling


def test_a_draft_temperature_warps_q_alone() -> None:
    options = ("--rule", "sample", "--temperature", "0.5", "--top-p", "0.9")
    config = parsed(*options, "--draft-temperature", "0.8").config
    assert config.sampling == Sampling(0.5, top_p=0.9)
    assert config.draft_sampling == Sampling(0.8, top_p=0.9)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_asked_for(method: Method) -> None:
    assert parsed("--method", method).config.method == method


def test_eagle1_drafts_the_fixed_tree_named() -> None:
    assert parsed("--method", "eagle1").config.tree == DEFAULT_FIXED
    config = parsed("--method", "eagle1", "--fixed-tree", PUBLISHED_FIXED.name).config
    assert config.tree == PUBLISHED_FIXED


def test_drafts_are_kept_in_the_order_given() -> None:
    assert parsed("--draft", "b", "--draft", "a").draft == ["b", "a"]
    assert parsed().draft == []


@pytest.mark.parametrize("method", ["ar", "lookup"])
def test_a_target_of_its_own_needs_no_draft_where_the_method_has_no_model(method: str) -> None:
    assert parsed("--target", "a", "--method", method).target == "a"


def test_a_total_that_was_not_given_is_what_the_draft_can_propose() -> None:
    assert parsed("--depth", "0").config.shape == TreeShape(total=5, depth=0, top_k=4)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--depth", "3", "--total", "54"], "lower total to 53"),
        (["--depth", "-1"], "depth=-1"),
        (["--rule", "sample", "--temperature", "1", "--method", "lookup"], "use rule='topk'"),
        (["--rule", "typical"], "temperature"),
        (["--rule", "greedy", "--temperature", "1"], "greedy needs temperature 0"),
        (["--draft-temperature", "0.5", "--temperature", "1"], "rule='topk'"),
        (
            ["--draft-temperature", "0", "--temperature", "1", "--rule", "sample"],
            "1e-06 or more",
        ),
        (["--fixed-tree", "mc_sim_7b_63"], "--method eagle1"),
        (["--method", "eagle1", "--depth", "2"], "--fixed-tree"),
        (["--method", "eagle1", "--total", "9"], "--fixed-tree"),
        (["--method", "eagle1", "--fixed-tree", "other"], "mc_sim_7b_63"),
        (["--method", "eagle4"], "eagle1"),
        (["--rule", "topk"], "temperature"),
        (["--temperature", "nan"], "temperature"),
        (["--max-new-tokens", "0"], "max_new_tokens"),
        (["--seed", str(2**63)], "from 0 to 9223372036854775807"),
        (["--seed", "-1"], "whole number from 0"),
        (["--seed", "9" * 5000], "whole number from 0"),
        (["--device", "tpu"], "cuda:N"),
        (["--pair", "a", "--draft", "b"], "not both"),
        (["--pair", "a", "--target", "b"], "not both"),
        (["--target", "a"], "--target needs --draft for --method eagle3"),
        (["--target", "a", "--method", "independent"], "--draft for --method independent"),
        (["--method", "ar", "--compare"], "--compare"),
        (["--method", "ar", "--draft-kind", "random"], "--draft-kind random"),
        (["--method", "lookup", "--draft-kind", "least-likely"], "lookup has none"),
        (["--fixed-tree", "seven"], "--method eagle1"),
        (["--method", "ar", "--depth", "3"], "--depth is about a draft tree"),
        (["--method", "ar", "--top-k", "3"], "--top-k is about a draft tree"),
        (["--method", "ar", "--total", "3"], "--total is about a draft tree"),
        (["--method", "lookup", "--top-k", "3"], "a chain, which has no --top-k"),
        (["--method", "ar", "--draft", "a"], "--draft is not used by --method ar"),
        (["--method", "lookup", "--draft", "a"], "--draft is not used by --method lookup"),
        (["--method", "ar", "--rule", "topk", "--temperature", "1"], "ar drafts none"),
        (["--top-p", "0.9"], "--top-p changes nothing at temperature 0"),
        (["--target-top-k", "9"], "--target-top-k changes nothing at temperature 0"),
        (["--record", "full"], "name one with --trace"),
        (["--record", "outcomes"], "name one with --trace"),
        (["--system", "\udcff"], "UTF-8"),
        (["--trace", ""], "the name is empty: name a file or folder"),
        (["--target", "", "--draft", "a"], "the name is empty: name a folder or a hub id"),
        (["--temperature", "1e-300"], "1e-06 or more"),
    ],
)
def test_options_without_a_meaning_are_one_sentence_and_status_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*argv)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["depth", "top_k", "total"])
def test_help_states_the_default_tree_of_the_program(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed("--help")
    shown = " ".join(capsys.readouterr().out.split())
    text = shown.split(f"--{option.replace('_', '-')} {option.upper()} ")[1]
    said = re.search(r"\(default: (\d+)", text)
    assert said is not None
    assert int(said[1]) == getattr(parsed().config.shape, option)


@pytest.mark.parametrize("command", ["decode", "fetch"])
def test_help_names_the_default_pair_as_pairs_lists_it(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments.parse([command, "--help"])
    said = re.search(r"default: ([^,]+), the embedded", " ".join(capsys.readouterr().out.split()))
    assert said is not None
    assert find_spec(said[1]).target == EMBEDDED


def test_the_largest_seed_is_taken() -> None:
    assert parsed("--seed", str(2**63 - 1)).config.seed == 2**63 - 1


@pytest.mark.parametrize("argv", ["--help", "decode --help", "decode x --total 99", "show missing"])
def test_help_usage_errors_and_traces_need_no_torch(argv: str) -> None:
    script = (
        "import sys\nfrom eagle3_viz.cli.main import main\n"
        f"try:\n    main({argv.split()!r})\nexcept SystemExit:\n    pass\n"
        "loaded = {'torch', 'transformers'} & set(sys.modules)\n"
        "print('loaded:', *loaded)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("loaded:"), done.stdout + done.stderr
