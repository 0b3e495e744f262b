"""Rows in another order than they came in: gathered as whole columns, by the thread that needs them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import threads
from tidelog.model.arrays import integers
from tidelog.storage.codec import Ints
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import kernels

_threads = threading.local()

_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

_Column: TypeAlias = pa.Array | NumberedRows
"""Values of a column; rows stand for their numbers."""

_NOWHERE: Final = {bits // 8: np.empty(0, word) for bits, word in _WORDS.items()}
"""Memory for no values, by their width."""


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

    @classmethod
    def of(cls, batch: pa.RecordBatch, time: int) -> OrderedRows:
        """The rows of a batch, which are in order; ``time`` is the column of the times."""
        return cls(batch.schema, (batch,), np.arange(batch.num_rows), integers(batch.column(time)), time)

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

    def trimmed(self) -> OrderedRows:
        """The same rows, of which there must be one, without what stands before and behind them in the parts."""
        low, high = int(self.order.min()), int(self.order.max()) + 1
        parts, start = [], 0
        for part in self.parts:
            first, last = max(low - start, 0), min(high - start, part.num_rows)
            if first < last:
                parts.append(part if last - first == part.num_rows else part.slice(first, last - first))
            start += part.num_rows
        return replace(self, parts=tuple(parts), order=self.order - low)

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


def are_words(parts: Sequence[Rows], schema: pa.Schema) -> bool:
    """Whether all values are machine words, none of them null: then rows are gathered without copying others first."""
    columns = (_column(part, index) for part in parts for index in range(len(schema)))
    return all(map(_width, schema.types)) and not _has_nulls(columns)


def gathered(parts: Sequence[Rows], order: Ints, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of some parts in an order, with their numbers if there are any, as a batch of a schema."""
    return pa.RecordBatch.from_arrays(list(_columns([(parts, order)], schema)), schema=schema)


def gathered_by_threads(parts: Sequence[Rows], order: Ints, schema: pa.Schema) -> pa.RecordBatch:
    """Like :func:`gathered`, for many rows: each of the encoding threads, to which the caller does not belong, takes
    another column."""
    jobs = [partial(next, _columns([(parts, order)], schema, [index])) for index in range(len(schema))]
    return pa.RecordBatch.from_arrays(threads.together(jobs), schema=schema)


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
        each.put(source, found[first : first + each.rows])
        first += each.rows
    return pa.Array.from_buffers(type, rows, [None, owner], 0)


def _has_nulls(source: Iterable[_Column]) -> bool:
    return any(part.null_count for part in source if not isinstance(part, NumberedRows))


class _Wanted:
    """Rows that are wanted, by their places among those of some parts; for one column after the other."""

    def __init__(self, parts: Sequence[Rows], order: Ints) -> None:
        self._parts = parts
        self._order = order
        self._starts = np.array([0, *accumulate(part.num_rows for part in parts)], np.int64)
        self._kinds: npt.NDArray[np.uint8] | None = None
        self.rows = len(order)

    def column(self, index: int) -> list[_Column]:
        """A column of all parts."""
        return [_column(part, index) for part in self._parts]

    def taken(self, parts: list[_Column]) -> pa.Array:
        """The values of a column that are wanted, of any type."""
        low, high = int(self._order.min()), int(self._order.max()) + 1
        arrays = [
            part.slice(max(low - start, 0), min(high, end) - max(low, start))
            for part, (start, end) in zip(map(_array, parts), pairwise(self._starts.tolist()), strict=True)
            if start < high and end > low
        ]
        whole = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return whole.take(pa.array(self._order - low))

    def put(self, parts: list[_Column], found: npt.NDArray[Any]) -> None:
        """Put those of a column of machine words into memory for so many."""
        arrays = [part for part in parts if not isinstance(part, NumberedRows)]
        if len(arrays) < len(parts):
            self._put_numbers(parts, found.view(np.int64))
            return
        if self._kinds is None:
            self._kinds = np.empty(-(-self.rows // kernels.STRETCH), np.uint8)
            kernels.find_stretches(self._order, self._starts, self._kinds)
        width = found.itemsize
        addresses = [array.buffers()[1].address + width * array.offset if len(array) else 0 for array in arrays]
        bases = np.array(addresses, np.uint64) - width * self._starts[:-1].view(np.uint64)
        by_width = {**_NOWHERE, width: found}
        kernels.gather(
            bases, self._starts, self._order, self._kinds, width, by_width[1], by_width[2], by_width[4], by_width[8]
        )

    def _put_numbers(self, parts: list[_Column], found: Ints) -> None:
        """The sequence numbers, which are in memory for some parts at most."""
        firsts = [part.first for part in parts if isinstance(part, NumberedRows)]
        if len(firsts) < len(parts):
            self.put(list(map(_array, parts)), found.view(np.uint64))
        elif len(firsts) == 1:
            np.add(self._order, firsts[0], out=found)
        else:
            kernels.number(np.array(firsts, np.int64) - self._starts[:-1], self._starts, self._order, found)


def _column(part: Rows, index: int) -> _Column:
    if not isinstance(part, NumberedRows):
        return part.column(index)
    return part.batch.column(index) if index < part.batch.num_columns else part


def _array(part: _Column) -> pa.Array:
    if not isinstance(part, NumberedRows):
        return part
    numbers = np.empty(part.num_rows, np.int64)
    part.put_numbers(numbers)
    return pa.array(numbers)


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
