"""Imports point one way: kernels <- engine <- analysis <- service <- surface."""

from __future__ import annotations

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernels

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("kernels", "engine", "analysis", "service", "surface")
ABOVE_ENGINE = {
    "analysis": (
        "pairs",  # loads a target and a draft together with the provenance that a trace states
        "trace",
        "trace_file",
        "trace_check",
        "trace_values",
        "trace_limits",
        "trace_json",
        "trace_columns",
        "trace_provenance",
        "trace_words",
        "accept_walk",
        "cycle_view",
        "cycle_budget",
        "chrome_trace",
        "analysis",
        "metrics",
        "library",
        "run",
        "suite",
        "lossless",
        "training",
        "tree_choice",
    ),
    "service": ("service", "backend"),
    "surface": ("figures", "component", "export", "ui", "cli", "__main__"),
}
FORBIDDEN = {
    "kernels": {"streamlit", "plotly", "pandas", "transformers"},
    "engine": {"streamlit", "plotly", "pandas"},
    "analysis": {"streamlit", "plotly"},
    "service": {"streamlit", "plotly"},
}
LONGEST_FILE = 400
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}


def layer_of(module: str) -> str | None:
    """The layer of a dotted module name, None for one that is not ours."""
    first, *rest = module.split(".")
    if first == "kernels":
        return "kernels"
    if first in ("pages", "shell", "app"):
        return "surface"
    if first != "eagle3_viz":
        return None
    for layer, names in ABOVE_ENGINE.items():
        if rest and rest[0] in names:
            return layer
    return "engine"


def imports_of(source: str, module: str, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """Every (line, dotted name) that `source` imports, also inside functions; relative resolved.

    `from a import b` yields both "a" and "a.b", because b may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                parents = parents[: len(parents) - node.level + is_package]
                base = ".".join([*parents, *([base] if base else [])])
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    layer = layer_of(module)
    assert layer is not None, module
    found = []
    for line, name in imports_of(source, module, is_package):
        # The bare package holds no code that a layer could depend on.
        other = None if name == "eagle3_viz" else layer_of(name)
        if other is not None and LAYERS.index(other) > LAYERS.index(layer):
            found.append(f"{module}:{line} ({layer}) imports {name} ({other})")
        if name.split(".")[0] in FORBIDDEN.get(layer, set()):
            found.append(f"{module}:{line} ({layer}) imports {name}")
    return found


def tracked(suffix: str) -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    return [ROOT / name for name in names if name.endswith(suffix) and (ROOT / name).is_file()]


def product_modules() -> dict[str, Path]:
    """Dotted name to file, for every tracked Python file of the product."""
    modules = {}
    for path in tracked(".py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] in ("kernels", "eagle3_viz", "pages", "shell", "app"):
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def test_imports_point_from_the_surface_down_to_the_kernels_only() -> None:
    modules = product_modules()
    assert {"kernels", "eagle3_viz.records", "eagle3_viz.trace"} <= set(modules)
    found = [
        violation
        for module, path in modules.items()
        for violation in violations(path.read_text("utf-8"), module, path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


def test_figures_are_made_from_traces_without_a_page_or_a_model() -> None:
    forbidden = {"streamlit", "torch", "transformers", "eagle3_viz.service", "eagle3_viz.backend"}
    modules = product_modules()
    found = [
        f"{module}:{line} imports {name}"
        for module, path in modules.items()
        if module.startswith("eagle3_viz.figures")
        for line, name in imports_of(path.read_text("utf-8"), module, path.name == "__init__.py")
        if name in forbidden or name.split(".")[0] in forbidden
    ]
    assert not found, "\n".join(found)


def test_only_the_program_itself_builds_on_its_command_line() -> None:
    modules = product_modules()
    found = [
        f"{module}:{line} imports {name}"
        for module, path in modules.items()
        if not module.startswith("eagle3_viz.cli") and module != "eagle3_viz.__main__"
        for line, name in imports_of(path.read_text("utf-8"), module, path.name == "__init__.py")
        if name.startswith("eagle3_viz.cli")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kernels.topk", "import eagle3_viz.records"),
        ("kernels.topk", "from eagle3_viz import tree"),
        ("eagle3_viz.decode", "from eagle3_viz import trace"),
        ("eagle3_viz.decode", "from . import service"),
        ("eagle3_viz.drafts.eagle3", "from ..metrics import tau"),
        ("eagle3_viz.drafts.eagle3", "def f():\n    import eagle3_viz.figures.tree"),
        ("eagle3_viz.trace", "from eagle3_viz.service import Engine"),
        ("eagle3_viz.service", "import app"),
        ("eagle3_viz.service", "from pages import live"),
        ("eagle3_viz.records", "import pandas as pd"),
        ("eagle3_viz.tree", "from plotly import graph_objects"),
        ("eagle3_viz.metrics", "import streamlit.components"),
    ],
)
def test_an_import_that_points_up_is_found(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("eagle3_viz.decode", "import kernels.topk"),
        ("eagle3_viz.decode", "from eagle3_viz import tree, records"),
        ("eagle3_viz.drafts.eagle3", "from . import base\nfrom ..tree import DraftTree"),
        ("eagle3_viz.metrics", "import pandas\nfrom eagle3_viz.trace import Trace"),
        ("pages.live", "import streamlit\nfrom eagle3_viz.service import Engine"),
    ],
)
def test_an_import_that_points_down_is_allowed(module: str, source: str) -> None:
    assert not violations(source, module)


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    modules = product_modules()
    graph = {
        module: {
            name
            for _, name in imports_of(path.read_text("utf-8"), module, path.name == "__init__.py")
            if name in modules and name not in (module, "eagle3_viz")
        }
        for module, path in modules.items()
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_kernels_names_no_version_that_a_hub_probe_could_find() -> None:
    assert not hasattr(kernels, "__version__")
    for module, path in product_modules().items():
        if layer_of(module) == "kernels":
            assert "__version__" not in path.read_text("utf-8"), path


def ask(script: str, *path: Path) -> str:
    """Standard output of `script` in a fresh interpreter that finds our `kernels`, then `path`."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(entry) for entry in (ROOT, *path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def hub_distribution(tmp_path: Path) -> Path:
    """A folder with the metadata of an installed hub library, of a version transformers accepts."""
    version = ask("from transformers.utils import import_utils as u; print(u.KERNELS_MIN_VERSION)")
    info = tmp_path / f"kernels-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n")
    return tmp_path


