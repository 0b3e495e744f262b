"""Why a value does not fit a column, in words: the same ones for Python values and for Arrow arrays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelog.model.times.instants import shown
from tidelog.model.types import type_name


def integer_range(type_: pa.DataType) -> tuple[int, int]:
    """The smallest and largest value of an integer type."""
    bits = type_.bit_width
    if pa.types.is_signed_integer(type_):
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1


def out_of_range(value: Any, target: pa.DataType) -> str:
    """The reason for an integer too small or too large."""
    low, high = integer_range(target)
    return f"found {shown(value)}, expected {type_name(target)} from {low} to {high}; declare a wider type"


def not_an_integer(value: Any, target: pa.DataType) -> str:
    """The reason for a float that is no integer of the target type."""
    if value != value:
        return (
            f"found nan, expected {type_name(target)}; use null for missing values (None, or a masked array of NumPy)"
        )
    if value % 1 == 0:
        return out_of_range(value, target)
    return f"found {shown(value)}, which is no integer, expected {type_name(target)}; round it, or declare a float"


def inexact_float(value: Any, target: pa.DataType) -> str:
    """The reason for an integer that a float would round."""
    return (
        f"found {shown(value)}, which {type_name(target)} can only hold rounded; declare an integer column, or "
        "convert the values to floats yourself"
    )


def unfit_decimal(value: Any, target: pa.DataType) -> str:
    """The reason for a decimal with too many digits before or behind the point."""
    return (
        f"found {shown(value)}, expected at most {target.precision} digits, {target.scale} of them behind the "
        "point; round it, or declare a decimal128 with more"
    )
