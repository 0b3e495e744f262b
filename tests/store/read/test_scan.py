"""Scans: marks of deletion, pruning, batches that stay small, several versions of memory and trees."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from support.waiting import until
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.expr import predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import ALWAYS, Intervals
from tidelog.store.manifest.manifest import Change, Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.scan import scan

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])


def filled(rows: int = 4000, **options: Any) -> Stream:
    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", **{"leaf_rows": 16, "fanout": 4, **options})
    stream.append({"ts": list(range(rows)), "n": list(range(rows))})
    stream.flush()
    return stream


deletions = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-5, 60)),
        st.one_of(st.none(), st.integers(-5, 60)),
        st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=3).map(SeqSet).filter(bool),
    ),
    max_size=3,
)


@settings(max_examples=scaled(40))
@given(st.lists(st.integers(0, 50), max_size=90), deletions, st.integers(0, 50), st.integers(0, 50))
def test_deleted_ranges_hide_what_came_before_them(
    times: list[int], marks: list[tuple[int | None, int | None, SeqSet]], start: int, end: int
) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=4, fanout=2, split=20, late_rows=9)
        for first in range(0, len(times), 20):
            part = times[first : first + 20]
            stream.append({"ts": part, "n": list(range(first, first + len(part)))})
            stream.flush()
        expected = [(time, n) for n, time in enumerate(times)]
        for low, high, numbers in marks:
            if low is not None and high is not None and low >= high:
                continue
            mark = Deletion(Interval(low, high), numbers)
            writer_of(stream).manifests.commit(lambda manifest, mark=mark: Change(delete=(mark,)))
            expected = [
                (t, n)
                for t, n in expected
                if not ((low is None or t >= low) and (high is None or t < high) and n in numbers)
            ]
        found = stream.scan(seq=True).read_all()
        assert list(zip(found["ts"].to_pylist(), found["_seq"].to_pylist(), strict=True)) == sorted(expected)
        inside = [n for t, n in sorted(expected) if start <= t < end and n % 2]
        assert stream.scan(start, end, ["n"], "n % 2 = 1").read_all()["n"].to_pylist() == inside
        counted = stream.aggregate(start, end, ["count(*)", "sum(n)"], "n % 2 = 1")
        assert counted == {"count(*)": len(inside), "sum(n)": sum(inside) if inside else None}
        assert stream.aggregate(start, end, "count(*)")["count(*)"] == sum(start <= t < end for t, _ in expected)


def test_a_condition_reads_only_leaves_that_may_match() -> None:
    stream = filled()
    counters = ReadCounters()
    condition = predicate("n >= 100 AND n < 110", writer_of(stream).context.layout.stored)
    found = list(scan(stream.snapshot(), ALWAYS, ["ts"], condition, counters=counters))
    assert sum(batch.num_rows for batch in found) == 10
    assert counters.leaves <= 4


def test_a_time_range_reads_only_its_leaves() -> None:
    stream = filled()
    counters = ReadCounters()
    found = list(scan(stream.snapshot(), Intervals.of(1000, 1040), ["n"], counters=counters))
    assert [n for batch in found for n in batch.column(0).to_pylist()] == list(range(1000, 1040))
    assert counters.leaves <= 8


def test_below_a_number_nothing_later_is_read() -> None:
    stream = filled()
    counters = ReadCounters()
    found = list(scan(stream.snapshot(), ALWAYS, ["n"], numbers=SeqSet.below(40), counters=counters))
    assert [n for batch in found for n in batch.column(0).to_pylist()] == list(range(40))
    assert counters.leaves <= 8
    assert list(scan(stream.snapshot(), ALWAYS, ["n"], numbers=SeqSet())) == []


def test_of_sets_of_numbers_only_their_leaves_are_read() -> None:
    stream = filled()
    counters = ReadCounters()
    wanted = SeqSet([(40, 50), (2000, 2010), (9000, 9999)])
    found = list(scan(stream.snapshot(), ALWAYS, ["n"], numbers=wanted, counters=counters))
    assert [n for batch in found for n in batch.column(0).to_pylist()] == [*range(40, 50), *range(2000, 2010)]
    assert counters.leaves <= 6
    assert stream.scan(as_of=wanted).read_all().num_rows == 20
    assert stream.aggregate(None, None, ["count(*)", "max(n)"], as_of=wanted) == {"count(*)": 20, "max(n)": 2009}
    assert "from events" in stream.explain(None, None, "count(*)", as_of=wanted)


def test_sets_that_have_all_numbers_leave_answers_to_the_index() -> None:
    stream = filled()
    assert "from the index" in stream.explain(None, None, "count(*)", as_of=stream.snapshot().visible)
    mark = Deletion(Interval(10, 20), SeqSet([(5000, 6000)]))  # of rows that are not there
    writer_of(stream).manifests.commit(lambda manifest: Change(delete=(mark,)))
    assert "from the index" in stream.explain(None, None, "count(*)")
    mark = Deletion(Interval(10, 20), SeqSet([(12, 6000)]))
    writer_of(stream).manifests.commit(lambda manifest: Change(delete=(mark,)))
    assert "events where some were overwritten" in stream.explain(None, None, "count(*)")
    assert "from the index" in stream.explain(5000, None, "count(*)")
    assert len(stream) == 4000 - 8


def test_ranges_without_rows() -> None:
    stream = filled(100)
    for start, end in ((50, 50), (60, 40), (100, None), (None, 0), (-20, -10)):
        assert stream.scan(start, end).read_all().num_rows == 0


def test_an_abandoned_scan_lets_go_of_its_snapshot() -> None:
    stream = filled(split=500)
    reader = stream.scan()
    reader.read_next_batch()
    snapshot = stream.snapshot()
    part = weakref.ref(snapshot.parts[-1])
    del snapshot, reader
    stream.append({"ts": [9000], "n": [0]})
    assert len(stream) == 4001  # and another snapshot takes the place of the last one
    until(lambda: gc.collect() >= 0 and part() is None)  # a thread may be reading ahead just now


@pytest.mark.parametrize("columns", [["n"], ["ts"], ["_seq"], ["n", "ts"], ["_seq", "ts", "n"]])
def test_overlapping_parts_are_merged_whatever_is_asked_for(columns: list[str]) -> None:
    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", leaf_rows=4, fanout=2, late_rows=10)
    rows = []
    for first in range(5):
        times = [time * 5 % 47 for time in range(first, first + 60)]
        stream.append({"ts": times, "n": [first * 100 + place for place in range(60)]})
        stream.flush()
        rows += [{"ts": time, "n": first * 100 + place} for place, time in enumerate(times)]
    for number, row in enumerate(rows):
        row["_seq"] = number
    rows.sort(key=lambda row: (row["ts"], row["_seq"]))
    found = stream.scan(10, 30, columns).read_all().to_pylist()
    assert found == [{name: row[name] for name in columns} for row in rows if 10 <= row["ts"] < 30]


def test_parts_that_touch_in_the_order_of_their_numbers_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("parts that only touch are merged")

    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=4)
    for rows in (range(100), range(100, 155)):
        stream.append({"ts": [row // 10 for row in rows], "n": list(rows)})
        stream.flush()
    written, waiting = stream.snapshot().parts
    assert written.last == waiting.first  # a leaf ends between rows of one time
    monkeypatch.setattr("tidelog.store.read.scan.chained", refuse)
    found = stream.scan(columns=["ts", "_seq"]).read_all()
    assert found["ts"].to_pylist() == [row // 10 for row in range(155)]
    assert found["_seq"].to_pylist() == list(range(155))


def test_stats_tell_what_was_read() -> None:
    schema = pa.schema([("ts", pa.int64()), *((f"c{i}", pa.float64()) for i in range(8))])
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", schema, "ts", leaf_rows=1000)
        dice = np.random.default_rng(2)
        stream.append({"ts": np.arange(50_000), **{f"c{i}": dice.random(50_000) for i in range(8)}})
        stream.flush()

        def read(work: Callable[[], object]) -> tuple[int, int]:
            before = stream.stats()
            work()
            after = stream.stats()
            return after["blocks_read"] - before["blocks_read"], after["bytes_read"] - before["bytes_read"]

        blocks, all_bytes = read(lambda: stream.scan().read_all())
        assert blocks == 50
        blocks, one = read(lambda: stream.scan(columns=["c3"]).read_all())
        assert blocks == 50
        assert 6 < all_bytes / one < 10  # eight columns like it, and times that take little
        blocks, tenth = read(lambda: stream.scan(5_000, 10_000, columns=["c3"]).read_all())
        assert 5 <= blocks <= 7
        assert tenth < one / 5
        assert read(lambda: stream.scan(70_000, None).read_all()) == (0, 0)
        blocks, _ = read(lambda: stream.aggregate(10, 49_990, "sum(c0)"))
        assert 0 < blocks <= 6
