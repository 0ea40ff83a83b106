import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eagle3_viz import component
from eagle3_viz.component import live_payload, trace_view
from eagle3_viz.component.bundling import ASSETS, bundle, scripts
from eagle3_viz.component.payload import HOVER_LIMIT, LABEL_LIMIT, PRUNED_LIMIT, number, numbers
from eagle3_viz.config import METHODS, RULES, Rule, TreeShape
from eagle3_viz.records import Origin
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

JS_TESTS = Path(__file__).parent / "js"
NODE = shutil.which("node")
ENTRIES = (component.ENTRY, trace_view.ENTRY)
TOLD = {  # how each tells Python
    component.ENTRY: "setStateValue, setTriggerValue",
    trace_view.ENTRY: "setStateValue",
}
BIG = TreeShape(total=60, depth=6, top_k=10)


def only_builtins(value: object) -> bool:
    if type(value) is dict:
        return all(type(k) is str and only_builtins(v) for k, v in value.items())
    if type(value) is list:
        return all(only_builtins(v) for v in value)
    return type(value) in (str, int, float, bool, type(None))


def speculative_and_plain() -> list[Trace]:
    traces = [
        make_trace(cycles=6, rule=rule, record=record)
        for rule in RULES
        for record in ("off", "outcomes", "full")
    ]
    methods = [make_trace(cycles=6, method=method) for method in METHODS]
    return [*traces, *methods, make_trace(cycles=0)]


@pytest.mark.parametrize("trace", speculative_and_plain())
def test_payload_is_strict_json_of_builtin_types(trace: Trace) -> None:
    payload = live_payload(trace, status="running", first_cycle=1)
    assert only_builtins(payload)
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload


def test_payload_of_a_long_run_with_big_trees_stays_below_two_megabytes() -> None:
    trace = make_trace(cycles=256, rule="topk", shape=BIG)
    assert len(json.dumps(live_payload(trace, status="finished"))) < 2_000_000


def test_a_running_payload_holds_only_cycles_from_the_first_asked_for() -> None:
    trace = make_trace(cycles=9, finish=None)
    payload = live_payload(trace, status="running", first_cycle=6)
    assert [c["i"] for c in payload["cycles"]] == [6, 7, 8]
    assert (payload["first_cycle"], payload["total_cycles"]) == (6, 9)
    assert live_payload(trace, status="running", first_cycle=9)["cycles"] == []


def test_a_partial_payload_says_the_same_about_its_cycles_as_the_full_one() -> None:
    trace = make_trace(cycles=60, rule="topk", seed=3)
    full = live_payload(trace, status="finished")
    for first in range(60):
        part = live_payload(trace, status="running", first_cycle=first)
        assert part["cycles"] == full["cycles"][first:]
        assert part["opening_text"] == full["opening_text"]
        assert part["labels"].items() <= full["labels"].items()


def test_a_first_cycle_beyond_the_trace_sends_no_cycles() -> None:
    payload = live_payload(make_trace(cycles=3), status="running", first_cycle=10)
    assert payload["cycles"] == []
    assert payload["first_cycle"] <= payload["total_cycles"] == 3


def test_a_negative_first_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="first_cycle"):
        live_payload(make_trace(cycles=1), status="running", first_cycle=-1)


def test_the_run_is_named_by_its_start_and_seed() -> None:
    a = live_payload(make_trace(cycles=1, seed=1), status="running")["run"]
    b = live_payload(make_trace(cycles=1, seed=2), status="running")["run"]
    assert a != b
    assert a == live_payload(make_trace(cycles=2, seed=1), status="finished")["run"]


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_noted_as_what_it_compares(rule: Rule) -> None:
    note = live_payload(make_trace(cycles=1, rule=rule), status="finished")["rule_note"]
    named = {
        "greedy": "arg-max",
        "topk": "accept probability = p (",
        "sample": "accept probability = min(1, p/q)",
        "typical": "changes the output distribution",
    }
    assert named[rule] in note
    alone = make_trace(cycles=1, rule=rule, method="ar")
    assert live_payload(alone, status="finished")["rule_note"] == ""


@pytest.mark.parametrize("rule", RULES)
def test_nodes_carry_the_recorded_numbers_to_four_digits(rule: Rule) -> None:
    trace = make_trace(cycles=8, rule=rule, shape=BIG)
    payload = live_payload(trace, status="finished")
    for cycle, sent in zip(trace.cycles, payload["cycles"], strict=True):
        nodes = cycle.nodes
        q = np.array(sent["nodes"]["q"][1:], float)
        p = np.array(sent["nodes"]["p"][1:], float)
        np.testing.assert_allclose(q, np.exp(nodes.draft_logprob[1:]), rtol=6e-4)
        np.testing.assert_allclose(p, nodes.p_raw[1:], rtol=6e-4)
        assert sent["nodes"]["q"][0] is None
        assert sent["nodes"]["parent"] == nodes.parent.tolist()
        tested = {row[0]: row[1:] for row in sent["nodes"]["tested"]}
        for i in range(len(nodes)):
            chance = nodes.accept_probability[i]
            assert (i in tested) == math.isfinite(chance)
            if i in tested:
                assert tested[i][1] == pytest.approx(chance, rel=6e-4)


