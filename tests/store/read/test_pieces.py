"""Pieces of a snapshot: together they are the snapshot, whatever happens in between."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.expr import predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model import Schema
from tidelog.model.errors import InputError, NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import ALWAYS, Intervals
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.manifest import Change
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.pieces import Piece, open_piece, plan, scan_piece
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64()), ("word", pa.string())])
SMALL: dict[str, Any] = {"leaf_rows": 4, "fanout": 3, "late_rows": 9, "journal_bytes": 1500}
COLUMNS = ["ts", "n", "word", "_seq"]


def created(**options: Any) -> tuple[MemoryMedium, Stream]:
    medium = MemoryMedium()
    return medium, Store(medium).create_stream("s", SCHEMA, "ts", **{**SMALL, **options})


def batch(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        [times, [time * 7 % 11 for time in times], [f"w{time % 3}" for time in times]], schema=SCHEMA
    )


def append(stream: Stream, times: list[int]) -> None:
    stream.append(batch(times))
    stream.flush()


def load(stream: Stream, times: list[int], overwrite: Interval | None = None) -> None:
    writer = BulkWriter(writer_of(stream).context, memory=2000)
    writer.append(batch(times))
    commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=overwrite, outside="append")


def table(batches: Any, columns: list[str]) -> list[dict[str, Any]]:
    return [row for each in batches for row in each.select(columns).to_pylist()]


def read(stream: Stream, piece: Piece, where: Any = None, counters: ReadCounters | None = None) -> list[dict[str, Any]]:
    """The rows of a piece, as somebody reads them who knows only the piece and where the stream is."""
    sent = pickle.loads(pickle.dumps(piece))
    found = scan_piece(
        writer_of(stream).context.medium, writer_of(stream).context.directory, sent, COLUMNS, where, counters
    )
    return table(found, COLUMNS)


def expected(
    snapshot: Snapshot, start: int | None, end: int | None, where: Any = None, numbers: SeqSet | None = None
) -> list[dict[str, Any]]:
    return table(scan(snapshot, Intervals.of(start, end), COLUMNS, where, numbers), COLUMNS)


steps = st.lists(
    st.tuples(st.sampled_from("taaallod"), st.lists(st.integers(0, 60), min_size=1, max_size=25)), max_size=8
)
bounds = st.none() | st.integers(-5, 65)


@settings(max_examples=scaled(60))
@given(
    steps,
    bounds,
    bounds,
    st.sampled_from([None, "n > 8", "word = 'w1' AND ts < 40", "_seq < 20"]),
    st.none() | st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=3).map(SeqSet),
    st.tuples(st.sampled_from(["pieces", "rows_per_piece"]), st.integers(1, 40)),
    st.booleans(),
)
def test_pieces_together_are_the_snapshot(
    steps: list[tuple[str, list[int]]],
    start: int | None,
    end: int | None,
    where: str | None,
    numbers: SeqSet | None,
    size: tuple[str, int],
    is_closed: bool,
) -> None:
    _, stream = created(split=30)
    for kind, times in steps:
        if kind == "t":
            append(stream, sorted(times))
        elif kind == "a":
            append(stream, times)
        elif kind == "l":
            load(stream, times)
        elif kind == "o":
            load(stream, times[2:], Interval(times[0], times[0] + 20))
        else:
            stream.delete_before(times[0] // 2)
    if is_closed:
        stream.close()
        stream = Store(writer_of(stream).context.medium, read_only=True).stream("s")
    snapshot = writer_of(stream).published()
    condition = None if where is None else predicate(where, snapshot.layout.stored)
    counters = ReadCounters()
    found = plan(snapshot, Intervals.of(start, end), condition, numbers, **{size[0]: size[1]}, counters=counters)
    assert counters.leaves == 0
    rows = [read(stream, piece, condition) for piece in found]
    assert [row for some in rows for row in some] == expected(snapshot, start, end, condition, numbers)
    for one, two in pairwise(found):
        assert one.interval.end is not None
        assert two.interval.start is not None
        assert one.interval.end <= two.interval.start
    if size[0] == "pieces":
        assert len(found) <= size[1]


def test_pieces_are_of_about_equal_work() -> None:
    _, stream = created()
    append(stream, list(range(4000)))
    load(stream, [time * 3 % 4001 for time in range(2000)])
    snapshot = writer_of(stream).published()
    found = plan(snapshot, ALWAYS, pieces=10)
    sizes = [len(read(stream, piece)) for piece in found]
    assert len(found) == 10
    assert sum(sizes) == 6000
    assert max(sizes) < 800
    assert min(sizes) > 400
    assert all(abs(piece.rows - size) < 100 for piece, size in zip(found, sizes, strict=True))
    fine = plan(snapshot, ALWAYS, rows_per_piece=100)
    assert 50 < len(fine) <= 61
    assert len(plan(snapshot, ALWAYS)) == 1


def test_pieces_of_a_narrow_question_are_balanced_too() -> None:
    _, stream = created(fanout=4)
    append(stream, list(range(5000)))
    snapshot = writer_of(stream).published()
    for found in (
        plan(snapshot, ALWAYS, numbers=SeqSet([(100, 164), (3000, 3064)]), pieces=4),
        plan(snapshot, Intervals.of(3000, 3128), pieces=4),
        plan(snapshot, ALWAYS, predicate("_seq >= 640 AND _seq < 768", snapshot.layout.stored), pieces=4),
    ):
        assert len(found) == 4
        assert max(piece.rows for piece in found) <= 64


def test_what_entries_rule_out_is_not_planned_and_not_read() -> None:
    _, stream = created()
    append(stream, list(range(2000)))
    load(stream, list(range(3000, 4000)))
    snapshot = writer_of(stream).published()
    condition = predicate("ts >= 3400 AND ts < 3410", snapshot.layout.stored)
    planning, reading = ReadCounters(), ReadCounters()
    found = plan(snapshot, ALWAYS, condition, pieces=8, counters=planning)
    assert planning.leaves == 0
    assert planning.nodes < 40
    assert {name for piece in found for name in piece.manifest.splits} == set(snapshot.manifest.splits)
    assert all(not piece.opened and not piece.memory for piece in found)
    assert sum(len(read(stream, piece, condition, reading)) for piece in found) == 10
    assert reading.leaves <= 6
    assert plan(snapshot, ALWAYS, predicate("n > 100", snapshot.layout.stored)) == []
    assert plan(snapshot, ALWAYS, numbers=SeqSet()) == []
    for start, end in ((5000, None), (2100, 2900), (50, 50)):
        assert plan(snapshot, Intervals.of(start, end)) == []


def test_a_part_of_the_rows_of_a_piece_is_read_by_its_blocks_alone() -> None:
    _, stream = created()
    append(stream, list(range(4000)))
    leaves = 0
    for piece in plan(writer_of(stream).published(), ALWAYS, pieces=16):
        counters = ReadCounters()
        read(stream, piece, counters=counters)
        leaves += counters.leaves
    assert 1000 <= leaves <= 1000 + 3 * 16  # cuts are bounds of leaves; where a range ends is looked up


def test_streams_without_rows_and_rows_of_one_time() -> None:
    _, stream = created()
    assert plan(writer_of(stream).published(), ALWAYS, pieces=3) == []
    append(stream, [7] * 100)
    load(stream, [7] * 50)
    found = plan(writer_of(stream).published(), ALWAYS, pieces=30)
    assert len(found) == 1
    assert [row["_seq"] for row in read(stream, found[0])] == sorted(row["_seq"] for row in read(stream, found[0]))
    assert len(read(stream, found[0])) == 150


def test_times_at_the_ends_of_the_range() -> None:
    _, stream = created()
    low, high = -(1 << 63), (1 << 63) - 1
    append(stream, [low, low, 0, 0, high, high, high - 1] * 5)
    snapshot = writer_of(stream).published()
    for count in (1, 2, 5, 20):
        found = plan(snapshot, ALWAYS, pieces=count)
        assert [row for piece in found for row in read(stream, piece)] == expected(snapshot, None, None)


def test_the_writer_goes_on_between_planning_and_reading() -> None:
    medium, stream = created(split=1000, journal_bytes=1, grace=1000)
    append(stream, list(range(400)))
    append(stream, [3, 5, 401])
    load(stream, list(range(100, 200)))
    reader = Store(medium, read_only=True).stream("s")
    snapshot = writer_of(reader).published()
    before = expected(snapshot, None, None)
    found = plan(snapshot, ALWAYS, pieces=6)
    assert any(piece.opened for piece in found)
    assert any(piece.memory for piece in found)
    append(stream, list(range(402, 990)))  # the same split goes on
    assert [row for piece in found for row in read(stream, piece)] == before
    append(stream, list(range(1000, 1100)))  # it is closed, and the journal was replaced
    append(stream, [7] * 20)
    assert not medium.exists(snapshot_journal(stream))
    stream.delete_before(50)
    load(stream, [1050], Interval(0, 2000))
    Store(medium).sweep()
    assert [row for piece in found for row in read(stream, piece)] == before
    stream.close()
    again = Store(medium).stream("s")
    append(again, [5000])
    assert [row for piece in found for row in read(again, piece)] == before


def snapshot_journal(stream: Stream) -> str:
    return f"{writer_of(stream).context.directory}/tail/journal-{1:012d}"


def test_pieces_after_the_grace_period() -> None:
    medium, stream = created(grace=0)
    load(stream, list(range(100)))
    found = plan(writer_of(stream).published(), ALWAYS, pieces=2)
    load(stream, [1], Interval(None, None))
    Store(medium).sweep()
    with pytest.raises(NotFoundError):
        read(stream, found[0])


def test_older_versions_of_the_schema() -> None:
    medium, stream = created()
    append(stream, list(range(50)))
    load(stream, list(range(20, 70)))
    stream.close()
    wider = Schema(SCHEMA.append(pa.field("more", pa.float64())), "ts")
    writer_of(stream).manifests.commit(lambda manifest: Change(schema=wider))
    with Store(medium) as store:
        stream = store.stream("s")
        stream.append({"ts": [30, 31], "n": [1, None], "word": ["a", "b"], "more": [0.5, 1.5]})
        stream.flush()
        snapshot = writer_of(stream).published()
        columns = ["ts", "more", "_seq"]
        condition = predicate("more IS NULL OR more > 1", snapshot.layout.stored)
        for where in (None, condition):
            found = []
            for piece in plan(snapshot, ALWAYS, where, pieces=5):
                found += table(scan_piece(medium, writer_of(stream).context.directory, piece, columns, where), columns)
            assert found == table(scan(snapshot, ALWAYS, columns, where), columns)
            assert len(found) == (102 if where is None else 101)


def test_a_piece_opened_is_a_snapshot() -> None:
    _, stream = created()
    append(stream, list(range(100)))
    load(stream, list(range(50)))
    (piece,) = plan(writer_of(stream).published(), Intervals.of(10, 40), pieces=1)
    snapshot = open_piece(writer_of(stream).context.medium, writer_of(stream).context.directory, piece)
    assert stream.aggregate(10, 40, "count(*)", as_of=snapshot) == {"count(*)": 60}


def test_questions_that_cannot_be() -> None:
    _, stream = created()
    append(stream, [1])
    snapshot = writer_of(stream).published()
    with pytest.raises(InputError, match="expected 1 or more"):
        plan(snapshot, ALWAYS, pieces=0)
    with pytest.raises(InputError, match="expected 1 or more"):
        plan(snapshot, ALWAYS, rows_per_piece=-1)
    with pytest.raises(InputError, match="give one of them"):
        plan(snapshot, ALWAYS, pieces=1, rows_per_piece=1)
    with pytest.raises(InputError, match=r"take it with published\(\)"):
        plan(stream.snapshot(), ALWAYS)
