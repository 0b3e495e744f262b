"""Late rows leave the journal: by compaction, when a stream is closed, and by maintenance when nothing comes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.media.crash import RecordingMedium, durable
from support.streams.history import NAME, SCHEMA, rows_of, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import LockedError
from tidelog.store.split.merge_policy import AUTOMATIC
from tidelog.store.tail.journal import newest_entries
from tidelog.store.tail.journal import rows_of as journal_rows
from tidelog.store.tail.late import merging
from tidelog.store.tail.paths import tail_path

LEAF = 64
ROWS = 60 * LEAF
CHUNKS = 8

Rows = list[tuple[int, int]]


def shaped(shape: str) -> Rows:
    """Rows as (time, id) in an order of arrival that is not that of their times."""
    dice = random.Random(7)
    if shape == "tracks":  # one after the other, each somewhere in the range
        rows = []
        for _ in range(40):
            start = dice.randrange(8 * ROWS)
            rows += sorted(start + dice.randrange(2 * ROWS) for _ in range(ROWS // 40))
        return [(time, id) for id, time in enumerate(rows)]
    times = [10 * number for number in range(ROWS)]
    if shape == "reverse":
        times.reverse()
    elif shape == "random":
        dice.shuffle(times)
    elif shape == "two sources":  # one of them far behind the other
        times = [time for pair in zip(times[ROWS // 2 :], times, strict=False) for time in pair]
    return [(time, id) for id, time in enumerate(times)]


def created(**options: Any) -> tuple[RecordingMedium, Store, Stream]:
    medium = RecordingMedium()
    store = Store(medium, maintenance="manual")
    small = {"leaf_rows": LEAF, "late_rows": 100 * ROWS, "journal_bytes": 1 << 20}
    return medium, store, store.create_stream(NAME, SCHEMA, "ts", **{**small, **options})


def load(stream: Stream, rows: Rows) -> None:
    size = -(-len(rows) // CHUNKS)
    for first in range(0, len(rows), size):
        stream.append(table(rows[first : first + size]))
        stream.flush()


def in_journal(stream: Stream) -> int:
    context = writer_of(stream).context
    found = newest_entries(context.medium, tail_path(context.directory), context.read_rows)
    return 0 if found is None else sum(batch.num_rows for batch in journal_rows(found[1]))


def sorted_bytes(rows: Rows) -> int:
    """What the same rows take that are loaded in order."""
    _, store, stream = created()
    stream.append(table(sorted(rows)))
    stream.compact()
    size = split_bytes(stream.stats())
    store.close()
    return size


def split_bytes(stats: dict[str, Any]) -> int:
    """Bytes of all splits, closed or not."""
    return int(stats["files"]["closed"] + stats["files"]["open"])


def settled(stream: Stream, rows: Rows) -> None:
    """Assert that all rows are in splits that do not overlap, but for less than a leaf."""
    stats = stream.stats()
    assert stats["late"]["queued"] == 0
    assert stats["late"]["rows"] == sum(stats["late"][key] for key in ("placed", "merged", "spilled"))
    assert stats["rows_in_memory"] == in_journal(stream) < LEAF
    # Splits of so few rows are mostly padding; what late rows leave behind is reclaimed from 64 KiB on.
    assert split_bytes(stats) < 2 * sorted_bytes(rows) + (1 << 16)
    assert stats["files"]["dead"] < 1 << 16
    assert [(row.time, row.id) for row in rows_of(stream)] == sorted(rows)


SHAPES = ["tracks", "reverse", "random", "two sources"]


@pytest.mark.parametrize("late_merge", ["dense", "plain", "never"])
@pytest.mark.parametrize("shape", SHAPES)
def test_compaction_takes_late_rows_out_of_the_journal(shape: str, late_merge: str) -> None:
    medium, store, stream = created(late_merge=late_merge)
    rows = shaped(shape)
    load(stream, rows)
    assert in_journal(stream) > 10 * LEAF
    stream.compact()
    settled(stream, rows)
    assert store.check() == []
    with Store(durable(medium), read_only=True) as after_a_crash:
        settled(after_a_crash.stream(NAME), rows)
    before = writer_of(stream).manifests.load().number, stream.stats()["files"]
    assert stream.compact().merges == 0
    assert (writer_of(stream).manifests.load().number, stream.stats()["files"]) == before
    more = [(20 * ROWS + number, ROWS + number) for number in range(3 * LEAF)]
    stream.append(table(more))
    store.close()
    with Store(medium, read_only=True) as again:
        assert [(row.time, row.id) for row in rows_of(again.stream(NAME))] == sorted(rows + more)
        assert again.check() == []


@pytest.mark.parametrize("shape", SHAPES)
def test_whoever_compacts_a_stream_that_nobody_writes_takes_late_rows_along(shape: str) -> None:
    medium, store, stream = created(late_bytes=1 << 40)
    rows = shaped(shape)
    load(stream, rows)
    store.close()
    with Store(medium, maintenance="manual") as store, Store(medium) as another:
        stream = store.stream(NAME)
        assert in_journal(stream) > 10 * LEAF
        stream.compact()
        settled(stream, rows)
        another.stream(NAME).append(table([(0, 9)]))  # the lock is free again
        assert store.check() == []


def test_late_rows_of_another_writer_are_left_to_it() -> None:
    medium, store, stream = created()
    rows = shaped("reverse")
    load(stream, rows)
    with Store(medium, maintenance="manual") as store_of_another:
        other = store_of_another.stream(NAME)
        queued = other.stats()["late"]["queued"]
        assert other.compact().is_done
        assert other.stats()["late"]["queued"] == queued == stream.stats()["late"]["queued"] > 0
        assert in_journal(other) > 10 * LEAF
        with pytest.raises(LockedError):
            other.append(table([(1, 1)]))
        stream.compact()
        assert other.stats()["late"]["queued"] == 0
    store.close()


@pytest.mark.parametrize("shape", [*SHAPES, "in order"])
def test_any_process_is_told_how_many_late_rows_wait_and_what_is_on_disk(shape: str) -> None:
    medium, store, stream = created(late_rows=17 * LEAF, split=3000)
    rows = shaped(shape)
    size = 3 * LEAF + 5
    for first in range(0, len(rows), size):
        stream.append(table(rows[first : first + size]))
        stream.flush()
        with Store(medium, read_only=True) as other:
            found, known = other.stream(NAME).stats(), stream.stats()
            assert {key: found[key] for key in ("late", "files", "bytes", "rows", "rows_in_memory")} == {
                key: known[key] for key in ("late", "files", "bytes", "rows", "rows_in_memory")
            }
    files = stream.stats()["files"]
    directory = writer_of(stream).context.directory
    on_disk = {
        name: medium.open(name).size()
        for name in medium.names(directory)
        if name.endswith(".tide") or "/journal-" in name
    }
    closed = {f"{directory}/splits/{split['name']}" for split in stream.stats()["splits"]}
    assert files["closed"] == sum(size for name, size in on_disk.items() if name in closed)
    assert files["open"] == sum(size for name, size in on_disk.items() if name.endswith(".tide") and name not in closed)
    assert files["journal"] == sum(size for name, size in on_disk.items() if "/journal-" in name)
    assert stream.stats()["bytes"] == files["closed"] + files["open"] + files["journal"]
    store.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_much_that_waits_is_put_in_order_when_a_stream_is_closed(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = shaped(shape)
    for limit, is_left in ((1 << 40, True), (10 * LEAF, False)):
        monkeypatch.setattr(merging, "_MUCH_UNSAVED", 1 << 40)
        medium, store, stream = created()
        load(stream, rows)
        monkeypatch.setattr(merging, "_MUCH_UNSAVED", limit)
        store.close()
        with Store(medium, read_only=True) as store:
            stream = store.stream(NAME)
            assert (in_journal(stream) >= LEAF) == is_left
            assert [(row.time, row.id) for row in rows_of(stream)] == sorted(rows)
            assert store.check() == []


def test_maintenance_puts_in_order_what_waits_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, store, stream = created()
    rows = shaped("reverse")
    load(stream, rows)
    tail = writer_of(stream)._tail
    assert tail is not None
    assert not tail.settle_if_due(AUTOMATIC)
    assert not tail.settle_if_due(AUTOMATIC)  # not much
    monkeypatch.setattr(merging, "_MUCH_UNSAVED", 10 * LEAF)
    for number in range(3):  # rows come, late ones too
        stream.append(table([(number, ROWS + number)] * 2000))
        rows += [(number, ROWS + number)] * 2000
        assert not tail.settle_if_due(AUTOMATIC)
    fresh = [(20 * ROWS, 9 * ROWS)] * 2000
    stream.append(table(fresh))  # rows come, none of them late
    assert tail.settle_if_due(AUTOMATIC)
    assert stream.stats()["late"]["queued"] == 0
    tail.settle_if_due(AUTOMATIC)  # nothing has come since
    assert stream.stats()["rows_in_memory"] < LEAF
    assert not tail.settle_if_due(AUTOMATIC)
    assert sorted((row.time, row.id) for row in rows_of(stream)) == sorted(rows + fresh)
    assert store.check() == []
    store.close()
    assert not tail.settle_if_due(AUTOMATIC)


def test_maintaining_at_once_does_not_wait_for_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    _, store, stream = created()
    rows = shaped("random")
    load(stream, rows)
    monkeypatch.setattr(merging, "_MUCH_UNSAVED", 10 * LEAF)
    stream.maintain()
    assert stream.stats()["late"]["queued"] == 0
    assert in_journal(stream) < LEAF
    assert store.check() == []


def test_what_late_rows_leave_behind_in_a_split_is_reclaimed() -> None:
    """The manifest knows how much of a closed split is dead, after it was read from disk too."""
    medium, store, stream = created(late_merge="plain")
    rows = [(10 * number, number) for number in range(40 * LEAF)]
    stream.append(table(rows))
    for round in range(6):
        late = [(10 * number + 1 + round, 10_000 * (round + 1) + number) for number in range(0, 39 * LEAF, 8)]
        stream.append(table(late))
        stream.flush()
        assert writer_of(stream)._tail is not None
        writer_of(stream)._tail.settle()
        rows += late
    writer_of(stream)._tail.new_split()
    (split,) = writer_of(stream).manifests.load().splits.values()
    assert 0.5 * split.bytes < split.dead_bytes < split.bytes
    store.close()
    with Store(medium, maintenance="manual") as store:
        stream = store.stream(NAME)
        (again,) = writer_of(stream).manifests.load().splits.values()
        assert again.dead_bytes == split.dead_bytes == stream.stats()["files"]["dead"]
        stream.compact()
        (anew,) = writer_of(stream).manifests.load().splits.values()
        assert anew.dead_bytes == 0
        assert anew.bytes < 0.6 * split.bytes
        assert [(row.time, row.id) for row in rows_of(stream)] == sorted(rows)
        assert store.check() == []


def test_a_few_late_rows_are_merged_and_the_open_split_stays_open() -> None:
    _, store, stream = created()
    rows = [(10 * number, number) for number in range(50 * LEAF)]
    late = [(10 * number + 5, 10_000 + number) for number in (5, 9 * LEAF, 30 * LEAF)]
    stream.append(table(rows))
    stream.append(table(late))
    stream.compact()
    assert stream.stats()["late"]["merged"] == 3
    assert not writer_of(stream).manifests.load().splits
    assert [(row.time, row.id) for row in rows_of(stream)] == sorted(rows + late)
    store.close()