def test_a_column_is_rounded_as_each_of_its_values_would_be() -> None:
    rng = np.random.default_rng(0)
    values = (10.0 ** rng.uniform(-12, 3, 4000)).astype(np.float32)
    column = np.concatenate([values, -values, [0.0, np.nan, np.inf, -np.inf, 1e-45]])
    assert numbers(column) == [number(value) for value in column]


def test_p_after_warping_is_sent_only_where_it_says_more_than_p() -> None:
    topk = live_payload(make_trace(cycles=2, rule="topk"), status="finished")
    greedy = live_payload(make_trace(cycles=2, rule="greedy"), status="finished")
    assert all(c["nodes"]["warped"] is not None for c in topk["cycles"])
    assert all(c["nodes"]["warped"] is None for c in greedy["cycles"])


def test_pruned_candidates_are_the_best_scored_dropped_ones_below_known_parents() -> None:
    trace = make_trace(cycles=4, rule="topk", shape=TreeShape(total=8, depth=5, top_k=6))
    payload = live_payload(trace, status="finished")
    for cycle, sent in zip(trace.cycles, payload["cycles"], strict=True):
        pool, kept = cycle.pool, set(cycle.nodes.pool_index.tolist())
        dropped = [i for i in range(len(pool)) if i not in kept]
        pruned = sent["pruned"]
        assert pruned["total"] == len(dropped) == len(pool) - 7
        assert len(pruned["token"]) == PRUNED_LIMIT
        worst_shown = sorted(pool.score[dropped])[::-1][PRUNED_LIMIT - 1]
        shown = [i for i in dropped if pool.score[i] >= worst_shown]
        assert sorted(pruned["token"]) == sorted(pool.token[shown].tolist())
        for position, parent in enumerate(pruned["parent"]):
            assert 0 <= parent < len(cycle.nodes) + position


def test_the_decided_token_is_the_last_committed_one_and_absent_when_cut() -> None:
    trace = make_trace(cycles=20, rule="topk", finish="length")
    sent = live_payload(trace, status="finished")["cycles"]
    for cycle, row in zip(trace.cycles, sent, strict=True):
        own = cycle.origins[-1] in (Origin.RECOVERED, Origin.BONUS)
        assert (row["decided"] is not None) == own
        if own:
            assert row["decided"]["token"] == cycle.tokens[-1]
    cut = replace(trace.cycles[0], tokens=(1,), origins=(Origin.ACCEPTED,), cut=True, miss=None)
    shorter = Trace(trace.header, trace.prefill, [cut], trace.token_bytes)
    assert live_payload(shorter, status="finished")["cycles"][0]["decided"] is None


def test_trees_are_sent_only_where_a_tree_was_recorded() -> None:
    off = live_payload(make_trace(cycles=3, record="off"), status="finished")
    plain = live_payload(make_trace(cycles=3, method="ar"), status="finished")
    assert all(c["nodes"] is None for c in [*off["cycles"], *plain["cycles"]])
    assert (off["record"], plain["method"]) == ("off", "ar")


def test_every_token_the_drawing_names_has_a_label_within_its_limit() -> None:
    trace = make_trace(cycles=30, rule="topk", shape=BIG)
    payload = live_payload(trace, status="finished")
    for cycle in payload["cycles"]:
        named = [*cycle["tokens"], *cycle["nodes"]["token"], *cycle["pruned"]["token"]]
        assert all(str(token) in payload["labels"] for token in named)
    for entry in payload["labels"].values():
        assert len(entry[0]) <= LABEL_LIMIT + 1
        assert len(entry[-1]) <= HOVER_LIMIT + 1
    long = [entry for entry in payload["labels"].values() if len(entry) == 2]
    assert long
    assert all(entry[0].endswith("…") for entry in long)


def test_a_character_spread_over_tokens_stands_once_in_the_strip() -> None:
    base = make_trace(cycles=1)
    halves = {0: b"\xf0\x9f", 1: b"\x99\x82"}
    cycle = replace(
        base.cycles[0], tokens=(0, 1), origins=(Origin.ACCEPTED, Origin.BONUS), nodes=None
    )
    trace = Trace(base.header, base.prefill, [cycle], base.token_bytes | halves)
    assert live_payload(trace, status="running")["cycles"][0]["text"] == ["🙂", ""]


def metric(trace: Trace, name: str, status: str = "running") -> str:
    rows = live_payload(trace, status=status)["metrics"]
    return {row["name"]: row["value"] for row in rows}[name]


