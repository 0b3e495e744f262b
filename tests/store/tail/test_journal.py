"""The journal of a tail: records as they were written, and which of them count."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium
from tidelog.model.errors import CorruptionError, NewerReleaseError
from tidelog.storage.journal.journal import Journal
from tidelog.store.tail.journal import (
    Entry,
    Head,
    TailJournal,
    counted,
    journal_name,
    journal_numbers,
    kept_of,
    message_of,
    newest_entries,
    pack,
    read_entries,
    read_heads,
    unpack,
)

STORED = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("text", pa.string()), ("_seq", pa.int64())])
DIRECTORY = "tail"


def read_rows(message: pa.Buffer, version: int) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(message, STORED)


def rows(*numbers: int) -> pa.RecordBatch:
    columns = [list(numbers), [f"row {n}" if n % 2 else None for n in numbers], list(numbers)]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, STORED, strict=True)], schema=STORED
    )


def medium() -> RecordingMedium:
    made = RecordingMedium()
    made.make_directory(DIRECTORY)
    return made


HEAD = Head(
    {"ä.tide": (3, 17)},
    12,
    {"producer ü": 5},
    True,
    schema=2,
    late={"rows": 3, "total": 4.5},
    shares={"producer ü": [4, {"5": [12, 99, "eJw="]}]},
    newest=-7,
)


@pytest.mark.parametrize("batch", [None, rows(), rows(1), rows(*range(100)), rows(*range(50)).slice(7, 20)])
def test_records_come_back_as_they_were(batch: pa.RecordBatch | None) -> None:
    entry = unpack(pack(HEAD, message_of(batch)), read_rows)
    assert entry.head == HEAD
    expected = batch if batch is not None and batch.num_rows else None
    assert entry.rows == expected if expected is None else entry.rows.equals(expected)


def test_a_record_of_a_newer_release_is_not_called_damage() -> None:
    text = b'{"splits": {}, "next_seq": 1, "tiers": []}'
    text += b" " * (-len(text) % 8)
    with pytest.raises(NewerReleaseError, match="'tiers', which this release does not know; use a newer release"):
        unpack(len(text).to_bytes(8, "little") + text, read_rows)


@pytest.mark.parametrize("payload", [b"", b"1234567", b"\0" * 16, pack(HEAD, None)[:20], b"\xff" * 40])
def test_other_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(CorruptionError, match="journal"):
        unpack(payload, read_rows)


def test_rows_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(CorruptionError, match="rows"):
        unpack(pack(HEAD, message_of(rows(1)))[:-24], read_rows)


def test_a_journal_is_replaced_by_one_that_starts_with_a_base() -> None:
    files = medium()
    journal = TailJournal(files, DIRECTORY, Head({}, 0, {}, True), None, 1)
    journal.append(Head({"a": (1, 1)}, 2, {"p": 7}), message_of(rows(0, 1)))
    journal.file.sync()
    assert [entry.head.next_seq for entry in read_entries(files, journal.name, read_rows)] == [0, 2]
    assert read_entries(files, journal.name, read_rows, 1)[-1].head.next_seq == 0
    with pytest.raises(CorruptionError, match="has 2 records, 3 were published"):
        read_entries(files, journal.name, read_rows, 3)
    before = journal.file.bytes
    journal.replace(Head({"a": (1, 1)}, 2, {"p": 7}, True), rows(1))
    assert (journal.number, journal.file.last) == (2, 1)
    assert journal.file.bytes < before
    assert journal_numbers(files, DIRECTORY) == [1, 2]
    journal.remove_older()
    assert journal_numbers(files, DIRECTORY) == [2]
    journal.close()
    number, entries = newest_entries(files, DIRECTORY, read_rows) or (0, [])
    assert (number, kept_of(entries).producers) == (2, {"p": 7})
    assert [head.next_seq for head in read_heads(files, journal.name)] == [2]


def test_a_journal_without_a_base_does_not_count_and_is_not_in_the_way() -> None:
    files = medium()
    TailJournal(files, DIRECTORY, Head({}, 5, {}, True), None, 1).close()
    Journal.create(files, journal_name(DIRECTORY, 2)).close()
    number, entries = newest_entries(files, DIRECTORY, read_rows) or (0, [])
    assert (number, entries[0].head.next_seq) == (1, 5)
    TailJournal(files, DIRECTORY, Head({}, 6, {}, True), None, 2).close()
    assert (newest_entries(files, DIRECTORY, read_rows) or (0, []))[0] == 2


def test_a_first_record_that_is_no_base_is_corruption() -> None:
    files = medium()
    with Journal.create(files, journal_name(DIRECTORY, 1)) as journal:
        journal.append(pack(Head({}, 1), None))
    with pytest.raises(CorruptionError, match="not a base"):
        read_entries(files, journal_name(DIRECTORY, 1), read_rows)


def test_no_journals() -> None:
    assert newest_entries(medium(), DIRECTORY, read_rows) is None


def test_records_count_together_with_their_commits() -> None:
    def entry(base: bool = False, **splits: int) -> Entry:
        return Entry(Head({name: (number, 0) for name, number in splits.items()}, 0, base=base), None)

    entries = [entry(base=True, a=0), entry(a=1), entry(a=1, b=0), entry(a=2, b=1)]
    assert counted("j", entries, {"a": 2, "b": 1}) == entries
    assert counted("j", entries, {"a": 1, "b": 1}) == entries[:3]
    assert counted("j", entries, {"a": 9, "b": 0}) == entries[:3]
    assert counted("j", entries, {"b": 0}) == entries[:3], "a split that is not named has all of its commits"
    for damaged in ({"a": 0}, {"a": 0, "b": 1}):
        with pytest.raises(CorruptionError, match="a has 0 commits, although j goes on behind commit 1"):
            counted("j", entries, damaged)
    with pytest.raises(CorruptionError, match="a has 0 commits"):
        counted("j", [entry(base=True, a=1)], {"a": 0})


def test_a_journal_under_the_name_of_another_is_noticed() -> None:
    files = medium()
    TailJournal(files, DIRECTORY, Head({}, 5, {}, True), None, 1).close()
    files.link(journal_name(DIRECTORY, 1), journal_name(DIRECTORY, 2))
    with pytest.raises(CorruptionError, match=r"it was .*journal-000000000001"):
        newest_entries(files, DIRECTORY, read_rows)
