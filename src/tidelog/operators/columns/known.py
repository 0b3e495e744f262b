"""Values of a column that have numbers already: looked up by kernels, batch after batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import threads as shared
from tidelog.operators.base import Ints
from tidelog.operators.columns import kernels
from tidelog.operators.columns.memory import is_text, text_memory
from tidelog.operators.columns.series import Series

_LEAST: Final = 1024
"""Slots of a table."""
_TOGETHER: Final = 1 << 14
"""Rows that a thread looks up, at the least."""


class Known(Protocol):
    """Values and their numbers. NULL is not known, and values that are equal need not be so in memory."""

    def find(self, column: pa.Array, threads: int = 1) -> Ints:
        """The number of each value, -1 for those that are not known; by some threads, if there are many."""

    def add(self, column: pa.Array, numbers: Ints) -> None:
        """Know some values, none of them known or NULL, and no two the same."""


def known_values(type_: pa.DataType) -> Known | None:
    """For values of a type that can be looked up so, as :func:`~tidelog.operators.keys.comparable` gives them."""
    if is_text(type_):
        return _Texts()
    if pa.types.is_integer(type_) or pa.types.is_float64(type_):
        return _Words()
    return None


class _Table:
    """The places of values by their digests."""

    def __init__(self) -> None:
        self.digests = Series(np.uint64)
        self.numbers = Series(np.int64)
        self.places = np.full(_LEAST, -1, np.int32)

    def add(self, digests: npt.NDArray[np.uint64], numbers: Ints, starts: Ints) -> None:
        first = len(self.digests)
        self.digests.append(digests)
        self.numbers.append(numbers)
        if 2 * len(self.digests) > len(self.places):
            slots = len(self.places)
            while slots < 4 * len(self.digests):
                slots *= 2
            self.places, first = np.full(slots, -1, np.int32), 0
        kernels.put_places(self.digests.line, starts, first, self.places)


class _Texts:
    """Texts, or bytes."""

    def __init__(self) -> None:
        self._table = _Table()
        self._texts = Series(np.uint8)
        self._starts = Series(np.int64)
        self._starts.append(np.zeros(1, np.int64))

    def find(self, column: pa.Array, threads: int = 1) -> Ints:
        """The number of each text."""
        data, offsets = text_memory(column)
        found = np.empty(len(column), np.int64)
        table = self._table
        known = table.places, table.digests.line, self._starts.line, self._texts.line, table.numbers.line

        def find(first: int, last: int) -> None:
            kernels.find_texts(data, offsets[first : last + 1], *known, found[first:last])

        _divided(find, len(column), threads)
        if column.null_count:
            found[np.asarray(column.is_null())] = -1
        return found

    def add(self, column: pa.Array, numbers: Ints) -> None:
        """Know some texts."""
        data, offsets = text_memory(column)
        starts = offsets.astype(np.int64) - offsets[0] + len(self._texts)
        self._texts.append(data[offsets[0] : offsets[-1]])
        self._starts.append(starts[1:])
        digests = np.empty(len(column), np.uint64)
        kernels.digest_texts(self._texts.memory[0], starts, digests)
        self._table.add(digests, numbers, self._starts.line)


class _Words:
    """Numbers of at most 64 bits."""

    def __init__(self) -> None:
        self._table = _Table()

    def find(self, column: pa.Array, threads: int = 1) -> Ints:
        """The number of each value."""
        table = self._table
        words, found = _words(column), np.empty(len(column), np.int64)
        known = table.places, table.digests.line, table.numbers.line

        def find(first: int, last: int) -> None:
            kernels.find_words(words[first:last], *known, found[first:last])

        _divided(find, len(column), threads)
        if column.null_count:
            found[np.asarray(column.is_null())] = -1
        return found

    def add(self, column: pa.Array, numbers: Ints) -> None:
        """Know some values."""
        self._table.add(_words(column), numbers, np.empty(0, np.int64))


def _divided(find: Callable[[int, int], None], rows: int, threads: int) -> None:
    """Find the numbers of all rows, by threads for some rows each."""
    parts = min(threads, rows // _TOGETHER)
    if parts < 2:
        find(0, rows)
        return
    bounds = [rows * part // parts for part in range(parts + 1)]
    shared.together([partial(find, first, last) for first, last in pairwise(bounds)])


def _words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Values as words; what nulls have is anything."""
    _, content = column.buffers()
    type_ = np.dtype(column.type.to_pandas_dtype())
    if content is None or not len(column):
        return np.zeros(len(column), np.uint64)
    values = np.frombuffer(content, type_, len(column), column.offset * type_.itemsize)
    return values.view(np.uint64) if type_.itemsize == 8 else values.astype(np.int64).view(np.uint64)
