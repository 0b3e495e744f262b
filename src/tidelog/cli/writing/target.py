"""Where output goes: standard output, or a file that appears whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def opened(path: Path | None) -> Iterator[IO[bytes]]:
    """A file for bytes, or standard output when there is no path.

    A regular file is written beside its place and moved there when all is written, so that nobody takes a half-written
    one for the result, and an old one stays until then. Pipes and devices are written directly.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()  # a symbolic link stays, and what it leads to is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(target.parent))
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(name, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
