"""A medium in memory, with two seams for what builds on it: faults before, a log behind every change."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from support.media.content import Content, Image
from support.media.operations import (
    Create,
    FailedSync,
    Link,
    MakeDirectory,
    Operation,
    Remove,
    Sync,
    SyncNames,
    Truncate,
    Write,
)
from tidelog.model.errors import (
    ClosedError,
    CorruptionError,
    ExistsError,
    LockedError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from tidelog.storage.media.files import bytes_of, check_range, failed_before
from tidelog.storage.media.medium import File, Lock, Medium, Readable, Writable, check_name
from tidelog.storage.media.os_errors import storage_error


@dataclass
class Inode:
    """A file apart from its names; its image is shared until the first change."""

    number: int
    image: Image
    _own: Content | None = None

    @property
    def content(self) -> Content:
        return self._own if self._own is not None else self.image.content

    def change(self) -> Content:
        """The content, for changing it."""
        if self._own is None:
            self._own = self.image.content.copy()
        return self._own


@dataclass
class Snapshot:
    """The files of a medium: what its names lead to and what that contains. Never changed once made."""

    names: dict[str, int] = field(default_factory=dict)
    images: dict[int, Image] = field(default_factory=dict)
    directories: frozenset[str] = frozenset({""})

    @property
    def identity(self) -> Hashable:
        """Equal for snapshots that nobody who opens files by their names can tell apart."""
        linked: dict[int, list[str]] = {}
        for name, inode in self.names.items():
            linked.setdefault(inode, []).append(name)
        files = frozenset((frozenset(names), self.images[inode].digest) for inode, names in linked.items())
        return self.directories, files


@dataclass(frozen=True)
class Failure:
    """An operation is to fail: with which errno, and after how many bytes of a write."""

    errno: int
    keep: int = 0

    def error(self, action: str) -> StorageError:
        return storage_error(action, OSError(self.errno, os.strerror(self.errno)))


class MemoryMedium(Medium):
    """Files in memory, forgotten with the object."""

    def __init__(self, start: Snapshot | None = None) -> None:
        start = start if start is not None else Snapshot()
        inodes = {number: Inode(number, image) for number, image in start.images.items()}
        self._mutex = threading.RLock()
        self._names = {name: inodes[number] for name, number in start.names.items()}
        self._directories = set(start.directories)
        self._next_inode = max(start.images, default=-1) + 1
        self._locks: set[int] = set()

    # The two seams. -------------------------------------------------------------------------------

    def _begin(self, kind: str, name: str) -> Failure | None:
        """Called without the mutex before a change of the given kind; may block, or order a failure."""
        return None

    def _record(self, operation: Operation) -> None:
        """Called with the mutex held, behind the change."""

    def _position(self) -> int:
        """The length of the log, if there is one."""
        return 0

    # The contract. --------------------------------------------------------------------------------

    def create(self, name: str) -> File:
        self._admit("create", name)
        with self._mutex:
            return _MemoryFile(self, name, self._create(name), writable=True)

    def open(self, name: str, writable: bool = False) -> File:
        with self._mutex:
            inode = self._find("open", name)
            self._refuse_held(inode, name)
            return _MemoryFile(self, name, inode, writable=writable)

    def exists(self, name: str) -> bool:
        if check_name(name) in self._directories:
            raise CorruptionError(f"{name} is a directory; expected a file")
        return name in self._names

    def names(self, prefix: str = "") -> list[str]:
        with self._mutex:
            return sorted(name for name in self._names if name.startswith(prefix))

    def remove(self, name: str) -> None:
        self._admit("remove", name)
        with self._mutex:
            inode = self._find("remove", name)
            self._refuse_held(inode, name)
            del self._names[name]
            self._record(Remove(name, inode.number))

    def link(self, source: str, target: str) -> bool:
        self._admit("link", target)
        with self._mutex:
            inode = self._find("link", source)
            if check_name(target) in self._names or target in self._directories:
                return False
            self._check_directory(target)
            self._names[target] = inode
            self._record(Link(source, target, inode.number))
            return True

    def sync_names(self, directory: str = "") -> None:
        covers = self._position()
        self._admit("sync_names", directory)
        with self._mutex:
            if directory not in self._directories:
                raise NotFoundError(f"cannot sync directory {directory!r}: it does not exist")
            self._record(SyncNames(directory, covers))

    def make_directory(self, *names: str) -> None:
        for name in names:
            self._admit("make_directory", name)
            with self._mutex:
                parts = check_name(name).split("/") if name else []
                for depth in range(1, len(parts) + 1):
                    directory = "/".join(parts[:depth])
                    if directory in self._names:
                        raise CorruptionError(f"{directory} is a file; expected a directory")
                    if directory not in self._directories:
                        self._directories.add(directory)
                        self._record(MakeDirectory(directory))

    def lock(self, name: str) -> Lock:
        with self._mutex:
            inode = self._names.get(check_name(name)) or self._create(name)
            self._refuse_held(inode, name)
            self._locks.add(inode.number)
            return _MemoryLock(self, name, inode.number)

    def is_locked(self, name: str) -> bool:
        with self._mutex:
            inode = self._names.get(check_name(name))
            return inode is not None and inode.number in self._locks

    def _admit(self, kind: str, name: str) -> None:
        failure = self._begin(kind, name)
        if failure is not None:
            raise failure.error(f"{kind} {name}")

    def _create(self, name: str) -> Inode:
        if check_name(name) in self._names or name in self._directories:
            raise ExistsError(f"cannot create {name}: it exists; open it, or choose another name")
        self._check_directory(name)
        inode = self._names[name] = Inode(self._next_inode, Image.of(Content()))
        self._next_inode += 1
        self._record(Create(name, inode.number))
        return inode

    def _find(self, action: str, name: str) -> Inode:
        inode = self._names.get(check_name(name))
        if inode is None:
            if name in self._directories:
                raise StorageError(f"cannot {action} {name}: it is not a regular file")
            raise NotFoundError(f"cannot {action} {name}: there is no such file")
        return inode

    def _check_directory(self, name: str) -> None:
        if os.path.dirname(check_name(name)) not in self._directories:
            raise NotFoundError(f"cannot create {name}: make its directory first")

    def _refuse_held(self, inode: Inode, name: str) -> None:
        if inode.number in self._locks:
            raise LockedError(f"{name} is a lock held by this process")


class _MemoryLock(Lock):
    def __init__(self, medium: MemoryMedium, name: str, inode: int) -> None:
        self.name = name
        self._medium = medium
        self._inode: int | None = inode

    @property
    def held(self) -> bool:
        return self._inode is not None

    def release(self) -> None:
        with self._medium._mutex:
            if self._inode is not None:
                self._medium._locks.discard(self._inode)
                self._inode = None


class _MemoryFile(File):
    def __init__(self, medium: MemoryMedium, name: str, inode: Inode, *, writable: bool) -> None:
        self.name = name
        self._medium = medium
        self._inode = inode
        self._writable = writable
        self._closed = False
        self._failure: StorageError | None = None

    def read(self, offset: int, length: int) -> bytes:
        self._check_open()
        check_range(offset, length, self.name)
        with self._medium._mutex:
            return self._inode.content.read(offset, length)

    def read_into(self, offset: int, buffer: Writable) -> int:
        target = bytes_of(buffer)
        data = self.read(offset, len(target))
        target[: len(data)] = data
        return len(data)

    def view(self, offset: int, length: int) -> memoryview:
        return memoryview(self.read(offset, length))

    def write(self, offset: int, *buffers: Readable) -> None:
        self._check_writable()
        check_range(offset, 0, self.name)
        data = b"".join(bytes_of(buffer) for buffer in buffers)
        failure = self._medium._begin("write", self.name)
        if failure is not None:
            self._put(offset, data[: failure.keep])
            raise failure.error(f"write {len(data)} bytes at {offset} of {self.name}")
        self._put(offset, data)

    def write_through(self, offset: int, data: bytes) -> None:
        self._check_writable()
        check_range(offset, 0, self.name)
        failure = self._medium._begin("write", self.name)
        if failure is not None:
            self._put(offset, data[: failure.keep])
            self._failure = failure.error(f"write and sync {len(data)} bytes at {offset} of {self.name}")
            raise self._failure
        position = self._put(offset, data)
        self._sync(position + 1, since=position)

    def sync(self) -> None:
        self._check_writable()
        self._sync(self._medium._position())

    def _sync(self, covers: int, since: int = 0) -> None:
        failure = self._medium._begin("sync", self.name)
        with self._medium._mutex:
            if failure is not None:
                self._medium._record(FailedSync(self._inode.number, covers, since))
                self._failure = failure.error(f"sync {self.name}")
                raise self._failure
            self._medium._record(Sync(self._inode.number, covers, since))

    def size(self) -> int:
        self._check_open()
        return self._inode.content.size

    def truncate(self, size: int) -> None:
        self._check_writable()
        check_range(size, 0, self.name)
        self._medium._admit("truncate", self.name)
        with self._medium._mutex:
            self._inode.change().resize(size)
            self._medium._record(Truncate(self._inode.number, size))

    def shared(self) -> File:
        self._check_open()
        return _MemoryFile(self._medium, self.name, self._inode, writable=False)

    def close(self) -> None:
        self._closed = True

    def _put(self, offset: int, data: bytes) -> int:
        """Returns the position of the write in the log."""
        with self._medium._mutex:
            position = self._medium._position()
            if data:
                self._inode.change().write(offset, data)
                self._medium._record(Write(self._inode.number, offset, data))
            return position

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.name} was closed; open it again")

    def _check_writable(self) -> None:
        self._check_open()
        if not self._writable:
            raise ReadOnlyError(f"{self.name} was opened for reading; open it with writable=True")
        if self._failure is not None:
            raise failed_before(self.name, self._failure)
