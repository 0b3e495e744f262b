"""Streams whose appends are durable when they return: threads that come together share a sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium, power_losses
from support.waiting import PATIENCE
from tidelog.engine.store import Store
from tidelog.model.errors import NotStoredError, StorageError

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
NAME = "events"


def created(**options: Any) -> tuple[RecordingMedium, Store, Any]:
    medium = RecordingMedium()
    store = Store(medium)
    stream = store.create_stream(NAME, schema=SCHEMA, time="ts", durability="batch", **options)
    stream.append({"ts": 0, "v": 0})  # opens the tail
    return medium, store, stream


def values(stream: Any) -> list[int]:
    return sorted(stream.scan(columns=["v"]).read_all()["v"].to_pylist())


class Gate:
    """Holds the first sync of the journal until told otherwise, and counts records and syncs."""

    def __init__(self, medium: RecordingMedium) -> None:
        self.records = self.syncs = 0
        self.reached, self.opened = threading.Event(), threading.Event()
        self.written = threading.Condition()
        medium.before = self._before

    def _before(self, kind: str, name: str) -> None:
        if "/journal-" not in name:
            return
        if kind == "write":
            with self.written:
                self.records += 1
                self.written.notify_all()
        elif kind == "sync":
            self.syncs += 1
            if not self.reached.is_set():
                self.reached.set()
                assert self.opened.wait(PATIENCE)

    def wait_for_records(self, count: int) -> None:
        with self.written:
            assert self.written.wait_for(lambda: self.records >= count, PATIENCE)


EVENTS: list[Callable[[int], Any]] = [
    lambda i: {"ts": i, "v": i},
    lambda i: pa.record_batch({"ts": [i], "v": [i]}, schema=SCHEMA),
]


@pytest.mark.parametrize("event", EVENTS)
def test_appends_that_come_during_a_sync_share_the_next(event: Callable[[int], Any]) -> None:
    medium, store, stream = created()
    gate = Gate(medium)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(stream.append, event(1))
        assert gate.reached.wait(PATIENCE)
        others = [pool.submit(stream.append, event(i)) for i in range(2, 10)]
        gate.wait_for_records(9)  # everybody has written while the first one waits for the disk
        assert not any(future.done() for future in (first, *others))
        gate.opened.set()
        for future in (first, *others):
            future.result(PATIENCE)
    assert gate.syncs == 2
    medium.before = None
    for crash in power_losses(medium, [len(medium.log)]):
        left = Store(crash.medium(), read_only=True).stream(NAME)
        assert values(left) == list(range(10))
    assert values(Store(medium, read_only=True).stream(NAME)) == list(range(10))  # published
    store.close()


def test_a_flush_waits_for_what_others_are_committing() -> None:
    medium, store, stream = created()
    gate = Gate(medium)
    with ThreadPoolExecutor(2) as pool:
        append = pool.submit(stream.append, {"ts": 1, "v": 1})
        assert gate.reached.wait(PATIENCE)
        flush = pool.submit(stream.flush)
        with pytest.raises(TimeoutError):
            flush.result(0.05)  # it must not say that the event is safe
        gate.opened.set()
        append.result(PATIENCE)
        flush.result(PATIENCE)
    medium.before = None
    assert values(Store(medium, read_only=True).stream(NAME)) == [0, 1]
    store.close()


def test_nobody_is_told_that_an_append_is_safe_when_the_sync_failed() -> None:
    medium, store, stream = created()
    gate = Gate(medium)
    with ThreadPoolExecutor(3) as pool:
        appends = [pool.submit(stream.append, {"ts": 1, "v": 1})]
        assert gate.reached.wait(PATIENCE)
        appends += [pool.submit(stream.append, {"ts": i, "v": i}) for i in (2, 3)]
        gate.wait_for_records(3)
        medium.inject("sync", lasting=True)
        gate.opened.set()
        for append in appends:
            with pytest.raises(StorageError):
                append.result(PATIENCE)
    with pytest.raises(StorageError, match="had a failure before"):
        stream.append({"ts": 4, "v": 4})
    with pytest.raises(NotStoredError, match="3 rows"):
        store.close()
    left = values(Store(medium, read_only=True).stream(NAME))
    assert left[0] == 0  # the others may be there or not


def test_many_threads_with_splits_and_journals_that_come_and_go() -> None:
    medium, store, stream = created(leaf_rows=16, split_bytes=4000, journal_bytes=2000)
    count, threads = 60, 4

    def work(thread: int) -> None:
        for i in range(count):
            value = 1 + thread * count + i
            stream.append({"ts": value, "v": value} if i % 3 else [{"ts": value - 500, "v": value}])

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, thread) for thread in range(threads)]:
            future.result(PATIENCE)
    expected = list(range(1 + threads * count))
    assert values(stream) == expected
    # Not closed: everything was durable when append returned.
    for crash in power_losses(medium, [len(medium.log)]):
        assert values(Store(crash.medium(), read_only=True).stream(NAME)) == expected
    store.close()
    assert Store(medium).check() == []
