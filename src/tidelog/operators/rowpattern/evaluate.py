"""Rows that are all there, in the order of their partitions, and the matches in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.times.clock import INT64_MAX
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.compiling import RowPatternQuery, compile_query
from tidelog.operators.rowpattern.frames import frame_ends, of_each_row
from tidelog.operators.rowpattern.machine.partitions import Partitions
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.rows import Rows, order_times, partition_cuts
from tidelog.operators.rowpattern.syntax import RowPattern

_ROWS: Final = 1 << 17
"""Rows that are looked at together: their columns stay in the cache."""


def evaluate(query: RowPattern | RowPatternQuery, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What comes out of a query, for rows in the order of (partition, order).

    Lazy. In memory are, besides a batch of some rows, those that a match that is not certain yet may have: as many as
    ``WITHIN`` or the pattern's length allow for.
    """
    own = query if isinstance(query, RowPatternQuery) else compile_query(query)
    for matches in found_matches(own, batches):
        rendered, _ = own.output.rendered(matches)
        if rendered.num_rows:
            yield rendered


def found_matches(query: RowPatternQuery, batches: Iterable[pa.RecordBatch]) -> Iterator[Matches]:
    """The matches of a query, some at a time."""
    yield from _found(_Run(query), batches)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of an order that have all rows of all matches of theirs, and no others between them."""

    before: pa.RecordBatch | None
    """Those in front of them that conditions look at, in which no match is."""
    rows: Iterable[pa.RecordBatch]
    after: pa.RecordBatch | None
    is_end: bool = False
    """Whether behind these there are no rows any more."""


def evaluate_pieces(query: RowPatternQuery, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """What comes out of a query with ``WITHIN`` for rows that come in pieces, in the order of time. Lazy.

    Pieces have nothing to do with each other, but that matches are numbered as if all rows had come. Where there are
    partitions a piece is in memory as a whole, and each partition of it is numbered by itself.
    """
    number = 1
    for piece in pieces:
        batches = piece.rows
        if query.pattern.partition:
            assert piece.before is None
            assert piece.after is None
            batches = _by_partition(query.pattern, batches)
        run = _Run(query, piece, number)
        for matches in _found(run, batches):
            rendered, _ = query.output.rendered(matches)
            if rendered.num_rows:
                yield rendered
        number = run.number


def _by_partition(pattern: RowPattern, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows of partitions one behind the other, each in the order in which they come."""
    own = list(batches)
    if not own:
        return own
    rows = pa.concat_batches(own)
    keys = [(name, "ascending") for name in pattern.partition]
    return [rows.take(pc.sort_indices(rows, sort_keys=keys))]  # which is stable


def _found(run: _Run, batches: Iterable[pa.RecordBatch]) -> Iterator[Matches]:
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        for first in range(0, batch.num_rows, _ROWS):
            part = batch.slice(first, _ROWS)
            waiting.append(part)
            count += part.num_rows
            if count >= max(_ROWS, run.kept):
                yield from run.push(waiting, is_last=False)
                waiting, count = [], 0
    yield from run.push(waiting, is_last=True)


class _Run:
    """What is kept between batches: the rows of the last partition that may still be part of a match."""

    def __init__(self, query: RowPatternQuery, piece: Piece | None = None, number: int = 1) -> None:
        self._query = query
        nothing = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in query.input], schema=query.input)
        before = None if piece is None else piece.before
        self._rows = nothing if before is None else before
        self._after = [] if piece is None or piece.after is None else [piece.after]
        self._is_end = piece is None or piece.is_end
        self._begin = 0 if before is None else -1
        self._resume = self._rows.num_rows
        self.number = number
        """That of the next match."""
        self._covered: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    @property
    def kept(self) -> int:
        """How many rows are kept."""
        return int(self._rows.num_rows)

    def push(self, batches: list[pa.RecordBatch], *, is_last: bool) -> Iterator[Matches]:
        """The matches that are certain with some more rows, some at a time."""
        query, pattern = self._query, self._query.pattern
        batches = [*batches, *self._after] if is_last else batches
        batch = pa.concat_batches([self._rows, *(each.select(query.input.names) for each in batches)])
        cuts = partition_cuts(batch, pattern.partition)
        partitions = Partitions.new(cuts, closed=True)
        times: Ints | None = None
        if pattern.within is not None:
            times = order_times(batch, pattern.order[0])
        covered = np.zeros(batch.num_rows, np.uint8)
        covered[: len(self._covered)] = self._covered
        if len(cuts) > 1 and (self._rows.num_rows or not pattern.partition):
            partitions.begins[0], partitions.resumes[0], partitions.numbers[0] = self._begin, self._resume, self.number
        if len(cuts) > 1 and not is_last:
            partitions.closed[-1] = 0
            if times is not None:
                partitions.horizons[-1] = times[-1]
        elif len(cuts) > 1 and self._after and not self._is_end:
            partitions.closed[-1], partitions.horizons[-1] = 0, INT64_MAX  # conditions look at more than matches have
        rows = Rows(batch, cuts)
        if pattern.frame is not None:
            partitions.frames = frame_ends(batch, pattern.frame)
        first = self._resume
        if pattern.frame is None:
            yield from query.search.parts(rows, partitions, times, covered)
        else:
            matches = query.search.run(rows, partitions, times, covered)
            last = int(partitions.resumes[-1]) if len(cuts) > 1 else first
            yield of_each_row(matches, first, last, partitions.frames)
        if len(cuts) > 1:
            self._keep(batch, partitions, int(cuts[-2]), covered)

    def _keep(self, batch: pa.RecordBatch, partitions: Partitions, begin: int, covered: npt.NDArray[np.uint8]) -> None:
        """Keep what may be needed of the last partition."""
        resume = int(partitions.resumes[-1])
        first = max(resume - self._query.conditions.behind, begin)
        own = int(partitions.begins[-1])
        self._begin = own - first if own >= first else -1
        if batch.num_rows and first >= batch.num_rows:  # one row, so that it is known which partition it is
            first = batch.num_rows - 1
            self._begin = own - first if own >= first else -1
        self._resume = resume - first
        self.number = int(partitions.numbers[-1])
        self._rows = batch.slice(first)
        self._covered = covered[first:]
