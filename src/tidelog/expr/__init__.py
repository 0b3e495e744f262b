"""Typed SQL expressions with DuckDB's semantics, evaluated over whole Arrow columns."""

from __future__ import annotations

from tidelog.expr.aggregates.bindings import parse_binding
from tidelog.expr.aggregates.calls import AggregateCall, UserCall
from tidelog.expr.aggregates.parse import parse_aggregate
from tidelog.expr.conditions.condition import ColumnRange
from tidelog.expr.conditions.intervals import Interval
from tidelog.expr.conditions.predicate import Predicate, all_of, predicate
from tidelog.expr.conditions.ranges import column_ranges
from tidelog.expr.errors import EvaluationError, ExpressionError, UnsupportedError
from tidelog.expr.expression import Expression, parse

__all__ = [
    "AggregateCall",
    "ColumnRange",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "Interval",
    "Predicate",
    "UnsupportedError",
    "UserCall",
    "all_of",
    "column_ranges",
    "parse",
    "parse_aggregate",
    "parse_binding",
    "predicate",
]
