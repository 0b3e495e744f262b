"""A range of values of one column, which the codec of numbers can look for without making arrays of them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The values of a column from ``low`` to ``high``, both included; with ``nans`` NaN too, without it no NaN.

    NULL is in no range. The bounds are doubles for columns of floats, which may be infinite, else integers, counts of
    the column's unit for instants, that the column's 64-bit words can hold. If ``low > high``, no number is.
    """

    column: str
    low: float
    high: float
    nans: bool = False


def can_have_range(type: pa.DataType) -> bool:
    """Whether a :class:`ValueRange` can be looked for in columns of a type."""
    return bool(
        pa.types.is_integer(type)
        or pa.types.is_float32(type)
        or pa.types.is_float64(type)
        or pa.types.is_timestamp(type)
        or pa.types.is_date(type)
    )
