"""What expressions of a row pattern compute of times with a zone, in that of the statement.

The matcher computes in UTC. But what depends on one row alone may as well be a column of the input, which DuckDB
computes in the zone of the statement: ``hour(A.ts)`` is then a column of A, ``hour(PREV(ts))`` one of the row before.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pyarrow as pa

from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.row_pattern.clause import CALL
from tidelog.sql.text.tree import Node, become, nodes, same

_STRICT: Final = frozenset(
    {
        *("date_part", "date_trunc", "datepart", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear"),
        *("hour", "isodow", "isoyear", "last_day", "minute", "month", "monthname", "quarter", "strftime", "timezone"),
        *("week", "weekday", "weekofyear", "year", "yearweek"),
    }
)
"""Functions of times that are NULL where an argument is, so that it does not matter where they are computed."""


def zoned_columns(clause: Node, schema: pa.Schema, variables: frozenset[str], context: Context) -> dict[str, Node]:
    """Put columns in the place of what a clause computes of times with a zone; gives these, as expressions of a row.

    ``variables`` has the names that may stand before columns, in upper case.
    """
    zoned = {each.name.lower() for each in schema if pa.types.is_timestamp(each.type) and each.type.tz}
    if context.timezone.upper() == "UTC" or not zoned:
        return {}
    found: dict[str, Node] = {}
    waiting: list[Any] = [each["expression"] for each in (*clause["defines"], *clause["measures"])]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            _push_in(value)
            if not _put(value, zoned, variables, found):
                waiting += value.values()
    return found


def _push_in(node: Node) -> None:
    """Make ``PREV(hour(ts))`` of ``hour(PREV(ts))``: both are NULL where there is no row."""
    inner = [] if not _is_strict(node) else [each for each in _children(node) if each.get("class") != "CONSTANT"]
    if len(inner) != 1 or inner[0].get("class") != CALL or not inner[0]["arguments"]:
        return
    call = copy.deepcopy(inner[0])
    become(inner[0], call["arguments"][0]["expression"])
    call["arguments"][0]["expression"] = copy.deepcopy(node)
    become(node, call)
    _push_in(node["arguments"][0]["expression"])


def _children(node: Node) -> list[Node]:
    return [node["child"]] if node["class"] == "CAST" else [each["expression"] for each in node["arguments"]]


def _put(node: Node, zoned: set[str], variables: frozenset[str], found: dict[str, Node]) -> bool:
    """Put a column in the place of a node, if it is computed of times with a zone of one row; whether it is."""
    if not _is_strict(node) or not all(map(_is_plain, _children(node))):
        return False
    columns = [each["column_names"] for each in nodes(node) if each.get("class") == "COLUMN_REF"]
    if not columns:
        return False
    before = {each[0].upper() if len(each) == 2 else "" for each in columns}
    if len(before) != 1 or max(map(len, columns)) > 2 or not before <= {"", *variables}:
        return False
    if zoned.isdisjoint(each[-1].lower() for each in columns):
        return False
    own = copy.deepcopy(node)
    own["alias"] = ""
    for each in nodes(own):
        if each.get("class") == "COLUMN_REF":
            each["column_names"] = each["column_names"][-1:]
    name = next((name for name, known in found.items() if same(known, own)), f"#zoned {len(found)}")
    found.setdefault(name, own)
    place: Node = {each: node[each] for each in ("query_location", "query_location_length") if each in node}
    become(node, {"class": "COLUMN_REF", "type": "COLUMN_REF", **place, "column_names": [*columns[0][:-1], name]})
    return True


def _is_strict(node: Node) -> bool:
    if node.get("class") == "CAST":
        return not node.get("try_cast", False)
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in _STRICT and "mode" not in node


def _is_plain(node: Node) -> bool:
    is_value = node.get("class") in ("COLUMN_REF", "CONSTANT")
    return is_value or (_is_strict(node) and all(map(_is_plain, _children(node))))
