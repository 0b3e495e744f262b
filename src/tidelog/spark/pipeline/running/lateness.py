"""How many rows have come late into a stream: older than what was its newest event, by more than a delay."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import tidelog
from tidelog.model.errors import TimeError
from tidelog.store.manifest.sequence_set import SeqSet


class LateRows:
    """Counts late rows by looking at a stream now and then.

    Each look asks the index for the rows that are new and older than a moment. Nodes without new rows, or without old
    ones, are not opened, so that it costs little unless many rows are late.
    """

    def __init__(self, path: str, stream: str, delay: Fraction) -> None:
        """Rows from now on count; ``delay`` is in seconds, and does not matter where times are plain numbers."""
        self._path = path
        self._stream = stream
        self._delay = timedelta(microseconds=int(delay * 1_000_000))
        self._seen = SeqSet()
        self._newest: int | None = None
        self.count = 0
        self.look()
        self.count = 0

    def look(self) -> int:
        """Count what has come since the last look, from whomever; returns the sum of all looks."""
        with tidelog.open(self._path, read_only=True) as store:
            stream = store.stream(self._stream)
            clock, snapshot = stream.schema.clock, stream.snapshot()
            new = snapshot.visible - self._seen
            if not new:
                return self.count
            if self._newest is not None:
                try:
                    limit = self._newest - clock.duration(self._delay)
                except TimeError:
                    limit = self._newest
                self.count += int(stream.aggregate(None, limit, ["count(*)"], as_of=new)["count(*)"])
            text = f'max("{stream.schema.time}")'
            newest = stream.aggregate(None, None, [text], as_of=snapshot)[text]
            self._newest = None if newest is None else clock.instant(newest)
            self._seen = snapshot.visible
        return self.count
