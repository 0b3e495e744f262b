"""The queue in front of a stream, with producers and a stream that move only when a test says so."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from support.profiles import scaled
from tidelog.engine.front import Front, FrontError, QueueFullError
from tidelog.model import Schema
from tidelog.model.errors import ClosedError, InputError, StorageError

SCHEMA = Schema(pa.schema([("ts", pa.int64()), ("who", pa.int64())]), time="ts")
PATIENCE = 60.0
"""Seconds after which a test that waits for something gives up; no test gets there unless it fails."""


class GatedStream:
    """A stream that takes one call for each permit, and says when a call has begun."""

    def __init__(self, permits: int | None = None) -> None:
        self.schema = SCHEMA
        self.batches: list[pa.RecordBatch] = []
        self.flushed_rows: list[int] = []
        self.failures: dict[str, BaseException] = {}
        self.threads: set[int] = set()
        self._open = permits is None
        self._permits = threading.Semaphore(permits or 0)
        self.begun = threading.Semaphore(0)

    def append(self, data: pa.RecordBatch) -> None:
        self._call("append")
        self.batches.append(data)

    def flush(self) -> None:
        self._call("flush")
        self.flushed_rows.append(len(self.times))

    def _call(self, name: str) -> None:
        self.threads.add(threading.get_ident())
        self.begun.release()
        if not self._open:
            assert self._permits.acquire(timeout=PATIENCE)
        if name in self.failures:
            raise self.failures[name]

    def allow(self, calls: int = 1) -> None:
        self._permits.release(calls)

    def allow_all(self) -> None:
        self._open = True
        self._permits.release()

    def wait_for_call(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE)

    @property
    def times(self) -> list[int]:
        return [value for batch in self.batches for value in batch["ts"].to_pylist()]


class ToldList(list[Any]):
    """A list that tells when something was added."""

    def __init__(self) -> None:
        super().__init__()
        self.added = threading.Semaphore(0)

    def append(self, item: Any) -> None:
        super().append(item)
        self.added.release()


class WatchedFront(Front):
    """A front that tells when somebody starts to wait."""

    _requests: ToldList

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._waits = threading.Semaphore(0)
        super().__init__(*arguments, **options)
        self._requests = ToldList()

    def _wait_for_room(self, rows: int) -> None:
        self._waits.release()
        super()._wait_for_room(rows)

    def wait_for_waiting_producer(self) -> None:
        assert self._waits.acquire(timeout=PATIENCE)
        self.counters()  # takes the lock, which the producer gives up only by waiting

    def wait_for_flush_request(self) -> None:
        assert self._requests.added.acquire(timeout=PATIENCE)


class Producer(threading.Thread):
    """A thread that does one thing and keeps what came of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.result: object = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error

    def outcome(self) -> object:
        self.join(PATIENCE)
        assert not self.is_alive(), "the producer is stuck"
        if self.error is not None:
            raise self.error
        return self.result


@pytest.fixture
def stream() -> Iterator[GatedStream]:
    gated = GatedStream(permits=0)
    yield gated
    gated.allow_all()


def rows(*times: int, who: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"ts": pa.array(times, pa.int64()), "who": pa.array([who] * len(times), pa.int64())})


def occupied(stream: GatedStream, **options: Any) -> WatchedFront:
    """A front whose worker is inside ``append`` with one row."""
    front = WatchedFront(stream, **options)
    front.put(rows(0))
    stream.wait_for_call()
    return front


def test_rows_arrive_in_order_and_only_through_the_worker() -> None:
    stream = GatedStream()
    with Front(stream) as front:
        for time in range(100):
            assert front.put(rows(time)) == 1
        front.flush()
        assert stream.times == list(range(100))
        assert stream.flushed_rows == [100]
    assert threading.get_ident() not in stream.threads
    assert len(stream.threads) == 1


def test_small_puts_are_gathered_up_to_a_limit(stream: GatedStream) -> None:
    front = occupied(stream, append_rows=10)
    for time in range(1, 25):
        front.put(rows(time))
    stream.allow_all()
    front.close()
    assert [batch.num_rows for batch in stream.batches] == [1, 10, 10, 4]
    assert stream.times == list(range(25))
    assert front.counters().appends == 4


