"""Aggregates of a stream, whole or by buckets of time, that the index answers without a look at the events.

A selection whose condition is a range of time, whose groups are buckets of time, and whose aggregates the index knows,
becomes a selection of a small table: a row for each bucket with an event in it, with the bucket and the values. What is
around the aggregates (expressions, ``HAVING``, ``ORDER BY``, ``LIMIT``) stays as it is. If the index knows only some of
the aggregates, the others are selected from the events as before, and joined to that table by the bucket.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import GrainError
from tidelog.model.times.interval import Interval
from tidelog.plan.answers import answers, at_ends, question_of
from tidelog.sql.planning.blocks import Block, NotSo, quoted
from tidelog.sql.planning.buckets import FUNCTIONS as BUCKETS
from tidelog.sql.planning.buckets import buckets
from tidelog.sql.planning.calls import Call, Functions, aggregates_of, call_of, parts
from tidelog.sql.planning.monotone import interval_of
from tidelog.sql.text.tree import Node, become, nodes, same
from tidelog.store.read.aggregation import Question

if TYPE_CHECKING:
    import duckdb

_LEAST_LEAVES: Final = 2
"""Leaves of events that a bucket must have on average: with less, reading them all is as fast."""
_LEAST_LEAVES_READ: Final = 8
"""The same where leaves at the ends of buckets are read."""

_BUCKET: Final = "#bucket"
_NOTHING: Final = Interval(0, 0)

_MOST_DESCRIBED: Final = 256
_DESCRIBED: dict[Any, tuple[list[str], list[str], list[pa.DataType]]] = {}
"""What DuckDB has said of selections: it depends on nothing but their texts and the columns they select from."""


@dataclass(slots=True)
class Indexed:
    """How a selection is answered from the index."""

    table: pa.Table
    """A row for each bucket."""
    ranges: int
    calls: tuple[str, ...]
    leaves: int = 0
    """Leaves of events that were read."""
    rest: Block | None = None
    """The selection of what the index does not know."""


def answer(block: Block, functions: Functions, connect: Callable[[], duckdb.DuckDBPyConnection], name: str) -> Indexed:
    """Answer a selection from the index, and have it select from a table of some name.

    Raises :class:`NotSo`, with the selection as it was, if the index does not know the answer.
    """
    _refuse_other_clauses(block)
    calls, others = _calls(block, functions)
    groups = _groups(block, functions)
    if not calls and not groups:
        raise NotSo(f"{block.text(others[0])} takes the events" if others else "there is no aggregate")
    has_own = any(call.own for call in calls)
    if others and not has_own:
        _refuse_no_gain(block, calls, others)
    interval, where = _condition(block, computes=has_own)
    stream = block.relation.stream
    has_all = stream.snapshot.has_all(interval.start, interval.end, stream.numbers)
    if not has_all and not has_own:
        raise NotSo("only events up to a version count")
    counting = Call({}, "count(*)")
    unique = {call.key: call for call in [*calls, counting]}
    asked = _questions(block, list(unique.values()), where, reads_ends=where is None and has_all)
    _refuse_other_columns(block, groups, [*(call.node for call in calls), *others])
    ranges, starts = [interval], None
    if groups:
        least = 0 if has_own else _LEAST_LEAVES_READ if any(call.end for call in calls) else _LEAST_LEAVES
        with closing(connect()) as cursor:
            ranges, starts = buckets(block, groups[0], interval, cursor, least)
    values, leaves = _values(block, asked, ranges)
    names, types, kinds = _described(block, connect, list(unique.values()), values)
    kept = [at for at, rows in enumerate(values[counting.key]) if rows or starts is None]
    columns: dict[str, Any] = {}
    if starts is not None:
        columns[_BUCKET] = starts.take(pa.array(kept, pa.int64()))
    for at, (key, kind) in enumerate(zip(unique, kinds, strict=True)):
        columns[f"#{at}"] = _chosen(values[key], kept, kind)
    keys = list(unique)
    places = [(keys.index(call.key), types[keys.index(call.key)], call.node) for call in calls]
    rest = _rewrite(block, groups, places, others, names, name)
    shown = tuple(call.shown(stream.snapshot.layout.schema.clock) for call in unique.values())
    return Indexed(pa.table(columns), len(ranges), shown, leaves, rest)


def _chosen(values: list[Any] | pa.Array, kept: Sequence[int], kind: pa.DataType) -> pa.Array:
    if isinstance(values, list):
        return pa.array([values[at] for at in kept], kind)
    return values.take(pa.array(kept, pa.int64())).cast(kind)


def _refuse_other_clauses(block: Block) -> None:
    select = block.select
    if select["qualify"] or select["sample"] or block.table["sample"]:
        raise NotSo("rows are chosen after they were read")
    if len(select["group_sets"]) > 1:
        raise NotSo("there are several sets of groups")
    for node in nodes(parts(block)):
        kind = node.get("class")
        if kind in ("SUBQUERY", "WINDOW", "LAMBDA"):
            raise NotSo(f"there is a {kind.lower()} beside it")
        if kind == "STAR" and not node.get("columns"):
            raise NotSo("events themselves are wanted")


def _calls(block: Block, functions: Functions) -> tuple[list[Call], list[Node]]:
    """The aggregates of a selection that the index may answer, and the others. Raises if all are others."""
    calls: list[Call] = []
    others: list[Node] = []
    reason: NotSo | None = None
    for node in aggregates_of(block, functions):
        try:
            calls.append(call_of(block, node, functions))
        except NotSo as found:
            if functions.is_own(node):
                raise
            others.append(node)
            reason = reason or found
    if reason is not None and not calls:
        raise reason
    return calls, others


def _refuse_no_gain(block: Block, calls: Sequence[Call], others: Sequence[Node]) -> None:
    """Raise unless the index saves the reading of a column beside aggregates that take the events."""
    read = {block.column(node) for other in others for node in nodes(other)}
    known = {block.column(node) for call in calls for node in nodes(call.node)}
    if not known - read - {block.relation.stream.time, None}:
        raise NotSo(f"{block.text(others[0])} takes the events")


def _condition(block: Block, *, computes: bool) -> tuple[Interval, Predicate | None]:
    """The times that count, and what else has to hold where it is our own code that computes."""
    where = block.select["where_clause"]
    try:
        return interval_of(block, where), None
    except NotSo:
        if not computes:
            raise
        return block.confined(), block.condition(where)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Calls with the same filter, and how they are answered."""

    within: Interval
    calls: tuple[Call, ...]
    question: Question | None
    """None for values at the ends of ranges."""
    where: Predicate | None


