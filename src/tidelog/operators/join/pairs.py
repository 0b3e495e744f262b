"""Pairs of arriving rows and their partners: ways to find those that a condition may hold for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.operators.base import Ints
from tidelog.operators.join import kernels
from tidelog.operators.join.conditions.matching import Matcher, unpaired

LEFT: Final = 0
RIGHT: Final = 1
BOTH: Final = (LEFT, RIGHT)

TILE: Final = 1 << 17
"""Pairs whose columns are made together: they stay in the cache, and memory is bounded."""
MATCHED: Final = 1 << 21
"""Pairs that a program looks at together."""

Job: TypeAlias = Callable[[], tuple[Ints, Ints, bool]]
"""Gives numbers of arriving rows and places of partners, in order, and whether the first program holds for them."""


class Path(Enum):
    """Where partners are looked for."""

    KEYS = "equal keys"
    VALUES = "ranges of values"
    ROWS = "all rows of a window"


@dataclass(frozen=True)
class Arriving:
    """Rows in the order in which they arrive: their inputs, places in these, and those of partners in the others."""

    ports: Ints
    rows: Ints
    firsts: Ints
    lasts: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, first: int, last: int) -> Arriving:
        """Some of them."""
        at = slice(first, last)
        return Arriving(self.ports[at], self.rows[at], self.firsts[at], self.lasts[at])

    def cut(self, counts: Ints, most: int) -> Iterator[tuple[int, int]]:
        """Stretches of rows that have so many candidates together, or one row."""
        ends = np.cumsum(counts)
        first = 0
        while first < len(ends):
            before = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            yield first, last
            first = last


class Finder(ABC):
    """Finds candidates. It is told of the rows of both logs: places are those in what has not been dropped."""

    finds_few = False
    """Whether its jobs, which take nothing but what was given, look at far more pairs than most of them find."""

    @abstractmethod
    def append(self, port: int, batch: pa.RecordBatch) -> None:
        """Rows have been put behind those of a log; columns have the names that they have in pairs."""

    @abstractmethod
    def drop(self, port: int, count: int) -> None:
        """Rows are gone from the front of a log."""

    @abstractmethod
    def jobs(self, arriving: Arriving) -> Iterator[Job]:
        """Jobs that find the candidates of rows, which arrive once each; jobs in their order, and so what they give."""


class Nested(Finder):
    """Every row of the window; a program looks at them where there is one."""

    def __init__(self, matcher: Matcher | None) -> None:
        self._matcher = matcher
        self.finds_few = matcher is not None

    def append(self, port: int, batch: pa.RecordBatch) -> None:
        """Nothing: programs are told by others."""

    def drop(self, port: int, count: int) -> None:
        """Nothing."""

    def jobs(self, arriving: Arriving) -> Iterator[Job]:
        """Tiles of pairs."""
        counts = arriving.lasts - arriving.firsts
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        size = TILE if self._matcher is None else MATCHED
        for begin in range(0, total, size):
            end = min(begin + size, total)
            first, last = int(np.searchsorted(ends, begin, side="right")), int(np.searchsorted(ends, end)) + 1
            part = arriving.part(first, last)
            firsts, lasts = part.firsts.copy(), part.lasts.copy()
            lasts[-1] -= int(ends[last - 1]) - end
            firsts[0] += begin - (int(ends[first]) - int(counts[first]))
            yield partial(self._find, Arriving(part.ports, part.rows, firsts, lasts), first)

    def _find(self, part: Arriving, number: int) -> tuple[Ints, Ints, bool]:
        if self._matcher is not None:
            found = []
            for port in BOTH:
                chosen = np.flatnonzero(part.ports == port)
                if len(chosen):
                    rows = part.rows[chosen], part.firsts[chosen], part.lasts[chosen]
                    pairs = self._matcher.match(port, *rows, chosen)
                    if pairs is None:
                        break
                    found.append(pairs)
            else:
                numbers, places = unpaired(np.sort(np.concatenate(found)))
                return numbers + number, places, True
        counts = part.lasts - part.firsts
        ends = np.cumsum(counts)
        size = int(ends[-1])
        numbers, places = np.empty(size, np.int64), np.empty(size, np.int64)
        kernels.expand_ranges(0, size, part.firsts, ends, counts, numbers, places)
        return numbers + number, places, False
