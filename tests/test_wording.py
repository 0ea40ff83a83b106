"""Commands in words."""

from __future__ import annotations

import shlex

from eagle3_viz.wording import command_words


def test_a_recorded_command_can_be_pasted_into_a_shell() -> None:
    argv = ("eagle3_viz", "decode", "Say 'hi', $USER; it's late.", "--method", "ar")
    assert shlex.split(command_words(argv)) == ["python", "-m", *argv]
    assert command_words(("bench_decode.py", "--count", "3")) == "bench_decode.py --count 3"
