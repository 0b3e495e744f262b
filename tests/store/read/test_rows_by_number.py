"""How far so many rows reach, against counting them one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.rows_by_number import first_rows
from tidelog.store.read.snapshot import Snapshot

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])
SMALL: dict[str, Any] = {"leaf_rows": 4, "fanout": 3, "late_rows": 9, "journal_bytes": 1500, "grace": 0}


def created(**options: Any) -> Stream:
    return Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", **{**SMALL, **options})


def batch(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch([times, times], schema=SCHEMA)


def append(stream: Stream, times: list[int]) -> None:
    stream.append(batch(times))
    stream.flush()


def load(stream: Stream, times: list[int], overwrite: Interval | None = None) -> None:
    writer = BulkWriter(writer_of(stream).context, memory=2000)
    writer.append(batch(times))
    commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=overwrite, outside="append")


def reopened(stream: Stream) -> Stream:
    """The next append begins another block of numbers if somebody else has committed."""
    stream.close()
    return Store(writer_of(stream).context.medium).stream("s")


def counted(stream: Stream, numbers: SeqSet, start: int | None, end: int | None, without: list[Deletion]) -> list[int]:
    """The numbers that rows have, one by one."""
    found = stream.scan(start, end, seq=True, as_of=numbers).read_all()
    rows = zip(found["ts"].to_pylist(), found["_seq"].to_pylist(), strict=True)
    return sorted(
        number for time, number in rows if not any(m.interval.contains(time) and number in m.numbers for m in without)
    )


def naive(numbers: SeqSet, rows: list[int], most: int) -> SeqSet:
    return numbers if len(rows) <= most else numbers & SeqSet.below(rows[most])


steps = st.lists(
    st.tuples(st.sampled_from("aatllodmcr"), st.lists(st.integers(0, 60), min_size=1, max_size=25)), max_size=9
)
spans = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=3).map(SeqSet)
bounds = st.none() | st.integers(-5, 65)


@settings(max_examples=scaled(80))
@given(steps, spans, st.integers(1, 40), bounds, bounds, st.none() | st.tuples(bounds, spans), st.booleans())
def test_every_step_has_as_many_rows_as_it_may(
    steps: list[tuple[str, list[int]]],
    seen: SeqSet,
    most: int,
    start: int | None,
    end: int | None,
    skipped: tuple[int | None, SeqSet] | None,
    is_closed: bool,
) -> None:
    stream = created(split=30)
    for kind, times in steps:
        if kind == "t":
            append(stream, sorted(times))
        elif kind == "a":
            append(stream, times)
        elif kind == "l":
            load(stream, times)
        elif kind == "o":
            load(stream, times[2:], Interval(times[0], times[0] + 20))
        elif kind == "d":
            stream.delete_before(times[0] // 2)
        elif kind == "m":
            stream.maintain()
        elif kind == "c":
            stream.compact()
        else:
            stream = reopened(stream)
    if is_closed:
        stream = reopened(stream)
    snapshot = writer_of(stream).published()
    without = [Deletion(Interval(None, skipped[0]), skipped[1])] if skipped is not None and skipped[1] else []
    left = snapshot.visible - seen
    batches = 0
    while left:
        rows = counted(stream, left, start, end, without)
        step = first_rows(snapshot, left, most, start, end, without)
        assert step == naive(left, rows, most)
        left -= step
        batches += 1
        assert batches <= 400


def leaves_read(snapshot: Snapshot, numbers: SeqSet, most: int) -> tuple[SeqSet, int]:
    counters = ReadCounters()
    return first_rows(snapshot, numbers, most, counters=counters), counters.leaves


def test_billions_of_numbers_without_rows_are_one_step() -> None:
    stream = created()
    append(stream, [1, 2, 3, 4])
    for time in (10, 20, 30):
        load(stream, [time, time + 1])
        stream = reopened(stream)
        append(stream, [time + 5, time + 6])
    snapshot = writer_of(stream).published()
    assert snapshot.visible.stop > 3 << 32
    left, sizes = snapshot.visible, []
    while left:
        step = first_rows(snapshot, left, 5)
        sizes.append(len(counted(stream, step, None, None, [])))
        left -= step
    assert sizes == [5, 5, 5, 1]


def test_rows_that_came_in_order_are_not_looked_at() -> None:
    stream = created(split_bytes=2000)
    append(stream, list(range(3000)))
    load(stream, list(range(3000, 4000)))
    snapshot = writer_of(reopened(stream)).published()
    step, leaves = leaves_read(snapshot, snapshot.visible - SeqSet.below(10), 2985)
    assert step.count == 2985
    assert leaves == 0


def test_few_leaves_are_looked_at_where_numbers_are_mixed() -> None:
    """Two loads of one time range that were merged: every leaf has numbers of both, far apart."""
    stream = created()
    for _ in range(2):
        load(stream, list(range(4000)))
    stream.compact()
    assert len(writer_of(stream).manifests.load().splits) == 1
    snapshot = writer_of(stream).published()
    step, leaves = leaves_read(snapshot, snapshot.visible - SeqSet.below(2000), 100)
    assert step == SeqSet([(2000, 2100)])
    # All that have one of these numbers, or a smaller one: of the latter nobody knows what else they have.
    assert leaves <= 2200 // 2 + 5
    step, leaves = leaves_read(snapshot, snapshot.visible, 100)
    assert step == SeqSet.below(100)
    assert leaves <= 110
