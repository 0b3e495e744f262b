"""Filters that DuckDB offers to a scan, as conditions of ours.

They come as trees of comparisons of columns with constants (``duckdb._sources.nodes``). What ours cannot say is
refused: DuckDB applies it to the rows.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from duckdb._sources.nodes import Binary, Col, In, Lit, Node, Postfix, Unary

_OPERATORS: Final = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "AND": "AND", "OR": "OR"}
_MOST_MEMBERS: Final = 100_000
"""Members of a list that are taken along; DuckDB looks them up as fast where there are more."""
_INTEGERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
_MOMENTS: Final = frozenset({"TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S"})
_EPOCH: Final = datetime.datetime(1970, 1, 1)


class _Unsaid(Exception):
    """A filter with something that ours cannot say."""


class Condition(NamedTuple):
    """A condition in SQL, and the columns it is about."""

    text: str
    columns: frozenset[str]


def condition_of(filter: Node) -> Condition | None:
    """What a filter says; None if ours cannot say it."""
    try:
        return Condition(_text(filter), frozenset(_columns(filter)))
    except (_Unsaid, RecursionError):
        return None


def _columns(node: Node) -> Iterator[str]:
    if isinstance(node, Col):
        yield node.parts[0]
    for each in node._children():
        yield from _columns(each)


def _text(node: Node) -> str:
    match node:
        case Binary(op=op, left=left, right=right) if op in _OPERATORS:
            return f"({_text(left)} {_OPERATORS[op]} {_text(right)})"
        case Unary(op="NOT", operand=operand):
            return f"(NOT {_text(operand)})"
        case Postfix(op="IS NULL" | "IS NOT NULL" as op, operand=operand):
            return f"({_text(operand)} {op})"
        case In(operand=operand, values=values) if len(values) <= _MOST_MEMBERS:
            return f"({_text(operand)} IN ({', '.join(map(_text, values))}))"
        case Col(parts=(name,)):
            return '"' + name.replace('"', '""') + '"'
        case Lit(value=value, type=kind):
            return _constant(value, kind)
    raise _Unsaid


def _constant(value: Any, kind: str) -> str:
    match value:
        case bool() if kind == "BOOLEAN":
            return "TRUE" if value else "FALSE"
        case int() if kind in _INTEGERS:
            return str(value)
        case int() if kind == "TIMESTAMP WITH TIME ZONE":
            return f"TIMESTAMPTZ '{_moment(_EPOCH + datetime.timedelta(microseconds=value))}+00'"
        case float() if kind in ("FLOAT", "DOUBLE"):
            return f"CAST('{value!r}' AS {kind})" if math.isfinite(value) else f"CAST('{value}' AS {kind})"
        case decimal.Decimal() if kind.startswith("DECIMAL"):
            return f"CAST('{value:f}' AS {kind})"
        case str() if kind == "VARCHAR" and "\x00" not in value:
            return "'" + value.replace("'", "''") + "'"
        case datetime.datetime() if kind in _MOMENTS:
            return f"CAST('{_moment(value)}' AS TIMESTAMP)"
        case datetime.date() if kind == "DATE":
            return f"DATE '{value.isoformat()}'"
    raise _Unsaid


def _moment(value: datetime.datetime) -> str:
    return value.isoformat(" ", "microseconds")
