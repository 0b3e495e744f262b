"""What tells the time in a statement tells that of the call, whenever and however often its result is fetched."""

from __future__ import annotations

import datetime
from collections.abc import Set as AbstractSet
from typing import Final

from tidelog.sql.text.tree import Node, Parser, nodes, put

_MOMENTS: Final = {
    "now": "{}",
    "current_timestamp": "{}",
    "get_current_timestamp": "{}",
    "transaction_timestamp": "{}",
    "today": "CAST({} AS DATE)",
    "current_date": "CAST({} AS DATE)",
    "localtimestamp": "CAST({} AS TIMESTAMP)",
    "current_localtimestamp": "CAST({} AS TIMESTAMP)",
    "localtime": "CAST(CAST({} AS TIMESTAMP) AS TIME)",
    "current_localtime": "CAST(CAST({} AS TIMESTAMP) AS TIME)",
    "current_time": "CAST({} AS TIMETZ)",
    "get_current_time": "CAST({} AS TIMETZ)",
}
"""Functions that tell the time, and how it is told for a moment."""
BARE: Final = ("current_timestamp", "current_date", "current_time", "localtime", "localtimestamp")
"""Those that are written without parentheses as well, like columns."""


def moment(node: Node) -> str | None:
    """The name by which a node tells the time; None if it does not."""
    kind = node.get("class")
    if kind == "FUNCTION" and not node["arguments"]:
        name = node["function_name"].lower()
        return name if name in _MOMENTS else None
    if kind == "COLUMN_REF" and len(node["column_names"]) == 1:
        name = node["column_names"][0].lower()
        return name if name in BARE else None
    return None


def put_moments(tree: Node, now: datetime.datetime, columns: AbstractSet[str], parser: Parser) -> None:
    """Put a time in the place of what tells the time, unless a column, whose names are in lower case, is called so."""
    found = [(node, name) for node in nodes(tree) if (name := moment(node)) is not None]
    for node, name in found:
        if node["class"] == "FUNCTION" or name not in columns:
            put(node, parser.expression(_MOMENTS[name].format(f"TIMESTAMPTZ '{now.isoformat(' ')}'")))
