"""Rows whose numbers need not be in memory to be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_COUNT: Final = np.arange(1 << 16, dtype=np.int64)


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

    def put_numbers(self, target: npt.NDArray[Any]) -> None:
        """Write the numbers of all rows into memory for so many 64-bit words."""
        numbers = target.view(np.int64)
        for start in range(0, self.num_rows, len(_COUNT)):
            part = numbers[start : start + len(_COUNT)]
            np.add(_COUNT[: len(part)], self.first + start, out=part)


Rows = pa.RecordBatch | NumberedRows
"""Rows to be stored."""
