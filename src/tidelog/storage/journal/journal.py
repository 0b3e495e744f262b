"""The journal: an append-only, checksummed log of records with group commit.

Its bytes are described in :mod:`tidelog.storage.journal.format`. One process at a time may write; the owner of the
journal sees to that with a lock. Anyone may read (:func:`read_journal`), also while it is written.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from tidelog.model.closing import Closing
from tidelog.model.errors import ClosedError, CorruptionError, InputError, StorageError
from tidelog.storage.journal.format import (
    LARGEST_RECORD,
    RECORD_OVERHEAD,
    RECORDS_AT,
    Record,
    RecordScan,
    Recovery,
    pack_header,
    pack_record,
    read_header,
    write_new_header,
)
from tidelog.storage.media.files import bytes_of
from tidelog.storage.media.medium import File, Medium, Readable

__all__ = ["LARGEST_RECORD", "Counters", "Journal", "JournalReader", "Record", "Recovery", "read_journal"]

LARGEST_ROOM = 1 << 20
"""A journal that makes room makes as much as it has records, from the room asked for up to this."""

_Bytes: TypeAlias = bytes | memoryview

_JOINED = 1 << 13
"""Up to this size, joining the parts of a record is cheaper than handing three buffers to the system."""


@dataclass(frozen=True)
class Counters:
    """How much there is in a journal, and how many syncs it has made since it was opened."""

    records: int
    bytes: int
    syncs: int


class Journal(Closing):
    """A journal open for appending. All methods may be called from any thread.

    ``append`` hands a record to the system, so that it outlives this process; ``sync`` makes it outlive the system.
    After a failed write or sync the journal takes no more records: those that ``sync`` acknowledged are safe, and
    opening the journal again keeps every whole one.
    """

    def __init__(self, file: File, salt: bytes, recovery: Recovery, checksum: int, room: int = 0) -> None:
        """Take over a file, recovered and durable, whose last record has that checksum.

        Use :meth:`create` or :meth:`open`.
        """
        self._room = room
        self._room_end = recovery.kept_bytes
        self.name = file.name
        self.recovery = recovery
        """What was found when the journal was opened."""
        self._file = file
        self._salt = salt
        self._seed = zlib.crc32(salt)
        self._checksum = checksum
        self._last = recovery.records
        self._end = recovery.kept_bytes
        self._durable = recovery.records
        self._durable_end = recovery.kept_bytes
        self._syncs = 0
        self._closing = False
        self._failure: StorageError | None = None
        self._mutex = threading.Lock()
        self._syncing = threading.Lock()
        """Held by who syncs, for itself and all who have come before: these wait for it. Taken before the other one."""

    @classmethod
    def create(cls, medium: Medium, name: str, *, room: int = 0) -> Journal:
        """Create an empty journal, durably; :class:`ExistsError` when the name is taken.

        With ``room``, the file is made longer by so many zeros at least whenever records reach its end, so that most
        syncs find nothing changed but the bytes of records, which halves their time on common file systems.
        After a failure the file may exist; :meth:`open` takes it for an empty journal.
        """
        file = medium.create(name)
        try:
            salt = write_new_header(file)
            file.sync()
            medium.sync_names(os.path.dirname(name))
        except BaseException:
            file.close()
            raise
        return cls(file, salt, Recovery(0, RECORDS_AT, 0, None), zlib.crc32(salt), room)

    @classmethod
    def open(cls, medium: Medium, name: str) -> Journal:
        """Open a journal for appending and cut off what follows its last whole record; see :attr:`recovery`.

        When this returns, all records that were kept are durable. A file whose creation was interrupted becomes an
        empty journal. Raises :class:`NotFoundError` if there is no file, and :class:`CorruptionError`, without
        touching it, if it is not a journal, both copies of its header are damaged, or records are missing that were
        durable.
        """
        file = medium.open(name, writable=True)
        try:
            header = read_header(file)
            salt = header.salt if header.salt is not None else write_new_header(file)
            scan = RecordScan(file, salt)
            for _ in scan:
                pass
            recovery = scan.recovery(header)
            for offset in header.damaged:
                file.write(offset, pack_header(salt))
            if recovery.dropped_bytes:
                file.truncate(recovery.kept_bytes)
            # Even without a change: a writer that was killed may have left records, or the name, not yet durable.
            # And nothing may be appended before the cut is durable.
            file.sync()
            medium.sync_names(os.path.dirname(name))
        except BaseException:
            file.close()
            raise
        return cls(file, salt, recovery, scan.checksum)

    @property
    def last(self) -> int:
        """The number of the last record; also how many there are."""
        return self._last

    @property
    def durable(self) -> int:
        """The number of the last record known to be durable."""
        return self._durable

    @property
    def bytes(self) -> int:
        """How long it is, up to the end of its last record."""
        return self._end

    @property
    def counters(self) -> Counters:
        """Records, bytes and syncs so far."""
        with self._mutex:
            return Counters(self._last, self._end, self._syncs)

    def append(self, payload: Readable) -> int:
        """Write a record and return its number; it is durable after :meth:`sync`.

        :class:`InputError` if it is longer than :data:`LARGEST_RECORD`. The buffer may be reused afterwards.
        """
        data = self._checked(payload)
        with self._mutex:
            return self._write(data, through=False)

    def append_durably(self, payload: Readable) -> int:
        """Write a record and return its number when it, and all before it, are durable.

        Like :meth:`append` and :meth:`sync`, and quicker for a short one when nothing else is to be synced: then the
        record is written through, while others wait to append.
        """
        data = self._checked(payload)
        with self._mutex:
            # What room was made for is synced with the file, so that later records find it there.
            through = (
                len(data) <= _JOINED
                and self._durable == self._last
                and self._end + RECORD_OVERHEAD + len(data) <= self._room_end
            )
            number = self._write(data, through=through)
            if through:
                self._durable = number
                self._durable_end = self._end
                self._syncs += 1
        if not through:
            self.sync(number)
        return number

    def _checked(self, payload: Readable) -> _Bytes:
        data = payload if isinstance(payload, bytes) else bytes_of(payload)
        if len(data) > LARGEST_RECORD:
            raise InputError(
                f"a record of {len(data)} bytes for journal {self.name}: at most {LARGEST_RECORD} bytes are possible; "
                "append it in parts"
            )
        return data

    def _write(self, data: _Bytes, *, through: bool) -> int:
        if self._closing:
            raise ClosedError(f"journal {self.name} was closed; open it again")
        self._check_failure()
        number = self._last + 1
        head, padding, checksum = pack_record(number, data, self._durable_end, self._checksum, self._seed)
        size = len(head) + len(data) + len(padding)
        try:
            if through:
                self._file.write_through(self._end, b"".join((head, data, padding)))
            else:
                if self._room:
                    self._make_room(self._end + size)
                if len(data) <= _JOINED:
                    self._file.write(self._end, b"".join((head, data, padding)))
                else:
                    self._file.write(self._end, head, data, padding)
        except StorageError as error:
            self._failure = error
            raise
        self._end += size
        self._checksum = checksum
        self._last = number
        return number

    def _make_room(self, end: int) -> None:
        """See to it that the file reaches beyond ``end``, the end of the next record."""
        if end > self._room_end:
            room = max(self._room, min(end, LARGEST_ROOM))
            self._file.write(end, bytes(room))
            self._room_end = end + room

    def sync(self, number: int | None = None) -> None:
        """Return when record ``number`` and all before it are durable; by default, all appended so far.

        Threads that come while a sync is under way wait for it, and are then served together by one more sync, made
        by one of them.
        """
        with self._mutex:
            wanted = self._last if number is None else number
            if wanted > self._last:
                raise InputError(f"journal {self.name} has no record {wanted}: its last one is {self._last}")
        if self._durable >= wanted:
            return
        with self._syncing:
            if self._durable >= wanted:  # by the one who was waited for
                return
            self._check_failure()
            with self._mutex:
                covered = self._last, self._end
            try:
                self._file.sync()
            except StorageError as error:
                self._failure = error
                raise
            self._durable, self._durable_end = covered
            self._syncs += 1

    def records(self) -> Iterator[Record]:
        """The records appended before this call, in order, read and verified again."""
        return _read_records(self._file, self._salt, self._last)

    def close(self) -> None:
        """Make everything durable and close the file; after a failure, only close it. Closing twice is allowed."""
        with self._mutex:
            if self._closing:
                return
            self._closing = True
        try:
            if self._failure is None:
                self.sync()
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close the file without a sync: what is not durable may be lost. Closing twice is allowed."""
        self._closing = True
        self._file.close()

    def _check_failure(self) -> None:
        if self._failure is not None:
            refusal = StorageError(
                f"journal {self.name} takes no more records after a failure ({self._failure}); "
                "close it and open it again, which keeps every whole record"
            )
            refusal.errno = self._failure.errno
            raise refusal


