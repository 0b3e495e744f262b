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
from tidelog.expr.aggregates import kernels
from tidelog.expr.errors import EvaluationError
from tidelog.expr.values import decimals
from tidelog.expr.values.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DOUBLE,
    HUGEINT,
    NULL,
    VARCHAR,
    WIDEST_DECIMAL,
    is_decimal,
    is_float,
)
from tidelog.expr.values.types import is_integer as is_whole
from tidelog.expr.values.vectors import Mask, has_numbers, made, numbers, valid_rows
from tidelog.model.arrays import integer_column
from tidelog.model.scalars import python_value

_OBJECTS = np.dtype(object)
_EXACT_DOUBLE = 2**53
"""Integers up to this one are doubles."""
_TOO_HIGH = 10**WIDEST_DECIMAL >> 64
"""Upper words of integers that may have more than 38 digits."""


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

    def plus(self, states: States, others: States) -> States:
        """Pairs of states merged, the rows of the second ones behind those of the first."""
        pairs = np.stack([states, others], axis=1).reshape(-1)
        return self.merge(pairs, np.arange(len(states) + 1, dtype=np.int64) * 2)

    def told(self, rows: int, value: Any) -> States:
        """The state of so many rows, which are not none, whose aggregate is known from elsewhere."""
        return self.init([pa.array([value], self.types[0])], np.array([0, 1], np.int64))

    def scan(self, rows: Cuts, states: States, cuts: Cuts, backward: bool) -> States | None:
        """Running merges of runs of states, those of no rows passed over; None if there is no kernel for these.

        See :meth:`tidelog.aggregates.contract.Fold.scan`.
        """
        return None

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The values of states as a column, :attr:`nothing` where none is known; None if that is done one by one."""
        return None

    @property
    def arrow(self) -> tuple[pa.DataType, ...]:
        """The types of columns that states which are objects are kept in."""
        return self.types[:1]

    def to_arrow(self, states: States, known: Mask) -> list[pa.Array]:
        """States that are objects as columns."""
        return [pa.array(np.ascontiguousarray(states), *self.arrow, mask=None if known.all() else ~known)]

    def from_arrow(self, columns: Sequence[pa.Array]) -> States:
        """The states that :meth:`to_arrow` gave as columns."""
        return _objects(columns[0].to_pylist())


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

    def told(self, rows: int, value: Any) -> States:
        """Their number."""
        return np.array([rows], np.int64)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sums of lengths."""
        return sums(states, cuts)

    def plus(self, states: States, others: States) -> States:
        """The sums of lengths."""
        found: States = states + others
        return found

    def scan(self, rows: Cuts, states: States, cuts: Cuts, backward: bool) -> States | None:
        """Running counts."""
        return running_counts(np.ascontiguousarray(states), cuts, backward)

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The counts."""
        return integer_column(states)

    def eval(self, state: Any) -> Any:
        """The count."""
        return int(state)


_FLOAT_SUM = np.dtype([("total", "<f8"), ("error", "<f8")])
_WORDS = np.dtype([("low", "<u8"), ("high", "<i8")])
"""An integer of 128 bits, as Arrow has decimals in memory."""
_HALF = np.uint64(0xFFFF_FFFF)
_WORD = (1 << 64) - 1


class Sum(BuiltIn):
    """The sum: an exact integer (unscaled, for decimals), or a float and what it lacks."""

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._is_float = is_float(types[0])
        # Of integers and short decimals there are not enough rows for more than 128 bits.
        self._is_wide = is_decimal(types[0]) and not decimals.is_narrow(types[0])
        self.state = _FLOAT_SUM if self._is_float else _OBJECTS if self._is_wide else _WORDS

    def result_type(self) -> pa.DataType:
        """DOUBLE, HUGEINT, or the widest decimal of the same scale."""
        type_ = self.types[0]
        if self._is_float:
            return DOUBLE
        return HUGEINT if is_whole(type_) or type_ in (BOOLEAN, NULL) else pa.decimal128(38, type_.scale)

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The sums of runs."""
        array = columns[0]
        if self._is_wide:
            return _objects(_wide_sums(array, cuts))
        if not self._is_float:
            return _word_sums(decimals.unscaled(array) if is_decimal(array.type) else numbers(array), cuts)
        states = np.zeros(len(cuts) - 1, self.state)
        states["total"] = sums(numbers(array).astype(np.float64, copy=False), cuts)
        return states

    def told(self, rows: int, value: Any) -> States:
        """The sum as it is; of decimals it is unscaled."""
        if self._is_wide:
            return _objects([value])
        return np.array([(value, 0.0) if self._is_float else (value & _WORD, value >> 64)], self.state)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sums of sums."""
        if self._is_wide:
            return np.add.reduceat(states, cuts[:-1])
        if not self._is_float:
            low = _word_sums(states["low"], cuts)
            low["high"] += np.add.reduceat(states["high"], cuts[:-1])
            return low
        merged = np.empty(len(cuts) - 1, self.state)
        totals, errors = states["total"].tolist(), states["error"].tolist()
        for run, (first, last) in enumerate(pairwise(cuts.tolist())):
            merged[run] = _exact_sum([*totals[first:last], *errors[first:last]])
        return merged

    def plus(self, states: States, others: States) -> States:
        """The sums of pairs."""
        if self._is_wide:
            whole: States = states + others
            return whole
        found = np.empty(len(states), self.state)
        if not self._is_float:
            found["low"] = states["low"] + others["low"]
            found["high"] = states["high"] + others["high"] + (found["low"] < states["low"])
            return found
        one, two = states["total"], others["total"]
        with np.errstate(over="ignore", invalid="ignore"):
            found["total"] = total = one + two
            # What rounding has lost, exactly (Knuth); nothing where the sum is not finite.
            back = total - one
            lost = (one - (total - back)) + (two - back)
            found["error"] = np.where(np.isfinite(total), states["error"] + others["error"] + lost, 0.0)
        return found

    def scan(self, rows: Cuts, states: States, cuts: Cuts, backward: bool) -> States | None:
        """Running sums."""
        if self._is_wide:
            return None
        found = np.empty(len(states), self.state)
        names = self.state.names
        assert names is not None
        one, two = (np.ascontiguousarray(states[name]) for name in names)
        first, second = np.empty_like(one), np.empty_like(two)
        if self._is_float:
            kernels.scan_floats(rows, one, two, cuts, backward, first, second)
        else:
            kernels.scan_words(one, two, cuts, backward, first, second)
        found[names[0]], found[names[1]] = first, second
        return found

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The sums. Raises :class:`EvaluationError` if one has more than 38 digits."""
        if self._is_wide:
            return None
        if self._is_float:
            with np.errstate(invalid="ignore"):
                return made(states["total"] + states["error"], known, DOUBLE)
        if (np.abs(states["high"]) >= _TOO_HIGH).any():
            return None  # looked at one by one
        nulls = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
        words = pa.py_buffer(np.ascontiguousarray(states).tobytes())
        return pa.Array.from_buffers(self.result_type(), len(states), [nulls, words])

    def eval(self, state: Any) -> Any:
        """The sum. Raises :class:`EvaluationError` if it has more than 38 digits."""
        if self._is_float:
            return float(state["total"] + state["error"])
        whole = self.whole(state)
        if abs(whole) >= 10**WIDEST_DECIMAL:
            raise EvaluationError("the sum has more than 38 digits; cast the argument to DOUBLE")
        scale = self.result_type().scale
        return Decimal(whole).scaleb(-scale, decimals.EXACT) if scale else whole

    def whole(self, state: Any) -> int:
        """The sum of integers, or of unscaled decimals."""
        return state if self._is_wide else (int(state["high"]) << 64) + int(state["low"])

    @property
    def arrow(self) -> tuple[pa.DataType, ...]:
        """Sums of more than 64 bits are kept as texts."""
        return (pa.string(),)

    def to_arrow(self, states: States, known: Mask) -> list[pa.Array]:
        """Sums as texts."""
        return [pa.array([str(state) for state in states], pa.string())]

    def from_arrow(self, columns: Sequence[pa.Array]) -> States:
        """Texts as sums."""
        return _objects([int(text) for text in columns[0].to_pylist()])


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

    def told(self, rows: int, value: Any) -> States:
        """Their number, and the sum, of which the mean is made."""
        return self._beside(np.array([rows], np.int64), self._sum.told(rows, value))

    def merge(self, states: States, cuts: Cuts) -> States:
        """The lengths and sums of states."""
        return self._beside(sums(states["rows"], cuts), self._sum.merge(states["sum"], cuts))

    def plus(self, states: States, others: States) -> States:
        """The lengths and sums of pairs."""
        return self._beside(states["rows"] + others["rows"], self._sum.plus(states["sum"], others["sum"]))

    def scan(self, rows: Cuts, states: States, cuts: Cuts, backward: bool) -> States | None:
        """Running lengths and sums."""
        totals = self._sum.scan(rows, states["sum"], cuts, backward)
        return None if totals is None else self._beside(running_counts(rows, cuts, backward), totals)

    def _beside(self, rows: States, totals: States) -> States:
        states = np.empty(len(rows), self.state)
        states["rows"], states["sum"] = rows, totals
        return states

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The means."""
        totals = states["sum"]
        if not is_float(self.types[0]):
            whole = None if self._sum.state != _WORDS or is_decimal(self.types[0]) else totals["low"].astype(np.int64)
            # Both are doubles exactly, and so their quotient is rounded once; others are divided one by one.
            if whole is None or (totals["high"] != whole >> 63).any() or (np.abs(whole) > _EXACT_DOUBLE).any():
                return None
            return made(whole / np.maximum(states["rows"], 1), known, DOUBLE)
        with np.errstate(invalid="ignore"):
            return made((totals["total"] + totals["error"]) / np.maximum(states["rows"], 1), known, DOUBLE)

    def eval(self, state: Any) -> Any:
        """The mean."""
        rows, total = int(state["rows"]), state["sum"]
        if is_float(self.types[0]):
            return float(total["total"] + total["error"]) / rows
        scale = self.types[0].scale if is_decimal(self.types[0]) else 0
        return self._sum.whole(total) / (rows * 10**scale)

    @property
    def arrow(self) -> tuple[pa.DataType, ...]:
        """The number of rows, and the sum."""
        return (pa.int64(), *self._sum.arrow)

    def to_arrow(self, states: States, known: Mask) -> list[pa.Array]:
        """Numbers of rows, and sums."""
        return [pa.array(states["rows"], pa.int64()), *self._sum.to_arrow(states["sum"], known)]

    def from_arrow(self, columns: Sequence[pa.Array]) -> States:
        """Numbers of rows and sums as states."""
        return self._beside(np.asarray(columns[0]), self._sum.from_arrow(columns[1:]))


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
        if array.type in (VARCHAR, BLOB):
            data, offsets = _text_memory(array)
            places = np.empty(len(cuts) - 1, np.int64)
            kernels.find_extreme_texts(data, offsets, cuts, self.largest, places)
            return _values_at(array, places)
        rows = pa.table([pa.array(spread(np.arange(len(cuts) - 1), cuts)), array], ["run", "value"])
        order = np.asarray(pc.sort_indices(rows, [("run", "ascending"), ("value", "ascending")]))
        return _values_at(array, order[cuts[1:] - 1 if self.largest else cuts[:-1]].astype(np.int64))

    def merge(self, states: States, cuts: Cuts) -> States:
        """The extremes of states."""
        if self._has_numbers:
            return self._extremes(states, cuts)
        return (np.maximum if self.largest else np.minimum).reduceat(states, cuts[:-1])

    def _extremes(self, values: States, cuts: Cuts) -> States:
        return (largest if self.largest else smallest)(values, cuts)

    def plus(self, states: States, others: States) -> States:
        """The extremes of pairs."""
        smaller = np.fmin if self._has_numbers else np.minimum
        found: States = (np.maximum if self.largest else smaller)(states, others)
        return found

    def scan(self, rows: Cuts, states: States, cuts: Cuts, backward: bool) -> States | None:
        """Running extremes, of 64 bits, which hold all others but large integers without a sign."""
        kind = self.state.kind
        if not self._has_numbers or self.state == np.uint64 or kind not in "iuf":
            return None
        wide = states.astype(np.float64 if kind == "f" else np.int64)
        out = np.empty_like(wide)
        scan = kernels.scan_float_extremes if kind == "f" else kernels.scan_integer_extremes
        scan(rows, wide, cuts, backward, self.largest, out)
        return out.astype(self.state, copy=False)

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The extremes."""
        return made(states, known, self.types[0]) if self._has_numbers else self.to_arrow(states, known)[0]

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

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._has_numbers = has_numbers(types[0])
        if self._has_numbers:
            self.state = np.dtype([("value", numbers(pa.nulls(0, types[0])).dtype), ("is_null", np.bool_)])

    def _ends(self, cuts: Cuts) -> Cuts:
        return cuts[1:] - 1 if self.last else cuts[:-1]

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The values at the ends of runs."""
        array, ends = columns[0], self._ends(cuts)
        if not self._has_numbers:
            return _values_at(array, ends)
        found = np.empty(len(ends), self.state)
        valid = valid_rows(array)
        found["value"], found["is_null"] = numbers(array)[ends], False if valid is None else ~valid[ends]
        return found

    def merge(self, states: States, cuts: Cuts) -> States:
        """The states at the ends of runs."""
        found: States = states[self._ends(cuts)]
        return found

    def plus(self, states: States, others: States) -> States:
        """The first or the second of pairs."""
        return others if self.last else states

    def scan(self, rows: Cuts, states: States, cuts: Cuts, backward: bool) -> States | None:
        """The states at the ends of what is merged."""
        places = np.empty(len(states), np.int64)
        kernels.scan_places(rows, cuts, backward, self.last != backward, places)
        found: States = states[places]
        return found

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The values."""
        if self._has_numbers:
            return made(states["value"], known & ~states["is_null"], self.types[0])
        return self.to_arrow(states, known)[0]

    def eval(self, state: Any) -> Any:
        """The value."""
        if not self._has_numbers:
            return _whole(state, self.types[0])
        if state["is_null"]:
            return None
        return plain(made(np.array([state["value"]]), None, self.types[0])[0])


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

    def column(self, states: States, known: Mask) -> pa.Array | None:
        """The variances."""
        divisors = states["n"] - self._variance.spare
        with np.errstate(invalid="ignore"):
            found = states["m2"] / np.maximum(divisors, 1)
            if self._variance.root:
                found = np.where(found >= 0, np.sqrt(np.abs(found)), found)
        return made(found, known & (divisors >= 1), DOUBLE)

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


