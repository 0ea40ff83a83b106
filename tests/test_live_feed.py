"""What the live view is answered while a run moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from eagle3_viz import service
from eagle3_viz.backend import Request
from eagle3_viz.component import live_payload
from eagle3_viz.config import DecodeConfig
from eagle3_viz.service import Engine, Job, Phase, Status
from eagle3_viz.trace import Trace
from eagle3_viz.ui import live_feed, live_status
from tests.fake_backend import SyntheticBackend
from tests.synthetic import make_trace

WAIT = 10.0


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    engine = Engine(SyntheticBackend(cycles=9))
    monkeypatch.setattr(service, "shared_engine", lambda: engine)
    yield engine
    engine.close()


@pytest.fixture
def client(engine: Engine) -> TestClient:
    return TestClient(Starlette(routes=[live_feed.route()]))


def paused(engine: Engine, cycles: int = 1) -> Job:
    job = engine.submit("me", Request("a prompt", DecodeConfig()), step=True)
    for _ in range(cycles - 1):
        eventually(lambda: job.status.phase is Phase.PAUSED)
        engine.step(job)
    eventually(lambda: job.status.phase is Phase.PAUSED and job.trace is not None)
    return job


def test_the_parts_of_a_run_are_together_the_whole(engine: Engine, client: TestClient) -> None:
    job = paused(engine)
    address = f"/{live_feed.address(job.key)}"
    known: dict[int, object] = {}
    run = ""
    while not job.status.ended:
        part = client.get(address, params={"run": run, "since": len(known)}).json()
        run = part["run"]
        assert part["first_cycle"] <= len(known)
        known |= {cycle["i"]: cycle for cycle in part["cycles"]}
        assert len(known) == part["total_cycles"]
        engine.step(job)
        eventually(lambda: job.status.ended or job.status.phase is Phase.PAUSED)
    last = client.get(address, params={"run": run, "since": len(known)}).json()
    known |= {cycle["i"]: cycle for cycle in last["cycles"]}
    assert last["still"] and last["status"] == "finished"
    assert job.trace is not None
    assert list(known.values()) == live_payload(job.trace, status="finished")["cycles"]


def test_a_view_of_another_run_gets_every_cycle(engine: Engine, client: TestClient) -> None:
    job = paused(engine, cycles=4)
    address = f"/{live_feed.address(job.key)}"
    other = client.get(address, params={"run": "an earlier one", "since": 4}).json()
    assert [cycle["i"] for cycle in other["cycles"]] == [0, 1, 2, 3]
    own = client.get(address, params={"run": other["run"], "since": 4}).json()
    assert [cycle["i"] for cycle in own["cycles"]] == [1, 2, 3], "those a cut character may be in"


def test_a_character_cut_between_two_answers_is_whole_in_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = make_trace(cycles=2, method="ar")
    smile = "🙂".encode()
    spelled = {c.tokens[0]: smile[2 * i : 2 * i + 2] for i, c in enumerate(whole.cycles)}
    trace = Trace(whole.header, whole.prefill, whole.cycles[:1], {**whole.token_bytes, **spelled})
    job = Job(Request("a prompt", DecodeConfig()), "me", trace=trace, status=Status(Phase.RUNNING))
    first = live_status.progress(job, held=False)
    trace.cycles.append(whole.cycles[1])
    second = live_status.progress(job, held=False, run=str(first["run"]), since=1)
    assert first["cycles"][0]["text"] != ["🙂"]
    assert [cycle["text"] for cycle in second["cycles"]] == [["🙂"], [""]]


def test_autoregression_is_drawn_as_a_run_while_it_is_measured() -> None:
    measured = make_trace(cycles=5, method="ar")
    job = Job(Request("a prompt", DecodeConfig()), "me", measured=measured)
    job.status = Status(Phase.MEASURING, done=5, total=40)
    drawn = live_status.progress(job, held=False)
    assert len(drawn["cycles"]) == 5 and drawn["status"] == "running"
    assert (drawn["done"], drawn["total"]) == (5, 40)
    job.status = Status(Phase.STOPPED)
    assert live_status.progress(job, held=False)["cycles"] == [], "it is no trace of the run"


def test_before_there_is_a_trace_the_sentence_and_how_far_it_is_are_told() -> None:
    job = Job(Request("a prompt", DecodeConfig()), "me")
    job.status = Status(Phase.LOADING, message="Reading", done=1, total=3)
    waiting = live_status.progress(job, held=False)
    assert waiting["sentence"] == "Loading the pair: Reading (1 of 3)"
    assert (waiting["done"], waiting["total"], waiting["cycles"]) == (1, 3, [])
    assert set(live_payload(make_trace(cycles=1), status="running")) <= set(waiting)


def test_who_asks_keeps_the_run_alive(engine: Engine, client: TestClient) -> None:
    job = paused(engine)
    engine.release("me")
    client.get(f"/{live_feed.address(job.key)}")
    assert job._released is None


def test_the_event_loop_packs_no_run(
    engine: Engine, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, packs, loops = paused(engine), live_status.progress, []

    def packed(*given: object, **named: object) -> object:
        loops.append(asyncio._get_running_loop())
        return packs(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(live_status, "progress", packed)
    assert client.get(f"/{live_feed.address(job.key)}").status_code == 200
    assert loops == [None]


def test_keys_cannot_be_guessed_and_a_wrong_one_tells_nothing(
    engine: Engine, client: TestClient
) -> None:
    jobs = [paused(engine), engine.submit("me", Request("b", DecodeConfig()))]
    assert jobs[0].key != jobs[1].key and all(len(job.key) >= 20 for job in jobs)
    for key in ("x", jobs[0].key[:-1], "me", "%2e%2e"):
        refused = client.get(f"/feed/{key}")
        assert refused.status_code == 404 and "prompt" not in refused.text


@pytest.mark.parametrize("since", ["-1", "x", "1.5", "²", "9" * 30])
def test_a_since_that_is_no_count_is_refused(
    engine: Engine, client: TestClient, since: str
) -> None:
    refused = client.get(f"/feed/{paused(engine).key}", params={"since": since})
    assert refused.status_code == 400
    assert "counts cycles from 0" in refused.json()["error"]


def test_nothing_is_kept_by_browsers(engine: Engine, client: TestClient) -> None:
    answer = client.get(f"/feed/{paused(engine).key}")
    assert answer.headers["cache-control"] == "no-store"


def test_a_server_below_a_path_answers_below_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "get_option", {"server.baseUrlPath": "/lab/eagle/"}.__getitem__)
    client = TestClient(Starlette(routes=[live_feed.route()]))
    assert client.get(f"/lab/eagle/feed/{paused(engine).key}").status_code == 200


def test_a_run_that_nobody_holds_any_more_is_forgotten(engine: Engine) -> None:
    key = engine.submit("me", Request("a", DecodeConfig())).key
    eventually(lambda: engine.find(key) is None)
    assert engine.find("no such key") is None
