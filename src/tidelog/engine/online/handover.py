"""How threads hand things over to each other, and tell each other that something has happened.

All of it is made of queues of C, which bear an interrupt at any moment.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from tidelog.model.errors import InputError
from tidelog.threads import NOTICE

_T = TypeVar("_T")

_PATIENCE: Final = 0.1
"""Seconds between two looks at whether it is over."""


class Bell:
    """Is rung by any thread; one waits for it."""

    def __init__(self) -> None:
        self._news: SimpleQueue[None] = SimpleQueue()
        self._is_rung = False

    def ring(self) -> None:
        """Wake the one who waits, or who will."""
        if not self._is_rung:
            self._is_rung = True
            self._news.put(None)

    def wait(self, seconds: float) -> bool:
        """Return when it was rung since the last call, or so many seconds are over: whether it was rung."""
        try:
            self._news.get(timeout=seconds)
        except Empty:
            self._is_rung = False  # where an interrupt has kept somebody from ringing, who believes to have done it
            return False
        # Before the one who waits looks at what has happened: whoever rings from now on is heard again.
        self._is_rung = False
        return True


class Outbox(Generic[_T]):
    """A queue of at most so many items, from one thread to another, or to an event loop.

    An item stays until whoever takes it says that it has arrived, so that an interrupt on its way loses none. Items
    are counted: all that either side says about them are numbers, which do no harm if they are said twice.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: dict[int, _T] = {}
        """By how many were put before."""
        self._count = 0
        self.released = 0
        """How many have arrived."""
        self._news: SimpleQueue[None] = SimpleQueue()
        """At least one for each item since somebody waited, and for the end."""
        self._room = Bell()
        self._is_over = False
        self._has_ended = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def put(self, item: _T) -> bool:
        """Hand an item over, when there is room; False if it is over before."""
        while not self._is_over:
            for number in [each for each in list(self._items) if each < self.released]:  # left by an interrupt
                self._items.pop(number, None)
            if self._count - self.released < self._most:
                self._items[self._count] = item
                self._count += 1
                self._wake()
                return True
            self._room.wait(_PATIENCE)
        return False

    def wait_for(self, count: int, seconds: float) -> bool:
        """Return when so many items have arrived, or something else may have happened: whether they have."""
        if self.released < count:
            self._room.wait(seconds)
        return self.released >= count

    def end(self) -> None:
        """There will be no items any more."""
        self._has_ended = True
        self._wake()

    def close(self) -> None:
        """Nobody takes items any more, so nobody has to wait for room."""
        self._is_over = True
        self._room.ring()
        self.end()

    def _wake(self) -> None:
        self._news.put(None)
        waiter = self._waiter
        if waiter is not None:
            loop, event = waiter
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def release(self, count: int) -> None:
        """The first so many items have arrived: make room for others."""
        if count > self.released:
            first, self.released = self.released, count
            for number in range(first, count):
                self._items.pop(number, None)
        self._room.ring()

    def get(self, seconds: float | None = None) -> _T | None:
        """The first item that has not arrived, again until it is released; None when there will be none any more.

        Raises :class:`queue.Empty` after so many seconds.
        """
        until = inf if seconds is None else time.monotonic() + seconds
        while self._count <= self.released and not self._has_ended:
            left = max(0.0, until - time.monotonic())
            try:
                self._news.get(timeout=min(left, NOTICE))
            except Empty:
                if not left:
                    raise
        return self._first()

    async def get_async(self) -> _T | None:
        """:meth:`get`, for an event loop; nothing is lost if this is cancelled. Raises if a task waits already."""
        if self._waiter is not None:
            raise InputError("another task waits for the next rows; one takes them at a time")
        event = asyncio.Event()
        self._waiter = asyncio.get_running_loop(), event
        try:
            while True:
                event.clear()
                if self._count > self.released or self._has_ended:
                    return self._first()
                await event.wait()
        finally:
            self._waiter = None

    def _first(self) -> _T | None:
        return self._items[self.released] if self._count > self.released else None
