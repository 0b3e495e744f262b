"""Arithmetic and bitwise operators, on numbers and on instants."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.functions.signatures import register, same
from tidelog.expr.tree import Literal, Node, Value
from tidelog.expr.values import decimals, durations
from tidelog.expr.values.types import (
    DOUBLE,
    HUGEINT,
    INTEGERS,
    NULL,
    WIDEST_DECIMAL,
    common_decimal,
    decimal_shape,
    decimal_type,
    is_decimal,
    is_float,
    is_numeric,
    kind,
    sql_name,
)
from tidelog.expr.values.vectors import all_valid, as_array, broadcast, length_of, made, numbers, per_distinct, refuse

NUMERIC = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")

_CALENDAR_SUMS = """
    DATE, INTEGER -> DATE; INTEGER, DATE -> DATE; INTERVAL, INTERVAL -> INTERVAL;
    DATE, INTERVAL -> TIMESTAMP; INTERVAL, DATE -> TIMESTAMP;
    TIMESTAMP, INTERVAL -> TIMESTAMP; INTERVAL, TIMESTAMP -> TIMESTAMP;
    TIMESTAMPTZ, INTERVAL -> TIMESTAMPTZ; INTERVAL, TIMESTAMPTZ -> TIMESTAMPTZ"""

_CALENDAR_DIFFERENCES = """
    DATE, DATE -> BIGINT; DATE, INTEGER -> DATE; TIMESTAMP, TIMESTAMP -> INTERVAL; INTERVAL, INTERVAL -> INTERVAL;
    DATE, INTERVAL -> TIMESTAMP; TIMESTAMP, INTERVAL -> TIMESTAMP; TIMESTAMPTZ, INTERVAL -> TIMESTAMPTZ;
    TIMESTAMPTZ, TIMESTAMPTZ -> INTERVAL; INTERVAL -> INTERVAL"""


def _overflow(what: str, type_: pa.DataType) -> EvaluationError:
    return EvaluationError(f"overflow in {what} of {sql_name(type_)}; cast an operand to a wider type")


def _checked(name: str, values: Sequence[Value], result: pa.DataType, what: str) -> Value:
    """An Arrow kernel on integers (overflow raises) or on floats (it gives infinity)."""
    if is_float(result):
        return pc.call_function(name.removesuffix("_checked"), list(values))
    try:
        return pc.call_function(name, list(values))
    except pa.ArrowInvalid:
        raise _overflow(what, result) from None


def _shapes(arguments: Sequence[Node]) -> list[tuple[int, int]] | pa.DataType:
    """The decimal shapes of all arguments, or the type of the result when there is something else among them."""
    if any(isinstance(argument, Literal) and argument.is_loose_string for argument in arguments):
        return DOUBLE
    shapes = [decimal_shape(argument.type) for argument in arguments]
    known = [shape for shape in shapes if shape is not None]
    return known if len(known) == len(shapes) else NULL


def _otherwise(result: pa.DataType, count: int) -> tuple[list[pa.DataType | None], pa.DataType]:
    return [DOUBLE if result == DOUBLE else None] * count, result


def _sum_shape(arguments: Sequence[Node]) -> tuple[Sequence[pa.DataType | None], pa.DataType]:
    """For + and -: one digit more than the wider operand has; both operands take on the type of the result."""
    shapes = _shapes(arguments)
    if not isinstance(shapes, list):
        return _otherwise(shapes, len(arguments))
    result = decimal_type(*common_decimal(shapes, spare=1 if len(arguments) > 1 else 0))
    return [result] * len(arguments), result


def _product_shape(arguments: Sequence[Node]) -> tuple[Sequence[pa.DataType | None], pa.DataType]:
    """For *: digits and scales add up; a product of 64-bit decimals is kept in 64 bits if its scale allows."""
    shapes = _shapes(arguments)
    if not isinstance(shapes, list):
        if shapes == DOUBLE:
            raise ExpressionError("a string may stand for a number or for an interval here; add a cast to say which")
        return _otherwise(shapes, len(arguments))
    digits, scale = sum(shape[0] for shape in shapes), sum(shape[1] for shape in shapes)
    if scale > WIDEST_DECIMAL:
        raise ExpressionError(
            f"the product needs a scale of {scale}, more than the {WIDEST_DECIMAL} of a decimal; cast an operand to "
            "DOUBLE or to a decimal of lower scale"
        )
    if digits > decimals.NARROW and max(shape[0] for shape in shapes) <= decimals.NARROW and scale < decimals.NARROW:
        digits = decimals.NARROW
    return [decimal_type(*shape) for shape in shapes], decimal_type(digits, scale)


def _remainder_shape(arguments: Sequence[Node]) -> tuple[Sequence[pa.DataType | None], pa.DataType]:
    """For %: the common type, or DOUBLE if no decimal holds all digits."""
    shapes = _shapes(arguments)
    if not isinstance(shapes, list):
        return _otherwise(shapes, len(arguments))
    digits, scale = common_decimal(shapes)
    result = DOUBLE if digits > WIDEST_DECIMAL else decimal_type(digits, scale)
    return [result] * len(arguments), result


@register(
    "+",
    "operator",
    same(NUMERIC) + ";" + same(NUMERIC, 2) + ";" + _CALENDAR_SUMS,
    aliases=("add",),
    decimals=_sum_shape,
)
def _add(values: Sequence[Value], result: pa.DataType) -> Value:
    if len(values) == 1:
        return values[0]
    left, right = values
    if is_decimal(result):
        return decimals.add(left, right, result)
    if is_numeric(result):
        return _checked("add_checked", values, result, "addition")
    return durations.add(left, right, result)


@register(
    "-",
    "operator",
    same(NUMERIC) + ";" + same(NUMERIC, 2) + ";" + _CALENDAR_DIFFERENCES,
    aliases=("subtract",),
    decimals=_sum_shape,
)
def _subtract(values: Sequence[Value], result: pa.DataType) -> Value:
    if len(values) == 1:
        return _negate(values[0], result)
    left, right = values
    if is_decimal(result):
        return decimals.subtract(left, right, result)
    if is_numeric(result) and is_numeric(left.type):
        return _checked("subtract_checked", values, result, "subtraction")
    return durations.subtract(left, right, result)


def _negate(value: Value, result: pa.DataType) -> Value:
    if kind(result) == "INTERVAL":
        return durations.negate(value)
    if pa.types.is_unsigned_integer(result):
        refuse(
            numbers(value) != 0,
            all_valid([value]),
            f"overflow in negation of {sql_name(result)}; cast to a signed type",
        )
        return value
    if is_decimal(result):
        return pc.negate(value)
    return _checked("negate_checked", [value], result, "negation")


@register(
    "*",
    "operator",
    same(NUMERIC, 2)
    + "; INTERVAL, DOUBLE -> INTERVAL; DOUBLE, INTERVAL -> INTERVAL; BIGINT, INTERVAL -> INTERVAL;"
    + "INTERVAL, BIGINT -> INTERVAL",
    aliases=("multiply",),
    decimals=_product_shape,
)
def _multiply(values: Sequence[Value], result: pa.DataType) -> Value:
    left, right = values
    if is_decimal(result):
        return decimals.multiply(left, right, result)
    if is_numeric(result):
        return _checked("multiply_checked", values, result, "multiplication")
    return durations.multiply(left, right)


@register("/", "operator", same(("FLOAT", "DOUBLE"), 2) + "; INTERVAL, DOUBLE -> INTERVAL")
def _divide(values: Sequence[Value], result: pa.DataType) -> Value:
    if kind(result) == "INTERVAL":
        return durations.divide(*values)
    return pc.divide(*values)  # by zero: infinity or NaN, as IEEE 754 has it


def _refuse_zero(values: Sequence[Value], operator: str) -> None:
    divisor = values[1]
    if is_decimal(divisor.type):
        array = as_array(divisor, length_of(values))
        bad = numbers(pc.equal(array, pa.scalar(Decimal(0), divisor.type)).fill_null(False))
    else:
        bad = broadcast(numbers(divisor) == 0, length_of(values))
    refuse(bad, all_valid(values), f"division by zero in {operator}; use NULLIF(divisor, 0) to get NULL instead")


@register("//", "operator", same((*INTEGERS, "FLOAT", "DOUBLE"), 2), aliases=("divide",))
def _divide_whole(values: Sequence[Value], result: pa.DataType) -> Value:
    _refuse_zero(values, "//")
    if is_float(result):
        return pc.divide(*values)
    if result == HUGEINT:
        return per_distinct(values, _quotient, result)
    return _checked("divide_checked", values, result, "division")


def _quotient(dividend: Decimal, divisor: Decimal) -> Decimal:
    return decimals.EXACT.divide_int(dividend, divisor)


@register("%", "operator", same(NUMERIC, 2), aliases=("mod",), decimals=_remainder_shape)
def _remainder(values: Sequence[Value], result: pa.DataType) -> Value:
    if is_float(result):
        left, right = (numbers(value) for value in values)
        with np.errstate(invalid="ignore"):
            return made(np.fmod(left, right), all_valid(values), result)
    _refuse_zero(values, "%")
    if is_decimal(result):
        if not decimals.is_narrow(result):
            return per_distinct(values, decimals.EXACT.remainder, result)
        left, right = (decimals.unscaled(value) for value in values)
        return decimals.scaled(_remainders(left, right), all_valid(values), result)
    left, right = (numbers(value) for value in values)
    valid = all_valid(values)
    if pa.types.is_signed_integer(result):
        lowest = np.iinfo(left.dtype).min
        bad = broadcast((left == lowest) & (right == -1), length_of(values))
        refuse(bad, valid, f"overflow in division of {sql_name(result)}; cast an operand to a wider type")
    return made(_remainders(left, right), valid, result)


def _remainders(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend; of null rows, whatever they hold, some number."""
    return np.fmod(left, np.where(right == 0, right.dtype.type(1), right))


