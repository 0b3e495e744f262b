"""A stream with a known history, for tests of what survives: every row tells which append it came with.

The history marks in the medium's log what was begun and what was acknowledged, so that any crash can be judged:
:func:`judge` says whether the rows found after it are a state the stream may be in.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa

from support.media.recording import RecordingMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.storage.media.medium import Medium
from tidelog.store.bulk import BulkWriter, commit_bulk

NAME = "s"
SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("id", pa.int64()), ("text", pa.string())])
SMALL: dict[str, Any] = {
    "leaf_rows": 8,
    "fanout": 3,
    "split": 200,
    "split_bytes": 60_000,
    "late_rows": 12,
    "journal_bytes": 3000,
}
"""So small that a few dozen rows close splits, make splits of late rows and replace journals."""

PRODUCER = "p"


@dataclass(frozen=True)
class Mark:
    """What the history had done, or was about to do, at a position of the log."""

    what: Literal["created", "begun", "flushed", "loaded", "deleting", "deleted", "evolving", "evolved"]
    value: int = 0


@dataclass(frozen=True)
class Append:
    """One append: its rows as (time, id), and its number if the producer gave it one.

    ``job`` is the number of the transaction that loaded the rows beside the tail, if they were.
    """

    rows: tuple[tuple[int, int], ...]
    number: int | None = None
    job: int | None = None

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(id for _, id in self.rows)

    def table(self) -> pa.Table:
        return table(self.rows)


def table(rows: Iterable[tuple[int, int]]) -> pa.Table:
    """Rows as (time, id), with a text that follows from them; some are null."""
    rows = list(rows)
    texts = [None if id % 5 == 0 else f"event {id} at {time}" for time, id in rows]
    return pa.table([[t for t, _ in rows], [id for _, id in rows], texts], schema=SCHEMA)


@dataclass
class History:
    """Writes a stream at random and remembers what it did."""

    medium: Medium
    seed: int
    options: Mapping[str, Any] = field(default_factory=lambda: SMALL)
    identified: float = 0.3
    """How many of the appends have a number."""
    jobs: float = 1.5
    """How often rows are loaded beside the tail; appends are 6."""
    compactions: float = 0.0
    """How often splits are merged."""
    lates: float = 3
    """How often rows come late."""
    delay: int = 300
    """By how much at most."""
    merged: int = 0
    """How many late rows were merged into trees."""
    appends: list[Append] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._now = 1000
        self._ids = 0
        self._number = 0
        self._job = 0
        self.merges = 0
        self.store = Store(self.medium)
        self.stream = self.store.create_stream(NAME, SCHEMA, "ts", **self.options)
        self.mark("created")

    def mark(self, what: Any, value: int = 0) -> None:
        if isinstance(self.medium, RecordingMedium):
            self.medium.mark(Mark(what, value))

    def run(self, steps: int) -> None:
        """Take random steps, then flush and close."""
        actions = [self.append, self.one_row, self.late, self.flush, self.delete_before, self.reopen, self.load]
        weights = [6, 2, self.lates, 6, 0.7, 0.7, self.jobs]
        if self.compactions:
            actions.append(self.compact)
            weights.append(self.compactions)
        for _ in range(steps):
            self._dice.choices(actions, weights)[0]()
        self.flush()
        self._close()

    def _close(self) -> None:
        self.merged = self.stream.stats()["late"]["merged"]
        self.store.close()

    def _next(self, times: list[int]) -> Append:
        rows = tuple((time, self._ids + index) for index, time in enumerate(times))
        self._ids += len(times)
        number = None
        if self._dice.random() < self.identified:
            number = self._number
            self._number += self._dice.choice([1, 1, 3])
        return Append(rows, number)

    def _append(self, times: list[int]) -> None:
        append = self._next(times)
        self.appends.append(append)
        self.mark("begun", len(self.appends))
        if append.number is None:
            self.stream.append(append.table())
        else:
            self.stream.append(append.table(), producer=PRODUCER, number=append.number)

    def append(self) -> None:
        times = []
        for _ in range(self._dice.choice([1, 5, 20, 90])):
            self._now += self._dice.choice([0, 0, 1, 3])
            times.append(self._now)
        if self._dice.random() < 0.3:
            self._dice.shuffle(times)
        self._append(times)

    def one_row(self) -> None:
        self._now += self._dice.choice([0, 1])
        append = Append(((self._now, self._ids),))
        self._ids += 1
        self.appends.append(append)
        self.mark("begun", len(self.appends))
        self.stream.append(append.table().to_pylist()[0])

    def late(self) -> None:
        self._append([self._now - self._dice.randrange(self.delay) for _ in range(self._dice.choice([1, 3, 9]))])

    def load(self) -> None:
        """Rows that somebody else commits."""
        times = [self._now - self._dice.randrange(-20, 200) for _ in range(self._dice.choice([1, 4, 30]))]
        rows = tuple((time, self._ids + index) for index, time in enumerate(times))
        self._ids += len(rows)
        append = Append(rows, job=self._job)
        self._job += self._dice.choice([1, 1, 2])
        self.appends.append(append)
        self.mark("begun", len(self.appends))
        assert load(self.stream, append)
        self.mark("loaded", len(self.appends))

    def compact(self) -> None:
        """Merge splits: all that is worth it, or as many as fit some bytes."""
        self.merges += self.stream.compact(self._dice.choice([None, None, 150_000])).merges

    def flush(self) -> None:
        self.stream.flush()
        self.mark("flushed", len(self.appends))

    def delete_before(self) -> None:
        bound = self._now - self._dice.choice([100, 250, 400])
        self.mark("deleting", bound)
        self.stream.delete_before(bound)
        self.mark("flushed", len(self.appends))
        self.mark("deleted", bound)

    def reopen(self) -> None:
        self._close()
        self.mark("flushed", len(self.appends))
        self.store = Store(self.medium)
        self.stream = self.store.stream(NAME)


def load(stream: Stream, append: Append) -> bool:
    """Load rows beside the tail, in two splits if they are many; False if it was done before."""
    assert append.job is not None
    infos = []
    for rows in (append.rows[:9], append.rows[9:]):
        writer = BulkWriter(writer_of(stream).context)
        for batch in table(rows).to_batches():
            writer.append(batch)
        infos += writer.finish()
    return commit_bulk(writer_of(stream).manifests, infos, transaction=(PRODUCER, append.job))


@dataclass(frozen=True)
class Row:
    """A row as found."""

    time: int
    id: int
    seq: int


def rows_of(stream: Stream) -> list[Row]:
    """All rows of a stream, checked to be in order and whole."""
    found = []
    for row in stream.scan(seq=True).read_all().to_pylist():
        expected = None if row["id"] % 5 == 0 else f"event {row['id']} at {row['ts']}"
        assert row["text"] == expected
        found.append(Row(row["ts"], row["id"], row["_seq"]))
    assert all((a.time, a.seq) < (b.time, b.seq) for a, b in pairwise(found)), "not in order"
    assert len({row.seq for row in found}) == len(found)
    return found


def last(marks: Iterable[Mark], what: str) -> int | None:
    """The value of the last mark of a kind."""
    values = [mark.value for mark in marks if mark.what == what]
    return values[-1] if values else None


def judge(found: list[Row], appends: list[Append], marks: tuple[Mark, ...]) -> None:
    """Fail unless the rows are what a stream may hold after the marks were made: see the messages."""
    counts = Counter(row.id for row in found)
    assert not [id for id, count in counts.items() if count > 1], "a row is there twice"
    times = {row.id: row.time for row in found}
    begun, flushed = last(marks, "begun") or 0, last(marks, "flushed") or 0
    loaded = {mark.value for mark in marks if mark.what == "loaded"}
    deleted = last(marks, "deleted")
    known = {id: time for append in appends[:begun] for time, id in append.rows}
    assert all(known.get(id) == time for id, time in times.items()), "a row is there that was never appended"
    if deleted is not None:
        assert all(time >= deleted for time in times.values()), "a deleted row is back"
    bounds = [mark.value for mark in marks if mark.what in ("deleting", "deleted")]
    certain = max(bounds, default=None)  # rows before it may be gone already
    for index, append in enumerate(appends[:begun]):
        kept = {id for time, id in append.rows if certain is None or time >= certain}
        there = kept & times.keys()
        if index + 1 in loaded if append.job is not None else index < flushed:
            assert there == kept, f"rows of append {index} were durable and are lost: {sorted(kept - there)}"
        elif append.number is not None or append.job is not None:
            assert not there or there == kept, f"append {index} had a number and is there in part"
    jobs = {id for append in appends if append.job is not None for _, id in append.rows}
    for is_job in (False, True):
        by_seq = [row.id for row in sorted(found, key=lambda row: row.seq) if (row.id in jobs) == is_job]
        if is_job:  # in a file, numbers follow the times
            by_seq = [place for id in by_seq for place, append in enumerate(appends) if id in append.ids]
        assert by_seq == sorted(by_seq), "sequence numbers do not follow the order of arrival"
