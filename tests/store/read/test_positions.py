"""Rows by number, and numbers by time, against a sorted list."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.manifest import Change, Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.positions import nth, rank

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
LOW, HIGH = -(1 << 63), (1 << 63) - 1
instants = st.one_of(st.integers(-9, 9), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))


@settings(max_examples=scaled(6))
@given(
    st.lists(st.lists(instants, max_size=12), max_size=5),
    st.one_of(st.none(), instants),
    st.one_of(st.none(), st.tuples(st.integers(-9, 9), st.integers(1, 6), st.integers(1, 30))),
)
def test_positions_are_those_in_a_sorted_list(
    appends: list[list[int]], deleted: int | None, range_deleted: tuple[int, int, int] | None
) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=2, fanout=2, split=8, late_rows=4)
        rows: list[tuple[int, int]] = []
        for index, times in enumerate(appends):
            stream.append({"ts": times, "n": list(range(len(rows), len(rows) + len(times)))})
            rows += [(time, len(rows) + place) for place, time in enumerate(times)]
            if index % 2:
                stream.flush()
        if deleted is not None:
            stream.delete_before(deleted)
            rows = [row for row in rows if row[0] >= deleted]
        if range_deleted is not None:
            start, length, below = range_deleted
            mark = Deletion(Interval(start, start + length), SeqSet.below(below))
            writer_of(stream).manifests.commit(lambda manifest: Change(delete=(mark,)))
            rows = [row for row in rows if not (start <= row[0] < start + length and row[1] < below)]
        rows.sort()
        snapshot = stream.snapshot()
        for time in sorted({time for time, _ in rows} | {LOW, -3, 0, 5, HIGH}):
            assert rank(snapshot, time) == sum(row[0] < time for row in rows)
        assert rank(snapshot, None) == len(rows)
        for place in range(-len(rows), len(rows), 1 if range_deleted is None else 5):
            row = nth(snapshot, place, ["ts", "n"]).to_pylist()[0]
            assert (row["ts"], row["n"]) == rows[place]
        for place in (len(rows), -len(rows) - 1):
            with pytest.raises(NotFoundError, match=f"the stream has {len(rows)}"):
                nth(snapshot, place, ["ts"])
        assert stream.aggregate(None, None, "count(*)") == {"count(*)": len(rows)}


def test_a_position_takes_few_leaves() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=8, fanout=4)
        stream.append({"ts": list(range(5000)), "n": list(range(5000))})
        counters = ReadCounters()
        assert rank(stream.snapshot(), 3333, counters) == 3333
        assert counters.leaves <= 1
        assert counters.nodes < 10
