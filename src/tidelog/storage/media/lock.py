"""Locks between writers: taken at once or refused, and gone with the process that took them.

A lock is a POSIX record lock on a lock file. The kernel releases it when its process ends, however it ends,
and a forked child does not own it. Two properties of record locks need care:

* They exclude nobody within one process. A registry of this process's locks does, by device and inode, so
  that two paths to one file are one lock.
* Closing *any* descriptor of the file releases the lock of the whole process. Therefore nothing opens a lock
  file while this process holds its lock: see :func:`refuse_held_file`.

An interrupt can come between the moment a lock is taken and that in which its taker knows it. Then nobody refers to it
any more, and it is released like any other garbage; who finds a lock held by this process has that collected first.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import io
import os
import stat
import struct
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

from tidelog.model.errors import LockedError, StorageError
from tidelog.storage.media.directories import SAFELY, refusal
from tidelog.storage.media.os_errors import storage_error

_ATTEMPTS = 100
"""How often a lock file may be deleted under our feet before we stop following."""

_FLOCK = "@qqihh" if sys.platform == "darwin" else "@hhqqi0q"
"""``struct flock``; of macOS: start, length, pid, type, whence; of 64-bit Linux: type, whence, start, length, pid."""


class Lock(ABC):
    """A lock held by this process until :meth:`release`, or until the process ends.

    Usable as a context manager. In a forked child ``held`` is false and ``release`` does nothing.
    """

    name: str

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether this process holds the lock through this object."""

    @property
    def excludes(self) -> bool:
        """Whether others who want the lock find it: not if its file was removed, for example with its directory."""
        return self.held

    @abstractmethod
    def release(self) -> None:
        """Give the lock up; does nothing when it is not held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _Held:
    """What this process has open of a lock file while it holds the lock."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        # Files that know whether they are closed: the number of one may be another's by the time of a second attempt.
        self.files = [io.FileIO(descriptor, "r+")]

    def close(self) -> None:
        """Close the lock file, which releases what this process holds on it. Goes on where it was interrupted."""
        while self.files:
            self.files[-1].close()
            self.files.pop()

    def keep_open(self, descriptor: int) -> None:
        """Take over a second descriptor of the lock file: closing it now would release the lock."""
        self.files.append(io.FileIO(descriptor, "r+"))


class FileLock(Lock):
    """A lock on a lock file; made by :func:`lock_file`. Released when it is garbage."""

    def __init__(self, identity: tuple[int, int], held: _Held) -> None:
        self.name = held.name
        self._identity = identity
        self._held = held
        self._owner = os.getpid()

    @property
    def held(self) -> bool:
        """Whether this process holds the lock through this object."""
        return bool(self._held.files) and self._owner == os.getpid()

    @property
    def excludes(self) -> bool:
        """Whether others who want the lock find it: not if its file was removed, for example with its directory."""
        return self.held and os.fstat(self._held.files[0].fileno()).st_nlink > 0

    def release(self) -> None:
        """Give the lock up; does nothing when it is not held."""
        with _registry.mutex:
            if self.held:
                self._held.close()
            if _registry.locks.get(self._identity) is self._held:
                del _registry.locks[self._identity]

    def __del__(self) -> None:
        if hasattr(self, "_owner"):  # or it was never made
            self.release()


class _Registry:
    """The locks held by this process, by (device, inode) of their lock files."""

    def __init__(self) -> None:
        # Re-entrant: garbage may be collected at any moment, and a lock with it.
        self.mutex = threading.RLock()
        self.locks: dict[tuple[int, int], _Held] = {}

    def forget_locks_of_parent(self) -> None:
        """In a forked child: it owns none of them, so closing its copies releases nothing of the parent's.

        They are closed now because later it would release a lock the child may have taken itself.
        """
        self.mutex = threading.RLock()  # another thread of the parent may have held it
        for held in self.locks.values():
            held.close()
        self.locks.clear()


_registry = _Registry()
os.register_at_fork(after_in_child=_registry.forget_locks_of_parent)


def lock_file(inside: int, leaf: str, path: str, name: str) -> Lock:
    """Take the lock that the file ``leaf`` of an open directory stands for, creating the file if it is missing.

    Raises :class:`LockedError` at once when another process, or this one, holds it. The file must not be
    deleted while writers may want it; its content (process and host of the last holder) only serves messages.
    ``path`` is for these too. Errors of the system come as they are.
    """
    with _registry.mutex:
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError):
                _refuse_unfit(os.stat(leaf, dir_fd=inside, follow_symlinks=False), path)
            descriptor = os.open(leaf, os.O_RDWR | os.O_CREAT | SAFELY, 0o666, dir_fd=inside)
            lock = _lock_descriptor(descriptor, inside, leaf, path, name)
            if lock is not None:
                return lock
    raise StorageError(f"cannot lock {path}: the file is deleted again and again; stop whoever deletes it")


