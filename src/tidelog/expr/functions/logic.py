"""AND, OR, NOT and tests for NULL and truth, in three-valued logic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.functions.registry import register
from tidelog.expr.tree import Node, Value
from tidelog.expr.values.types import BOOLEAN
from tidelog.expr.values.vectors import as_array, length_of, made, valid_rows


def _shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
    # DuckDB casts whatever it finds to BOOLEAN here; what cannot be cast is refused by the cast.
    return [BOOLEAN] * len(arguments), BOOLEAN


@register("and", "operator", _shape, strict=False)
def _and(values: Sequence[Value], _result: pa.DataType) -> Value:
    found = values[0]
    for value in values[1:]:
        found = pc.and_kleene(found, value)
    return found


@register("or", "operator", _shape, strict=False)
def _or(values: Sequence[Value], _result: pa.DataType) -> Value:
    found = values[0]
    for value in values[1:]:
        found = pc.or_kleene(found, value)
    return found


@register("not", "operator", _shape)
def _not(values: Sequence[Value], _result: pa.DataType) -> Value:
    return pc.invert(values[0])


def _any_shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
    return [None] * len(arguments), BOOLEAN


@register("is null", "operator", _any_shape, strict=False)
def _is_null(values: Sequence[Value], result: pa.DataType) -> Value:
    valid = valid_rows(values[0])
    return made(np.zeros(len(values[0]), np.bool_) if valid is None else ~valid, None, result)


@register("is not null", "operator", _any_shape, strict=False)
def _is_not_null(values: Sequence[Value], result: pa.DataType) -> Value:
    valid = valid_rows(values[0])
    return made(np.ones(len(values[0]), np.bool_) if valid is None else valid, None, result)


def _register_truth_test(name: str, wanted: bool, negated: bool) -> None:
    @register(name, "operator", _shape, strict=False)
    def run(values: Sequence[Value], _result: pa.DataType) -> Value:
        value = as_array(values[0], length_of(values))
        found = pc.fill_null(value if wanted else pc.invert(value), False)
        return pc.invert(found) if negated else found


_register_truth_test("is true", True, False)
_register_truth_test("is not true", True, True)
_register_truth_test("is false", False, False)
_register_truth_test("is not false", False, True)
