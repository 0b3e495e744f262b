"""A directory that behaves like a small disk: once it is full, growing a file fails as it does there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BLOCK = 4096


def used(root: Path) -> int:
    """Bytes of the blocks that files under a directory take."""
    return sum(_blocks(file.stat().st_size) for file in root.rglob("*") if file.is_file())


def limit_disk(monkeypatch: pytest.MonkeyPatch, root: Path) -> Callable[[int | None], None]:
    """Returns a function that says how many bytes there is room for under ``root`` from now on; None: no limit."""
    capacity: list[int | None] = [None]
    pwrite, pwritev = os.pwrite, os.pwritev

    def check(descriptor: int, size: int, offset: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if capacity[0] is None or not path.startswith(str(root)):
            return
        grown = _blocks(offset + size) - _blocks(os.fstat(descriptor).st_size)
        if grown > 0 and used(root) + grown > capacity[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def checked_pwrite(descriptor: int, data: Any, offset: int) -> int:
        check(descriptor, len(data), offset)
        return pwrite(descriptor, data, offset)

    def checked_pwritev(descriptor: int, buffers: Any, offset: int, flags: int = 0) -> int:
        check(descriptor, sum(memoryview(each).nbytes for each in buffers), offset)
        return pwritev(descriptor, buffers, offset, flags)

    monkeypatch.setattr(os, "pwrite", checked_pwrite)
    monkeypatch.setattr(os, "pwritev", checked_pwritev)

    def limit(size: int | None) -> None:
        capacity[0] = size

    return limit


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
