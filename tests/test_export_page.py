"""The one-file page: its policy names exactly what is on it, and nothing on it can end early."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from html.parser import HTMLParser

import pytest

from eagle3_viz.config import METHODS, Method, TreeShape
from eagle3_viz.export import html_file
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

HOSTILE_NAMES = (
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>\u2028\u2029",
    "a\u202egnp.exe",
    "$data ${data} $$ %s {0}",
    "<!--",
    "&lt;b&gt; & &#60;",
    "x" * 5000,
)


class Parts(HTMLParser):
    """Elements of a page and the text each begins with, as a browser's parser splits them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data

    def text(self, tag: str, **attributes: str) -> str:
        found = [
            text
            for (name, given), text in zip(self.elements, self.texts, strict=True)
            if name == tag and attributes.items() <= given.items()
        ]
        assert len(found) == 1, (tag, attributes, len(found))
        return found[0]

    @property
    def policy(self) -> str:
        (content,) = (
            given["content"]
            for name, given in self.elements
            if name == "meta" and given.get("http-equiv") == "Content-Security-Policy"
        )
        assert content is not None
        return content


def parts(trace: Trace, name: str = "a run") -> Parts:
    return Parts(html_file(trace, name=name))


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else() -> None:
    page = parts(make_trace(cycles=2))
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'{hash_of(page.text('script', type='module'))}'",
        "style-src": f"'{hash_of(page.text('style'))}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_policy_stands_before_everything_it_governs() -> None:
    tags = [tag for tag, _ in parts(make_trace(cycles=1)).elements]
    assert tags.index("meta") < min(tags.index("style"), tags.index("script"))
    page = html_file(make_trace(cycles=1), name="a")
    assert page.index("Content-Security-Policy") < page.index("<title>")


def test_nothing_on_the_page_points_anywhere() -> None:
    page = parts(make_trace(cycles=2))
    for tag, attributes in page.elements:
        assert not {"src", "href", "srcset", "action", "style"} & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes)
    style = page.text("style")
    assert "@import" not in style
    assert "url(" not in style


def test_the_script_cannot_end_before_its_end() -> None:
    page = parts(make_trace(cycles=2))
    for kind in ("module", "application/json"):
        text = page.text("script", type=kind).lower()
        assert "</script" not in text
        assert "<!--" not in text
    assert "</style" not in page.text("style").lower()
    assert page.text("script", type="module").endswith("show();\n}\n")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_the_title_and_nothing_else(name: str) -> None:
    plain, named = parts(make_trace(cycles=2)), parts(make_trace(cycles=2), name)
    assert [tag for tag, _ in named.elements] == [tag for tag, _ in plain.elements]
    title = named.text("title").strip()
    assert title == named.text("h1").strip()
    assert len(title) <= 140
    assert not set("\u202e\u2028\u2029") & set(title)
    if len(name) < 100 and name.isascii():
        assert title == name
    assert named.text("script", type="module") == plain.text("script", type="module")
    json.loads(named.text("script", type="application/json"))


@pytest.mark.parametrize("method", METHODS)
def test_the_page_carries_the_whole_trace(method: Method) -> None:
    trace = make_trace(cycles=5, method=method)
    packed = json.loads(parts(trace).text("script", type="application/json"))["packed"]
    inside = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(inside["cycles"]) == 5


def test_the_trace_on_the_page_is_ascii_whatever_its_tokens() -> None:
    page = parts(make_trace(cycles=3, rule="topk"))
    assert page.text("script", type="application/json").isascii()
    assert ("meta", {"charset": "utf-8"}) in page.elements


def test_sixty_four_cycles_are_a_small_file() -> None:
    page = html_file(make_trace(cycles=64, rule="topk", shape=TreeShape(26, 5, 8)), name="a")
    assert len(page.encode()) < 400_000
