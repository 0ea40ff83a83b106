"""Text on a terminal: shown as it comes, coloured by origin."""

from __future__ import annotations

import io

import pytest

from eagle3_viz.cli.progress import reporting
from eagle3_viz.cli.terminal import TokenStream, uses_colour
from eagle3_viz.records import Origin
from tests.fake_terminal import Terminal

ROCKET = "🚀".encode()


def test_a_character_appears_once_its_last_byte_has_come() -> None:
    out = io.StringIO()
    stream = TokenStream(out, colour=False)
    stream.write([(b"go " + ROCKET[:2], Origin.PLAIN)])
    assert out.getvalue() == "go "
    stream.write([(ROCKET[2:3], Origin.ACCEPTED)])
    assert out.getvalue() == "go "
    stream.write([(ROCKET[3:], Origin.BONUS)])
    assert out.getvalue() == "go 🚀"


def test_a_character_that_never_completes_shows_as_one_replacement_at_the_end() -> None:
    out = io.StringIO()
    stream = TokenStream(out, colour=False)
    stream.write([(b"a" + ROCKET[:3], Origin.PLAIN)])
    stream.close()
    assert out.getvalue() == "a\ufffd\n"


@pytest.mark.parametrize("text", [b"", b"line\n"])
def test_a_line_that_has_ended_is_not_ended_again(text: bytes) -> None:
    out = io.StringIO()
    stream = TokenStream(out, colour=False)
    stream.write([(text, Origin.PLAIN)])
    stream.close()
    assert out.getvalue() == text.decode()


def test_every_origin_has_its_colour_and_neighbours_share_one_escape() -> None:
    out = io.StringIO()
    TokenStream(out, colour=True).write(
        [
            (b"a", Origin.PLAIN),
            (b"b", Origin.ACCEPTED),
            (b"c", Origin.ACCEPTED),
            (b"d", Origin.RECOVERED),
            (b"e", Origin.BONUS),
        ]
    )
    assert out.getvalue() == "a\x1b[32mbc\x1b[0m\x1b[35mde\x1b[0m"


def test_colour_is_for_terminals_that_did_not_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert uses_colour(Terminal())
    assert not uses_colour(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not uses_colour(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not uses_colour(Terminal())


def test_on_a_terminal_progress_is_one_bar_that_is_gone_afterwards() -> None:
    terminal = Terminal()
    with reporting(terminal) as progress:
        progress("Downloading [red]x", 50_000_000, 90_000_000)
        progress("Checking", 0, 1)
    shown = terminal.getvalue()
    assert "Checking" in shown
    assert shown.rstrip("\r").endswith("\x1b[2K")
