"""Rough estimates with error bounds: quantiles, distinct values, frequent values (spec/event-store.md 3.5).

Three aggregates keep sketches of the library datasketches (the extra ``sketches``), each serialised into a fixed
width; their results are these bytes, which the library reads anywhere. What queries ask for are virtual aggregates over
them, so that one sketch answers for any number of fractions, or of values. A sketch that does not fit its width, which
takes more rows than any stream has, is not stored: then events are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.aggregates.base import REQUIRED, Column, Cuts, Incremental, Needs, States, Virtual, number_type, plain
from tidelog.aggregates.binding import register
from tidelog.model.errors import InputError, NotFoundError

_MODULE = "tidelog.aggregates"

_NO_TEXT: Final = "\x00tidelog: the empty text\x00"
"""What stands for the empty text in sketches of distinct values; no real one is like it."""

_MOST_ROWS_LOG: Final = 40
"""Sketches of quantiles of two to this power of rows fit their width."""


def _library() -> Any:
    try:
        import datasketches
    except ImportError:
        raise NotFoundError(
            "estimates need the library datasketches, which is not installed; run: pip install 'tidelog[sketches]'"
        ) from None
    return datasketches


class _Sketch(Incremental):
    """Serialised sketches in states of a fixed width: their length and their bytes."""

    by_value = True
    is_reproducible = False

    def __init__(self, types: Sequence[pa.DataType], width: int) -> None:
        super().__init__(types)
        self._library = _library()
        self._width = -(-width // 8) * 8
        self.state = np.dtype([("size", "<u8"), ("bytes", "u1", (self._width,))])

    def _states(self, sketches: Iterable[bytes], count: int) -> States:
        states = np.zeros(count, self.state)
        for index, content in enumerate(sketches):
            if len(content) > self._width:
                raise InputError(f"a sketch has {len(content)} bytes, more than the {self._width} there is room for")
            states["size"][index] = len(content)
            states["bytes"][index, : len(content)] = np.frombuffer(content, np.uint8)
        return states

    def _contents(self, states: States, first: int, last: int) -> Iterator[bytes]:
        for state in states[first:last]:
            yield self.eval(state)

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """A sketch of each run of values."""
        runs = pairwise(cuts.tolist())
        return self._states((self._of(columns[0][first:last]) for first, last in runs), len(cuts) - 1)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The sketches of each run merged into one."""
        runs = pairwise(cuts.tolist())
        return self._states((self._merged(self._contents(states, *run)) for run in runs), len(cuts) - 1)

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.binary()

    def eval(self, state: Any) -> Any:
        """The sketch, as the library serialises it."""
        return state["bytes"][: int(state["size"])].tobytes()

    def _of(self, values: Column) -> bytes:
        raise NotImplementedError

    def _merged(self, sketches: Iterator[bytes]) -> bytes:
        raise NotImplementedError


