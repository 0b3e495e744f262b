"""Rows that somebody has read after a crash stay there while the next writer opens the tail, whoever looks when."""

from __future__ import annotations

import random

import pytest

from support.media.crash import RecordingMedium, kills
from support.streams.history import NAME, History, rows_of, table
from tidelog.engine.store import Store
from tidelog.storage.media.medium import Lock

NEXT = 99_999
"""The row of the next writer."""


def ids(medium: RecordingMedium) -> set[int]:
    """What a reader sees that has known nothing before."""
    with Store(medium, read_only=True) as store:
        found = [row.id for row in rows_of(store.stream(NAME))]
    assert len(set(found)) == len(found)
    return set(found)


class Watched:
    """Looks before every step that is made on a medium, and behind every lock that is taken or given up."""

    def __init__(self, medium: RecordingMedium) -> None:
        self._medium = medium
        self._is_looking = False
        self.seen = ids(medium)
        self.looks = 0
        medium.before = lambda kind, name: self.look()
        self._take = medium.lock
        medium.lock = self._lock  # type: ignore[method-assign]  # to look when it was taken

    def _lock(self, name: str) -> Lock:
        lock = self._take(name)
        self.look()
        return lock

    def look(self) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        now = ids(self._medium)
        assert self.seen <= now, f"{len(self.seen - now)} rows have vanished"
        self.seen = now
        self.looks += 1
        self._is_looking = False


@pytest.mark.parametrize("identified", [0.0, 0.3])
def test_nothing_vanishes_while_the_next_writer_opens(identified: float) -> None:
    medium = RecordingMedium()
    history = History(medium, seed=5, identified=identified)
    history.run(14)
    points = range(len(medium.log) // 4, len(medium.log) + 1)
    looks = more = 0
    for crash in kills(medium, sorted(random.Random(1).sample(points, 3))):
        killed = crash.medium()
        with Store(killed, read_only=True) as store:
            if NAME not in store:
                continue
        watched = Watched(killed)
        before = len(watched.seen)
        with Store(killed) as store:
            store.stream(NAME).append(table([(10_000, NEXT)]))
            store.stream(NAME).flush()
        watched.look()
        assert NEXT in watched.seen
        looks += watched.looks
        more += before
    assert looks > 50
    assert more > 50
