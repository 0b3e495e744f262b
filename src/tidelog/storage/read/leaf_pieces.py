"""The pieces of some columns of a few leaves, found and verified, and memory that numbers are decoded into.

A question about a few rows of a leaf takes less time than making Arrow arrays of its columns. Who asks such questions
decodes them here, without Arrow around (:mod:`tidelog.storage.read.leaf_numbers`,
:mod:`tidelog.storage.read.leaf_ranges`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.numeric.columns import DTYPES, Words, column_of
from tidelog.storage.format import kernels
from tidelog.storage.format.frame import OK

Numbers = list[npt.NDArray[Any]]

_KEPT: Final = 16
"""Selections of columns that a thread keeps memory for."""


def are_numbers(types: Sequence[pa.DataType]) -> bool:
    """Whether columns of all these types can be decoded here: numbers, dates and instants of up to 64 bits."""
    return all(
        pa.types.is_integer(type) or pa.types.is_float32(type) or pa.types.is_float64(type) or _is_instant(type)
        for type in types
    )


def _is_instant(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type) or pa.types.is_date(type))


class LeafPieces:
    """Finds the pieces of some columns, given by their positions, of a few leaves at a time. For one thread."""

    def __init__(self, columns: Sequence[int], leaves: int) -> None:
        """``leaves`` is how many are looked at with each call."""
        self._columns = np.array(columns, np.int64)
        self._places = np.zeros((3, leaves), np.int64)
        self.rows = np.zeros(leaves, np.int64)
        """How many each leaf has."""
        self.offsets, self.lengths = (np.zeros((len(columns), leaves), np.int64) for _ in range(2))
        """Where the pieces stand and their lengths, by column and leaf, as they were found last."""

    def locate(self, words: Words, places: Sequence[int], sizes: Sequence[int], ids: Sequence[int]) -> None:
        """Find the pieces of leaves whose frames stand at byte ``places`` of ``words``, and the rows of each leaf.

        Raises :class:`CorruptionError` if a head or a column is not as it was written.
        """
        self._places[:] = places, sizes, ids
        bad = int(kernels.open_pieces(words, self._places, self._columns, self.rows, self.offsets, self.lengths))
        if bad == OK:
            return
        if bad < 0:
            raise CorruptionError(
                f"the head of block {ids[-2 - bad]} is damaged: its checksum, id or length is not what was written"
            )
        column, leaf = divmod(bad, len(ids))
        raise CorruptionError(
            f"column {int(self._columns[column])} of block {ids[leaf]} is damaged: its checksum is not the one written"
        )

    @property
    def stored_bytes(self) -> int:
        """What the columns that were found last take in the file."""
        return sum(map(sum, self.lengths.tolist()))


class NumberMemory:
    """Memory for so many rows of columns of numbers, to be written to as words of any width. Grows."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        shapes = [column_of(type) for type in types]
        self._dtypes = [
            np.dtype(f"<{'f' if shape.floats else 'i' if shape.signed else 'u'}{shape.width}") for shape in shapes
        ]
        self.floats = np.array([shape.floats for shape in shapes], np.uint8)
        self.widths = np.array([shape.width for shape in shapes], np.int64)
        self.bases = np.zeros(len(shapes), np.int64)
        """The byte where each column begins."""
        self.views: dict[int, npt.NDArray[Any]] = {}
        """All of it as words of each width."""
        self.columns: Numbers = []
        """The columns, as long as there is room."""
        self._capacity = -1

    def make_room(self, rows: int) -> bool:
        """Have room for so many rows; whether that took other memory than before."""
        if rows <= self._capacity:
            return False
        self._capacity = rows
        memory = np.empty(8 * rows * len(self._dtypes), np.uint8)
        self.bases = np.arange(len(self._dtypes), dtype=np.int64) * (8 * rows)
        self.views = {word: memory.view(dtype) for word, dtype in DTYPES.items()}
        self.columns = [
            memory[start : start + dtype.itemsize * rows].view(dtype)
            for start, dtype in zip(self.bases.tolist(), self._dtypes, strict=True)
        ]
        return True


R = TypeVar("R")


class Selection(Generic[R]):
    """Columns of numbers of a schema, given by their positions, and what reads them."""

    def __init__(
        self,
        make: Callable[[tuple[int, ...], Sequence[pa.DataType], int], R],
        columns: tuple[int, ...],
        types: Sequence[pa.DataType],
    ) -> None:
        """``make`` makes a reader of columns, with their types, of so many leaves at a time, for one thread."""
        self._make = make
        self._columns = columns
        self._types = tuple(types)
        # Types of Arrow are slow to compare.
        self._key = (make, columns, tuple(map(str, types)))

    def reader(self, leaves: int) -> R:
        """The calling thread's reader of these columns of so many leaves at a time."""
        readers = _kept.readers
        key = self._key, leaves
        reader: R | None = readers.get(key)
        if reader is None:
            if len(readers) >= _KEPT:
                readers.clear()
            reader = readers[key] = self._make(self._columns, self._types, leaves)
        return reader


class _Kept(threading.local):
    def __init__(self) -> None:
        self.readers: dict[Any, Any] = {}


_kept = _Kept()
