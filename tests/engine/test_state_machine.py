"""Streams against a plain list: whatever is done in whatever order, all answers are those of the list."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.crash_medium import RecordingMedium
from support.disk_states import Disk
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import NotFoundError
from tidelog.model.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.seqset import SeqSet
from tidelog.store.snapshot import Snapshot
from tidelog.store.tailnumbers import RESERVED

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("ms"), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("word", pa.string()),
    ]
)
Values = tuple[int, int | None, float | None, str | None]

values: st.SearchStrategy[Values] = st.tuples(
    st.one_of(st.integers(-40, 40), st.integers(-(10**4), 10**4)),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.25, math.nan]), st.integers(-8, 8).map(float)),
    st.one_of(st.none(), st.sampled_from(["", "a", "b", "longer text"])),
)
bounds = st.one_of(st.none(), st.integers(-60, 60), st.integers(-(10**4), 10**4))

CONDITIONS: dict[str, Callable[[Values], bool]] = {
    "n > 0": lambda v: v[1] is not None and v[1] > 0,
    "n IS NULL": lambda v: v[1] is None,
    # NaN is greater than every number, as in DuckDB.
    "x >= 2": lambda v: v[2] is not None and (math.isnan(v[2]) or v[2] >= 2),
    "word = 'a' OR n = -1": lambda v: v[3] == "a" or v[1] == -1,
    "word < 'b' AND x < 0": lambda v: v[3] is not None and v[3] < "b" and v[2] is not None and v[2] < 0,
}
"""Each as SQL and as Python."""


@dataclass(frozen=True)
class Event:
    """A row of the model."""

    values: Values
    seq: int
    is_loaded: bool = False
    """Whether it was committed beside the tail."""

    @property
    def key(self) -> tuple[int, int]:
        return self.values[0], self.seq


def table(rows: list[Values]) -> pa.Table:
    columns = [[row[index] for row in rows] for index in range(len(SCHEMA))]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def plain(value: Any) -> Any:
    """A value that compares equal to itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def rows_of(found: pa.Table) -> list[dict[str, Any]]:
    index = found.schema.get_field_index("ts")
    if index >= 0:
        found = found.set_column(index, "ts", found.column(index).cast(pa.int64()))
    return [{name: plain(value) for name, value in row.items()} for row in found.to_pylist()]


