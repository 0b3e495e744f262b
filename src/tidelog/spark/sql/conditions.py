"""Conditions of a plan as texts of ours, with which streams are read: rows that they do not hold for stay there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from tidelog.expr import predicate
from tidelog.expr.errors import ExpressionError
from tidelog.spark.sql.expressions.constants import condition_constant, value_of
from tidelog.spark.sql.types import Unwritable, type_of
from tidelog.sql.text.tree import Node

_SIGNS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}


def texts_of(conditions: Iterable[Node], names: Sequence[str], stored: pa.Schema) -> list[str]:
    """Those of some conditions that ours can say, about columns of some names."""
    found = []
    for each in conditions:
        try:
            text = _text(each, names)
            predicate(text, stored)
        except (Unwritable, ExpressionError, OverflowError):
            continue  # the statement has it too
        found.append(text)
    return found


def _text(node: Node, names: Sequence[str]) -> str:
    what, kind = node["expression_class"], node["type"]
    inside: Sequence[Node] = node.get("children", ())
    if what == "BOUND_CONJUNCTION":
        return "(" + f" {kind.removeprefix('CONJUNCTION_')} ".join(_text(each, names) for each in inside) + ")"
    if what == "BOUND_OPERATOR" and kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        return f"({_operand(inside[0], names)} IS {'NOT ' if 'NOT' in kind else ''}NULL)"
    if what == "BOUND_OPERATOR" and kind == "COMPARE_IN":
        values = [_operand(each, names) for each in inside]
        return f"({values[0]} IN ({', '.join(values[1:])}))"
    if kind in _SIGNS and len(inside) == 2:
        return f"({_operand(inside[0], names)} {_SIGNS[kind]} {_operand(inside[1], names)})"
    raise Unwritable(kind)


def _operand(node: Node, names: Sequence[str]) -> str:
    if node["expression_class"] == "BOUND_CONSTANT":
        return condition_constant(*value_of(node))
    if node["expression_class"] == "BOUND_REF":
        if type_of(node["return_type"]).id in ("LIST", "STRUCT", "BLOB", "TIMESTAMPTZ_NS"):
            raise Unwritable(str(node["return_type"]))
        return '"' + names[int(node["index"])].replace('"', '""') + '"'
    raise Unwritable(node["type"])
