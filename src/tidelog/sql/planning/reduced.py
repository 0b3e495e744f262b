"""Aggregates of a stream that take its events, which are reduced to one row for each group before DuckDB gets them.

What DuckDB takes the most time for is groups: it hashes keys row by row, texts above all. A scan knows more: texts come
as numbers, and buckets of time as stretches of rows. So of a selection whose groups are columns and buckets of time,
and whose aggregates can be put together from parts, batches of rows become batches of groups
(:mod:`tidelog.plan.partial`), and the selection one of these: a sum of sums, a maximum of maxima. What is around the
aggregates stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.expr import Expression, Predicate, parse
from tidelog.expr.errors import ExpressionError
from tidelog.plan.partial.groups import Buckets, likely_groups
from tidelog.plan.partial.reducer import SLICE_ROWS, Reducer, State, bucket_name, can_keep, state_name
from tidelog.plan.reading import End, estimate, read
from tidelog.sql.planning.blocks import Block, NotSo, quoted
from tidelog.sql.planning.buckets import FUNCTIONS as BUCKETS
from tidelog.sql.planning.buckets import buckets
from tidelog.sql.planning.calls import SAME, Functions, parts
from tidelog.sql.planning.selection import (
    described,
    meant,
    native_condition,
    refuse_other_clauses,
    refuse_other_columns,
)
from tidelog.sql.reading.dataset import PLACE_FIELD
from tidelog.sql.reading.reduction import Reduction
from tidelog.sql.text.tree import Node, become, nodes

if TYPE_CHECKING:
    import duckdb

    from tidelog.model.times.interval import Interval

LEAST_ROWS = 1 << 19
"""Rows below which DuckDB takes them in less time than it takes to plan more."""
LEAST_BUCKET = 16
"""Rows that a bucket of time must have on average."""
_SAMPLE: Final = 1 << 13
"""Rows by whose keys it is told how many groups a batch has."""
_LEAST_SAMPLE: Final = 1 << 10
"""Rows that tell nothing."""
_LEAST_SHARE: Final = 2
"""Rows that a group of a batch must have on average."""
_MERGED: Final = frozenset({"count", "sum", "avg", "min", "max"})
_BY_PLACE: Final = {
    "arg_min": ("first", True),
    "arg_max": ("last", True),
    "arg_min_null": ("first", False),
    "arg_max_null": ("last", False),
}
"""Functions of a value and the place of its row: which row they take, and whether among those without null."""


@dataclass(slots=True)
class Parts:
    """The states that the aggregates of a selection are put together from."""

    block: Block
    stored: pa.Schema
    states: list[State] = field(default_factory=list)
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)

    def state_of(self, node: Node) -> int:
        """The number of the state of an aggregate. Raises :class:`NotSo` if it cannot be put together of one."""
        shown = self.block.text(node)
        if node["distinct"] or node["order_bys"]["orders"]:
            raise NotSo(f"{shown} takes all events of a group at once")
        name = node["function_name"].lower()
        name = SAME.get(name, name)
        arguments = [each["expression"] for each in node["arguments"]]
        where = None if node["filter"] is None else native_condition(self.block, node["filter"])
        if name == "count_star" or (name == "count" and not arguments):
            return self._state("count", None, where)
        if name in _BY_PLACE and len(arguments) == 2 and self.block.column(arguments[1]) == PLACE_FIELD.name:
            function, skips_nulls = _BY_PLACE[name]
            return self._state(function, arguments[0], where, skips_nulls=skips_nulls)
        if name not in _MERGED or len(arguments) != 1:
            raise NotSo(f"{shown} is not put together from parts")
        return self._state(name, arguments[0], where)

    def of(self, node: Node) -> str:
        """An aggregate from states, but for its type. Raises :class:`NotSo` if it cannot be put together."""
        at = self.state_of(node)
        state, found = self.states[at], quoted(state_name(at))
        if state.function == "count":
            return f"coalesce(sum({found}), 0)"
        if state.function in ("first", "last"):
            name = next(name for name, kept in _BY_PLACE.items() if kept == (state.function, state.skips_nulls))
            return f"{name}({found}, {_beside(found, 'place')})"
        if state.function in ("min", "max"):
            return f"{state.function}({found})"
        total = f"sum({found})"
        if not pa.types.is_floating(state.type(self.stored)):
            total = f"sum({_beside(found, 'high')}) * 4294967296::HUGEINT + {total}"
        return total if state.function == "sum" else f"CAST({total} AS DOUBLE) / sum({_beside(found, 'rows')})"

    def _state(self, function: str, node: Node | None, where: Predicate | None, *, skips_nulls: bool = True) -> int:
        """The number of a state."""
        block = self.block
        text = None if node is None else block.text(node)
        key = function, text, None if where is None else str(where), skips_nulls
        if key not in self._known:
            value = None if node is None else block.column(node)
            state = State(function, value, where, skips_nulls)
            if node is not None and value is None:
                state = State(function, _computed(block, node, self.stored), where, skips_nulls)
            elif value is not None and value not in self.stored.names:
                raise NotSo(f"{value} is not stored")
            if not can_keep(function, state.type(self.stored)):
                raise NotSo(f"{function}({text}) is computed by DuckDB")
            self._known[key] = len(self.states)
            self.states.append(state)
        return self._known[key]


def _beside(column: str, name: str) -> str:
    return f'{column[:-1]} {name}"'


def _computed(block: Block, node: Node, stored: pa.Schema) -> Expression:
    """An expression of floats, which cannot fail."""
    try:
        found = parse(block.text(node), stored)
    except ExpressionError:
        raise NotSo(f"{block.text(node)} is computed by DuckDB") from None
    inner = [each for each in found.node.walk() if each.operands and not each.is_constant]
    if not found.node.is_native or not found.columns or not all(pa.types.is_floating(each.type) for each in inner):
        raise NotSo(f"{block.text(node)} is computed by DuckDB")
    return found


def reduced(
    block: Block, functions: Functions, connect: Callable[[], duckdb.DuckDBPyConnection], name: str
) -> Reduction:
    """Have a selection select from rows of groups, by some name, that its events are reduced to.

    Raises :class:`NotSo`, with the selection as it was, if DuckDB has to get the events.
    """
    select, relation = block.select, block.relation
    if not relation.is_one or relation.end is not None:
        raise NotSo("the events are those of several streams, or of one end")
    refuse_other_clauses(block)
    calls = [node for node in _nodes(block) if functions.aggregates(node)]
    groups = groups_of_events(block, functions)
    if not calls and not groups:
        raise NotSo("there is no aggregate")
    stream = relation.stream
    confined = block.confined()
    rows = estimate(stream.snapshot, relation.within & confined, None)
    if rows < LEAST_ROWS:
        raise NotSo("there are few events")
    where = None if select["where_clause"] is None else native_condition(block, select["where_clause"])
    refuse_other_columns(block, groups, calls)
    wanted = Parts(block, stream.snapshot.layout.stored)
    merged = [wanted.of(node) for node in calls]
    keys, names = keys_of(block, groups, confined, rows)
    _refuse_own_keys(block, Reducer(stream.time, keys, {}, wanted.stored), confined)
    titles, types, _ = described(block, connect, [block.text(node) for node in calls] or ["1"])
    reducer = Reducer(stream.time, keys, dict(enumerate(wanted.states)), wanted.stored)
    relation.way += f", reduced to groups by {', '.join(map(block.text, groups))}" if groups else ", reduced to one row"
    relation.way += " for each batch"
    values = [f"CAST({text} AS {kind})" for text, kind in zip(merged, types, strict=False)]  # one more if there is none
    _rewrite(block, groups, names, values, calls, titles)
    block.table.update({"table_name": name, "qualified_name": {"path": [name]}})
    return Reduction(relation, reducer, None if where is None else str(where))


def keys_of(
    block: Block, groups: Sequence[Node], confined: Interval, rows: int
) -> tuple[list[str | Buckets], list[str]]:
    """What rows are grouped by, each once, and the names of the columns with each group.

    Raises :class:`NotSo` if there are nearly as many buckets as about so many rows.
    """
    keys: list[str | Buckets] = []
    names: list[str] = []
    for group in groups:
        column = block.column(group)
        if column is None:
            with closing(block.parser.cursor()) as cursor:
                ranges, starts = buckets(block, group, confined, cursor)
            if len(ranges) * LEAST_BUCKET > max(rows, LEAST_ROWS):
                raise NotSo("buckets have few events each")
            names.append(bucket_name(len(keys)))
            keys.append(Buckets.of(ranges, starts))
        else:
            names.append(column)
            if column not in keys:
                keys.append(column)
    return keys, names


def _refuse_own_keys(block: Block, keys: Reducer, confined: Interval) -> None:
    """Raise :class:`NotSo` if nearly every row of a batch has a key of its own, as the first rows tell."""
    stream = block.relation.stream
    if not keys.key_columns:
        return
    end = End(_SAMPLE, newest_first=False)
    within = block.relation.within & confined
    batches = list(read(stream.snapshot, stream.numbers, keys.columns, None, end, within=within)[1])
    rows = sum(batch.num_rows for batch in batches)
    if rows < _LEAST_SAMPLE:
        return
    groups = keys.reduce(pa.Table.from_batches(batches).combine_chunks().to_batches()[0], 0).num_rows
    if likely_groups(SLICE_ROWS, rows, groups) * _LEAST_SHARE > SLICE_ROWS:
        raise NotSo("nearly every event is a group")


def _nodes(block: Block) -> Iterator[Node]:
    return nodes([*parts(block), block.select["qualify"]])


def groups_of_events(block: Block, functions: Functions) -> list[Node]:
    """The expressions that rows are grouped by: columns and buckets of time."""
    select = block.select
    if select["aggregate_handling"] == "FORCE_AGGREGATES":
        groups = [
            item
            for item in select["select_list"]
            if not any(functions.aggregates(node) or node.get("class") == "WINDOW" for node in nodes(item))
        ]
    else:
        groups = [meant(block, each) for each in select["group_expressions"]]
    stored = block.relation.stream.snapshot.layout.stored.names
    for each in groups:
        columns = [block.column(node) for node in nodes(each) if node.get("class") == "COLUMN_REF"]
        is_bucket = each.get("class") == "FUNCTION" and each["function_name"].lower() in BUCKETS
        if columns != [block.relation.stream.time] if is_bucket else block.column(each) not in stored:
            raise NotSo(f"rows are grouped by {block.text(each)}")
    return groups


def _rewrite(
    block: Block,
    groups: Sequence[Node],
    names: Sequence[str],
    merged: Sequence[str],
    calls: Sequence[Node],
    titles: Sequence[str],
) -> None:
    """Have a selection select groups by the names of their columns, and aggregates that are put together."""
    select, parser = block.select, block.parser
    for item, title in zip(select["select_list"], titles, strict=True):
        item["alias"] = item["alias"] or title
    wanted = [copy.deepcopy(group) for group in groups]
    for node, text in zip(calls, merged, strict=True):
        become(node, parser.expression(text))
    for node in list(_nodes(block)):
        for group, name in zip(wanted, names, strict=True):
            if "class" in node and block.alike(node, group):
                become(node, parser.expression(quoted(name)))
                break
    if groups:
        select["group_expressions"] = [parser.expression(quoted(name)) for name in names]
        select["group_sets"] = [list(range(len(names)))]
        select["aggregate_handling"] = "STANDARD_HANDLING"
    select["where_clause"] = None
