"""The Trace page in a real Chromium: scrubs, picks, plays the walk, zooms, shows text as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from eagle3_viz.accept_walk import walk_steps
from eagle3_viz.component import node_sentence
from eagle3_viz.config import TreeShape
from eagle3_viz.cycle_view import STATES
from eagle3_viz.library.store import Library
from eagle3_viz.records import Cycle, NodeState
from eagle3_viz.trace import Trace
from tests.browser.conftest import ROOT, Tab, serving
from tests.synthetic import make_trace

pytestmark = pytest.mark.browser

NAME = '<img src=x onerror=alert(1)> **bold** $x$ "><script>alert(2)</script>'
HOSTILE = ("<script>alert(1)</script>", '"><img', "**bold**", "[link](")


def is_trouble(message: ConsoleMessage) -> bool:
    """An error, other than Streamlit's own search for its server below a page's address."""
    return message.type == "error" and "/trace/_stcore/" not in message.location["url"]


@dataclass
class Shown:
    """The page of one trace, and the view on it."""

    page: Page

    @property
    def view(self) -> Locator:
        return Tab(self.page).key("trace_component")

    @property
    def slider(self) -> Locator:
        return self.view.get_by_role("slider", name="Cycle")

    @property
    def inspector(self) -> Locator:
        return self.view.get_by_role("complementary", name="Inspector")

    def node(self, node: int) -> Locator:
        return self.view.locator(f"svg.tree [data-node='{node}']")

    def states(self) -> dict[int, str]:
        """The state of every node that the tree shows."""
        drawn = self.view.locator("svg.tree [data-node]").evaluate_all(
            "(all) => all.map((node) => [node.dataset.node, node.classList[1]])"
        )
        return {int(node): state for node, state in drawn}

    def transform(self) -> str:
        return self.view.locator("svg.tree > g").get_attribute("transform") or ""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(cycles=40, rule="topk", seed=3, shape=TreeShape(26, 4, 6))


@pytest.fixture(scope="module")
def address(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a trace in a library of its own."""
    folder: Path = tmp_path_factory.mktemp("library")
    entry = Library(folder).save(trace, NAME)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("EAGLE3_VIZ_LIBRARY", str(folder))
        with serving(ROOT / "app.py", tmp_path_factory.mktemp("log") / "server.log") as url:
            yield f"{url}/trace?trace={entry.id}"


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Shown]]:
    """Opens the page; afterwards no window may have written an error or opened a dialog."""
    errors: list[str] = []
    contexts = []

    def opened(url: str, *, theme: str = "light", width: int = 1280) -> Shown:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,  # type: ignore[arg-type]
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: errors.append(m.text) if is_trouble(m) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
        page.goto(url)
        shown = Shown(page)
        shown.node(0).wait_for(timeout=60_000)
        return shown

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


def test_scrubbing_picking_and_zooming_agree_with_the_record_and_the_address(
    address: str, trace: Trace, show: Callable[..., Shown]
) -> None:
    shown = show(f"{address}&cycle=3&node=1")
    page = shown.page
    expect(shown.slider).to_have_attribute("aria-valuenow", "3")
    expect(shown.inspector).to_contain_text(node_sentence(trace, 2, 1))
    shown.node(2).click()
    expect(shown.inspector).to_contain_text(node_sentence(trace, 2, 2))
    expect(page).to_have_url(re.compile(r"cycle=3&node=2$"))
    expect(Tab(page).key("trace_node").locator("input")).to_have_value(re.compile("^2 "))
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowUp")
    moved = shown.transform()
    page.keyboard.press("ArrowRight")
    expect(shown.slider).to_have_attribute("aria-valuenow", "4")
    expect(shown.view.locator(".caption")).to_contain_text("cycle 4 of 40")
    assert shown.transform() == moved and "scale(1)" not in moved
    page.keyboard.press("0")
    assert shown.transform() != moved
    shown.node(0).focus()
    page.keyboard.press("ArrowDown")
    expect(shown.inspector).to_contain_text(node_sentence(trace, 3, 1))
    before, told = shown.transform(), shown.inspector.text_content()
    drag(page, shown.node(2), 60, 30)
    assert shown.transform() != before
    assert shown.inspector.text_content() == told  # the click that ends a drag chooses nothing
    cycle = Tab(page).key("trace_cycle").locator("input")
    expect(cycle).to_have_value("4")
    visited = page.evaluate("history.length")
    cycle.fill("9")
    cycle.press("Enter")
    expect(shown.slider).to_have_attribute("aria-valuenow", "9")
    expect(page).to_have_url(re.compile(r"cycle=9$"))
    assert page.evaluate("history.length") == visited + 1
    page.go_back()
    expect(shown.slider).to_have_attribute("aria-valuenow", "4")
    expect(shown.inspector).to_contain_text(node_sentence(trace, 3, 1))
    page.go_forward()
    expect(shown.slider).to_have_attribute("aria-valuenow", "9")
    expect(page.get_by_role("link", name="Library", exact=True)).to_be_visible()


