"""Aggregates whose states are entries of trees: their lifts and merges are those of the index."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.contract import UNKNOWN, Fold, Value
from tidelog.expr.aggregates.builtin import plain
from tidelog.expr.values.vectors import made
from tidelog.index.aggregate import Aggregate, ColumnAggregate
from tidelog.index.entries import blank, from_batch
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.model.arrays import integer_column
from tidelog.storage.codec import Ints
from tidelog.storage.summary import HAS_BOUNDS, HAS_SUM

FUNCTIONS: Final = ("count", "sum", "min", "max", "avg")
"""What entries know of a column."""

_FLOAT32: Final = pa.float32().id
_EXACT_DOUBLE: Final = 2**53
"""Integers up to this one are doubles."""
_TOO_HIGH: Final = 10**38 >> 64
"""Upper words of integers that may have more than 38 digits."""


@final
class EntryFold(Fold):
    """One of :data:`FUNCTIONS` of a column, given by its position in a layout; without a column it counts rows.

    Its states are entries in which that column is filled. :data:`UNKNOWN` are bounds and sums that these do not have.
    """

    def __init__(self, layout: Layout, function: str, column: int | None, type: pa.DataType) -> None:
        self.column = column
        self._layout = layout
        self._function = function
        self._type = type
        self._columns: Ints = np.array([] if column is None else [column], np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return () if self.column is None else (self._layout.stored.names[self.column],)

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return self._type

    def start(self) -> States:
        """An entry of no rows."""
        return blank(self._layout, 1)

    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The entries of runs of rows."""
        return from_batch(self._layout, rows.select(self.columns), cuts, self._columns)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The entries of runs of entries."""
        merged = blank(self._layout, len(cuts) - 1)
        merge_all(self._layout, self._columns, np.ascontiguousarray(states), cuts[:-1], cuts[1:], merged)
        return merged

    def lower(self, states: States) -> list[Value]:
        """The values of entries."""
        if self.column is None:
            counts: list[Value] = states["rows"].tolist()
            return counts
        if pa.types.is_float64(self._layout.types[self.column]) or pa.types.is_integer(self._layout.types[self.column]):
            found = _Numbers(states, self.column, self._layout.types[self.column]).results(self._function)
            if found is not None:
                return found
        each = (states[index : index + 1] for index in range(len(states)))
        return [self.value(Aggregate(self._layout, self._columns, entry).at(self.column)) for entry in each]

    def told(self, states: States) -> pa.Array | None:
        """The values of entries as a column; None if one of them does not tell its value."""
        if self.column is None:
            return integer_column(np.ascontiguousarray(states["rows"]))
        found = _Numbers(states, self.column, self._layout.types[self.column]).column(self._function, self._type)
        if found is not None:
            return found
        values = self.lower(states)
        return None if UNKNOWN in values else pa.array(values, self._type)

    def value(self, column: ColumnAggregate) -> Value:
        """The value of what is known of the column: what :meth:`lower` says of one entry, and quicker for one."""
        function, nans = self._function, column.nans
        counted = column.values + nans
        if function == "count":
            return counted
        if not counted:
            return None
        if function in ("sum", "avg"):
            if not column.knows_sum:
                return UNKNOWN
            amount = math.nan if nans else column.total()
            if function == "sum":
                return self._result(amount, column.type)
            return float(amount / counted) if isinstance(amount, Decimal) else amount / counted
        if not column.knows_bounds:
            return UNKNOWN
        if nans and (function == "max" or nans == counted):  # NaN is greater than every number
            return math.nan
        return self._result(column.minimum() if function == "min" else column.maximum(), column.type)

    def _result(self, value: Any, column: pa.DataType) -> Value:
        """A bound or sum of a column as the Python value of a result."""
        if isinstance(value, float):
            return plain(pa.scalar(value, self._type)) if self._type.id == _FLOAT32 else value
        if pa.types.is_temporal(column):
            # The number is in the column's own unit, the result may be in another.
            ticks = pa.scalar(value, pa.int64() if column.bit_width == 64 else pa.int32())
            return plain(ticks.cast(column).cast(self._type))
        return value


@final
class _Numbers:
    """What entries know of a column of doubles or integers, an array for each thing."""

    def __init__(self, entries: States, column: int, type: pa.DataType) -> None:
        self._type = type
        self._words: npt.NDArray[np.void] = entries["columns"][:, column]
        self._nans: Ints = self._words["nans"].astype(np.int64)
        self._counted: Ints = entries["rows"] - self._words["nulls"].astype(np.int64)
        """Rows with a value, NaN included."""

    def results(self, function: str) -> list[Any] | None:
        """The results of an aggregate function as Python values; None if some are not known, or need a closer look."""
        values: list[Any] | None
        if function == "count":
            values = self._counted.tolist()
            return values
        needed = HAS_SUM if function in ("sum", "avg") else HAS_BOUNDS
        # Only values other than NaN have bounds and a sum.
        if ((self._counted > self._nans) & (self._words["flags"] & needed == 0)).any():
            return None
        is_float = pa.types.is_float64(self._type)
        if needed == HAS_SUM:
            values = self._doubles(self._words["sum"][:, 0], self._nans > 0) if is_float else self._sums()
            if values is not None and function == "avg":
                counted = self._counted.tolist()
                values = [value / count if count else None for value, count in zip(values, counted, strict=True)]
        else:
            bits = self._words[function]
            if is_float:  # NaN is greater than every number
                is_nan = self._nans > 0 if function == "max" else self._nans == self._counted
                values = self._doubles(bits, is_nan)
            else:
                values = (bits if pa.types.is_unsigned_integer(self._type) else bits.astype(np.int64)).tolist()
        if values is None or self._counted.all():
            return values
        return [value if count else None for value, count in zip(values, self._counted.tolist(), strict=True)]

    def column(self, function: str, result: pa.DataType) -> pa.Array | None:
        """The results as a column of a type; None if some are not known, or need a closer look."""
        type_ = self._type
        is_float = pa.types.is_float64(type_)
        is_whole = pa.types.is_integer(type_)
        is_instant = pa.types.is_timestamp(type_)
        if function == "count":
            return integer_column(self._counted)
        needed = HAS_SUM if function in ("sum", "avg") else HAS_BOUNDS
        if (
            not (is_float or is_whole or is_instant)
            or ((self._counted > self._nans) & (self._words["flags"] & needed == 0)).any()
        ):
            return None
        known = None if self._counted.all() else self._counted > 0
        if needed == HAS_BOUNDS:
            if result != type_:
                return None
            words = np.ascontiguousarray(self._words[function])
            if is_float:  # NaN is greater than every number
                is_nan = self._nans > 0 if function == "max" else self._nans == self._counted
                return made(np.where(is_nan, np.nan, words.view(np.float64)), known, type_)
            return made(words if pa.types.is_unsigned_integer(type_) else words.view(np.int64), known, type_)
        low, high = (np.ascontiguousarray(self._words["sum"][:, half]) for half in range(2))
        counted = np.maximum(self._counted, 1)
        if is_float:
            sums = np.where(self._nans > 0, np.nan, low.view(np.float64))
            with np.errstate(invalid="ignore"):
                return made(sums if function == "sum" else sums / counted, known, type_)
        if function == "avg":
            whole = low.view(np.int64)
            # Both are doubles exactly, and so their quotient is rounded once.
            if (high.view(np.int64) != whole >> 63).any() or (np.abs(whole) > _EXACT_DOUBLE).any():
                return None
            return made(whole / counted, known, pa.float64())
        if is_instant or (np.abs(high.view(np.int64)) >= _TOO_HIGH).any():
            return None
        nulls = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
        return pa.Array.from_buffers(result, len(low), [nulls, pa.py_buffer(np.stack([low, high], axis=1))])

    def _doubles(self, bits: npt.NDArray[np.uint64], is_nan: npt.NDArray[np.bool_]) -> list[Any]:
        found: list[Any] = np.where(is_nan, np.nan, np.ascontiguousarray(bits).view(np.float64)).tolist()
        return found

    def _sums(self) -> list[Any] | None:
        """Sums of 128 bits, if 64 are enough."""
        low, high = (np.ascontiguousarray(self._words["sum"][:, half]).view(np.int64) for half in range(2))
        if (low >> 63 != high).any():
            return None
        found: list[Any] = low.tolist()
        return found
