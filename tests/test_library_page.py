"""The Library page without a browser: find, name, delete, upload and take along."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import trace_file, trace_json
from eagle3_viz.library import place
from eagle3_viz.library.entries import Entry
from eagle3_viz.library.store import Library
from eagle3_viz.ui import library_downloads
from eagle3_viz.ui.library_list import NONE_YET, NOTHING_FOUND
from tests.synthetic import make_trace

PAGE = Path(__file__).resolve().parent.parent / "pages" / "library.py"
HOSTILE = "<script>alert(1)</script> **bold** [link](javascript:alert(1)) $x$"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    trace_file.save(make_trace(cycles=3), shipped / "eagle3-code.parquet")
    trace_file.save(make_trace(cycles=2, method="ar"), shipped / "ar-math.parquet")
    library = Library(tmp_path / "own", shipped)
    monkeypatch.setattr(place, "shared", lambda: library)
    return library


def ran(page: AppTest) -> AppTest:
    page.run()
    assert not page.exception
    return page


def opened() -> AppTest:
    return ran(AppTest.from_file(str(PAGE), default_timeout=60))


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


def press(page: AppTest, key: str) -> None:
    page.button(key=key).click().run()
    assert not page.exception


def listed(page: AppTest) -> list[str]:
    return page.dataframe[0].value["name"].tolist() if page.dataframe else []


def pick(page: AppTest, entry: Entry) -> AppTest:
    page.selectbox(key="library_entry").set_value(entry.id).run()
    assert not page.exception
    return page


def upload(page: AppTest, data: bytes, called: str = "run.parquet") -> None:
    page.file_uploader[0].set_value((called, data, "application/octet-stream")).run()
    press(page, "library_add")


def test_the_page_says_where_things_are_and_who_sees_them(library: Library) -> None:
    page = opened()
    assert f"files in {library.folder}" in texts(page)
    assert "Everybody who reaches this server" in texts(page)
    assert listed(page) == ["EAGLE-3, code", "Autoregression, math"]


def test_a_folder_in_the_home_of_its_owner_is_shown_without_the_owners_name(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: library.folder.parent)
    assert "files in ~/own." in texts(opened())


def test_an_empty_library_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "shared", lambda: Library(tmp_path / "none"))
    page = opened()
    assert NONE_YET in texts(page) and not page.dataframe
    assert len(page.file_uploader) == 1


def test_search_method_domain_and_tag_narrow_the_list(library: Library) -> None:
    library.save(make_trace(cycles=1), "my run", ("slow",), "chat")
    page = opened()
    page.text_input(key="library_text").set_value("EAGLE-3").run()
    assert listed(page) == ["EAGLE-3, code"]
    page.text_input(key="library_text").set_value("").run()
    page.multiselect(key="library_tags").set_value(["slow"]).run()
    assert listed(page) == ["my run"]
    page.multiselect(key="library_domains").set_value(["code"]).run()
    assert listed(page) == [] and NOTHING_FOUND in texts(page)
    page.multiselect(key="library_tags").set_value([]).run()
    page.multiselect(key="library_domains").set_value([]).run()
    page.multiselect(key="library_methods").set_value(["ar"]).run()
    assert listed(page) == ["Autoregression, math"] and not page.exception


def test_a_tag_that_went_away_is_no_filter_any_more(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "my run", ("slow",))
    page = opened()
    page.multiselect(key="library_tags").set_value(["slow"]).run()
    library.tag(entry.id, ())
    assert len(listed(ran(page))) == 3


def test_name_tags_and_domain_are_saved_as_they_are_shown(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "before", ("old",))
    page = pick(opened(), entry)
    page.text_input(key=f"library_name_{entry.id}").set_value("  after ").run()
    page.text_input(key=f"library_tags_{entry.id}").set_value("new, ,New,x").run()
    page.selectbox(key=f"library_domain_{entry.id}").set_value("math").run()
    press(page, "library_save")
    changed = library.entry(entry.id)
    assert (changed.name, changed.tags, changed.domain) == ("after", ("new", "x"), "math")
    assert "Saved." in texts(page)
    assert page.text_input(key=f"library_name_{entry.id}").value == "after"
    assert page.text_input(key=f"library_tags_{entry.id}").value == "new, x"
    assert page.selectbox(key="library_entry").value == entry.id


def test_a_name_without_anything_to_see_is_not_saved(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "before")
    page = pick(opened(), entry)
    page.text_input(key=f"library_name_{entry.id}").set_value("\u202e ").run()
    press(page, "library_save")
    assert "Not saved: a trace needs a name" in texts(page)
    assert library.entry(entry.id).name == "before"


def test_delete_asks_first_and_then_removes_the_trace(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "gone")
    page = pick(opened(), entry)
    assert "cannot be brought back" in texts(page)
    assert library.entry(entry.id)
    press(page, "library_delete_sure")
    assert [e.name for e in library.entries()] == ["EAGLE-3, code", "Autoregression, math"]
    assert "Deleted: gone" in texts(page) and "gone" not in listed(page)


def test_a_trace_that_somebody_else_deleted_meanwhile_is_said_to_be_gone(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), "gone")
    page = pick(opened(), entry)
    library.delete(entry.id)
    press(page, "library_delete_sure")
    assert "Not deleted: the library has no trace" in texts(page)


def test_a_shipped_trace_can_be_taken_along_and_not_changed(library: Library) -> None:
    page = opened()
    assert page.selectbox(key="library_entry").value == "shipped-eagle3-code"
    assert not [button for button in page.button if button.key in ("library_save",)]
    assert any("ships with the program" in caption.value for caption in page.caption)
    labels = [button.label for button in page.get("download_button")]
    assert labels == [
        *("Parquet", "JSON", "Web page", "Cycles CSV", "Nodes CSV", "Summary", "GraphML")
    ]


def test_what_needs_trees_is_disabled_where_none_were_recorded(library: Library) -> None:
    entry = library.save(make_trace(cycles=2, record="off"), "bare")
    page = pick(opened(), entry)
    off = [b.label for b in page.get("download_button") if b.proto.disabled]
    assert off == ["Nodes CSV", "GraphML"]
    assert page.number_input(key=f"library_cycle_{entry.id}").disabled


@pytest.mark.parametrize(("method", "cycles"), [("eagle3", 3), ("ar", 2), ("eagle3", 0)])
def test_every_download_is_made_when_it_is_asked_for(
    library: Library, monkeypatch: pytest.MonkeyPatch, method: str, cycles: int
) -> None:
    trace = make_trace(cycles=cycles, method=method)  # type: ignore[arg-type]
    entry = library.save(trace, HOSTILE)
    made: dict[str, bytes] = {}

    def take(label: str, stem: str, kind: str, make, *, off: bool = False) -> None:  # type: ignore[no-untyped-def]
        if not off:
            content = make()
            made[f"{stem}.{kind}"] = content if isinstance(content, bytes) else content.encode()

    monkeypatch.setattr(library_downloads, "_button", take)
    pick(opened(), entry)
    kinds = ["parquet", "json", "html", "md"]
    assert set(made) >= {f"{entry.id}.{kind}" for kind in kinds} | {f"{entry.id}-cycles.csv"}
    assert made[f"{entry.id}.parquet"] == library.read(entry.id)
    read = trace_json.loads(made[f"{entry.id}.json"])
    assert trace_file.to_bytes(read) == trace_file.to_bytes(trace)
    assert b"<script>alert(1)" not in made[f"{entry.id}.html"]
    if cycles:
        assert b"graphml" in made[f"{entry.id}-cycle-1.graphml"]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_an_uploaded_trace_is_added_under_the_name_of_its_file_and_picked(
    library: Library, form: str
) -> None:
    trace = make_trace(cycles=2)
    data = trace_json.dumps(trace) if form == "json" else trace_file.to_bytes(trace)
    page = opened()
    page.text_input(key="library_text").set_value("autoregression").run()
    upload(page, data, f"my run.{form}")
    assert "Added: my run" in texts(page)
    (entry,) = [entry for entry in library.entries() if not entry.shipped]
    assert page.selectbox(key="library_entry").value == entry.id
    assert len(listed(page)) == 3
    assert page.file_uploader[0].value is None


def test_a_name_tags_and_domain_go_with_the_upload(library: Library) -> None:
    page = opened()
    page.text_input(key="library_new_name_0").set_value(HOSTILE).run()
    page.text_input(key="library_new_tags_0").set_value("a,<b>").run()
    page.selectbox(key="library_new_domain_0").set_value("chat").run()
    upload(page, trace_file.to_bytes(make_trace(cycles=1)))
    (entry,) = [entry for entry in library.entries() if not entry.shipped]
    assert (entry.name, entry.tags, entry.domain) == (HOSTILE, ("a", "<b>"), "chat")
    assert page.text_input(key="library_new_name_1").value == ""


def test_a_refused_upload_says_why_and_writes_nothing(library: Library) -> None:
    page = opened()
    upload(page, b"\x89PNG renamed", "picture.parquet")
    assert "Not added: expected a Parquet file" in texts(page)
    assert not library.folder.exists()
    assert len(listed(page)) == 2


def test_a_file_that_is_no_trace_is_named_and_the_page_goes_on(library: Library) -> None:
    library.save(make_trace(cycles=1), "good")
    (library.folder / "x<b>\u202e.txt").write_text("")
    (library.folder / "broken.parquet").write_bytes(b"PAR1")
    page = opened()
    (expander,) = page.expander
    assert expander.label == "2 files could not be listed"
    said = "\n".join(text.value for text in expander.text)
    assert "x<b>" in said and "\u202e" not in said and "broken.parquet" in said
    assert len(listed(page)) == 3


def test_hostile_names_and_tags_are_text_everywhere(library: Library) -> None:
    entry = library.save(make_trace(cycles=1), HOSTILE, ("**tag**", "<i>t</i>"))
    page = pick(opened(), entry)
    rendered = [e.value for e in (*page.markdown, *page.caption, *page.get("html"))]
    labels = [e.label for e in (*page.button, *page.text_input, *page.expander, *page.selectbox)]
    assert not any("script" in text or "**" in text for text in [*rendered, *labels])
    assert HOSTILE in listed(page)


def test_the_same_file_again_is_shown_where_it_is_and_not_kept_twice(library: Library) -> None:
    data = trace_file.to_bytes(make_trace(cycles=2, seed=5))
    page = opened()
    upload(page, data, "first.parquet")
    pick(page, library.entry("shipped-ar-math"))
    upload(page, data, "second.parquet")
    assert [e.name for e in library.entries() if not e.shipped] == ["first"]
    assert "has this very trace already, as first" in texts(page)
    assert library.entry(page.selectbox(key="library_entry").value).name == "first"


def test_a_trace_that_ships_is_not_added_again(library: Library) -> None:
    page = opened()
    upload(page, library.read("shipped-ar-math"))
    assert all(entry.shipped for entry in library.entries())
    assert page.selectbox(key="library_entry").value == "shipped-ar-math"


def test_a_link_names_the_trace_that_is_picked(library: Library) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params["trace"] = "shipped-ar-math"
    ran(page)
    assert page.selectbox(key="library_entry").value == "shipped-ar-math"
    pick(page, library.entry("shipped-eagle3-code"))
    assert page.query_params["trace"] == "shipped-eagle3-code"
    assert page.selectbox(key="library_entry").value == "shipped-eagle3-code"


def test_a_link_to_a_trace_that_is_not_there_says_so_until_another_is_picked(
    library: Library,
) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params["trace"] = "no-such-trace"
    assert "The link names the trace 'no-such-trace'" in texts(ran(page))
    assert "The link names" in texts(ran(page))
    pick(page, library.entry("shipped-ar-math"))
    assert "The link names" not in texts(page)


def test_every_file_reaches_the_check_so_that_its_refusal_goes_with_it(library: Library) -> None:
    page = opened()
    upload(page, b"no trace", "notes.txt")
    assert "Not added:" in texts(page)
    data = trace_file.to_bytes(make_trace(cycles=1, seed=9))
    page.file_uploader[0].set_value(("run.parquet", data, "application/octet-stream")).run()
    assert "Not added:" not in texts(page)
