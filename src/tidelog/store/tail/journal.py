"""The journal of a tail: rows that were flushed and are not in a split, and what else the tail must not forget.

A record of the journal (:mod:`tidelog.storage.journal.journal`) is::

    0   u32 length of the head, u32 zero
    8   head, JSON, padded with spaces to a multiple of 8
    ..  rows, the Arrow IPC message of one record batch of the stored schema; nothing if there are none

Journals are numbered. The first record of each is a *base*: it repeats everything that still counts of the journals
before it, so a journal counts from the moment its base is whole, and the one before it may then go.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from tidelog.model.errors import NONSENSE, CorruptionError, NewerReleaseError, NotFoundError, SchemaError
from tidelog.storage.journal.journal import Journal, read_journal
from tidelog.storage.media.medium import Medium
from tidelog.store.log.file_names import check_plain_name
from tidelog.store.tail.record import splits_text
from tidelog.store.tail.shares import Shares

Message: TypeAlias = bytes | pa.Buffer
"""An Arrow IPC message."""

RowsReader: TypeAlias = Callable[[pa.Buffer, int], pa.RecordBatch]
"""Makes stored rows of an Arrow IPC message and the version of the schema that it was written under."""

_LENGTH = struct.Struct("<II")
_PREFIX = "journal-"
_ROOM = 1 << 16
"""How far ahead of its records a journal is made longer, at first."""


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Head(NamedTuple):
    """What a record says besides its rows. One is made by every flush."""

    splits: Mapping[str, tuple[int, int]]
    """The splits being written, the newest last, with number and position of the commit of each that this record counts
    together with, and not without: the other rows of the same appends are in there."""
    next_seq: int
    producers: Mapping[str, int] = _NOTHING
    """The last append of each producer; those that changed, in a base all."""
    base: bool = False
    schema: int = 0
    """The version of the stream's schema that the rows have."""
    late: Mapping[str, float] = _NOTHING
    """What has become of late rows (:class:`~tidelog.store.tail.late.lateness.LateCounters`), in a base and when it
    changed."""
    shares: Mapping[str, Any] = _NOTHING
    """Which rows of appends to another stream these are (:class:`~tidelog.store.tail.shares.Shares`); in a base all
    that is known of such rows."""
    newest: int | None = None
    """The latest time of all rows that were ever appended, where it matters: in streams that take none too late."""
    journal: str = ""
    """In a base the name of its journal, by which it is known again."""


