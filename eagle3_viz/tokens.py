"""Tokens as bytes, and bytes as labels in which nothing is invisible."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SIGNS = {" ": "·", "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "␣", "\u007f": "␡"}
# Default-ignorable or blank, yet in categories that are otherwise drawn.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")
_UNSEEN_CATEGORIES = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")

REMEMBERED_BYTES = 64  # of a token whose label is kept


def token_bytes(tokenizer: Any) -> list[bytes]:
    """The bytes each token id adds to the text, indexed by id, for a transformers fast tokenizer.

    Byte-level and sentencepiece-style vocabularies are told apart by the tokenizer's own decoder.
    Special tokens are their name; ids without a token are empty. The space that sentencepiece
    puts before the first word is kept, as the bytes of its token.

    Raises TypeError for a tokenizer without a `tokenizers` backend, ValueError for a decoder that
    does not map tokens to bytes one by one.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise TypeError(
            f"expected a transformers fast tokenizer, found {type(tokenizer).__name__} without "
            "backend_tokenizer; load it with AutoTokenizer"
        )
    convert = _converter(backend)
    added = backend.get_added_tokens_decoder()
    vocabulary: Mapping[str, int] = backend.get_vocab(with_added_tokens=True)
    table = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for token, index in vocabulary.items():
        table[index] = convert(token, added.get(index))
    return table


def _converter(backend: Any) -> Callable[[str, Any], bytes]:
    """How one token of `backend` becomes bytes, given its added-token entry or None."""
    steps = [*_steps(backend.decoder)] or [*_steps(backend.pre_tokenizer)]
    kinds = [step["type"] for step in steps]
    if "ByteLevel" in kinds:
        return lambda token, added: token.encode("utf-8") if added else _from_byte_level(token)
    spaces = [sign for step in steps if (sign := _space_sign(step))]
    if not spaces:
        raise ValueError(
            f"no rule for a tokenizer with decoder {kinds or 'absent'}: expected ByteLevel, "
            "Metaspace or Replace; choose a byte-level or sentencepiece-style tokenizer"
        )
    byte_fallback = "ByteFallback" in kinds

    def convert(token: str, added: Any) -> bytes:
        # Gemma lists runs of the space sign as added tokens that are not special.
        if added and added.special:
            return token.encode("utf-8")
        return _from_sentencepiece(token, spaces[0], byte_fallback)

    return convert


def _steps(component: Any) -> Iterator[dict[str, Any]]:
    """The parts of a decoder or pre-tokenizer, sequences flattened."""
    if component is None:
        return
    queue = [json.loads(component.__getstate__())]
    while queue:
        step = queue.pop(0)
        parts = step.get("decoders") or step.get("pretokenizers")
        if parts:
            queue = [*parts, *queue]
        else:
            yield step


def _space_sign(step: Mapping[str, Any]) -> str | None:
    """The text by which a step stands for a space, None for a step that does not."""
    if step["type"] == "Metaspace":
        return str(step["replacement"])
    if step["type"] == "Replace" and step["content"] == " ":
        return step["pattern"].get("String")
    return None


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's stand-in character of every byte: itself if printable, else U+0100 and up in turn."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(hidden)}


_ALPHABET = _byte_level_alphabet()


def _from_byte_level(token: str) -> bytes:
    return bytes(_ALPHABET[character] for character in token)


def _from_sentencepiece(token: str, space: str, byte_fallback: bool) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(token) if byte_fallback else None
    if byte:
        return bytes([int(byte[1], 16)])
    return token.replace(space, " ").encode("utf-8")


def visible(data: bytes) -> str:
    """A label for `data` with every byte visible, e.g. `·the` for b" the" and `∅` for b"".

    Characters without a shape of their own become `⟨U+202E⟩`, bytes that are no UTF-8 `‹F0 9F›`,
    and a leading combining mark gets a dotted circle to sit on.
    """
    return _remembered(data) if len(data) <= REMEMBERED_BYTES else _visible(data)


def _visible(data: bytes) -> str:
    if not data:
        return "∅"
    text = data.decode("utf-8", "surrogateescape")
    parts = []
    for broken, run in groupby(text, lambda c: "\udc80" <= c <= "\udcff"):
        if broken:
            parts.append("‹" + " ".join(f"{ord(c) - 0xDC00:02X}" for c in run) + "›")
        else:
            parts.append(_label("".join(run)))
    return "".join(parts)


_remembered = lru_cache(maxsize=8192)(_visible)  # a page names the same few tokens again and again


def _label(text: str) -> str:
    carrier = "◌" if unicodedata.category(text[0]) in ("Mn", "Mc", "Me") else ""
    label = "".join(_sign(character) for character in text)
    return label if label.startswith("⟨") else carrier + label


def _sign(character: str) -> str:
    code = ord(character)
    if character in _SIGNS:
        return _SIGNS[character]
    if code < 0x20:
        return chr(0x2400 + code)
    unseen = unicodedata.category(character) in _UNSEEN_CATEGORIES
    if unseen or 0xE0000 <= code <= 0xE0FFF or _BLANK.match(character):
        return f"⟨U+{code:04X}⟩"
    return character


def split_utf8(pieces: Sequence[bytes]) -> list[tuple[int, int, str]]:
    """Cut a sequence of tokens into the smallest groups that hold whole characters.

    Returns (start, end, label) with `pieces[start:end]` joined under the label `visible` gives
    them. Groups cover all pieces in order; most have one. Bytes that no later piece completes
    stay as they are.
    """
    groups = []
    start = 0
    while start < len(pieces):
        end, data = start + 1, pieces[start]
        while end < len(pieces) and _continues(_open_character(data), pieces[end]):
            data += pieces[end]
            end += 1
        groups.append((start, end, visible(data)))
        start = end
    return groups


def _open_character(data: bytes) -> bytes:
    """The bytes at the end of `data` that begin a UTF-8 character and do not complete it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return decoder.getstate()[0]


def _continues(pending: bytes, piece: bytes) -> bool:
    if not pending or not piece:
        return False
    with_next = pending + piece[:1]
    if _open_character(with_next) == with_next:
        return True
    try:
        with_next.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
