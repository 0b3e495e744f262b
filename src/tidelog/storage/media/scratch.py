"""Directories for what does not fit into memory: each belongs to a process, and goes with it.

.. code-block:: text

    tmp/<name>/         of one owner, who alone knows what is in it
    tmp/<name>.lock     held by the owner; made before the directory, and removed after it

One whose lock nobody holds was left by a process that has ended, however it did: whoever comes next removes it. They
are in the store, whose disk is the one that is meant for much, and where that cannot be written, in the directory for
temporary files of the system, below one of the user's own.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.model.errors import LockedError, StorageError
from tidelog.storage.media.directories import Directory
from tidelog.storage.media.file_medium import FileMedium
from tidelog.storage.media.lock import Lock
from tidelog.storage.media.medium import Medium

SCRATCH: Final = "tmp"
_LOCK: Final = ".lock"
_NAME: Final = re.compile(r"[0-9a-f]{16}")
_ATTEMPTS: Final = 100
"""How often others may remove what is empty under our feet before we stop following."""


class Scratch:
    """A directory of one owner, until :meth:`remove`. A forked child does not own it, and removes nothing."""

    def __init__(self, medium: FileMedium, name: str, lock: Lock, *, is_system: bool) -> None:
        self.path = medium.root / SCRATCH / name
        self.is_system = is_system
        """Whether it is one of the system's and not in the store."""
        self._medium = medium
        self._name = name
        self._lock = lock

    def remove(self) -> None:
        """Remove it, and what is in it; does nothing the second time."""
        if not self._lock.held:
            return
        root = self._medium.root
        _remove(root, self._name)
        self._lock.release()
        with suppress(OSError):  # somebody else has one there
            os.rmdir(root / SCRATCH)
            if self.is_system:
                os.rmdir(root)


def make_scratch(medium: Medium | None) -> Scratch:
    """A new directory in a store; in the system's directory if that is none of files, or cannot be written."""
    if isinstance(medium, FileMedium):
        with suppress(StorageError):  # read-only, full, without locks
            return _made(medium, is_system=False)
    with suppress(StorageError):
        return _made(FileMedium(_of_user()), is_system=True)
    # Something else has the place of the user's own.
    return _made(FileMedium(tempfile.mkdtemp(prefix="tidelog-")), is_system=True)


def sweep_scratch(medium: Medium) -> list[str]:
    """Remove directories whose owners have ended; returns their names."""
    if not isinstance(medium, FileMedium):
        return []
    root = medium.root
    try:
        with Directory(str(root), SCRATCH, listed=True) as inside:
            names = {name.removesuffix(_LOCK) for name in os.listdir(inside)}
    except OSError:  # as a rule there is none
        return []
    removed = []
    for name in sorted(filter(_NAME.fullmatch, names)):
        path = f"{SCRATCH}/{name}"
        if medium.is_locked(path + _LOCK):
            continue
        with suppress(StorageError), medium.lock(path + _LOCK):
            _remove(root, name)
            removed.append(path)
    with suppress(OSError):
        os.rmdir(root / SCRATCH)
    return removed


def _made(medium: FileMedium, *, is_system: bool) -> Scratch:
    sweep_scratch(medium)
    for _ in range(_ATTEMPTS):
        name = secrets.token_hex(8)
        medium.make_directory(SCRATCH)
        try:
            lock = medium.lock(f"{SCRATCH}/{name}{_LOCK}")
        except StorageError as error:
            if isinstance(error, LockedError) or error.errno == errno.ENOENT:  # swept, or removed while it was empty
                continue
            raise
        made = Scratch(medium, name, lock, is_system=is_system)
        try:
            medium.make_directory(f"{SCRATCH}/{name}")
        except BaseException:
            made.remove()
            raise
        return made
    raise StorageError(f"cannot make a directory in {medium.root / SCRATCH}: it is removed again and again")


def _remove(root: Path, name: str) -> None:
    """Remove a directory, then its lock, which the caller holds; as far as possible, and following no link."""
    with suppress(OSError), Directory(str(root), SCRATCH) as inside:
        shutil.rmtree(name, ignore_errors=True, dir_fd=inside)
        os.unlink(name + _LOCK, dir_fd=inside)


def _of_user() -> Path:
    """The user's own directory in that of the system. Raises :class:`StorageError` if it is somebody else's."""
    path = Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise StorageError(f"{path} is not a directory of this user alone")
    return path
