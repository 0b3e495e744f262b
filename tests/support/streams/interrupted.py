"""A stream whose operations are interrupted, and what may be left of it: the model that campaigns judge by.

Rows have ids, given out one after the other. Of each the model knows whether its append has returned (*accepted*), has
raised (*uncertain*), or whether a flush has returned since (*acknowledged*).
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.streams.history import NAME, SCHEMA, SMALL
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import ClosedError, NotStoredError, StorageError
from tidelog.storage import FileMedium

OPTIONS: dict[str, Any] = {**SMALL, "split": 400, "late_rows": 24}


def opened(path: Path) -> Store:
    """The store in a directory, without syncs: nothing here is about losses of power."""
    return Store(FileMedium(path, synced=False))


class World:
    """A store with one stream, and what is known of its rows."""

    def __init__(self, path: Path, seed: int = 0, **options: Any) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.next_id = 0
        self.accepted: set[int] = set()
        self.acknowledged: set[int] = set()
        self.uncertain: set[int] = set()
        self.told: set[int] = set()
        """Rows that may be lost: so it was told, of ``lost`` rows."""
        self.lost = 0
        self.number = 0
        self.columns = 0
        self.store = opened(path)
        self.stream: Stream = self.store.create_stream(NAME, SCHEMA, "ts", **{**OPTIONS, **options})

    def copied(self, path: Path) -> World:
        """The same, of a store that is closed, elsewhere."""
        shutil.copytree(self.path, path)
        copy = object.__new__(World)
        copy.__dict__ |= self.__dict__ | {"path": path, "random": random.Random(self.next_id)}
        for each in ("accepted", "acknowledged", "uncertain", "told"):
            setattr(copy, each, set(getattr(self, each)))
        copy.open()
        return copy

    def open(self) -> None:
        self.store = opened(self.path)
        self.stream = self.store.stream(NAME)

    # -- operations -----------------------------------------------------------------------------------------------

    def _ids(self, count: int) -> range:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        self.uncertain |= set(ids)
        return ids

    def _accept(self, ids: range) -> None:
        self.accepted |= set(ids)
        self.uncertain -= set(ids)

    def _acknowledge(self) -> None:
        self.acknowledged |= self.accepted

    def append_dicts(self, count: int = 40) -> None:
        """Single events, a few of them late."""
        for _ in range(count):
            (id,) = ids = self._ids(1)
            late = self.random.randrange(300) if self.random.random() < 0.2 else 0
            self.stream.append({"ts": id - late, "id": id, "text": f"event {id}"})
            self._accept(ids)

    def append_table(self, count: int = 60, late: int = 0) -> None:
        """A table, in order unless some of it is ``late`` by up to so many ticks."""
        ids = self._ids(count)
        self.stream.append(self._table(ids, late))
        self._accept(ids)

    def append_numbered(self, count: int = 30) -> None:
        """A table with a number, sent again if the first attempt failed and the stream still takes it."""
        ids = self._ids(count)
        rows = self._table(ids, 100)
        self.number += 1
        try:
            self.stream.append(rows, producer="p", number=self.number)
        except BaseException:
            with suppress(StorageError, ClosedError):
                self.stream.append(rows, producer="p", number=self.number)
                self._accept(ids)
            raise
        self._accept(ids)

    def append_reader(self, count: int = 60) -> None:
        """Batches, one after the other."""
        ids = self._ids(count)
        table = self._table(ids, 200)
        self.stream.append(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=16)))
        self._accept(ids)

    def _table(self, ids: range, late: int) -> pa.Table:
        times = [id - (self.random.randrange(late) if late and self.random.random() < 0.7 else 0) for id in ids]
        columns = [times, list(ids), [f"event {id}" for id in ids]]
        return pa.table(columns, schema=SCHEMA)

    def flush(self) -> None:
        self.stream.flush()
        self._acknowledge()

    def merge(self) -> None:
        """More late rows than are kept, which are merged into the trees that they belong to."""
        self.append_table(90, late=250)
        self.flush()

    def change_split(self) -> None:
        """Rows of a later time: the split before is closed."""
        self.next_id += 400
        self.append_table(30)
        self.flush()

    def compact(self) -> None:
        self.stream.compact()

    def evolve(self) -> None:
        self.columns += 1
        self.stream.evolve(add={f"more{self.columns}": pa.int64()})

    def look(self) -> None:
        """Queries see everything that was accepted, once."""
        found = self._found()
        assert max(Counter(found).values(), default=1) == 1
        assert self.accepted <= set(found) <= self.accepted | self.uncertain | self.told

    def _found(self) -> list[int]:
        found: list[int] = self.stream.scan(columns=["id"]).read_all()["id"].to_pylist()
        assert self.stream.aggregate(None, None, ["count(*)"]) == {"count(*)": len(found)}
        return found

    def reopen_stream(self) -> None:
        self._close(self.stream.close)
        self.stream = self.store.stream(NAME)

    def close(self) -> None:
        self._close(self.store.close)

    def _close(self, close: Callable[[], None]) -> None:
        try:
            close()
        except NotStoredError as error:
            self.note_loss(error)
        self._acknowledge()

    def note_loss(self, error: NotStoredError) -> None:
        """Whoever was told must not be interrupted before it is noted: the model would know less than the caller."""
        in_doubt = self.accepted - self.acknowledged
        assert error.rows <= len(in_doubt) + len(self.uncertain), "more rows were told than there are"
        self.lost += error.rows
        self.told |= in_doubt
        self.accepted -= in_doubt

    # -- judging --------------------------------------------------------------------------------------------------

    def survive(self, *, asks: bool = True, reopens: bool = False) -> None:
        """After an interrupt: what is acknowledged is there, the rest is there or told, and everything goes on."""
        if asks:
            with suppress(StorageError, ClosedError):
                self.look()
            with suppress(StorageError, ClosedError):
                self.flush()
        if reopens and not self.store.is_closed:
            self.reopen_stream()
            self.append_table(7)
        self.close()
        self.judge()

    def judge(self) -> None:
        """Open the store, whose writer is gone, and look at everything."""
        self.open()
        assert self.store.check() == []
        found = self._found()
        rows = set(found)
        assert max(Counter(found).values(), default=1) == 1, "a row is there twice"
        assert self.accepted <= rows, f"{len(self.accepted - rows)} rows are gone"
        missing = self.told - rows
        assert len(missing) <= self.lost, f"{len(missing)} accepted rows are gone, {self.lost} were told"
        assert rows <= self.accepted | self.uncertain | self.told
        self.accepted, self.uncertain, self.told, self.lost = rows, set(), set(), 0
        self._acknowledge()
        self.append_table(5)
        self.append_dicts(2)
        self.flush()
        self.look()


Operation = Callable[[World], None]

OPERATIONS: dict[str, tuple[tuple[Operation, ...], Operation]] = {
    "append of single events": ((World.flush,), World.append_dicts),
    "append of a table": ((World.append_dicts,), lambda world: world.append_table(60, 100)),
    "append of a reader": ((World.append_dicts,), World.append_reader),
    "append with a number": ((World.append_dicts,), World.append_numbered),
    "flush": ((World.append_table, World.append_dicts), World.flush),
    "flush of one event": ((lambda world: world.append_dicts(1),), World.flush),
    "merge": ((World.append_table, World.flush), World.merge),
    "split change": ((World.append_dicts,), World.change_split),
    "query": ((World.append_table, World.append_dicts), World.look),
    "compaction": ((World.change_split, World.merge, World.append_dicts), World.compact),
    "evolve": ((World.append_table, World.append_dicts), World.evolve),
    "opening": ((World.reopen_stream,), World.append_dicts),
    "close": ((lambda world: world.append_table(60, 100), World.append_dicts), World.close),
}
"""What is interrupted, and what is done before."""
