"""Rows in another order than they came in: gathered as whole columns, by the thread that needs them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arrays import integers
from tidelog.storage import workers
from tidelog.storage.codec import Ints
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.numbered import NumberedRows, Rows
from tidelog.storage.ordered import kernels

_threads = threading.local()

_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

_Column: TypeAlias = pa.Array | NumberedRows
"""Values of a column; rows stand for their numbers."""

_NO_WORDS: Final = np.empty(0, np.uint64)

_LOCAL: Final = 4
"""Rows that are copied next to each other before they are gathered, at most, for each one that is wanted."""


@dataclass(frozen=True)
class OrderedRows:
    """Rows of some parts in the order of their times, those of equal times in the order of their numbers.

    They are put into it when they are encoded, on another thread than the one that found the order. A container cuts
    them into leaves only if all values have a fixed width: how many bytes rows take must be known before.
    """

    schema: pa.Schema
    """With the sequence numbers, the last column."""
    parts: tuple[Rows, ...]
    order: Ints
    """Places of the rows among those of all parts."""
    times: Ints
    """The event times, in this order."""
    time: int | None = None
    """Which column the times are, of 64-bit words without nulls, for them not to be gathered once more; None if that is
    not known."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.order)

    def slice(self, start: int, length: int | None = None) -> OrderedRows:
        """Rows ``start`` to ``start + length`` (exclusive), as far as there are any; all of the rest for None."""
        stop = None if length is None else start + length
        return OrderedRows(self.schema, self.parts, self.order[start:stop], self.times[start:stop], self.time)

    def number(self, row: int) -> int:
        """The sequence number of a row; negative ones count from the end."""
        place = int(self.order[row])
        for part in self.parts:
            if place < part.num_rows:
                break
            place -= part.num_rows
        return part.first + place if isinstance(part, NumberedRows) else int(integers(part.column(-1))[place])

    def numbers(self) -> Ints:
        """The sequence numbers of all rows."""
        last = len(self.schema) - 1
        return integers(next(_columns([(self.parts, self.order)], self.schema, [last])))

    @property
    def pinned_rows(self) -> int:
        """How many rows there are in all parts: these stay in memory with the wanted ones."""
        return sum(part.num_rows for part in self.parts)

    def narrowed(self) -> OrderedRows:
        """The same rows without the first parts, if none of these rows is in them."""
        parts, dropped = list(self.parts), 0
        low = int(self.order.min(initial=self.pinned_rows))
        while parts and low >= dropped + parts[0].num_rows:
            dropped += parts.pop(0).num_rows
        return replace(self, parts=tuple(parts), order=self.order - dropped) if dropped else self

    def columns(self) -> Iterator[pa.Array]:
        """The columns, one after the other: whoever is done with one before the next has its memory used again."""
        return OrderedRuns((self,)).columns()

    def gathered(self) -> pa.RecordBatch:
        """The rows as a batch."""
        return gathered(self.parts, self.order, self.schema)


@dataclass(frozen=True)
class OrderedRuns:
    """Ordered rows, each run of them behind the one before, to be encoded together."""

    runs: tuple[OrderedRows, ...]

    @property
    def schema(self) -> pa.Schema:
        """With the sequence numbers, the last column."""
        return self.runs[0].schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return sum(run.num_rows for run in self.runs)

    def columns(self) -> Iterator[pa.Array]:
        """The columns, see :meth:`OrderedRows.columns`."""
        schema, time = self.schema, self.runs[0].time
        indexes = [index for index in range(len(schema)) if index != time]
        others = _columns([(run.parts, run.order) for run in self.runs], schema, indexes)
        for index in range(len(schema)):
            yield self._times(schema.types[index]) if index == time else next(others)

    def _times(self, type: pa.DataType) -> pa.Array:
        """The times as a column; for the rows of one run they are one already."""
        if len(self.runs) == 1:
            content = pa.py_buffer(np.ascontiguousarray(self.runs[0].times))
        else:
            memory, content = allocate(8 * self.num_rows)
            np.concatenate([run.times for run in self.runs], out=memory.view(np.int64))
        return pa.Array.from_buffers(type, self.num_rows, [None, content], 0)


AnyRows: TypeAlias = Rows | OrderedRows
"""Rows to be stored, in any of their forms."""

_Chosen: TypeAlias = tuple[Sequence[Rows], Ints]
"""Parts, and places of rows among those of all of them."""