REPORT = "from transformers.utils import is_kernels_available as a; print(a())"


def test_transformers_reports_hub_kernels_unavailable_beside_our_kernels() -> None:
    assert ask(f"import kernels; {REPORT}") == "False"


def test_transformers_reports_hub_kernels_unavailable_with_the_hub_library_installed(
    hub_distribution: Path,
) -> None:
    assert ask(REPORT, hub_distribution) == "True", "without this package the probe is fooled"
    assert ask(f"import eagle3_viz; {REPORT}", hub_distribution) == "False"
    assert ask(f"import kernels, eagle3_viz; {REPORT}", hub_distribution) == "False"


def test_our_kernels_stay_importable_with_the_hub_library_installed(hub_distribution: Path) -> None:
    script = "import kernels as k, eagle3_viz, kernels as j; print(k is j, k.__file__)"
    assert ask(script, hub_distribution) == f"True {ROOT / 'kernels' / '__init__.py'}"
    script = "import eagle3_viz, kernels; print(kernels.__file__)"
    assert ask(script, hub_distribution) == str(ROOT / "kernels" / "__init__.py")


@pytest.mark.slow
def test_models_import_with_the_hub_library_installed(hub_distribution: Path) -> None:
    script = "import eagle3_viz, transformers.modeling_utils; print('imported')"
    assert ask(script, hub_distribution) == "imported"


def test_no_python_file_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): line_count(path) for path in tracked(".py")}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def line_count(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_every_python_file_is_named_for_what_it_does() -> None:
    assert [path for path in tracked(".py") if path.stem in VAGUE_NAMES] == []
