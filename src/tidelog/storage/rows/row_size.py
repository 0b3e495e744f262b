"""How many bytes rows take in memory, told without a look at most of their columns."""

from __future__ import annotations

import pyarrow as pa

from tidelog.storage.rows.numbered import NumberedRows
from tidelog.storage.rows.ordered import AnyRows, OrderedRows


class RowSize:
    """Sizes of rows of one schema. Asking Arrow for all columns takes as long as much of the work on a batch does."""

    def __init__(self, schema: pa.Schema) -> None:
        widths = [_bits(type) for type in schema.types]
        self._bits = sum(width for width in widths if width is not None)
        self._others = [index for index, width in enumerate(widths) if width is None]

    @property
    def fixed(self) -> int:
        """The bytes of the values of a row that have a fixed width, rounded up."""
        return -(-self._bits // 8)

    @property
    def is_fixed(self) -> bool:
        """Whether all rows take the same."""
        return not self._others

    def of(self, rows: AnyRows) -> int:
        """The bytes of all values, without the bits that tell nulls."""
        size: int = rows.num_rows * self._bits // 8
        if isinstance(rows, OrderedRows):
            assert self.is_fixed
            return size
        return size + self.of_long_values(rows.batch if isinstance(rows, NumberedRows) else rows)

    def of_long_values(self, batch: pa.RecordBatch) -> int:
        """The bytes of all values that have no fixed width."""
        return sum(batch.column(index).nbytes for index in self._others)


def _bits(type: pa.DataType) -> int | None:
    """The width of a value; None if they differ."""
    return type.bit_width if pa.types.is_primitive(type) or pa.types.is_fixed_size_binary(type) else None
