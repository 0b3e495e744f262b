"""One sequence that several tasks search, each of them a range of time, with exactly the rows of one search.

Where the search of a range begins depends on the last match before it, and so on all that came before. So a task first
finds out for each row that it could begin with (there are no more than ``WITHIN`` lets a match reach into its range)
where the search would come to behind the range, and how many matches it would have found. Searches from different rows
soon come to the same ones, and from there on are one. Whoever has this of all tasks links it from the left, and tells
each of them the row to begin with and the number of its first match. Then each task renders what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.errors import TidelogError
from tidelog.model.times.clock import INT64_MAX
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.compiling import RowPatternQuery
from tidelog.operators.rowpattern.conditions.conditions import Evaluated
from tidelog.operators.rowpattern.machine.partitions import Partitions
from tidelog.operators.rowpattern.machine.search import NoRoom
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.ranges import kernels
from tidelog.operators.rowpattern.rows import Mask, Rows, order_times
from tidelog.operators.rowpattern.syntax import Rows as Which
from tidelog.operators.rowpattern.syntax import Skip, counts_matches

_ROOM: Final = 4
"""How many times the rows of a range the matches of all searches may have together, and a few thousand more: beyond
that they do not come together, and one search after the other takes less time."""
_SPARE: Final = 1 << 12


def one_search_because(query: RowPatternQuery) -> str | None:
    """Why a pattern without partitions has to be searched as a whole; None if it has not."""
    pattern = query.pattern
    if pattern.within is None:
        return "it has no WITHIN"
    if pattern.order[0].is_descending:
        return "its order is not that of rising time"
    if any(map(counts_matches, pattern.defines.values())):
        return "conditions depend on MATCH_NUMBER()"
    if query.search.program.has_end:
        return "the anchor $ is the end of all rows"
    if pattern.rows is Which.WITH_UNMATCHED and (pattern.skip is not Skip.PAST_LAST_ROW or pattern.is_all_matches):
        return "rows without a match are wanted where matches overlap"
    return None


def needs_links(query: RowPatternQuery) -> bool:
    """Whether what comes out of a range depends on those before it: not if every row may begin a match, and matches
    are not numbered."""
    pattern = query.pattern
    if pattern.is_all_matches or pattern.skip is Skip.TO_NEXT_ROW:
        return any(counts_matches(each.value) for each in pattern.measures)
    return True


@dataclass(frozen=True)
class Links:
    """What would come of the search of a range, for each row, counted from its beginning, that it may begin with."""

    rows: int
    """How many rows the range has."""
    exits: Ints
    """The row that it would go on with, counted from the end of the range."""
    matches: Ints
    """How many matches it would find."""

    def followed(self, entry: int) -> tuple[int, int]:
        """Where a search that begins with a row goes on, and how many matches it has found."""
        if entry >= self.rows:
            return entry - self.rows, 0
        return int(self.exits[entry]), int(self.matches[entry])


def linked(tasks: Sequence[Links | None]) -> list[tuple[int, int]] | None:
    """For each range, from the left, the row that its search begins with, and the number of its first match; None if
    that is not known of some."""
    found = []
    entry, number = 0, 1
    for each in tasks:
        if each is None:
            return None
        found.append((entry, number))
        entry, more = each.followed(entry)
        number += more
    return found


class Range:
    """The part of a sequence that one task searches."""

    def __init__(
        self, query: RowPatternQuery, rows: pa.RecordBatch, times: Ints, first: int, stop: int, *, is_first: bool
    ) -> None:
        """The range has the rows from ``first`` to ``stop``; ``times`` are those of the order.

        Before them are as many as conditions look back; behind them those within reach of a match, and as many more as
        conditions look ahead. There are fewer only where the sequence begins or ends.
        """
        self._query = query
        self._rows = Rows(rows.select(query.input.names), np.array([0, rows.num_rows] if rows.num_rows else [0]))
        self._times = times
        self._first, self._stop, self._is_first = first, max(stop, first), is_first
        self._joined: tuple[Matches, Partitions] | None = None
        """What all searches have found, for the rows that they begin with."""

    @classmethod
    def between(cls, query: RowPatternQuery, rows: pa.RecordBatch, begin: int | None, end: int | None) -> Range:
        """The range of times from ``begin`` to before ``end``. None is the beginning, or the end, of the sequence; the
        range that begins with it has rows, unless there are none at all."""
        times = order_times(rows, query.pattern.order[0])
        first = 0 if begin is None else int(np.searchsorted(times, begin))
        stop = rows.num_rows if end is None else int(np.searchsorted(times, end))
        return cls(query, rows, times, first, stop, is_first=begin is None)

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def _evaluated(self) -> Evaluated:
        return self._query.conditions.over(self._rows)

    def links(self) -> Links | None:
        """Where searches of the range come to; None if finding that out would take too long, or ends in an error,
        which a search that begins with the right row need not come to."""
        first, stop = self._first, self._stop
        if stop == first:
            return Links(0, np.empty(0, np.int64), np.empty(0, np.int64))
        pattern = self._query.pattern
        count, room = 1, None
        if not self._is_first and not pattern.is_all_matches and pattern.skip is not Skip.TO_NEXT_ROW:
            reach = int(self._times[first]) + (pattern.within or 0)
            behind = int(np.searchsorted(self._times, min(reach, INT64_MAX), side="right"))
            count, room = min(behind + 1, stop) - first, _ROOM * len(self._rows) + _SPARE
        partitions = self._partitions(first + np.arange(count), np.ones(count, np.int64))
        partitions.seen = np.zeros(len(self._rows), np.int32)
        try:
            found = self._found(partitions, room)
        except (NoRoom, TidelogError):
            return None
        found = found.chosen(found.is_match)
        self._joined = found, partitions
        cuts = np.searchsorted(found.partitions, np.arange(count + 1))
        exits, matches = partitions.resumes.copy(), np.diff(cuts)
        kernels.join(stop, cuts, found.starts, partitions.seen, exits, matches)
        return Links(stop - first, exits - stop, matches)

    def rendered(self, entry: int, number: int) -> pa.RecordBatch:
        """What comes out, if the search begins with some row and its first match has some number."""
        return self.searched(entry, number)[0]

    def searched(self, entry: int, number: int) -> tuple[pa.RecordBatch, int, int]:
        """The same, and where the search of the next range begins, and with which number."""
        output = self._query.output
        first = self._first + entry
        if first >= self._stop:
            nothing = pa.RecordBatch.from_arrays(
                [pa.nulls(0, each.type) for each in output.schema], schema=output.schema
            )
            return nothing, first - self._stop, number
        joined, self._joined = self._joined, None
        pattern = self._query.pattern
        if joined is not None and pattern.rows is not Which.WITH_UNMATCHED and not pattern.with_timeouts:
            found, exit_ = _chain(*joined, entry, self._stop)
            found = replace(found, numbers=number + np.arange(len(found)), partitions=np.zeros(len(found), np.int64))
            return output.rendered(found)[0], exit_ - self._stop, number + len(found)
        partitions = self._partitions(np.array([first]), np.array([number]))
        found = self._found(partitions, None)
        return output.rendered(found)[0], int(partitions.resumes[0]) - self._stop, int(partitions.numbers[0])

    def _found(self, partitions: Partitions, room: int | None) -> Matches:
        covered = np.zeros(len(self._rows), np.uint8)
        return self._query.search.over(self._evaluated, partitions, self._times, covered, room=room)

    def _partitions(self, entries: Ints, numbers: Ints) -> Partitions:
        """The range, once for each row to begin with. No match reaches the end of the rows unless they end there."""
        count, rows = len(entries), len(self._rows)
        whole = np.zeros(count, np.int64)
        return Partitions(
            whole,
            whole + rows,
            whole - (not self._is_first),
            np.ones(count, np.uint8),
            whole,
            entries.copy(),
            numbers.copy(),
            whole.copy(),
            stops=whole + self._stop,
        )


def _chain(found: Matches, partitions: Partitions, place: int, stop: int) -> tuple[Matches, int]:
    """Matches of a search, and of those that it joins; and where the last of these came to."""
    cuts = np.searchsorted(found.partitions, np.arange(len(partitions.resumes) + 1))
    own: Mask = np.zeros(len(found), np.bool_)
    row = 0
    while True:
        low, high = cuts[place], cuts[place + 1]
        own[low + np.searchsorted(found.starts[low:high], row) : high] = True
        row = int(partitions.resumes[place])
        if row >= stop:
            break
        place = int(partitions.seen[row]) - 1
    which = np.flatnonzero(own)
    starts = found.starts[which]
    if (starts[1:] >= starts[:-1]).all():
        return found.chosen(own), row
    # A search joins earlier ones, whose matches stand before its own: in the order of rows they are one sequence.
    return found.taken(which[np.argsort(starts, kind="stable")]), row
