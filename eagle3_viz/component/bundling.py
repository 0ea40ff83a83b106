"""One ES module and one style sheet out of the asset files of a component.

Every script keeps a scope of its own, so that two of them may use the same private name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def bundle(entry: str) -> str:
    """One module out of a script and all that it imports; the script's default export is kept."""
    *below, last = scripts(entry)
    return "\n".join([*map(_scoped, below), _EXPORT.sub("", _linked(last))])


def scripts(entry: str) -> list[str]:
    """File names of a script and all that it imports, dependencies first."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        for _, stem in _IMPORT.findall(_read(name)):
            visit(f"{stem}.js")
        order.append(name)

    visit(entry)
    return order


def styles(sheets: Sequence[str]) -> str:
    """The style sheets, joined."""
    return "\n".join(map(_read, sheets))


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _scoped(name: str) -> str:
    """A script inside a function that returns what the script exports."""
    source = _linked(name)
    exported = ", ".join(_EXPORT.findall(source))
    body = _EXPORT.sub("", source)
    return f"const {_scope(Path(name).stem)} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


def _linked(name: str) -> str:
    """A script that takes what it imports from the scopes before it."""
    return _IMPORT.sub(
        lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = {_scope(found[2])};\n",
        _read(name),
    )


def _scope(stem: str) -> str:
    return f"{stem}_module"
