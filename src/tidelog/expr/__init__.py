"""Typed SQL expressions with DuckDB's semantics, evaluated over whole Arrow columns."""

from __future__ import annotations

from tidelog.expr.errors import EvaluationError, ExpressionError, UnsupportedError
from tidelog.expr.parse import parse
from tidelog.expr.tree import Expression

__all__ = [
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "UnsupportedError",
    "parse",
]
