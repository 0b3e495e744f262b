"""How late rows come: counters for people, and a statistic that tells how long rows are worth waiting for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np

from tidelog.store.rows import kernels
from tidelog.store.rows.stored import Ints

_HALF_LIFE: Final = 1 << 20
"""Rows after which what was seen counts half."""

_OCTAVE: Final = 16
"""Classes of delays between one and its double, so a quantile is at most a tenth too large."""

_CLASSES: Final = 64 * _OCTAVE

_CLASS_SHIFT: Final = 52 - 4
"""A class is the exponent of a double and the first four of its other 52 bits."""

_FIRST_CLASS: Final = 1023 << 4
"""That of 1.0, by the exponent's bias."""

_RARE: Final = 1e-3
"""Below this share of late rows nothing is done for them in advance."""

_PLACED: Final = 0.99
"""The share of late rows that are to find their place in memory."""

_WORTH_WAITING: Final = 0.5
"""The share that must find it at least, where there is not enough room to wait for more."""


class Delays(NamedTuple):
    """What is counted of the delays of some rows."""

    rows: int
    largest: int
    """In ticks."""
    total: float


@dataclass(slots=True)
class LateCounters:
    """What has become of late rows, by all writers of a tail. A row is late if one with a later time came before it."""

    placed: int = 0
    """Found their place among rows in memory."""
    merged: int = 0
    """Were merged into a tree that was written already."""
    spilled: int = 0
    """Became part of a split of late rows."""
    aside: int = 0
    """Were too late and were set aside, in another stream."""
    rejected: int = 0
    """Were too late and refused."""
    rows: int = 0
    """All rows that came late and were taken."""
    largest: int = 0
    """The longest delay, in ticks of the stream's clock."""
    total: float = 0.0
    """All delays together."""

    def observe(self, delays: Delays) -> None:
        """Rows came late."""
        self.rows += delays.rows
        self.largest = max(self.largest, delays.largest)
        self.total += delays.total

    @property
    def is_any(self) -> bool:
        """Whether any row was late."""
        return bool(self.rows or self.aside or self.rejected)

    def saved(self) -> dict[str, float]:
        """The counters as they are kept in the tail's journal; empty if nothing was late."""
        values = asdict(self)
        return values if any(values.values()) else {}

    @classmethod
    def read(cls, saved: Mapping[str, float]) -> LateCounters:
        """The counters that were :meth:`saved`; those that are not known are left out."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})  # type: ignore[arg-type]

    def to_dict(self, queued: int) -> dict[str, Any]:
        """The counters as plain values; ``queued`` rows wait to be merged."""
        return {
            "rows": self.rows,
            "placed": self.placed,
            "queued": queued,
            "merged": self.merged,
            "spilled": self.spilled,
            "aside": self.aside,
            "rejected": self.rejected,
            "largest": self.largest,
            "mean": self.total / self.rows if self.rows else 0.0,
        }


class DelayStatistic:
    """The delays of late rows, old ones forgotten by and by. Costs nothing while no row is late."""

    def __init__(self, first: int) -> None:
        """``first``: the number of the first row to come."""
        self._classes = np.zeros(_CLASSES, np.float64)
        self._rows = 0.0
        self._queued = 0.0
        self._seen = first

    def observe(self, delays: Ints, next_seq: int, queued: int = 0) -> Delays:
        """Some of the rows up to a number came late, by so many ticks each; so many found no place in memory."""
        self._forget(next_seq)
        self._queued += queued
        largest = np.zeros(1, np.int64)
        total = kernels.count_classes(delays, _CLASS_SHIFT, _FIRST_CLASS, self._classes, largest)
        return Delays(len(delays), int(largest[0]), float(total))

    def _forget(self, next_seq: int) -> None:
        rows = next_seq - self._seen
        if rows <= 0:
            return
        self._seen = next_seq
        factor = 0.5 ** (rows / _HALF_LIFE)
        self._classes *= factor
        self._rows = self._rows * factor + rows
        self._queued *= factor

    @property
    def queued_share(self) -> float:
        """Which share of the last rows came too late for a place in memory; 0 if these are too few to matter."""
        # Rows that came before the first late one, and with it, are not known here.
        return self._queued / max(self._rows, self._queued) if self._queued > _RARE * self._rows else 0.0

    def patience(self, next_seq: int, reach: int) -> int:
        """How many ticks to wait for most late rows, judged by the rows up to a number; 0 if it is not worth it.

        It is not if few rows are late, or if most of them come later than after ``reach`` ticks, the longest possible.
        """
        self._forget(next_seq)
        late = float(self._classes.sum())
        if late < _RARE * self._rows or not late:
            return 0
        within = np.cumsum(self._classes)
        index = int(np.searchsorted(within, _PLACED * late))
        wanted = min(_end_of_class(index), 1 << 62)
        if wanted <= reach:
            return wanted
        reached = float(within[_class_of(reach)])
        return reach if reached >= _WORTH_WAITING * late else 0


def _class_of(delay: int) -> int:
    """The class of a delay, see :func:`tidelog.store.rows.kernels.count_classes`."""
    return (int(np.float64(max(delay, 1)).view(np.int64)) >> _CLASS_SHIFT) - _FIRST_CLASS


def _end_of_class(index: int) -> int:
    """A delay that is not below any of a class."""
    octave, part = divmod(index, _OCTAVE)
    return ((_OCTAVE + part + 1) << octave) // _OCTAVE + 1
