"""Totals: sums of powers, products and logarithms, counts of signs, and what follows from them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Column, Cuts, Incremental, Needs, States, Virtual, number_type
from tidelog.aggregates.binding import register
from tidelog.aggregates.runs import Values, spread, sums
from tidelog.model.errors import InputError

_MODULE = "tidelog.aggregates"

_LONG: Final = 256
"""Rows of runs, on average, from which on a few calls for each run are cheaper than more passes over all of them."""


_LARGEST_LOG: Final = math.log(sys.float_info.max)


class _Total(Incremental):
    """The sum of something of each row, as a double."""

    by_value = True
    state = np.dtype("<f8")

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        for type in types:
            number_type(self.name, type)
            if pa.types.is_temporal(type):
                raise InputError(f"{self.name} takes numbers, found a column of {type}")

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sums of sums."""
        return sums(states, cuts)

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.float64()

    def eval(self, state: Any) -> Any:
        """The sum."""
        return float(state)


def _doubles(column: Column) -> Any:
    return column.astype(np.float64, copy=False)


def _products(left: Values, right: Values) -> Values:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found: Values = left * right
    return found


@register
class SumOfSquares(_Total):
    """The sum of the squares of the values."""

    name = "sum_of_squares"
    id = f"{_MODULE}:sum_of_squares"

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The sums of squares."""
        values = _doubles(columns[0])
        return sums(_products(values, values), cuts)


@register
class SumOfProducts(_Total):
    """The sum of the products of two columns."""

    name = "sum_of_products"
    id = f"{_MODULE}:sum_of_products"
    arity = 2

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The sums of products."""
        return sums(_products(_doubles(columns[0]), _doubles(columns[1])), cuts)


@register
class SumOfLogarithms(_Total):
    """The sum of the natural logarithms of the values; NaN with a negative one, minus infinity with a zero."""

    name = "sum_of_logarithms"
    id = f"{_MODULE}:sum_of_logarithms"

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The sums of logarithms."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums(np.log(_doubles(columns[0])), cuts)


@register
class Rows(Incremental):
    """How many rows have values in the column."""

    by_value = True
    name = "row_count"
    id = f"{_MODULE}:row_count"
    state = np.dtype("<i8")

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The lengths of the runs."""
        return np.diff(cuts)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sums of lengths."""
        return sums(states, cuts)

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.int64()

    def eval(self, state: Any) -> Any:
        """The number."""
        return int(state)


@register
class GeometricMean(Virtual):
    """The n-th root of the product of n positive values; NaN with a negative one, 0 with a zero."""

    name = "geometric_mean"
    id = f"{_MODULE}:geometric_mean"
    depends_on = (Needs(f"{_MODULE}:sum_of_logarithms"), Needs(f"{_MODULE}:row_count"))

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.float64()

    def eval(self, *results: Any) -> Any:
        """The mean, from logarithms and their number."""
        logarithms, rows = results
        # Of the largest doubles rounding alone can make more than the logarithm of a double.
        return math.exp(min(logarithms / rows, _LARGEST_LOG)) if math.isfinite(logarithms) else math.exp(logarithms)


@register
class Moments(Incremental):
    """Number, mean, and sum of squared distances from the mean: ``{"n": ..., "mean": ..., "m2": ...}``.

    Merged as Chan, Golub and LeVeque do, so nothing is lost to large means (spec/event-store.md 3.4).
    """

    by_value = True
    name = "moments"
    id = f"{_MODULE}:moments"
    state = np.dtype([("n", "<f8"), ("mean", "<f8"), ("m2", "<f8")])

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        if pa.types.is_temporal(types[0]) or pa.types.is_boolean(types[0]):
            raise InputError(f"{self.name} takes numbers, found a column of {types[0]}")
        number_type(self.name, types[0])

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The moments of runs of values."""
        values = _doubles(columns[0])
        states = np.empty(len(cuts) - 1, self.state)
        states["n"] = np.diff(cuts)
        with np.errstate(all="ignore"):
            states["mean"] = sums(values, cuts) / states["n"]
            if len(values) < _LONG * len(states):
                distances = values - spread(states["mean"], cuts)
                np.multiply(distances, distances, out=distances)
                states["m2"] = sums(distances, cuts)
            else:  # long runs one after the other, while they are in the cache
                for index, (start, stop) in enumerate(pairwise(cuts.tolist())):
                    distances = values[start:stop] - states["mean"][index]
                    states["m2"][index] = np.dot(distances, distances)
        return states

    def merge(self, states: States, cuts: Cuts) -> States:
        """The moments of all rows of runs of states."""
        merged = np.empty(len(cuts) - 1, self.state)
        n = states["n"]
        with np.errstate(all="ignore"):
            merged["n"] = sums(n, cuts)
            # Distances from the first mean of a run are small, even where the means are large.
            origin = states["mean"][cuts[:-1]]
            distances = states["mean"] - spread(origin, cuts)
            shift = sums(n * distances, cuts) / merged["n"]
            merged["mean"] = origin + shift
            distances -= spread(shift, cuts)
            merged["m2"] = sums(states["m2"] + n * distances * distances, cuts)
        return merged

    def eval(self, state: Any) -> Any:
        """Number, mean and squares."""
        return {"n": int(state["n"]), "mean": float(state["mean"]), "m2": float(state["m2"])}


class Variance(Virtual):
    """The mean squared distance from the mean, of a sample or of everything, or its root."""

    depends_on = (Needs(f"{_MODULE}:moments"),)
    spare = 1
    """How many rows fewer than there are the sum is divided by."""
    root = False

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.float64()

    def eval(self, *results: Any) -> Any:
        """The variance or its root; None for too few rows."""
        (moments,) = results
        divisor = moments["n"] - self.spare
        if divisor < 1:
            return None
        variance = moments["m2"] / divisor
        return math.sqrt(variance) if self.root and variance >= 0 else variance


@register
class SampleVariance(Variance):
    """The variance of a sample, as SQL's ``var_samp`` and ``variance``."""

    name = "var_samp"
    id = f"{_MODULE}:var_samp"


@register
class PopulationVariance(Variance):
    """The variance of all, as SQL's ``var_pop``."""

    name = "var_pop"
    id = f"{_MODULE}:var_pop"
    spare = 0


@register
class SampleDeviation(Variance):
    """The standard deviation of a sample, as SQL's ``stddev_samp`` and ``stddev``."""

    name = "stddev_samp"
    id = f"{_MODULE}:stddev_samp"
    root = True


@register
class PopulationDeviation(Variance):
    """The standard deviation of all, as SQL's ``stddev_pop``."""

    name = "stddev_pop"
    id = f"{_MODULE}:stddev_pop"
    spare = 0
    root = True
