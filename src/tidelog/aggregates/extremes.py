"""Largest and smallest values, the second ones behind them, and bounding boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Column, Cuts, Dependent, Incremental, Needs, States, all_plain, number_type, plain
from tidelog.aggregates.binding import register
from tidelog.aggregates.runs import Values, largest, smallest, spread, sums

_MODULE = "tidelog.aggregates"

_LONG: Final = 256
"""Rows of runs, on average, from which on a few calls for each run are cheaper than more passes over all of them."""


class _Extreme(Incremental):
    """One value of those that compare; its state is the value."""

    by_value = True

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self.state = number_type(self.name, types[0])

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The extremes of runs of values."""
        return self.merge(columns[0], cuts).astype(self.state, copy=False)

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return self.types[0]

    def eval(self, state: Any) -> Any:
        """The value."""
        return plain(state, self.types[0])

    def eval_all(self, states: States, *results: Sequence[Any]) -> Sequence[Any]:
        """The values."""
        return all_plain(states, self.types[0])


@register
class Largest(_Extreme):
    """The largest value, as ``max``: NaN is greater than every number."""

    name = "largest"
    id = f"{_MODULE}:largest"

    def merge(self, states: States, cuts: Cuts) -> States:
        """The largest of each run."""
        return largest(states, cuts)


@register
class Smallest(_Extreme):
    """The smallest value, as ``min``: NaN only if there is nothing else."""

    name = "smallest"
    id = f"{_MODULE}:smallest"

    def merge(self, states: States, cuts: Cuts) -> States:
        """The smallest of each run."""
        return smallest(states, cuts)


