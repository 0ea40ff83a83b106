"""Runs a suite, and goes on with one that was stopped.

A run is one turn of one prompt under one setting. Its trace is written the moment it is finished,
whole or not at all; a trace that is there is not made again. So a process that is killed loses the
run it was at, and the next one goes on with that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from eagle3_viz.chat import Exchange
from eagle3_viz.config import DecodeConfig
from eagle3_viz.files import alone_in
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.prompt_sets import Prompt
from eagle3_viz.provenance import machine
from eagle3_viz.run import planned_header, run
from eagle3_viz.suite.manifest import claim, manifest_of
from eagle3_viz.suite.plan import Plan, trace_path
from eagle3_viz.text_lines import DataError
from eagle3_viz.trace import Header, Trace
from eagle3_viz.trace_file import TraceFileError, load, save

WARM_UP_TOKENS = 8  # decoded by each setting before the first run: none pays for a cold start

_INCIDENTAL = ("started_at", "argv", "git_commit", "baseline", "dtype_reason")

Report = Callable[[int, int], None]
"""Called with the runs that are done, earlier ones included, and all there are."""


@dataclass
class Outcome:
    """made, found: runs of this time and of earlier times. skipped: why, by prompt."""

    made: int = 0
    found: int = 0
    skipped: dict[str, str] = field(default_factory=dict)


def run_suite(
    pair: LoadedPair,
    plan: Plan,
    folder: Path,
    *,
    command: tuple[str, ...],
    report: Report = lambda done, total: None,
) -> Outcome:
    """Run what `folder` lacks of `plan`. command: the command line, fit to be shared.

    A prompt that the pair cannot take (too long, or refused by the chat template) is skipped under
    every setting. Raises DataError when the folder or a trace in it belongs to something else, and
    ValueError for a method that the pair has no draft for.
    """
    for config in plan.settings.values():
        pair.draft_for(config.method)
    with alone_in(folder):
        claim(folder, manifest_of(plan, machine(pair.target.device)))
        suite = _Suite(pair, plan, folder, command, report)
        for set_name, prompt, settings in plan.conversations():
            suite.converse(set_name, prompt, settings)
        return suite.outcome


class _Skipped(Exception):
    """The pair cannot take this prompt."""


@dataclass
class _Suite:
    pair: LoadedPair
    plan: Plan
    folder: Path
    command: tuple[str, ...]
    report: Report
    outcome: Outcome = field(default_factory=Outcome)
    warm: bool = False

    def __post_init__(self) -> None:
        prompts = [(name, prompt) for name, prompt, _ in self.plan.conversations()]
        there = [path.exists() for at in prompts for path in self._paths(*at)]
        self.total, self.done = len(there), sum(there)
        self.report(self.done, self.total)

    def _paths(self, set_name: str, prompt: Prompt) -> list[Path]:
        return [
            trace_path(self.folder, set_name, prompt.id, turn, setting)
            for turn in range(1, len(prompt.turns) + 1)
            for setting in self.plan.settings
        ]

    def converse(self, set_name: str, prompt: Prompt, settings: tuple[str, ...]) -> None:
        """All turns under all settings; each setting goes on with its own answers."""
        histories: dict[str, list[Exchange]] = {setting: [] for setting in settings}
        try:
            for turn, question in enumerate(prompt.turns, start=1):
                for setting in settings:
                    path = trace_path(self.folder, set_name, prompt.id, turn, setting)
                    config = self.plan.config(setting, set_name, prompt, turn)
                    history = histories[setting]
                    trace = self._trace(path, question, config, prompt.system, history)
                    history.append(Exchange(question, answer(trace)))
        except _Skipped as reason:
            self.outcome.skipped[f"{set_name}/{prompt.id}"] = str(reason)
            missing = [path for path in self._paths(set_name, prompt) if not path.exists()]
            self.total -= len(missing)
            self.report(self.done, self.total)

    def _trace(
        self,
        path: Path,
        question: str,
        config: DecodeConfig,
        system: str | None,
        history: list[Exchange],
    ) -> Trace:
        """The trace of one run, from the disk or made now. Raises _Skipped."""
        header = self._planned(question, config, system, history)
        if path.exists():
            self.outcome.found += 1
            return _checked(path, header)
        if not self.warm:
            self._warm_up(question, system)
        trace = self._made(question, config, system, history)
        trace.header = replace(trace.header, argv=self.command)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(trace, path)
        self.outcome.made += 1
        self.done += 1
        self.report(self.done, self.total)
        return trace

    def _planned(
        self, question: str, config: DecodeConfig, system: str | None, history: list[Exchange]
    ) -> Header:
        try:
            header = planned_header(self.pair, question, config, system=system, history=history)
        except ValueError as error:  # the template's word on the conversation
            raise _Skipped(str(error)) from error
        if not 0 < len(header.prompt_ids) < header.context_limit:
            raise _Skipped(
                f"{len(header.prompt_ids)} tokens, the context takes 1 to "
                f"{header.context_limit - 1}"
            )
        return header

    def _made(
        self, question: str, config: DecodeConfig, system: str | None, history: list[Exchange]
    ) -> Trace:
        *_, trace = run(self.pair, question, config, system=system, history=history)
        return trace

    def _warm_up(self, question: str, system: str | None) -> None:
        for config in self.plan.settings.values():
            self._made(question, replace(config, max_new_tokens=WARM_UP_TOKENS), system, [])
        self.warm = True


def answer(trace: Trace) -> str:
    """What was written, without the end of sequence; broken UTF-8 becomes U+FFFD."""
    spelled = b"".join(trace.token_bytes[token] for token in trace.written)
    return spelled.decode("utf-8", "replace")


def _checked(path: Path, planned: Header) -> Trace:
    """The trace at `path`, finished and made as `planned`. Raises DataError."""
    try:
        trace = load(path)
    except TraceFileError as error:
        raise DataError(f"{path}: {error}; or delete the file to run it again") from error
    found = trace.header
    # when it ran, and from which checkout and command line, does not make it another run
    same = {name: getattr(found, name) for name in _INCIDENTAL}
    planned = replace(planned, **same)
    differences = [name for name in vars(found) if getattr(found, name) != getattr(planned, name)]
    if differences:
        raise DataError(
            f"{path} differs from the run to be made in its {' and '.join(differences)}; delete "
            "it to run it again, or name another folder"
        )
    if trace.finish is None:
        raise DataError(f"{path} ends in the middle of its run; delete it to run it again")
    return trace
