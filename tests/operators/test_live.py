"""Operators in threads of their own: queues, back-pressure, failures, silence."""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty, SimpleQueue

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import rows, shape
from tidelog import threads
from tidelog.model.errors import ClosedError
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Batches
from tidelog.operators.live import Live, Policy
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.rowwise import Filter

OF = shape()
BATCH = rows(OF, np.random.default_rng(60), 10)
LONG = 60.0


class Gate(Filter):
    """Waits until it is let on."""

    def __init__(self) -> None:
        super().__init__(OF, "true")
        self.entered: SimpleQueue[int] = SimpleQueue()
        self.open: SimpleQueue[None] = SimpleQueue()

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        self.entered.put(batch.num_rows)
        self.open.get(timeout=LONG)
        return super().push(port, batch)


def test_who_puts_in_too_much_waits() -> None:
    gate, found = Gate(), []
    live = Live(Arrivals(gate, 100), found.append, capacity=25)
    assert live.put(0, BATCH)
    assert gate.entered.get(timeout=LONG) == 10  # these are being pushed, and still take room
    assert live.put(0, BATCH)
    assert live.waiting_rows == [20]
    assert not live.put(0, BATCH, seconds=0.0)
    blocked = threads.start(lambda: live.put(0, BATCH))
    assert not blocked.wait(0.05)
    gate.open.put(None)
    assert blocked.result()
    for _ in range(3):
        gate.open.put(None)
    live.finish()
    assert sum(batch.num_rows for batch in found) == 30
    assert live.waiting_rows == [0]


def test_rows_that_wait_are_pushed_together() -> None:
    gate, found = Gate(), []
    live = Live(Arrivals(gate, 100), found.append)
    for _ in range(6):
        live.put(0, BATCH)
    assert gate.entered.get(timeout=LONG) in (10, 20, 30, 40, 50, 60)
    for _ in range(6):
        gate.open.put(None)
    live.finish()
    assert len(found) < 6
    assert sum(batch.num_rows for batch in found) == 60


def test_rows_may_be_dropped_instead() -> None:
    gate, found = Gate(), []
    live = Live(Arrivals(gate, 100), found.append, capacity=20, policy=Policy.DROP)
    taken = [live.put(0, BATCH) for _ in range(5)]
    assert taken[0]
    for _ in range(5):
        gate.open.put(None)
    live.finish()
    assert sum(batch.num_rows for batch in found) == 10 * sum(taken)
    assert live.dropped_rows == [50 - 10 * sum(taken)]
    assert live.dropped_rows[0] >= 30


def put_often(live: Live) -> None:
    for _ in range(1000):
        live.put(0, BATCH)


def test_what_fails_is_told_to_all() -> None:
    def fail(batch: pa.RecordBatch) -> None:
        raise ValueError("no room on the disk")

    live = Live(Arrivals(Filter(OF, "true"), 100), fail, capacity=5)
    with pytest.raises(ValueError, match="no room"):
        put_often(live)
    with pytest.raises(ValueError, match="no room"):
        live.snapshot()
    with pytest.raises(ValueError, match="no room"):
        live.finish()


def test_an_end_is_an_end() -> None:
    found: list[pa.RecordBatch] = []
    live = Live(Arrivals(Reorder(OF), 100), found.append)
    live.put(0, BATCH)
    live.stop()
    assert not found  # it was stopped, not finished
    with pytest.raises(ClosedError):
        live.put(0, BATCH)
    with pytest.raises(ClosedError):
        live.snapshot()


def test_silent_inputs_are_noticed() -> None:
    found: SimpleQueue[pa.RecordBatch] = SimpleQueue()
    union = Union([OF, OF])
    live = Live(Arrivals(union, idle_timeout=0.1, now=time.monotonic()), found.put, watch=True)
    live.put(1, BATCH.slice(0, 1))
    later = BATCH.set_column(0, OF.schema.field("ts"), pa.array(np.full(10, 1000), pa.int64()))
    live.put(0, BATCH)
    rows = 0
    for _ in range(12_000):  # the first goes on, the second says nothing any more
        live.put(0, later)
        with suppress(Empty):
            rows += found.get(timeout=0.01).num_rows  # the last one by itself if they pause here as well
        if rows == 11:
            break
    assert rows == 11
    live.stop()
