"""Expressions that operators compute in UTC, whatever the zone of the statement is."""

from __future__ import annotations

import pyarrow as pa

from tidelog.sql.clauses.context import Context
from tidelog.sql.text.tree import Node, nodes


def check_zone(node: Node, schema: pa.Schema, context: Context, what: str) -> None:
    """Raise for what depends on the zone of the statement, if that is another one; ``what`` is what it is part of."""
    if context.timezone.upper() == "UTC":
        return
    columns = [each["column_names"][-1].lower() for each in nodes(node) if each.get("class") == "COLUMN_REF"]
    zoned = {each.name.lower() for each in schema if pa.types.is_timestamp(each.type) and each.type.tz}
    if zoned.isdisjoint(columns):
        return
    for each in nodes(node):
        if not any(inner.get("class") == "COLUMN_REF" for inner in nodes(each)):
            continue
        is_call = each.get("class") == "FUNCTION" and not each["is_operator"] and not context.functions.aggregates(each)
        if each.get("class") == "CAST" or (is_call and not each["function_name"].startswith("to_")):
            raise context.refuse(
                f"found a computation of times with a zone in a {what}, and the statement's zone is "
                f"{context.timezone}; {what}s compute in UTC: compute it in a query in parentheses that is the "
                "input, or outside of the clause",
                each,
            )