def test_a_large_put_is_not_joined_with_others(stream: GatedStream) -> None:
    front = occupied(stream, append_rows=10)
    front.put(rows(1))
    front.put(pa.Table.from_batches([rows(*range(2, 22)), rows(22)]))
    front.put(rows(23))
    stream.allow_all()
    front.close()
    assert [batch.num_rows for batch in stream.batches] == [1, 1, 20, 1, 1]
    assert stream.times == list(range(24))


def test_a_producer_waits_for_room_and_then_goes_on(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=3)
    front.put(rows(1, 2))
    producer = Producer(lambda: front.put(rows(3)))
    front.wait_for_waiting_producer()
    assert front.counters().waiting == 3
    stream.allow()
    assert producer.outcome() == 1
    stream.allow_all()
    front.close()
    assert stream.times == [0, 1, 2, 3]
    assert front.counters().high_water == 3


def test_nobody_overtakes_a_put_that_waits(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=4, append_rows=1)
    front.put(rows(1))
    large = Producer(lambda: front.put(rows(2, 3, 4, 5)))
    front.wait_for_waiting_producer()
    small = Producer(lambda: front.put(rows(6)))  # would fit at once
    front.wait_for_waiting_producer()
    stream.allow_all()
    assert (large.outcome(), small.outcome()) == (4, 1)
    front.close()
    assert stream.times == [0, 1, 2, 3, 4, 5, 6]


def test_a_put_larger_than_the_capacity_goes_alone(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=2)
    producer = Producer(lambda: front.put(rows(1, 2, 3, 4, 5)))
    front.wait_for_waiting_producer()
    stream.allow_all()
    assert producer.outcome() == 5
    front.close()
    assert front.counters().high_water == 5


def test_drops_are_counted_exactly(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=4, policy="drop")
    answers = [front.put(rows(*range(10 * size, 10 * size + size))) for size in (2, 3, 1, 1, 2)]
    assert answers == [2, 0, 1, 0, 0]
    stream.allow_all()
    front.close()
    counts = front.counters()
    assert stream.times == [0, 20, 21, 10]
    assert (counts.accepted, counts.dropped, counts.refused, counts.waiting) == (4, 6, 0, 0)


def test_a_timeout_refuses_and_keeps_nothing(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=1, policy="timeout", timeout=0.001)
    with pytest.raises(QueueFullError, match=r"no room for 2 rows within 0\.001 s: 1 rows wait") as caught:
        front.put(rows(1, 2))
    assert isinstance(caught.value, TimeoutError)
    stream.allow_all()
    front.flush()
    assert front.put(rows(3)) == 1
    front.close()
    assert stream.times == [0, 3]
    assert front.counters().refused == 2