class _Second(Dependent):
    """The second of the values in an order; values that are there twice count twice, so it may equal the first.

    The state is the value, and whether there is one: it is None for a single row. (spec/event-store.md 3.4)
    """

    by_value = True

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._number = number_type(self.name, types[0])
        self.state = np.dtype([("value", self._number), ("known", "<u8")])

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The second values of runs of values."""
        values = columns[0]
        if len(values) < _LONG * (len(cuts) - 1) or values.dtype.kind == "b":
            return self._second(values, np.ones(len(values), np.bool_), cuts)
        # Long runs one after the other, while they are in the cache.
        states = np.zeros(len(cuts) - 1, self.state)
        for index, (start, stop) in enumerate(pairwise(cuts.tolist())):
            if stop - start > 1:
                states[index] = self._second_of_run(values[start:stop]), 1
        return states

    def _second_of_run(self, values: Values) -> Any:
        place = self._place(values)
        if values.dtype.kind == "f" and np.isnan(values[place]):  # which the order of NumPy puts elsewhere
            return self._second(values, np.ones(len(values), np.bool_), np.array([0, len(values)], np.int64))["value"][
                0
            ]
        parts = [part for part in (values[:place], values[place + 1 :]) if len(part)]
        return self._first(np.array([self._all(part) for part in parts]), np.array([0, len(parts)], np.int64))[0]

    def _place(self, values: Values) -> int:
        """Where the first one of a run is, or a NaN."""
        raise NotImplementedError

    def _all(self, values: Values) -> Any:
        """The first one of all values, which are not NaN."""
        raise NotImplementedError

    def merge(self, states: States, cuts: Cuts, *dependencies: States) -> States:
        """The second ones among all first and second values of each run."""
        (firsts,) = dependencies
        # First and second values of a run side by side; those that are not there never win.
        values = np.stack([firsts, states["value"]], axis=1).reshape(-1)
        known = np.stack([np.ones(len(firsts), np.bool_), states["known"] != 0], axis=1).reshape(-1)
        return self._second(values, known, 2 * cuts)

    def _second(self, values: Values, known: Values, cuts: Cuts) -> States:
        """The second ones of runs of values, in each of which the first is known."""
        found = np.zeros(len(cuts) - 1, self.state)
        floor = self._floor(values.dtype)
        usable = values if known.all() else np.where(known, values, floor)
        first = self._first(usable, cuts)
        top = spread(first, cuts)
        is_first = (usable == top) & known
        if usable.dtype.kind == "f":
            is_first |= np.isnan(usable) & np.isnan(top) & known
        tops = sums(is_first.astype(np.int64), cuts)
        rest = self._first(np.where(is_first, floor, usable), cuts)
        found["known"] = sums(known.astype(np.int64), cuts) > 1
        found["value"] = np.where(found["known"] != 0, np.where(tops > 1, first, rest), 0)
        return found

    def _first(self, values: Values, cuts: Cuts) -> Values:
        raise NotImplementedError

    def _floor(self, dtype: np.dtype[Any]) -> Any:
        """A value that no other one is behind."""
        raise NotImplementedError

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return self.types[0]

    def eval(self, state: Any, *results: Any) -> Any:
        """The value, None if there is only one row."""
        return plain(state["value"], self.types[0]) if state["known"] else None

    def eval_all(self, states: States, *results: Sequence[Any]) -> Sequence[Any]:
        """The values, None where there is only one row."""
        values, known = all_plain(states["value"], self.types[0]), states["known"] != 0
        if known.all():
            return values
        return [value if is_there else None for value, is_there in zip(values, known.tolist(), strict=True)]


@register
class SecondLargest(_Second):
    """The second largest value; equal values count twice."""

    name = "second_largest"
    id = f"{_MODULE}:second_largest"
    depends_on = (Needs(f"{_MODULE}:largest"),)

    def _place(self, values: Values) -> int:
        return int(values.argmax())

    def _all(self, values: Values) -> Any:
        return values.max()

    def _first(self, values: Values, cuts: Cuts) -> Values:
        return largest(values, cuts)

    def _floor(self, dtype: np.dtype[Any]) -> Any:
        return False if dtype.kind == "b" else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


@register
class SecondSmallest(_Second):
    """The second smallest value; equal values count twice."""

    name = "second_smallest"
    id = f"{_MODULE}:second_smallest"
    depends_on = (Needs(f"{_MODULE}:smallest"),)

    def _place(self, values: Values) -> int:
        return int(values.argmin())

    def _all(self, values: Values) -> Any:
        return values.min()

    def _first(self, values: Values, cuts: Cuts) -> Values:
        return smallest(values, cuts)

    def _floor(self, dtype: np.dtype[Any]) -> Any:
        return True if dtype.kind == "b" else np.nan if dtype.kind == "f" else np.iinfo(dtype).max


@register
class BoundingBox(Incremental):
    """The smallest rectangle around positions: ``{"min_x", "min_y", "max_x", "max_y"}`` (spec/event-store.md 11.4).

    Positions with a coordinate that is NaN are outside of everything and left out; without others there is no box.
    """

    by_value = True
    name = "bounding_box"
    id = f"{_MODULE}:bounding_box"
    arity = 2
    state = np.dtype([("min_x", "<f8"), ("min_y", "<f8"), ("max_x", "<f8"), ("max_y", "<f8")])

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        for type in types:
            number_type(self.name, type)

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The boxes of runs of positions."""
        x, y = (column.astype(np.float64, copy=False) for column in columns)
        boxes = np.empty(len(cuts) - 1, self.state)
        boxes["min_x"], boxes["min_y"] = (np.minimum.reduceat(each, cuts[:-1]) for each in (x, y))
        if np.isnan(boxes["min_x"]).any() or np.isnan(boxes["min_y"]).any():
            outside = np.isnan(x) | np.isnan(y)
            x, y = np.where(outside, np.nan, x), np.where(outside, np.nan, y)
            return self._around(x, y, x, y, cuts)
        boxes["max_x"], boxes["max_y"] = (np.maximum.reduceat(each, cuts[:-1]) for each in (x, y))
        return boxes

    def merge(self, states: States, cuts: Cuts) -> States:
        """The boxes around runs of boxes."""
        return self._around(states["min_x"], states["min_y"], states["max_x"], states["max_y"], cuts)

    def _around(self, left: Values, low: Values, right: Values, high: Values, cuts: Cuts) -> States:
        boxes = np.empty(len(cuts) - 1, self.state)
        starts = cuts[:-1]
        boxes["min_x"], boxes["min_y"] = np.fmin.reduceat(left, starts), np.fmin.reduceat(low, starts)
        boxes["max_x"], boxes["max_y"] = np.fmax.reduceat(right, starts), np.fmax.reduceat(high, starts)
        return boxes

    def eval(self, state: Any) -> Any:
        """The box by its sides, None if no position has one."""
        box = {name: float(state[name]) for name in ("min_x", "min_y", "max_x", "max_y")}
        return None if np.isnan(box["min_x"]) else box
