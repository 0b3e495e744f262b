"""The numbers of a single leaf, decoded into memory that is used again.

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
    """Decodes some columns, given by their positions and types, of one leaf after the other. For one thread."""

    def __init__(self, columns: tuple[int, ...], types: Sequence[pa.DataType]) -> None:
        shapes = [column_of(type) for type in types]
        count = len(columns)
        self._columns = np.array(columns, np.int64)
        self._dtypes = [
            np.dtype(f"<{'f' if shape.floats else 'i' if shape.signed else 'u'}{shape.width}") for shape in shapes
        ]
        self._floats = np.array([shape.floats for shape in shapes], np.uint8)
        self._widths = np.array([shape.width for shape in shapes], np.int64)
        self._zero, self._length, self._id, self._rows = (np.zeros(1, np.int64) for _ in range(4))
        self._offsets, self._lengths = np.zeros((count, 1), np.int64), np.zeros((count, 1), np.int64)
        self._flat = self._offsets.ravel(), self._lengths.ravel()
        self._starts, self._stops = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._remarks = np.empty(count, np.uint8)
        self._capacity = 0

    def _make_room(self, rows: int) -> None:
        self._capacity = rows
        memory = np.empty(8 * rows * len(self._columns), np.uint8)
        self._targets = np.arange(len(self._columns), dtype=np.int64) * (8 * rows)
        self._memory = memory
        self._views = {word: memory.view(DTYPES[word]) for word in (1, 2, 4, 8)}
        self._wholes = [
            memory[start : start + dtype.itemsize * rows].view(dtype)
            for start, dtype in zip(self._targets.tolist(), self._dtypes, strict=True)
        ]

    @property
    def stored_bytes(self) -> int:
        """What the columns that were read last take in the file."""
        return int(self._lengths.sum())

    def read(self, frame: npt.NDArray[np.uint64], id: int) -> Numbers | None:
        """The columns of the leaf whose frame this is, valid until the next call; None if they have nulls, or an
        encoding that only Arrow arrays are made of.

        Raises :class:`CorruptionError` if head or columns are not as they were written.
        """
        self._length[0], self._id[0] = 8 * len(frame), id
        if kernels.open_frames(frame, self._zero, self._length, self._id, self._rows) != kernels.OK:
            raise CorruptionError(
                f"the head of block {id} is damaged: its checksum, id or length is not what was written"
            )
        bad = int(kernels.locate_pieces(frame, self._zero, self._columns, self._offsets, self._lengths))
        if bad != kernels.OK:
            raise CorruptionError(
                f"column {int(self._columns[bad])} of block {id} is damaged: its checksum is not the one written"
            )
        rows = int(self._rows[0])
        if rows > self._capacity:
            self._make_room(rows)
        self._stops[:] = rows
        remarks = decode_located(
            frame,
            *self._flat,
            self._starts,
            self._stops,
            self._floats,
            self._widths,
            self._targets,
            self._views,
            self._remarks,
        )
        if remarks:
            return None
        return [whole[:rows] for whole in self._wholes]


class _Kept(threading.local):
    def __init__(self) -> None:
        self.readers: dict[tuple[tuple[int, ...], tuple[pa.DataType, ...]], LeafNumbers] = {}


_kept = _Kept()


def leaf_numbers(columns: tuple[int, ...], types: tuple[pa.DataType, ...]) -> LeafNumbers:
    """The calling thread's reader of these columns."""
    key = columns, types
    reader = _kept.readers.get(key)
    if reader is None:
        if len(_kept.readers) >= _KEPT:
            _kept.readers.clear()
        reader = _kept.readers[key] = LeafNumbers(columns, types)
    return reader
