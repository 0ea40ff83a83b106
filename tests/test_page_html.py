"""A page opened by its own address knows where the server is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit import file_util

from eagle3_viz.ui import page_html


def documents(pages: tuple[str, ...] = ("trace", "library")) -> TestClient:
    return TestClient(Starlette(routes=page_html.routes(pages)))


def test_the_document_tells_the_root_before_any_script_looks_for_it() -> None:
    answer = documents().get("/trace?trace=my-run&cycle=2")
    assert answer.headers["cache-control"] == "no-cache"
    first = re.search(r"<script.*?</script>", answer.text, re.DOTALL)
    assert first is not None and 'BACKEND_BASE_URL: new URL("./", location).href' in first[0]
    own = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
    assert answer.text.replace(first[0], "") == own


def test_a_server_below_a_path_answers_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "get_option", {"server.baseUrlPath": "/lab/eagle/"}.__getitem__)
    client = documents()
    assert client.get("/lab/eagle/library").status_code == 200
    assert client.get("/library").status_code == 404


def test_a_document_that_is_not_made_as_it_was_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<HEAD>")
    monkeypatch.setattr(file_util, "get_static_dir", lambda: str(tmp_path))
    with pytest.raises(ValueError, match="must hold <head> once"):
        page_html.routes(["trace"])
