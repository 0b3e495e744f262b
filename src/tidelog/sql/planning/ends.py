"""``ORDER BY time LIMIT n`` and plain ``LIMIT n``: only one end of a stream is read."""

from __future__ import annotations

from typing import Final

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.plan.reading import End
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.planning.calls import Functions
from tidelog.sql.text.tree import Node, nodes

_MOST_ROWS: Final = 1_000_000
"""Rows of an end that is worth reading by itself: more are sorted by DuckDB just as fast."""


def read_one_end(block: Block, functions: Functions) -> End:
    """Have a selection read one end of its stream, as much as its limit takes. Raises :class:`NotSo` if it needs more.

    What is read satisfies the condition as a whole, so that the statement, which is left as it is, finds its rows.
    """
    select = block.select
    limit = order = None
    for modifier in select["modifiers"]:
        if modifier["type"] == "LIMIT_MODIFIER":
            limit = modifier
        elif modifier["type"] == "ORDER_MODIFIER":
            order = modifier
        else:
            raise NotSo("rows that come twice are left out")
    if limit is None:
        raise NotSo("there is no LIMIT")
    rows = _rows(limit)
    _refuse_more(block, functions)
    newest_first = False if order is None else is_descending(block, order)
    where = select["where_clause"]
    if where is not None:
        block.relation.where = str(block.condition(where))
    block.relation.end = End(rows, newest_first)
    return block.relation.end


def _rows(limit: Node) -> int:
    if limit["limit_type"] != "ROW_COUNT":
        raise NotSo("the limit is a share of the rows")
    rows = 0
    for name in ("limit", "offset"):
        value = limit[name]
        if value is None:
            if name == "limit":
                raise NotSo("there is no LIMIT")
            continue
        literal = value.get("literal", {})
        if value["class"] != "CONSTANT" or literal.get("kind") != "INTEGER":
            raise NotSo("the limit is no plain number")
        rows += int(literal["text"])
    if rows > _MOST_ROWS:
        raise NotSo(f"more than {_MOST_ROWS:,} rows are wanted")
    return rows


def _refuse_more(block: Block, functions: Functions) -> None:
    """Raise unless every row that is read makes one row of the result."""
    select = block.select
    if select["group_expressions"] or select["having"] or select["aggregate_handling"] != "STANDARD_HANDLING":
        raise NotSo("rows are grouped")
    if select["qualify"] or select["sample"] or block.table["sample"]:
        raise NotSo("rows are chosen after they were read")
    for node in nodes(select["select_list"]):
        if node.get("class") == "WINDOW":
            raise NotSo("a window looks at other rows")
        if functions.aggregates(node) or (
            node.get("class") == "FUNCTION" and node["function_name"].lower() == "unnest"
        ):
            raise NotSo(f"{node['function_name']} makes one row of many, or many of one")
        if node.get("class") == "SUBQUERY":
            raise NotSo("there is a subquery beside it")


def is_descending(block: Block, order: Node) -> bool:
    """Whether rows are ordered by time from the last one on. Raises :class:`NotSo` if not by time alone."""
    orders = order["orders"]
    time = block.relation.stream.time
    columns = [_ordered_by(block, each["expression"]) for each in orders]
    descending = {each["type"] == "DESCENDING" for each in orders}
    if columns not in ([time], [time, SEQUENCE_COLUMN]) or len(descending) > 1:
        raise NotSo(f"rows are not ordered by {time} alone")
    for item in block.select["select_list"]:  # a name that means something else here
        alias = item.get("alias", "").lower()
        if alias in (str(each).lower() for each in columns) and str(block.column(item)).lower() != alias:
            raise NotSo(f"{alias} is the name of something else")
    return True in descending


def _ordered_by(block: Block, node: Node) -> str | None:
    """The stored column that rows are ordered by: by its name, or that of an item of the selection, or its place."""
    items = block.select["select_list"]
    if node.get("class") == "CONSTANT" and node["literal"].get("kind") == "INTEGER":
        before = items[: int(node["literal"]["text"])]
        return None if not before or any(each.get("class") == "STAR" for each in before) else block.column(before[-1])
    if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
        name = node["column_names"][0].lower()
        named = next((item for item in items if item.get("alias", "").lower() == name), None)
        return block.column(node if named is None else named)
    return block.column(node)
