"""Aggregates that take one event by its time, where DuckDB computes them: events of one time are told apart too.

DuckDB takes any of several events of one time, and for ``first(x)`` any event at all, because its threads take turns at
what is read. A stream has an order, (time, ``_seq``), in which it is read: so its rows are numbered as they come, and
DuckDB is asked for the value of the least or the greatest number. Nothing more is read for that, not even times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidelog.sql.planning.blocks import Block, quoted
from tidelog.sql.planning.calls import Functions, aggregates_of, by_time
from tidelog.sql.reading.dataset import PLACE_FIELD
from tidelog.sql.text.tree import Node, become, nodes

_BY_PLACE: Final = {
    (False, True): "arg_min",
    (True, True): "arg_max",
    (False, False): "arg_min_null",
    (True, False): "arg_max_null",
}
"""By whether it takes the last one, and whether among those without null."""


def go_by_places(block: Block, functions: Functions) -> None:
    """Have aggregates that take one event by its time take the first or last one by (time, ``_seq``)."""
    found = [(node, end) for node in aggregates_of(block, functions) if (end := by_time(block, node)) is not None]
    if not found or _shows_all_columns(block):
        return
    block.relation.number_rows()
    taken = {id(node) for node, _ in found}
    for item in block.select["select_list"]:
        if not item["alias"] and any(id(node) in taken for node in nodes(item)):
            item["alias"] = block.parser.print_expression(item)
    place = f"{quoted(block.alias)}.{quoted(PLACE_FIELD.name)}"
    for node, end in found:
        call = block.parser.expression(f"{_BY_PLACE[end]}(NULL, {place})")
        call["arguments"][0] = node["arguments"][0]
        call["filter"] = node["filter"]
        become(node, call)


def _shows_all_columns(block: Block) -> bool:
    """Whether a column more would be seen."""
    select = {name: value for name, value in block.select.items() if name != "modifiers"}  # ORDER BY ALL is a *
    if any(node.get("class") == "STAR" for node in _own(select)):
        return True
    references = (node for node in nodes(block.select) if node.get("class") == "COLUMN_REF")
    return any(node["column_names"][-1].lower() == block.alias.lower() for node in references)


def _own(node: Any) -> Iterator[Node]:
    """The nodes of a selection, without those of selections inside of it."""
    if isinstance(node, list):
        for each in node:
            yield from _own(each)
    elif isinstance(node, dict) and node.get("class") != "SUBQUERY":
        yield node
        for name, value in node.items():
            if name != "cte_map":
                yield from _own(value)
