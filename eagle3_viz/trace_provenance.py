"""Everything of a trace that is not a cycle, as JSON: header, prefill, token bytes.

Reading is strict: a missing field, an unknown one or one of the wrong type is refused, since the
pages rely on the types the dataclasses declare.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from eagle3_viz.records import Prefill
from eagle3_viz.trace import Header, Trace
from eagle3_viz.wording import json_kind

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def dumps(trace: Trace) -> str:
    """Header, prefill and token bytes of `trace`. Raises TypeError when `config` is not JSON."""
    return json.dumps(to_json(trace), ensure_ascii=False, allow_nan=False)


def to_json(trace: Trace) -> dict[str, Any]:
    """The same as values of JSON."""
    return {
        "header": asdict(trace.header),
        "prefill": None if trace.prefill is None else asdict(trace.prefill),
        "token_bytes": {
            str(token): base64.b64encode(data).decode("ascii")
            for token, data in trace.token_bytes.items()
        },
    }


def loads(text: str) -> Trace:
    """A trace without cycles. Raises ValueError naming the field that is wrong."""
    return from_json(parsed(text, "provenance"))


def from_json(data: Any) -> Trace:
    """The trace without cycles of what `parsed` returned. Raises ValueError naming the field."""
    parts = _members(data, {"header", "prefill", "token_bytes"}, "provenance")
    return Trace(
        header=_typed(Header, parts["header"], "header"),
        prefill=_typed(Prefill | None, parts["prefill"], "prefill"),
        token_bytes=_token_bytes(parts["token_bytes"]),
    )


def parsed(text: str, what: str) -> Any:
    """The values of a JSON text, strictly: no NaN or Infinity, no half of a surrogate pair.

    Raises ValueError with `what` it was the text of.
    """

    def refused(constant: str) -> Any:
        raise ValueError(f"the {what} holds {constant}, which is no JSON")

    try:
        data = json.loads(text, parse_constant=refused)
        # An escape can spell a half that no file and no page can hold.
        if _SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError(f"the {what} JSON is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"the {what} holds half a surrogate pair, which is no text") from error
    return data


def _token_bytes(data: Any) -> dict[int, bytes]:
    encoded = _typed(Mapping[str, str], data, "token_bytes")
    try:
        return {int(k): base64.b64decode(v, validate=True) for k, v in encoded.items()}
    except (binascii.Error, ValueError) as error:
        raise ValueError("token_bytes: expected base64 by token id, found no such") from error


def _members(data: Any, names: set[str], where: str) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != names:
        found = sorted(data) if isinstance(data, dict) else json_kind(data)
        raise ValueError(f"{where}: expected the fields {sorted(names)}, found {found}")
    return data


def _typed(kind: Any, data: Any, where: str) -> Any:
    """`data` as the declared type `kind`: a dataclass, tuple, mapping, literal, union or scalar."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        names = {f.name for f in fields(kind)}
        members = _members(data, names, where)
        return kind(**{n: _typed(hints[n], v, f"{where}.{n}") for n, v in members.items()})
    if origin in (Union, UnionType):
        if data is None and type(None) in arguments:
            return None
        (kind,) = (a for a in arguments if a is not type(None))
        return _typed(kind, data, where)
    if origin is tuple and isinstance(data, list):
        return tuple(_typed(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if origin is Mapping and isinstance(data, dict):
        return {key: _typed(arguments[1], value, f"{where}.{key}") for key, value in data.items()}
    if origin is Literal and data in arguments:
        return data
    if kind is object or (origin is None and type(data) is kind):
        return data
    if kind is float and type(data) is int and abs(data) < 2**53:
        return float(data)
    raise ValueError(f"{where}: expected {_kind_words(kind)}, found {json_kind(data)}")


def _kind_words(kind: Any) -> str:
    """What JSON holds for a declared type."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    plain = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return plain.get(kind) or ("a list" if get_origin(kind) is tuple else "an object")
