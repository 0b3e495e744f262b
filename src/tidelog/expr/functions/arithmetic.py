"""Arithmetic on numbers. DuckDB does that on instants and intervals, and bitwise operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.functions.signatures import register, same
from tidelog.expr.tree import Literal, Node, Value
from tidelog.expr.values import decimals
from tidelog.expr.values.types import (
    DOUBLE,
    INTEGERS,
    NULL,
    WIDEST_DECIMAL,
    common_decimal,
    decimal_shape,
    decimal_type,
    is_decimal,
    is_float,
    sql_name,
)
from tidelog.expr.values.vectors import all_valid, broadcast, length_of, made, numbers, refuse

NUMERIC = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")


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


@register(
    "+",
    "operator",
    same(NUMERIC) + ";" + same(NUMERIC, 2),
    aliases=("add",),
    decimals=_sum_shape,
)
def _add(values: Sequence[Value], result: pa.DataType) -> Value:
    if len(values) == 1:
        return values[0]
    left, right = values
    if is_decimal(result):
        return decimals.add(left, right, result)
    return _checked("add_checked", values, result, "addition")


@register(
    "-",
    "operator",
    same(NUMERIC) + ";" + same(NUMERIC, 2),
    aliases=("subtract",),
    decimals=_sum_shape,
)
def _subtract(values: Sequence[Value], result: pa.DataType) -> Value:
    if len(values) == 1:
        return _negate(values[0], result)
    left, right = values
    if is_decimal(result):
        return decimals.subtract(left, right, result)
    return _checked("subtract_checked", values, result, "subtraction")


def _negate(value: Value, result: pa.DataType) -> Value:
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
    same(NUMERIC, 2),
    aliases=("multiply",),
    decimals=_product_shape,
)
def _multiply(values: Sequence[Value], result: pa.DataType) -> Value:
    left, right = values
    if is_decimal(result):
        return decimals.multiply(left, right, result)
    return _checked("multiply_checked", values, result, "multiplication")


@register("/", "operator", same(("FLOAT", "DOUBLE"), 2))
def _divide(values: Sequence[Value], _result: pa.DataType) -> Value:
    return pc.divide(*values)  # by zero: infinity or NaN, as IEEE 754 has it


def _refuse_zero(values: Sequence[Value], operator: str) -> None:
    bad = broadcast(numbers(values[1]) == 0, length_of(values))
    refuse(bad, all_valid(values), f"division by zero in {operator}; use NULLIF(divisor, 0) to get NULL instead")


@register("//", "operator", same((*INTEGERS, "FLOAT", "DOUBLE"), 2), aliases=("divide",))
def _divide_whole(values: Sequence[Value], result: pa.DataType) -> Value:
    """Of integers of up to 64 bits and floats; DuckDB divides the others."""
    _refuse_zero(values, "//")
    return pc.divide(*values) if is_float(result) else _checked("divide_checked", values, result, "division")


@register("%", "operator", same(NUMERIC, 2), aliases=("mod",))
def _remainder(values: Sequence[Value], result: pa.DataType) -> Value:
    """Of the same."""
    left, right = (numbers(value) for value in values)
    valid = all_valid(values)
    if is_float(result):
        with np.errstate(invalid="ignore"):
            return made(np.fmod(left, right), valid, result)
    _refuse_zero(values, "%")
    if pa.types.is_signed_integer(result):
        lowest = np.iinfo(left.dtype).min
        bad = broadcast((left == lowest) & (right == -1), length_of(values))
        refuse(bad, valid, f"overflow in division of {sql_name(result)}; cast an operand to a wider type")
    return made(np.fmod(left, np.where(right == 0, right.dtype.type(1), right)), valid, result)
