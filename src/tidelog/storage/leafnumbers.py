"""The numbers of a leaf or two, decoded into memory that is used again.

A question about a few rows of a leaf, such as where a time stands in it, takes less time than making Arrow arrays of
its columns. Here the same kernels decode them, without Arrow around.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage import kernels
from tidelog.storage.codec.numeric.columns import DTYPES, column_of
from tidelog.storage.codec.numeric.decoder import decode_located

Numbers = list[npt.NDArray[Any]]

_KEPT: Final = 16
"""Selections of columns that a thread keeps memory for."""


def are_numbers(types: Sequence[pa.DataType]) -> bool:
    """Whether columns of all these types can be read here: numbers, dates and instants of up to 64 bits."""
    return all(
        pa.types.is_integer(type) or pa.types.is_float32(type) or pa.types.is_float64(type) or _is_instant(type)
        for type in types
    )


def _is_instant(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type) or pa.types.is_date(type))


class LeafNumbers:
    """Decodes some columns, given by their positions and types, of a few leaves at a time. For one thread."""

    def __init__(self, columns: tuple[int, ...], types: Sequence[pa.DataType], leaves: int) -> None:
        """``leaves`` is how many are decoded with each call."""
        shapes = [column_of(type) for type in types]
        pieces = len(columns) * leaves
        self._columns = np.array(columns, np.int64)
        self._dtypes = [
            np.dtype(f"<{'f' if shape.floats else 'i' if shape.signed else 'u'}{shape.width}") for shape in shapes
        ]
        # By column, then by leaf.
        self._floats = np.repeat(np.array([shape.floats for shape in shapes], np.uint8), leaves)
        self._widths = np.repeat(np.array([shape.width for shape in shapes], np.int64), leaves)
        self._places, self._sizes, self._ids, self._rows = (np.zeros(leaves, np.int64) for _ in range(4))
        self._offsets, self._lengths = (
            np.zeros((len(columns), leaves), np.int64),
            np.zeros((len(columns), leaves), np.int64),
        )
        self._flat = self._offsets.ravel(), self._lengths.ravel()
        self._starts, self._stops, self._targets = (np.zeros(pieces, np.int64) for _ in range(3))
        self._remarks = np.empty(pieces, np.uint8)
        self._capacity = 0
        self._arranged: list[int] = []
        """The rows of the leaves that the memory is laid out for; mostly the same as the time before."""

    def _make_room(self, rows: int) -> None:
        """Memory for so many rows of all leaves together."""
        self._capacity = rows
        memory = np.empty(8 * rows * len(self._columns), np.uint8)
        bases = np.arange(len(self._columns), dtype=np.int64) * (8 * rows)
        self._bases = np.repeat(bases, len(self._ids))
        self._views = {word: memory.view(DTYPES[word]) for word in (1, 2, 4, 8)}
        self._wholes = [
            memory[start : start + dtype.itemsize * rows].view(dtype)
            for start, dtype in zip(bases.tolist(), self._dtypes, strict=True)
        ]

    def _arrange(self, rows: list[int], total: int) -> None:
        """Have the rows of each leaf stand behind those of the one before it."""
        if total > self._capacity:
            self._make_room(total)
        before = np.cumsum(rows) - rows
        repeats = len(self._columns)
        self._stops[:] = np.tile(rows, repeats)
        self._targets[:] = self._bases + np.tile(before, repeats) * self._widths
        self._arranged = rows

    @property
    def stored_bytes(self) -> int:
        """What the columns that were read last take in the file."""
        return sum(self._flat[1].tolist())

    def read(
        self, words: npt.NDArray[np.uint64], places: Sequence[int], sizes: Sequence[int], ids: Sequence[int]
    ) -> tuple[Numbers, list[int]] | None:
        """The columns of leaves whose frames stand at byte ``places`` of ``words``, and the rows of each leaf.

        The rows of all leaves, one behind the other, in an array for each column; valid until the next call. None if
        there are nulls, or an encoding that only Arrow arrays are made of. Raises :class:`CorruptionError` if a head or
        a column is not as it was written.
        """
        self._places[:], self._sizes[:], self._ids[:] = places, sizes, ids
        bad = int(kernels.open_frames(words, self._places, self._sizes, self._ids, self._rows))
        if bad != kernels.OK:
            raise CorruptionError(
                f"the head of block {ids[bad]} is damaged: its checksum, id or length is not what was written"
            )
        bad = int(kernels.locate_pieces(words, self._places, self._columns, self._offsets, self._lengths))
        if bad != kernels.OK:
            column, leaf = divmod(bad, len(ids))
            raise CorruptionError(
                f"column {int(self._columns[column])} of block {ids[leaf]} is damaged: its checksum is not the one "
                "written"
            )
        rows: list[int] = self._rows.tolist()
        total = sum(rows)
        if rows != self._arranged:
            self._arrange(rows, total)
        remarks = decode_located(
            words,
            *self._flat,
            self._starts,
            self._stops,
            self._floats,
            self._widths,
            self._targets,
            self._views,
            self._remarks,
        )
        return None if remarks else ([whole[:total] for whole in self._wholes], rows)


class Selection:
    """Columns of numbers of a schema, given by their positions."""

    def __init__(self, columns: tuple[int, ...], types: Sequence[pa.DataType]) -> None:
        self.columns = columns
        self.types = tuple(types)
        # Types of Arrow are slow to compare.
        self._key = (columns, tuple(map(str, types)))

    def reader(self, leaves: int) -> LeafNumbers:
        """The calling thread's reader of these columns of so many leaves at a time."""
        readers = _kept.readers
        key = self._key, leaves
        reader = readers.get(key)
        if reader is None:
            if len(readers) >= _KEPT:
                readers.clear()
            reader = readers[key] = LeafNumbers(self.columns, self.types, leaves)
        return reader


class _Kept(threading.local):
    def __init__(self) -> None:
        self.readers: dict[tuple[tuple[tuple[int, ...], tuple[str, ...]], int], LeafNumbers] = {}


_kept = _Kept()
