"""What the target computes on the training text, kept on disk: taps, final states, arg-maxima.

Recomputing a position costs about as much as training on it once, reading it back costs 4.6 KB
of disk for a 135M target; so every position is computed once. Shards are written one by one under a
temporary name and renamed, so that an interrupted extraction goes on where it stopped.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from eagle3_viz.files import flush, tensors_written, write_atomically
from eagle3_viz.target import TargetModel
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import Conversation, fingerprint

SHARD_SIZE = 256  # conversations
BATCH_TOKENS = 2048  # of one target forward, padding included
HEAD_ROWS = 256  # of one LM head product: bounds its logits
MANIFEST = "features.json"

Report = Callable[[int, int], None]  # (conversations done, of all)


@dataclass(frozen=True)
class Manifest:
    """What a folder of shards belongs to; another target or other text gets another folder."""

    data_sha256: str
    target: str
    conversations: int
    positions: int
    boundaries: tuple[int, ...]
    hidden_size: int
    dtype: str
    seed: int


@dataclass(frozen=True)
class Example:
    """One conversation with the target's view of it; n tokens, taps K, width d.

    ids       int64 [n].
    taps      bf16 [n, K * d], residual streams at the manifest's boundaries.
    hidden    bf16 [n, d], final hidden states after the final norm.
    top       int64 [n], the target's arg-max for the token after; -1 before the response.
    """

    ids: torch.Tensor
    taps: torch.Tensor
    hidden: torch.Tensor
    top: torch.Tensor
    response_start: int
    domain: str


def bytes_needed(conversations: Sequence[Conversation], target: TargetModel) -> int:
    """Disk that `extract` will fill."""
    width = (len(target.taps.boundaries) + 1) * target.hidden_size
    return sum(len(c.ids) for c in conversations) * (width * 2 + 8)


def extract(
    target: TargetModel,
    conversations: Sequence[Conversation],
    folder: Path,
    *,
    target_name: str,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
    report: Report = lambda done, total: None,
) -> None:
    """Run `target` over all conversations, shuffled by `seed`, into shards in `folder`.

    Every shard is a random sample, so the first few are a smaller training set. share (i, n) makes
    every n-th shard, the i-th of n processes. Raises DataError when `folder` holds features of
    something else, or when a text is longer than the target's context.
    """
    longest = max((len(c.ids) for c in conversations), default=0)
    if not 0 < longest <= target.context_limit:
        raise DataError(
            f"the longest of {len(conversations)} conversations has {longest} tokens; this target "
            f"takes 1 to {target.context_limit}"
        )
    manifest = Manifest(
        data_sha256=fingerprint(conversations),
        target=target_name,
        conversations=len(conversations),
        positions=sum(len(c.ids) for c in conversations),
        boundaries=target.taps.boundaries,
        hidden_size=target.hidden_size,
        dtype=str(target.dtype).removeprefix("torch."),
        seed=seed,
    )
    _claim(folder, manifest)
    order = list(range(len(conversations)))
    random.Random(seed).shuffle(order)
    shards = [order[first : first + SHARD_SIZE] for first in range(0, len(order), SHARD_SIZE)]
    mine = range(share[0], len(shards), share[1])
    total = sum(len(shards[index]) for index in mine)
    done = 0
    for index in mine:
        path = _shard_path(folder, index)
        lock = path.with_suffix(".lock")
        with FileLock(lock):  # another job may be at the same shard
            if not path.exists():
                _write_shard(target, [conversations[i] for i in shards[index]], path)
            lock.unlink(missing_ok=True)
        done += len(shards[index])
        report(done, total)


class FeatureStore:
    """Random access to the examples of the shards that are there; tensors are memory-mapped."""

    def __init__(self, folder: Path) -> None:
        """Raises DataError when `folder` holds no features or a damaged shard."""
        self.manifest = read_manifest(folder)
        self._shards: list[_Shard] = []
        self._places: list[tuple[int, int]] = []
        while (path := _shard_path(folder, len(self._shards))).exists():
            shard = _Shard(path)
            self._places += [(len(self._shards), i) for i in range(len(shard))]
            self._shards.append(shard)
        if not self._places:
            raise DataError(f"{folder} holds no features yet")

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Example:
        shard, place = self._places[index]
        return self._shards[shard].example(place)

    def lengths(self) -> list[tuple[int, int]]:
        """(tokens, response_start) of each example."""
        return [pair for shard in self._shards for pair in shard.lengths()]

    def domain(self, index: int) -> str:
        """Domain of an example, without reading it."""
        shard, place = self._places[index]
        return self._shards[shard].domains[place]

    @property
    def complete(self) -> bool:
        """Whether all conversations of the manifest are there."""
        return len(self) == self.manifest.conversations


class _Shard:
    def __init__(self, path: Path) -> None:
        try:
            self._file = safe_open(path, framework="pt")
            self._starts: list[int] = self._file.get_tensor("starts").tolist()
            self._responses: list[int] = self._file.get_tensor("response_starts").tolist()
            self.domains: list[str] = json.loads(self._file.metadata()["domains"])
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path} is damaged or of another version ({error}); delete it and make it again"
            ) from None

    def __len__(self) -> int:
        return len(self._responses)

    def lengths(self) -> Iterator[tuple[int, int]]:
        for first, end, response in zip(
            self._starts, self._starts[1:], self._responses, strict=False
        ):
            yield end - first, response

    def example(self, index: int) -> Example:
        rows = slice(self._starts[index], self._starts[index + 1])
        parts = {name: self._file.get_slice(name)[rows] for name in _ROWS}
        return Example(
            ids=parts["ids"].long(),
            taps=parts["taps"],
            hidden=parts["hidden"],
            top=parts["top"].long(),
            response_start=self._responses[index],
            domain=self.domains[index],
        )


_ROWS = ("ids", "taps", "hidden", "top")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of `folder`. Raises DataError when there is none that can be read."""
    path = folder / MANIFEST
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        record["boundaries"] = tuple(record["boundaries"])
        return Manifest(**record)
    except FileNotFoundError:
        raise DataError(f"{folder} holds no {MANIFEST}; make features first") from None
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path} is not a manifest that this version wrote") from None


