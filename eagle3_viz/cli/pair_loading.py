"""What a command's options name, loaded: a pair, or a target alone."""

from __future__ import annotations

import argparse
import sys
from typing import Any, TextIO

import torch

from eagle3_viz.cli.failure import Failure
from eagle3_viz.cli.progress import reporting
from eagle3_viz.pair_specs import EMBEDDED, find_spec
from eagle3_viz.pairs import LoadedPair, load_pair
from eagle3_viz.trace import ModelSource


def load(args: argparse.Namespace) -> LoadedPair:
    """The pair of `pair_arguments.add_models`'s options. Raises Failure or PairError."""
    which = {"name": args.pair, "target": args.target, "drafts": args.draft}
    return _loaded(args, sys.stderr, None, which)


def load_target(
    args: argparse.Namespace, stream: TextIO, place: torch.device | None = None
) -> LoadedPair:
    """The target of `train_arguments.add_target`'s options, without a draft; progress on `stream`.

    It goes to `place`, or where the options say. Raises Failure or PairError.
    """
    location = args.target or (find_spec(args.pair).target if args.pair else EMBEDDED)
    return _loaded(args, stream, place, {"target": location})


def _loaded(
    args: argparse.Namespace, stream: TextIO, place: torch.device | None, which: dict[str, Any]
) -> LoadedPair:
    if args.device and args.device.startswith("cuda") and not torch.cuda.is_available():
        raise Failure(f"--device {args.device}: torch finds no CUDA device here, use --device cpu")
    with reporting(stream) as progress:
        return load_pair(
            **which,
            dtype=getattr(torch, args.dtype) if args.dtype else None,
            device=place or (torch.device(args.device) if args.device else None),
            progress=progress,
            trust_remote_code=args.trust_remote_code,
        )


def target_version(source: ModelSource) -> str:
    """A name that tells the target from others and from other versions of itself."""
    return f"{source.name} {source.revision or source.sha256[:16]}".strip()
