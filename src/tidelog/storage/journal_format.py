"""The bytes of a journal: its header and its chain of records, written and verified.

Little endian::

    0    header        32 bytes: magic "TLJOURNL", u32 version, u32 CRC-32 of the other fields, 16 bytes random salt
    32   header again  the same, so that no single damaged byte makes the journal unreadable
    64   records       u32 length of the payload, u32 checksum, u64 number (1 for the first), payload,
                       zeros up to the next multiple of 8

The checksum of a record is the CRC-32 of its number (u64), length (u32) and payload, continued from the checksum of
the record before it; the first one continues the CRC-32 of the salt. Left-over bytes of an earlier life of the
file, or of another journal, therefore never pass for a continuation, even if they were good records once.

The journal ends at the first record that is not whole. Zeros up to the end of the file are room for more of them:
writing over bytes that are there takes less than making a file longer, of which the file system has to keep account.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.model.errors import CorruptionError, NewerReleaseError
from tidelog.storage.media import File

LARGEST_RECORD = 1 << 31
"""Bytes a payload may have at most."""

MAGIC = b"TLJOURNL"
VERSION = 1
_HEADER = struct.Struct("<8sII16s")
_HEADER_COPIES = (0, _HEADER.size)
RECORDS_AT = 2 * _HEADER.size
"""Where the first record stands."""

_RECORD = struct.Struct("<IIQ")
_CHECKED = struct.Struct("<QI")
_PADDING = [bytes(-size % 8) for size in range(8)]
RECORD_OVERHEAD = _RECORD.size + 7
"""Bytes that a record has at most besides its payload."""

_WINDOW = 1 << 20
"""Bytes read at a time; longer records are read alone."""


class Record(NamedTuple):
    """A record as it was appended."""

    number: int
    payload: bytes


@dataclass(frozen=True)
class Recovery:
    """What was found when a journal was opened."""

    records: int
    """Whole records, numbered from 1."""
    kept_bytes: int
    """Length of the journal up to the end of its last whole record."""
    dropped_bytes: int
    """Bytes of the file behind that."""
    reason: str | None
    """Why the journal ends where it does; None if nothing is missing as far as the file can tell."""
    header_damaged: bool = False
    """Whether one of the two copies of the header was damaged."""


@dataclass(frozen=True)
class Header:
    """What the first bytes of a file say."""

    salt: bytes | None
    """None: the creation of the journal was interrupted."""
    damaged: tuple[int, ...] = ()
    """Offsets of the copies that are not as they were written."""


def pack_header(salt: bytes) -> bytes:
    """One copy of the header."""
    return _HEADER.pack(MAGIC, VERSION, _header_checksum(MAGIC, VERSION, salt), salt)


def write_new_header(file: File) -> bytes:
    """Begin an empty journal; returns its salt."""
    salt = os.urandom(16)
    file.write(0, pack_header(salt) * len(_HEADER_COPIES))
    return salt


def read_header(file: File) -> Header:
    """Read and verify both copies of the header.

    Raises :class:`CorruptionError` if the file is not a journal, or is one whose header is lost, and
    :class:`NewerReleaseError` if it has a version this release does not know.
    """
    start = file.read(0, RECORDS_AT)
    good: dict[int, tuple[int, bytes]] = {}
    for offset in _HEADER_COPIES:
        if offset + _HEADER.size <= len(start):
            magic, version, checksum, salt = _HEADER.unpack_from(start, offset)
            if magic == MAGIC and checksum == _header_checksum(magic, version, salt):
                good[offset] = (version, salt)
    if not good:
        if file.size() <= RECORDS_AT and _is_torn_magic(start[: len(MAGIC)]):
            return Header(None)
        raise CorruptionError(
            f"{file.name} is not a journal, or both copies of its header are damaged: it starts with "
            f"{start[:8]!r}, expected {MAGIC!r} and a valid checksum; restore it from a backup, or move it away"
        )
    version, salt = next(iter(good.values()))
    if version != VERSION:
        raise NewerReleaseError(
            f"journal {file.name} has format version {version}, this release reads version {VERSION}; "
            "use a newer release"
        )
    return Header(salt, tuple(offset for offset in _HEADER_COPIES if offset not in good))


def _header_checksum(magic: bytes, version: int, salt: bytes) -> int:
    return zlib.crc32(_HEADER.pack(magic, version, 0, salt))


def _is_torn_magic(found: bytes) -> bool:
    """Whether a header whose writing was interrupted may begin so: some bytes of the magic, then zeros or nothing."""
    written = found.rstrip(b"\0")
    return MAGIC.startswith(written)


def pack_record(number: int, payload: bytes | memoryview, previous: int) -> tuple[bytes, bytes, int]:
    """Head and padding of a record, and its checksum; ``previous`` is that of the record before."""
    size = len(payload)
    checksum = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(number, size), previous))
    return _RECORD.pack(size, checksum, number), _PADDING[size & 7], checksum


class RecordScan:
    """Goes through the records of a file once, verifying each; afterwards knows where and why they end."""

    def __init__(self, file: File, salt: bytes) -> None:
        self._file = file
        self._size = file.size()
        self._window = b""
        self._window_at = 0
        self.number = 0
        """The number of the last whole record."""
        self.end = RECORDS_AT
        """Where it ends, with its padding."""
        self.checksum = zlib.crc32(salt)
        """Its checksum."""
        self.reason: str | None = None
        """Why the next one is not whole; None at the end of the file."""

    def __iter__(self) -> Iterator[memoryview]:
        """The payloads in order; each is valid for as long as it is kept."""
        while self.end < self._size:
            payload = self._next()
            if payload is None:
                return
            yield payload

    def _next(self) -> memoryview | None:
        expected = self.number + 1
        head = self._bytes(self.end, _RECORD.size)
        if not any(head) and self._is_room():
            return None
        if len(head) < _RECORD.size:
            return self._not_whole(f"the file ends inside the head of record {expected}")
        size, checksum, number = _RECORD.unpack(head)
        if number != expected:
            found = "zeros" if not any(head) else f"number {number}"
            return self._not_whole(f"found {found} where record {expected} should stand")
        payload_at = self.end + _RECORD.size
        if payload_at + size > self._size:
            return self._not_whole(
                f"record {expected} should have {size} bytes, but the file ends after {self._size - payload_at}"
            )
        payload = self._bytes(payload_at, size)
        if checksum != zlib.crc32(payload, zlib.crc32(_CHECKED.pack(number, size), self.checksum)):
            return self._not_whole(f"record {expected} does not match its checksum")
        self.number = number
        self.checksum = checksum
        self.end = payload_at + size + len(_PADDING[size & 7])
        return payload

    def _is_room(self) -> bool:
        """Whether only zeros follow; then the file counts as ending here."""
        for offset in range(self.end, self._size, _WINDOW):
            if any(self._file.read(offset, min(_WINDOW, self._size - offset))):
                return False
        self._size = self.end
        return True

    def _not_whole(self, reason: str) -> memoryview | None:
        self.reason = f"{reason} (byte {self.end} of {self._size})"
        return None

    def _bytes(self, offset: int, length: int) -> memoryview:
        """Bytes of the file, fewer only at its end; from the window where possible."""
        start = offset - self._window_at
        if not 0 <= start <= start + length <= len(self._window):
            if length > _WINDOW // 2:
                return memoryview(self._file.read(offset, length))
            self._window = self._file.read(offset, _WINDOW)
            self._window_at = offset
            start = 0
        return memoryview(self._window)[start : start + length]

    def recovery(self, header: Header) -> Recovery:
        """The report, once the scan is through."""
        if header.salt is None:
            return Recovery(0, RECORDS_AT, 0, "the creation of the journal was interrupted")
        dropped = max(0, self._size - self.end)
        return Recovery(self.number, self.end, dropped, self.reason, bool(header.damaged))