def gathered(parts: Sequence[Rows], order: Ints, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of some parts in an order, with their numbers if there are any, as a batch of a schema."""
    return pa.RecordBatch.from_arrays(list(_columns([(parts, order)], schema)), schema=schema)


def gathered_by_threads(parts: Sequence[Rows], order: Ints, schema: pa.Schema) -> pa.RecordBatch:
    """Like :func:`gathered`, for many rows: each of the encoding threads, to which the caller does not belong, takes
    another column."""
    jobs = [partial(next, _columns([(parts, order)], schema, [index])) for index in range(len(schema))]
    return pa.RecordBatch.from_arrays(workers.together(jobs), schema=schema)


def picked(parts: Sequence[tuple[Rows, Ints]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows at some places of each part, with their numbers if there are any, one part behind the other."""
    chosen = [([part], places) for part, places in parts]
    return pa.RecordBatch.from_arrays(list(_columns(chosen, schema)), schema=schema)


def _columns(chosen: Sequence[_Chosen], schema: pa.Schema, indexes: Sequence[int] | None = None) -> Iterator[pa.Array]:
    """Columns, given by their positions, of all rows that were chosen."""
    types = schema.types
    wanted = [_Wanted(parts, order) for parts, order in chosen if len(order)]
    for index in range(len(types)) if indexes is None else indexes:
        yield _gathered(wanted, index, types[index]) if wanted else pa.array([], types[index])


def _gathered(wanted: Sequence[_Wanted], index: int, type: pa.DataType) -> pa.Array:
    sources = [each.column(index) for each in wanted]
    word = _width(type)
    if word is None or any(map(_has_nulls, sources)):
        arrays = [each.taken(source) for each, source in zip(wanted, sources, strict=True)]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    rows = sum(each.rows for each in wanted)
    memory, owner = allocate(rows * word().itemsize)
    found, first = memory.view(word), 0
    for each, source in zip(wanted, sources, strict=True):
        each.put(source, found[first : first + each.rows], word)
        first += each.rows
    return pa.Array.from_buffers(type, rows, [None, owner], 0)


def _has_nulls(source: list[_Column]) -> bool:
    return any(part.null_count for part in source if not isinstance(part, NumberedRows))


class _Wanted:
    """Rows that are wanted, by their places among those of some parts; for one column after the other."""

    def __init__(self, parts: Sequence[Rows], order: Ints) -> None:
        low, high = int(order.min()), int(order.max()) + 1
        self._parts = _between(parts, low, high)
        self._order = order - low if low else order
        self._is_local = high - low <= _LOCAL * len(order)
        self._follow: npt.NDArray[np.uint8] | None = None
        self.rows = len(order)

    def column(self, index: int) -> list[_Column]:
        """A column of all parts."""
        return [_column(part, index) for part in self._parts]

    def taken(self, parts: list[_Column]) -> pa.Array:
        """The values of a column that are wanted, of any type."""
        arrays = [pa.array(_values(part, np.int64)) if isinstance(part, NumberedRows) else part for part in parts]
        whole = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return whole.take(pa.array(self._order))

    def put(self, parts: list[_Column], found: npt.NDArray[Any], word: Any) -> None:
        """Put those of a column of machine words into memory for so many."""
        order = self._order
        if len(parts) == 1 and isinstance(parts[0], NumberedRows):
            np.add(order, parts[0].first, out=found.view(np.int64))
        elif not self._is_local and len(parts) > (2 if word is np.uint64 else 1):
            for values, places, rows in _by_part(parts, word, order):
                found[rows] = values[places]
        elif word is np.uint64:
            self._put_words(parts, found)
        else:
            values = _values(parts[0], word) if len(parts) == 1 else _joined(parts, word)
            # Another mode of taking would check each index, and write to memory of its own first.
            np.take(values, order, out=found, mode="clip")

    def _put_words(self, parts: list[_Column], found: npt.NDArray[np.uint64]) -> None:
        """Gather 64-bit values; those that follow one another, as most do if late rows come in bulk, are copied."""
        if self._follow is None:
            self._follow = np.empty(-(-self.rows // kernels.STRETCH), np.uint8)
            kernels.find_stretches(self._order, self._follow)
        some = [_joined(parts, np.uint64)] if len(parts) > 2 else [_values(part, np.uint64) for part in parts]
        kernels.gather(some[0], some[1] if len(some) > 1 else _NO_WORDS, self._order, self._follow, found)


def _between(parts: Sequence[Rows], low: int, high: int) -> list[Rows]:
    """The rows from one place among all of them to another (exclusive)."""
    found: list[Rows] = []
    for part in parts:
        first, last = max(low, 0), min(high, part.num_rows)
        if first < last:
            found.append(part if last - first == part.num_rows else part.slice(first, last - first))
        low, high = low - part.num_rows, high - part.num_rows
    return found


def _column(part: Rows, index: int) -> _Column:
    if not isinstance(part, NumberedRows):
        return part.column(index)
    return part.batch.column(index) if index < part.batch.num_columns else part


def _joined(parts: list[_Column], word: Any) -> npt.NDArray[Any]:
    """The values of all parts in memory that the thread's next call uses again."""
    sizes = list(map(_length, parts))
    whole = words(sum(sizes), word)
    first = 0
    for part, size in zip(parts, sizes, strict=True):
        target = whole[first : first + size]
        if isinstance(part, NumberedRows):
            part.put_numbers(target)
        else:
            target[:] = _values(part, word)
        first += size
    return whole


def _by_part(
    parts: list[_Column], word: Any, order: Ints
) -> Iterator[tuple[npt.NDArray[Any], Ints, npt.NDArray[np.intp]]]:
    """For each part its values, and which of them are wanted in which rows."""
    first = 0
    for part in parts:
        rows = np.flatnonzero((order >= first) & (order < first + _length(part)))
        yield _values(part, word), order[rows] - first, rows
        first += _length(part)


def _length(part: _Column) -> int:
    return part.num_rows if isinstance(part, NumberedRows) else len(part)


def _values(part: _Column, word: Any) -> npt.NDArray[Any]:
    if isinstance(part, NumberedRows):
        numbers = np.empty(part.num_rows, word)
        part.put_numbers(numbers)
        return numbers
    return np.frombuffer(part.buffers()[1], word, len(part), part.offset * word().itemsize)


def words(count: int, word: Any) -> npt.NDArray[Any]:
    """Memory for so many words, which the thread's next call uses again."""
    size = count * np.dtype(word).itemsize
    kept: npt.NDArray[np.uint64] | None = getattr(_threads, "kept", None)
    if kept is None or kept.nbytes < size:
        kept = _threads.kept = np.empty(-(-size // 8), np.uint64)
    found: npt.NDArray[Any] = kept.view(word)[:count]
    return found


@functools.cache
def _width(type: pa.DataType) -> Any:
    """The machine word of values of a type; None if they are not such words."""
    is_word = pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_temporal(type)
    return _WORDS.get(type.bit_width) if is_word else None
