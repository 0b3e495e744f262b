"""How aggregates are computed: the state of one array, two states merged, and the result of a state.

Sums of integers and decimals are exact. Sums of floats are pairwise within an array and compensated (Neumaier) between
arrays. Variances are merged as Chan, Golub and LeVeque do, so nothing is lost to large means.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.functions.comparison import compare
from tidelog.expr.values import decimals
from tidelog.expr.values.types import HUGEINT, NULL, WIDEST_DECIMAL, is_decimal, is_float
from tidelog.expr.values.vectors import numbers

State = tuple[Any, ...]


class Accumulator(ABC):
    """One aggregate function over arrays of one type."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    @abstractmethod
    def start(self) -> State:
        """The state of no rows."""

    @abstractmethod
    def of(self, array: pa.Array) -> State:
        """The state of the rows of an array."""

    @abstractmethod
    def merge(self, earlier: State, later: State) -> State:
        """The state of the rows of both."""

    @abstractmethod
    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The aggregate, as ``type_``."""


class Count(Accumulator):
    """Rows that are not NULL."""

    def start(self) -> State:
        """Zero."""
        return (0,)

    def of(self, array: pa.Array) -> State:
        """How many rows of the array are not NULL."""
        return (len(array) - array.null_count,)

    def merge(self, earlier: State, later: State) -> State:
        """The sum of the counts."""
        return (earlier[0] + later[0],)

    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The count."""
        return pa.scalar(state[0], type_)


def exact_sum(values: Any) -> int:
    """The sum of 64-bit integers in unlimited precision: upper and lower halves are summed apart."""
    if values.dtype.itemsize < 8:
        return int(values.sum(dtype=np.int64))
    upper, lower = values >> 32, values & values.dtype.type(0xFFFFFFFF)
    return (int(upper.sum()) << 32) + int(lower.sum())


def _present(array: pa.Array) -> pa.Array:
    return array.drop_null() if array.null_count else array


def _unscaled_sum(array: pa.Array) -> int:
    """The sum of integers, booleans or unscaled decimals without nulls."""
    if len(array) == 0:
        return 0
    if pa.types.is_boolean(array.type):
        return int(array.true_count)
    if not is_decimal(array.type):
        return exact_sum(numbers(array))
    if decimals.is_narrow(array.type):
        return exact_sum(decimals.unscaled(array))
    words = np.frombuffer(array.buffers()[1], "<u8", 2 * len(array), 16 * array.offset)
    return (exact_sum(words[1::2].view(np.int64)) << 64) + exact_sum(words[::2])


def _two_sum(total: float, error: float, more: float) -> tuple[float, float]:
    """A compensated sum with one more number; Neumaier's variant."""
    result = total + more
    if not math.isfinite(result):
        return result, 0.0
    lost = (total - result) + more if abs(total) >= abs(more) else (more - result) + total
    return result, error + lost


class Sum(Accumulator):
    """Count and sum; the sum is an exact integer (unscaled, for decimals) or a float and its compensation."""

    def start(self) -> State:
        """Nothing."""
        return (0, 0.0, 0.0) if is_float(self.type) else (0, 0)

    def of(self, array: pa.Array) -> State:
        """The sum of the rows that are not NULL."""
        if self.type == NULL:
            return (0, 0)
        present = _present(array)
        if is_float(self.type):
            with np.errstate(all="ignore"):
                return (len(present), float(numbers(present).sum(dtype=np.float64)), 0.0)
        return (len(present), _unscaled_sum(present))

    def merge(self, earlier: State, later: State) -> State:
        """The sum of both."""
        count = earlier[0] + later[0]
        if not is_float(self.type):
            return (count, earlier[1] + later[1])
        total, error = _two_sum(earlier[1], earlier[2] + later[2], later[1])
        return (count, total, error)

    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The sum. Raises :class:`EvaluationError` if it has more than 38 digits."""
        if state[0] == 0:
            return pa.scalar(None, type_)
        if is_float(self.type):
            return pa.scalar(state[1] + state[2], type_)
        if abs(state[1]) >= 10**WIDEST_DECIMAL:
            raise EvaluationError("the sum has more than 38 digits; cast the argument to DOUBLE")
        return pa.scalar(Decimal(state[1]).scaleb(-type_.scale, decimals.EXACT), type_)


class Average(Sum):
    """The sum divided by the count, in double precision."""

    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The mean."""
        if state[0] == 0:
            return pa.scalar(None, type_)
        if is_float(self.type):
            return pa.scalar((state[1] + state[2]) / state[0], type_)
        scale = self.type.scale if is_decimal(self.type) else 0
        return pa.scalar(state[1] / (state[0] * 10**scale), type_)


