"""Whole columns on their way in: sequences of Python values, NumPy arrays, pandas Series, Arrow arrays.

Python values are judged by :mod:`tidelog.model.conversion.values`, typed arrays by
:mod:`tidelog.model.conversion.casts`. Here are the ways to convert columns at Arrow's speed where its judgement is
known to agree.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.conversion.casts import cast, first_invalid
from tidelog.model.conversion.families import Family, family, refusal
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.conversion.values import value_reader
from tidelog.model.errors import InputError
from tidelog.model.times.clock import is_utc

ArrowColumn: TypeAlias = "pa.Array | pa.ChunkedArray"

_NONE = type(None)
_INTEGERS = {int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64}

_TRUSTED: dict[Family, frozenset[type]] = {
    Family.BOOL: frozenset({_NONE, bool, np.bool_}),
    # Not float: Arrow cuts fractions off. Not numpy.bool: Arrow takes it for a number.
    Family.INTEGER: frozenset({_NONE, *_INTEGERS}),
    # Not bool: Arrow takes it for a number.
    Family.FLOAT: frozenset({_NONE, float, np.float64, np.float32, *_INTEGERS}),
    Family.DECIMAL: frozenset({_NONE, Decimal, int}),
    # Not datetime: see _from_datetimes.
    Family.TIMESTAMP: frozenset({_NONE, int}),
    # Not datetime: Arrow cuts the time of day off. Not int: Arrow takes it for a count of days.
    Family.DATE: frozenset({_NONE, datetime.date}),
    Family.STRING: frozenset({_NONE, str, np.str_}),
    Family.BINARY: frozenset({_NONE, bytes, np.bytes_}),
}
"""Types of Python values that Arrow converts to a family exactly as value readers do, or refuses."""

_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, ValueError, TypeError)

_SAFE_YEARS = (1678, 2261)
"""Years that 64-bit nanoseconds cover whole, in every zone."""

_SINGLE = frozenset({_NONE, bool, int, float, str, bytes, datetime.datetime, datetime.date, Decimal})
"""The usual types of single values, to tell them from columns at once."""


def is_column(value: object) -> bool:
    """Whether a value of a dict is a column of values rather than a single one."""
    if type(value) in _SINGLE:
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, str | bytes | bytearray | memoryview | pa.Scalar):
        return False
    return (
        isinstance(value, list | tuple | range | pa.Array | pa.ChunkedArray)
        or hasattr(value, "__arrow_c_array__")
        or hasattr(value, "__arrow_c_stream__")
        or _is_pandas_column(value)
    )


class ColumnReader:
    """Turns any column of values into Arrow data of one field. Immutable.

    Public methods raise :class:`InputError` that names the column and the first row that does not fit; rows are
    counted from ``first_row``.
    """

    def __init__(self, field: pa.Field) -> None:
        self.name: str = field.name
        self.type: pa.DataType = field.type
        self.nullable: bool = field.nullable
        self._family = family(field.type)
        self._trusted = _TRUSTED[self._family]
        self._read = value_reader(field)

    def read(self, column: Any, *, validate: bool = False) -> ArrowColumn:
        """The Arrow data of anything :func:`is_column` accepts, nulls checked."""
        try:
            result = self._dispatch(column, validate)
        except Misfit as misfit:
            raise misfit.located(self.name) from None
        self.check_nulls(result, 0, "a missing value of pandas" if _is_pandas_column(column) else "a null")
        return result

    def repeat(self, value: Any, count: int) -> pa.Array:
        """A single Python value, as often as there are rows."""
        try:
            canonical = self._read(value)
        except Misfit as misfit:
            raise misfit.located(self.name) from None
        return pa.repeat(pa.array([canonical], self.type)[0], count)

    def from_arrow(self, column: ArrowColumn, *, first_row: int = 0, validate: bool = False) -> ArrowColumn:
        """Arrow data of any convertible type, zero-copy where the types allow. Does not check nulls.

        With ``validate``, the data is first checked for invalid UTF-8 and offsets.
        """
        if not validate and column.type == self.type:
            return column
        self.check_type(column.type)
        if isinstance(column, pa.ChunkedArray):
            chunks: list[pa.Array] = []
            for chunk in column.chunks:
                part = self.from_arrow(chunk, first_row=first_row, validate=validate)
                chunks.extend(part.chunks if isinstance(part, pa.ChunkedArray) else [part])
                first_row += len(chunk)
            return pa.chunked_array(chunks, self.type)
        if validate and (fault := first_invalid(column)):
            raise Misfit(f"the Arrow data is malformed: {fault[1]}", fault[0]).located(self.name, first_row)
        try:
            return cast(column, self.type)
        except Misfit as misfit:
            raise misfit.located(self.name, first_row) from None

    def check_type(self, type_: pa.DataType) -> None:
        """Raise if no Arrow data of a type could become this column's."""
        reason = refusal(type_, self.type)
        if reason is not None:
            raise InputError(f"column {self.name!r}: {reason}", column=self.name)

    def check_nulls(self, column: ArrowColumn, first_row: int, found: str = "a null") -> None:
        """Raise at the first null, which messages call ``found``, if the column must have none."""
        if not self.nullable and column.null_count:
            row = first_row + pc.index(column.is_null(), pa.scalar(True)).as_py()
            raise InputError(
                f"column {self.name!r}, row {row}: found {found}, but the column is not nullable",
                column=self.name,
                row=row,
            )

    def _dispatch(self, column: Any, validate: bool) -> ArrowColumn:
        if isinstance(column, list | tuple):
            return self._from_values(column)
        if isinstance(column, range):
            return self._from_numpy(np.asarray(column))
        if isinstance(column, pa.Array | pa.ChunkedArray):
            return self.from_arrow(column, validate=validate)
        if isinstance(column, np.ndarray):
            return self._from_numpy(column)
        if _is_pandas_column(column):
            return self._from_pandas(column)
        imported = pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else pa.array(column)
        return self.from_arrow(imported, validate=validate)

    def _from_values(self, values: Sequence[Any]) -> ArrowColumn:
        """Python values, of any mix of types."""
        kinds = set(map(type, values))
        result = self._trusting(values, kinds)
        if result is None and self._family is Family.TIMESTAMP:
            if kinds <= {_NONE, datetime.datetime}:
                result = self._from_datetimes(values)
            elif kinds <= {_NONE, str}:
                result = self._from_texts(values)
        return self._one_by_one(values) if result is None else result

    def _trusting(self, values: Sequence[Any], kinds: set[type]) -> ArrowColumn | None:
        """Arrow's own conversion where it is trusted and succeeds."""
        if not kinds <= self._trusted:
            return None
        try:
            result = pa.array(values, self.type)
        except _CONVERSION_ERRORS:
            return None  # perhaps wrongly: the reader of single values knows, and says why
        if self.type == pa.float32() and pc.any(pc.is_inf(result)).as_py():
            return None  # Arrow lets large numbers overflow
        return result

    def _from_datetimes(self, values: Sequence[Any]) -> ArrowColumn | None:
        zone = self.type.tz
        if zone is not None and not is_utc(zone) and any(each is not None and each.tzinfo is None for each in values):
            return None
        try:
            # Not directly to the column's unit: Arrow would cut finer parts off.
            return cast(pa.array(values, pa.timestamp("us", zone)), self.type)
        except (Misfit, *_CONVERSION_ERRORS):
            return None

    def _from_texts(self, values: Sequence[Any]) -> ArrowColumn | None:
        # Arrow reads either texts with a zone or texts without, and is slow to fail: go by the first.
        first = next(each for each in values if each is not None)
        zoned = any(sign in first[10:] for sign in "Zz+-")
        if not zoned and self.type.tz is not None and not is_utc(self.type.tz):
            return None
        try:
            texts = pa.array(values, pa.string())
            parsed = texts.cast(pa.timestamp(self.type.unit, "UTC" if zoned else None))
            years = pc.min_max(pc.utf8_slice_codeunits(texts, 0, 4).cast(pa.int16())).as_py()
        except _CONVERSION_ERRORS:
            return None
        # Arrow knows a year 0, which Python does not, and older versions of it let nanoseconds overflow.
        low, high = _SAFE_YEARS if self.type.unit == "ns" else (datetime.MINYEAR, datetime.MAXYEAR)
        return parsed.view(self.type) if low <= years["min"] and years["max"] <= high else None

    def _one_by_one(self, values: Sequence[Any]) -> ArrowColumn:
        """The slow way, which is the definition: for unusual types of values, and to say what is wrong."""
        canonical = []
        read = self._read
        for row, value in enumerate(values):
            try:
                canonical.append(read(value))
            except Misfit as misfit:
                raise Misfit(misfit.reason, row) from None
        return pa.array(canonical, self.type)

    def _from_numpy(self, values: np.ndarray[Any, Any], *, nan_is_missing: bool = False) -> ArrowColumn:
        if values.ndim != 1:
            raise InputError(
                f"column {self.name!r}: found an array of {values.ndim} dimensions, expected one", column=self.name
            )
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        values = np.asarray(values)
        if values.dtype.kind in "OUST":
            # 'T' is variable-length text. Python values, so that they mean what they would in a list.
            listed = values.tolist()
            if mask is not None:
                listed = [None if hidden else each for each, hidden in zip(listed, mask, strict=True)]
            return self._from_values(listed)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        if values.dtype.kind == "M":
            converted = _in_arrow_unit(values)
            if converted is None:
                return self._one_by_one(list(values))
            values = converted
        try:
            column = pa.array(values, mask=mask, from_pandas=nan_is_missing)
        except pa.ArrowException:
            raise InputError(
                f"column {self.name!r}: found a NumPy array of {values.dtype}, which no column can hold",
                column=self.name,
            ) from None
        return self.from_arrow(column)

    def _from_pandas(self, series: Any) -> ArrowColumn:
        """A column of pandas, in which NaN stands for a missing value, as PyArrow reads it."""
        dtype = series.dtype
        if not isinstance(dtype, np.dtype):
            try:
                return self.from_arrow(pa.array(series, from_pandas=True))
            except (pa.ArrowException, TypeError):  # a dtype unknown to Arrow, such as a sparse one
                values, dtype = np.asarray(series), np.asarray(series).dtype
        else:
            values = series.to_numpy()
        if dtype.kind == "O":
            missing = np.asarray(series.isna())
            if missing.any():
                values = values.copy()
                values[missing] = None
        return self._from_numpy(values, nan_is_missing=True)


def _in_arrow_unit(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Datetimes in a unit Arrow has, or None if that would change some."""
    unit, count = np.datetime_data(values.dtype)
    if unit in ("s", "ms", "us", "ns") and count == 1:
        return values
    nearest = unit if unit in ("s", "ms", "us", "ns") else "ns" if unit in ("ps", "fs", "as") else "s"
    try:
        converted = values.astype(f"datetime64[{nearest}]")
    except OverflowError:  # older versions of NumPy wrap around instead
        return None
    same = (converted.astype(values.dtype) == values) | np.isnat(values)
    return converted if same.all() else None


def _is_pandas_column(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray)