@register("**", "operator", "DOUBLE, DOUBLE -> DOUBLE", aliases=("pow", "power", "^"), total=True)
def _power(values: Sequence[Value], result: pa.DataType) -> Value:
    left, right = (numbers(value) for value in values)
    with np.errstate(all="ignore"):
        return made(np.power(left, right), all_valid(values), result)


def _bitwise(values: Sequence[Value], result: pa.DataType, name: str) -> Value:
    if result != HUGEINT:
        return pc.call_function(name, list(values))
    operation = {"bit_wise_and": int.__and__, "bit_wise_or": int.__or__, "bit_wise_xor": int.__xor__}[name]
    return per_distinct(values, lambda a, b: Decimal(operation(int(a), int(b))), result)


@register("&", "operator", same(INTEGERS, 2), total=True)
def _and(values: Sequence[Value], result: pa.DataType) -> Value:
    return _bitwise(values, result, "bit_wise_and")


@register("|", "operator", same(INTEGERS, 2), total=True)
def _or(values: Sequence[Value], result: pa.DataType) -> Value:
    return _bitwise(values, result, "bit_wise_or")


@register("xor", "number", same(INTEGERS, 2), total=True)
def _xor(values: Sequence[Value], result: pa.DataType) -> Value:
    return _bitwise(values, result, "bit_wise_xor")