def running_counts(rows: Cuts, cuts: Cuts, backward: bool) -> Cuts:
    """Running sums of numbers of rows."""
    out = np.empty(len(rows), np.int64)
    kernels.scan_counts(rows, cuts, backward, out)
    return out


def plain(scalar: pa.Scalar) -> Any:
    """A value as Python's; decimals without a fraction, which are integers to SQL, are integers."""
    return _whole(python_value(scalar), scalar.type)


def _whole(value: Any, type_: pa.DataType) -> Any:
    return int(value) if isinstance(value, Decimal) and type_.scale == 0 else value


def _values_at(array: pa.Array, places: Cuts) -> States:
    """Values of an array as objects of Python's; None for nulls."""
    return np.asarray(array.take(integer_column(places)).to_numpy(zero_copy_only=False), _OBJECTS)


def _text_memory(array: pa.Array) -> tuple[Any, Any]:
    """The bytes of texts, and where they begin and the last one ends."""
    _, offsets, content = array.buffers()
    data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return data, np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)


def _objects(values: Sequence[Any]) -> States:
    found = np.empty(len(values), _OBJECTS)
    found[:] = values
    return found


def _wide_sums(array: pa.Array, cuts: Cuts) -> list[int]:
    """The sums of runs of unscaled decimals of 128 bits, without nulls, in unlimited precision."""
    words = np.frombuffer(array.buffers()[1], "<u8", 2 * len(array), 16 * array.offset)
    upper, lower = _word_sums(words[1::2].view(np.int64), cuts), _word_sums(words[::2], cuts)
    return [(_integer(high) << 64) + _integer(low) for high, low in zip(upper, lower, strict=True)]


