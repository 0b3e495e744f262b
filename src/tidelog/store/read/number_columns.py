"""Results of a column of numbers for many entries at once: what :mod:`tidelog.store.read.entry_aggregates` says of
each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.entries import Entries
from tidelog.storage.codec import Ints
from tidelog.storage.summary import HAS_BOUNDS, HAS_SUM


@final
@dataclass(frozen=True, slots=True)
class NumberColumn:
    """What entries know of a column of doubles or integers, an array for each thing."""

    type: pa.DataType
    counted: Ints
    """Rows with a value, NaN included."""
    nans: Ints
    flags: npt.NDArray[np.uint32]
    words: npt.NDArray[np.void]
    """Records :data:`tidelog.index.entries.AGGREGATE`."""

    @classmethod
    def of(cls, entries: Entries, index: int, type: pa.DataType) -> Self | None:
        """The column at a position; None if it is of another type."""
        if not (pa.types.is_float64(type) or pa.types.is_integer(type)):
            return None
        words = entries["columns"][:, index]
        counted = entries["rows"] - words["nulls"].astype(np.int64)
        return cls(type, counted, words["nans"].astype(np.int64), words["flags"], words)

    def results(self, function: str) -> list[Any] | None:
        """The results of an aggregate function as Python values; None if some are not known, or need a closer look."""
        values: list[Any] | None
        if function == "count":
            values = self.counted.tolist()
            return values
        needed = HAS_SUM if function in ("sum", "avg") else HAS_BOUNDS
        # Only values other than NaN have bounds and a sum.
        if ((self.counted > self.nans) & (self.flags & needed == 0)).any():
            return None
        is_float = pa.types.is_float64(self.type)
        if needed == HAS_SUM:
            values = self._doubles(self.words["sum"][:, 0], self.nans > 0) if is_float else self._sums()
            if values is not None and function == "avg":
                counted = self.counted.tolist()
                values = [value / count if count else None for value, count in zip(values, counted, strict=True)]
        else:
            bits = self.words[function]
            if is_float:  # NaN is greater than every number
                is_nan = self.nans > 0 if function == "max" else self.nans == self.counted
                values = self._doubles(bits, is_nan)
            else:
                values = (bits if pa.types.is_unsigned_integer(self.type) else bits.astype(np.int64)).tolist()
        if values is None or self.counted.all():
            return values
        return [value if count else None for value, count in zip(values, self.counted.tolist(), strict=True)]

    def _doubles(self, bits: npt.NDArray[np.uint64], is_nan: npt.NDArray[np.bool_]) -> list[Any]:
        found: list[Any] = np.where(is_nan, np.nan, np.ascontiguousarray(bits).view(np.float64)).tolist()
        return found

    def _sums(self) -> list[Any] | None:
        """Sums of 128 bits, if 64 are enough."""
        low, high = (np.ascontiguousarray(self.words["sum"][:, half]).view(np.int64) for half in range(2))
        if (low >> 63 != high).any():
            return None
        found: list[Any] = low.tolist()
        return found