class JournalReader(Closing):
    """A journal as it was when it was opened for reading; changes nothing. Made by :func:`read_journal`."""

    def __init__(self, file: File) -> None:
        """Take over an open file and verify it."""
        self.name = file.name
        self._file = file
        header = read_header(file)
        self._salt = header.salt if header.salt is not None else b""
        scan = RecordScan(file, self._salt)
        if header.salt is not None:
            for _ in scan:
                pass
        self.recovery = scan.recovery(header)
        """What was found; ``dropped_bytes`` are still in the file and may be a record about to be written."""

    def records(self) -> Iterator[Record]:
        """The records that were whole when the journal was opened, in order, read and verified again."""
        return _read_records(self._file, self._salt, self.recovery.records)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(medium: Medium, name: str) -> JournalReader:
    """Open a journal for reading only: nothing is cut off or repaired, whatever state it is in.

    A journal that is being written is read up to the last record that was whole at this moment. Raises like
    :meth:`Journal.open`.
    """
    file = medium.open(name)
    try:
        return JournalReader(file)
    except BaseException:
        file.close()
        raise


def _read_records(file: File, salt: bytes, count: int) -> Iterator[Record]:
    """The first ``count`` records, which were whole before."""
    scan = RecordScan(file, salt)
    for payload in islice(scan, count):
        yield Record(scan.number, bytes(payload))
    if scan.number < count:
        raise CorruptionError(
            f"journal {file.name} had {count} records when it was opened, now it ends after {scan.number}: "
            f"{scan.reason or 'the file was cut'}; read it again, and if that is no crash of another writer, "
            "check the device"
        )