@register("~", "operator", same(INTEGERS), total=True)
def _not(values: Sequence[Value], result: pa.DataType) -> Value:
    if result == HUGEINT:
        return per_distinct(values, lambda value: Decimal(~int(value)), result)
    return pc.bit_wise_not(values[0])


_SHIFTABLE = tuple(name for name in INTEGERS if name != "HUGEINT")


@register("<<", "operator", same(_SHIFTABLE, 2))
def _shift_left(values: Sequence[Value], result: pa.DataType) -> Value:
    left, right = (broadcast(numbers(value), length_of(values)) for value in values)
    valid = all_valid(values)
    bits = result.bit_width
    if pa.types.is_signed_integer(result):
        refuse(left < 0, valid, "a negative number cannot be shifted left; multiply by a power of two instead")
        refuse(right < 0, valid, "a shift by a negative number of bits is not defined; shift right instead")
    refuse(
        (right >= bits) & (left != 0), valid, f"a shift by {bits} bits or more is out of range for {sql_name(result)}"
    )
    steps = np.clip(right, 0, bits - 1)
    room = np.iinfo(left.dtype).max >> steps
    refuse(left > room, valid, f"overflow in << of {sql_name(result)}; cast the left operand to a wider type")
    return made(np.left_shift(left, steps), valid, result)


@register(">>", "operator", same(_SHIFTABLE, 2), total=True)
def _shift_right(values: Sequence[Value], result: pa.DataType) -> Value:
    left, right = (broadcast(numbers(value), length_of(values)) for value in values)
    outside = (right < 0) | (right >= result.bit_width)
    shifted = np.right_shift(left, np.where(outside, right.dtype.type(0), right))
    return made(np.where(outside, left.dtype.type(0), shifted), all_valid(values), result)
