"""Comparisons under DuckDB's order: NaN equals itself and is above everything, text compares by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.functions.registry import meeting_type, register
from tidelog.expr.tree import Column, Literal, Node, Value
from tidelog.expr.values.types import BOOLEAN, INTERVAL, NULL, is_float, is_numeric
from tidelog.expr.values.vectors import (
    Mask,
    all_valid,
    as_array,
    broadcast,
    is_scalar,
    length_of,
    made,
    numbers,
    valid_rows,
)

_KERNELS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}

COMPARISONS = tuple(_KERNELS)

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison that holds for swapped operands."""

NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparison that holds, for operands that are not NULL, where this one does not."""


def _shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType] | None:
    type_ = meeting_type(arguments, "a comparison")
    return None if type_ == INTERVAL else ([type_] * len(arguments), BOOLEAN)


def compare(operator: str, left: Value, right: Value) -> Value:
    """``left operator right`` for values of one type, of which one is an array; NULL where one is."""
    if is_float(left.type):
        valid = all_valid([left, right])
        return made(compare_floats(operator, numbers(left), numbers(right)), valid, BOOLEAN)
    if left.type == NULL:
        return pa.nulls(length_of([left, right]), BOOLEAN)
    return pc.call_function(_KERNELS[operator], [left, right])


def compare_floats(operator: str, left: Any, right: Any) -> Mask:
    """Comparison of NumPy floats, where ``right`` may be of length one."""
    if len(right) == 1 and len(left) != 1:
        return compare_floats_with(operator, left, right[0])
    if len(left) == 1 and len(right) != 1:
        return compare_floats_with(MIRRORED[operator], right, left[0])
    result: Mask
    if operator in (">", ">=", "<>"):
        result = compare_floats(NEGATED[operator], left, right)
        return np.logical_not(result, out=result)
    result = {"=": np.equal, "<": np.less, "<=": np.less_equal}[operator](left, right)
    nan = np.isnan(right)
    if nan.any():
        if operator != "<=":
            np.logical_and(nan, np.isnan(left) if operator == "=" else ~np.isnan(left), out=nan)
        np.logical_or(result, nan, out=result)
    return result


def compare_floats_with(operator: str, values: Any, constant: Any) -> Mask:
    """Comparison of NumPy floats with one number, in a pass or two over the values."""
    result: Mask
    if np.isnan(constant):
        nan = np.isnan(values)
        results = {"=": nan, ">=": nan, "<>": ~nan, "<": ~nan, "<=": np.ones_like(nan), ">": np.zeros_like(nan)}
        result = results[operator]
        return result
    if operator in (">", ">="):  # not <=, not <: so NaN is above
        result = np.less_equal(values, constant) if operator == ">" else np.less(values, constant)
        return np.logical_not(result, out=result)
    function = {"=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal}[operator]
    result = function(values, constant)
    return result


def _register_comparison(operator: str) -> None:
    @register(operator, "operator", _shape)
    def run(values: Sequence[Value], _result: pa.DataType) -> Value:
        return compare(operator, *values)


for _operator in _KERNELS:
    _register_comparison(_operator)


def _distinct(values: Sequence[Value]) -> Mask:
    """Where two values differ, NULL being a value like others."""
    left, right = values
    length = length_of(values)
    different = made(np.zeros(length, np.bool_), np.zeros(length, np.bool_), BOOLEAN)
    if left.type != NULL:
        different = compare("<>", left, right)
    masks = [valid_rows(value) for value in values]
    there = [np.ones(1, np.bool_) if mask is None else mask for mask in masks]
    only_one = broadcast(there[0] != there[1], length)
    return only_one | numbers(different.fill_null(False))


@register("is distinct from", "operator", _shape, strict=False)
def _is_distinct(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(_distinct(values), None, result)


@register("is not distinct from", "operator", _shape, strict=False)
def _is_not_distinct(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(~_distinct(values), None, result)


@register("between", "operator", _shape, strict=False)
def _between(values: Sequence[Value], _result: pa.DataType) -> Value:
    value, low, high = values
    length = length_of(values)
    above, below = (
        compare(operator, as_array(value, length), as_array(bound, length) if bound.type == NULL else bound)
        for operator, bound in ((">=", low), ("<=", high))
    )
    return pc.and_kleene(above, below)


@register("in", "operator", _shape, strict=False)
def _in(values: Sequence[Value], _result: pa.DataType) -> Value:
    value, *members = values
    length = length_of(values)
    value = as_array(value, length)
    if value.type == NULL:
        return pa.nulls(length, BOOLEAN)
    constants = [member for member in members if is_scalar(member)]
    found: Value = None
    if len(constants) > 2 and not is_float(value.type):
        present = [member for member in constants if member.is_valid]
        members = [member for member in members if not is_scalar(member)]
        # Not by way of Python's values: of nanoseconds it has none.
        known = pa.concat_arrays([as_array(member, 1) for member in present]).cast(value.type) if present else None
        hits = None if known is None else pc.is_in(value, known)
        missing = pa.scalar(None if len(present) < len(constants) else False, BOOLEAN)
        found = pa.repeat(missing, length) if hits is None else pc.if_else(hits, True, missing)
        found = pc.if_else(pc.is_valid(value), found, pa.scalar(None, BOOLEAN))
    for member in members:
        equal = compare("=", value, member)
        found = equal if found is None else pc.or_kleene(found, equal)
    return found


def _of_columns(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType] | None:
    """Columns and constants, which cannot raise: of others only some rows are evaluated, and DuckDB does that."""
    if not arguments or not all(isinstance(argument, Column | Literal) for argument in arguments):
        return None
    type_ = meeting_type(arguments, "one list of arguments")
    is_number = all(is_numeric(argument.type) or argument.type == NULL for argument in arguments)
    is_same = all(argument.type in (type_, NULL) for argument in arguments)
    return ([type_] * len(arguments), type_) if type_ != INTERVAL and (is_number or is_same) else None


@register("coalesce", "condition", _of_columns, strict=False, aliases=("ifnull",))
def _coalesce(values: Sequence[Value], result: pa.DataType) -> Value:
    """Only for columns and constants: others are evaluated for the rows that need them alone."""
    length = length_of(values)
    best = as_array(values[0], length)
    for value in values[1:]:
        if best.null_count == 0 or result == NULL:
            break
        best = pc.if_else(pc.is_valid(best), best, as_array(value, length))
    return best
