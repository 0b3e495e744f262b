"""Rows whose numbers need not be in memory to be stored."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class NumberedRows:
    """Rows of a schema whose last column, 64-bit integers, counts up by one from ``first`` on.

    ``batch`` has the other columns. Stored they are like any rows; there is no difference on disk.
    """

    batch: pa.RecordBatch
    first: int

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns that are there."""
        return self.batch.schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        rows: int = self.batch.num_rows
        return rows

    def slice(self, start: int, length: int | None = None) -> NumberedRows:
        """Rows ``start`` to ``start + length`` (exclusive), as far as there are any; all of the rest for None."""
        return NumberedRows(self.batch.slice(start, length), self.first + min(start, self.num_rows))


Rows = pa.RecordBatch | NumberedRows
"""Rows to be stored."""