def _questions(block: Block, calls: Sequence[Call], where: Predicate | None, *, reads_ends: bool) -> list[_Asked]:
    """How calls are answered. Raises :class:`NotSo` if the index does not keep what they ask for."""
    stream = block.relation.stream
    found = []
    for within in dict.fromkeys(call.within for call in calls):
        own = [call for call in calls if call.within == within]
        ends = tuple(call for call in own if call.end is not None) if reads_ends else ()
        if ends:
            found.append(_Asked(within, ends, None, None))
        others = tuple(call for call in own if call not in ends)
        if others:
            try:
                question = question_of(stream.snapshot, stream.options, [call.asked for call in others])
            except ExpressionError as error:
                raise NotSo(f"{error}") from None
            if not question.is_indexed and not any(call.own for call in calls):
                raise NotSo(f"the index does not keep all of {', '.join(call.text for call in others)}")
            found.append(_Asked(within, others, question, where))
    return found


def _values(
    block: Block, asked: Sequence[_Asked], ranges: Sequence[Interval]
) -> tuple[dict[tuple[str, Interval], list[Any] | pa.Array], int]:
    """The values of calls for ranges of time, and how many leaves of events were read for them."""
    stream = block.relation.stream
    found: dict[tuple[str, Interval], list[Any] | pa.Array] = {}
    leaves = 0
    for each in asked:
        meant = [each.within.intersect(one) for one in ranges]
        meant = [_NOTHING if one.is_empty else one for one in meant]
        if each.question is not None:
            values, counters = answers(stream.snapshot, stream.numbers, meant, each.question, each.where)
            found |= {call.key: [row[at] for row in values] for at, call in enumerate(each.calls)}
        else:
            wanted = [call.end for call in each.calls if call.end is not None]
            try:
                at_end = at_ends(stream.snapshot, stream.options, meant, wanted)
            except GrainError as error:
                if any(call.own for one in asked for call in one.calls):
                    raise
                raise NotSo(f"{error}") from None
            if at_end is None:
                raise NotSo("too many buckets begin or end with nulls")
            arrays, counters = at_end
            found |= {call.key: array for call, array in zip(each.calls, arrays, strict=True)}
        leaves += counters.leaves
    return found, leaves


