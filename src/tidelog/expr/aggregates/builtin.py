"""The aggregate functions of SQL, as aggregates with states like all others (:class:`tidelog.aggregates.Incremental`).

Their columns are Arrow arrays of SQL types, and their states may be objects: they are never stored. Sums of integers
and decimals are exact. Sums of floats are pairwise within a run and exact between states. Variances are those of
:class:`tidelog.aggregates.totals.Moments`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.aggregates import totals
from tidelog.aggregates.base import Column, Cuts, Incremental, States
from tidelog.aggregates.runs import largest, smallest, spread, sums
from tidelog.expr.errors import EvaluationError
from tidelog.expr.values import decimals
from tidelog.expr.values.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, NULL, WIDEST_DECIMAL, is_decimal, is_float
from tidelog.expr.values.types import is_integer as is_whole
from tidelog.expr.values.vectors import has_numbers, made, numbers
from tidelog.model.scalars import python_value

_OBJECTS = np.dtype(object)


class BuiltIn(Incremental):
    """One aggregate function of arrays of one SQL type."""

    is_ordered: ClassVar[bool] = False
    """Whether states are merged in the order of their rows only."""
    nothing: ClassVar[Any] = None
    """The value without rows."""
    state = _OBJECTS

    def result_type(self) -> pa.DataType:
        """The type of values: that of the column."""
        return self.types[0]


class Count(BuiltIn):
    """Rows that are not NULL; without a column all rows."""

    nothing = 0
    state = np.dtype("<i8")

    def result_type(self) -> pa.DataType:
        """BIGINT."""
        return BIGINT

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The lengths of runs."""
        return np.diff(cuts)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sums of lengths."""
        return sums(states, cuts)

    def eval(self, state: Any) -> Any:
        """The count."""
        return int(state)


_FLOAT_SUM = np.dtype([("total", "<f8"), ("error", "<f8")])


class Sum(BuiltIn):
    """The sum: an exact integer (unscaled, for decimals), or a float and what it lacks."""

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._is_float = is_float(types[0])
        self.state = _FLOAT_SUM if self._is_float else _OBJECTS

    def result_type(self) -> pa.DataType:
        """DOUBLE, HUGEINT, or the widest decimal of the same scale."""
        type_ = self.types[0]
        if self._is_float:
            return DOUBLE
        return HUGEINT if is_whole(type_) or type_ in (BOOLEAN, NULL) else pa.decimal128(38, type_.scale)

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The sums of runs."""
        array = columns[0]
        if not self._is_float:
            return _objects(_unscaled_sums(array, cuts))
        states = np.zeros(len(cuts) - 1, self.state)
        states["total"] = sums(numbers(array).astype(np.float64, copy=False), cuts)
        return states

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sums of sums."""
        if not self._is_float:
            return np.add.reduceat(states, cuts[:-1])
        merged = np.empty(len(cuts) - 1, self.state)
        totals, errors = states["total"].tolist(), states["error"].tolist()
        for run, (first, last) in enumerate(pairwise(cuts.tolist())):
            merged[run] = _exact_sum([*totals[first:last], *errors[first:last]])
        return merged

    def eval(self, state: Any) -> Any:
        """The sum. Raises :class:`EvaluationError` if it has more than 38 digits."""
        if self._is_float:
            return float(state["total"] + state["error"])
        if abs(state) >= 10**WIDEST_DECIMAL:
            raise EvaluationError("the sum has more than 38 digits; cast the argument to DOUBLE")
        scale = self.result_type().scale
        return Decimal(state).scaleb(-scale, decimals.EXACT) if scale else state


class Average(BuiltIn):
    """The sum divided by the count, in double precision."""

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._sum = Sum(types)
        self.state = np.dtype([("rows", "<i8"), ("sum", self._sum.state)])

    def result_type(self) -> pa.DataType:
        """DOUBLE."""
        return DOUBLE

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The lengths and sums of runs."""
        return self._beside(np.diff(cuts), self._sum.init(columns, cuts))

    def merge(self, states: States, cuts: Cuts) -> States:
        """The lengths and sums of states."""
        return self._beside(sums(states["rows"], cuts), self._sum.merge(states["sum"], cuts))

    def _beside(self, rows: States, totals: States) -> States:
        states = np.empty(len(rows), self.state)
        states["rows"], states["sum"] = rows, totals
        return states

    def eval(self, state: Any) -> Any:
        """The mean."""
        rows, total = int(state["rows"]), state["sum"]
        if is_float(self.types[0]):
            return float(total["total"] + total["error"]) / rows
        scale = self.types[0].scale if is_decimal(self.types[0]) else 0
        return total / (rows * 10**scale)