class StreamMachine(RuleBasedStateMachine):
    """A stream and the list of its events."""

    @initialize(
        leaf=st.sampled_from([1, 4, 8]),
        fanout=st.sampled_from([2, 3]),
        split=st.sampled_from([None, 25, 5000]),
        split_bytes=st.sampled_from([1, 20_000, 1 << 30]),
        late=st.sampled_from([1, 10, 1 << 20]),
        journal=st.sampled_from([1, 4000, 1 << 23]),
    )
    def start(self, leaf: int, fanout: int, split: int | None, split_bytes: int, late: int, journal: int) -> None:
        self.medium = RecordingMedium()
        self.store = Store(self.medium)
        options: dict[str, Any] = {"split": None if split is None else f"{split}ms", "split_bytes": split_bytes}
        self.store.create_stream(
            "s", SCHEMA, "ts", leaf_rows=leaf, fanout=fanout, late_rows=late, journal_bytes=journal, **options
        )
        self.stream = self.store.stream("s")
        self.events: list[Event] = []
        self.flushed = 0
        """How many of them survive a crash."""
        self.deleted: int | None = None
        self.numbers = count()
        self.sent: list[tuple[int, list[Values]]] = []
        self.pinned: list[tuple[Snapshot, list[Event]]] = []
        self.next_seq = 0
        self.block: tuple[int, int] | None = None
        self.is_tail_open = False
        self.overwritten: set[int] = set()
        self.jobs = count()

    # -- the model ------------------------------------------------------------------------------------------------

    def living(self, events: list[Event]) -> list[Event]:
        kept = [event for event in events if self.deleted is None or event.values[0] >= self.deleted]
        return sorted((event for event in kept if event.seq not in self.overwritten), key=lambda event: event.key)

    def add(self, rows: list[Values]) -> None:
        """Number rows as the tail does: in its block, unless somebody else has committed since it was opened."""
        if not self.is_tail_open and (self.block is None or self.next_seq > self.block[1]):
            self.block = self.next_seq, self.next_seq + RESERVED
            self.next_seq = self.block[1]
        self.is_tail_open = True
        assert self.block is not None
        own = [event.seq for event in self.events if self.block[0] <= event.seq < self.block[1]]
        first = max(own, default=self.block[0] - 1) + 1
        self.events += [Event(row, first + index) for index, row in enumerate(rows)]

    # -- writing --------------------------------------------------------------------------------------------------

    @rule(rows=st.lists(values, max_size=60))
    def append(self, rows: list[Values]) -> None:
        self.stream.append(table(rows))
        self.add(rows)

    @rule(start=st.integers(-100, 100), steps=st.lists(st.integers(0, 3), max_size=120))
    def append_in_order(self, start: int, steps: list[int]) -> None:
        rows: list[Values] = []
        for index, step in enumerate(steps):
            start += step
            rows.append((start, index % 4 or None, index / 4, None))
        self.stream.append(table(rows))
        self.add(rows)

    @rule(row=values)
    def append_one(self, row: Values) -> None:
        self.stream.append(dict(zip(SCHEMA.names, row, strict=True)))
        self.add([row])

    @rule(rows=st.lists(values, min_size=1, max_size=30))
    def append_with_a_number(self, rows: list[Values]) -> None:
        number = next(self.numbers)
        self.stream.append(table(rows), producer="p", number=number)
        self.sent.append((number, rows))
        self.add(rows)
        assert self.stream.last_number("p") == number

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        number, rows = data.draw(st.sampled_from(self.sent))
        self.stream.append(table(rows), producer="p", number=number)
        self.add([])

    @rule(rows=st.lists(values, max_size=40), memory=st.sampled_from([1, 5000, 1 << 20]), again=st.booleans())
    def load(self, rows: list[Values], memory: int, again: bool) -> None:
        """Somebody else commits rows in any order of time; sends the same again, maybe."""
        self.commit(rows, memory, None, again=again)

    @rule(rows=st.lists(values, max_size=20), start=bounds, length=st.integers(1, 200))
    def overwrite(self, rows: list[Values], start: int | None, length: int) -> None:
        interval = Interval(start, None if start is None else start + length)
        visible = self.stream.published().visible
        assert all(event.seq in visible for event in self.events[: self.flushed])
        overwritten = {e.seq for e in self.events if e.seq in visible and interval.contains(e.values[0])}
        self.commit(rows, 1 << 20, interval, again=False)
        self.overwritten |= overwritten

    def commit(self, rows: list[Values], memory: int, interval: Interval | None, *, again: bool) -> None:
        job = next(self.jobs)
        for is_again in range(1 + again):
            writer = BulkWriter(self.stream.site, memory=memory)
            for batch in table(rows).to_batches(max_chunksize=7):
                writer.append(batch)
            infos = writer.finish()
            committed = commit_bulk(self.stream.manifests, infos, transaction=("job", job), overwrite=interval)
            assert committed == (not is_again)
        # Numbers in a file follow the times; rows of equal time come in the order of their arrival.
        with Store(self.medium, read_only=True) as other:
            wanted = SeqSet([(self.next_seq, self.next_seq + len(rows))])
            found = other.stream("s").scan(columns=["_seq"], as_of=wanted).read_all()["_seq"].to_pylist()
        alive = [row for row in rows if self.deleted is None or row[0] >= self.deleted]
        loaded = [
            Event(row, seq, is_loaded=True)
            for row, seq in zip(sorted(alive, key=lambda row: row[0]), found, strict=True)
        ]
        # Those flushed come first, see ``flushed``.
        self.events[self.flushed : self.flushed] = loaded
        self.flushed += len(loaded)
        self.next_seq += len(rows)

    @rule()
    def flush(self) -> None:
        self.stream.flush()
        self.flushed = len(self.events)

    @rule(time=st.integers(-80, 80))
    def delete_before(self, time: int) -> None:
        self.stream.delete_before(time)
        self.deleted = time if self.deleted is None else max(time, self.deleted)
        self.flushed = len(self.events)
        self.pinned.clear()

    @rule()
    def maintain(self) -> None:
        """Changes nothing that can be seen, for a stream that keeps everything."""
        self.stream.maintain()

    @rule(max_bytes=st.sampled_from([None, None, 50_000]))
    def compact(self, max_bytes: int | None) -> None:
        """Changes nothing that can be seen."""
        done = self.stream.compact(max_bytes)
        assert max_bytes is None or done.bytes_read <= max_bytes
        if max_bytes is None:
            assert done.is_done
            assert self.stream.compact().merges == 0
            splits = sorted(self.stream.manifests.load().splits.values(), key=lambda split: split.time_min)
            if self.stream.options.split is None:
                assert all(before.time_max <= after.time_min for before, after in pairwise(splits))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.is_tail_open = False
        self.flushed = len(self.events)
        self.store = Store(self.medium)
        self.stream = self.store.stream("s")

    @rule()
    def lose_power(self) -> None:
        """Nothing that was not synced survives."""
        self.flush()
        disk = Disk(self.medium.baseline)
        for operation in self.medium.log:
            disk.advance(operation)
        self.medium = RecordingMedium(disk.view().durable)
        self.is_tail_open = False
        self.store = Store(self.medium)
        self.stream = self.store.stream("s")
        self.pinned.clear()

    # -- reading --------------------------------------------------------------------------------------------------

    @rule()
    def pin(self) -> None:
        self.pinned.append((self.stream.snapshot(), self.living(self.events)))

    @precondition(lambda self: self.pinned)
    @rule(data=st.data())
    def look_at_pinned(self, data: st.DataObject) -> None:
        snapshot, events = data.draw(st.sampled_from(self.pinned))
        self.compare(self.stream, events, as_of=snapshot)

    @rule(start=bounds, end=bounds, where=st.sampled_from([None, *CONDITIONS]), data=st.data())
    def scan(self, start: int | None, end: int | None, where: str | None, data: st.DataObject) -> None:
        columns = data.draw(
            st.one_of(st.none(), st.lists(st.sampled_from([*SCHEMA.names, "_seq"]), unique=True, min_size=1))
        )
        given = [0, 5, *(event.seq for event in self.events)]
        spans = st.tuples(st.sampled_from(given), st.sampled_from(given))
        as_of = data.draw(
            st.one_of(st.none(), st.sampled_from(given), st.lists(spans, max_size=3).map(SeqSet)), label="as_of"
        )
        expected = [
            {**dict(zip(SCHEMA.names, map(plain, event.values), strict=True)), "_seq": event.seq}
            for event in self.matching(start, end, where, as_of)
        ]
        names = columns or [*SCHEMA.names]
        found = rows_of(self.stream.scan(start, end, columns, where, as_of=as_of).read_all())
        assert found == [{name: row[name] for name in names} for row in expected]

    def matching(
        self, start: int | None, end: int | None, where: str | None, as_of: int | SeqSet | None
    ) -> list[Event]:
        numbers = SeqSet.below(as_of) if isinstance(as_of, int) else as_of
        return [
            event
            for event in self.living(self.events)
            if (start is None or event.values[0] >= start)
            and (end is None or event.values[0] < end)
            and (numbers is None or event.seq in numbers)
            and (where is None or CONDITIONS[where](event.values))
        ]

    @rule(start=bounds, end=bounds, where=st.sampled_from([None, None, *CONDITIONS]))
    def aggregate(self, start: int | None, end: int | None, where: str | None) -> None:
        events = self.matching(start, end, where, None)
        found = self.stream.aggregate(
            start, end, ["count(*)", "count(n)", "sum(n)", "min(n)", "max(x)", "min(x)", "avg(n)", "max(word)"], where
        )
        numbers = [event.values[1] for event in events if event.values[1] is not None]
        floats = [event.values[2] for event in events if event.values[2] is not None]
        real = [each for each in floats if not math.isnan(each)]
        words = [event.values[3] for event in events if event.values[3] is not None]
        assert found["count(*)"] == len(events)
        assert found["count(n)"] == len(numbers)
        assert found["sum(n)"] == (sum(numbers) if numbers else None)
        assert found["min(n)"] == min(numbers, default=None)
        assert found["avg(n)"] == (pytest.approx(sum(numbers) / len(numbers)) if numbers else None)
        assert found["max(word)"] == max(words, default=None)
        assert plain(found["min(x)"]) == min(real, default="NaN" if floats else None)
        assert plain(found["max(x)"]) == ("NaN" if len(real) < len(floats) else max(real, default=None))

    @rule(time=st.integers(-60, 60), index=st.integers(-400, 400))
    def positions(self, time: int, index: int) -> None:
        events = self.living(self.events)
        assert self.stream.rank(time) == sum(event.values[0] < time for event in events)
        if -len(events) <= index < len(events):
            found = self.stream.nth(index, ["n", "x", "word"])
            assert [plain(value) for value in found.values()] == [plain(each) for each in events[index].values[1:]]
        else:
            with pytest.raises(NotFoundError):
                self.stream.nth(index)

    @rule()
    def read_elsewhere(self) -> None:
        """Another reader sees everything flushed, and what was not is for it to see or not."""
        with Store(self.medium, read_only=True) as other:
            found = [row["_seq"] for row in rows_of(other.stream("s").scan(columns=["_seq"]).read_all())]
            living = self.living(self.events)
            certain = {event.seq for event in self.living(self.events[: self.flushed])}
            assert certain <= set(found)
            assert found == [event.seq for event in living if event.seq in set(found)]
            assert other.stream("s").aggregate(None, None, "count(*)") == {"count(*)": len(found)}

    @rule()
    def check(self) -> None:
        assert self.store.check() == []
        self.flushed = len(self.events)

    @invariant()
    def everything_is_there(self) -> None:
        self.compare(self.stream, self.living(self.events))

    def compare(self, stream: Stream, events: list[Event], as_of: Snapshot | None = None) -> None:
        found = stream.scan(columns=["ts", "n"], as_of=as_of, seq=True).read_all()
        assert found.column("ts").cast(pa.int64()).to_pylist() == [event.values[0] for event in events]
        assert found.column("n").to_pylist() == [event.values[1] for event in events]
        assert found.column("_seq").to_pylist() == [event.seq for event in events]
        count = stream.aggregate(None, None, "count(*)", as_of=as_of)
        assert count == {"count(*)": len(events)}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


TestStreams = StreamMachine.TestCase
TestStreams.settings = settings(max_examples=scaled(12), stateful_step_count=20)
