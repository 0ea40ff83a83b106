"""Pictures of every page in both themes: <page>-light.png and <page>-dark.png.

    python -m benchmarks.screenshots [--out docs] [--width 1280] [--height 800] [--whole]
        [--pages live trace]

The Live page shows a finished run of the shipped EAGLE-3 draft, the others what ships. `--whole`
takes a page to its end; `--width 390` is a phone. Look at what comes out before it is kept.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks.serving import ROOT, chromium, served

THEMES = ("light", "dark")
SETTLED = 1500  # ms for charts and fonts, once the script has run
TALLEST = 6000  # px of a whole page


def await_component(page: Page) -> None:
    """The trace view draws when it has unpacked its trace."""
    page.locator(".st-key-trace_component svg.tree [data-node='0']").wait_for()


def run_to_the_end(page: Page) -> None:
    """Run what the Live page opens with, and look at a cycle that accepted much."""
    page.locator(".st-key-live_run button:enabled").click()
    page.locator(".st-key-live_download").wait_for(timeout=180_000)
    cycle = page.locator(".st-key-live_cycle input")
    cycle.fill("2")
    cycle.press("Enter")


def await_list(page: Page) -> None:
    """The list of the library is a canvas."""
    page.locator("[data-testid='stDataFrame'] canvas").first.wait_for()


def await_charts(page: Page) -> None:
    """Plotly draws after the script has run."""
    page.locator(".stPlotlyChart .main-svg").first.wait_for()


@dataclass(frozen=True)
class Shot:
    """A page at an address, and what to do or wait for there."""

    address: str
    ready: Callable[[Page], None]


SHOTS = {
    "live": Shot("", run_to_the_end),
    "trace": Shot("trace?trace=shipped-eagle3-chat&cycle=5", await_component),
    "acceptance": Shot("acceptance?trace=shipped-eagle3-creative", await_charts),
    "lossless": Shot("lossless", await_charts),
    "library": Shot("library", await_list),
}


def opened(browser: Browser, url: str, shot: Shot, theme: str, size: tuple[int, int]) -> Page:
    """The page in a browser of its own, at rest."""
    width, height = size
    page = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,  # type: ignore[arg-type]
    ).new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{url}/{shot.address}")
    shot.ready(page)
    expect(page.locator("[data-test-script-state='notRunning']")).to_be_attached(timeout=60_000)
    page.locator(".stMain").evaluate("(main) => main.scrollTo(0, 0)")
    page.mouse.move(0, 0)  # nothing is hovered or focused in a picture
    page.locator(":focus").evaluate_all("(all) => all.forEach((element) => element.blur())")
    page.wait_for_timeout(SETTLED)
    return page


def stretched(page: Page, width: int) -> None:
    """A window as high as the page, so that all of it is in the picture."""
    needed = page.locator(".stMain").evaluate("(main) => main.scrollHeight")
    page.set_viewport_size({"width": width, "height": min(needed, TALLEST)})
    page.wait_for_timeout(SETTLED)


def main() -> None:
    """Take all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=800)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--pages", nargs="+", choices=SHOTS, default=SHOTS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    size = arguments.width, arguments.height
    os.environ["EAGLE3_VIZ_LIBRARY"] = "my-traces"  # not there: pictures show what ships
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        with served() as server:
            for name in arguments.pages:
                for theme in THEMES:
                    page = opened(browser, server.url, SHOTS[name], theme, size)
                    if arguments.whole:
                        stretched(page, arguments.width)
                    page.screenshot(path=arguments.out / f"{name}-{theme}.png")
                    page.context.close()
        browser.close()


if __name__ == "__main__":
    main()