def _integer_parameter(name: str, value: object, smallest: int, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise InputError(f"found {value!r} for {name}; expected an int from {smallest} to {largest}")
    return value


# Quantiles. -------------------------------------------------------------------------------------------


@register
class QuantileSketch(_Sketch):
    """A KLL sketch of the values, as doubles, for :class:`ApproxQuantile`; NaN are left out.

    ``k`` trades size for error. The rank of an estimated quantile is off by no more than 1.33 % of the rows for
    ``k = 200``, by 2.6 % for 100, with a probability of 99 %; in general by about ``2.3 / k ** 0.97``.
    """

    name = "quantile_sketch"
    id = f"{_MODULE}:quantile_sketch"
    parameters = {"k": 200}  # noqa: RUF012

    def __init__(self, types: Sequence[pa.DataType], k: int = 200) -> None:
        self._k = _integer_parameter("k", k, 8, 4096)
        number_type(self.name, types[0])
        # Levels keep k, 2/3 k, 4/9 k, ... values, and 8 at the least; each level stands for twice the rows.
        levels = max(_MOST_ROWS_LOG - self._k.bit_length() + 2, 1)
        kept = sum(max(8, -int(-self._k * (2 / 3) ** level // 1)) for level in range(levels))
        super().__init__(types, 20 + 4 * levels + 8 * (kept + 2))

    def _of(self, values: Column) -> bytes:
        sketch = self._library.kll_doubles_sketch(self._k)
        numbers = np.array(values, np.float64)  # a copy: the library refuses memory that is read-only
        if np.isnan(numbers).any():
            numbers = numbers[~np.isnan(numbers)]
        sketch.update(numbers)
        return bytes(sketch.serialize())

    def _merged(self, sketches: Iterator[bytes]) -> bytes:
        kind = self._library.kll_doubles_sketch
        whole = kind.deserialize(next(sketches))
        for content in sketches:
            whole.merge(kind.deserialize(content))
        return bytes(whole.serialize())


@register
class ApproxQuantile(Virtual):
    """About the value that a fraction of all values, 0 to 1, does not exceed; for the error :class:`QuantileSketch`."""

    name = "approx_quantile"
    id = f"{_MODULE}:approx_quantile"
    parameters = {"fraction": REQUIRED, "k": 200}  # noqa: RUF012
    depends_on = (Needs(f"{_MODULE}:quantile_sketch"),)

    def __init__(self, types: Sequence[pa.DataType], fraction: float, k: int = 200) -> None:
        super().__init__(types)
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise InputError(f"found {fraction!r} for fraction; expected a number from 0 to 1")
        self._fraction = float(fraction)

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.float64() if pa.types.is_floating(self.types[0]) else self.types[0]

    def eval(self, *results: Any) -> Any:
        """The quantile, of the column's type; None if all values are NaN."""
        sketch = _library().kll_doubles_sketch.deserialize(results[0])
        if sketch.is_empty():
            return None
        value = float(sketch.get_quantile(self._fraction, True))
        type = self.types[0]
        if pa.types.is_floating(type):
            return value
        # The double next to a large integer may be beyond the last one.
        limits = np.iinfo(number_type(self.name, type))
        return plain(min(max(int(value), int(limits.min)), int(limits.max)), type)


# Distinct values. -------------------------------------------------------------------------------------


@register
class DistinctSketch(_Sketch):
    """A HyperLogLog sketch of ``2 ** lg_k`` bytes, for :class:`ApproxCountDistinct`.

    The relative standard error of the number is ``1.04 / sqrt(2 ** lg_k)``: 2.3 % for 11, 1.6 % for 12.
    """

    name = "distinct_sketch"
    id = f"{_MODULE}:distinct_sketch"
    parameters = {"lg_k": 11}  # noqa: RUF012

    def __init__(self, types: Sequence[pa.DataType], lg_k: int = 11) -> None:
        self._lg_k = _integer_parameter("lg_k", lg_k, 4, 16)
        self._is_text = _is_unicode(types[0])
        if not self._is_text:
            number_type(self.name, types[0])
        library = _library()
        self._kind = library.tgt_hll_type.HLL_8
        super().__init__(types, library.hll_sketch.get_max_updatable_serialization_bytes(self._lg_k, self._kind))

    def _of(self, values: Column) -> bytes:
        sketch = self._library.hll_sketch(self._lg_k, self._kind)
        if self._is_text:
            # The library passes over texts of no length.
            distinct = [text or _NO_TEXT for text in pc.unique(values).to_pylist()]
        else:
            numbers = values.view(np.int64) if values.dtype == np.uint64 else values
            distinct = np.unique(numbers).tolist()
        _each(sketch.update, distinct)
        return bytes(sketch.serialize_compact())

    def _merged(self, sketches: Iterator[bytes]) -> bytes:
        union = self._library.hll_union(self._lg_k)
        for content in sketches:
            union.update(self._library.hll_sketch.deserialize(content))
        return bytes(union.get_result(self._kind).serialize_compact())


@register
class ApproxCountDistinct(Virtual):
    """About how many distinct values there are; :class:`DistinctSketch` tells the error."""

    name = "approx_count_distinct"
    id = f"{_MODULE}:approx_count_distinct"
    parameters = {"lg_k": 11}  # noqa: RUF012
    depends_on = (Needs(f"{_MODULE}:distinct_sketch"),)

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return pa.int64()

    def eval(self, *results: Any) -> Any:
        """The number."""
        return round(_library().hll_sketch.deserialize(results[0]).get_estimate())


# Frequent values. -------------------------------------------------------------------------------------


@register
class FrequentSketch(_Sketch):
    """A sketch of frequent values, for :class:`ApproxTopK`; of texts their first ``width`` bytes count.

    It has counters for ``0.75 * 2 ** lg_size`` values. Counts are off by no more than ``3.5 / 2 ** lg_size`` of the
    rows, always: 2.7 % for 7.
    """

    name = "frequent_sketch"
    id = f"{_MODULE}:frequent_sketch"
    parameters = {"lg_size": 7, "width": 32}  # noqa: RUF012

    def __init__(self, types: Sequence[pa.DataType], lg_size: int = 7, width: int = 32) -> None:
        self._lg_size = _integer_parameter("lg_size", lg_size, 3, 12)
        self._is_text = _is_unicode(types[0])
        if not self._is_text:
            number_type(self.name, types[0])
        self._most = _integer_parameter("width", width, 4, 1024) if self._is_text else 24  # a double in digits
        counters = 3 * (1 << self._lg_size) // 4 + 1
        super().__init__(types, 40 + counters * (8 + 4 + self._most))

    def _of(self, values: Column) -> bytes:
        sketch = self._library.frequent_strings_sketch(self._lg_size)
        if self._is_text:
            counted = pc.value_counts(values)
            texts = [self._cut(text) for text in counted.field("values").to_pylist()]
            weights = counted.field("counts").to_pylist()
        else:
            # Both zeros are one value, and have one text.
            distinct, counts = np.unique(values + 0.0 if values.dtype.kind == "f" else values, return_counts=True)
            texts, weights = list(map(repr, distinct.tolist())), counts.tolist()
        _each(sketch.update, texts, weights)
        return bytes(sketch.serialize())

    def _cut(self, text: str) -> str:
        content = text.encode()
        return text if len(content) <= self._most else content[: self._most].decode(errors="ignore")

    def _merged(self, sketches: Iterator[bytes]) -> bytes:
        kind = self._library.frequent_strings_sketch
        whole = kind.deserialize(next(sketches))
        for content in sketches:
            whole.merge(kind.deserialize(content))
        return bytes(whole.serialize())


@register
class ApproxTopK(Virtual):
    """The ``count`` most frequent values, at the most, as ``{"value", "estimate", "lower", "upper"}``, most first.

    True counts are between lower and upper. Values with more than ``3.5 / 2 ** lg_size`` of the rows are never missed
    by a ``count`` that is large enough (:class:`FrequentSketch`).
    """

    name = "approx_top_k"
    id = f"{_MODULE}:approx_top_k"
    parameters = {"count": REQUIRED, "lg_size": 7, "width": 32}  # noqa: RUF012
    depends_on = (Needs(f"{_MODULE}:frequent_sketch"),)

    def __init__(self, types: Sequence[pa.DataType], count: int, lg_size: int = 7, width: int = 32) -> None:
        super().__init__(types)
        self._count = _integer_parameter("count", count, 1, 3 << 10)
        self._is_text = _is_unicode(types[0])

    def eval(self, *results: Any) -> Any:
        """The values with their counts."""
        library = _library()
        sketch = library.frequent_strings_sketch.deserialize(results[0])
        found = sketch.get_frequent_items(library.frequent_items_error_type.NO_FALSE_NEGATIVES)
        found = sorted(found, key=lambda item: (-item[1], item[0]))[: self._count]
        return [
            {"value": self._value(text), "estimate": estimate, "lower": lower, "upper": upper}
            for text, estimate, lower, upper in found
        ]

    def _value(self, text: str) -> Any:
        if self._is_text:
            return text
        type = self.types[0]
        if pa.types.is_floating(type):
            return float(text)
        return text == "True" if pa.types.is_boolean(type) else plain(int(text), type)


def _is_unicode(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _each(call: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    """Call something for each of some distinct values, without a loop in Python."""
    deque(map(call, *arguments), maxlen=0)