def is_lock_of_this_process(path: str) -> bool:
    """Whether this process holds the lock that the file at ``path`` stands for."""
    if _registry.locks:
        with suppress(OSError):
            status = os.lstat(path)
            return (status.st_dev, status.st_ino) in _registry.locks
    return False


def is_lock_held(inside: int, leaf: str, path: str) -> bool:
    """Whether any process holds the lock of the file ``leaf`` of an open directory; takes and creates nothing.

    Errors of the system come as they are.
    """
    with _registry.mutex:
        status = os.stat(leaf, dir_fd=inside, follow_symlinks=False)
        if (status.st_dev, status.st_ino) in _registry.locks:
            return True
        if not stat.S_ISREG(status.st_mode):
            raise refusal(path, status.st_mode)
        descriptor = os.open(leaf, os.O_RDONLY | SAFELY, dir_fd=inside)
        held_here = _held_here(descriptor)
        if held_here is not None:
            held_here.keep_open(descriptor)
            return True
        try:
            return _excluding_process(descriptor) is not None
        finally:
            os.close(descriptor)


def refuse_held_file(path: str) -> None:
    """Raise :class:`LockedError` if ``path`` is the file of a lock this process holds.

    To be called before opening or removing any file that might be a lock file.
    """
    if _registry.locks:
        try:
            status = os.lstat(path)
        except OSError:  # nothing there, or nothing we may look at: opening it will tell
            return
        with _registry.mutex:
            _refuse_held(status, path)


def _refuse_unfit(status: os.stat_result, path: str) -> None:
    """Raise unless something can be locked by this process."""
    _refuse_held(status, path)
    if not stat.S_ISREG(status.st_mode):
        raise refusal(path, status.st_mode)


def _refuse_held(status: os.stat_result, path: str) -> None:
    identity = status.st_dev, status.st_ino
    if identity in _registry.locks:
        gc.collect()  # it may be one that nobody knows any more
    if identity in _registry.locks:
        raise LockedError(
            f"{path} is a lock held by this process (pid {os.getpid()}); "
            "close the writer that holds it, or share that writer"
        )


def _lock_descriptor(descriptor: int, inside: int, leaf: str, path: str, name: str) -> FileLock | None:
    """Lock an open lock file; None when its name meanwhile leads to another file."""
    held_here = _held_here(descriptor)
    if held_here is not None:
        held_here.keep_open(descriptor)
        raise LockedError(f"{path} is a lock held by this process (pid {os.getpid()}) as {held_here.name}")
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # exchanged since we had looked
        os.close(descriptor)
        raise refusal(path, status.st_mode)
    identity = (status.st_dev, status.st_ino)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _leads_to(inside, leaf, identity):
            os.close(descriptor)
            return None
    except OSError as error:
        holder = _describe_holder(descriptor)
        os.close(descriptor)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise LockedError(f"lock {path} is held by {holder}; close that writer or wait until it ends") from error
        raise storage_error(f"lock {path}", error) from error
    held = _Held(name, descriptor)
    lock = FileLock(identity, held)
    try:
        _registry.locks[identity] = held
        _sign(descriptor)
    except BaseException:  # an interrupt: whoever handles it may keep this frame, and so the lock
        lock.release()
        raise
    return lock


def _held_here(descriptor: int) -> _Held | None:
    """The lock of this process on the file just opened, if its path was redirected after we had looked."""
    status = os.fstat(descriptor)
    return _registry.locks.get((status.st_dev, status.st_ino))


def _leads_to(inside: int, leaf: str, identity: tuple[int, int]) -> bool:
    try:
        status = os.stat(leaf, dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == identity


def _sign(descriptor: int) -> None:
    """Write who we are into the lock file."""
    signature = f"{os.getpid()} {os.uname().nodename}\n".encode()
    with suppress(OSError):  # only messages need it; the lock holds without, for example on a full disk
        os.pwrite(descriptor, signature, 0)
        os.ftruncate(descriptor, len(signature))


def _describe_holder(descriptor: int) -> str:
    """Who holds the lock, as far as the kernel or the lock file can tell."""
    process: int | None = None
    signed: list[str] = []
    with suppress(OSError):  # this is for a message about another failure
        process = _excluding_process(descriptor)
        signed = os.pread(descriptor, 256, 0).decode("utf-8", "replace").split()
    if len(signed) == 2 and (not process or signed[0] == str(process)):
        return f"process {signed[0]} on {signed[1]}"
    return f"process {process}" if process else "another process"


def _excluding_process(descriptor: int) -> int | None:
    """The process whose lock on the file excludes ours, None if there is none.

    0 stands for a process that has no number here: on another machine or in another pid namespace.
    """
    question: tuple[int, ...] = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    if sys.platform == "darwin":
        question = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
    answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *question)))
    kind, process = (answer[3], answer[2]) if sys.platform == "darwin" else (answer[0], answer[4])
    return None if kind == fcntl.F_UNLCK else max(process, 0)
