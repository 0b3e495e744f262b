"""Casts of Arrow arrays to the type of their column: exact, or refused with the row that would change.

The rule is that no value may change its meaning on the way in. Which pairs of types are convertible at all is
said by :mod:`tidelog.model.conversion.families`, from types alone; here the values are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.conversion.families import Family, family
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.conversion.reasons import inexact_float, integer_range, not_an_integer, out_of_range
from tidelog.model.conversion.values import value_reader
from tidelog.model.times.clock import INT64_MAX, INT64_MIN, Clock
from tidelog.model.times.instants import TICKS_PER_SECOND
from tidelog.model.types import type_name

_Mask = npt.NDArray[np.bool_]

_SECONDS_PER_DAY = 86_400
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1

MAX_VARIABLE_BYTES = 2**31 - 1
"""What the 32-bit offsets of string and binary arrays can address."""


class _TooManyBytes(Exception):
    """The bytes of a string or binary array exceed what one array of the target type can hold."""


def cast(array: pa.Array, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """``array`` as ``target``, in the same memory where possible.

    :func:`~tidelog.model.conversion.families.refusal` must not refuse the two types. The result has several chunks only
    when the bytes of one string or binary array outgrow 32-bit offsets. Raises :class:`Misfit` for the first
    value that would change.
    """
    if array.type == target:
        return array
    try:
        return _cast(array, target)
    except _TooManyBytes:
        return _cast_in_halves(array, target)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = _sized(array.dictionary_decode)
        if array.type == target:
            return array
    source_family = family(array.type)
    if source_family == Family.NULL:
        return pa.nulls(len(array), target)
    return _CASTS[source_family, family(target)](array, target)


def _cast_in_halves(array: pa.Array, target: pa.DataType) -> pa.ChunkedArray:
    if len(array) < 2:
        wide = "large_string" if family(target) == Family.STRING else "large_binary"
        raise Misfit(f"the value is longer than {MAX_VARIABLE_BYTES} bytes; declare the column as {wide}")
    middle = len(array) // 2
    left = cast(array.slice(0, middle), target)
    try:
        right = cast(array.slice(middle), target)
    except Misfit as misfit:
        raise Misfit(misfit.reason, middle + misfit.row) from None
    chunks: list[pa.Array] = []
    for half in (left, right):
        chunks.extend(half.chunks if isinstance(half, pa.ChunkedArray) else [half])
    return pa.chunked_array(chunks, target)


def _integer_to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        low, high = integer_range(target)
        values = _values(array)
        # NumPy compares integers of any width and sign by value.
        bad = (values < low) | (values > high)
        raise _misfit(array, bad, lambda value: out_of_range(value, target)) from None


def _float_to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    wide = array.cast(pa.float64())
    try:
        return wide.cast(target)
    except pa.ArrowInvalid:
        low, high = integer_range(target)
        values = _values(wide)
        with np.errstate(invalid="ignore"):
            # The limits are powers of two (or zero) and so exact as floats; high itself is not.
            bad = ~((np.trunc(values) == values) & (values >= float(low)) & (values < float(high + 1)))
        raise _misfit(wide, bad, lambda value: not_an_integer(value, target)) from None


def _integer_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        # Arrow refuses everything beyond the mantissa; even numbers out there may still be exact.
        values = _values(array)
        floats = values.astype(target.to_pandas_dtype())
        with np.errstate(invalid="ignore"):
            fits = floats < float(np.iinfo(values.dtype).max)  # rounds up to a power of two
            bad = ~fits | (floats.astype(values.dtype) != values)
        if bad.any():
            raise _misfit(array, bad, lambda value: inexact_float(value, target)) from None
        return array.cast(target, safe=False)


def _float_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.bit_width < target.bit_width:
        return array.cast(target)
    with np.errstate(over="ignore"):
        values = _values(array)
        bad = (values.astype(np.float32) != values) & ~np.isnan(values)
    if bad.any():
        raise _misfit(
            array,
            bad,
            lambda value: (
                f"found {value!r}, which float32 can only hold rounded; declare the column as float64, or round "
                "the values by casting them to float32"
            ),
        )
    return array.cast(target)


def _decimal_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        # Arrow's division of wide decimals is wrong for a few numbers, which it then refuses. Python's is not.
        read = value_reader(pa.field("", target))
        start = _first_failure(array, lambda part: part.cast(target))
        values = array.to_pylist()
        for row in range(start, len(values)):
            try:
                read(values[row])
            except Misfit as misfit:
                raise Misfit(misfit.reason, row) from None
        return pa.array([read(value) for value in values], target)


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow goes by what the integer type could hold; in 256 bits everything fits first.
    return _decimal_to_decimal(array.cast(pa.decimal256(76, target.scale)), target)


def _integer_to_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    return _as_type(_integer_to_integer(array, pa.int64()), target)


def _timestamp_to_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    try:
        counted = array.cast(pa.timestamp(target.unit, source.tz))
    except pa.ArrowInvalid:
        before, after = TICKS_PER_SECOND[source.unit], TICKS_PER_SECOND[target.unit]
        ticks = _values(_as_type(array, pa.int64()))
        clock = Clock(source)
        if after > before:
            factor = after // before
            bad = (ticks > INT64_MAX // factor) | (ticks < -(-INT64_MIN // factor))
            reason = f"outside the range of {type_name(target)}; store it in a coarser unit"
        else:
            bad = ticks % (before // after) != 0
            reason = f"which is finer than {type_name(target)} can tell; round it, or give the column a finer unit"
        row = int(bad.argmax())
        raise Misfit(f"found {clock.format(int(ticks[row]))}, {reason}", row) from None
    return _as_type(counted, target)


def _date_to_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == pa.date64():
        midnights = _as_type(_as_type(array, pa.int64()), pa.timestamp("ms"))
    else:
        midnights = array.cast(pa.timestamp("s"))
    return _timestamp_to_timestamp(midnights, target)


def _timestamp_to_date(array: pa.Array, target: pa.DataType) -> pa.Array:
    ticks = _values(_as_type(array, pa.int64()))
    ticks_per_day = _SECONDS_PER_DAY * TICKS_PER_SECOND[array.type.unit]
    days, rest = np.divmod(ticks, ticks_per_day)
    bad = (rest != 0) | (days < _INT32_MIN) | (days > _INT32_MAX)
    if bad.any():
        row = int(bad.argmax())
        text = Clock(array.type).format(int(ticks[row]))
        raise Misfit(f"found {text}, which is not the start of a day that {type_name(target)} can hold", row)
    return array.cast(target)


def _date_to_date(array: pa.Array, target: pa.DataType) -> pa.Array:
    if target == pa.date64():
        return array.cast(target)
    return _timestamp_to_date(_as_type(_as_type(array, pa.int64()), pa.timestamp("ms")), target)


def _bytes_to_bytes(array: pa.Array, target: pa.DataType) -> pa.Array:
    narrows = array.type in (pa.large_string(), pa.large_binary()) and target in (pa.string(), pa.binary())
    if narrows and len(array):  # an empty array need not have offsets
        offsets = np.frombuffer(array.buffers()[1], np.int64)
        first, last = offsets[array.offset], offsets[array.offset + len(array)]
        if last - first > MAX_VARIABLE_BYTES:
            raise _TooManyBytes
        if last > MAX_VARIABLE_BYTES:
            # Arrow narrows offsets as they are, so the tail of a huge array must move to the front of a new one.
            array = array.take(pa.array(np.arange(len(array))))
    return _sized(lambda: array.cast(target))


def _sized(attempt: Callable[[], pa.Array]) -> pa.Array:
    """The result of an operation on strings or bytes that can fail only for lack of room."""
    try:
        return attempt()
    except (pa.ArrowCapacityError, pa.ArrowInvalid):
        raise _TooManyBytes from None


_CASTS: dict[tuple[Family, Family], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    (Family.INTEGER, Family.INTEGER): _integer_to_integer,
    (Family.INTEGER, Family.FLOAT): _integer_to_float,
    (Family.INTEGER, Family.DECIMAL): _integer_to_decimal,
    (Family.INTEGER, Family.TIMESTAMP): _integer_to_timestamp,
    (Family.FLOAT, Family.FLOAT): _float_to_float,
    (Family.FLOAT, Family.INTEGER): _float_to_integer,
    (Family.STRING, Family.STRING): _bytes_to_bytes,
    (Family.BINARY, Family.BINARY): _bytes_to_bytes,
    (Family.TIMESTAMP, Family.TIMESTAMP): _timestamp_to_timestamp,
    (Family.TIMESTAMP, Family.DATE): _timestamp_to_date,
    (Family.DATE, Family.TIMESTAMP): _date_to_timestamp,
    (Family.DATE, Family.DATE): _date_to_date,
    (Family.DECIMAL, Family.DECIMAL): _decimal_to_decimal,
}
"""Every conversion there is, by families of types."""


def _values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a numeric array, with 0, which fits everywhere, for nulls."""
    filled = array.fill_null(0) if array.null_count else array
    values: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return values


def _as_type(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same bits under another type of the same width."""
    return array if array.type == target else array.view(target)


def _misfit(array: pa.Array, bad: _Mask, explain: Callable[[Any], str]) -> Misfit:
    row = int(bad.argmax())
    return Misfit(explain(array[row].as_py()), row)


def _first_failure(array: pa.Array, attempt: Callable[[pa.Array], object]) -> int:
    """The first row whose conversion fails, when that of the whole array does."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            attempt(array.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def first_invalid(array: pa.Array) -> tuple[int, str] | None:
    """The first row of an array that breaks the rules of its type (bad UTF-8, bad offsets), and how."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        return _first_failure(array, lambda part: part.validate(full=True)), str(error)
    return None
