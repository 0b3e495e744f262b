"""A bounded queue in front of a stream, so that many threads may write to it (spec/event-store.md 1.3).

Producers put data from any thread; one worker thread appends it in the order of acceptance. The worker is the only one
that touches the stream, so a stream needs no lock against its producers, and small puts reach it as large batches.

**Order.** A put is accepted as a whole or not at all. Puts that must wait stand in line and are accepted in the order
of their arrival, so a large put is not overtaken for ever by small ones.

**Bound.** Rows count against the capacity until the stream has taken them. A put larger than the capacity is accepted
once nothing else is waiting, because it never could be otherwise; so at most max(capacity, largest put) rows wait.

**Counts.** All are in rows, and at every moment

    rows put and answered = accepted + dropped + refused
    accepted              = appended + waiting

where refused rows are those whose put raised. Rows that do not fit the stream's schema were never put.

**Failure.** When the stream refuses an append or a flush, the worker stops for good: rows behind a gap would look
complete. From then on every put and flush raises :class:`FrontError`, and so does the first close. Nobody waits
for a worker that has stopped.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

import pyarrow as pa

from tidelog.model import Schema, to_batches
from tidelog.model.arguments import found, integer, one_of
from tidelog.model.errors import ClosedError, InputError, TidelogError
from tidelog.store.rows.stored import owned

Policy: TypeAlias = Literal["block", "timeout", "drop"]

POLICIES: Final = ("block", "timeout", "drop")
CAPACITY_ROWS: Final = 1 << 18
APPEND_ROWS: Final = 1 << 16
"""How many rows the worker gathers at most before it appends them; a single put may be larger."""
APPEND_BYTES: Final = 64 << 20
"""The same in bytes of Arrow memory, so that gathering rows of long texts stays cheap."""


class FrontError(TidelogError, RuntimeError):
    """The stream behind a front refused data that the front had accepted; ``__cause__`` is the stream's error."""


class QueueFullError(TidelogError, TimeoutError):
    """A front had no room for the rows of a put within its timeout; nothing of them was accepted."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Sink(Protocol):
    """What a front needs of a stream."""

    @property
    def schema(self) -> Schema:
        """The schema that rows are converted to."""

    def append(self, data: Any) -> Any:
        """Take a record batch of the schema."""

    def flush(self) -> Any:
        """Make durable what was appended before."""


@dataclass(frozen=True, slots=True)
class FrontCounters:
    """What has gone through a front, at one moment. Rows, but for ``appends`` and ``flushes``."""

    accepted: int
    """Rows taken into the queue."""
    appended: int
    """Rows of these that the stream has taken."""
    waiting: int
    """Rows of these that it has not; after a failure, those that it never will."""
    dropped: int
    """Rows turned away for want of room under the policy ``drop``."""
    refused: int
    """Rows whose put raised: no room in time, front closed or failed."""
    high_water: int
    """The most rows that ever waited."""
    appends: int
    """Calls of the stream's ``append``: how well small puts were gathered."""
    flushes: int
    """Calls of the stream's ``flush``: flushes asked for at the same time share one."""


@dataclass(frozen=True, slots=True)
class _Put:
    """The batches of one put."""

    batches: list[pa.RecordBatch]
    rows: int
    bytes: int


class _FlushRequest:
    """A flush somebody waits for: due as soon as ``puts`` puts were appended."""

    __slots__ = ("done", "puts")

    def __init__(self, puts: int) -> None:
        self.puts = puts
        self.done = False


