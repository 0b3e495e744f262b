"""Typed SQL expressions with DuckDB's semantics, evaluated over whole Arrow columns."""

from __future__ import annotations

from tidelog.expr.aggregates import AggregateCall, parse_aggregate
from tidelog.expr.conditions import ColumnRange
from tidelog.expr.errors import EvaluationError, ExpressionError, UnsupportedError
from tidelog.expr.intervals import Interval
from tidelog.expr.parse import parse
from tidelog.expr.predicate import Predicate, predicate
from tidelog.expr.ranges import column_ranges
from tidelog.expr.tree import Expression
from tidelog.expr.usercalls import UserCall, parse_binding

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
    "column_ranges",
    "parse",
    "parse_aggregate",
    "parse_binding",
    "predicate",
]
