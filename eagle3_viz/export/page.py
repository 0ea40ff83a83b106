"""A trace as one web page that needs no server and no network, with scrubber and inspector.

The page is the component of the Trace page with the trace packed beside it. A content security
policy lets exactly the script and the style sheet written here run, by their hashes, and fetches
nothing; the trace itself is data in base64, the name escaped text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from string import Template

from eagle3_viz.plain_text import one_line
from eagle3_viz.trace import Trace

FOLDER = Path(__file__).parent
NAME_LIMIT = 120  # characters of the name in the title


def html_file(trace: Trace, *, name: str) -> str:
    """The page, to be saved as UTF-8; `name` is its title.

    `#cycle=3&node=5` in its address shows that cycle, counted from 1, and that node.
    """
    # Here, because the view brings Streamlit: the other forms and their commands do without it.
    from eagle3_viz.component.packed import packed_trace
    from eagle3_viz.component.trace_view import trace_bundle, trace_styles

    style = f"{trace_styles()}\n{_asset('page.css')}"
    script = f"{_without_export(trace_bundle())}\n{{\n{_asset('page.js')}}}\n"
    data = json.dumps({"packed": packed_trace(trace, name=name)})
    return Template(_asset("page.html")).substitute(
        policy=_policy(script, style),
        title=html.escape(one_line(name, NAME_LIMIT)),
        style=style,
        script=script,
        data=data.replace("<", "\\u003c"),
    )


def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _without_export(module: str) -> str:
    """The view's module with its default export as a function that what follows can call."""
    head, keyword, function = module.partition("export default ")
    if not keyword:
        raise ValueError("the view's script has no default export to put on a page")
    return head + function


def _policy(script: str, style: str) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(content: str) -> str:
    """The hash by which a content security policy names an inline script or style."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
