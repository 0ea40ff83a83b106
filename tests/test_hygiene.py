"""What the repository's files must not contain."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OWN_NAME = Path(__file__).name  # this file spells out what it looks for

MACHINE_PATHS = re.compile(r"(?<![\w.])(?:/(?:work|root|home|Users)/|[A-Z]:\\\\?Users\\)")
REGISTRY_HOSTS = re.compile(
    r"pypi\.org|pythonhosted|npmjs\.|debian\.org|download\.pytorch"
    r"|(?:index-url|find-links)[ =]\S*:/",
    re.IGNORECASE,
)
UNSAFE_PYTHON = re.compile(
    r"\b(?:c?[pP]ickle|dill|joblib)\.loads?\b|^\s*import pickle\b|allow_pickle\s*=\s*True"
    r"|unsafe_allow_html|unsafe_allow_javascript|trust_remote_code\W{1,4}True",
    re.MULTILINE,
)
UNSAFE_JAVASCRIPT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment"
    r"|(?<!\.)\beval\(|new Function\("
)


def texts(*suffixes: str) -> Iterable[tuple[str, str]]:
    """(name, text) of each tracked text file but this one; all of them when no suffix is given."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in names:
        path = ROOT / name
        if path.name == OWN_NAME or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" not in data[:8192] and (not suffixes or path.suffix in suffixes):
            yield name, data.decode("utf-8")


def product(*suffixes: str) -> Iterable[tuple[str, str]]:
    """The same without the tests, which may spell out what must be refused."""
    return ((name, text) for name, text in texts(*suffixes) if not name.startswith("tests/"))


def hits(pattern: re.Pattern[str], files: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r}"
        for name, text in files
        for match in pattern.finditer(text)
    ]


def unsafe_torch_loads(source: str) -> list[int]:
    """Lines of `torch.load(...)` calls that do not say weights_only=True."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "torch.load"
        and not any(
            keyword.arg == "weights_only"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is True
            for keyword in node.keywords
        )
    ]


def test_no_file_names_a_path_of_one_machine() -> None:
    assert hits(MACHINE_PATHS, texts()) == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert hits(REGISTRY_HOSTS, texts()) == []


def test_no_product_code_unpickles_or_trusts_foreign_code_or_html() -> None:
    assert hits(UNSAFE_PYTHON, product(".py")) == []


def test_torch_load_reads_weights_only() -> None:
    found = [f"{name}:{line}" for name, text in product(".py") for line in unsafe_torch_loads(text)]
    assert found == []


def test_no_browser_asset_builds_html_or_code_from_text() -> None:
    assert hits(UNSAFE_JAVASCRIPT, product(".js", ".mjs", ".html", ".py")) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATHS, 'open("/work/main/x")'),
        (MACHINE_PATHS, "cd /root/project"),
        (MACHINE_PATHS, "see /home/someone/notes"),
        (REGISTRY_HOSTS, "https://files.pythonhosted.org/packages/x"),
        (REGISTRY_HOSTS, "--index-url https://mirror.example/simple"),
        (UNSAFE_PYTHON, "import os\nimport pickle\n"),
        (UNSAFE_PYTHON, "pickle.load(file)"),
        (UNSAFE_PYTHON, "np.load(path, allow_pickle=True)"),
        (UNSAFE_PYTHON, "st.markdown(text, unsafe_allow_html=True)"),
        (UNSAFE_PYTHON, "from_pretrained(name, trust_remote_code=True)"),
        (UNSAFE_PYTHON, 'options = {"trust_remote_code": True}'),
        (UNSAFE_JAVASCRIPT, "element.innerHTML = token"),
    ],
)
def test_what_is_forbidden_is_found(pattern: re.Pattern[str], text: str) -> None:
    assert hits(pattern, [("file", text)])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATHS, "framework/main, /.work/ and a/work/b"),
        (UNSAFE_PYTHON, "from_pretrained(name, trust_remote_code=False)"),
        (UNSAFE_PYTHON, "from pickle import UnpicklingError"),
        (UNSAFE_JAVASCRIPT, "element.textContent = token"),
    ],
)
def test_what_is_harmless_is_not_found(pattern: re.Pattern[str], text: str) -> None:
    assert hits(pattern, [("file", text)]) == []


def test_a_torch_load_without_weights_only_is_found() -> None:
    source = "torch.load(a)\ntorch.load(b, weights_only=True)\ntorch.load(c, weights_only=False)"
    assert unsafe_torch_loads(source) == [1, 3]