def _groups(block: Block, functions: Functions) -> list[Node]:
    """The expressions that rows are grouped by, at most one."""
    select = block.select
    items = select["select_list"]
    if select["aggregate_handling"] == "FORCE_AGGREGATES":
        groups = [item for item in items if not any(map(functions.aggregates, nodes(item)))]
    else:
        groups = [_meant(block, each) for each in select["group_expressions"]]
    if len(groups) > 1:
        raise NotSo("rows are grouped by more than buckets of time")
    for each in groups:
        if each.get("class") != "FUNCTION" or each["function_name"].lower() not in BUCKETS:
            raise NotSo(f"rows are grouped by {block.text(each)}")
        columns = [block.column(node) for node in nodes(each) if node.get("class") == "COLUMN_REF"]
        if columns != [block.relation.stream.time]:
            raise NotSo(f"rows are grouped by {block.text(each)}")
    return groups


def _meant(block: Block, group: Node) -> Node:
    """What a group is: the expression itself, or an item of the selection by its place or its name."""
    items = block.select["select_list"]
    if group.get("class") == "CONSTANT" and group["literal"].get("kind") == "INTEGER":
        place = int(group["literal"]["text"])
        if not 1 <= place <= len(items):
            raise NotSo(f"there is no item {place}")
        found: Node = items[place - 1]
        return found
    if group.get("class") == "COLUMN_REF" and block.column(group) is None and len(group["column_names"]) == 1:
        for item in items:
            if item.get("alias", "").lower() == group["column_names"][0].lower():
                return item  # type: ignore[no-any-return]
    return group


def _refuse_other_columns(block: Block, groups: list[Node], calls: list[Node]) -> None:
    """Raise if a column is mentioned outside of aggregates and groups."""
    select = block.select
    inside = {id(node) for call in calls for node in nodes(call)}
    aliases = {item.get("alias", "").lower() for item in select["select_list"]} - {""}

    def look(node: Any, may_be_alias: bool) -> None:
        if isinstance(node, list):
            for each in node:
                look(each, may_be_alias)
        elif isinstance(node, dict):
            if id(node) in inside or any(same(node, group) for group in groups):
                return
            if node.get("class") == "COLUMN_REF":
                names = node["column_names"]
                if not (may_be_alias and len(names) == 1 and names[0].lower() in aliases):
                    raise NotSo(f"{names[-1]} is wanted beside the aggregates")
            for each in node.values():
                look(each, may_be_alias)

    look(select["select_list"], False)
    look(select["having"], True)
    look(select["modifiers"], True)


