"""Rows of one input in order, kept until nobody needs them any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column
from tidelog.operators.base import Ints, Shape
from tidelog.operators.columns.memory import gathered
from tidelog.operators.columns.series import Series
from tidelog.operators.state import State, packed, unpacked

_FEW: Final = 16
"""Parts that may stay as they came."""


@dataclass(slots=True)
class _Chunk:
    """Rows that are written together; those that are gone are in it all the same."""

    number: int
    rows: int
    gone: int = 0
    content: pa.Buffer | None = None


class Backlog:
    """Rows go in behind and out in front. Each is written once for all snapshots.

    In memory rows are in parts, as they came. Once these are many, short ones are joined until each is longer than
    those behind it: so a row is copied as often as the number of rows can be halved, and not whenever others come.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._parts: list[pa.RecordBatch] = []
        self._times = Series(np.int64)
        self._chunks: list[_Chunk] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._times)

    @property
    def times(self) -> Ints:
        """The times of all rows."""
        return self._times.line

    def append(self, batch: pa.RecordBatch) -> None:
        """Put rows behind the others."""
        if not batch.num_rows:
            return
        self._add(batch)
        if self._chunks and self._chunks[-1].content is None:
            self._chunks[-1].rows += batch.num_rows
        else:
            self._chunks.append(self._chunk(batch.num_rows))

    def _add(self, batch: pa.RecordBatch) -> None:
        self._times.append(self._shape.times(batch))
        self._parts.append(batch)
        if len(self._parts) <= _FEW:
            return
        first, rows = len(self._parts) - 1, batch.num_rows
        while first and self._parts[first - 1].num_rows < 2 * rows:
            first -= 1
            rows += self._parts[first].num_rows
        if first < len(self._parts) - 1:
            self._parts[first:] = [pa.concat_batches(self._parts[first:])]

    def _chunk(self, rows: int) -> _Chunk:
        self._next += 1
        return _Chunk(self._next - 1, rows)

    @property
    def rows(self) -> pa.RecordBatch:
        """All rows, in one piece of memory."""
        if len(self._parts) > 1:
            self._parts = [pa.concat_batches(self._parts)]
        return self._parts[0] if self._parts else self._shape.empty()

    def slices(self, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Some rows that follow one another, as they are in memory."""
        yield from _between(self._parts, first, first + count)

    def slice(self, first: int, count: int) -> pa.RecordBatch:
        """Some rows that follow one another."""
        parts = list(self.slices(first, count))
        return pa.concat_batches(parts) if len(parts) > 1 else parts[0] if parts else self._shape.empty()

    def take(self, places: Ints, columns: Sequence[str]) -> list[pa.Array]:
        """Some columns of the rows at some places; nulls for those below zero. Several threads may do so at once."""
        pieces = self._parts  # others may join them meanwhile, but leave these alone
        if len(pieces) > 1 and len(places):
            low, high = max(int(places.min()), 0), max(int(places.max()), 0)
            pieces = list(_between(pieces, low, high + 1))
            places = places - low  # if it is not 0, there are none below zero
            if len(pieces) > 1 and 4 * len(places) >= high - low:
                pieces = [pa.concat_batches([part.select(columns) for part in pieces])]
        if not pieces or not len(places):
            pieces = [self._shape.empty()]
        if len(pieces) == 1:
            return _taken(pieces[0], places, columns)
        starts = list(accumulate((part.num_rows for part in pieces[:-1]), initial=0))
        parts = np.maximum(np.searchsorted(starts, places, side="right") - 1, 0)
        order = np.argsort(parts, kind="stable")
        ends = np.searchsorted(parts[order], np.arange(len(pieces) + 1)).tolist()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        found: list[list[pa.Array]] = [[] for _ in columns]
        for piece, start, begin, end in zip(pieces, starts, ends, ends[1:], strict=False):
            if begin < end:
                chosen = places[order[begin:end]]
                for column, each in zip(
                    found, _taken(piece, np.where(chosen < 0, -1, chosen - start), columns), strict=True
                ):
                    column.append(each)
        chosen_back = integer_column(back)
        return [pc.take(pa.concat_arrays(column), chosen_back, boundscheck=False) for column in found]

    def drop(self, count: int) -> None:
        """Forget so many of the first rows."""
        self._times.drop(count)
        left = count
        while left:
            part = self._parts[0]
            if part.num_rows > left:
                self._parts[0] = part.slice(left)
                break
            left -= part.num_rows
            self._parts.pop(0)
        left = count
        while left:
            chunk = self._chunks[0]
            here = min(left, chunk.rows - chunk.gone)
            if chunk.content is None:
                chunk.rows -= here
            else:
                chunk.gone += here
            left -= here
            if chunk.gone == chunk.rows:
                self._chunks.pop(0)

    def replace(self, count: int, batch: pa.RecordBatch) -> None:
        """Have some rows instead of so many of the first ones."""
        self.drop(count)
        rest, self._parts, self._times = self._parts, [], Series(np.int64)
        for part in [batch, *rest] if batch.num_rows else rest:
            self._add(part)
        if batch.num_rows:
            self._chunks.insert(0, self._chunk(batch.num_rows))

    def snapshot(self) -> State:
        """All rows."""
        chunks, first = {}, 0
        for chunk in self._chunks:
            if chunk.content is None:
                chunk.content = packed(self.slice(first, chunk.rows))
            chunks[str(chunk.number)] = chunk.content
            first += chunk.rows - chunk.gone
        return State({"next": self._next, "parts": [[chunk.number, chunk.gone] for chunk in self._chunks]}, chunks)

    def restore(self, state: State) -> None:
        """Have the same rows."""
        self._next = state.core["next"]
        for number, gone in state.core["parts"]:
            content = state.chunks[str(number)]
            rows = unpacked(content, self._shape.schema)
            self._chunks.append(_Chunk(number, rows.num_rows, gone, content))
            self._add(rows.slice(gone))


def _between(parts: Sequence[pa.RecordBatch], first: int, end: int) -> Iterator[pa.RecordBatch]:
    """The rows from the first on and before an end, as they are in memory."""
    for part in parts:
        if end <= 0:
            return
        if first < part.num_rows:
            at = max(first, 0)
            yield part.slice(at, min(end, part.num_rows) - at)
        first, end = first - part.num_rows, end - part.num_rows


def _taken(rows: pa.RecordBatch, places: Ints, columns: Sequence[str]) -> list[pa.Array]:
    return gathered([rows.column(name) for name in columns], places)
