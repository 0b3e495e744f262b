"""Where compiled kernels are kept."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tidelog import jit


@pytest.fixture(autouse=True)
def _choose_anew() -> Iterator[None]:
    jit._cache_directory.cache_clear()
    yield
    jit._cache_directory.cache_clear()


def test_the_chosen_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_CACHE_DIR", str(tmp_path / "a" / "b"))
    assert jit._cache_directory() == str(tmp_path / "a" / "b")
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
        jit._cache_directory.cache_clear()
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


def test_a_directory_that_others_may_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TIDELOG_CACHE_DIR", str(shared))
    with caplog.at_level(logging.WARNING, "tidelog"):
        assert jit._cache_directory() is None
        assert jit._cache_directory() is None
    assert len(caplog.records) == 1
    assert "TIDELOG_CACHE_DIR" in caplog.text


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
    assert jit._cache_directory() == str(tmp_path / "tidelog" / "kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    jit._cache_directory.cache_clear()
    assert str(jit._cache_directory()).startswith(str(tmp_path / "tidelog-kernels-"))
