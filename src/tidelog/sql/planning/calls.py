"""The aggregates of a selection: which of them the index can answer, and as what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import Clock
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.plan.answers import AtEnd, is_kept
from tidelog.sql.planning.blocks import Block, NotSo, quoted
from tidelog.sql.planning.conditions.monotone import interval_of
from tidelog.sql.text.tree import Node, nodes

_OF_ENTRIES: Final = frozenset({"count", "sum", "avg", "min", "max"})
"""What the index knows of every column."""
_KEPT: Final = frozenset({"first", "last", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"})
"""Functions of DuckDB that a stream can keep states of."""
SAME: Final = {"mean": "avg", "arbitrary": "first"}
_BY: Final = {
    "arg_min": (False, True),
    "argmin": (False, True),
    "min_by": (False, True),
    "arg_max": (True, True),
    "argmax": (True, True),
    "max_by": (True, True),
    "arg_min_null": (False, False),
    "arg_max_null": (True, False),
}
"""Whether such a function, of a value and a time, takes the last one, and whether without nulls."""
_OF_ORDER: Final = {"first": (False, False), "last": (True, False), "any_value": (False, True)}
"""The same of functions that take their rows in some order."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The names of functions that aggregate, in lower case."""

    of_duckdb: frozenset[str]
    own: frozenset[str]
    """Those that are tidelog's alone."""

    def aggregates(self, node: Node) -> bool:
        """Whether a node is a call of one."""
        if node.get("class") != "FUNCTION":
            return False
        name = node["function_name"].lower()
        return name in self.of_duckdb or name in self.own

    def is_own(self, node: Node) -> bool:
        """Whether a node is a call of one that DuckDB does not know."""
        return node.get("class") == "FUNCTION" and node["function_name"].lower() in self.own


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate that the index answers."""

    node: Node
    text: str
    """The call, about columns of the stream."""
    within: Interval = ALL_TIME
    """The times of the events that count."""
    end: AtEnd | None = None
    """What it is of the events at one end, if it is that."""
    own: bool = False
    """Whether only tidelog knows it."""

    @property
    def asked(self) -> str:
        """The call as tidelog computes it."""
        if self.end is None:
            return self.text
        column, function = quoted(self.end.column), "last" if self.end.last else "first"
        return f"{function}({column})" + (f" FILTER (WHERE {column} IS NOT NULL)" if self.end.skips_nulls else "")

    @property
    def probe(self) -> str:
        """A call that DuckDB gives the same type."""
        return self.text if self.end is None else f"first({quoted(self.end.column)})"

    @property
    def key(self) -> tuple[str, Interval]:
        """What is equal for calls with the same answers."""
        return self.text, self.within

    def shown(self, clock: Clock) -> str:
        """The call with the times that count."""
        if self.within == ALL_TIME:
            return self.text
        start, end = (None if each is None else clock.format(each) for each in (self.within.start, self.within.end))
        return f"{self.text} from {start or 'the beginning'} to {end or 'the end'}"


def parts(block: Block) -> list[object]:
    """The parts of a selection that may have aggregates."""
    select = block.select
    return [select["select_list"], select["having"], select["modifiers"]]


def aggregates_of(block: Block, functions: Functions) -> Iterator[Node]:
    """The aggregates of a selection."""
    return (node for node in nodes(parts(block)) if functions.aggregates(node))


def call_of(block: Block, node: Node, functions: Functions) -> Call:
    """An aggregate as one that the index answers. Raises :class:`NotSo` if it is none."""
    if functions.is_own(node):
        if node["distinct"] or node["order_bys"]["orders"]:
            raise NotSo(f"{block.text(node)} takes neither DISTINCT nor an order")
        return Call(node, block.text(node), own=True)
    name = node["function_name"].lower()
    name = SAME.get(name, name)
    if node["distinct"]:
        raise NotSo(f"{block.text(node)} takes the events")
    end = by_time(block, node)
    if end is None and (node["order_bys"]["orders"] or name not in _OF_ENTRIES | _KEPT | {"count_star"}):
        raise NotSo(f"{block.text(node)} takes the events")
    try:
        within = interval_of(block, node["filter"])
    except NotSo as reason:
        raise NotSo(f"{block.text(node)} takes the events: {reason}") from None
    if name == "count_star" or (name == "count" and not node["arguments"]):
        return Call(node, "count(*)", within)
    column = block.column(node["arguments"][0]["expression"]) if node["arguments"] else None
    if column is None or (end is None and len(node["arguments"]) != 1):
        raise NotSo(f"{block.text(node)} is not of a column alone")
    options = block.relation.stream.options
    if end is not None:
        last, skips_nulls = end
        time = block.relation.stream.time
        if skips_nulls:
            text = f"{'arg_max' if last else 'arg_min'}({quoted(column)}, {quoted(time)})"
            return Call(node, text, within, AtEnd(column, last, True))
        name = "last" if last else "first"
        kept = is_kept(options, name, column)
        return Call(node, f"{name}({quoted(column)})", within, None if kept else AtEnd(column, last, False))
    if name in _KEPT and not is_kept(options, name, column):
        raise NotSo(f"{block.text(node)} takes the events: the stream does not keep it")
    if name == "avg" and pa.types.is_decimal(block.relation.schema.field(column).type):
        raise NotSo(f"{block.text(node)} is rounded by DuckDB in a way of its own")
    return Call(node, f"{name}({quoted(column)})", within)


def by_time(block: Block, node: Node) -> tuple[bool, bool] | None:
    """Of an aggregate that takes one event by its time: whether the last one, and whether among those without null.

    None if it is something else. Rows of a stream come in the order of their times, so what takes the first row that
    comes takes the first event.
    """
    name = node["function_name"].lower()
    name = SAME.get(name, name)
    orders, arguments = node["order_bys"]["orders"], node["arguments"]
    time = block.relation.stream.time
    if node["distinct"]:
        return None
    if name in _BY:
        is_by_time = len(arguments) == 2 and not orders and block.column(arguments[1]["expression"]) == time
        return _BY[name] if is_by_time else None
    if name not in _OF_ORDER or len(arguments) != 1:
        return None
    last, skips_nulls = _OF_ORDER[name]
    if not orders:
        return last, skips_nulls
    columns = [block.column(each["expression"]) for each in orders]
    descending = {each["type"] == "DESCENDING" for each in orders}
    if columns not in ([time], [time, SEQUENCE_COLUMN]) or len(descending) > 1:
        return None
    return last != descending.pop(), skips_nulls
