"""Eight browsers at one server, clicking at random: does each see only its own run?

    python -m benchmarks.soak_sessions [--sessions 8] [--minutes 3] [--seed 0] [--csv FILE]

Every browser writes a prompt of its own and runs, pauses, steps, stops, scrubs and changes pages.
Checked all the time: what a browser shows belongs to its own prompt, the positions in the queue
count from one without gaps, no console error, no Traceback in the server's log. At the end: the
memory of the server before and after. The numbers go to a CSV with machine, versions and command.
The exit status is 1 when anything was wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch
from playwright.sync_api import Browser, Locator, Page, TimeoutError, sync_playwright

from benchmarks.serving import ROOT, Server, chromium, served
from eagle3_viz.provenance import measured_on

RESULTS = ROOT / ".work" / "soak_sessions.csv"
TOPICS = ("rivers", "clocks", "bridges", "violins", "deserts", "kettles", "glaciers", "lanterns")
BUTTONS = ("live_run", "live_pause", "live_step", "live_stop")
PAGES = ("Live", "Trace", "Acceptance", "Lossless", "Library")
QUEUED = re.compile(r"Queued, position (\d+)")
TROUBLE = re.compile(r"Traceback|deprecat", re.IGNORECASE)
SETTLED = 5.0  # seconds in which the positions shown have to agree once
QUIET = 15.0  # seconds after the last browser went, for the grace of abandoned runs


@dataclass
class Visitor:
    """One browser and what it asked for."""

    page: Page
    topic: str
    errors: list[str] = field(default_factory=list)

    @property
    def prompt(self) -> str:
        return f"Write a short note about {self.topic}."

    def key(self, name: str) -> Locator:
        return self.page.locator(f".st-key-{name}")

    def status(self) -> str:
        line = self.key("live_view").get_by_role("status")
        return line.first.text_content(timeout=5000) or "" if line.count() else ""


def visit(browser: Browser, url: str, topic: str) -> Visitor:
    """Open the Live page in a browser of its own and write the prompt."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    visitor = Visitor(page, topic)
    page.on("console", lambda m: visitor.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: visitor.errors.append(str(error)))
    page.goto(f"{url}/?live_max_tokens=48")
    write_prompt(visitor)
    return visitor


def write_prompt(visitor: Visitor) -> None:
    box = visitor.key("live_prompt").locator("textarea")
    box.wait_for(timeout=60_000)
    box.fill(visitor.prompt)
    box.press("Control+Enter")


def act(visitor: Visitor, dice: random.Random) -> str:
    """One click of a random kind; returns its name."""
    on_live = visitor.key("live_run").count() > 0
    kinds = ["button"] * 6 + ["scrub", "page"] if on_live else ["page"]
    match dice.choice(kinds):
        case "button":
            name = dice.choice(BUTTONS)
            button = visitor.key(name).locator("button").first
            if button.is_enabled(timeout=5000):
                button.click(timeout=5000)
            return name
        case "scrub":
            slider = visitor.key("live_view").get_by_role("slider", name="Cycle")
            if slider.count():
                slider.first.press(dice.choice(("Home", "End", "ArrowLeft", "PageUp")))
            return "scrub"
        case _:
            name = dice.choice(PAGES) if on_live else "Live"
            visitor.page.get_by_role("link", name=name, exact=True).first.click(timeout=10_000)
            if name == "Live":
                visitor.key("live_run").wait_for(timeout=30_000)
            return name


def tried(visitor: Visitor, dice: random.Random) -> str:
    """As `act`; what the page drew anew under the hand is a miss, and misses are counted."""
    try:
        return act(visitor, dice)
    except TimeoutError:
        return "missed"


def foreign_words(visitor: Visitor) -> list[str]:
    """Prompts of other visitors that this one's Live page shows."""
    main = visitor.page.locator(".stMain").first.text_content(timeout=10_000) or ""
    others = (topic for topic in TOPICS if topic != visitor.topic)
    return [topic for topic in others if f"note about {topic}" in main]


def positions(visitors: list[Visitor]) -> list[int]:
    """The places in the queue that are on the screens now."""
    found = (QUEUED.search(visitor.status()) for visitor in visitors)
    return sorted(int(match[1]) for match in found if match)


def positions_agree(visitors: list[Visitor]) -> bool:
    """Whether within `SETTLED` seconds the screens show the places 1, 2, ... once each.

    A screen may lag behind the queue by its refresh; a tab that left the Live page has a job of
    which no screen tells. So: no place twice.
    """
    deadline = time.monotonic() + SETTLED
    while time.monotonic() < deadline:
        seen = positions(visitors)
        if len(set(seen)) == len(seen) and (not seen or seen[0] >= 1):
            return True
        time.sleep(0.3)
    return False


def soak(
    visitors: list[Visitor], minutes: float, dice: random.Random
) -> tuple[Counter[str], list[str]]:
    """Click until the time is over; returns the clicks by kind, and what was wrong."""
    wrong: list[str] = []
    done: Counter[str] = Counter()
    end, round_ = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        visitor = dice.choice(visitors)
        done[tried(visitor, dice)] += 1
        wrong += [f"{visitor.topic} shows {other}" for other in foreign_words(visitor)]
        round_ += 1
        if round_ % 10 == 0 and not positions_agree(visitors):
            wrong.append(f"positions in the queue: {positions(visitors)}")
    return done, wrong


def megabytes(process: subprocess.Popen[bytes]) -> int:
    """Resident memory of the server, as Linux counts it."""
    found = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return round(int(found[1]) / 1e3)


def warm(visitor: Visitor) -> None:
    """One whole run, so that the pair is loaded before memory is read."""
    visitor.key("live_run").locator("button").first.click()
    visitor.key("live_download").wait_for(timeout=120_000)


def watch(server: Server, arguments: argparse.Namespace) -> tuple[dict[str, int], list[str]]:
    """The whole visit: warm-up, soak, farewell. Returns the numbers, and what was wrong."""
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        visitors = [visit(browser, server.url, topic) for topic in TOPICS[: arguments.sessions]]
        warm(visitors[0])
        before = megabytes(server.process)
        done, wrong = soak(visitors, arguments.minutes, random.Random(arguments.seed))
        during = megabytes(server.process)
        browser.close()
        wrong += [f"{v.topic}: console: {error}" for v in visitors for error in v.errors]
    time.sleep(QUIET)
    numbers = {
        "clicks": done.total() - done["missed"],
        **{f"clicks: {name}": count for name, count in sorted(done.items())},
        "memory before, MB": before,
        "memory at the end of the clicking, MB": during,
        f"memory {QUIET:.0f} s after the last browser went, MB": megabytes(server.process),
    }
    return numbers, wrong


def save(numbers: dict[str, int], path: Path) -> None:
    """A row a number, with what is needed to repeat it."""
    about = measured_on(torch.device("cpu"))
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"counted": name, "value": value} | about for name, value in numbers.items()]
    pd.DataFrame(rows).to_csv(path, index=False)


def main() -> int:
    """Serve the app, send the browsers, report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sessions", type=int, default=len(TOPICS), choices=range(1, 9))
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryFile() as log:
        with served(log) as server:
            numbers, wrong = watch(server, arguments)
        log.seek(0)
        said = log.read().decode(errors="replace")
    if TROUBLE.search(said):
        wrong.append(said[-2000:])
    numbers["found wrong"] = len(wrong)
    for name, value in numbers.items():
        print(f"{name:44} {value:6}")
    save(numbers, arguments.csv)
    print("\n".join(wrong) or f"nothing was wrong; written to {arguments.csv}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