def test_speed_up_waits_for_the_baseline_and_then_compares_with_it() -> None:
    trace = make_trace(cycles=5)
    tokens = sum(len(c.tokens) for c in trace.cycles)
    spent = sum(c.timing.total for c in trace.cycles)
    expected = trace.header.baseline.ms_per_token / (spent / tokens)
    assert metric(trace, "speed-up over AR") == f"{expected:.2f}×"
    waiting = replace(trace, header=replace(trace.header, baseline=None))
    assert metric(waiting, "speed-up over AR") == "measuring…"
    assert metric(waiting, "speed-up over AR", "stopped") == "–"


def test_the_speed_up_says_what_it_was_measured_against() -> None:
    trace = make_trace(cycles=5)
    rows = live_payload(trace, status="running")["metrics"]
    hint = {row["name"]: row["hint"] for row in rows}["speed-up over AR"]
    assert trace.header.baseline.how in hint and trace.header.baseline.measured_at in hint


def test_autoregression_and_a_run_of_cut_cycles_have_no_speed_up() -> None:
    trace = make_trace(cycles=1)
    alone = replace(trace, header=replace(trace.header, method="ar"))
    assert metric(alone, "speed-up over AR") == "–"
    cut = replace(trace, cycles=[replace(trace.cycles[0], cut=True, finish="length")])
    assert metric(cut, "speed-up over AR", "finished") == "–"


def test_tau_says_beside_its_value_over_how_many_cycles_it_is_where_one_was_cut() -> None:
    def asides(trace: Trace) -> dict[str, str]:
        rows = live_payload(trace, status="finished")["metrics"]
        return {row["name"]: row["aside"] for row in rows if row["aside"]}

    whole = make_trace(cycles=3, finish=None)
    assert asides(whole) == {}
    cut = replace(whole.cycles[-1], cut=True, finish="length")
    ended = replace(whole, cycles=[*whole.cycles[:-1], cut])
    assert asides(ended) == {"tokens per cycle (tau)": "over 2 uncut cycles"}


def test_metrics_of_a_run_without_cycles_are_dashes() -> None:
    trace = make_trace(cycles=0)
    assert metric(trace, "tokens per cycle (tau)") == "–"
    assert metric(trace, "mean cycle time") == "–"


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_bundle_is_one_module_with_one_default_export(entry: str) -> None:
    source = bundle(entry)
    assert not re.search(r"^\s*import\b", source, re.MULTILINE)
    assert re.findall(r"^export .*", source, re.MULTILINE) == [
        f"export default function mount({{ parentElement, data, {TOLD[entry]} }}) {{"
    ]


@pytest.mark.parametrize("entry", ENTRIES)
def test_scripts_come_after_what_they_import(entry: str) -> None:
    order = scripts(entry)
    assert order[-1] == entry and len(order) == len(set(order))
    for place, name in enumerate(order):
        source = (ASSETS / name).read_text(encoding="utf-8")
        imported = re.findall(r'from "\./(\w+\.js)"', source)
        assert set(imported) <= set(order[:place])


def test_every_asset_is_part_of_a_bundle() -> None:
    names = {path.name for path in ASSETS.iterdir()} - {"package.json"}
    used = {name for entry in ENTRIES for name in scripts(entry)}
    assert names == {*used, *component.STYLES, *trace_view.STYLES}


def test_no_script_can_turn_text_into_markup() -> None:
    for path in ASSETS.glob("*.js"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", source)


def test_only_the_feed_of_the_live_view_asks_the_server_and_no_script_another_one() -> None:
    asking = [
        path.name
        for path in ASSETS.glob("*.js")
        if re.search(r"\bfetch\(|XMLHttpRequest|WebSocket", path.read_text(encoding="utf-8"))
    ]
    assert asking == ["feed.js"]
    assert "feed.js" not in scripts(trace_view.ENTRY), "an exported page asks nobody"
    for path in ASSETS.glob("*.js"):
        assert not re.search(r"https?://(?!www\.w3\.org)", path.read_text(encoding="utf-8"))


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_bundle_parses_as_a_module(entry: str, tmp_path: Path) -> None:
    module = tmp_path / "bundle.mjs"
    module.write_text(bundle(entry), encoding="utf-8")
    done = subprocess.run([NODE, "--check", str(module)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_bundle_runs_as_one_module(entry: str, tmp_path: Path) -> None:
    module = tmp_path / "bundle.mjs"
    module.write_text(bundle(entry), encoding="utf-8")
    question = f'console.log(typeof (await import("{module.as_uri()}")).default)'
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", question], capture_output=True, text=True
    )
    assert done.stdout.strip() == "function", done.stderr


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_browser_modules_pass_their_own_tests() -> None:
    files = sorted(str(path) for path in JS_TESTS.glob("*.test.js"))
    assert files
    done = subprocess.run([NODE, "--test", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