def _claim(folder: Path, manifest: Manifest) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        found = read_manifest(folder)
        if found != manifest:
            names = [n for n, value in asdict(manifest).items() if getattr(found, n) != value]
            raise DataError(
                f"{folder} holds features of something else ({', '.join(names)} differ); name "
                "another folder or delete this one"
            )
        return
    write_atomically(folder / MANIFEST, json.dumps(asdict(manifest), indent=1).encode())


def _shard_path(folder: Path, index: int) -> Path:
    return folder / f"shard-{index:05d}.safetensors"


def _write_shard(target: TargetModel, chosen: list[Conversation], path: Path) -> None:
    by_length = sorted(chosen, key=lambda c: len(c.ids))
    parts = [part for batch in _batches(by_length) for part in _read(target, batch)]
    lengths = torch.tensor([len(c.ids) for c in by_length])
    tensors = {
        "ids": torch.tensor([i for c in by_length for i in c.ids], dtype=torch.int32),
        "taps": torch.cat([taps for taps, _, _ in parts]),
        "hidden": torch.cat([hidden for _, hidden, _ in parts]),
        "top": torch.cat([top for _, _, top in parts]),
        "starts": torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]),
        "response_starts": torch.tensor([c.response_start for c in by_length]),
    }
    partial = path.with_suffix(".partial")
    with tensors_written(path):
        save_file(tensors, partial, {"domains": json.dumps([c.domain for c in by_length])})
    flush(partial)
    partial.replace(path)


def _batches(by_length: Sequence[Conversation]) -> Iterator[list[Conversation]]:
    """Runs of conversations that fill BATCH_TOKENS, padding included."""
    batch: list[Conversation] = []
    for conversation in by_length:
        if batch and (len(batch) + 1) * len(conversation.ids) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(conversation)
    if batch:
        yield batch


def _read(
    target: TargetModel, batch: list[Conversation]
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Taps, final hidden states and arg-maxima of each conversation, in bf16 on the CPU."""
    ids = torch.zeros(len(batch), max(len(c.ids) for c in batch), dtype=torch.int64)
    for row, conversation in enumerate(batch):
        ids[row, : len(conversation.ids)] = torch.tensor(conversation.ids)
    taps, hidden = target.read(ids)
    for row, conversation in enumerate(batch):
        n, start = len(conversation.ids), conversation.response_start
        top = torch.full((n,), -1, dtype=torch.int32)
        top[start:] = _arg_max(target, hidden[row, start:n])
        yield (
            taps[row, :n].to("cpu", torch.bfloat16),
            hidden[row, :n].to("cpu", torch.bfloat16),
            top,
        )


@torch.inference_mode()
def _arg_max(target: TargetModel, hidden: torch.Tensor) -> torch.Tensor:
    """The target's next token [m], int32, after each of the states [m, d]."""
    head = target.model.get_output_embeddings()
    rows = [head(part).float().max(-1).indices for part in hidden.split(HEAD_ROWS)]
    return torch.cat(rows).to("cpu", torch.int32)
