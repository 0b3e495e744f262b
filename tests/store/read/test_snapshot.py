"""Snapshots by readers: what they see when writers come, go, fail and delete."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.media.crash import RecordingMedium
from support.media.descriptors import open_below
from support.media.disk_states import Disk
from support.streams.history import NAME, SCHEMA, SMALL, rows_of, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.storage import FileMedium
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read import snapshots
from tidelog.store.tail.paths import published_path


def created(**options: Any) -> tuple[RecordingMedium, Store, Stream]:
    medium = RecordingMedium()
    store = Store(medium)
    return medium, store, store.create_stream(NAME, SCHEMA, "ts", **{**SMALL, **options})


def numbered(first: int, last: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(first, last)]


def test_a_snapshot_is_taken_anew_only_when_something_has_changed() -> None:
    medium, store, stream = created()
    other = Store(medium, read_only=True).stream(NAME)
    stream.append(table(numbered(0, 20)))
    assert stream.snapshot() is stream.snapshot()
    stream.flush()
    seen = other.snapshot()
    assert other.snapshot() is seen
    stream.append(table(numbered(20, 21)))
    assert other.snapshot() is seen
    stream.flush()
    assert [row.id for row in rows_of(other)] == list(range(21))
    stream.delete_before(5)
    assert [row.id for row in rows_of(other)] == list(range(5, 21))
    store.close()
    assert [row.id for row in rows_of(other)] == list(range(5, 21))
    with Store(medium) as store:
        store.stream(NAME).append(table([(50, 50)]))
        assert len(other) == 16
        store.flush()
        assert len(other) == 17
    assert len(other) == 17


def test_rows_of_a_later_flush_are_seen_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a reader reads the journal that a tail record names, a flush may close a split with a part of its rows."""
    medium, store, stream = created(split=50)
    stream.append(table(numbered(0, 30)))
    stream.flush()
    other = Store(medium, read_only=True).stream(NAME)
    reads = 0
    read_entries = snapshots.read_entries

    def interrupted(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        found = read_entries(*arguments)
        if reads == 1:
            stream.append(table(numbered(30, 130)))
            stream.flush()
        return found

    monkeypatch.setattr(snapshots, "read_entries", interrupted)
    assert [row.id for row in rows_of(other)] == list(range(30))
    assert [row.id for row in rows_of(other)] == list(range(130))
    assert reads == 2
    store.close()


class Interrupted:
    """Has something happen right before a reader looks at the stream for the n-th time, at whatever of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reader: Stream, at: int, happens: Callable[[], None]) -> None:
        self.looks = 0
        self._at = at
        self._happens = happens
        taker = writer_of(reader).snapshots
        for owner, name in ((taker._publications, "newest"), (taker._manifests, "load"), (snapshots, "read_entries")):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))
        monkeypatch.setattr(
            writer_of(reader).context.medium, "is_locked", self._watched(writer_of(reader).context.medium.is_locked)
        )

    def _watched(self, look: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            self.looks += 1
            if self.looks == self._at:
                self._happens()
            return look(*arguments)

        return watched


@pytest.mark.parametrize("rows", [5, 100], ids=["in memory", "that close splits"])
@pytest.mark.parametrize("is_open", [True, False], ids=["at work", "that comes and goes"])
def test_what_was_acknowledged_first_is_seen_by_whoever_sees_what_came_then(
    monkeypatch: pytest.MonkeyPatch, rows: int, is_open: bool
) -> None:
    """Flushes and commits beside the tail, at every moment of a look at the stream: what is seen is a prefix."""
    at, looks = 1, 1
    while at <= looks + 1:
        medium, store, stream = created(split=50)
        stream.append(table(numbered(0, 30)))
        stream.flush()
        if not is_open:
            store.close()
        reader = Store(medium, read_only=True).stream(NAME)
        steps = [30]

        def happens(
            medium: RecordingMedium = medium, store: Store = store, stream: Stream = stream, steps: list[int] = steps
        ) -> None:
            own = store if is_open else Store(medium)
            stream = stream if is_open else own.stream(NAME)
            for kind in ("flushed", "loaded", "flushed", "loaded"):
                first = steps[-1]
                new = table(numbered(first, first + rows))
                if kind == "flushed":
                    stream.append(new)
                    stream.flush()
                else:
                    writer = BulkWriter(writer_of(stream).context)
                    for batch in new.to_batches():
                        writer.append(batch)
                    commit_bulk(writer_of(stream).manifests, writer.finish())
                steps.append(first + rows)
            if not is_open:
                own.close()

        with monkeypatch.context() as patch:
            interrupted = Interrupted(patch, reader, at, happens)
            found = sorted(row.id for row in rows_of(reader))
            looks = interrupted.looks
        assert found in [list(range(step)) for step in steps], f"at look {at}"
        assert sorted(row.id for row in rows_of(reader)) == list(range(steps[-1]))
        store.close()
        at += 1
    assert looks > 4


def test_a_writer_that_comes_while_a_reader_looks_at_what_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    medium, store, stream = created()
    stream.append(table(numbered(0, 30)))
    store.close()
    other = Store(medium, read_only=True).stream(NAME)
    read_state = snapshots.read_state
    writers: list[Store] = []

    def interrupted(*arguments: Any) -> Any:
        state = read_state(*arguments)
        if not writers:
            writers.append(Store(medium))
            again = writers[0].stream(NAME)
            again.append(table(numbered(30, 51)))  # leaves, and a rest
            again.flush()
        return state

    monkeypatch.setattr(snapshots, "read_state", interrupted)
    assert [row.id for row in rows_of(other)] in (list(range(30)), list(range(51)))
    writers[0].close()


def test_a_tail_record_from_before_a_loss_of_power_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file with the tail record is never synced, so an old one may be back when the next writer takes the lock."""
    medium, _, stream = created(journal_bytes=1 << 20)
    stream.append(table(numbered(0, 3)))
    stream.flush()
    path = published_path(writer_of(stream).context.directory)
    old = medium.open(path).read(0, 1 << 18)
    stream.append(table(numbered(3, 6)))
    stream.flush()
    disk = Disk(medium.baseline)
    for operation in medium.log:
        disk.advance(operation)
    left = RecordingMedium(disk.view().durable)
    if not left.exists(path):
        left.create(path).close()
    with left.open(path, writable=True) as file:
        file.write(0, old)
    other = Store(left, read_only=True).stream(NAME)
    assert len(other) == 6
    seen: list[int] = []
    # While the new writer recovers, with the lock in its hands:
    left.before = lambda kind, name: seen.append(len(other)) if kind in ("create", "sync") and "tail/" in name else None
    with Store(left) as store:
        store.stream(NAME).append(table(numbered(6, 7)))
        left.before = None
        assert seen
        assert set(seen) == {6}
        store.flush()
        assert len(other) == 7


def test_journals_that_are_replaced_again_and_again() -> None:
    medium, store, stream = created(journal_bytes=1)
    other = Store(medium, read_only=True).stream(NAME)
    for number in range(40):
        stream.append(table([(number % 7, number)]))
        stream.flush()
        assert len(other) == number + 1
    store.close()
    assert len(other) == 40
    assert len([name for name in medium.names() if "/journal-" in name]) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell which files are open")
def test_files_that_were_removed_are_not_kept_open(tmp_path: Path) -> None:
    """Their space would not be free before the reader ends."""

    def kept() -> list[str]:
        gc.collect()
        return [path for path in open_below(tmp_path) if path.endswith("(deleted)")]

    with Store(FileMedium(tmp_path)) as store, Store(FileMedium(tmp_path), read_only=True) as reader:
        stream = store.create_stream(NAME, SCHEMA, "ts", **{**SMALL, "split_bytes": 1 << 20, "grace": 0.0})
        other = reader.stream(NAME)
        for first in range(0, 200, 20):
            writer = BulkWriter(writer_of(stream).context)
            for batch in table(numbered(first, first + 20)).to_batches():
                writer.append(batch)
            commit_bulk(writer_of(stream).manifests, writer.finish())
        held = other.snapshot()
        assert len(rows_of(other)) == len(rows_of(stream)) == 200
        assert stream.compact().merges
        store.sweep()
        assert len(rows_of(other)) == len(rows_of(stream)) == 200
        store.sweep()
        assert held.manifest.number < other.snapshot().manifest.number
        assert len(rows_of(other)) == len(rows_of(stream)) == 200
        del held
        assert kept() == []
