"""Where compiled kernels are kept."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import numpy as np
import pytest

from tidelog import jit


@pytest.fixture(autouse=True)
def _choose_anew() -> Iterator[None]:
    jit.cache_directory.cache_clear()
    yield
    jit.cache_directory.cache_clear()


def test_the_chosen_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_CACHE_DIR", str(tmp_path / "a" / "b"))
    assert jit.cache_directory() == str(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700

    @jit.kernel(jit.i64(jit.array_in(jit.i64)))
    def total(values: np.ndarray) -> int:
        result = 0
        for value in values:
            result += value
        return result

    assert total(np.arange(10)) == 45
    assert list((tmp_path / "a" / "b").rglob("*.nbi"))


SHIPPED = """
from tidelog import jit

@jit.kernel(jit.i64(jit.i64))
def twice(x):
    return 2 * x
"""


def test_a_cache_is_good_wherever_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(folder: str, text: str, cache: str) -> tuple[int, int]:
        """Imports a module of a folder; how many kernels were found in a cache, and how many compiled."""
        monkeypatch.setenv("TIDELOG_CACHE_DIR", str(tmp_path / cache))
        jit.cache_directory.cache_clear()
        file = tmp_path / folder / "shipped_kernels.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        os.utime(file, (len(folder), len(folder)))
        spec = importlib.util.spec_from_file_location("shipped_kernels", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.twice(21) == 42
        stats = module.twice.stats
        return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())

    assert loaded("here", SHIPPED, "cache") == (0, 1)
    shutil.move(tmp_path / "cache", tmp_path / "moved")
    assert loaded("elsewhere", SHIPPED, "moved") == (1, 0)
    assert loaded("elsewhere", SHIPPED + "\n# of another version", "moved") == (0, 1)
    assert loaded("elsewhere again", SHIPPED, "moved") == (1, 0), "versions do not drive each other out"


# Indented, since the imports of this file count when a kernel of its own is compiled.
USING = dedent("""
    from tidelog.jit import i64, kernel
    from tidelog.made_up import scaled

    @kernel(i64(i64))
    def twice(x):
        return scaled(x)
""")
MADE_UP = dedent("""
    from tidelog.jit import inline
    from tidelog.made_up_constants import FACTOR

    @inline
    def scaled(x):
        return FACTOR * x
""")


def test_a_kernel_is_compiled_anew_when_what_it_takes_from_others_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def module(name: str, text: str) -> ModuleType:
        file = tmp_path / f"{name.rpartition('.')[2]}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, made)
        # Not by way of compiled bytes: they go by the time of a file, which here is the same.
        exec(compile(text, file, "exec"), vars(made))
        return made

    def outcome(factor: int, helper: str = MADE_UP) -> tuple[int, int]:
        """What the kernel says, and whether it was compiled for that."""
        module("tidelog.made_up_constants", f"FACTOR = {factor}\n")
        module("tidelog.made_up", helper)
        before = jit.compiled_here()
        return module("using_kernels", USING).twice(21), jit.compiled_here() - before

    monkeypatch.setenv("TIDELOG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDELOG_QUIET", "1")
    assert outcome(2) == (42, 1)
    assert outcome(2) == (42, 0)
    assert outcome(3) == (63, 1), "a constant that a helper takes from elsewhere"
    assert outcome(3, MADE_UP.replace("FACTOR * x", "FACTOR * x + 1")) == (64, 1), "the helper itself"
    assert outcome(2) == (42, 0)


def test_a_directory_that_others_may_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TIDELOG_CACHE_DIR", str(shared))
    with caplog.at_level(logging.WARNING, "tidelog"):
        assert jit.cache_directory() is None
        assert jit.cache_directory() is None
    assert caplog.text.count("TIDELOG_CACHE_DIR") == 1


def test_without_a_cache_kernels_still_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("TIDELOG_CACHE_DIR", str(tmp_path / "file" / "below"))

    @jit.kernel(jit.f64(jit.f64))
    def half(x: float) -> float:
        return x / 2

    assert half(3.0) == 1.5


def test_the_user_cache_comes_before_the_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TIDELOG_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jit.cache_directory() == str(tmp_path / "tidelog" / "kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    jit.cache_directory.cache_clear()
    assert str(jit.cache_directory()).startswith(str(tmp_path / "tidelog-kernels-"))


MODULE = """
from tidelog.jit import f64, kernel

@kernel(f64(f64))
def half(x):
    return x / 2

@kernel(f64(f64))
def unused(x):
    return x.no_such_thing
"""
USE = """
import logging, sys
import made_kernels as kernels
from tidelog import jit
if "silent" in sys.argv:
    logging.getLogger("tidelog").setLevel(logging.ERROR)
first = kernels.half
assert isinstance(first, jit.Kernel)
assert [kernels.half(3.0), first(4.0), kernels.half(5.0)] == [1.5, 2.0, 2.5]
assert type(kernels.half).__name__ == "CPUDispatcher", "later calls cost no more"
print(jit.compiled_here())
"""


def test_what_is_used_is_compiled_and_whoever_waits_is_told(tmp_path: Path) -> None:
    (tmp_path / "made_kernels.py").write_text(MODULE)

    def run(cache: str, *arguments: str, **environment: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", USE, *arguments],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "TIDELOG_CACHE_DIR": str(tmp_path / cache), **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip(), done.stderr

    compiled, told = run("first")
    assert compiled == "1"
    assert told.startswith("tidelog: compiling kernels for this machine")
    assert str(tmp_path / "first") in told
    assert told.count("\n") == 1
    assert run("first") == ("0", ""), "from the cache"
    assert run("second", TIDELOG_QUIET="1") == ("1", "")
    assert run("third", "silent") == ("1", "")


WARM = dedent("""
    import sys
    from tidelog.cli import warming
    if __name__ == "__main__":
        warming.kernel_modules = lambda: ["tidelog.storage.codec.numeric.pairs.kernels"]
        told = []
        done = warming.warm(lambda ready, of: told.append((ready, of)), processes=2)
        assert told == [(ready, done.kernels) for ready in range(1, done.kernels + 1)], told
        print(done.kernels, done.compiled, done.directory)
""")


def test_kernels_are_compiled_ahead_in_processes_of_their_own(tmp_path: Path) -> None:
    script = tmp_path / "warm.py"
    script.write_text(WARM)
    environment = {**os.environ, "TIDELOG_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for _ in range(2):
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        told.append(done.stdout.split())
    (kernels, compiled, directory), again = told
    assert int(kernels) > 0
    assert (compiled, directory) == (kernels, str(tmp_path / "cache"))
    assert again == [kernels, "0", directory]
