"""The tail record: what the writer of a stream's tail has published for readers in other processes.

A small file with two slots, written in turn and not synced by writers: readers believe it only while its writer is at
work, which the lock ``live`` says, taken when the first record is published. What a record names was durable before it
was written, so that the journal and the splits can be held against it at any time: what was published and is not there
any more was lost. A slot is::

    0   u32 length of the text, u32 CRC-32 of number and text
    8   u64 number of the publication, from 1
    16  JSON

Slot ``i`` starts at ``i * 65536``.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.model.errors import CorruptionError, InputError, NotFoundError, StorageError
from tidelog.storage.media.medium import File, Medium
from tidelog.store.log.file_names import check_plain_name
from tidelog.store.split.open_files import FILES

_SLOT = 1 << 16
_HEAD = struct.Struct("<IIQ")
_NUMBER = struct.Struct("<Q")
_ATTEMPTS = 5


class TailRecord(NamedTuple):
    """A state of the tail: everything a reader needs to see exactly what was flushed. One is made by every flush."""

    journal: str
    """Name of the journal."""
    records: int
    """How many of its records count."""
    splits: Mapping[str, tuple[int, int]]
    """The splits being written, each with number and position of a commit."""
    next_seq: int = 0
    """Rows with smaller sequence numbers were flushed, as far as they are the tail's."""
    block: tuple[int, int] | None = None
    """The sequence numbers reserved for the tail that it is using up, the second one excluded."""


def splits_text(splits: Mapping[str, tuple[int, int]]) -> str:
    """The JSON text of splits with number and position of a commit. Mostly the same as the time before."""
    return _splits_text(tuple(splits.items())) if splits else "{}"


@functools.lru_cache(16)
def _splits_text(splits: tuple[tuple[str, tuple[int, int]], ...]) -> str:
    return json.dumps(dict(splits))


class Publisher:
    """Writes tail records. One at a time, by the holder of the tail lock."""

    def __init__(self, medium: Medium, name: str) -> None:
        self._file = medium.open(name, writable=True) if medium.exists(name) else medium.create(name)
        newest = _newest(self._file, _heads(self._file))
        self._number = newest[0] if newest else 0
        self._known: tuple[str, Mapping[str, tuple[int, int]], tuple[int, int] | None] | None = None
        self._around = ("", "", "")
        """The text around the numbers of records and rows, for what is known: journal, splits, block."""

    def publish(self, record: TailRecord) -> None:
        """Let readers see a state that is durable. Mostly two numbers have changed since the time before."""
        journal, records, splits, next_seq, block = record
        if (journal, splits, block) != self._known:
            self._known = journal, dict(splits), block
            self._around = (
                f'{{"journal": {json.dumps(journal)}, "records": ',
                f', "splits": {splits_text(splits)}, "next_seq": ',
                f', "block": {json.dumps(block)}}}',
            )
        before, between, behind = self._around
        self._write(f"{before}{records}{between}{next_seq}{behind}".encode())

    def _write(self, text: bytes) -> None:
        self._number += 1
        body = _NUMBER.pack(self._number) + text
        if len(body) + 8 > _SLOT:
            raise StorageError(
                f"a tail record of {len(text)} bytes does not fit a slot of {_SLOT}; append in smaller parts"
            )
        self._file.write((self._number % 2) * _SLOT, _HEAD.pack(len(text), zlib.crc32(body), self._number) + text)

    def sync(self) -> None:
        """Make what was published durable, for a copy that nobody writes: there it tells what its journal must have."""
        self._file.sync()

    def close(self) -> None:
        """Close the file, without a sync."""
        self._file.close()


class Publications:
    """Reads tail records, also while they are written. May be used from several threads."""

    def __init__(self, medium: Medium, name: str) -> None:
        self._medium = medium
        self._name = name
        self._opened: tuple[File, memoryview | None] | None = None
        """The file, and its slots if it is mapped: such a view shows what is written."""
        self._last: tuple[list[bytes], tuple[int, TailRecord]] | None = None
        """The heads seen last, and what they stand for: a number is never published twice."""

    def newest(self) -> tuple[int, TailRecord | None]:
        """The number of the newest publication, and what it says, if anything; 0 and None if there was none."""
        opened = self._open()
        if opened is None:
            return 0, None
        file, view = opened
        for _ in range(_ATTEMPTS):  # the slot being written may be torn; then the other one is the newest
            heads = _heads(file) if view is None else [bytes(view[: _HEAD.size]), bytes(view[_SLOT:])]
            last = self._last
            if last is not None and last[0] == heads:
                return last[1]
            newest = _newest(file, heads)
            if newest is not None:
                if newest[0] == max(_HEAD.unpack(head)[2] for head in heads if len(head) == _HEAD.size):
                    self._last = heads, newest  # and not when the head of a newer one is there before its text
                return newest
        return 0, None

    def _open(self) -> tuple[File, memoryview | None] | None:
        """The file, open, and its view; None if there is no file yet."""
        opened = self._opened
        if opened is not None and (opened[1] is not None or not opened[0].maps):
            FILES.used(self, None)
            return opened
        if opened is None:
            try:
                file = self._medium.open(self._name)
            except NotFoundError:
                return None
        else:
            file = opened[0]
        is_whole = file.maps and file.size() >= _SLOT + _HEAD.size
        opened = self._opened = file, file.view(0, _SLOT + _HEAD.size) if is_whole else None
        FILES.opened(self, None)
        return opened

    def let_go(self, key: None) -> bool:
        """Keep the file open no longer."""
        self._opened = None
        return True

    def close(self) -> None:
        """Keep the file open no longer; it is opened again when it is asked for."""
        self._opened = None
        FILES.closed(self, None)


def _heads(file: File) -> list[bytes]:
    return [file.read(slot * _SLOT, _HEAD.size) for slot in range(2)]


def _newest(file: File, heads: list[bytes]) -> tuple[int, TailRecord] | None:
    found: tuple[int, TailRecord] | None = None
    for slot, head in enumerate(heads):
        if len(head) < _HEAD.size:
            continue
        length, crc, number = _HEAD.unpack(head)
        if number == 0 or length > _SLOT - _HEAD.size or number % 2 != slot:
            continue
        text = file.read(slot * _SLOT + _HEAD.size, length)
        if zlib.crc32(_NUMBER.pack(number) + text) == crc and (found is None or number > found[0]):
            try:
                found = number, _record(file.name, json.loads(text))
            except (InputError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise CorruptionError(f"{file.name} makes no sense: {error}; restore it from a backup") from error
    return found


def _record(name: str, values: Any) -> TailRecord:
    """What a slot of the file ``name`` says; raises if that makes no sense, or names files that are elsewhere."""
    directory, _, plain = values["journal"].rpartition("/")
    check_plain_name(plain)
    if directory != name.rpartition("/")[0]:
        raise InputError(f"found the journal {values['journal']!r}; expected one beside it")
    splits = {name: (commit, position) for name, (commit, position) in values["splits"].items()}
    block = values["block"]
    record = TailRecord(
        values["journal"],
        int(values["records"]),
        splits,
        int(values["next_seq"]),
        None if block is None else (int(block[0]), int(block[1])),
    )
    for split, (commit, position) in splits.items():
        check_plain_name(split)
        if not isinstance(commit, int) or not isinstance(position, int):
            raise TypeError(f"found {commit!r} and {position!r} for the commit of {split}")
    return record
