"""Arithmetic on integers of up to 64 bits and floats. DuckDB does all other, on decimals, instants and intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.functions.registry import meeting_type, register
from tidelog.expr.tree import Literal, Node, Value
from tidelog.expr.values.types import DOUBLE, FLOAT, NULL, is_decimal, is_float, is_numeric, sql_name
from tidelog.expr.values.vectors import all_valid, broadcast, length_of, made, numbers, refuse


def _shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType] | None:
    """Operands take on the type in which they meet, one of theirs, and it is the result's."""
    if any(isinstance(each, Literal) and each.is_loose_string for each in arguments):
        return None  # a number, or an interval
    if not 1 <= len(arguments) <= 2 or not all(is_numeric(each.type) or each.type == NULL for each in arguments):
        return None
    try:
        type_ = meeting_type(arguments, "arithmetic")
    except ExpressionError:
        return None
    is_theirs = type_ != NULL and type_ in [each.type for each in arguments]
    return ([type_] * len(arguments), type_) if is_theirs and not is_decimal(type_) else None


def _of_two(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType] | None:
    return _shape(arguments) if len(arguments) == 2 else None


def _quotient(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType] | None:
    types = [each.type for each in arguments]
    if _of_two(arguments) is None or NULL in types:
        return None
    type_ = FLOAT if FLOAT in types and DOUBLE not in types else DOUBLE
    return [type_, type_], type_


def _checked(name: str, values: Sequence[Value], result: pa.DataType, what: str) -> Value:
    """An Arrow kernel on integers (overflow raises) or on floats (it gives infinity)."""
    if is_float(result):
        return pc.call_function(name.removesuffix("_checked"), list(values))
    try:
        return pc.call_function(name, list(values))
    except pa.ArrowInvalid:
        message = f"overflow in {what} of {sql_name(result)}; cast an operand to a wider type"
        raise EvaluationError(message) from None


@register("+", "operator", _shape, aliases=("add",))
def _add(values: Sequence[Value], result: pa.DataType) -> Value:
    return values[0] if len(values) == 1 else _checked("add_checked", values, result, "addition")


@register("-", "operator", _shape, aliases=("subtract",))
def _subtract(values: Sequence[Value], result: pa.DataType) -> Value:
    return (
        _negate(values[0], result) if len(values) == 1 else _checked("subtract_checked", values, result, "subtraction")
    )


def _negate(value: Value, result: pa.DataType) -> Value:
    if pa.types.is_unsigned_integer(result):
        refuse(
            numbers(value) != 0,
            all_valid([value]),
            f"overflow in negation of {sql_name(result)}; cast to a signed type",
        )
        return value
    return _checked("negate_checked", [value], result, "negation")


@register("*", "operator", _of_two, aliases=("multiply",))
def _multiply(values: Sequence[Value], result: pa.DataType) -> Value:
    return _checked("multiply_checked", values, result, "multiplication")


@register("/", "operator", _quotient)
def _divide(values: Sequence[Value], _result: pa.DataType) -> Value:
    return pc.divide(*values)  # by zero: infinity or NaN, as IEEE 754 has it


def _refuse_zero(values: Sequence[Value], operator: str) -> None:
    bad = broadcast(numbers(values[1]) == 0, length_of(values))
    refuse(bad, all_valid(values), f"division by zero in {operator}; use NULLIF(divisor, 0) to get NULL instead")


@register("//", "operator", _of_two, aliases=("divide",))
def _divide_whole(values: Sequence[Value], result: pa.DataType) -> Value:
    _refuse_zero(values, "//")
    return pc.divide(*values) if is_float(result) else _checked("divide_checked", values, result, "division")


@register("%", "operator", _of_two, aliases=("mod",))
def _remainder(values: Sequence[Value], result: pa.DataType) -> Value:
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
