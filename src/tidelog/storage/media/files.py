"""One open file: the contract, and its implementation on a local POSIX file system."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from tidelog.model.closing import Closing
from tidelog.model.errors import ClosedError, InputError, ReadOnlyError, StorageError
from tidelog.storage.media.os_errors import storage_error

if TYPE_CHECKING:
    import numpy.typing as npt
    from _typeshed import ReadableBuffer, WriteableBuffer

# The stubs of NumPy declare the buffer protocol for Python 3.12 and later only.
Readable: TypeAlias = "ReadableBuffer | npt.NDArray[Any]"
"""Any C-contiguous object with the buffer protocol: bytes, memoryview, NumPy array, Arrow buffer."""
Writable: TypeAlias = "WriteableBuffer | npt.NDArray[Any]"
"""A :data:`Readable` that may be written to."""

_IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)
_WRITES_THROUGH = hasattr(os, "RWF_DSYNC")
_NOT_KNOWN = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""Errors of systems, and file systems, that do not know how to write and sync in one call."""

_UNCHECKED_READ = 1 << 20
"""Reads up to this size allocate what was asked for; longer ones look at the size of the file first."""


class Content(Protocol):
    """What is read of a file by those who look at its structure: an open one, or one that was read as a whole."""

    @property
    def name(self) -> str:
        """The name of the file, for messages."""

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer only where the file ends."""

    def size(self) -> int:
        """The current length in bytes."""


class File(Closing):
    """One open file.

    All methods may be called from any thread; I/O is positional and has no common position. Failures of the
    system raise :class:`StorageError` naming the file, with ``errno`` set; use after :meth:`close` raises
    :class:`ClosedError`; writing to a file opened for reading raises :class:`ReadOnlyError`; negative offsets
    and lengths raise :class:`InputError`.
    """

    name: str
    maps = False
    """Whether :meth:`view` costs no copy."""

    @abstractmethod
    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer only where the file ends."""

    @abstractmethod
    def read_into(self, offset: int, buffer: Writable) -> int:
        """Fill ``buffer`` from ``offset``; returns how many bytes came, fewer only where the file ends."""

    @abstractmethod
    def view(self, offset: int, length: int) -> memoryview:
        """Like :meth:`read`, as a read-only view that outlives the file object; mapped where the medium maps.

        A mapped view shows later writes to its range: take views of bytes that no longer change. Never
        truncate a file under a live mapped view: touching the bytes that are gone kills the process
        (SIGBUS), as does a device that fails to deliver a mapped page. Bytes cut off *before* the view is
        taken are simply not part of it.
        """

    @abstractmethod
    def write(self, offset: int, *buffers: Readable) -> None:
        """Write all buffers, one behind the other, from ``offset``; a gap to the former end reads as zeros.

        After an error any part of them may have been written.
        """

    @abstractmethod
    def sync(self) -> None:
        """Make everything written before this call, and the length, durable.

        After a failure the system may have forgotten which bytes it did not write, so a second attempt that
        succeeds would prove nothing: this file then refuses every later write, truncate and sync.
        """

    def write_through(self, offset: int, data: bytes) -> None:
        """Write bytes that are durable, with the length they need, when this returns; other writes need not be.

        One call of the system where it knows how to, which takes less than :meth:`write` and :meth:`sync`. A failure is
        final, as that of a sync.
        """
        self.write(offset, data)
        self.sync()

    @abstractmethod
    def size(self) -> int:
        """The current length in bytes."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it with zeros; durable after :meth:`sync`."""

    @abstractmethod
    def shared(self) -> File:
        """The same open file once more, for reading: it can be used when this one is closed, until it is itself."""

    @abstractmethod
    def close(self) -> None:
        """Close without syncing. Views stay valid; closing twice is allowed."""


