"""Where the library is, and what ships with the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_viz.library import place


def test_the_folder_is_the_one_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_LIBRARY", str(tmp_path))
    assert place.shared().folder == tmp_path
    assert place.shared() is place.shared()


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.local/share"),
        ("linux", {"XDG_DATA_HOME": "data"}, "data"),
        ("darwin", {}, "home/Library/Application Support"),
        ("win32", {}, "home/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "local"}, "local"),
    ],
)
def test_the_folder_is_among_the_users_data_otherwise(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("EAGLE3_VIZ_LIBRARY", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(place.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    assert place.folder() == Path(expected) / "eagle3_viz" / "traces"


def test_a_checkout_without_shipped_traces_has_an_empty_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_LIBRARY", str(tmp_path / "own"))
    monkeypatch.setattr(place, "_SHIPPED", tmp_path / "absent")
    assert place.shared().entries() == ()


def test_every_shipped_trace_opens_and_says_its_method_and_domain() -> None:
    shipped = place.shared().shipped
    assert shipped is not None
    files = sorted(shipped.glob("*.parquet")) if shipped.is_dir() else []
    for path in files:
        entry = place.shared().entry(f"shipped-{path.stem}")
        assert f"{entry.method}-{entry.domain}" == path.stem
        assert place.shared().open(entry.id).cycles
