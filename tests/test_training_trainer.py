"""A job gives the same draft however often it is stopped and however many processes share it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eagle3_viz.prompt_records import ALL
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.checkpoint import FILE, Progress, load_checkpoint, save_checkpoint
from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.features import FeatureStore, extract
from eagle3_viz.training.log import EvaluationRow, LogRow, read_evaluations, read_log
from eagle3_viz.training.trainer import Trainer
from tests.tiny_models import shared_target
from tests.tiny_training import start_process, tiny_features, tiny_trainer


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


@pytest.fixture(scope="module")
def store(features: Path) -> FeatureStore:
    return tiny_features(features)


@pytest.fixture(scope="module")
def heldout(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return tiny_features(tmp_path_factory.mktemp("heldout"), count=5, seed=2)


class Crash(Exception):
    """What a test's listener ends a run with."""


class Recorder:
    """Keeps what it is told; does something at a logged step."""

    def __init__(
        self, at: int = 0, action: Callable[[], None] = lambda: None, keep: Path | None = None
    ) -> None:
        self.rows: list[LogRow] = []
        self.evaluations: list[EvaluationRow] = []
        self.saved: list[Progress] = []
        self._at, self._action, self._keep = at, action, keep

    def row(self, row: LogRow) -> None:
        self.rows.append(row)
        if row.step == self._at:
            self._action()

    def evaluation(self, row: EvaluationRow) -> None:
        self.evaluations.append(row)

    def checkpoint(self, progress: Progress) -> None:
        self.saved.append(progress)
        if self._keep is not None:
            shutil.copy(self._keep / FILE, self._keep / f"{progress.step}")


def crash() -> None:
    raise Crash


def untimed(rows: list[LogRow]) -> list[LogRow]:
    return [replace(row, seconds=0.0, tokens_per_second=0.0) for row in rows]


def assert_same_run(folder: Path, trainer: Trainer, other: Path, expected: Trainer) -> None:
    """Bit for bit: masters, moments, progress and everything that was logged."""
    state, wanted = trainer.masters.state(), expected.masters.state()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)
    assert replace(trainer.progress, seconds=0) == replace(expected.progress, seconds=0)
    assert untimed(read_log(folder)) == untimed(read_log(other))
    assert read_evaluations(folder) == read_evaluations(other)


def test_training_lowers_the_loss_and_passes_the_tokens_it_was_asked_for(
    tmp_path: Path, store: FeatureStore
) -> None:
    recorder = Recorder()
    progress = tiny_trainer(tmp_path, store, listener=recorder).run()
    assert 1500 <= progress.tokens < 1500 + 2 * 64
    assert recorder.rows[-1].loss < recorder.rows[0].loss
    assert recorder.saved == [progress]
    assert read_log(tmp_path) == recorder.rows
    assert [row.step for row in recorder.rows] == list(range(1, progress.step + 1))
    assert recorder.rows[-1].tokens == progress.tokens


@pytest.mark.parametrize("step", [1, 5, 9])
def test_a_run_that_crashed_ends_as_if_it_never_had(
    tmp_path: Path, store: FeatureStore, heldout: FeatureStore, step: int
) -> None:
    settings = {"heldout": heldout, "evaluate_tokens": 400}
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    expected = tiny_trainer(whole, store, **settings)
    assert expected.run().epoch > 1  # the data began anew on the way
    recorder = Recorder(at=12, action=crash, keep=torn)
    with pytest.raises(Crash):
        tiny_trainer(torn, store, listener=recorder, checkpoint_seconds=0.0, **settings).run()
    assert len(read_log(torn)) == 12  # rows of later steps than the checkpoint's
    (torn / f"{step}").replace(torn / FILE)
    resumed = tiny_trainer(torn, store, **settings)
    assert resumed.progress.step == step
    assert len(read_log(torn)) == step
    resumed.run()
    assert_same_run(torn, resumed, whole, expected)


