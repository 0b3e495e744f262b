"""An operator driven by a thread of its own, while rows arrive: bounded queues in front of it, and results behind.

Rows wait in a queue for each input, at most so many. Who puts in more waits until there is room, or, by choice, has
the rows dropped and counted. Rows that wait are pushed together, so that small batches cost little when there are many
of them. Kernels run without the GIL, so several operators work at once.

As everything in :mod:`tidelog.threads`, this bears an interrupt at any moment: threads meet at queues and locks of C.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Final, final

import pyarrow as pa

from tidelog import threads
from tidelog.model.errors import ClosedError
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Batches
from tidelog.operators.state import State

MERGED_ROWS: Final = 1 << 16
"""Rows of waiting batches that are pushed together at the most."""

_TICK: Final = 0.05
"""Seconds between looks at the time, where silence matters."""


class Policy(Enum):
    """What happens to rows that find their queue full."""

    WAIT = "wait"
    """Whoever puts them in waits."""
    DROP = "drop"
    """They are dropped, and counted."""


@dataclass(slots=True)
class _Item:
    """What a queue holds: rows of an input, the end of one, or a question about the state."""

    port: int
    rows: pa.RecordBatch | None = None
    reply: SimpleQueue[State | None] | None = None


@final
class Live:
    """Rows go in by :meth:`put`, from any thread; batches that come out are handed to ``emit``, by the operator's."""

    def __init__(
        self,
        arrivals: Arrivals,
        emit: Callable[[pa.RecordBatch], None],
        late: Callable[[int, pa.RecordBatch], None] | None = None,
        *,
        capacity: int = 1 << 18,
        policy: Policy = Policy.WAIT,
        watch: bool = False,
    ) -> None:
        """``capacity`` is the number of rows that may wait for each input; one batch may always.

        ``late`` is handed late rows and their input. ``watch`` has the thread look at the time though nothing comes,
        which inputs that may be idle need. An ``emit`` that waits makes everything in front of it wait.
        """
        ports = len(arrivals.operator.inputs)
        self._arrivals, self._emit, self._late = arrivals, emit, late
        self._capacity, self._policy, self._watch = capacity, policy, watch
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._mutex = _thread.allocate_lock()
        self._waiting = [0] * ports
        self._room: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(ports)]
        self._blocked = [0] * ports
        self.dropped_rows = [0] * ports
        """How many rows of each input found their queue full, and were dropped."""
        self._is_over = False
        self._task = threads.start(self._work)

    @property
    def waiting_rows(self) -> list[int]:
        """How many rows of each input wait."""
        return list(self._waiting)

    def put(self, port: int, batch: pa.RecordBatch, seconds: float | None = None) -> bool:
        """Give rows of an input: whether they were taken.

        Waits for room, so many seconds at the most, or for None as long as it takes. Raises what the operator has
        raised, if it has.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._mutex:
                self._check()
                waiting = self._waiting[port]
                if not waiting or waiting + batch.num_rows <= self._capacity:
                    self._waiting[port] += batch.num_rows
                    self._queue.put(_Item(port, batch))
                    return True
                if self._policy is Policy.DROP:
                    self.dropped_rows[port] += batch.num_rows
                    return False
                self._blocked[port] += 1
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                self._room[port].get(timeout=left)
            except Empty:
                with self._mutex:
                    self._blocked[port] = max(self._blocked[port] - 1, 0)
                return False

    def close(self, port: int) -> None:
        """An input will have no rows any more."""
        with self._mutex:
            self._check()
            self._queue.put(_Item(port))

    def snapshot(self) -> State:
        """The state after all that was put in before; what came out by it has been emitted by then."""
        reply: SimpleQueue[State | None] = SimpleQueue()
        with self._mutex:
            self._check()
            self._queue.put(_Item(0, reply=reply))
        state = threads.taken(reply)
        if state is None:
            self._task.result()
            raise ClosedError("the operator has ended; there is nothing left to keep")
        return state

    def finish(self) -> None:
        """No input will have rows any more: return when everything has come out. Raises what the operator raised."""
        for port in range(len(self._waiting)):
            if not self._is_over:
                self._queue.put(_Item(port))
        self.stop()

    def stop(self) -> None:
        """End when what was put in before is done. Raises what the operator has raised."""
        self._queue.put(None)
        self._task.result()

    def _check(self) -> None:
        if self._is_over:
            self._task.result()
            raise ClosedError("the operator has ended; it takes no rows any more")

    # -- the operator's thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            item = self._next()
            while item is not None:
                item = self._done(item)
        finally:
            with self._mutex:
                self._is_over = True
                for port, room in enumerate(self._room):
                    self._let_in(port, room)
            self._drain()

    def _next(self) -> _Item | None:
        if not self._watch:
            return self._queue.get()
        while True:
            try:
                return self._queue.get(timeout=_TICK)
            except Empty:
                self._give(self._arrivals.tick(time.monotonic()))

    def _done(self, item: _Item) -> _Item | None:
        """Do what an item says, and all that follow and can be done with it: the next one."""
        if item.reply is not None:
            item.reply.put(self._arrivals.snapshot())
            return self._next()
        if item.rows is None:
            self._give(self._arrivals.close(item.port, time.monotonic()))
            return self._next()
        parts, rows = [item.rows], item.rows.num_rows
        following: _Item | None = None
        is_last = False
        while rows < MERGED_ROWS and not self._queue.empty():
            following = self._queue.get()
            if following is None or following.rows is None or following.port != item.port:
                is_last = True
                break
            parts.append(following.rows)
            rows += following.rows.num_rows
        batch = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
        self._give(self._arrivals.push(item.port, batch, time.monotonic()))
        with self._mutex:
            self._waiting[item.port] -= rows
            self._let_in(item.port, self._room[item.port])
        return following if is_last else self._next()

    def _let_in(self, port: int, room: SimpleQueue[None]) -> None:
        for _ in range(self._blocked[port]):
            room.put(None)
        self._blocked[port] = 0

    def _give(self, batches: Batches) -> None:
        for batch in batches:
            self._emit(batch)
        for port, batch in self._arrivals.take_late():
            if self._late is not None:
                self._late(port, batch)

    def _drain(self) -> None:
        """Nobody will do what is left: whoever waits for an answer is told."""
        while not self._queue.empty():
            item = self._queue.get()
            if item is not None and item.reply is not None:
                item.reply.put(None)
