"""Streams with a history of everything that can be done to them, for tests of what survives a crash in its middle.

Like :mod:`support.streams.history`, whose appends and marks it shares, but besides rows are merged, deleted by
retention too, coarsened to aggregates, and the schema and the aggregates that are kept change. So less can be read of
some rows, and what was not acknowledged may have come to pass or not: :func:`judge_all` takes from the survivor itself
how far it came, and holds everything else against it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from support.media.recording import RecordingMedium
from support.streams.history import NAME, PRODUCER, SMALL, Append, Mark, Row, last
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import GrainError
from tidelog.storage.media.medium import Medium
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read.snapshot import Snapshot

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("id", pa.int32()), ("text", pa.string())])
STEPS: tuple[Mapping[str, Any], ...] = (
    {"add": {"a": pa.int16()}},
    {"rename": {"text": "words"}},
    {"widen": {"id": pa.int64()}},
    {"add": {"text": pa.float32()}, "rename": {"id": "number"}},
    {"widen": {"a": pa.int32(), "words": pa.large_string()}},
)
"""How the schema changes, step by step. The first three columns mean the same in every version."""
KEPT = 700
"""How much of the past retention keeps."""


def text_of(id: int, time: int) -> str | None:
    return None if id % 5 == 0 else f"event {id} at {time}"


def table(stream: Stream, rows: Iterable[tuple[int, int]]) -> pa.Table:
    """Rows as (time, id) under the schema that a stream has now; columns that were added are null."""
    rows = list(rows)
    schema = stream.schema.arrow
    columns: list[Any] = [[t for t, _ in rows], [id for _, id in rows], [text_of(id, t) for t, id in rows]]
    columns += [[None] * len(rows)] * (len(schema) - len(columns))
    return pa.table([pa.array(each, one.type) for each, one in zip(columns, schema, strict=True)], schema=schema)


def load(stream: Stream, append: Append) -> bool:
    """Commit rows beside the tail; False if it was done before."""
    assert append.job is not None
    with BulkWriter(writer_of(stream).context) as writer:
        for batch in table(stream, append.rows).to_batches():
            writer.append(batch)
        infos = writer.finish()
    return commit_bulk(writer_of(stream).manifests, infos, transaction=(PRODUCER, append.job))


@dataclass
class MixedHistory:
    """Does everything at random and remembers what it did."""

    medium: Medium
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    appends: list[Append] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    """How often each kind of thing changed something."""

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._now = 1000
        self._ids = self._number = self._job = self._steps = 0
        self.store = Store(self.medium)
        values = {**SMALL, "retention": KEPT, "late_merge": self._dice.choice(["dense", "plain"]), **self.options}
        self.stream = self.store.create_stream(NAME, SCHEMA, "ts", **values)
        self.mark("created")

    def mark(self, what: Any, value: int = 0) -> None:
        if isinstance(self.medium, RecordingMedium):
            self.medium.mark(Mark(what, value))

    def run(self, steps: int) -> None:
        """Take random steps, then flush and close."""
        weights = {
            self.append: 7,
            self.late: 4,
            self.load: 2,
            self.flush: 4,
            self.compact: 2,
            self.maintain: 3,
            self.coarsen: 3,
            self.delete_before: 0.7,
            self.evolve: 1.5,
            self.attach: 1,
            self.reopen: 1,
        }
        for _ in range(steps):
            self._dice.choices(list(weights), list(weights.values()))[0]()
        self.flush()
        self.store.close()

    def _count(self, what: str, times: int) -> None:
        self.done[what] = self.done.get(what, 0) + times

    def _rows(self, times: Sequence[int]) -> tuple[tuple[int, int], ...]:
        rows = tuple((time, self._ids + index) for index, time in enumerate(times))
        self._ids += len(times)
        return rows

    def _begin(self, append: Append) -> None:
        self.appends.append(append)
        self.mark("begun", len(self.appends))

    def _append(self, times: Sequence[int]) -> None:
        number = None
        if self._dice.random() < 0.5:
            number = self._number
            self._number += self._dice.choice([1, 1, 3])
        append = Append(self._rows(times), number)
        self._begin(append)
        rows = table(self.stream, append.rows)
        if number is None:
            self.stream.append(rows)
        else:
            self.stream.append(rows, producer=PRODUCER, number=number)

    def append(self) -> None:
        times = []
        for _ in range(self._dice.choice([1, 5, 20, 90])):
            self._now += self._dice.choice([0, 1, 4, 8])
            times.append(self._now)
        self._append(times)

    def late(self) -> None:
        self._append([self._now - self._dice.randrange(400) for _ in range(self._dice.choice([1, 3, 9]))])

    def load(self) -> None:
        times = [self._now - self._dice.randrange(-20, 200) for _ in range(self._dice.choice([1, 4, 30]))]
        append = Append(self._rows(times), job=self._job)
        self._job += 1
        self._begin(append)
        assert load(self.stream, append)
        self.mark("loaded", len(self.appends))

    def flush(self) -> None:
        self.stream.flush()
        self.mark("flushed", len(self.appends))

    def compact(self) -> None:
        self._count("compact", self.stream.compact(self._dice.choice([None, None, 150_000])).merges)

    def maintain(self) -> None:
        done = self.stream.maintain()
        self._count("retention", done.deleted_before is not None)
        self._count("drop", done.splits_dropped)

    def coarsen(self) -> None:
        before, grain = self._now - self._dice.choice([150, 300]), self._dice.choice([None, 60])
        self._count("coarsen", self.stream.coarsen(before, grain).splits)
        self.mark("flushed", len(self.appends))

    def delete_before(self) -> None:
        bound = self._now - self._dice.choice([400, 700])
        self.mark("deleting", bound)
        try:
            self.stream.delete_before(bound)
        except GrainError:
            self.mark("flushed", len(self.appends))
            return
        self.mark("flushed", len(self.appends))
        self.mark("deleted", bound)

    def evolve(self) -> None:
        if self._steps < len(STEPS):
            self.mark("evolving", self._steps + 1)
            self.stream.evolve(**STEPS[self._steps])
            self._steps += 1
            self.mark("evolved", self._steps)
            self.mark("flushed", len(self.appends))
            self._count("evolve", 1)

    def attach(self) -> None:
        if self.stream.options.user_aggregates:
            self.stream.detach(self.stream.options.user_aggregates[0])
            return
        call = f"last({self.stream.schema.names[1]})"
        rebuilt = self.stream.attach(call, self._dice.choice(["next_split", "new_split", "rebuild", "rebuild"]))
        self._count("rebuild", len(rebuilt))

    def reopen(self) -> None:
        self.store.close()
        self.mark("flushed", len(self.appends))
        self.store = Store(self.medium)
        self.stream = self.store.stream(NAME)


@dataclass(frozen=True)
class Survivor:
    """What is found of a stream: rows as far as there are any, aggregates of the others."""

    rows: list[Row]
    floor: int | None
    """Before this time there are coarsened events, and rows are not read."""
    count: int
    total: int
    """Of all ids."""
    deleted: int | None
    version: int

    @classmethod
    def of(cls, stream: Stream) -> Survivor:
        """Read a stream, and fail unless what is read by itself makes sense."""
        snapshot = stream.snapshot()
        time, number, text, *_ = snapshot.layout.schema.names
        floor = floor_of(snapshot)
        found = stream.scan(floor, columns=[time, number, text], as_of=snapshot, seq=True).read_all()
        rows = []
        for at, id, words, seq in zip(*(column.to_pylist() for column in found.columns), strict=True):
            assert words == text_of(id, at)
            rows.append(Row(at, id, seq))
        assert rows == sorted(rows, key=lambda row: (row.time, row.seq)), "not in order"
        assert len({row.seq for row in rows}) == len(rows)
        known = stream.aggregate(None, None, ["count(*)", f"sum({number})"], as_of=snapshot)
        newest = stream.aggregate(floor, None, [f"last({number})"], as_of=snapshot)
        assert list(newest.values()) == [rows[-1].id if rows else None]
        manifest = snapshot.manifest
        count, total = known["count(*)"], int(known[f"sum({number})"] or 0)
        return cls(rows, floor, count, total, manifest.deleted_before, len(manifest.schemas) - 1)


def floor_of(snapshot: Snapshot) -> int | None:
    ends = [split.time_max for split in snapshot.manifest.splits.values() if split.kind == "coarse"]
    return max(ends) + 1 if ends else None


def judge_all(found: Survivor, appends: list[Append], marks: tuple[Mark, ...]) -> None:
    """Fail unless a survivor is what a stream may be after the marks were made: see the messages."""
    begun, flushed = last(marks, "begun") or 0, last(marks, "flushed") or 0
    loaded = {mark.value for mark in marks if mark.what == "loaded"}
    assert (last(marks, "evolved") or 0) <= found.version <= (last(marks, "evolving") or 0), "another schema"
    _judge_bound(found, appends[:begun], marks)
    bound, floor = found.deleted, found.floor
    times = {row.id: row.time for row in found.rows}
    assert len(times) == len(found.rows), "a row is there twice"
    known = {id: time for append in appends[:begun] for time, id in append.rows}
    assert all(known.get(id) == time for id, time in times.items()), "a row is there that was never appended"
    assert all(bound is None or time >= bound for time in times.values()), "a deleted row is back"
    below_certain: list[int] = []
    below_possible: list[int] = []
    for index, append in enumerate(appends[:begun]):
        alive = [(time, id) for time, id in append.rows if bound is None or time >= bound]
        above = {id for time, id in alive if floor is None or time >= floor}
        below = [id for _, id in alive if id not in above]
        there = above & times.keys()
        if index + 1 in loaded if append.job is not None else index < flushed:
            assert there == above, f"rows of append {index} were durable and are lost: {sorted(above - there)}"
            below_certain += below
        else:
            below_possible += below
            if append.number is not None or append.job is not None:
                assert not there or there == above, f"append {index} had a number and is there in part"
    rest = found.count - len(found.rows) - len(below_certain), found.total - sum(times) - sum(below_certain)
    assert rest in _sums(below_possible), f"coarse events do not account for those of before {floor}: {rest}"


def _judge_bound(found: Survivor, appends: list[Append], marks: tuple[Mark, ...]) -> None:
    """Fail unless what is deleted was to be deleted."""
    asked = {mark.value for mark in marks if mark.what in ("deleting", "deleted")}
    certain = last(marks, "deleted")
    if certain is not None:
        assert found.deleted is not None, "a deletion was forgotten"
        assert found.deleted >= certain, "a deletion was forgotten"
    if found.deleted is not None and found.deleted not in asked:
        newest = max(time for append in appends for time, _ in append.rows)
        assert found.deleted <= newest - KEPT, "retention was early"


def _sums(values: list[int]) -> set[tuple[int, int]]:
    """How many some of the values can be, and what their sum is then."""
    found = {(0, 0)}
    for value in values:
        found |= {(count + 1, total + value) for count, total in found}
    return found
