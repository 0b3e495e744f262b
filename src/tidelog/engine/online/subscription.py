"""A subscription: a continuous query at work in a thread of its own, and what becomes of its rows."""

from __future__ import annotations

import _thread
import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from queue import Empty
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import pyarrow as pa

from tidelog.engine.online.flow import Steps
from tidelog.engine.online.handover import Bell, Outbox
from tidelog.engine.online.inputs import Input
from tidelog.engine.online.keeping import Keeping
from tidelog.engine.stream import writer_of
from tidelog.engine.writer import StreamWriter
from tidelog.model.arguments import found
from tidelog.model.errors import ClosedError, InputError, NotFoundError, TidelogError
from tidelog.operators.base import Batches
from tidelog.store.subscriptions import Kept
from tidelog.store.tail.tail import Numbered
from tidelog.threads import Task, start

WhenBehind: TypeAlias = Literal["wait", "block", "drop"]
WHEN_BEHIND: Final = ("wait", "block", "drop")

POLL: Final = 0.05
"""Seconds between two looks for rows that other processes have appended; those of this one are told at once."""

_KEPT_EVERY: Final = 1.0
"""Seconds after which it is kept how far a subscription is whose steps give nothing."""
_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at whether streams of which nothing comes are still there."""
_MOST_WAITING: Final = 8
"""Batches that wait for whoever takes them."""
_PATIENCE: Final = 0.05

Callback: TypeAlias = Callable[[pa.RecordBatch], object]

_log = logging.getLogger("tidelog.subscriptions")


@dataclass(frozen=True)
class _Item:
    """A batch on its way to who takes it."""

    rows: pa.RecordBatch
    number: int
    """How many batches there were up to this one."""
    ends_step: bool


@dataclass(frozen=True)
class Throttle:
    """Holds up those who append to a stream that a subscription is too far behind with."""

    subscription: Subscription
    input: Input
    most: int

    def wait(self, writer: StreamWriter, is_over: Callable[[], bool] | None = None) -> None:
        """Return when the subscription is near enough, or over, or whoever waits is to end."""
        self.subscription.hold_up(writer, self.input, self.most, is_over)


class Subscription:
    """The rows of a continuous query as they come; made by ``Store.subscribe``. Close it, or use it in a with block.

    Iterate over it, or ``async for``: batches of rows. It ends when it, or its store, is closed. With a callback, or
    ``into`` a stream, it works by itself; :meth:`wait` waits for its end.
    """

    def __init__(
        self,
        flow: Steps,
        keeping: Keeping | None,
        callback: Callback | None,
        *,
        follow: bool,
        block_at: int | None,
        on_end: Callable[[Subscription], None],
    ) -> None:
        """Use ``Store.subscribe``."""
        self._flow = flow
        self._keeping = keeping
        self._callback = callback
        self._follow = follow
        self._on_end = on_end
        self._is_taken = callback is None and (keeping is None or keeping.into is None)
        """Whether somebody takes the rows."""
        self._bell = Bell()
        self._room = Bell()
        self._outbox: Outbox[_Item] = Outbox(_MOST_WAITING)
        self._batches = 0
        """How many batches were given to whoever takes them."""
        self._handed: _Item | None = None
        """The batch that was taken last, which is done with when the next one is asked for."""
        self._acked = self._kept = 0
        """The last batch of a step that is done with, and that is kept as such."""
        self._kept_news = Bell()
        self._consumer: int | None = None
        self._is_over = False
        self._failure: BaseException | None = None
        self._is_told = False
        self._number = 0
        self._kept_at = time.monotonic()
        self._is_dirty = False
        self._looked_at = self._kept_at
        self.keeping_mutex = threading.RLock()
        """Held while something is kept or appended."""
        self.rows_given = 0
        """How many rows have come out since it was begun here."""
        self._watched = list({id(each.writer): each.writer for each in flow.inputs}.values())
        self._throttles = [] if block_at is None else [Throttle(self, each, block_at) for each in flow.inputs]
        self._thread: Task[None] | None = None

    def begin(self) -> None:
        """Start to work. Where one with a name begins is kept first: it begins there even if it crashes at once."""
        try:
            self._keep_beginning()
            for writer in self._watched:
                writer.watch(self._bell.ring)
            for throttle in self._throttles:
                throttle.input.writer.throttle(throttle)
            self._thread = start(self._run)
        except BaseException:
            if self._thread is None:
                self._end()
            raise

    def _keep_beginning(self) -> None:
        if self._keeping is not None and self._keeping.log.kept is None:
            self._number = self._keeping.first
            self._keep()

    # -- looking at it --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """By which it goes on after a crash, if it has one."""
        return None if self._keeping is None else str(self._keeping.about["name"])

    @property
    def query(self) -> str:
        """The text of the query."""
        return self._flow.text

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that come out."""
        return self._flow.schema

    @property
    def is_running(self) -> bool:
        """Whether it may still give rows."""
        return self._thread is not None and not self._thread.is_done

    def stats(self) -> dict[str, Any]:
        """How many rows came, wait, were late, were passed over, and have come out, as plain values.

        ``rows`` are all that were read, ``behind`` about how many more there are (None once the store is closed),
        ``late`` those that were read and dropped because they came too late, ``dropped`` those that were not read
        because there were too many; ``given`` is counted since it was begun here.
        """
        return {
            "rows": self._flow.rows,
            "behind": self._behind(),
            "late": self._flow.late_rows,
            "dropped": sum(each.position.dropped for each in self._flow.inputs),
            "given": self.rows_given,
            "running": self.is_running,
        }

    def _behind(self) -> int | None:
        try:
            return sum(each.behind() for each in self._flow.inputs)
        except TidelogError:  # the store is closed, or the stream gone
            return None

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._give_again()
            while not self._is_over:
                follows = self._follow  # before looking: what came until it was told to finish is read
                batches = self._flow.step()
                if batches is None:
                    if not follows and self._flow.is_at_end:
                        break
                    batches = self._flow.tick()
                    if not batches:
                        self._keep_if_dirty()
                        if not self._bell.wait(POLL):
                            self._look_after_inputs()
                        continue
                self._room.ring()
                if not self._deliver(batches):
                    break
            if not self._follow and not self._is_over and self._keeping is None:
                self._deliver(self._flow.finish())
            self._keep_if_dirty()
        except BaseException as error:
            self._failure = error
            if not self._is_taken:
                _log.warning("a subscription has ended: %s: %s", type(error).__name__, error)
        finally:
            self._end()

    def _look_after_inputs(self) -> None:
        """Raise, now and then, if nothing will come any more."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_EVERY:
            self._looked_at = now
            self._flow.check_inputs()

    def _end(self) -> None:
        """Let go of everything, and tell everybody, whatever fails on the way."""
        try:
            for writer in self._watched:
                writer.unwatch(self._bell.ring)
            for throttle in self._throttles:
                throttle.input.writer.unthrottle(throttle)
            with suppress(Exception):
                self._flow.close()
        finally:
            try:
                if self._keeping is not None:
                    self._keeping.log.close()
            finally:
                self._is_over = True
                try:
                    self._on_end(self)
                finally:
                    self._room.ring()
                    self._kept_news.ring()
                    self._outbox.end()

    def _give_again(self) -> None:
        """Append what the last step has given, which may not have come so far."""
        keeping = self._keeping
        if keeping is None or keeping.log.kept is None:
            return
        kept = keeping.log.kept
        self._number = kept.values["number"]
        if keeping.into is not None and len(kept.output):  # type: ignore[arg-type]  # bytes, when it was read
            with pa.ipc.open_stream(pa.py_buffer(kept.output)) as reader:
                self._append(keeping, reader.read_all())

    def _deliver(self, batches: Batches) -> bool:
        """Hand rows over, and keep that they were; False if nobody takes them any more."""
        self.rows_given += sum(batch.num_rows for batch in batches)
        keeping = self._keeping
        if keeping is None:
            return self._hand_over(batches)
        if not batches:
            self._is_dirty = True
            if time.monotonic() - self._kept_at >= _KEPT_EVERY:
                self._keep_if_dirty()
            return True
        if keeping.into is None:
            if not self._hand_over(batches):
                return False
            self._keep()
            self._kept = self._batches
            self._kept_news.ring()
            return True
        table = pa.Table.from_batches(batches)
        with self.keeping_mutex:
            self._keep(table)
            self._append(keeping, table)
        writer = writer_of(keeping.into)
        for throttle in writer.throttles:  # holding nothing: those that it waits for keep what they do
            throttle.wait(writer, lambda: self._is_over)
        return True

    def _hand_over(self, batches: Batches) -> bool:
        if self._callback is not None:
            for batch in batches:
                self._callback(batch)
            return True
        for place, batch in enumerate(batches, 1):
            self._batches += 1
            if not self._outbox.put(_Item(batch, self._batches, place == len(batches))):
                return False
        return self._keeping is None or not batches or self._is_acknowledged()

    def _is_acknowledged(self) -> bool:
        """Wait until whoever takes the rows of a step is done with them; False if that never comes."""
        while not self._is_over:
            if self._outbox.wait_for(self._batches, _PATIENCE):
                return True
        return self._outbox.released >= self._batches

    def _append(self, keeping: Keeping, table: pa.Table) -> None:
        assert keeping.into is not None
        writer = writer_of(keeping.into)
        try:
            writer.append(table, Numbered(keeping.producer, self._number))
            writer.flush()
        except ClosedError:
            if not writer.was_dropped:
                raise
            raise NotFoundError(
                f"stream {writer.name!r} was dropped while a subscription was giving it rows; drop the subscription, "
                "and begin it anew"
            ) from None

    def _keep_if_dirty(self) -> None:
        if self._is_dirty:
            self._keep()

    def _keep(self, output: pa.Table | None = None) -> None:
        """Keep how far it is, what it knows, and what it gives: in one step."""
        assert self._keeping is not None
        if output is not None:
            self._number += 1
        values, state = self._flow.snapshot()
        about = {**self._keeping.about, **values, "number": self._number, "core": state.core}
        content = b"" if output is None else _packed(output)
        with self.keeping_mutex:
            self._keeping.log.commit(Kept(about, state.chunks, content))
        self._kept_at = time.monotonic()
        self._is_dirty = False

    def hold_up(self, writer: StreamWriter, input: Input, most: int, is_over: Callable[[], bool] | None = None) -> None:
        """Wait, for one who has appended, until no more than so many rows of an input wait; not in who takes rows.

        Or until ``is_over`` tells that whoever waits is to end.
        """
        thread = self._thread
        if thread is None or thread.is_mine or self._consumer == _thread.get_ident():
            return
        is_flushed = self._keeping is None
        while not self._is_over and writer.next_number - input.reached > most:
            if is_over is not None and is_over():
                return
            if not is_flushed:
                writer.flush()  # others are not read
                is_flushed = True
            self._bell.ring()
            self._room.wait(_PATIENCE)

    # -- taking rows ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        self._ask()
        item = self._told(self._outbox.get())
        self._handed = item  # last of all: until then an interrupt leaves it where it is
        return item.rows

    def next(self, seconds: float) -> pa.RecordBatch | None:
        """The next rows, or None if there are none for so many seconds. Raises :class:`StopIteration` at the end."""
        if not isinstance(seconds, int | float) or isnan(seconds):
            raise found("seconds", seconds, "how long to wait, as a number")
        self._ask()
        try:
            item = self._told(self._outbox.get(seconds))
        except Empty:
            return None
        self._handed = item
        return item.rows

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        self._ask()
        try:
            item = self._told(await self._outbox.get_async())
        except StopIteration:
            raise StopAsyncIteration from None
        self._handed = item
        return item.rows

    def _ask(self) -> None:
        self._check_taken()
        self._consumer = _thread.get_ident()
        self._acknowledge()

    def _check_taken(self) -> None:
        if not self._is_taken:
            raise InputError(
                "the rows of this subscription go to a stream, or to a callback, so there are none to be taken; use "
                "wait()"
            )

    def _acknowledge(self) -> None:
        """The batch that was taken last is done with; no harm if that is said again, after an interrupt."""
        handed = self._handed
        if handed is not None:
            if handed.ends_step:
                self._acked = handed.number
            self._outbox.release(handed.number)

    def _told(self, item: _Item | None) -> _Item:
        if item is None:
            self._raise_failure()
            raise StopIteration
        return item

    def commit(self) -> None:
        """Say that the rows taken so far are done with, and return when that survives any crash.

        Of a subscription with a name, asking for the next rows says so too. Rows are told by steps, which may be
        several batches: those of one whose last batch was not taken yet come again after a crash.
        """
        self._check_taken()
        if self._keeping is None:
            raise InputError("found a subscription without a name, of which nothing is kept; give it one to commit")
        self._acknowledge()
        while self._kept < self._acked:
            if not self.is_running and self._kept < self._acked:
                self._raise_failure()
                raise ClosedError("the subscription has ended before the rows were committed; they come again")
            self._kept_news.wait(_PATIENCE)

    def wait(self, seconds: float | None = None) -> bool:
        """Return when it has ended, or so many seconds are over: whether it has. Raises what it has failed with."""
        assert self._thread is not None
        is_over = self._thread.wait(seconds)
        if is_over:
            self._raise_failure()
        return is_over

    async def wait_async(self) -> None:
        """:meth:`wait`, for an event loop."""
        while self.is_running:
            await asyncio.sleep(_PATIENCE)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._is_told = True
            raise self._failure

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End it, after the step it is at; what it has given by then is kept. Raises what it has failed with, once."""
        self.stop()
        if self._failure is not None and not self._is_told:
            self._raise_failure()

    def stop(self) -> None:
        """:meth:`close`, without what it has failed with; that is logged."""
        self._is_over = True
        self._outbox.close()
        self._bell.ring()
        thread = self._thread
        if thread is not None and not thread.is_mine:
            thread.wait()

    def finish(self) -> None:
        """End it when all that is there has been read. Without a name it gives what waits for more rows, too."""
        self._follow = False
        self._bell.ring()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.stop()


def _packed(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
