"""Training text from the target: questions (given or its own), answers, files for the trainer.

Everything that comes out follows from the arguments. Each text is in a journal the moment it is
finished; filters and files are made from the journals in the order of the indices. So a job that
was killed and started again writes, byte for byte, what an uninterrupted one writes (on the same
machine with as many threads: another matrix product may round a near tie the other way).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import Sampling
from eagle3_viz.files import write_atomically
from eagle3_viz.presets import load_presets
from eagle3_viz.target import TargetModel
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import Conversation, to_line
from eagle3_viz.training.filters import NearDuplicates, is_held_out
from eagle3_viz.training.generate import Completion, Request, common_length, generate
from eagle3_viz.training.journal import Journal, claim
from eagle3_viz.training.prompts import Prompt
from eagle3_viz.training.self_prompt import MAX_QUESTION_TOKENS, SelfPrompter

TRAIN, HELD_OUT = "train.jsonl", "heldout.jsonl"
QUESTIONS, ANSWERS = "questions.journal", "answers.journal"
ANSWER_TEMPERATURES = (0.0, 0.0, 0.0, 0.0, 0.5, 0.7, 1.0)  # drawn from with equal chances
LENGTH_CLASSES = (256, 1024, 4096)  # tokens of a prompt; one long prompt must not widen all slots
MIN_RESPONSE_TOKENS = 4


@dataclass(frozen=True)
class Progress:
    """Where the job is. done and total count texts, those of earlier runs included.

    raw_tokens, response_tokens: made in this run so far, with and without the prompts.
    """

    stage: str
    done: int
    total: int
    raw_tokens: int = 0
    response_tokens: int = 0


Report = Callable[[Progress], None]


@dataclass
class Outcome:
    """What came out. Counts are conversations, but response tokens in `tokens` (by domain)."""

    train: int = 0
    held_out: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    finishes: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)


def make_data(
    target: TargetModel,
    out_folder: Path,
    *,
    target_name: str,
    count: int | None = None,
    prompts: Sequence[Prompt] | None = None,
    seed: int = 0,
    batch: int = 64,
    max_length: int = 330,
    holdout_share: float = 0.02,
    report: Report = lambda progress: None,
) -> Outcome:
    """Write `train.jsonl` and `heldout.jsonl` into `out_folder`; goes on where it was stopped.

    count       questions the target writes; needed when `prompts` is None.
    max_length  tokens of an answer at most.

    Raises DataError when the folder belongs to other arguments, the target cannot write
    questions, or nothing is left to train on.
    """
    asked = len(prompts) if prompts is not None else count
    if not asked:
        raise DataError("there is nothing to ask: give prompts, or how many to write")
    arguments = {
        "target": target_name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "prompts": _prompts_sha256(prompts) if prompts is not None else "written by the target",
        "count": asked,
        "seed": seed,
        "batch": batch,
        "max_length": max_length,
        "holdout_share": holdout_share,
    }
    with claim(out_folder, arguments, (TRAIN, HELD_OUT)):
        job = _Job(target, out_folder, seed, batch, max_length, report)
        questions = prompts if prompts is not None else job.questions(asked)
        kept = job.selected(questions)
        conversations = job.conversations(kept)
        return _write(out_folder, conversations, kept, holdout_share, job.outcome)


@dataclass
class _Job:
    target: TargetModel
    folder: Path
    seed: int
    batch: int
    max_length: int
    report: Report
    outcome: Outcome = field(default_factory=Outcome)

    def questions(self, count: int) -> list[Prompt | None]:
        """What the target asks, by index; None where nothing useful came."""
        prompter = SelfPrompter(self.target.tokenizer, self.target.end_of_sequence, self.seed)
        requests = [prompter.request(index) for index in range(count)]
        if max(len(r.ids) for r in requests) + MAX_QUESTION_TOKENS > self.target.context_limit:
            raise DataError(
                f"this target's context of {self.target.context_limit} tokens has no room for "
                f"questions of {MAX_QUESTION_TOKENS}; name prompt files"
            )
        journal = self._run("Questions", QUESTIONS, requests, prompter.ends)
        return [prompter.question(journal[index]) for index in range(count)]

    def selected(self, questions: Sequence[Prompt | None]) -> dict[int, Prompt]:
        """Questions that may be answered for training, by index."""
        samples = (preset.prompt for group in load_presets().values() for preset in group)
        evaluation, earlier = NearDuplicates(samples), NearDuplicates()
        kept = {}
        for index, prompt in enumerate(questions):
            if prompt is None:
                self.outcome.dropped["unusable questions"] += 1
            elif evaluation.holds(prompt.text):
                self.outcome.dropped["close to a sample prompt"] += 1
            elif earlier.holds(prompt.text):
                self.outcome.dropped["near-duplicates"] += 1
            else:
                earlier.add(prompt.text)
                kept[index] = prompt
        return kept

    def conversations(self, prompts: dict[int, Prompt]) -> dict[int, Conversation]:
        """The answered prompts, by index."""
        requests = self._answer_requests(prompts)
        journal = self._run("Answers", ANSWERS, requests, self.target.end_of_sequence)
        found = {}
        for request in requests:
            answer = journal[request.index]
            self.outcome.finishes[answer.finish] += 1
            if len(answer.tokens) < MIN_RESPONSE_TOKENS:
                self.outcome.dropped["answers that are too short"] += 1
                continue
            found[request.index] = Conversation(
                ids=request.ids + answer.tokens,
                response_start=len(request.ids),
                domain=prompts[request.index].domain,
                temperature=request.sampling.temperature,
                finish=answer.finish,
            )
        return found

    def _answer_requests(self, prompts: dict[int, Prompt]) -> list[Request]:
        ids = {}
        for index, prompt in prompts.items():
            try:
                tokens = encode_chat(self.target.tokenizer, prompt.text, prompt.system)
            except ValueError:  # the template knows no system role
                self.outcome.dropped["refused by the chat template"] += 1
                continue
            longest = min(LENGTH_CLASSES[-1], self.target.context_limit - self.max_length)
            if 0 < len(tokens) <= longest:
                ids[index] = tuple(tokens)
            else:
                self.outcome.dropped["prompts that are too long"] += 1
        shared = _shared_prefixes(prompts, ids)
        return [
            Request(
                index=index,
                ids=tokens,
                max_new_tokens=self.max_length,
                sampling=Sampling(self._temperature(index)),
                seed=f"{self.seed}/draws of answer/{index}",
                shared=shared[prompts[index].system],
            )
            for index, tokens in ids.items()
        ]

    def _temperature(self, index: int) -> float:
        return random.Random(f"{self.seed}/answer/{index}").choice(ANSWER_TEMPERATURES)

    def _run(
        self, stage: str, name: str, requests: Sequence[Request], ends: frozenset[int]
    ) -> dict[int, Completion]:
        """Completions of all requests, by index: those in the journal, then the others."""
        lengths = {request.index: len(request.ids) for request in requests}
        with closing(Journal(self.folder / name, self.target.vocab_size)) as journal:
            raw = response = 0
            self.report(Progress(stage, len(journal.completions), len(requests)))
            for completion in self._missing(requests, journal, ends):
                journal.add(completion)
                response += len(completion.tokens)
                raw += lengths[completion.index] + len(completion.tokens)
                done = len(journal.completions)
                self.report(Progress(stage, done, len(requests), raw, response))
            return journal.completions

    def _missing(
        self, requests: Sequence[Request], journal: Journal, ends: frozenset[int]
    ) -> Iterator[Completion]:
        """Completions that the journal lacks. Shapes follow from all requests, not from these."""
        for group in _by_length(requests):
            waiting = [r for r in group if r.index not in journal.completions]
            longest = max(len(r.ids) + r.max_new_tokens for r in group)
            slots = self._slots(longest, len(group))
            if waiting:
                yield from generate(self.target, waiting, slots=slots, capacity=longest, ends=ends)

    def _slots(self, capacity: int, waiting: int) -> int:
        """Fewer slots for longer texts, so that every length class takes the same memory."""
        usual = LENGTH_CLASSES[0] + max(self.max_length, MAX_QUESTION_TOKENS)
        return min(waiting, max(1, self.batch * min(usual, capacity) // capacity))


def _by_length(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """The requests of each length class that has any, in their order."""
    bounds = (0, *LENGTH_CLASSES)
    for least, most in itertools.pairwise(bounds):
        group = [request for request in requests if least < len(request.ids) <= most]
        if group:
            yield group


def _shared_prefixes(
    prompts: Mapping[int, Prompt], ids: Mapping[int, tuple[int, ...]]
) -> dict[str | None, int]:
    """By system message: how many leading ids all its prompts begin with."""
    groups: dict[str | None, list[tuple[int, ...]]] = {}
    for index, tokens in ids.items():
        groups.setdefault(prompts[index].system, []).append(tokens)
    return {
        # what the first and the last in sorted order share, all between them share
        system: common_length(min(group), max(group)) if len(group) > 1 else 0
        for system, group in groups.items()
    }


def _write(
    folder: Path,
    conversations: Mapping[int, Conversation],
    prompts: Mapping[int, Prompt],
    holdout_share: float,
    outcome: Outcome,
) -> Outcome:
    """Split by prompt and write both files. Raises DataError when there is nothing to train on."""
    lines: dict[bool, list[str]] = {False: [], True: []}
    for index in sorted(conversations):
        conversation = conversations[index]
        held_out = is_held_out(prompts[index].text, holdout_share)
        lines[held_out].append(to_line(conversation))
        outcome.tokens[conversation.domain] += conversation.response_tokens
    outcome.train, outcome.held_out = len(lines[False]), len(lines[True])
    if not outcome.train:
        reasons = ", ".join(f"{n} {reason}" for reason, n in outcome.dropped.items())
        raise DataError(
            f"nothing is left to train on ({reasons or 'all of it was held out'}); ask for more"
        )
    write_atomically(folder / HELD_OUT, "".join(lines[True]).encode())
    write_atomically(folder / TRAIN, "".join(lines[False]).encode())
    return outcome


def _prompts_sha256(prompts: Sequence[Prompt]) -> str:
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps(asdict(prompt), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()