def drag(page: Page, element: Locator, dx: float, dy: float) -> None:
    box = element.bounding_box()
    assert box is not None
    x, y = box["x"] + 5, box["y"] + 5
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=3)
    page.mouse.up()


def recorded(cycle: Cycle) -> dict[int, str]:
    """The states of a cycle's nodes, its own token as -2."""
    assert cycle.nodes is not None
    states = {node: STATES[NodeState(int(state))] for node, state in enumerate(cycle.nodes.state)}
    return states | {-2: cycle.origins[-1].name.lower()}


def test_the_walk_shows_no_more_than_has_happened_and_ends_as_the_record_says(
    address: str, trace: Trace, show: Callable[..., Shown]
) -> None:
    cycle = max(trace.cycles[:30], key=lambda c: c.accepted)
    steps = walk_steps(trace, cycle.index)
    shown = show(f"{address}&cycle={cycle.index + 1}")
    sentence = shown.view.locator(".walk-sentence")
    expect(shown.node(-2)).to_be_visible()
    shown.node(0).focus()
    for step in steps:
        shown.page.keyboard.press(".")
        expect(sentence).to_have_text(step.sentence)
        states = shown.states()
        if step.kind == "draft":
            assert set(states.values()) <= {"root", "drafted"}
            assert set(states) == set(np.flatnonzero(cycle.nodes.depth <= step.depth).tolist())
        if step.kind == "verify":
            assert set(states.values()) == {"root", "verified"}
    assert shown.states() == recorded(cycle)
    kept = shown.view.locator(".cache-row.kept").evaluate_all(
        "(all) => all.map((row) => Number(row.dataset.node))"
    )
    assert kept == list(cycle.path)
    assert shown.view.locator(".cache-row.dropped").count() == cycle.verified - len(kept)
    Tab(shown.page).picture("trace_walk_light")
    shown.page.keyboard.press(" ")  # from the end it starts over, by itself
    expect(sentence).to_have_text(steps[0].sentence)
    expect(sentence).to_have_text(steps[1].sentence)
    shown.page.keyboard.press("Escape")
    expect(shown.view.locator(".walk-sentence.idle")).to_be_visible()
    assert shown.states() == recorded(cycle)


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_hostile_text_is_text_and_nothing_is_wider_than_the_window(
    address: str, show: Callable[..., Shown], theme: str, width: int
) -> None:
    shown = show(f"{address}&cycle=3", theme=theme, width=width)
    page = shown.page
    strip = shown.view.get_by_role("group", name="Generated tokens").text_content() or ""
    assert sum(text in strip for text in HOSTILE) >= 3
    expect(Tab(page).key("trace_trace").locator("input")).to_have_value(re.compile("<img src=x"))
    shown.view.get_by_role("button", name=re.compile("^pruned")).click()
    expect(shown.view.locator("svg.tree .pruned").first).to_be_attached()
    for name in ("Icicle", "Table", "Mask", "Tree"):
        shown.view.get_by_role("tab", name=name).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        Tab(page).picture(f"trace_{name.lower()}_{theme}_{width}")
    for selector in ("img[src='x']", "a[href*='example.org']", ".katex", "strong", "script"):
        assert page.locator(f".stMain {selector}").count() == 0
    page.locator(".stMain").evaluate("(main) => main.scrollTo(0, main.scrollHeight)")
    Tab(page).key("trace_about").locator("summary").click()
    expect(Tab(page).key("trace_about")).to_contain_text("<script>alert(1)</script>")
    Tab(page).picture(f"trace_about_{theme}_{width}")
