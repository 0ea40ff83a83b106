"""Conversations on disk: what is written is read back, what cannot be trained on is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3_viz.text_lines import MAX_LINE_BYTES, DataError
from eagle3_viz.training.conversations import Conversation, fingerprint, read_conversations, to_line

GOOD = Conversation((1, 2, 3, 4), 2, "code", 0.7, "len")
OTHER = Conversation((4, 3, 2), 1, "math", 0.0, "eos")
V = 10


def written(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_what_is_written_is_read_back_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(to_line(GOOD))
    (tmp_path / "b.jsonl").write_text(to_line(OTHER) + to_line(GOOD))
    found = read_conversations([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], V)
    assert found == [GOOD, OTHER, GOOD]
    assert [c.response_tokens for c in found] == [2, 2, 2]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([1, 2], "must hold an object"),
        ({"response_start": 1}, "ids must be a list of token ids below 10"),
        ({"ids": [1, 10], "response_start": 1}, "ids must be a list"),
        ({"ids": [1, True], "response_start": 1}, "ids must be a list"),
        ({"ids": [1, -1], "response_start": 1}, "ids must be a list"),
        ({"ids": [1, 2], "response_start": 2}, "response_start must lie inside the 2 ids"),
        ({"ids": [1, 2], "response_start": 0}, "response_start must lie inside"),
        ({"ids": [1, 2], "response_start": "1"}, "response_start must lie inside"),
        ({"ids": [1, 2], "response_start": 1, "temperature": -1}, "temperature must be"),
        ({"ids": [1, 2], "response_start": 1, "domain": "all"}, "a domain is called 'all'"),
    ],
)
def test_a_line_that_cannot_be_trained_on_is_named(
    record: object, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.jsonl", {"ids": [1, 2], "response_start": 1}, record)
    with pytest.raises(DataError, match=f"x.jsonl line 2.*{said}"):
        read_conversations([path], V)


def test_text_that_is_no_json_and_lines_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for content, said in (
        (b"hello\n", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b" " * (MAX_LINE_BYTES + 1), "is longer than"),
        (b"\xff\xfe\n", "is not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=said):
            read_conversations([path], V)


def test_a_missing_file_is_named_without_its_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.jsonl cannot be read: No such file"):
        read_conversations([tmp_path / "gone.jsonl"], V)


def test_the_fingerprint_tells_texts_orders_and_responses_apart() -> None:
    later = Conversation(GOOD.ids, 3, GOOD.domain)
    prints = {
        fingerprint(texts) for texts in ([GOOD], [OTHER], [GOOD, OTHER], [OTHER, GOOD], [later], [])
    }
    assert len(prints) == 6
    renamed = Conversation(GOOD.ids, GOOD.response_start, "other", 1.0, "eos")
    assert fingerprint([renamed]) == fingerprint([GOOD])
