"""`decode`: one prompt, its text while it comes, its numbers afterwards."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eagle3_viz.cli import default_tree
from eagle3_viz.cli.failure import INTERRUPTED, Failure, as_failure
from eagle3_viz.cli.new_file import refuse_other_ending, refuse_unless_new
from eagle3_viz.cli.pair_loading import load
from eagle3_viz.cli.progress import reporting
from eagle3_viz.cli.report import comparison
from eagle3_viz.cli.sharing import shareable
from eagle3_viz.cli.terminal import GREEN, VIOLET, TokenStream, aligned, painted, uses_colour
from eagle3_viz.config import DecodeConfig, Method
from eagle3_viz.drafts.adversarial import LeastLikelyDraft, RandomDraft
from eagle3_viz.metrics import summary
from eagle3_viz.pairs import LoadedPair, PairError
from eagle3_viz.records import Origin
from eagle3_viz.run import run, with_baseline
from eagle3_viz.trace import Baseline, Trace
from eagle3_viz.trace_file import save
from eagle3_viz.trace_words import circumstances, measured
from eagle3_viz.wording import counted

MAX_PROMPT_BYTES = 1_000_000
WARM_UP = 8  # tokens decoded before a comparison, so that neither side pays for a cold start


def decode(args: argparse.Namespace) -> int:
    """Run the checked options of `arguments.parse`; returns the exit status."""
    prompt = read_prompt() if args.prompt == "-" else args.prompt
    if not prompt.strip():
        raise Failure("the prompt is empty: say what to decode")
    if args.trace is not None:
        refuse_unless_new("--trace", args.trace)
        refuse_other_ending("--trace", args.trace, ".parquet")
    errors = (PairError, ValueError, ArithmeticError, RuntimeError, OSError)
    with as_failure(*errors):
        session = _Session(default_tree.settle(load(args), args), prompt, args)
        return session.decode()


def read_prompt() -> str:
    """Standard input as a prompt, without the line break at its end. Raises Failure."""
    data = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
    if len(data) > MAX_PROMPT_BYTES:
        raise Failure(f"the prompt on standard input has more than {MAX_PROMPT_BYTES} bytes")
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise Failure(
            f"the prompt on standard input is not UTF-8 (byte {error.start + 1}): convert it first"
        ) from error


def with_draft_kind(pair: LoadedPair, method: Method, kind: str, seed: int) -> LoadedPair:
    """The pair with the draft of `method` bad on purpose, and a provenance that says so."""
    draft = pair.draft(method)
    if kind == "trained" or draft is None:
        return pair
    try:
        bad = RandomDraft(draft, seed) if kind == "random" else LeastLikelyDraft(draft)
    except ValueError as error:
        raise Failure(f"--draft-kind {kind}: {error}") from error
    return pair.with_draft(method, bad, kind)


@dataclass
class _Session:
    """One run and what belongs to it: the text on the screen, the comparison, the file."""

    pair: LoadedPair
    prompt: str
    args: argparse.Namespace
    trace: Trace | None = None
    ar: Trace | None = None

    def decode(self) -> int:
        interrupted = False
        try:
            self._stream()
            if self.args.compare:
                self._compare()
        except KeyboardInterrupt:
            interrupted = True
        finally:  # whatever ended the run, what was decoded is worth keeping
            unsaved = self._save()
            self._report(unsaved)
        if unsaved is not None:
            raise Failure(unsaved)
        return INTERRUPTED if interrupted else 0

    def _stream(self) -> None:
        config: DecodeConfig = self.args.config
        if self.args.compare:
            self._run_quietly(replace(config, max_new_tokens=WARM_UP), "Warming up")
        pair = with_draft_kind(self.pair, config.method, self.args.draft_kind, config.seed)
        stream = TokenStream(sys.stdout, uses_colour(sys.stdout))
        try:
            for trace in run(pair, self.prompt, config, system=self.args.system):
                self.trace = trace
                stream.write(latest(trace))
        finally:
            stream.close()

    def _compare(self) -> None:
        """Autoregression on the same prompt; becomes the baseline of the trace."""
        config = replace(self.args.config, method="ar", record="off")
        ar = self._run_quietly(config, "Autoregression on the same prompt")
        took = summary(ar).ms_per_token
        if took is not None and self.trace is not None:
            threads = counted(ar.header.threads, "thread")
            how = (
                f"mean of {len(ar.cycles)} one-token steps on the same prompt and settings, "
                f"{ar.header.dtype}, {threads}, through the same target forward"
            )
            with_baseline(self.trace, Baseline(took, len(ar.cycles), ar.header.started_at, how))
        self.ar = ar

    def _run_quietly(self, config: DecodeConfig, stage: str) -> Trace:
        with reporting(sys.stderr) as progress:
            progress(stage, 0, config.max_new_tokens)
            for trace in run(self.pair, self.prompt, config, system=self.args.system):
                progress(stage, len(trace.cycles) + 1, config.max_new_tokens)
        return trace

    def _save(self) -> str | None:
        """Save where --trace asks for it; returns what went wrong, as the run's numbers still
        have to be shown."""
        path, trace = self.args.trace, self.trace
        if path is None or trace is None:
            return None
        trace.header = replace(trace.header, argv=shared_command(self.args))
        try:
            save(trace, path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"the trace could not be saved as {path}: {reason}"
        return None

    def _report(self, unsaved: str | None) -> None:
        if self.trace is None:
            return
        chosen = default_tree.rows(self.pair, self.args)
        rows = [*circumstances(self.trace), *chosen, *measured(self.trace)]
        if self.args.trace is not None:
            rows.append(("trace", unsaved or f"saved as {self.args.trace}"))
        print(file=sys.stderr)
        if uses_colour(sys.stdout) and self.args.method != "ar":
            print(legend(uses_colour(sys.stderr)), file=sys.stderr)
        print(aligned(rows, sys.stderr), file=sys.stderr)
        if self.ar is not None:
            print("", *comparison(self.trace, self.ar), sep="\n", file=sys.stderr)


def latest(trace: Trace) -> Sequence[tuple[bytes, Origin]]:
    """The tokens of the newest record, as bytes with origin; the end of sequence is no text."""
    if trace.cycles:
        tokens, origins = trace.cycles[-1].tokens, trace.cycles[-1].origins
    else:
        tokens, origins = trace.tokens, trace.origins
    if trace.finish == "eos":
        tokens = tokens[:-1]
    return [(trace.token_bytes[t], origin) for t, origin in zip(tokens, origins, strict=False)]


def legend(colour: bool) -> str:
    """What the colours of the text mean."""
    return (
        f"{painted('green', GREEN, colour)}: drafted and accepted, "
        f"{painted('violet', VIOLET, colour)}: decided by the target"
    )


def shared_command(args: argparse.Namespace) -> tuple[str, ...]:
    """The command line with folders of this machine cut off."""
    places = [str(args.trace)] if args.trace is not None else []
    places += [half for half in (args.target, *args.draft) if half and is_folder(half)]
    short = {place: Path(place).name for place in places}
    return shareable(args.argv, lambda argument: short.get(argument, argument))


def is_folder(location: str) -> bool:
    """Whether a target or draft was given as a folder rather than as a hub id."""
    return Path(location).expanduser().is_dir()