def _integer(words: Any) -> int:
    return (int(words["high"]) << 64) + int(words["low"])


def _word_sums(values: Any, cuts: Cuts) -> States:
    """The sums of runs of integers of up to 64 bits, exact: upper and lower halves of 64 bits are summed apart."""
    found = np.empty(len(cuts) - 1, _WORDS)
    if values.dtype.itemsize < 8:
        total = np.add.reduceat(values, cuts[:-1], dtype=np.int64)
        found["low"], found["high"] = total.view(np.uint64), total >> 63
        return found
    upper = np.add.reduceat(values >> 32, cuts[:-1]).view(np.int64)
    lower = np.add.reduceat(values & values.dtype.type(_HALF), cuts[:-1]).view(np.uint64)
    upper = upper + (lower >> np.uint64(32)).view(np.int64)
    found["low"] = (upper.view(np.uint64) << np.uint64(32)) | (lower & _HALF)
    found["high"] = upper >> 32
    return found


def _exact_sum(parts: list[float]) -> tuple[float, float]:
    """The sum of doubles, rounded once, and what was lost by that."""
    try:
        total = math.fsum(parts)
    except (OverflowError, ValueError):  # too large, or infinities of both signs
        with np.errstate(all="ignore"):
            return float(np.sum(parts)), 0.0
    return total, math.fsum([*parts, -total]) if math.isfinite(total) else 0.0