def test_who_gives_up_makes_way_for_the_next(stream: GatedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("tidelog.engine.front.monotonic", lambda: now)
    front = occupied(stream, capacity_rows=2, policy="timeout", timeout=PATIENCE)
    first = Producer(lambda: front.put(rows(1, 2)))
    front.wait_for_waiting_producer()
    now = PATIENCE / 2
    second = Producer(lambda: front.put(rows(3)))  # has room, but stands behind the first
    front.wait_for_waiting_producer()
    now = PATIENCE + 1  # past the end of the first one's patience
    with front._lock:
        front._line[0].notify()
    with pytest.raises(QueueFullError):
        first.outcome()
    assert second.outcome() == 1  # without the stream having moved
    stream.allow_all()
    front.close()
    assert stream.times == [0, 3]


def test_flush_covers_what_was_put_before_it_and_waits_for_no_more(stream: GatedStream) -> None:
    front = occupied(stream, append_rows=1)
    front.put(rows(1))
    flush = Producer(front.flush)
    front.wait_for_flush_request()
    front.put(rows(2))
    stream.allow(3)  # two appends and the flush
    flush.outcome()
    assert stream.flushed_rows == [2]
    stream.allow_all()
    front.close()
    assert stream.flushed_rows == [2, 3]


def test_flush_of_an_idle_front_reaches_the_stream() -> None:
    stream = GatedStream()
    with Front(stream) as front:
        front.flush()
        front.flush()
        assert stream.flushed_rows == [0, 0]


@pytest.mark.parametrize("call", ["append", "flush"])
def test_a_failure_reaches_everybody_and_lasts(stream: GatedStream, call: str) -> None:
    stream.failures[call] = StorageError("the disk is full")
    front = occupied(stream, capacity_rows=1)
    blocked = [Producer(lambda: front.put(rows(1))) for _ in range(3)]
    for _ in blocked:
        front.wait_for_waiting_producer()
    flushing = Producer(front.flush)
    stream.allow_all()
    with pytest.raises(FrontError, match="the disk is full"):
        flushing.outcome()
    if call == "append":
        for producer in blocked:
            with pytest.raises(FrontError):
                producer.outcome()
    else:
        for producer in blocked:
            producer.join(PATIENCE)
            assert not producer.is_alive()
    with pytest.raises(FrontError) as caught:
        front.put(rows(2))
    assert caught.value.__cause__ is stream.failures[call]
    with pytest.raises(FrontError):
        front.flush()
    with pytest.raises(FrontError):
        front.close()
    front.close()
    counts = front.counters()
    assert counts.accepted + counts.refused == 5
    assert counts.appended == len(stream.times)


def test_rows_behind_a_failure_are_told(stream: GatedStream) -> None:
    front = occupied(stream, append_rows=1)
    front.put(rows(1))
    front.put(rows(2, 3))
    stream.allow()
    stream.wait_for_call()
    stream.failures["append"] = StorageError("gone")
    stream.allow_all()
    with pytest.raises(FrontError, match="gone; 3 accepted rows are not known to be in it"):
        front.close()
    counts = front.counters()
    assert (counts.accepted, counts.appended, counts.waiting) == (4, 1, 3)


def test_a_failing_flush_at_close_is_told() -> None:
    stream = GatedStream()
    stream.failures["flush"] = StorageError("no")
    with pytest.raises(FrontError, match="no; 0 accepted rows"):
        Front(stream).close()


def test_close_turns_away_who_waits_and_keeps_what_was_accepted(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=2)
    front.put(rows(1))
    blocked = [Producer(lambda: front.put(rows(7, 8))) for _ in range(3)]
    for _ in blocked:
        front.wait_for_waiting_producer()
    closing = Producer(front.close)
    for producer in blocked:
        with pytest.raises(ClosedError):
            producer.outcome()
    assert closing.is_alive()  # the stream has not moved yet
    stream.allow_all()
    closing.outcome()
    counts = front.counters()
    assert stream.times == [0, 1]
    assert stream.flushed_rows == [2]
    assert (counts.accepted, counts.refused, counts.waiting) == (2, 6, 0)


def test_a_closed_front_says_so() -> None:
    front = Front(GatedStream())
    front.close()
    front.close()
    assert front.closed
    for call in (lambda: front.put(rows(1)), front.flush):
        with pytest.raises(ClosedError, match="is closed"):
            call()


def test_the_error_of_a_block_outranks_that_of_the_stream() -> None:
    stream = GatedStream()
    stream.failures["append"] = StorageError("lost")

    def divide() -> None:
        with Front(stream) as front:
            front.put(rows(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        divide()
    assert any("lost" in note for note in caught.value.__notes__)


def test_rows_that_do_not_fit_are_refused_to_their_producer_alone() -> None:
    stream = GatedStream()
    with Front(stream) as front:
        with pytest.raises(InputError):
            front.put({"ts": [1, None], "who": [1, 2]})
        front.put({"ts": 5, "who": 1})
        front.put([{"ts": 6}, {"ts": 7, "who": 2}])
        front.put(rows())
    assert stream.times == [5, 6, 7]


def test_memory_of_the_producer_may_be_reused(stream: GatedStream) -> None:
    front = occupied(stream)
    times = np.arange(1, 4)
    front.put({"ts": times, "who": 0})
    times[:] = -1
    stream.allow_all()
    front.close()
    assert stream.times == [0, 1, 2, 3]


def test_a_reader_is_many_puts(stream: GatedStream) -> None:
    front = occupied(stream, capacity_rows=4, policy="drop")
    reader = pa.RecordBatchReader.from_batches(rows(1).schema, [rows(1), rows(2, 3, 4), rows(5, 6)])
    assert front.put(reader) == 3
    stream.allow_all()
    front.close()
    assert stream.times == [0, 1, 5, 6]
    assert front.counters().dropped == 3


def _use_inherited(front: Front, answers: Any) -> None:
    for call in (lambda: front.put(rows(1)), front.flush):
        try:
            call()
            answers.send("worked")
        except ClosedError as error:
            answers.send(str(error))
    front.close()
    answers.send("closed")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_instead_of_waiting_for_ever(stream: GatedStream) -> None:
    front = occupied(stream)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_use_inherited, args=(front, theirs))
    child.start()
    said = [ours.recv() for _ in range(3)]
    child.join()
    assert all("another one here" in text for text in said[:2])
    assert said[2] == "closed"
    stream.allow_all()
    front.close()
    assert stream.times == [0]


@pytest.mark.parametrize(
    "options",
    [
        {"capacity_rows": 0},
        {"append_rows": 0},
        {"policy": "hope"},
        {"policy": "timeout"},
        {"timeout": 1.0},
        {"policy": "timeout", "timeout": -1.0},
        {"policy": "timeout", "timeout": float("nan")},
    ],
)
def test_settings_without_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="found"):
        Front(GatedStream(), **options)


def test_a_real_stream_gets_everything_and_keeps_it(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        with Front(store.create_stream("s", SCHEMA.arrow, "ts"), capacity_rows=50, append_rows=20) as front:
            producers = [
                Producer(lambda who=who: [front.put(rows(*range(n, n + 5), who=who)) for n in range(0, 500, 5)])  # type: ignore[misc]
                for who in range(3)
            ]
            for producer in producers:
                assert producer.outcome() == [5] * 100
            front.flush()
            with tidelog.open(tmp_path, read_only=True) as other:  # durable, so others see it
                found = other.stream("s").scan(seq=True).read_all().sort_by("_seq")
        assert front.counters().appended == 1500
    for who in range(3):
        assert found.filter(pc.equal(found["who"], who))["ts"].to_pylist() == list(range(500))


def test_a_closed_stream_fails_its_front(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        front = Front(store.create_stream("s", SCHEMA.arrow, "ts"))
    front.put(rows(1))
    with pytest.raises(FrontError) as caught:
        front.flush()
    assert isinstance(caught.value.__cause__, ClosedError)
    with pytest.raises(FrontError):
        front.close()


@settings(max_examples=scaled(25))
@given(
    puts=st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4),
    capacity=st.integers(1, 20),
    gather=st.integers(1, 30),
    policy=st.sampled_from(["block", "drop"]),
)
def test_many_producers_lose_and_mix_up_nothing(puts: list[list[int]], capacity: int, gather: int, policy: Any) -> None:
    """Each producer numbers its rows; the stream has exactly the accepted ones, those of each producer in order."""
    stream = GatedStream()
    accepted: list[list[int]] = [[] for _ in puts]

    def produce(who: int) -> None:
        number = 0
        for size in puts[who]:
            times = list(range(number, number + size))
            number += size
            if front.put(rows(*times, who=who)):
                accepted[who].extend(times)

    with Front(stream, capacity_rows=capacity, append_rows=gather, policy=policy) as front:
        for producer in [Producer(lambda who=who: produce(who)) for who in range(len(puts))]:  # type: ignore[misc]
            producer.outcome()
    stored = pa.Table.from_batches(stream.batches, SCHEMA.arrow).to_pylist()
    for who, times in enumerate(accepted):
        assert [row["ts"] for row in stored if row["who"] == who] == times
    counts = front.counters()
    assert counts.accepted == counts.appended == len(stored)
    assert counts.accepted + counts.dropped == sum(map(sum, puts))
    assert counts.high_water <= max(capacity, 9)
    assert policy == "drop" or counts.dropped == 0
