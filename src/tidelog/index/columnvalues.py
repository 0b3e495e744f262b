"""Columns of rows as aggregates take them: NumPy arrays of values, without nulls or with a mask of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.summary.record import is_text

Mask = npt.NDArray[np.bool_]

_NUMBERS: dict[int, np.dtype[Any]] = {
    type.id: np.dtype(type.to_pandas_dtype())
    for type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    )
}
_TICKS: dict[int, np.dtype[Any]] = {32: np.dtype("<i4"), 64: np.dtype("<i8")}


_NO_ROWS: Final = pa.RecordBatch.from_arrays([], names=[])


def is_supported(type: pa.DataType) -> bool:
    """Whether aggregates can be computed of columns of a type."""
    numbers = pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_boolean(type)
    return numbers or (pa.types.is_temporal(type) and type.bit_width in _TICKS) or is_text(type)


class ColumnValues:
    """Columns of some rows by name, each converted when it is first asked for."""

    def __init__(self, rows: Rows, values: dict[str, Any] | None = None) -> None:
        """Of all rows. ``values`` has columns that are converted already."""
        self._rows = rows
        self._values: dict[str, Any] = {} if values is None else values
        self._masks: dict[tuple[str, ...], Mask | None] = {}

    @classmethod
    def of_numbers(cls, values: dict[str, Any]) -> ColumnValues:
        """Of columns without nulls, which are NumPy arrays."""
        return cls(_NO_ROWS, values)

    def present(self, names: tuple[str, ...]) -> Mask | None:
        """Which rows have values in all of some columns; None if all have."""
        if names not in self._masks:
            mask: Mask | None = None
            for name in names:
                column = None if self._rows is _NO_ROWS else self._column(name)
                if column is not None and column.null_count:
                    valid = np.asarray(column.is_valid())
                    mask = valid if mask is None else mask & valid
            self._masks[names] = mask
        return self._masks[names]

    def values(self, name: str, kept: Mask | None) -> Any:
        """The values of a column in some rows, all for None; those of rows with nulls are anything."""
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = self._read(name)
        if kept is None:
            return values
        return values.filter(pa.array(kept)) if isinstance(values, pa.Array) else values[kept]

    def masked(self, name: str) -> Any:
        """A column with its nulls masked."""
        mask = self.present((name,))
        values = self.values(name, None)
        return np.ma.MaskedArray(values, np.ma.nomask if mask is None else ~mask)

    def _column(self, name: str) -> pa.Array | None:
        """A column; None for sequence numbers that were not written down."""
        if isinstance(self._rows, NumberedRows):
            return None if name == SEQUENCE_COLUMN else self._rows.batch.column(name)
        return self._rows.column(name)

    def _read(self, name: str) -> Any:
        column = self._column(name)
        if column is None:
            assert isinstance(self._rows, NumberedRows)
            return np.arange(self._rows.first, self._rows.first + self._rows.num_rows, dtype=np.int64)
        return read_values(column)


def read_values(column: pa.Array) -> Any:
    """The values of a column, sharing its memory if that is possible; text stays an Arrow array."""
    type = column.type
    if is_text(type):
        return column
    if pa.types.is_boolean(type):
        return np.asarray(column.fill_null(False))
    dtype = _TICKS[type.bit_width] if pa.types.is_temporal(type) else _NUMBERS[type.id]
    if not len(column):
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)
