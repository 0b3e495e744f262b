"""Aggregates of a stream, whole or by buckets of time, that the index answers without a look at the events.

A selection whose condition is a range of time, whose groups are buckets of time, and whose aggregates the index knows,
becomes a selection of a small table: a row for each bucket with an event in it, with the bucket and the values. What is
around the aggregates (expressions, ``HAVING``, ``ORDER BY``, ``LIMIT``) stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.model.times.interval import Interval
from tidelog.plan.answers import answers, bounds, question_of
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.text.tree import Node, nodes, put, same

if TYPE_CHECKING:
    import duckdb

_FUNCTIONS: Final = frozenset({"count", "count_star", "sum", "avg", "mean", "min", "max"})
_UNITS: Final = {
    "quarter": "3 months",
    "decade": "10 years",
    "century": "100 years",
    "millennium": "1000 years",
}
_MOST_BUCKETS: Final = 200_000
_LEAST_LEAVES: Final = 2
"""Leaves of events that a bucket must have on average: with less, reading them all is as fast."""

_GROUP: Final = "#bucket"

_MOST_DESCRIBED: Final = 256
_DESCRIBED: dict[Any, tuple[list[str], list[str], list[pa.DataType]]] = {}
"""What DuckDB has said of selections: it depends on nothing but their texts and the columns they select from."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """How a selection is answered from the index."""

    table: pa.Table
    """A row for each bucket."""
    ranges: int
    calls: tuple[str, ...]


def answer(
    block: Block, aggregates: frozenset[str], connect: Callable[[], duckdb.DuckDBPyConnection], name: str
) -> Indexed:
    """Answer a selection from the index, and have it select from a table of some name.

    Raises :class:`NotSo`, with the selection as it was, if the index does not know the answer.
    """
    _refuse_other_clauses(block)
    calls = _calls(block, aggregates)
    groups = _groups(block, aggregates)
    if not calls and not groups:
        raise NotSo("there is no aggregate")
    interval = block.interval()
    stream = block.relation.stream
    if not stream.snapshot.has_all(interval.start, interval.end, stream.numbers):
        raise NotSo("only events up to a version count")
    texts = tuple(dict.fromkeys([*(text for text, _ in calls), "count(*)"]))
    try:
        question = question_of(stream.snapshot, stream.options, texts)
    except ExpressionError as error:
        raise NotSo(f"{error}") from None
    if question is None:
        raise NotSo(f"the index does not keep all of {', '.join(texts)}")
    _refuse_other_columns(block, groups, [node for _, node in calls])
    names, types, kinds = _described(block, connect, texts)
    ranges, buckets = [interval], None
    if groups:
        with closing(connect()) as cursor:
            ranges, buckets = _buckets(block, groups[0], interval, cursor)
    values = answers(stream.snapshot, stream.numbers, ranges, question) if ranges else []
    rows = texts.index("count(*)")
    kept = [i for i, each in enumerate(values) if each[rows] or buckets is None]
    columns: dict[str, Any] = {}
    if buckets is not None:
        columns[_GROUP] = buckets.take(pa.array(kept, pa.int64()))
    for at, kind in enumerate(kinds):
        columns[f"#{at}"] = pa.array([values[i][at] for i in kept], kind)
    _rewrite(block, groups, [(texts.index(text), types[texts.index(text)], node) for text, node in calls], names, name)
    return Indexed(pa.table(columns), len(ranges), texts)


def _refuse_other_clauses(block: Block) -> None:
    select = block.select
    if select["qualify"] or select["sample"] or block.table["sample"]:
        raise NotSo("rows are chosen after they were read")
    if len(select["group_sets"]) > 1:
        raise NotSo("there are several sets of groups")
    for node in nodes([select["select_list"], select["having"], select["modifiers"]]):
        kind = node.get("class")
        if kind in ("SUBQUERY", "WINDOW", "LAMBDA"):
            raise NotSo(f"there is a {kind.lower()} beside it")
        if kind == "STAR" and not node.get("columns"):
            raise NotSo("events themselves are wanted")


def _calls(block: Block, aggregates: frozenset[str]) -> list[tuple[str, Node]]:
    """The aggregates of a selection, as texts of ours. Raises if one is none that the index could know."""
    found: list[tuple[str, Node]] = []
    select = block.select
    for node in nodes([select["select_list"], select["having"], select["modifiers"]]):
        if node.get("class") != "FUNCTION" or node["function_name"].lower() not in aggregates:
            continue
        name = node["function_name"].lower()
        if name not in _FUNCTIONS or node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
            raise NotSo(f"{block.text(node)} takes the events")
        if name == "count_star" or (name == "count" and not node["arguments"]):
            found.append(("count(*)", node))
            continue
        if len(node["arguments"]) != 1 or (column := block.column(node["arguments"][0]["expression"])) is None:
            raise NotSo(f"{block.text(node)} is not of a column alone")
        if name in ("avg", "mean") and pa.types.is_decimal(block.relation.schema.field(column).type):
            raise NotSo(f"{block.text(node)} is rounded by DuckDB in a way of its own")
        quoted = column.replace('"', '""')
        found.append((f'{"avg" if name == "mean" else name}("{quoted}")', node))
    return found


def _groups(block: Block, aggregates: frozenset[str]) -> list[Node]:
    """The expressions that rows are grouped by, at most one."""
    select = block.select
    items = select["select_list"]
    if select["aggregate_handling"] == "FORCE_AGGREGATES":
        groups = [item for item in items if not any(_is_aggregate(each, aggregates) for each in nodes(item))]
    else:
        groups = [_meant(block, each) for each in select["group_expressions"]]
    if len(groups) > 1:
        raise NotSo("rows are grouped by more than buckets of time")
    for each in groups:
        if each.get("class") != "FUNCTION" or each["function_name"].lower() not in ("time_bucket", "date_trunc"):
            raise NotSo(f"rows are grouped by {block.text(each)}")
        columns = [block.column(node) for node in nodes(each) if node.get("class") == "COLUMN_REF"]
        if columns != [block.relation.stream.time]:
            raise NotSo(f"rows are grouped by {block.text(each)}")
    return groups


def _is_aggregate(node: Node, aggregates: frozenset[str]) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in aggregates


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
    block: Block, connect: Callable[[], duckdb.DuckDBPyConnection], texts: tuple[str, ...]
) -> tuple[list[str], list[str], list[pa.DataType]]:
    """The names of the columns of the selection, and the types of aggregates, of DuckDB and of Arrow."""
    import duckdb

    tree = block.parser.parse("SELECT 1")
    own = copy.deepcopy(block.select)
    own["modifiers"] = []
    tree["statements"][0]["node"] = own
    text = block.parser.print(tree)
    key = text, texts, block.relation.schema
    known = _DESCRIBED.get(key)
    if known is None:
        table = _quoted(block.table["table_name"])
        with closing(connect()) as cursor:
            try:
                names = cursor.sql(text).columns
                probe = cursor.sql(f"SELECT {', '.join(texts)} FROM {table}").limit(0)
                types = [str(each) for each in probe.types]
                kinds = [field.type for field in probe.to_arrow_table().schema]
            except duckdb.Error as error:
                raise NotSo(f"DuckDB does not take it: {error}") from None
        if len(_DESCRIBED) >= _MOST_DESCRIBED:
            _DESCRIBED.clear()
        known = _DESCRIBED[key] = names, types, kinds
    return known


def _buckets(
    block: Block, group: Node, interval: Interval, cursor: duckdb.DuckDBPyConnection
) -> tuple[list[Interval], pa.Array]:
    """Ranges of time, one for each bucket that may have events, and the buckets as DuckDB names them."""
    import duckdb

    stream = block.relation.stream
    found = bounds(stream.snapshot, stream.options, interval)
    kind = stream.snapshot.layout.stored.field(stream.time).type
    if not pa.types.is_timestamp(kind):
        raise NotSo("times are no timestamps")
    text = block.text(group)
    step = _step(block, group)
    if found is None:
        cursor.register("#ends", pa.table({stream.time: pa.array([], kind)}))
        return [], cursor.sql(f'SELECT {text} AS edge FROM "#ends"').to_arrow_table()["edge"].combine_chunks()
    first, last, rows = found
    column = _quoted(stream.time)
    ends = pa.table({stream.time: pa.array([first, last], pa.int64()).cast(kind)})
    cursor.register("#ends", ends)
    zone = _zone(group) or block.timezone
    local = f"AT TIME ZONE '{zone}'" if kind.tz is not None else ""
    try:
        edges = cursor.sql(
            f'SELECT {text} AS edge, epoch_us({text}) AS at, count(*) OVER () AS n FROM "#ends" ORDER BY {column}'
        ).to_arrow_table()
        low, high = edges["at"][0].as_py(), edges["at"][-1].as_py()
        length = cursor.sql(f"SELECT greatest(1, epoch_us({step}))").fetchall()[0][0]
        count = (high - low) // length + 1
        if count > _MOST_BUCKETS:
            raise NotSo(f"there are about {count:,} buckets")
        if rows < _LEAST_LEAVES * stream.options.leaf_rows * max(1, count - 1) and count > 1:
            raise NotSo(f"buckets have about {rows // count:,} events each, which are read as fast")
        starts = cursor.sql(
            f"SELECT unnest(generate_series(min(edge {local}), max(edge {local}), {step})) {local} AS edge FROM "
            f'(SELECT {text} AS edge FROM "#ends")'
        ).to_arrow_table()["edge"]
        per_tick = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(kind.unit)
        cursor.register("#starts", pa.table({"edge": starts}))
        micros = cursor.sql('SELECT epoch_us(edge) AS at FROM "#starts"').to_arrow_table()["at"].to_numpy()
        cuts = micros * 1000 if per_tick is None else -(-micros // per_tick)
        _verify(cursor, text, stream.time, kind, cuts, micros, first, last)
    except duckdb.Error as error:
        raise NotSo(f"where buckets end is not known: {error}") from None
    return _ranges(cuts, interval), starts.combine_chunks()


def _verify(
    cursor: duckdb.DuckDBPyConnection,
    text: str,
    time: str,
    kind: pa.DataType,
    cuts: npt.NDArray[np.int64],
    micros: npt.NDArray[np.int64],
    first: int,
    last: int,
) -> None:
    """Raise unless buckets begin where they are said to: each at its own start, and the one before ends right there."""
    if len(cuts) == 0 or np.any(np.diff(cuts) <= 0):
        raise NotSo("where buckets end is not known")
    asked = np.concatenate([np.maximum(cuts, first), cuts[1:] - 1, [last]])
    expected = np.concatenate([micros, micros[:-1], micros[-1:]])
    cursor.register("#asked", pa.table({time: pa.array(asked, pa.int64()).cast(kind), "#n": np.arange(len(asked))}))
    seen = cursor.sql(f'SELECT epoch_us({text}) AS at FROM "#asked" ORDER BY "#n"').to_arrow_table()["at"].to_numpy()
    if not np.array_equal(seen, expected):
        raise NotSo("where buckets end is not known, as when clocks change")


def _ranges(cuts: npt.NDArray[np.int64], interval: Interval) -> list[Interval]:
    """From each cut to the next, within an interval."""
    ends = [*cuts[1:].tolist(), None]
    return [Interval(start, end).intersect(interval) for start, end in zip(cuts.tolist(), ends, strict=True)]


def _step(block: Block, group: Node) -> str:
    """How long a bucket is, as an interval."""
    width = group["arguments"][0]["expression"]
    if any(node.get("class") == "COLUMN_REF" for node in nodes(width)):
        raise NotSo("buckets differ in length")
    if group["function_name"].lower() == "time_bucket":
        return f"CAST({block.text(width)} AS INTERVAL)"
    if width.get("class") != "CONSTANT":
        raise NotSo("buckets are named by an expression")
    unit = str(width["literal"].get("text", "")).lower()
    return f"INTERVAL '{_UNITS.get(unit.removesuffix('s'), f'1 {unit}')}'"


def _zone(group: Node) -> str | None:
    """The time zone that a bucket names."""
    for argument in group["arguments"][2:]:
        literal = argument["expression"].get("literal", {})
        if literal.get("kind") == "STRING" and not any(each.isdigit() for each in literal["text"]):
            return str(literal["text"]).replace("'", "''")
    return None


def _rewrite(
    block: Block,
    groups: list[Node],
    calls: list[tuple[int, str, Node]],
    names: list[str],
    table: str,
) -> None:
    """Have a selection select from a table of answers instead."""
    select, parser = block.select, block.parser
    for item, name in zip(select["select_list"], names, strict=True):
        item["alias"] = item["alias"] or name
    wanted = [copy.deepcopy(group) for group in groups]
    bucket = parser.expression(_quoted(_GROUP))
    for at, kind, node in calls:  # Arrow knows fewer types than DuckDB
        put(node, parser.expression(f'CAST(first("#{at}") AS {kind})'))
    if groups:
        for node in list(nodes([select["select_list"], select["having"], select["modifiers"]])):
            if "class" in node and any(same(node, group) for group in wanted):
                put(node, bucket)
        select["group_expressions"] = [copy.deepcopy(bucket)]
        select["group_sets"] = [[0]]
        select["aggregate_handling"] = "STANDARD_HANDLING"
    select["where_clause"] = None
    block.table.update({"table_name": table, "qualified_name": {"path": [table]}})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


__all__ = ["Indexed", "answer"]
