"""The one place where Numba compiles: the :func:`kernel` decorator and the array types of signatures.

Kernels are plain functions over arrays in modules called ``kernels``. They are compiled for explicit
signatures, release the GIL and are cached on disk. A kernel calls only functions of its own module: Numba's
cache notices changes of the file a kernel stands in, and would go on using a stale copy of a function
inlined from another one.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core.caching import UserProvidedCacheLocator

_F = TypeVar("_F", bound=Callable[..., Any])
_log = logging.getLogger("tidelog")

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
        text = self.get_source_stamp().hex()[:16]
        self._cache_path = os.path.join(numba.config.CACHE_DIR, f"{function.__module__}-{text}")


_LOCATORS = f"{__name__}.{KernelLocator.__name__},InTreeCacheLocator,UserWideCacheLocator"
"""Our own, and those that Numba would try next, should the directory turn out not to be writable after all."""


def kernel(signature: Any) -> Callable[[_F], _F]:
    """Compile a function for ``signature``, without the GIL, cached on disk when some directory allows it.

    Array arguments must be aligned; division follows NumPy (no Python exceptions from kernels).
    """

    def decorate(function: _F) -> _F:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        directory = _cache_directory()
        if directory is None:
            compiled: _F = numba.njit(signature, **options)(function)
            return compiled
        # Numba picks the cache location while decorating; other users of Numba keep their own settings.
        before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_DIR = directory
        numba.config.CACHE_LOCATOR_CLASSES = _LOCATORS
        try:
            compiled = numba.njit(signature, cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before
        return compiled

    return decorate


inline = numba.njit(nogil=True, error_model="numpy", inline="never")
"""Decorator of helper functions that kernels of the same module call; compiled into them, never cached alone."""


@functools.cache
def _cache_directory() -> str | None:
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
