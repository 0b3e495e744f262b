"""How threads hand things over to each other, and tell each other that something has happened.

All of it is made of queues of C, which bear an interrupt at any moment.
"""

from __future__ import annotations

import asyncio
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

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
            return False
        # Before the one who waits looks at what has happened: whoever rings from now on is heard again.
        self._is_rung = False
        return True


class Outbox(Generic[_T]):
    """A queue of at most so many items, from one thread to another, or to an event loop."""

    def __init__(self, most: int) -> None:
        self._items: SimpleQueue[_T | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(most):
            self._room.put(None)
        self._is_over = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def put(self, item: _T) -> bool:
        """Hand an item over, when there is room; False if it is over before."""
        while not self._is_over:
            try:
                self._room.get(timeout=_PATIENCE)
            except Empty:
                continue
            self._items.put(item)
            self._wake()
            return True
        return False

    def end(self) -> None:
        """There will be no items any more."""
        self._items.put(None)
        self._wake()

    def close(self) -> None:
        """Nobody takes items any more, so nobody has to wait for room."""
        self._is_over = True
        self.end()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            loop, event = waiter
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def get(self, seconds: float | None = None) -> _T | None:
        """The next item; None when there will be none any more. Raises :class:`queue.Empty` after so many seconds."""
        item = self._items.get(timeout=seconds)
        return self._taken(item)

    async def get_async(self) -> _T | None:
        """The next item, for an event loop; nothing is lost if this is cancelled."""
        event = asyncio.Event()
        self._waiter = asyncio.get_running_loop(), event
        try:
            while True:
                event.clear()
                try:
                    return self._taken(self._items.get_nowait())
                except Empty:
                    await event.wait()
        finally:
            self._waiter = None

    def _taken(self, item: _T | None) -> _T | None:
        if item is None:
            self._items.put(None)  # for who asks again
        else:
            self._room.put(None)
        return item
