"""Opening an input: a file or standard input, compressed or not, of a format that is given, named or recognised."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePath
from types import TracebackType
from typing import IO, Any, Final, Self, cast

import pyarrow as pa

from tidelog.cli.formats import Format
from tidelog.cli.interrupts import is_asked_to_stop, wait_to_read
from tidelog.model.errors import InputError, StorageError

STDIN: Final = "-"
_LOOK_AHEAD = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


_BY_SUFFIX: Final = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".tab": Format.CSV,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
}

PARQUET_MAGIC: Final = b"PAR1"
ARROW_FILE_MAGIC: Final = b"ARROW1"
ARROW_STREAM_MAGIC: Final = b"\xff\xff\xff\xff"


_PATIENCE: Final = 0.2
"""Seconds after which whoever waits for a pipe looks whether it is still wanted."""


class _CountingFile(io.FileIO):
    """A file that knows how many bytes were read of it, and ends early once nobody wants more."""

    count = 0
    is_abandoned = False

    def readinto(self, buffer: Any, /) -> int | None:
        """Read into a buffer, as files do."""
        if not self._waits():
            return 0
        done = super().readinto(buffer)
        self.count += done or 0
        return done

    def _waits(self) -> bool:
        """Wait until there is something to read; False if nobody wants it any more."""
        if stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            return not self.is_abandoned
        while not self.is_abandoned and not is_asked_to_stop():
            if wait_to_read(self.fileno(), _PATIENCE):
                return True
        return False


class Input:
    """An open input. A context manager.

    ``name`` is what messages call it, ``format`` its format.
    """

    def __init__(self, where: str, format_: Format = Format.AUTO) -> None:
        self.name = "standard input" if where == STDIN else where
        self._exits = ExitStack()
        try:
            self._raw = self._open(where)
            self._reader = self._uncompressed()
            self.suffix = PurePath(where.removesuffix(".gz")).suffix.lower()
            told = _BY_SUFFIX.get(self.suffix) if format_ is Format.AUTO else format_
            self.format = told or self._recognised()
        except BaseException:
            self._exits.close()
            raise

    def _open(self, where: str) -> io.BufferedReader:
        if where != STDIN and Path(where).is_dir():
            raise StorageError(f"{where}: found a directory, expected a file")
        # Standard input gets a reader of its own too, with a buffer long enough to look ahead in.
        self._file = _CountingFile(sys.stdin.fileno() if where == STDIN else where, closefd=where != STDIN)
        return self._exits.enter_context(io.BufferedReader(self._file, _LOOK_AHEAD))

    def _uncompressed(self) -> io.BufferedReader:
        if not self._raw.peek(2).startswith(_GZIP_MAGIC):
            return self._raw
        unpacked = self._exits.enter_context(gzip.GzipFile(fileobj=self._raw, mode="rb"))
        return io.BufferedReader(cast("io.RawIOBase", unpacked), _LOOK_AHEAD)

    def on_close(self, action: Callable[[], None]) -> None:
        """Have something done when the input is closed, before it is."""
        self._exits.callback(action)

    def abandon(self) -> None:
        """Let the content end here, also for those who wait for more in other threads."""
        self._file.is_abandoned = True

    @property
    def size(self) -> int | None:
        """Stored bytes of a regular file; None for standard input that is none, pipes and devices."""
        status = os.fstat(self._file.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    @property
    def position(self) -> int:
        """How many stored bytes were read, for progress; they may be ahead of what was handed out."""
        return min(self._file.count, self.size) if self.size is not None else self._file.count

    def peek(self) -> bytes:
        """The first part of the content, up to a megabyte, without taking it."""
        try:
            return self._reader.peek(_LOOK_AHEAD)
        except (OSError, EOFError) as error:
            raise self.broken(error) from error

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes of content; fewer, or none, only at the end."""
        try:
            return self._reader.read(size)
        except (gzip.BadGzipFile, EOFError) as error:
            raise self.broken(error) from error

    def broken(self, error: object) -> InputError:
        """The error for content that cannot be read as what it claims to be."""
        return InputError(f"{self.name}: cannot be read: {error}")

    def for_arrow(self) -> pa.PythonFile:
        """The content as a file of Arrow's, to be read from the front to the end."""
        return pa.PythonFile(_Content(self), mode="r")

    def seekable(self) -> IO[bytes]:
        """The content as a file that can be read in any order; pipes and compressed files go through a copy on disk."""
        if self._reader is self._raw and self._raw.seekable():
            return self._raw
        copy: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the input
        self._exits.callback(copy.close)
        shutil.copyfileobj(cast("Any", self), copy, _LOOK_AHEAD)
        copy.seek(0)
        return copy

    def _recognised(self) -> Format:
        head = self.peek()
        if head.startswith(PARQUET_MAGIC):
            return Format.PARQUET
        if head.startswith((ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC)):
            return Format.ARROW
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            return Format.JSONL
        if b"\0" in head:
            raise InputError(
                f"{self.name}: found content of no known format; expected CSV, JSON, Parquet or Arrow IPC. If it "
                "is one of these, name it with --format"
            )
        return Format.CSV

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exits.close()


class _Content:
    """What Arrow needs of a file object; it would close an input that somebody else has opened."""

    closed = False

    def __init__(self, content: Input) -> None:
        self.read = content.read

    def close(self) -> None:
        """Left to who opened the input."""
