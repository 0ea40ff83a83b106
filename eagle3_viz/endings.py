"""When a text ends, and how much of the last cycle still belongs to it."""

from __future__ import annotations

from collections.abc import Sequence

from eagle3_viz.config import DecodeConfig
from eagle3_viz.records import Finish


class Endings:
    """Admits committed tokens until the text ends; nothing after an end is admitted.

    The text ends with an end-of-sequence id, with the token that completes a stop string, at
    max_new_tokens exactly, or where the context is full.
    """

    def __init__(
        self,
        end_of_sequence: frozenset[int],
        context_limit: int,
        config: DecodeConfig,
        token_bytes: Sequence[bytes],
    ) -> None:
        if config.stop and not token_bytes:
            raise ValueError("stop strings need the bytes of every token (token_bytes)")
        self._end_of_sequence = end_of_sequence
        self._context_limit = context_limit
        self._remaining = config.max_new_tokens
        self._stops = tuple(stop.encode() for stop in config.stop)
        self._longest = max((len(stop) for stop in self._stops), default=0)
        self._token_bytes = token_bytes
        self._tail = b""

    def admit(self, tokens: Sequence[int], cached: int) -> tuple[int, Finish | None]:
        """How many of `tokens` belong to the text, and why it ends there, if it does.

        cached: tokens in the target's cache now; the last of `tokens` would be fed at that
        position next.
        """
        for count, token in enumerate(tokens, start=1):
            self._remaining -= 1
            if token in self._end_of_sequence:
                return count, "eos"
            if self._completes_stop(token):
                return count, "stop"
            if self._remaining == 0:
                return count, "length"
        return len(tokens), "context" if cached >= self._context_limit else None

    def _completes_stop(self, token: int) -> bool:
        if not self._stops:
            return False
        if token < len(self._token_bytes):  # padding rows of the embedding have no bytes
            self._tail += self._token_bytes[token]
        found = any(stop in self._tail for stop in self._stops)
        self._tail = self._tail[-self._longest :]
        return found