_HEAD: Final = frozenset(Head._fields)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, read back."""

    head: Head
    rows: pa.RecordBatch | None


def pack(head: Head, message: Message | None) -> bytes:
    """The payload of a record; ``message`` is the Arrow IPC message of its rows."""
    version = f', "schema": {head.schema}' if head.schema else ""
    newest = "" if head.newest is None else f', "newest": {head.newest}'
    journal = f', "journal": {json.dumps(head.journal)}' if head.journal else ""
    text = (
        f'{{"splits": {splits_text(head.splits)}, "next_seq": {head.next_seq}, '
        f'"producers": {json.dumps(head.producers) if head.producers else "{}"}, '
        f'"base": {"true" if head.base else "false"}{version}{newest}{journal}'
        f"{_text('late', head.late)}{_text('shares', head.shares)}}}"
    ).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((_LENGTH.pack(len(text), 0), text, message or b""))


def _text(name: str, values: Mapping[str, Any]) -> str:
    return f', "{name}": {json.dumps(dict(values))}' if values else ""


def message_of(rows: pa.RecordBatch | None) -> pa.Buffer | None:
    """The Arrow IPC message of rows; None if there are none."""
    return rows.serialize() if rows is not None and rows.num_rows else None


def unpack_head(payload: bytes) -> tuple[Head, int]:
    """The head of a record, and where its rows begin."""
    try:
        length, _ = _LENGTH.unpack_from(payload)
        start = _LENGTH.size + length
        values = json.loads(payload[_LENGTH.size : start])
        if not values.keys() <= _HEAD:
            raise NewerReleaseError(
                f"a record of the tail's journal has {', '.join(map(repr, sorted(values.keys() - _HEAD)))}, which this "
                "release does not know; use a newer release"
            )
        splits = {check_plain_name(name): (number, at) for name, (number, at) in values.pop("splits").items()}
        head = Head(splits, **values)
        _check_types(head)
        return head, start
    except (*NONSENSE, struct.error) as error:
        raise CorruptionError(f"a record of the tail's journal cannot be read: {error}") from error


_NUMBERS: Final = (int, float)


def _check_types(head: Head) -> None:
    """Raise :class:`TypeError` for members that no release has written. Every record that is read comes by here."""
    is_right = (
        all(type(number) is int and type(at) is int for number, at in head.splits.values())
        and type(head.next_seq) is int
        and type(head.base) is bool
        and type(head.schema) is int
        and type(head.producers) is dict
        and all(type(number) is int for number in head.producers.values())
        and (not head.late or (type(head.late) is dict and all(type(n) in _NUMBERS for n in head.late.values())))
        and (not head.shares or type(head.shares) is dict)
        and (head.newest is None or type(head.newest) is int)
        and type(head.journal) is str
    )
    if not is_right:
        raise TypeError(f"found {head!r:.200}")


def unpack(payload: bytes, read_rows: RowsReader) -> Entry:
    """A record as it was packed."""
    head, start = unpack_head(payload)
    try:
        rows = read_rows(pa.py_buffer(payload)[start:], head.schema) if start < len(payload) else None
    except SchemaError:  # values that do not fit the version that was asked for
        raise
    except (ValueError, OSError, pa.ArrowException) as error:
        raise CorruptionError(f"the rows of a record of the tail's journal cannot be read: {error}") from error
    return Entry(head, rows)


def read_heads(medium: Medium, name: str) -> list[Head]:
    """The heads of all records of a journal."""
    with read_journal(medium, name) as journal:
        return [unpack_head(record.payload)[0] for record in journal.records()]


def journal_name(directory: str, number: int) -> str:
    """The name of a journal."""
    return f"{directory}/{_PREFIX}{number:012d}"


def journal_numbers(medium: Medium, directory: str) -> list[int]:
    """The numbers of all journals, ascending."""
    prefix = f"{directory}/{_PREFIX}"
    return sorted(int(name[len(prefix) :]) for name in medium.names(prefix) if name[len(prefix) :].isdigit())


def read_entries(medium: Medium, name: str, read_rows: RowsReader, records: int | None = None) -> list[Entry]:
    """The entries of a journal, of its first ``records`` records only if given; none if it has no base."""
    with read_journal(medium, name) as journal:
        entries: list[Entry] = []
        for record in journal.records():
            if records is not None and record.number > records:
                break
            entry = unpack(record.payload, read_rows)
            if not entries and not entry.head.base:
                raise CorruptionError(f"{name}: the first record is not a base")
            if not entries and entry.head.journal != name:
                raise CorruptionError(
                    f"{name} is another file than the one that was written under this name: it was "
                    f"{entry.head.journal}; put back the one that belongs there, or salvage the store"
                )
            entries.append(entry)
    if records is not None and len(entries) < records:
        raise CorruptionError(f"{name} has {len(entries)} records, {records} were published")
    return entries


def newest_entries(medium: Medium, directory: str, read_rows: RowsReader) -> tuple[int, list[Entry]] | None:
    """The number and entries of the newest journal that has a base; None if there is none."""
    for number in reversed(journal_numbers(medium, directory)):
        try:
            entries = read_entries(medium, journal_name(directory, number), read_rows)
        except NotFoundError:  # replaced while we were looking
            return newest_entries(medium, directory, read_rows)
        if entries:
            return number, entries
    return None


class TailJournal:
    """The journal of a tail, open for writing by the holder of the tail lock."""

    def __init__(self, medium: Medium, directory: str, base: Head, rows: pa.RecordBatch | None, number: int) -> None:
        """Start journal ``number`` with a base; it is durable when this returns."""
        self._medium = medium
        self._directory = directory
        self.number = number
        self.name = journal_name(directory, number)
        """The name of the journal in use."""
        self.file = self._started(base, rows)
        """The journal in use itself, also for who waits for its sync while it may be replaced."""

    def _started(self, base: Head, rows: pa.RecordBatch | None) -> Journal:
        name = self.name = journal_name(self._directory, self.number)
        if self._medium.exists(name):  # of a writer that was killed before it had written the base
            self._medium.remove(name)
        journal = Journal.create(self._medium, name, room=_ROOM)
        try:
            journal.append(pack(base._replace(journal=name), message_of(rows)))
            journal.sync()
            self.base_bytes = journal.bytes
            """How long it was with its base alone."""
        except BaseException:
            journal.abandon()
            raise
        return journal

    def append(self, head: Head, message: Message | None = None) -> int:
        """Write a record with the Arrow IPC message of its rows; returns its number. Durable after a sync."""
        return self.file.append(pack(head, message))

    def append_durably(self, head: Head, message: Message | None = None) -> None:
        """Write a record; it and all before it are durable when this returns."""
        self.file.append_durably(pack(head, message))

    def replace(self, base: Head, rows: pa.RecordBatch | None) -> None:
        """Go on with a new journal that starts with a base; the old one is still there, see :meth:`remove_older`."""
        old = self.file
        self.number += 1
        self.file = self._started(base, rows)
        old.abandon()  # the new one has it all

    def remove_older(self) -> None:
        """Remove journals that a newer one has replaced; readers that were about to read one look again."""
        remove_journals(
            self._medium,
            self._directory,
            [n for n in journal_numbers(self._medium, self._directory) if n < self.number],
        )

    def close(self) -> None:
        """Close the file, without a sync."""
        self.file.abandon()


def remove_journals(medium: Medium, directory: str, numbers: Iterable[int]) -> None:
    """Remove journals, as far as they are there."""
    for number in numbers:
        try:
            medium.remove(journal_name(directory, number))
        except NotFoundError:
            continue


class Kept(NamedTuple):
    """What the entries of a journal say together, besides their rows and splits: what the base of the next repeats."""

    producers: Mapping[str, int]
    late: Mapping[str, float]
    shares: Shares
    newest: int | None


def kept_of(entries: Iterable[Entry]) -> Kept:
    """What entries say together: the last of what was said of each."""
    producers: dict[str, int] = {}
    late: Mapping[str, float] = {}
    shares, newest = Shares(), None
    for entry in entries:
        head = entry.head
        producers.update(head.producers)
        late = head.late or late
        shares.update(head.shares)
        if head.newest is not None:
            newest = head.newest if newest is None else max(newest, head.newest)
    return Kept(producers, late, shares, newest)


def rows_of(entries: Iterable[Entry]) -> list[pa.RecordBatch]:
    """The rows of all entries, in the order of their arrival."""
    return [entry.rows for entry in entries if entry.rows is not None]


def counted(name: str, entries: list[Entry], commits: Mapping[str, int]) -> list[Entry]:
    """The entries of a journal without the last one, if that one counts only with a commit which is not there.

    ``commits``: the number of the newest commit of each split that is being written. Splits that are not among them are
    closed, and have all of their commits. A base is written when its commits are durable, and every record when those
    of the one before are: raises :class:`CorruptionError` if they are not there.
    """
    for index, entry in enumerate(entries):
        for split, (number, _) in entry.head.splits.items():
            if number > commits.get(split, number):
                if entry.head.base or index < len(entries) - 1:
                    raise CorruptionError(
                        f"{split} has {commits[split]} commits, although {name} goes on behind commit {number}: it is "
                        "an older file than the one that was written; restore a backup, or salvage the store"
                    )
                return entries[:index]
    return entries