class _Descriptor:
    """A file descriptor that is closed with the last reference to it.

    Every operation holds a reference, so that a concurrent close cannot free the number, and let the file
    opened next be read or written under it, in the middle of the operation.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with suppress(AttributeError):  # an interrupt while it was made
            os.close(self.number)


class DiskFile(File):
    """A file of a local file system; owns ``descriptor``.

    With ``mapped``, views are memory maps; unless ``synced``, :meth:`sync` does nothing.
    """

    def __init__(
        self, name: str, path: str, descriptor: int | _Descriptor, *, writable: bool, mapped: bool, synced: bool = True
    ) -> None:
        self.name = name
        self._path = path
        self._readable: _Descriptor | None = _Descriptor(descriptor) if isinstance(descriptor, int) else descriptor
        self._writable = self._readable if writable else None
        self.maps = mapped
        self._synced = synced
        self._map: mmap.mmap | None = None
        self._failure: StorageError | None = None

    def __repr__(self) -> str:
        return f"<file {self._path}>"

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer only where the file ends."""
        descriptor = self._readable or self._refuse_reading()
        check_range(offset, length, self._path)
        if length > _UNCHECKED_READ:
            length = min(length, max(0, self._end(descriptor) - offset))
        try:
            content = os.pread(descriptor.number, length, offset)
            while len(content) < length:
                more = os.pread(descriptor.number, length - len(content), offset + len(content))
                if not more:
                    break
                content += more
        except OSError as error:
            raise storage_error(f"read {length} bytes at {offset} of {self._path}", error) from error
        return content

    def read_into(self, offset: int, buffer: Writable) -> int:
        """Fill ``buffer`` from ``offset``; returns how many bytes came, fewer only where the file ends."""
        descriptor = self._readable or self._refuse_reading()
        rest = bytes_of(buffer)
        check_range(offset, len(rest), self._path)
        done = 0
        try:
            while rest:
                count = os.preadv(descriptor.number, [rest], offset + done)
                if not count:
                    break
                done += count
                rest = rest[count:]
        except OSError as error:
            raise storage_error(f"read {len(rest)} bytes at {offset + done} of {self._path}", error) from error
        return done

    def view(self, offset: int, length: int) -> memoryview:
        """Like :meth:`read`, as a read-only view; mapped where the medium maps."""
        if not self.maps:
            return memoryview(self.read(offset, length))
        descriptor = self._readable or self._refuse_reading()
        check_range(offset, length, self._path)
        # The size is asked for every time: no page behind the end may become part of a view.
        stop = min(offset + length, self._end(descriptor))
        if stop <= offset:
            return memoryview(b"")
        current = self._map
        if current is None or len(current) < stop:
            try:
                # A new map of the grown file; the old one lives for as long as views of it do.
                current = self._map = mmap.mmap(descriptor.number, 0, access=mmap.ACCESS_READ)
            except ValueError:  # emptied since its size was asked
                return memoryview(b"")
            except OSError as error:
                raise storage_error(f"map {self._path} into memory", error) from error
        return memoryview(current)[offset:stop]

    def write(self, offset: int, *buffers: Readable) -> None:
        """Write all buffers, one behind the other, from ``offset``; a gap reads as zeros."""
        descriptor = self._writable or self._refuse_writing()
        if offset < 0:
            check_range(offset, 0, self._path)
        try:
            if len(buffers) == 1 and isinstance(data := buffers[0], bytes):
                # The common small write, such as a journal record, without the machinery for many buffers.
                if os.pwrite(descriptor.number, data, offset) != len(data):
                    self._write_all(descriptor, offset, [memoryview(data)])  # again, from the start
            else:
                self._write_all(descriptor, offset, [view for buffer in buffers if (view := bytes_of(buffer))])
        except OSError as error:
            size = sum(len(bytes_of(buffer)) for buffer in buffers)
            raise storage_error(f"write {size} bytes at {offset} of {self._path}", error) from error

    def _write_all(self, descriptor: _Descriptor, offset: int, rest: list[memoryview]) -> None:
        while rest:
            batch = rest[:_IOV_MAX]
            count = os.pwritev(descriptor.number, batch, offset)
            if count == sum(map(len, batch)):
                del rest[: len(batch)]
            elif count:
                rest = _without_first(rest, count)
            else:
                raise OSError("the system wrote nothing and reported no error")
            offset += count

    def sync(self) -> None:
        """Make everything written before this call, and the length, durable; a failure is final."""
        descriptor = self._writable or self._refuse_writing()
        if not self._synced:
            return
        try:
            _sync_descriptor(descriptor.number)
        except OSError as error:
            self._writable = None  # before any call: an interrupt must not make it be forgotten
            self._fail(f"sync {self._path}", error)

    def write_through(self, offset: int, data: bytes) -> None:
        """Write bytes that are durable, with the length they need, when this returns; a failure is final."""
        descriptor = self._writable or self._refuse_writing()
        if _WRITES_THROUGH and self._synced and offset >= 0:
            try:
                if os.pwritev(descriptor.number, (data,), offset, os.RWF_DSYNC) == len(data):
                    return
            except OSError as error:
                if error.errno not in _NOT_KNOWN:
                    self._writable = None
                    self._fail(f"write and sync {len(data)} bytes at {offset} of {self._path}", error)
        super().write_through(offset, data)

    def _fail(self, action: str, error: OSError) -> NoReturn:
        """Refuse to be written from now on."""
        self._failure = storage_error(action, error)
        raise self._failure from error

    def size(self) -> int:
        """The current length in bytes."""
        return self._end(self._readable or self._refuse_reading())

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it with zeros; durable after :meth:`sync`."""
        descriptor = self._writable or self._refuse_writing()
        check_range(size, 0, self._path)
        try:
            os.ftruncate(descriptor.number, size)
        except OSError as error:
            raise storage_error(f"set the length of {self._path} to {size} bytes", error) from error

    def shared(self) -> DiskFile:
        """The same open file once more, for reading; its descriptor and its map are used by both."""
        descriptor = self._readable or self._refuse_reading()
        other = DiskFile(self.name, self._path, descriptor, writable=False, mapped=self.maps, synced=self._synced)
        other._map = self._map
        return other

    def close(self) -> None:
        """Close without syncing. Views stay valid; closing twice is allowed."""
        self._readable = self._writable = None
        self._map = None

    def _refuse_reading(self) -> NoReturn:
        raise ClosedError(f"{self._path} was closed; open it again")

    def _refuse_writing(self) -> NoReturn:
        if self._readable is None:
            self._refuse_reading()
        if self._failure is not None:
            raise failed_before(self._path, self._failure)
        raise ReadOnlyError(f"{self._path} was opened for reading; open it with writable=True")

    def _end(self, descriptor: _Descriptor) -> int:
        # Several times faster than fstat; nobody uses the position it moves.
        try:
            return os.lseek(descriptor.number, 0, os.SEEK_END)
        except OSError as error:
            raise storage_error(f"find the length of {self._path}", error) from error


def failed_before(file: str, failure: StorageError) -> StorageError:
    """The error of a file that refuses writes because of an earlier failed sync."""
    refusal = StorageError(
        f"{file} takes no more writes because a sync failed before ({failure}); "
        "what was written since the last successful sync may be lost: close it, open it again and verify it"
    )
    refusal.errno = failure.errno
    return refusal


def bytes_of(buffer: Readable | Writable) -> memoryview:
    """The bytes of a C-contiguous buffer, not copied."""
    view = memoryview(buffer)  # type: ignore[arg-type, unused-ignore]  # see Readable
    return view.cast("B") if view.nbytes else memoryview(b"")  # empty arrays cannot be cast


def _without_first(views: list[memoryview], count: int) -> list[memoryview]:
    """``views`` without their first ``count`` bytes."""
    for index, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[index + 1 :]]
        count -= len(view)
    return []


def check_range(offset: int, length: int, path: str) -> None:
    """Raise :class:`InputError` unless offset and length can be a range of a file."""
    if offset < 0 or length < 0:
        raise InputError(f"{length} bytes at {offset} of {path}: offset and length must not be negative")


def _sync_descriptor(descriptor: int) -> None:
    if sys.platform == "darwin":  # where fsync stops at the cache of the device
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)
