"""The bytes of a journal: its header and its chain of records, written and verified.

Little endian::

    0    header        32 bytes: magic "TLJOURNL", u32 version, u32 CRC-32 of the other fields, 16 bytes random salt
    32   header again  the same, so that no single damaged byte makes the journal unreadable
    64   records       u32 length of the payload, u32 CRC-32 of the payload, u64 number (1 for the first),
                       u64 synced: up to which byte the journal was durable when this record was written,
                       u32 chain: the checksum of the record before, of the first one the CRC-32 of the salt,
                       u32 checksum: CRC-32 of the 28 bytes before, continued from the CRC-32 of the salt,
                       payload, zeros up to the next multiple of 8

Left-over bytes of an earlier life of the file, or of another journal, never pass for a continuation, even if they were
good records once: the salt and the chain are others.

The journal ends at the first record that is not whole. Zeros up to the end of the file are room for more of them:
writing over bytes that are there takes less than making a file longer, of which the file system has to keep account.

What a crash tears was written behind the last sync. So where the journal ends inside bytes that were durable, it is
damaged, and what follows was not torn but is cut off from the rest: any later record whose head is whole proves it, by
what it says was durable when it was written. Such a journal is not read and not written
(:class:`~tidelog.model.errors.CorruptionError`); :func:`whole_records` finds what is left of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidelog.model.errors import CorruptionError, NewerReleaseError
from tidelog.storage.media.medium import File

LARGEST_RECORD = 1 << 31
"""Bytes a payload may have at most."""

MAGIC = b"TLJOURNL"
VERSION = 1
_HEADER = struct.Struct("<8sII16s")
_HEADER_COPIES = (0, _HEADER.size)
RECORDS_AT = 2 * _HEADER.size
"""Where the first record stands."""

_RECORD = struct.Struct("<IIQQI")
_CHECKSUM = struct.Struct("<I")
RECORD_HEAD = _RECORD.size + _CHECKSUM.size
"""Bytes of a record before its payload."""

_PADDING = [bytes(-size % 8) for size in range(8)]
RECORD_OVERHEAD = RECORD_HEAD + 7
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


def pack_record(
    number: int, payload: bytes | memoryview, synced: int, chain: int, seed: int
) -> tuple[bytes, bytes, int]:
    """Head and padding of a record, and its checksum.

    ``synced`` bytes of the journal are durable, ``chain`` is the checksum of the record before, ``seed`` the CRC-32 of
    the salt.
    """
    size = len(payload)
    head = _RECORD.pack(size, zlib.crc32(payload), number, synced, chain)
    checksum = zlib.crc32(head, seed)
    return head + _CHECKSUM.pack(checksum), _PADDING[size & 7], checksum


class RecordHead(NamedTuple):
    """What a record says before its payload."""

    size: int
    payload_checksum: int
    number: int
    synced: int
    chain: int
    checksum: int


def unpack_head(head: bytes | memoryview, seed: int) -> RecordHead | None:
    """The head of a record; None if these bytes are none of a journal whose salt has the CRC-32 ``seed``."""
    if len(head) < RECORD_HEAD:
        return None
    (checksum,) = _CHECKSUM.unpack_from(head, _RECORD.size)
    if checksum != zlib.crc32(head[: _RECORD.size], seed):
        return None
    size, payload_checksum, number, synced, chain = _RECORD.unpack_from(head)
    return RecordHead(size, payload_checksum, number, synced, chain, checksum)


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
        self._seed = self.checksum = zlib.crc32(salt)
        """Its checksum."""
        self.reason: str | None = None
        """Why the next one is not whole; None at the end of the file."""

    def __iter__(self) -> Iterator[memoryview]:
        """The payloads in order; each is valid for as long as it is kept.

        Raises :class:`CorruptionError` at the end if records that were durable are missing.
        """
        while self.end < self._size:
            payload = self._next()
            if payload is None and self._is_damaged():
                # Those who write may have gone on since: then the record is whole by now.
                self._window = b""
                payload = self._next()
                if payload is None:
                    raise CorruptionError(
                        f"journal {self._file.name} is damaged: {self.reason}, although records were written behind "
                        "it when it was durable; restore a backup, or salvage the store"
                    )
            if payload is None:
                return
            yield payload

    def _next(self) -> memoryview | None:
        expected = self.number + 1
        head = self._bytes(self.end, RECORD_HEAD)
        if not any(head) and self._is_room():
            return None
        if len(head) < RECORD_HEAD:
            return self._not_whole(f"the file ends inside the head of record {expected}")
        found = unpack_head(head, self._seed)
        if found is None:
            what = "zeros" if not any(head) else "no head of a record"
            return self._not_whole(f"found {what} where record {expected} should stand")
        if (found.number, found.chain) != (expected, self.checksum):
            return self._not_whole(f"found record {found.number} where record {expected} should stand")
        payload_at = self.end + RECORD_HEAD
        if payload_at + found.size > self._size:
            return self._not_whole(
                f"record {expected} should have {found.size} bytes, but the file ends after {self._size - payload_at}"
            )
        payload = self._bytes(payload_at, found.size)
        if found.payload_checksum != zlib.crc32(payload):
            return self._not_whole(f"record {expected} does not match its checksum")
        self.reason = None
        self.number = found.number
        self.checksum = found.checksum
        self.end = payload_at + found.size + len(_PADDING[found.size & 7])
        return payload

    def _is_damaged(self) -> bool:
        """Whether what is not whole here was durable once: a later record tells."""
        if self.reason is None:
            return False
        heads = _heads_behind(self._file, self.end, self._size, self._seed)
        return any(head.number > self.number and head.synced > self.end for _, head in heads)

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


def whole_records(file: File, salt: bytes) -> Iterator[Record]:
    """All records of a journal that are whole, whatever is between them."""
    seed, size = zlib.crc32(salt), file.size()
    at = RECORDS_AT
    while at < size:
        for offset, head in _heads_behind(file, at, size, seed):
            payload = file.read(offset + RECORD_HEAD, head.size)
            if len(payload) == head.size and zlib.crc32(payload) == head.payload_checksum:
                yield Record(head.number, payload)
                at = offset + RECORD_HEAD + head.size + len(_PADDING[head.size & 7])
                break
        else:
            return


def _heads_behind(file: File, start: int, size: int, seed: int) -> Iterator[tuple[int, RecordHead]]:
    """Where heads of records stand from ``start`` on, at multiples of 8, and what they say."""
    for window_at in range(start, size, _WINDOW):
        window = memoryview(file.read(window_at, min(_WINDOW + RECORD_HEAD, size - window_at)))
        words = np.frombuffer(window, "<u8", len(window) // 8)
        last = len(words) - RECORD_HEAD // 8
        if last < 0:
            return
        # Most bytes are no head: its number is small, and it was written behind what it says was durable.
        numbers, synced = words[1 : last + 2], words[2 : last + 3]
        ends = window_at + 8 * np.arange(last + 1, dtype=np.uint64)
        likely = (numbers > 0) & (numbers <= ends // 8) & (synced >= RECORDS_AT) & (synced <= ends)
        for place in np.flatnonzero(likely[: _WINDOW // 8]).tolist():
            head = unpack_head(window[8 * place : 8 * place + RECORD_HEAD], seed)
            if head is not None:
                yield window_at + 8 * place, head
