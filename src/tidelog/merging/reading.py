"""Rows of several inputs as they come: in turns, or each by a thread of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

import pyarrow as pa

from tidelog import threads

_AHEAD: Final = 4
"""Batches of an input that may wait, where threads read."""


class Event(NamedTuple):
    """What has come by an input: rows, an error, or its end."""

    name: str
    rows: pa.RecordBatch | None = None
    error: BaseException | None = None


class Reading(ABC):
    """Reads inputs."""

    @abstractmethod
    def add(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Read one more."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Read one no more."""

    @abstractmethod
    def next(self) -> Event | None:
        """What comes next; None if there are no inputs any more."""

    @abstractmethod
    def close(self) -> None:
        """Read none any more."""


class InTurns(Reading):
    """A batch of each input, one after the other: the same every time. Who has none to give makes all wait."""

    def __init__(self) -> None:
        self._inputs: deque[tuple[str, Iterator[pa.RecordBatch]]] = deque()

    def add(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Take turns with it, too."""
        self._inputs.append((name, batches))

    def remove(self, name: str) -> None:
        """It has no turn any more."""
        for own, batches in self._inputs:
            if own == name:
                _close(batches)
        self._inputs = deque(each for each in self._inputs if each[0] != name)

    def next(self) -> Event | None:
        """The next batch of the next input."""
        if not self._inputs:
            return None
        name, batches = self._inputs.popleft()
        try:
            rows = next(batches, None)
        except Exception as error:  # whatever a source raises is its end
            return Event(name, error=error)
        if rows is not None:
            self._inputs.append((name, batches))
        return Event(name, rows)

    def close(self) -> None:
        """Let all go."""
        while self._inputs:
            _close(self._inputs.popleft()[1])


class AtOnce(Reading):
    """A thread for each input, so that none waits for another: what comes first is first."""

    def __init__(self) -> None:
        self._found: SimpleQueue[Event] = SimpleQueue()
        self._room: dict[str, SimpleQueue[bool]] = {}

    def add(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Start to read it."""
        room: SimpleQueue[bool] = SimpleQueue()
        for _ in range(_AHEAD):
            room.put(True)
        self._room[name] = room
        threads.start(lambda: self._read(name, batches, room))

    def _read(self, name: str, batches: Iterator[pa.RecordBatch], room: SimpleQueue[bool]) -> None:
        while room.get():
            try:
                rows = next(batches, None)
            except BaseException as error:  # whatever it is: who waits has to be told
                self._found.put(Event(name, error=error))
                return
            self._found.put(Event(name, rows))
            if rows is None:
                return
        _close(batches)

    def remove(self, name: str) -> None:
        """Its thread ends with the batch that it waits for."""
        room = self._room.pop(name, None)
        if room is not None:
            with suppress(Empty):  # its thread takes some meanwhile
                while True:
                    room.get_nowait()
            room.put(False)

    def next(self) -> Event | None:
        """What has come first."""
        while self._room:
            event = threads.taken(self._found)
            room = self._room.get(event.name)
            if room is None:
                continue  # it was removed meanwhile
            if event.rows is None:
                del self._room[event.name]
            else:
                room.put(True)
            return event
        return None

    def close(self) -> None:
        """Let all go."""
        for name in list(self._room):
            self.remove(name)


def _close(batches: Iterator[pa.RecordBatch]) -> None:
    close = getattr(batches, "close", None)
    if close is not None:
        close()