class Minimum(BuiltIn):
    """The smallest value, in the order of comparisons: NaN is above everything."""

    largest = False

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._has_numbers = has_numbers(types[0])
        if self._has_numbers:
            self.state = numbers(pa.nulls(0, types[0])).dtype  # a list would have Arrow look for pandas

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The extremes of runs."""
        array = columns[0]
        if self._has_numbers:
            return self._extremes(numbers(array), cuts)
        if len(cuts) == 2:
            return _objects([pc.min_max(array)["max" if self.largest else "min"].as_py()])
        rows = pa.table([pa.array(spread(np.arange(len(cuts) - 1), cuts)), array], ["run", "value"])
        order = np.asarray(pc.sort_indices(rows, [("run", "ascending"), ("value", "ascending")]))
        return _objects(array.take(pa.array(order[cuts[1:] - 1 if self.largest else cuts[:-1]])).to_pylist())

    def merge(self, states: States, cuts: Cuts) -> States:
        """The extremes of states."""
        if self._has_numbers:
            return self._extremes(states, cuts)
        choose = max if self.largest else min
        return _objects([choose(states[first:last].tolist()) for first, last in pairwise(cuts.tolist())])

    def _extremes(self, values: States, cuts: Cuts) -> States:
        return (largest if self.largest else smallest)(values, cuts)

    def eval(self, state: Any) -> Any:
        """The extreme."""
        if self._has_numbers:
            return plain(made(np.array([state]), None, self.types[0])[0])
        return _whole(state, self.types[0])


class Maximum(Minimum):
    """The largest value."""

    largest = True


class First(BuiltIn):
    """The value of the first row, NULL or not."""

    is_ordered = True
    sees_nulls = True
    last = False

    def _ends(self, cuts: Cuts) -> Cuts:
        return cuts[1:] - 1 if self.last else cuts[:-1]

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The values at the ends of runs."""
        return _objects([columns[0][row] for row in self._ends(cuts).tolist()])

    def merge(self, states: States, cuts: Cuts) -> States:
        """The states at the ends of runs."""
        found: States = states[self._ends(cuts)]
        return found

    def eval(self, state: Any) -> Any:
        """The value."""
        return plain(state)


class Last(First):
    """The value of the last row, NULL or not."""

    last = True


class Variance(BuiltIn):
    """The variance of a sample of doubles."""

    kind: ClassVar[type[totals.Variance]] = totals.SampleVariance
    state = totals.Moments.state

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._moments, self._variance = totals.Moments(types), self.kind(types)

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The moments of runs."""
        return self._moments.init([numbers(columns[0])], cuts)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The moments of states."""
        return self._moments.merge(states, cuts)

    def eval(self, state: Any) -> Any:
        """The variance; None for too few rows."""
        return self._variance.eval(self._moments.eval(state))


class PopulationVariance(Variance):
    """The variance of all."""

    kind = totals.PopulationVariance


class Deviation(Variance):
    """The standard deviation of a sample."""

    kind = totals.SampleDeviation


class PopulationDeviation(Variance):
    """The standard deviation of all."""

    kind = totals.PopulationDeviation


BUILT_IN: dict[str, Callable[[Sequence[pa.DataType]], BuiltIn]] = {
    "count": Count,
    "sum": Sum,
    "avg": Average,
    "min": Minimum,
    "max": Maximum,
    "first": First,
    "last": Last,
    "var_samp": Variance,
    "var_pop": PopulationVariance,
    "stddev_samp": Deviation,
    "stddev_pop": PopulationDeviation,
}
"""The aggregate functions, from the types of their arguments."""

ALIASES: dict[str, str] = {"mean": "avg", "variance": "var_samp", "stddev": "stddev_samp"}
"""Other names of aggregate functions."""


def plain(scalar: pa.Scalar) -> Any:
    """A value as Python's; decimals without a fraction, which are integers to SQL, are integers."""
    return _whole(python_value(scalar), scalar.type)


def _whole(value: Any, type_: pa.DataType) -> Any:
    return int(value) if isinstance(value, Decimal) and type_.scale == 0 else value


def _objects(values: Sequence[Any]) -> States:
    found = np.empty(len(values), _OBJECTS)
    found[:] = values
    return found


def _unscaled_sums(array: pa.Array, cuts: Cuts) -> list[int]:
    """The sums of runs of integers, booleans or unscaled decimals without nulls."""
    if not is_decimal(array.type):
        return _exact_sums(numbers(array), cuts)
    if decimals.is_narrow(array.type):
        return _exact_sums(decimals.unscaled(array), cuts)
    words = np.frombuffer(array.buffers()[1], "<u8", 2 * len(array), 16 * array.offset)
    upper, lower = _exact_sums(words[1::2].view(np.int64), cuts), _exact_sums(words[::2], cuts)
    return [(high << 64) + low for high, low in zip(upper, lower, strict=True)]


def _exact_sums(values: Any, cuts: Cuts) -> list[int]:
    """The sums of runs of integers in unlimited precision: upper and lower halves of 64 bits are summed apart."""
    if values.dtype.itemsize < 8:
        narrow: list[int] = np.add.reduceat(values, cuts[:-1], dtype=np.int64).tolist()
        return narrow
    upper, lower = (np.add.reduceat(half, cuts[:-1]).tolist() for half in (values >> 32, values & 0xFFFFFFFF))
    return [(high << 32) + low for high, low in zip(upper, lower, strict=True)]


def _exact_sum(parts: list[float]) -> tuple[float, float]:
    """The sum of doubles, rounded once, and what was lost by that."""
    try:
        total = math.fsum(parts)
    except (OverflowError, ValueError):  # too large, or infinities of both signs
        with np.errstate(all="ignore"):
            return float(np.sum(parts)), 0.0
    return total, math.fsum([*parts, -total]) if math.isfinite(total) else 0.0
