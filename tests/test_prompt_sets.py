"""Prompt sets: the public forms, mapped columns, and what is said about the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eagle3_viz.presets import DOMAINS, load_presets
from eagle3_viz.prompt_sets import Prompt, PromptSet, read_set, read_sets, sample_sets
from eagle3_viz.text_lines import DataError

QUESTIONS = [
    {"question_id": 81, "category": "writing", "turns": ["Write a post.", "Now shorter."]},
    {"question_id": 82, "category": "", "turns": ["Why?"], "reference": ["Because."]},
    {"question_id": "x/3", "category": "math", "turns": ["1 + 1?"]},
]
EXPECTED = (
    Prompt("81", "writing", ("Write a post.", "Now shorter.")),
    Prompt("82", "bench", ("Why?",)),
    Prompt("x/3", "math", ("1 + 1?",)),
)


def json_lines(path: Path, *records: Any) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_public_question_form_is_read_with_ids_turns_and_categories(tmp_path: Path) -> None:
    found = read_set(json_lines(tmp_path / "bench.jsonl", *QUESTIONS))
    assert found == PromptSet("bench", EXPECTED)


def test_a_parquet_file_with_lists_of_turns_gives_the_same_prompts(tmp_path: Path) -> None:
    rows = [{**row, "question_id": str(row["question_id"])} for row in QUESTIONS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "bench.parquet")
    assert read_set(tmp_path / "bench.parquet").prompts == EXPECTED


def test_columns_with_other_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "quiz.csv"
    path.write_text(
        '\ufeffnr,question,turns,topic\r\n7,"How, ""exactly""?\nSay it.",x,maths\r\n9,Why?,y,\r\n',
        encoding="utf-8",
        newline="",
    )
    found = read_set(path, {"prompt": "question", "id": "nr", "domain": "topic"})
    assert found.prompts == (
        Prompt("7", "maths", ('How, "exactly"?\nSay it.',)),
        Prompt("9", "quiz", ("Why?",)),
    )


def test_only_what_the_user_asks_is_taken_from_a_conversation(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "another model's words"},
        {"role": "user", "content": "two"},
    ]
    found = read_set(json_lines(tmp_path / "a.jsonl", {"messages": messages}))
    assert found.prompts == (Prompt("1", "a", ("one", "two"), "be kind"),)


def test_our_own_prompts_are_a_set_a_domain() -> None:
    presets = load_presets()
    found = sample_sets(2)
    assert [one.name for one in found] == list(DOMAINS)
    for one in found:
        assert [p.id for p in one.prompts] == [p.id for p in presets[one.name][:2]]
        assert [p.turns for p in one.prompts] == [(p.prompt,) for p in presets[one.name][:2]]


def test_a_domain_may_be_a_whole_number(tmp_path: Path) -> None:
    rows = [{"prompt": "x", "level": 3}, {"prompt": "y", "level": 4}]
    found = read_set(json_lines(tmp_path / "quiz.jsonl", *rows), {"domain": "level"})
    assert [prompt.domain for prompt in found.prompts] == ["3", "4"]


@pytest.mark.parametrize(("value", "said"), [(1.5, "the number 1.5"), (["a"], "a list")])
def test_a_column_that_names_no_domain_is_refused(value: object, said: str, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "quiz.jsonl", {"prompt": "x", "level": value})
    with pytest.raises(DataError, match=rf"line 1: the domain in 'level' must be .* found {said}"):
        read_set(path, {"domain": "level"})


def test_the_limit_counts_in_every_set_and_leaves_the_rest_unread(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "bench.jsonl", *QUESTIONS[:2], "not JSON")
    sets = read_sets(["sample", str(path)], limit=2)
    assert [len(one.prompts) for one in sets] == [2] * (len(DOMAINS) + 1)
    with pytest.raises(DataError, match=r"bench\.jsonl line 3 is not JSON"):
        read_set(path)


def test_two_sets_of_one_name_are_refused(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "math.jsonl", {"prompt": "x"})
    with pytest.raises(DataError, match="two prompt sets are called 'math'"):
        read_sets(["sample", str(path)])


def test_prompts_that_ask_something_else_have_another_hash() -> None:
    prompt = Prompt("1", "a", ("x", "y"))
    others = [
        Prompt("1", "b", ("x", "y")),
        Prompt("1", "a", ("x", "y"), "s"),
        Prompt("1", "a", ("x",)),
        Prompt("1", "a", ("y", "x")),
    ]
    assert len({prompt.sha256, *(other.sha256 for other in others)}) == 5
    assert Prompt("2", "a", ("x", "y")).sha256 == prompt.sha256


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"turns": ["x"]}, {"question": "y"}], "a.jsonl line 2 has no turns, messages or prompt"),
        ([{"turns": ["x", 3]}], "line 1: the prompt must be text, found the number 3"),
        ([{"turns": ["x", " "]}], "line 1: the prompt is empty"),
        ([{"turns": ["x"] * 33}], "line 1 has more than 32 turns"),
        ([{"prompt": "x", "id": 1.5}], "line 1: the id must be text or a whole number, found 1.5"),
        ([{"prompt": "x", "id": True}], "the id must be text or a whole number"),
        ([{"prompt": "x", "id": "i" * 81}], "an id has 1 to 80 characters, found 81"),
        ([{"prompt": "x", "id": 1}, {"prompt": "y", "id": "1"}], "the id '1' occurs twice"),
        ([{"prompt": "x" * 100_001}], "more than 100000 characters"),
        ([{"prompt": "\ud800"}], "half a surrogate pair"),
        ([{"prompt": "x", "category": "all"}], "'all' is the name of the total"),
        ([], "there is no prompt in a.jsonl"),
    ],
)
def test_a_record_that_cannot_be_asked_is_named(
    records: list[Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        read_set(json_lines(tmp_path / "a.jsonl", *records))


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", {"query": "x", "nr": 1})
    with pytest.raises(DataError, match="line 1 has no column 'question'; it has query, nr"):
        read_set(path, {"prompt": "question"})


def test_a_published_file_needs_no_columns_beside_one_that_does(tmp_path: Path) -> None:
    bench = json_lines(tmp_path / "bench.jsonl", *QUESTIONS)
    quiz = tmp_path / "quiz.csv"
    quiz.write_text("question,topic\nWhy?,maths\n")
    sets = read_sets([str(bench), str(quiz)], {"prompt": "question", "domain": "topic"})
    assert sets[0].prompts == EXPECTED
    assert sets[1].prompts == (Prompt("1", "maths", ("Why?",)),)


def test_every_column_is_needed_by_a_file_that_asks_in_no_known_layout(tmp_path: Path) -> None:
    quiz = tmp_path / "quiz.csv"
    quiz.write_text("question,topik\nWhy?,maths\n")
    with pytest.raises(DataError, match=r"quiz\.csv line 2 has no column 'topic'; it has question"):
        read_sets([str(quiz)], {"prompt": "question", "domain": "topic"})


def test_a_column_that_no_file_has_is_refused(tmp_path: Path) -> None:
    bench = json_lines(tmp_path / "bench.jsonl", *QUESTIONS)
    with pytest.raises(DataError, match="no file has a column 'topik', which 'domain' is to be"):
        read_sets(["sample", str(bench)], {"domain": "topik"})


def test_a_set_cannot_be_called_like_the_total(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="rename it"):
        read_set(json_lines(tmp_path / "all.jsonl", {"prompt": "x"}))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"why?", "has the suffix '.txt', expected one of .csv, .parquet, .jsonl"),
        ("a.csv", b"prompt,id\nx\n", "line 2 has 1 columns, the first line 2"),
        ("a.csv", b"prompt,prompt\nx,y\n", "two columns have one name"),
        ("a.csv", b'prompt\n"x"y\n', "is not CSV"),
        ("a.csv", b"prompt\n\xff\n", "not UTF-8"),
        ("a.csv", b"prompt\n" + b"x" * 200_000, "field larger than field limit"),
        ("a.parquet", b"no parquet at all", "no whole Parquet file"),
        ("a.parquet", b"PAR1" + b"\xff" * 40 + b"\xff\xff\xff\x7fPAR1", "bytes of metadata"),
        ("a.parquet", b"PAR1" + b"\x00" * 40 + b"\x20\x00\x00\x00PAR1", "cannot be read"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_one_sentence(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said) as caught:
        read_set(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gone.csv", "gone.parquet", "gone.jsonl"])
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name} cannot be read: No such file"):
        read_set(tmp_path / name)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle3_viz.record_files.MAX_FILE_BYTES", 50)
    (tmp_path / "a.csv").write_text("prompt\n" + "x" * 50)
    with pytest.raises(DataError, match="at most 50 are read"):
        read_set(tmp_path / "a.csv")


def test_a_parquet_file_that_unpacks_into_too_much_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"prompt": ["x" * 50_000] * 20}), path, compression="zstd")
    limit = 10 * path.stat().st_size
    assert limit < 1_000_000
    monkeypatch.setattr("eagle3_viz.record_files.MAX_FILE_BYTES", limit)
    with pytest.raises(DataError, match="unpacks into more than"):
        read_set(path)