def _described(
    block: Block,
    connect: Callable[[], duckdb.DuckDBPyConnection],
    calls: Sequence[Call],
    values: Mapping[tuple[str, Interval], list[Any] | pa.Array],
) -> tuple[list[str], list[str], list[pa.DataType]]:
    """The names of the columns of the selection, and the types of aggregates, of DuckDB and of Arrow."""
    import duckdb

    own = [pa.field(call.text, _own_type(block, call, values[call.key])) for call in calls if call.own]
    tree = block.parser.parse("SELECT 1")
    select = tree["statements"][0]["node"] = {**block.select, "modifiers": []}
    text = block.parser.print(tree)
    probes = tuple(f'(SELECT {quoted(call.text)} FROM "#own")' if call.own else call.probe for call in calls)
    key = text, probes, block.relation.schema, *own
    known = _DESCRIBED.get(key)
    if known is None:
        table = quoted(block.table["table_name"])
        with closing(connect()) as cursor:
            if own:  # which DuckDB does not know
                cursor.register("#own", pa.schema(own).empty_table())
            try:
                names = (
                    [item["alias"] or block.parser.print_expression(item) for item in select["select_list"]]
                    if own
                    else cursor.sql(text).columns
                )
                probe = cursor.sql(f"SELECT {', '.join(probes)} FROM {table}").limit(0)
                types = [str(each) for each in probe.types]
                kinds = [field.type for field in probe.to_arrow_table().schema]
            except duckdb.Error as error:
                raise NotSo(f"DuckDB does not take it: {error}") from None
        if len(_DESCRIBED) >= _MOST_DESCRIBED:
            _DESCRIBED.clear()
        known = _DESCRIBED[key] = names, types, kinds
    return known


def _own_type(block: Block, call: Call, values: list[Any] | pa.Array) -> pa.DataType:
    """The type of an aggregate of tidelog's own: the one it says, or that of its values."""
    stream = block.relation.stream
    stated = question_of(stream.snapshot, stream.options, [call.text]).calls[0].type
    if stated is not None:
        return stated
    try:
        return pa.array(values).type
    except pa.ArrowException as error:
        raise NotSo(f"the values of {call.text} are of no type that DuckDB knows: {error}") from None


def _rewrite(
    block: Block,
    groups: Sequence[Node],
    calls: Sequence[tuple[int, str, Node]],
    others: Sequence[Node],
    names: Sequence[str],
    table: str,
) -> Block | None:
    """Have a selection select from a table of answers, and what is not there from the events, which is returned."""
    select, parser = block.select, block.parser
    for item, name in zip(select["select_list"], names, strict=True):
        item["alias"] = item["alias"] or name
    wanted = [copy.deepcopy(group) for group in groups]
    rest = _rest(block, wanted, others) if others else None
    for at, kind, node in calls:  # Arrow knows fewer types than DuckDB
        become(node, parser.expression(f'CAST(first("#{at}") AS {kind})'))
    for at, node in enumerate(others):
        become(node, parser.expression(f'first("#other {at}")'))
    if groups:
        for node in list(nodes(parts(block))):
            if "class" in node and any(same(node, group) for group in wanted):
                become(node, parser.expression(quoted(_BUCKET)))
        select["group_expressions"] = [parser.expression(quoted(_BUCKET))]
        select["group_sets"] = [[0]]
        select["aggregate_handling"] = "STANDARD_HANDLING"
    select["where_clause"] = None
    if rest is None:
        block.table.update({"table_name": table, "qualified_name": {"path": [table]}})
        return None
    join = f"JOIN {quoted(table)} USING ({quoted(_BUCKET)})" if groups else f"CROSS JOIN {quoted(table)}"
    joined = parser.parse(f'SELECT 1 FROM (SELECT 1) AS "#events" {join}')["statements"][0]["node"]["from_table"]
    joined["left"]["subquery"]["node"] = rest.select
    select["from_table"] = joined
    return rest


def _rest(block: Block, groups: Sequence[Node], others: Sequence[Node]) -> Block:
    """The selection of aggregates that take the events, by the same buckets."""
    select = copy.deepcopy(block.select)
    items = [(_BUCKET, group) for group in groups] + [(f"#other {at}", node) for at, node in enumerate(others)]
    select["select_list"] = [{**copy.deepcopy(node), "alias": name} for name, node in items]
    select["group_expressions"] = [copy.deepcopy(group) for group in groups]
    select["group_sets"] = [[0]] if groups else []
    select["aggregate_handling"] = "STANDARD_HANDLING"
    select.update({"having": None, "modifiers": [], "cte_map": {"map": []}})
    for group in select["group_expressions"]:
        group["alias"] = ""
    return Block(select, block.relation, block.parser, block.timezone)
