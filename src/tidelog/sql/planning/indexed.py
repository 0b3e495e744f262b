"""Aggregates of a stream, whole or by buckets of time, that the index answers without a look at the events.

A selection whose condition is a range of time, whose groups are buckets of time, and whose aggregates the index knows,
becomes a selection of a small table: a row for each bucket with an event in it, with the bucket and the values. What is
around the aggregates (expressions, ``HAVING``, ``ORDER BY``, ``LIMIT``) stays as it is. If the index knows only some of
the aggregates, the others are selected from the events as before, and joined to that table by the bucket.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.expr.errors import ExpressionError
from tidelog.model.times.interval import Interval
from tidelog.plan.answers import question_of
from tidelog.sql.planning.asking import questions, values
from tidelog.sql.planning.blocks import Block, NotSo, conjuncts, quoted
from tidelog.sql.planning.buckets import FUNCTIONS as BUCKETS
from tidelog.sql.planning.buckets import buckets
from tidelog.sql.planning.calls import Call, Functions, aggregates_of, call_of, parts
from tidelog.sql.planning.conditions.monotone import intervals_of
from tidelog.sql.planning.outline import Told, outline
from tidelog.sql.planning.selection import described, meant, refuse_other_clauses, refuse_other_columns
from tidelog.sql.reading.dataset import STREAM_FIELD, holds
from tidelog.sql.reading.sources import StreamAt
from tidelog.sql.text.tree import Node, become, nodes

if TYPE_CHECKING:
    import duckdb

_LEAST_LEAVES: Final = 2
"""Leaves of events that a bucket must have on average: with less, reading them all is as fast."""
_MOST_SPANS: Final = 32
"""Ranges of time in one condition: each may cut leaves at both of its ends, which are read."""
_LEAST_LEAVES_READ: Final = 8
"""The same where leaves at the ends of buckets are read."""

_BUCKET: Final = "#bucket"
_STREAM: Final = "#stream"
_MERGED: Final = frozenset({"count", "sum", "min", "max", "avg"})
"""Functions whose answers for several streams can be put together."""


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
    told: Told | None = None
    """The rows of the selection, if these answers are all there is to it."""


def answer(block: Block, functions: Functions, connect: Callable[[], duckdb.DuckDBPyConnection], name: str) -> Indexed:
    """Answer a selection from the index, and have it select from a table of some name.

    Raises :class:`NotSo`, with the selection as it was, if the index does not know the answer.
    """
    if block.select["qualify"]:
        raise NotSo("rows are chosen after they were read")
    refuse_other_clauses(block)
    calls, others = _calls(block, functions)
    groups = groups_of(block, functions)
    refuse_keys(block, groups)
    if not calls and not groups:
        raise NotSo(f"{block.text(others[0])} takes the events" if others else "there is no aggregate")
    has_own = any(call.own for call in calls)
    relation = block.relation
    if others and not has_own:
        _refuse_no_gain(block, calls, others)
    if others and not relation.is_one:
        raise NotSo(f"{block.text(others[0])} takes the events of several streams")
    streams, condition = _streams(block)
    spans, where = _condition(block, condition, computes=has_own)
    is_united = not relation.is_one and STREAM_FIELD.name not in [block.column(group) for group in groups]
    is_merged = is_united or len(spans) > 1
    counting = Call({}, "count(*)")
    unique = {call.key: call for call in [*calls, *(_parts_of(block, calls) if is_merged else ()), counting]}
    asked = []
    for stream in streams:
        has_all = stream.snapshot.has_all(spans[0].start, spans[-1].end, stream.numbers)
        if not has_all and not has_own:
            raise NotSo("only events up to a version count")
        asked.append(questions(stream, list(unique.values()), where, reads_ends=where is None and has_all))
    refuse_other_columns(block, groups, [*(call.node for call in calls), *others])
    ranges, starts = list(spans), None
    if (bucket := next((each for each in groups if each.get("class") == "FUNCTION"), None)) is not None:
        least = 0 if has_own else _LEAST_LEAVES_READ if any(call.end for call in calls) else _LEAST_LEAVES
        with closing(block.parser.cursor()) as cursor:  # which knows no relations: there is none in it
            found_buckets = [buckets(block, bucket, span, cursor, least) for span in spans]
        ranges = [each for own, _ in found_buckets for each in own]
        starts = pa.concat_arrays([each for _, each in found_buckets])
    found = [values(stream, each, ranges) for stream, each in zip(streams, asked, strict=True)]
    given = [
        pa.field(call.text, _own_type(block, call, [one for answers, _ in found for one in answers[call.key]]))
        for call in unique.values()
        if call.own
    ]
    probes = [f'(SELECT {quoted(call.text)} FROM "#own")' if call.own else call.probe for call in unique.values()]
    names, types, kinds = described(block, connect, probes, given)
    tables = []
    for stream, (own, _) in zip(streams, found, strict=True):
        kept = [at for at, rows in enumerate(own[counting.key]) if rows or not groups]
        columns: dict[str, Any] = {}
        if starts is not None:
            columns[_BUCKET] = starts.take(pa.array(kept, pa.int64()))
        if not relation.is_one:
            columns[_STREAM] = pa.repeat(pa.scalar(stream.name), len(kept))
        for at, (key, kind) in enumerate(zip(unique, kinds, strict=True)):
            columns[f"#{at}"] = _chosen(own[key], kept, kind)
        tables.append(pa.table(columns))
    keys = list(unique)
    expressions = [(_expression(call, keys, types, is_merged=is_merged), call.node) for call in calls]
    told = None
    if not (others or is_merged or has_own or block.select["having"]) and relation.is_one:
        places = {id(call.node): f"#{keys.index(call.key)}" for call in calls}

        def column(item: Node) -> str | None:
            is_bucket = any(item is group or block.alike(item, group) for group in groups)
            return _BUCKET if is_bucket else places.get(id(item))

        plain = outline(block, groups, column, names)
        told = None if plain is None else Told(plain.rows(tables[0]))
    rest = _rewrite(block, groups, expressions, others, names, name)
    shown = tuple(call.shown(relation.stream.snapshot.layout.schema.clock) for call in unique.values())
    leaves = sum(each for _, each in found)
    table = pa.concat_tables(tables) if tables else _no_rows(starts, kinds)
    return Indexed(table, len(ranges), shown, leaves, rest, told)


def _streams(block: Block) -> tuple[Sequence[StreamAt], Node | None]:
    """The streams that count, and what else a condition says."""
    where = block.select["where_clause"]
    relation = block.relation
    if relation.is_one or where is None:
        return relation.streams, where
    own: list[Node] = []
    others: list[Node] = []
    for each in conjuncts(where):
        columns = {block.column(node) for node in nodes(each) if node.get("class") == "COLUMN_REF"}
        (own if columns == {STREAM_FIELD.name} else others).append(each)
    try:
        streams = [stream for stream in relation.streams if holds([block.text(each) for each in own], stream.name)]
    except ExpressionError:
        raise NotSo(f"the condition {block.text(own[0])} is computed by DuckDB") from None
    if len(others) < 2:
        return streams, others[0] if others else None
    return streams, {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": others}


def _parts_of(block: Block, calls: Sequence[Call]) -> Iterator[Call]:
    """What several streams are asked for, so that their answers can be put together."""
    for call in calls:
        function, argument = call.text.split("(", 1)
        if function not in _MERGED or call.end is not None or call.own:
            raise NotSo(f"{call.text} of several streams, or ranges of time, takes their events")
        if function == "avg":
            yield Call({}, f"sum({argument}", call.within)
            yield Call({}, f"count({argument}", call.within)


def _expression(call: Call, keys: Sequence[tuple[str, Interval]], types: Sequence[str], *, is_merged: bool) -> str:
    """The value of a call from the table of answers. Arrow knows fewer types than DuckDB."""
    at = keys.index(call.key)
    if not is_merged:
        return f'CAST(first("#{at}") AS {types[at]})'
    function, argument = call.text.split("(", 1)
    if function == "avg":
        total, rows = (keys.index((f"{each}({argument}", call.within)) for each in ("sum", "count"))
        return f'(CAST(sum("#{total}") AS DOUBLE) / sum("#{rows}"))'
    value = f'coalesce(sum("#{at}"), 0)' if function == "count" else f'{function}("#{at}")'
    return f"CAST({value} AS {types[at]})"


def _no_rows(starts: pa.Array | None, kinds: Sequence[pa.DataType]) -> pa.Table:
    """The table of answers of no stream."""
    fields = [] if starts is None else [pa.field(_BUCKET, starts.type)]
    fields += [pa.field(_STREAM, pa.string()), *(pa.field(f"#{at}", kind) for at, kind in enumerate(kinds))]
    return pa.schema(fields).empty_table()


def _chosen(values: list[Any] | pa.Array, kept: Sequence[int], kind: pa.DataType) -> pa.Array:
    if isinstance(values, list):
        return pa.array([values[at] for at in kept], kind)
    return values.take(pa.array(kept, pa.int64())).cast(kind)


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
    """Raise unless the index saves the reading of as many columns as are read for aggregates that take the events."""
    neither = {block.relation.stream.time, None}
    read = {block.column(node) for other in others for node in nodes(other)} - neither
    saved = {block.column(node) for call in calls for node in nodes(call.node)} - read - neither
    if len(saved) < max(1, len(read)):
        raise NotSo(f"{block.text(others[0])} takes the events, and few columns less would be read")


def _condition(block: Block, where: Node | None, *, computes: bool) -> tuple[Sequence[Interval], Predicate | None]:
    """The ranges of time that count, and what else has to hold where it is our own code that computes."""
    try:
        found = intervals_of(block, where)
        if len(found.spans) <= (1 if computes else _MOST_SPANS):
            return found.spans or [found.bounds], None
        raise NotSo(f"the condition is about {len(found.spans)} ranges of time")
    except NotSo:
        if not computes or where is None:
            raise
        return [block.confined()], block.condition(where)


def groups_of(block: Block, functions: Functions) -> list[Node]:
    """The expressions that rows are grouped by."""
    select = block.select
    items = select["select_list"]
    if select["aggregate_handling"] == "FORCE_AGGREGATES":
        return [item for item in items if not any(map(functions.aggregates, nodes(item)))]
    return [meant(block, each) for each in select["group_expressions"]]


def refuse_keys(block: Block, groups: Sequence[Node]) -> None:
    """Raise unless rows are grouped by nothing but a bucket of time, and the stream where there are several."""
    for each in groups:
        columns = [block.column(node) for node in nodes(each) if node.get("class") == "COLUMN_REF"]
        is_bucket = each.get("class") == "FUNCTION" and each["function_name"].lower() in BUCKETS
        is_stream = each.get("class") == "COLUMN_REF" and columns == [STREAM_FIELD.name]
        if not is_stream and (not is_bucket or columns != [block.relation.stream.time]):
            raise NotSo(f"rows are grouped by {block.text(each)}")
    if len({each["class"] for each in groups}) < len(groups):
        raise NotSo("rows are grouped by more than buckets of time")


def _own_type(block: Block, call: Call, values: list[Any]) -> pa.DataType:
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
    calls: Sequence[tuple[str, Node]],
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
    for text, node in calls:
        become(node, parser.expression(text))
    for at, node in enumerate(others):
        become(node, parser.expression(f'first("#other {at}")'))
    if groups:
        columns = [_BUCKET if group["class"] == "FUNCTION" else _STREAM for group in wanted]
        for node in list(nodes(parts(block))):
            for group, column in zip(wanted, columns, strict=True):
                if "class" in node and block.alike(node, group):
                    become(node, parser.expression(quoted(column)))
        select["group_expressions"] = [parser.expression(quoted(column)) for column in columns]
        select["group_sets"] = [list(range(len(columns)))]
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