class Front:
    """A bounded queue with one worker thread in front of a stream; see the module for its promises.

    ``policy`` says what happens to a put that finds no room: ``"block"`` waits, ``"timeout"`` waits at most
    ``timeout`` seconds and then raises :class:`QueueFullError`, ``"drop"`` drops the put and counts its rows.
    The stream must not be written to by others while the front is open. The front does not close the stream.

    Closed at the end of a ``with`` block, or at the end of the process; both append and flush what was accepted.
    Raises :class:`InputError` for settings that make no sense.
    """

    def __init__(
        self,
        stream: Sink,
        *,
        capacity_rows: int = CAPACITY_ROWS,
        policy: Policy = "block",
        timeout: float | None = None,
        append_rows: int = APPEND_ROWS,
    ) -> None:
        capacity_rows, append_rows = integer("capacity_rows", capacity_rows, 1), integer("append_rows", append_rows, 1)
        _check_waiting(policy, timeout)
        if not isinstance(getattr(stream, "schema", None), Schema):
            raise found("the stream of a front", stream, "one that Store.stream returns")
        self._stream = stream
        self._capacity = capacity_rows
        self._policy = policy
        self._timeout = timeout
        self._append_rows = append_rows

        # One lock guards everything below; its conditions differ in whom they wake.
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._flushed = threading.Condition(self._lock)
        self._line: deque[threading.Condition] = deque()  # of producers that wait for room, first come first served
        self._queue: deque[_Put] = deque()
        self._requests: list[_FlushRequest] = []
        self._failure: BaseException | None = None
        self._closing = False
        self._failure_told = False  # by a close

        self._accepted = self._appended = self._dropped = self._refused = 0
        self._high_water = self._appends = self._flushes = 0
        self._accepted_puts = self._appended_puts = 0

        self._process = os.getpid()
        self._worker = threading.Thread(target=self._run, name="tidelog-front", daemon=True)
        self._worker.start()
        atexit.register(self.close)

    def put(self, data: Any) -> int:
        """Hand over rows: whatever ``append`` takes. Returns how many were accepted: all, or none if dropped.

        Conversion happens here, in the producer's thread: :class:`InputError` for rows that do not fit the schema
        is the business of who brought them, and touches nobody else. The memory of NumPy arrays and pandas frames is
        copied and may be reused after the call. A stream of batches counts as many puts, one for each batch. An
        accepted row is in memory only; see :meth:`flush`.

        Raises :class:`QueueFullError` under the policy ``timeout``, :class:`ClosedError` after or during a close,
        :class:`FrontError` after a failure of the stream; nothing of the rows is in the stream then.
        """
        self._check_process()
        batches = to_batches(data, self._stream.schema)
        if not isinstance(batches, list):
            return sum(self._put([batch]) for batch in batches)
        if not isinstance(data, pa.RecordBatch | pa.Table | list):
            batches = [owned(batch) for batch in batches]
        return self._put(batches)

    def flush(self) -> None:
        """Return when all that was accepted before this call is in the stream and durable.

        Raises :class:`FrontError` if the stream failed before that, :class:`ClosedError` on a closed front.
        """
        self._check_process()
        with self._lock:
            self._check_usable()
            request = _FlushRequest(self._accepted_puts)
            self._requests.append(request)
            self._work.notify()
            while not request.done:
                if self._failure is not None:
                    raise self._failed()
                self._flushed.wait()

    def close(self) -> None:
        """Accept no more, append and flush what was accepted, and end the worker. A second call does nothing.

        Producers that wait for room are turned away with :class:`ClosedError`. Raises :class:`FrontError` if the
        stream failed.
        """
        if os.getpid() != self._process:
            return  # the worker is in the parent, and so is the duty to flush
        with self._lock:
            self._closing = True
            self._work.notify()
            self._wake_line()
        self._worker.join()
        atexit.unregister(self.close)
        with self._lock:
            tell = self._failure is not None and not self._failure_told
            self._failure_told = True
            if tell:
                raise self._failed()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing

    def counters(self) -> FrontCounters:
        """All counts at one moment."""
        with self._lock:
            return FrontCounters(
                accepted=self._accepted,
                appended=self._appended,
                waiting=self._accepted - self._appended,
                dropped=self._dropped,
                refused=self._refused,
                high_water=self._high_water,
                appends=self._appends,
                flushes=self._flushes,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FrontError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    # Producers

    def _put(self, batches: list[pa.RecordBatch]) -> int:
        rows: int = sum(batch.num_rows for batch in batches)
        if not rows:
            return 0
        put = _Put(batches, rows, sum(batch.nbytes for batch in batches))
        with self._lock:
            try:
                self._check_usable()
                if self._line or not self._has_room(rows):
                    if self._policy == "drop":
                        self._dropped += rows
                        return 0
                    self._wait_for_room(rows)
            except BaseException:  # an interrupt too: the caller keeps the rows
                self._refused += rows
                raise
            self._accept(put)
        return rows

    def _accept(self, put: _Put) -> None:
        # Counted and queued without a call in between: an interrupt finds both done, or neither.
        self._accepted_puts += 1
        self._accepted += put.rows
        self._queue.append(put)
        self._high_water = max(self._high_water, self._accepted - self._appended)
        self._work.notify()

    def _has_room(self, rows: int) -> bool:
        waiting = self._accepted - self._appended
        return waiting + rows <= self._capacity or waiting == 0

    def _wait_for_room(self, rows: int) -> None:
        deadline = None if self._timeout is None else monotonic() + self._timeout
        place = threading.Condition(self._lock)
        self._line.append(place)
        try:
            while self._line[0] is not place or not self._has_room(rows):
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    raise QueueFullError(
                        f"found no room for {rows} rows within {self._timeout} s: {self._accepted - self._appended} "
                        f"rows wait for the stream, and the capacity is {self._capacity}; put less at a time, raise "
                        "capacity_rows or timeout, or choose the policy 'block' or 'drop'"
                    )
                place.wait(left)
                self._check_usable()
        finally:
            self._line.remove(place)
            self._wake_first()  # whether this one got in or gave up, the next may have room

    def _wake_first(self) -> None:
        if self._line:
            self._line[0].notify()

    def _wake_line(self) -> None:
        for place in self._line:
            place.notify()

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failed()
        if self._closing:
            raise ClosedError("this front is closed and takes no more rows; open another one for the stream")

    def _check_process(self) -> None:
        # The worker does not exist in a forked child, and the lock may be held by a thread that does not either.
        if os.getpid() != self._process:
            raise ClosedError("this front belongs to the process that forked this one; open another one here")

    def _failed(self) -> FrontError:
        lost = self._accepted - self._appended
        error = FrontError(
            f"the stream refused what this front had accepted: {self._failure}; {lost} accepted rows are not known to "
            "be in it. Remedy the cause, close this front and open another"
        )
        error.__cause__ = self._failure
        return error

    # The worker

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:  # it must not end without telling those who wait
            with self._lock:
                self._failure = error
                self._queue.clear()
                self._wake_line()
                self._flushed.notify_all()

    def _step(self) -> bool:
        """Wait for something to do and do it. False when all is done and nothing more will come."""
        with self._lock:
            while not (self._queue or self._requests or self._closing):
                self._work.wait()
            due = [request for request in self._requests if request.puts <= self._appended_puts]
            puts = [] if due else self._gather()
        if due:
            self._flush(due)
        elif puts:
            self._append(puts)
        else:
            self._flush([])  # closing: what was accepted is appended, and now becomes durable
            return False
        return True

    def _gather(self) -> list[_Put]:
        """The next puts of the queue, as many as make a good batch."""
        puts: list[_Put] = []
        rows = size = 0
        while self._queue:
            rows += self._queue[0].rows
            size += self._queue[0].bytes
            if puts and (rows > self._append_rows or size > APPEND_BYTES):
                break
            puts.append(self._queue.popleft())
        return puts

    def _append(self, puts: list[_Put]) -> None:
        batches = [batch for put in puts for batch in put.batches]
        # Gathered rows become one batch. A large put stays as it is: joining its chunks gains nothing, and
        # chunks of text may be too long to be joined.
        for batch in [pa.concat_batches(batches)] if len(puts) > 1 else batches:
            self._stream.append(batch)
            with self._lock:
                self._appends += 1
                self._appended += batch.num_rows
                self._wake_first()
        with self._lock:
            self._appended_puts += len(puts)

    def _flush(self, due: list[_FlushRequest]) -> None:
        self._stream.flush()
        with self._lock:
            self._flushes += 1
            for request in due:
                request.done = True
                self._requests.remove(request)
            self._flushed.notify_all()


def _check_waiting(policy: str, timeout: float | None) -> None:
    one_of("policy", policy, POLICIES)
    if (policy == "timeout") != (timeout is not None):
        raise InputError(
            f"found policy {policy!r} with timeout={timeout}; expected a timeout with the policy 'timeout' and no other"
        )
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= threading.TIMEOUT_MAX:
        raise found("timeout", timeout, f"seconds, from 0 to {threading.TIMEOUT_MAX:.0f}")