class Extreme(Accumulator):
    """The smallest or largest value, in the order of comparisons: NaN is above everything."""

    operator = "<"

    def start(self) -> State:
        """No value yet."""
        return (None,)

    def of(self, array: pa.Array) -> State:
        """The extreme of the rows that are not NULL."""
        present = array if array.type == NULL else _present(array)
        if len(present) == 0 or present.type == NULL:
            return (None,)
        if is_float(self.type):
            return (pa.scalar(self._of_floats(numbers(present)), self.type),)
        bounds = pc.min_max(present)
        return (bounds["min" if self.operator == "<" else "max"],)

    def _of_floats(self, values: Any) -> Any:
        nan = np.isnan(values)
        if self.operator == ">":
            return values[0] if nan.all() else np.nan if nan.any() else values.max()
        return np.nan if nan.all() else np.nanmin(values)

    def merge(self, earlier: State, later: State) -> State:
        """The extreme of both."""
        if earlier[0] is None or later[0] is None:
            return later if earlier[0] is None else earlier
        is_time = pa.types.is_temporal(self.type)  # of which Python has no value for all
        other = pa.repeat(later[0], 1) if is_time else pa.array([later[0].as_py()], self.type)
        better = compare(self.operator, other, earlier[0])[0].as_py()
        return later if better else earlier

    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The extreme."""
        return pa.scalar(None, type_) if state[0] is None else state[0]


class Maximum(Extreme):
    """The largest value."""

    operator = ">"


class First(Accumulator):
    """The value of the first row, NULL or not."""

    def start(self) -> State:
        """No row yet."""
        return (None,)

    def of(self, array: pa.Array) -> State:
        """The first row of the array."""
        return (array[0],) if len(array) else (None,)

    def merge(self, earlier: State, later: State) -> State:
        """The earlier one, if there is one."""
        return later if earlier[0] is None else earlier

    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The value."""
        return pa.scalar(None, type_) if state[0] is None else state[0]


class Last(First):
    """The value of the last row, NULL or not."""

    def of(self, array: pa.Array) -> State:
        """The last row of the array."""
        return (array[len(array) - 1],) if len(array) else (None,)

    def merge(self, earlier: State, later: State) -> State:
        """The later one, if there is one."""
        return earlier if later[0] is None else later


class Variance(Accumulator):
    """Count, mean, and sum of squared distances from the mean."""

    spare = 1
    """How many rows fewer than there are the sum is divided by."""
    root = False

    def start(self) -> State:
        """Nothing."""
        return (0, 0.0, 0.0)

    def of(self, array: pa.Array) -> State:
        """The moments of the rows that are not NULL."""
        values = numbers(_present(array))
        if len(values) == 0:
            return self.start()
        with np.errstate(all="ignore"):
            mean = float(values.mean())
            distances = values - mean
            return (len(values), mean, float(np.dot(distances, distances)))

    def merge(self, earlier: State, later: State) -> State:
        """The moments of both together."""
        if earlier[0] == 0 or later[0] == 0:
            return later if earlier[0] == 0 else earlier
        count = earlier[0] + later[0]
        distance = later[1] - earlier[1]
        mean = earlier[1] + distance * (later[0] / count)
        squares = earlier[2] + later[2] + distance * distance * (earlier[0] * (later[0] / count))
        return (count, mean, squares)

    def result(self, state: State, type_: pa.DataType) -> pa.Scalar:
        """The variance or its root; NULL for too few rows."""
        count = state[0] - self.spare
        if count < 1 and not (self.spare == 0 and state[0] > 0):
            return pa.scalar(None, type_)
        variance = state[2] / count
        return pa.scalar(math.sqrt(variance) if self.root and variance >= 0 else variance, type_)


class PopulationVariance(Variance):
    """The mean squared distance from the mean."""

    spare = 0


class Deviation(Variance):
    """The root of the variance of a sample."""

    root = True


class PopulationDeviation(PopulationVariance):
    """The root of the variance of a population."""

    root = True


ACCUMULATORS: dict[str, Callable[[pa.DataType], Accumulator]] = {
    "count": Count,
    "sum": Sum,
    "avg": Average,
    "min": Extreme,
    "max": Maximum,
    "first": First,
    "last": Last,
    "var_samp": Variance,
    "var_pop": PopulationVariance,
    "stddev_samp": Deviation,
    "stddev_pop": PopulationDeviation,
}
"""The aggregate functions, from the type of the argument."""

__all__ = ["ACCUMULATORS", "HUGEINT", "Accumulator", "exact_sum"]
