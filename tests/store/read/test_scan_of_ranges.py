"""Scans of sets of time ranges: the rows of each, in order, no leaf read twice, and none that lies between them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.questions import Moment, moment
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.expr import predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import GrainError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.manifest import Change, Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read import windows
from tidelog.store.read.pieces import count_piece, plan, scan_piece
from tidelog.store.read.scan import scan

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int32())])
LAST = 400
Row = tuple[int, int]
"""Time and number, which is also the sequence number."""


def scan_ranges(
    stream: Stream,
    ranges: Intervals,
    columns: list[str] | None = None,
    where: str | None = None,
    *,
    as_of: Moment = None,
    seq: bool = False,
    limit: int | None = None,
    newest_first: bool = False,
) -> pa.RecordBatchReader:
    """A scan of a set of time ranges, in ticks."""
    snapshot, numbers = moment(as_of, stream.snapshot)
    return stream._scan(snapshot, ranges, numbers, columns, where, seq, limit, newest_first)


def append(stream: Stream, times: list[int], first: int) -> list[Row]:
    stream.append({"ts": times, "n": list(range(first, first + len(times)))})
    stream.flush()
    return [(time, first + place) for place, time in enumerate(times)]


def late_rows(**options: Any) -> tuple[Stream, list[Row]]:
    """Closed splits, an open one, late rows in splits and in memory."""
    dice = random.Random(3)
    stream = Store(MemoryMedium()).create_stream(
        "s", SCHEMA, "ts", **{"leaf_rows": 8, "fanout": 3, "split": 100, "late_rows": 20, **options}
    )
    rows: list[Row] = []
    for first in range(0, LAST, 40):
        rows += append(stream, [time for time in range(first, first + 40) if time % 5], len(rows))
        rows += append(stream, [dice.randrange(first + 40) for _ in range(9)], len(rows))
    return stream, rows


def masked() -> tuple[Stream, list[Row]]:
    stream, rows = late_rows()
    for start, end, numbers in ((30, 170, (20, 90)), (250, 260, (0, 1000)), (None, 20, (7, 30))):
        mark = Deletion(Interval(start, end), SeqSet([numbers]))
        writer_of(stream).manifests.commit(lambda _, mark=mark: Change(delete=(mark,)))
        rows = [row for row in rows if not (mark.interval.contains(row[0]) and row[1] in mark.numbers)]
    stream.delete_before(12)
    return stream, [row for row in rows if row[0] >= 12]


def evolved() -> tuple[Stream, list[Row]]:
    stream, rows = late_rows()
    stream.evolve(rename={"ts": "at", "n": "old"}, add={"more": pa.string()})
    stream.evolve(rename={"at": "ts", "old": "n"})
    stream.evolve(widen={"n": pa.float64()})
    return stream, rows


def coarse() -> tuple[Stream, list[Row]]:
    """Of which only what is behind the coarse splits can be read."""
    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", leaf_rows=8, fanout=3, split=100)
    writer = BulkWriter(writer_of(stream).context)
    writer.append(pa.record_batch([list(range(150)), list(range(150))], schema=SCHEMA))
    commit_bulk(writer_of(stream).manifests, writer.finish())
    stream.coarsen(1000)
    dice = random.Random(5)
    rows: list[Row] = []
    for first in range(150, LAST, 50):
        numbers = len(rows) + 150
        rows += append(
            stream, [*range(first, first + 50), *(dice.randrange(150, first + 50) for _ in range(9))], numbers
        )
    return stream, rows


STREAMS = {"late": late_rows, "masked": masked, "evolved": evolved, "coarse": coarse}


@pytest.fixture(scope="module", params=STREAMS)
def filled(request: pytest.FixtureRequest) -> tuple[Stream, list[Row]]:
    return STREAMS[request.param]()


BOUNDS = st.none() | st.integers(-5, LAST + 5)
RANGES = st.lists(st.tuples(BOUNDS, st.integers(0, 60)), max_size=6).map(
    lambda pairs: Intervals(
        tuple(Interval(start, length * 7 if start is None else start + length) for start, length in pairs)
    )
)
CONDITIONS = st.sampled_from([None, None, "n % 3 = 1", "n >= 50 AND n < 200", "_seq > 100"])


def rows_of(table: pa.Table) -> list[Row]:
    return [(row["ts"], row["_seq"]) for row in table.to_pylist()]


def satisfies(row: Row, where: str | None) -> bool:
    number = row[1]
    checks = {"n % 3 = 1": number % 3 == 1, "n >= 50 AND n < 200": 50 <= number < 200, "_seq > 100": number > 100}
    return where is None or checks[where]


@settings(max_examples=scaled(40))
@given(RANGES, CONDITIONS, st.none() | st.integers(0, 60), st.booleans(), st.none() | st.integers(0, 300))
def test_rows_are_those_of_each_range(
    filled: tuple[Stream, list[Row]],
    ranges: Intervals,
    where: str | None,
    limit: int | None,
    newest_first: bool,
    as_of: int | None,
) -> None:
    stream, rows = filled
    first = min(row[0] for row in rows)
    ranges = ranges & Interval(first, None) if any(not part.has_rows for part in stream.snapshot().parts) else ranges
    options: dict[str, Any] = {"where": where, "seq": True, "as_of": as_of}
    found = rows_of(scan_ranges(stream, ranges, **options).read_all())
    wanted = sorted(
        row for row in rows if ranges.contains(row[0]) and satisfies(row, where) and (as_of is None or row[1] < as_of)
    )
    assert found == wanted
    apart = [rows_of(stream.scan(span.start, span.end, **options).read_all()) for span in ranges.spans]
    assert found == [row for each in apart for row in each]
    turned = wanted[::-1] if newest_first else wanted
    some = scan_ranges(stream, ranges, **options, limit=limit, newest_first=newest_first).read_all()
    assert rows_of(some) == turned[:limit]


@settings(max_examples=scaled(25))
@given(RANGES, st.none() | st.integers(0, 60), st.booleans())
def test_small_windows(
    filled: tuple[Stream, list[Row]], ranges: Intervals, limit: int | None, newest_first: bool
) -> None:
    stream, rows = filled
    first = min(row[0] for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_FIRST_ROWS", 3)
        patch.setattr(windows, "_MOST_ROWS", 20)
        inside = ranges & Interval(first, None)
        found = rows_of(scan_ranges(stream, inside, seq=True, limit=limit, newest_first=newest_first).read_all())
    wanted = sorted((row for row in rows if inside.contains(row[0])), reverse=newest_first)
    assert found == wanted[:limit]


@settings(max_examples=scaled(25))
@given(RANGES, st.integers(1, 6), st.none() | st.tuples(st.integers(0, 200), st.integers(0, 200)))
def test_pieces_of_ranges(
    filled: tuple[Stream, list[Row]], ranges: Intervals, pieces: int, numbers: tuple[int, int] | None
) -> None:
    stream, rows = filled
    ranges = ranges & Interval(min(row[0] for row in rows), None)
    chosen = None if numbers is None else SeqSet([(min(numbers), max(numbers) + 1)])
    found: list[Row] = []
    counted = 0
    for piece in plan(writer_of(stream).published(), ranges, None, chosen, pieces=pieces):
        assert piece.ranges & ranges == piece.ranges
        medium, directory = writer_of(stream).context.medium, writer_of(stream).context.directory
        batches = list(scan_piece(medium, directory, piece, ["ts", "_seq"]))
        found += [row for batch in batches for row in rows_of(pa.Table.from_batches([batch]))]
        if chosen is None:
            counted += count_piece(medium, directory, piece)
    wanted = sorted(row for row in rows if ranges.contains(row[0]) and (chosen is None or row[1] in chosen))
    assert found == wanted
    assert chosen is not None or counted == len(wanted)


def one_tree(rows: int = 4000) -> Stream:
    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=4)
    append(stream, list(range(rows)), 0)
    return stream


@pytest.mark.parametrize("where", [None, "n >= 0", "n % 2 = 0"])
def test_no_leaf_is_read_twice_and_none_in_between(where: str | None) -> None:
    stream = one_tree()
    condition = None if where is None else predicate(where, writer_of(stream).context.layout.stored)
    ranges = Intervals(tuple(Interval(start, start + 2) for start in (*range(1600, 1660, 3), 100, 3000)))
    counters = ReadCounters()
    batches = list(scan(stream.snapshot(), ranges, ["n"], condition, counters=counters))
    wanted = [n for n in range(4000) if ranges.contains(n) and (where != "n % 2 = 0" or n % 2 == 0)]
    assert [n for batch in batches for n in batch.column(0).to_pylist()] == wanted
    assert counters.leaves <= 4 + 2  # 64 rows that are close to one another, and one leaf for each of the others


def test_splits_between_ranges_are_not_opened() -> None:
    stream, rows = late_rows(late_merge="dense")
    counters = ReadCounters()
    ranges = Intervals((Interval(0, 3), Interval(LAST - 3, LAST)))
    found = [batch.num_rows for batch in scan(stream.snapshot(), ranges, ["n"], counters=counters)]
    assert sum(found) == sum(ranges.contains(time) for time, _ in rows)
    assert counters.leaves < 20


def test_reduced_events_between_ranges_do_not_matter() -> None:
    stream, rows = coarse()
    first = min(row[0] for row in rows)
    before = Intervals((Interval(None, -1), Interval(first, None)))
    assert rows_of(scan_ranges(stream, before, seq=True).read_all()) == sorted(rows)
    with pytest.raises(GrainError):
        scan_ranges(stream, Intervals((Interval(3, 5), Interval(first, None))))
    assert scan_ranges(stream, Intervals()).read_all().num_rows == 0


def test_only_that_end_of_a_set_is_read() -> None:
    stream = one_tree()
    ranges = Intervals((Interval(0, 1500), Interval(2000, 2010), Interval(3000, None)))
    for newest_first, expected in ((True, list(range(3999, 3994, -1))), (False, list(range(5)))):
        before = stream.stats()["blocks_read"]
        found = scan_ranges(stream, ranges, ["n"], limit=5, newest_first=newest_first).read_all()
        assert found["n"].to_pylist() == expected
        assert stream.stats()["blocks_read"] - before < 8
