"""The one place where Numba compiles: the :func:`kernel` decorator and the array types of signatures.

Kernels are plain functions over arrays in modules called ``kernels``. They are compiled for explicit
signatures, release the GIL and are cached on disk. What a kernel takes from other modules of the project, functions and
constants, is compiled into it; so the cache goes by the text of all of these modules, see :func:`source_digest`.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types
from numba.core import event
from numba.core.caching import UserProvidedCacheLocator

_F = TypeVar("_F", bound=Callable[..., Any])
_log = logging.getLogger("tidelog")

QUIET: Final = "TIDELOG_QUIET"
"""Set in the environment, it keeps tidelog from saying that it is compiling."""

boolean = types.boolean
u8, u16, u32, u64 = types.uint8, types.uint16, types.uint32, types.uint64
i8, i16, i32, i64 = types.int8, types.int16, types.int32, types.int64
f32, f64 = types.float32, types.float64
void = types.void


def array_in(dtype: Any, ndim: int = 1) -> Any:
    """The type of a contiguous array a kernel only reads; read-only and writable arrays both fit it."""
    return types.Array(dtype, ndim, "C", readonly=True)


def array_out(dtype: Any, ndim: int = 1) -> Any:
    """The type of a contiguous array a kernel may write."""
    return types.Array(dtype, ndim, "C")


class KernelLocator(UserProvidedCacheLocator):  # type: ignore[misc]  # Numba has no types
    """Keeps what was compiled of a module by its name and text, wherever its file is and whenever it was written.

    So a cache is good for every copy of tidelog of the same version: it can be shipped with one, or shared by several.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        self._stamp = source_digest(file)
        self._cache_path = os.path.join(numba.config.CACHE_DIR, f"{function.__module__}-{self._stamp.hex()[:16]}")

    def get_source_stamp(self) -> bytes:
        """What has to be the same for a compiled kernel to be used."""
        return self._stamp


def source_digest(file: str) -> bytes:
    """A digest of a source and of those of all modules of the project that it imports, directly or not.

    The modules are found by the lines ``from tidelog… import``, and have been imported already.
    """
    digest = hashlib.sha256()
    waiting, known = [file], {file}
    while waiting:
        source = Path(waiting.pop()).read_bytes()
        digest.update(hashlib.sha256(source).digest())
        for name in IMPORT.findall(source):
            imported = sys.modules[name.decode()].__file__
            assert imported is not None
            if imported not in known:
                known.add(imported)
                waiting.append(imported)
    return digest.digest()


IMPORT: Final = re.compile(rb"^from (tidelog(?:\.\w+)+) import ", re.MULTILINE)
"""How kernels, and what they import, import modules of the project."""


_LOCATORS = f"{__name__}.{KernelLocator.__name__},InTreeCacheLocator,UserWideCacheLocator"
"""Our own, and those that Numba would try next, should the directory turn out not to be writable after all."""


class Kernel:
    """A function that is compiled, or loaded from the cache, when it is first called: only what is used costs anything.

    After that its module has the compiled function under its name, so that calls by way of the module cost no more.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = signature
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.load_kernel()(*arguments)

    def load_kernel(self) -> Any:
        """The compiled function."""
        with _COMPILING:
            if self._compiled is None:
                self._compiled = self._made()
                names = self._function.__globals__
                if names.get(self._function.__name__) is self:
                    names[self._function.__name__] = self._compiled
        return self._compiled

    def _made(self) -> Any:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        directory = cache_directory()
        with event.install_listener("numba:compile", _LISTENER):
            if directory is None:
                return numba.njit(self._signature, **options)(self._function)
            # Numba picks the cache location while decorating; other users of Numba keep their own settings.
            before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
            numba.config.CACHE_DIR = directory
            numba.config.CACHE_LOCATOR_CLASSES = _LOCATORS
            try:
                return numba.njit(self._signature, cache=True, **options)(self._function)
            finally:
                numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before


class _Listener(event.Listener):  # type: ignore[misc]  # Numba has no types
    """Counts what is really compiled, not loaded from the cache, and says so the first time."""

    def __init__(self) -> None:
        self.compiled = 0
        self._depth = 0

    def on_start(self, event: Any) -> None:
        if not self._depth:  # helper functions are compiled within
            self.compiled += 1
            if self.compiled == 1:
                _say_compiling()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1


_COMPILING = threading.RLock()
_LISTENER = _Listener()


def compiled_here() -> int:
    """How many kernels this process has compiled, and not found in the cache."""
    return _LISTENER.compiled


def _say_compiling() -> None:
    """Tell whoever waits what for: once in a process, on standard error, unless somebody has asked for silence."""
    if os.environ.get(QUIET) or _log.disabled or _log.level > logging.WARNING:
        return
    directory = cache_directory()
    kept = f"kept in {directory}" if directory is not None else "not kept, for no directory can be written"
    with suppress(OSError, ValueError, AttributeError):  # no standard error, or a closed one
        sys.stderr.write(
            f"tidelog: compiling kernels for this machine, some seconds for each that is used the first time; they are "
            f"{kept} ('tidelog warm' compiles all of them, {QUIET}=1 silences this)\n"
        )
        sys.stderr.flush()


def kernel(signature: Any) -> Callable[[_F], _F]:
    """Compile a function for ``signature``, without the GIL, cached on disk when some directory allows it.

    That is done when it is first called (:class:`Kernel`). Array arguments must be aligned; division follows NumPy (no
    Python exceptions from kernels).
    """

    def decorate(function: _F) -> _F:
        return cast("_F", Kernel(function, signature))

    return decorate


inline = numba.njit(nogil=True, error_model="numpy", inline="never")
"""Decorator of helper functions that kernels call; compiled into them, never cached alone."""

inlined = numba.njit(nogil=True, error_model="numpy", forceinline=True, _nrt=False)
"""The same for helpers in inner loops: left to itself the compiler calls them, and a call with arrays costs more than
they do. They own nothing, and so need not count references to arrays, which costs more too."""

called = numba.njit(nogil=True, error_model="numpy", _nrt=False)
"""The same for helpers that own nothing and are too large to be everywhere."""


@functools.cache
def cache_directory() -> str | None:
    """A writable directory for compiled kernels, or None (said once in the log)."""
    for directory in _cache_candidates():
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _is_ours(directory):
                continue
            with tempfile.TemporaryFile(dir=directory):
                return str(directory)
        except OSError:
            continue
    _log.warning(
        "no writable directory for compiled kernels: they are compiled anew in every process; "
        "set TIDELOG_CACHE_DIR to a writable directory to keep them"
    )
    return None


def _is_ours(directory: Path) -> bool:
    """Whether nobody else may put files there: what is in the cache is loaded and run."""
    status = os.lstat(directory)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _cache_candidates() -> list[Path]:
    chosen = os.environ.get("TIDELOG_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    user = os.environ.get("XDG_CACHE_HOME")
    home = Path(user) if user else Path.home() / ".cache"
    return [home / "tidelog" / "kernels", Path(tempfile.gettempdir()) / f"tidelog-kernels-{os.getuid()}"]
