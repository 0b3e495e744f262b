"""What expressions of a row pattern compute of single rows, and the matcher cannot, or asks DuckDB for.

The matcher computes in UTC, and knows no fields of structs; of lists and times of day DuckDB tells it. But what depends
on one row alone may as well be a column of the input, which DuckDB computes in the zone of the statement:
``hour(A.ts)`` is then a column of A, ``hour(PREV(ts))`` one of the row before, and ``A.place.lat`` one as well.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidelog.expr.values.types import sql_type
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.row_pattern.clause import CALL
from tidelog.sql.clauses.row_pattern.expressions import parameters_of
from tidelog.sql.text.tree import Node, become, nodes, same

_STRICT: Final = frozenset(
    {
        *("date_part", "date_trunc", "datepart", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear"),
        *("hour", "isodow", "isoyear", "last_day", "minute", "month", "monthname", "quarter", "second", "strftime"),
        *("timezone", "week", "weekday", "weekofyear", "year", "yearweek", "epoch", "epoch_ms", "epoch_us", "epoch_ns"),
        *("len", "length", "array_length", "struct_extract", "array_extract", "list_extract", "list_element"),
    }
)
"""Functions that are NULL where an argument is, so that it does not matter where they are computed."""
_PARTS: Final = frozenset({"STRUCT_EXTRACT", "ARRAY_EXTRACT", "ARRAY_SLICE"})
"""Operators of which the same is true."""


def computed_columns(clause: Node, schema: pa.Schema, variables: frozenset[str], context: Context) -> dict[str, Node]:
    """Put columns in the place of what a clause computes of such columns; gives these, as expressions of a row.

    ``variables`` has the names that may stand before columns, in upper case.
    """
    is_utc = context.timezone.upper() == "UTC"
    special = {
        each.name.lower()
        for each in schema
        if sql_type(each.type) is None or (not is_utc and pa.types.is_timestamp(each.type) and each.type.tz)
    }
    putter = _Putter(special, variables)
    for each in (*clause["defines"], *clause["measures"]) if special else ():
        own = each["expression"]
        lambdas = (inner for inner in nodes(own) if inner.get("class") == "LAMBDA")
        putter.put(own, frozenset(name for inner in lambdas for name in parameters_of(inner)))
    return putter.found


@dataclass(frozen=True, slots=True)
class _Putter:
    special: set[str]
    """The columns that the matcher does not compute with, in lower case."""
    variables: frozenset[str]
    found: dict[str, Node] = field(default_factory=dict)

    def put(self, value: Any, bound: frozenset[str]) -> None:
        """Put columns in the place of what is inside; ``bound`` has the parameters of lambdas."""
        if isinstance(value, list):
            for each in value:
                self.put(each, bound)
        elif isinstance(value, dict):
            self._push_in(value)
            if not self._put(value, bound):
                for each in value.values():
                    self.put(each, bound)

    def _push_in(self, node: Node) -> None:
        """Make ``PREV(hour(ts))`` of ``hour(PREV(ts))``: both are NULL where there is no row."""
        inner = [] if not _is_strict(node) else [each for each in _children(node) if each.get("class") != "CONSTANT"]
        if len(inner) != 1 or inner[0].get("class") != CALL or not inner[0]["arguments"]:
            return
        if inner[0]["function_name"].lower() == "classifier" or not self._is_special(inner[0]):
            return
        call = copy.deepcopy(inner[0])
        become(inner[0], call["arguments"][0]["expression"])
        call["arguments"][0]["expression"] = copy.deepcopy(node)
        become(node, call)
        self._push_in(node["arguments"][0]["expression"])

    def _put(self, node: Node, bound: frozenset[str]) -> bool:
        """Put a column in the place of a node, if it is computed of such columns of one row; whether it is."""
        if not _is_plain(node) or node["class"] == "CONSTANT" or not self._is_special(node):
            return False
        columns = [each["column_names"] for each in nodes(node) if each.get("class") == "COLUMN_REF"]
        labels = {self._label(each) for each in columns}
        if len(labels) != 1 or any(each[0].lower() in bound for each in columns):
            return False
        (label,) = labels
        if node["class"] == "COLUMN_REF" and len(columns[0]) == len(label) + 1:
            return False  # the column itself
        own = copy.deepcopy(node)
        own["alias"] = ""
        for each in nodes(own):
            if each.get("class") == "COLUMN_REF":
                each["column_names"] = each["column_names"][len(label) :]
        name = next((name for name, known in self.found.items() if same(known, own)), f"#computed {len(self.found)}")
        self.found.setdefault(name, own)
        place: Node = {each: node[each] for each in ("query_location", "query_location_length") if each in node}
        names = [*columns[0][: len(label)], name]
        become(node, {"class": "COLUMN_REF", "type": "COLUMN_REF", **place, "column_names": names})
        return True

    def _label(self, names: list[str]) -> tuple[str, ...]:
        """The variable that a column is of, in upper case; nothing if it is of any row."""
        return (names[0].upper(),) if len(names) > 1 and names[0].upper() in self.variables else ()

    def _is_special(self, node: Node) -> bool:
        refs = (each["column_names"] for each in nodes(node) if each.get("class") == "COLUMN_REF")
        return any(each[len(self._label(each))].lower() in self.special for each in refs)


def _children(node: Node) -> list[Node]:
    if node["class"] == "CAST":
        return [node["child"]]
    if node["class"] == "OPERATOR":
        return list(node["children"])
    return [each["expression"] for each in node["arguments"]]


def _is_strict(node: Mapping[str, Any]) -> bool:
    if node.get("class") == "CAST":
        return not node.get("try_cast", False)
    if node.get("class") == "OPERATOR":
        return node["type"] in _PARTS
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in _STRICT and "mode" not in node


def _is_plain(node: Node) -> bool:
    is_value = node.get("class") in ("COLUMN_REF", "CONSTANT")
    return is_value or (_is_strict(node) and all(map(_is_plain, _children(node))))
