"""What is below a root, reached without following a link: nothing in a store leads out of it.

A store may come from somebody else, in an archive for instance, and what is a link in there could lead to any file of
whoever opens it. So only the root may be, or be reached by, a link; everything below is looked up in the directory that
it is in, and nothing but directories and regular files is used.

Linux does all of it in one call (``openat2``). Where that fails, whatever the reason, directories are entered
one by one, which tells what is in the way.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from typing import Final

from tidelog.model.errors import CorruptionError

SAFELY: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""How files are opened: no link is followed, and a pipe that has got into the place of a file is not waited for."""

_WAY: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""A directory that something is looked up in, which needs no permission to list it."""
_LIST: Final = os.O_DIRECTORY | os.O_CLOEXEC | os.O_RDONLY

_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
}

_OPENAT2: Final = ctypes.c_long(437)
_AT_FDCWD: Final = ctypes.c_long(-100)
_RESOLVE_NO_SYMLINKS: Final = 4


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZE: Final = ctypes.c_size_t(ctypes.sizeof(_OpenHow))
_syscall = ctypes.CDLL(None).syscall if sys.platform == "linux" else None
if _syscall is not None:
    _syscall.restype = ctypes.c_long
_hows: dict[tuple[int, int], object] = {}


def open_without_links(path: str, flags: int, mode: int = 0) -> int | None:
    """A descriptor of a path no part of which is a link, by one call of the system; None if that cannot be had."""
    if _syscall is None:
        return None
    how = _hows.get((flags, mode))
    if how is None:
        how = _hows[flags, mode] = ctypes.byref(_OpenHow(flags, mode, _RESOLVE_NO_SYMLINKS))
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return None
    descriptor: int = _syscall(_OPENAT2, _AT_FDCWD, encoded, how, _SIZE)
    return None if descriptor < 0 else descriptor


class Directory:
    """A directory, open until it is left; ``with`` gives its descriptor.

    ``name`` is relative to ``root``, ``""`` for the root itself. With ``listed`` it can be listed and synced, else it
    only serves to look names up. Raises :class:`CorruptionError` if a component below the root is something else than a
    directory, and errors of the system as they come.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, root: str, name: str, *, listed: bool = False) -> None:
        flags = _LIST if listed else _WAY
        descriptor = open_without_links(f"{root}/{name}", flags) if name else None
        self._descriptor = _entered(root, name, flags) if descriptor is None else descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        os.close(self._descriptor)


def _entered(root: str, name: str, flags: int) -> int:
    if not name:
        return os.open(root, flags)
    parts = name.split("/")
    descriptor = os.open(root, _WAY)
    for depth, part in enumerate(parts, 1):
        try:
            below = enter(descriptor, part, os.path.join(root, *parts[:depth]), flags if depth == len(parts) else _WAY)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def enter(above: int, part: str, path: str, flags: int = _WAY) -> int:
    """A descriptor of the directory ``part`` of an open one; ``path`` is for messages."""
    try:
        return os.open(part, flags | os.O_NOFOLLOW, dir_fd=above)
    except FileNotFoundError:
        raise
    except OSError:  # which one a link is differs between systems
        mode = os.stat(part, dir_fd=above, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            raise
        raise refusal(path, mode, "a directory") from None


def refusal(path: str, mode: int, expected: str = "a file") -> CorruptionError:
    """The error about something in a store that has no place there; ``mode`` as the system tells it."""
    found = _KINDS.get(stat.S_IFMT(mode), "something else")
    return CorruptionError(
        f"{path} is {found}; expected {expected}: a store consists of plain files and directories, and no link in it "
        "is followed. Put back what belongs there; the directory of the store itself may be a link"
    )
