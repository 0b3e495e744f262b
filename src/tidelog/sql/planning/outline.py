"""Selections of aggregates whose rows are those of a table of groups, as they are: DuckDB has nothing to add.

To bind a statement over a table of a few rows, and to run it, takes DuckDB longer than most answers take to find. So
where all items are aggregates and groups themselves, ordered by the bucket at most, the rows are put together here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.sql.planning.blocks import Block
from tidelog.sql.text.tree import Node


@dataclass(frozen=True, slots=True)
class Outline:
    """How the rows of a selection are made of a table of groups."""

    columns: tuple[str, ...]
    """The columns of the table that items are."""
    names: tuple[str, ...]
    """What they are called, each once."""
    is_reversed: bool = False
    offset: int = 0
    limit: int | None = None

    def rows(self, groups: pa.Table) -> pa.Table:
        """The rows, of groups in the order of their buckets if there is one."""
        rows = pa.table([groups.column(name) for name in self.columns], list(self.names))
        if self.is_reversed:
            rows = rows.take(np.arange(len(rows))[::-1])
        return rows if self.limit is None and not self.offset else rows.slice(self.offset, self.limit)


@dataclass(frozen=True, slots=True)
class Told:
    """The rows of a statement, which planning has found."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.table.schema

    def rows(self) -> pa.Table | None:
        """The rows of the result."""
        return self.table


def outline(
    block: Block, groups: Sequence[Node], column: Callable[[Node], str | None], names: Sequence[str]
) -> Outline | None:
    """How the rows of a selection, as it was written, are made of groups; None if more is to be done.

    ``column`` tells the column of an aggregate or a group. Conditions of ``HAVING`` are not looked at.
    """
    select = block.select
    if select["qualify"] or select["sample"] or select["cte_map"]["map"]:
        return None
    columns = [name for item in select["select_list"] if (name := column(item)) is not None]
    if len(columns) < len(select["select_list"]) or len({name.lower() for name in names}) < len(names):
        return None
    modifiers = {each["type"]: each for each in select["modifiers"]}
    order, limit = modifiers.pop("ORDER_MODIFIER", None), modifiers.pop("LIMIT_MODIFIER", None)
    if modifiers:
        return None
    is_reversed = False
    if order is not None:
        found = _is_descending(block, groups[0], order["orders"]) if len(groups) == 1 else None
        if found is None:
            return None
        is_reversed = found
    if limit is None:
        return Outline(tuple(columns), tuple(names), is_reversed)
    numbers = [_number(limit[name]) for name in ("offset", "limit")]
    if limit["limit_type"] != "ROW_COUNT" or (numbers[0] is None and limit["offset"] is not None) or numbers[1] is None:
        return None
    return Outline(tuple(columns), tuple(names), is_reversed, numbers[0] or 0, numbers[1])


def _is_descending(block: Block, group: Node, orders: Sequence[Node]) -> bool | None:
    """Whether rows are ordered by their bucket from the last one on; None if they are ordered by something else."""
    if group.get("class") != "FUNCTION" or len(orders) != 1:
        return None
    by, items = orders[0]["expression"], block.select["select_list"]
    place = _number(by)
    if place is not None:
        by = items[place - 1] if 1 <= place <= len(items) else by
    elif by.get("class") == "COLUMN_REF" and len(by["column_names"]) == 1:
        name = by["column_names"][0].lower()
        by = next((item for item in items if item["alias"].lower() == name), by)
    return orders[0]["type"] == "DESCENDING" if by is group or block.alike(by, group) else None


def _number(node: Node | None) -> int | None:
    """A whole number that is written."""
    literal = {} if node is None or node.get("class") != "CONSTANT" else node["literal"]
    found = int(literal["text"]) if literal.get("kind") == "INTEGER" else None
    return found if found is not None and found < 1 << 62 else None