def test_a_crash_before_the_first_checkpoint_starts_anew(
    tmp_path: Path, store: FeatureStore
) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    expected = tiny_trainer(whole, store)
    expected.run()
    with pytest.raises(Crash):
        tiny_trainer(torn, store, listener=Recorder(at=4, action=crash)).run()
    resumed = tiny_trainer(torn, store)
    assert resumed.progress == Progress()
    resumed.run()
    assert_same_run(torn, resumed, whole, expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_at_a_step_with_a_checkpoint(
    tmp_path: Path, store: FeatureStore, number: signal.Signals
) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    expected = tiny_trainer(whole, store)
    expected.run()
    handler = signal.getsignal(number)
    recorder = Recorder(at=5, action=lambda: os.kill(os.getpid(), number))
    stopped = tiny_trainer(torn, store, listener=recorder)
    progress = stopped.run()
    assert progress.step == 6  # the step that was under way when the next one asked
    assert not stopped.finished
    assert recorder.saved == [progress]
    assert signal.getsignal(number) is handler
    resumed = tiny_trainer(torn, store)
    assert resumed.progress == progress
    resumed.run()
    assert_same_run(torn, resumed, whole, expected)


@pytest.mark.slow
def test_a_killed_process_loses_no_more_than_the_time_since_its_checkpoint(
    tmp_path: Path, features: Path, store: FeatureStore
) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    tiny_trainer(whole, store, tokens=9000).run()
    process = start_process(torn, features, tokens=9000, checkpoint_seconds=0.01)
    deadline = time.monotonic() + 120
    while not (torn / "log.csv").exists() or len(read_log(torn)) < 15:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    resumed = tiny_trainer(torn, store, tokens=9000)
    assert resumed.progress.step > 0 and not resumed.finished
    resumed.run()
    assert read_log(torn)[-1].step == read_log(whole)[-1].step
    assert read_log(torn)[-1].loss == pytest.approx(read_log(whole)[-1].loss, abs=1e-3)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_two_processes_train_what_one_trains(
    tmp_path: Path, features: Path, store: FeatureStore
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    alone = tiny_trainer(one, store)
    before = {name: tensor.detach().clone() for name, tensor in alone.masters.parameters.items()}
    alone.run()
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    processes = [start_process(two, features, shared | rank) for rank in ranks]
    assert [process.wait(240) for process in processes] == [0, 0]
    state = load_file(two / FILE)
    for name, tensor in alone.masters.parameters.items():
        moved = (tensor - before[name]).norm()
        assert (state[f"parameter.{name}"] - tensor).norm() < 0.01 * moved
    for ours, reference in zip(read_log(two), read_log(one), strict=True):
        assert (ours.step, ours.tokens) == (reference.step, reference.tokens)
        assert ours.loss == pytest.approx(reference.loss, rel=1e-3)
        assert ours.learning_rate == reference.learning_rate


def test_a_finished_job_goes_on_when_it_is_given_more_tokens(
    tmp_path: Path, store: FeatureStore
) -> None:
    settings = {"decay_share": 0.0}
    first, second = tmp_path / "first", tmp_path / "second"
    expected = tiny_trainer(first, store, tokens=1500, **settings)
    expected.run()
    tiny_trainer(second, store, tokens=700, **settings).run()
    longer = tiny_trainer(second, store, tokens=1500, **settings)
    assert longer.progress.tokens >= 700
    longer.run()
    assert_same_run(second, longer, first, expected)


def test_more_tokens_are_refused_once_the_learning_rate_has_begun_to_fall(
    tmp_path: Path, store: FeatureStore
) -> None:
    tiny_trainer(tmp_path, store, tokens=700, decay_share=0.5).run()
    with pytest.raises(DataError, match="cannot be led to 1500 tokens any more"):
        tiny_trainer(tmp_path, store, tokens=1500, decay_share=0.5)
    assert tiny_trainer(tmp_path, store, tokens=700, decay_share=0.5).finished


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning_rate": 1e-4}, "learning_rate was 0.0015, now 0.0001"),
        ({"seed": 5}, "seed was 0, now 5"),
        ({"batch_tokens": 65, "seed": 5}, "batch_tokens was 64, now 65; seed"),
        ({"steps": 2}, "unroll was 3, now 2"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused_naming_what_differs(
    tmp_path: Path, store: FeatureStore, changes: dict[str, float], named: str
) -> None:
    tiny_trainer(tmp_path, store, tokens=100).run()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(DataError, match=named):
        tiny_trainer(tmp_path, store, tokens=100, **changes)
    assert (tmp_path / FILE).read_bytes() == before
    assert len(read_log(tmp_path)) == 1


def test_a_part_that_differs_is_named_and_not_the_whole_it_belongs_to(tmp_path: Path) -> None:
    job = {"objective": "eagle3", "architecture": {"hidden_size": 32, "draft_vocab_size": 40}}
    save_checkpoint(tmp_path, Progress(), job, {})
    other = {"objective": "eagle1", "architecture": {"hidden_size": 32, "bias": True}}
    differences = (
        "objective was 'eagle3', now 'eagle1'; architecture.bias was None, now True; "
        "architecture.draft_vocab_size was 40, now None"
    )
    with pytest.raises(DataError, match=differences):
        load_checkpoint(tmp_path, other)


def test_a_checkpoint_of_other_text_is_refused(
    tmp_path: Path, store: FeatureStore, heldout: FeatureStore
) -> None:
    tiny_trainer(tmp_path, store, tokens=100).run()
    with pytest.raises(DataError, match=r"data was .*examples was 20, now 5"):
        tiny_trainer(tmp_path, heldout, tokens=100)


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
def test_a_damaged_checkpoint_is_refused_by_name(
    tmp_path: Path, store: FeatureStore, keep: int
) -> None:
    tiny_trainer(tmp_path, store, tokens=100).run()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"checkpoint\.safetensors is damaged"):
        tiny_trainer(tmp_path, store, tokens=100)


def test_half_a_checkpoint_beside_the_old_one_changes_nothing(
    tmp_path: Path, store: FeatureStore
) -> None:
    progress = tiny_trainer(tmp_path, store, tokens=100).run()
    (tmp_path / f"{FILE}.partial").write_bytes(b"half")
    assert tiny_trainer(tmp_path, store, tokens=100).progress == progress


def test_held_out_accuracies_come_at_their_tokens_and_once_at_the_end(
    tmp_path: Path, store: FeatureStore, heldout: FeatureStore
) -> None:
    recorder = Recorder()
    trainer = tiny_trainer(tmp_path, store, heldout=heldout, evaluate_tokens=500, listener=recorder)
    trainer.run()
    rows = read_evaluations(tmp_path)
    assert rows == recorder.evaluations
    assert {row.domain for row in rows} == {ALL, "a", "b"}
    assert all(len(row.accuracy) == 4 for row in rows)  # one step more than is trained
    passed = [row.tokens for row in read_log(tmp_path)]
    expected = [next(t for t in passed if t >= due) for due in (500, 1000, 1500)]
    assert expected[-1] == passed[-1]  # due twice there: as a multiple and as the end
    assert [row.tokens for row in rows if row.domain == ALL] == expected


def test_a_job_that_is_stopped_before_its_first_evaluation_has_a_checkpoint_and_a_log_alone(
    tmp_path: Path, store: FeatureStore, heldout: FeatureStore
) -> None:
    stop = Recorder(at=2, action=lambda: os.kill(os.getpid(), signal.SIGTERM))
    tiny_trainer(tmp_path, store, heldout=heldout, evaluate_tokens=10**6, listener=stop).run()
    assert (tmp_path / FILE).exists() and len(stop.saved) == 1
    assert [row.step for row in read_log(tmp_path)][:2] == [1, 2]
    assert read_evaluations(tmp_path) == [] and stop.evaluations == []


@pytest.mark.parametrize("at", ["last step", "evaluation"])
def test_a_job_that_is_stopped_at_its_end_is_evaluated_nevertheless(
    tmp_path: Path, store: FeatureStore, heldout: FeatureStore, at: str
) -> None:
    last = tiny_trainer(tmp_path / "first", store).run().step

    class Stopped(Recorder):
        def evaluation(self, row: EvaluationRow) -> None:
            super().evaluation(row)
            if at == "evaluation" and len(self.evaluations) == 1:
                raise Crash

    stop = Stopped(at=last - 1, action=lambda: os.kill(os.getpid(), signal.SIGTERM))
    folder = tmp_path / "job"
    trainer = tiny_trainer(folder, store, heldout=heldout, listener=stop)
    if at == "evaluation":
        with pytest.raises(Crash):
            trainer.run()
    else:
        trainer.run()
    tiny_trainer(folder, store, heldout=heldout).run()
    rows = read_evaluations(folder)
    assert [(row.step, row.domain) for row in rows] == [(last, ALL), (last, "a"), (last, "b")]


def test_text_without_a_prediction_is_refused(tmp_path: Path, store: FeatureStore) -> None:
    texts = [Conversation((1, 2, 3), 2), Conversation((4, 5), 1)]
    extract(shared_target(), texts, tmp_path / "features", target_name="tiny")
    empty = FeatureStore(tmp_path / "features")
    with pytest.raises(DataError, match=r"training text .* nothing to predict"):
        tiny_trainer(tmp_path / "out", empty)
    with pytest.raises(DataError, match=r"held-out text .* nothing to predict"):
        tiny_trainer(tmp_path / "out", store, heldout=empty)


def test_the_last_step_is_logged_whatever_the_interval(tmp_path: Path, store: FeatureStore) -> None:
    last = tiny_trainer(tmp_path, store, log_steps=4).run().step
    assert last % 4
    assert [row.step for row in read_log(tmp_path)] == [*range(4, last, 4), last]


def test_every_seed_that_can_be_named_trains(tmp_path: Path, store: FeatureStore) -> None:
    assert tiny_trainer(tmp_path, store, tokens=100, seed=2**63 - 1).run().step > 0
