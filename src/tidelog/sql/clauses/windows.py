"""Windows in SQL: ``GROUP BY window(ts, '1 hour', '5 minutes')``, ``session_window``, ``count_window``.

A selection that is grouped by one of them, and perhaps by keys, becomes a selection of what the operator of such
windows gives: a row for each window and key, with ``window_start`` and ``window_end``. What is around the aggregates
stays, and ``HAVING`` becomes a condition on these rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.expr import parse_aggregate
from tidelog.expr.errors import ExpressionError
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import boolean_column, integers
from tidelog.model.errors import TidelogError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator, Shape
from tidelog.operators.replaying import replay
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import FromFirst
from tidelog.plan.answers import bounds, question_of
from tidelog.plan.windows import Unknown, WindowPlan
from tidelog.sql.clauses.grouping import GROUP, Grouping, Refuse, calls, key, own_nodes, value
from tidelog.sql.clauses.operation import Operation
from tidelog.sql.clauses.window_arguments import FUNCTIONS, Arguments, Kind, shown
from tidelog.sql.errors import SqlError
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.planning.calls import Functions
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import NOWHERE, Node, Parser, nodes, put
from tidelog.store.read.aggregate_sources import Source

if TYPE_CHECKING:
    import duckdb

_COLUMNS: Final = ("window_start", "window_end")
_TIME: Final = "#time"
_LEAST_ROWS: Final = 4096
"""Events that a slice must have on average: with less, replay is as fast."""
_BATCH: Final = 1 << 16
"""Rows that DuckDB gives at once."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the clauses of a statement need to know of it."""

    parser: Parser
    refuse: Refuse
    functions: Functions
    relations: Mapping[str, Relation]
    timezone: str
    connect: Callable[[], duckdb.DuckDBPyConnection]
    """A connection that knows what the statement mentions."""
    plan: Callable[[Node], None]
    """Looks at a statement's tree for what can be read in a better way."""


def put_windows(tree: Node, context: Context) -> Iterator[tuple[str, Operation]]:
    """Put relations in the place of selections with windows; gives them one by one with their names.

    Those inside of others come first, and have to be known to connections before the next is asked for.
    """
    for number, (select, ctes) in enumerate(_selections(tree["statements"][0]["node"], [])):
        name = f"#window {number}"
        yield name, _Windows(select, ctes, context).operation(name)
    for node in nodes(tree):
        if calls(node, *FUNCTIONS):
            raise _misplaced(node, context.refuse)


def _selections(value: Any, ctes: list[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """All selections with windows, those inside of others first, each with the CTEs that it sees."""
    if isinstance(value, list):
        for each in value:
            yield from _selections(each, ctes)
    if not isinstance(value, dict):
        return
    seen = list(ctes)
    for each in (value.get("cte_map") or {}).get("map", []):
        yield from _selections(each["value"], seen)
        seen.append(each)
    for name, inner in value.items():
        if name != "cte_map":
            yield from _selections(inner, seen)
    if value.get("type") == "SELECT_NODE" and any(calls(each, *FUNCTIONS) for each in own_nodes(value)):
        yield value, seen


def _misplaced(node: Node, refuse: Refuse) -> Exception:
    name = shown(node["function_name"].lower()) if calls(node, *FUNCTIONS) else node["column_names"][-1]
    return refuse(
        f"found {name} outside of a selection that is grouped by one window; expected GROUP BY window(time, size), "
        "session_window or count_window, alone or with other columns",
        node,
    )


def _is_own(node: Node) -> bool:
    """Whether a node is a column that windows have."""
    return node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in _COLUMNS


class _Windows:
    """One selection with windows."""

    def __init__(self, select: Node, ctes: list[Node], context: Context) -> None:
        self._context = context
        self._ctes = ctes
        parser, refuse = context.parser, context.refuse
        self._grouping = Grouping(
            select,
            FUNCTIONS,
            context.functions.of_duckdb | context.functions.own,
            parser,
            refuse,
            own=_is_own,
            misplaced=_misplaced,
        )
        self._arguments = Arguments(self._grouping, context.connect)

    def operation(self, name: str) -> Operation:
        """The relation of the windows, from which the selection selects from now on."""
        grouping, context = self._grouping, self._context
        select = grouping.select
        source = copy.deepcopy(select)
        having = select["having"]
        if having is not None:
            grouping.lift_one(having, _leave)
        grouping.lift(_leave)
        types = self._types(source)
        try:
            operation = self._made(source)
        except SqlError:
            raise
        except TidelogError as error:  # of the operator, which knows nothing of the statement
            told = str(error).partition("\n")[0]
            raise context.refuse(told.replace(repr(_TIME), "of windows"), grouping.call) from None
        self._finish(types)
        table = context.parser.parse(f'SELECT 1 FROM "{name}"')["statements"][0]["node"]["from_table"]
        grouping.select_from(table)
        select["where_clause"] = having
        return operation

    def _made(self, source: Node) -> Operation:
        made = self._direct(source) or self._computed(source)
        windows = self._arguments.kind(made.shape.clock)
        make = partial(windows.operator, made.shape, made.aggregates, made.by)
        output = make().output.schema
        names = [*self._keys, *_COLUMNS, *self._values]
        schema = pa.schema([output.field(at).with_name(name) for at, name in enumerate(names)])

        def replayed() -> Iterator[pa.RecordBatch]:
            return replay(make(), [made.rows()])

        try:
            plan = self._indexed(made, windows)
        except NotSo as reason:
            return Operation(
                self._title, schema, replayed, "replay of the rows in order", [f"not from the index, because {reason}"]
            )
        way = f"the index: {plan.slices:,} slices of time"
        assert made.block is not None
        relation = made.block.relation
        relation.way, relation.is_indexed = f"{way}, for {self._title}", True

        def asked() -> Iterator[pa.RecordBatch]:
            try:
                yield from plan.batches(schema, ReadCounters())
            except Unknown as unknown:  # which is rare: sums that do not fit
                for batch in replayed():
                    later = integers(batch.column(0)) >= unknown.start
                    yield batch.filter(boolean_column(later))

        return Operation(self._title, schema, asked, way)

    # -- rows and aggregates ------------------------------------------------------------------------------------------

    def _time(self) -> Node | None:
        """What gives the time of rows; None for the stream's own."""
        arguments = self._arguments.plain()
        if self._grouping.name == "count_window":
            return arguments[2] if len(arguments) > 2 else None
        if not arguments:
            raise self._arguments.refuse("without arguments; expected a time, and a length")
        return arguments[0]

    def _direct(self, source: Node) -> _Source | None:
        """The rows of one stream, as they are stored; None if something has to be computed by DuckDB."""
        context, grouping = self._context, self._grouping
        table = source["from_table"]
        relation = context.relations.get(table["table_name"]) if table["type"] == "BASE_TABLE" else None
        if relation is None or not relation.is_one or table["sample"] or source["sample"]:
            return None
        block = Block(source, relation, context.parser, context.timezone)
        stored = relation.stream.snapshot.layout.stored
        time = self._time()
        keys = [block.column(each) for each in grouping.keys]
        if None in keys or (time is not None and block.column(time) != relation.stream.time):
            return None
        where = source["where_clause"]
        texts = [block.text(each).replace("count_star()", "count(*)") for each in grouping.values]
        try:
            condition = None if where is None else str(block.condition(where))
            calls = [parse_aggregate(each, stored, relation.stream.time) for each in texts]
        except (NotSo, ExpressionError):
            return None
        by = [each for each in keys if each is not None]
        columns = dict.fromkeys([relation.stream.time, *by, *(name for call in calls for name in call.columns)])
        names = [name for name in columns if name != SEQUENCE_COLUMN or name in stored.names]
        relation.confined = block.confined
        relation.way = f"the events, for {self._title}"
        shape = Shape(pa.schema([stored.field(name) for name in names]), relation.stream.time)
        rows = partial(relation.rows, names, condition)
        return _Source(shape, dict(zip(self._values, texts, strict=True)), by, rows, block)

    def _computed(self, source: Node) -> _Source:
        """Rows that DuckDB computes: times, keys, and arguments of aggregates, in order."""
        context, grouping = self._context, self._grouping
        time = self._time()
        if time is None:
            raise self._arguments.refuse("of something else than a stream; expected the time as third argument")
        items = [
            _named(time, _TIME),
            *(_named(each, name) for each, name in zip(grouping.keys, self._keys, strict=True)),
        ]
        aggregates: dict[str, str] = {}
        for call, name in zip(copy.deepcopy(grouping.values), self._values, strict=True):
            for holder, part in [*((each, "expression") for each in call["arguments"]), (call, "filter")]:
                if holder[part] is not None:
                    argument = f"#argument {len(items)}"
                    items.append(_named(holder[part], argument))
                    holder[part] = context.parser.expression(f'"{argument}"')
            aggregates[name] = grouping.text(call).replace("count_star()", "count(*)")
        tree = self._tree(source, items)
        context.plan(tree)
        inner = context.parser.print(tree)
        with closing(context.connect()) as cursor:
            schema = cursor.sql(inner).limit(0).to_arrow_table().schema
        cast = ' REPLACE (CAST("#time" AS TIMESTAMP) AS "#time")' if pa.types.is_date(schema.field(_TIME).type) else ""
        if cast:
            schema = schema.set(0, pa.field(_TIME, pa.timestamp("us")))
        text = (
            f'SELECT * EXCLUDE ("#row"){cast} FROM (SELECT *, row_number() OVER () AS "#row" FROM ({inner})) '
            f'WHERE "{_TIME}" IS NOT NULL ORDER BY "{_TIME}", "#row"'
        )
        return _Source(Shape(schema, _TIME), aggregates, self._keys, partial(_asked, context.connect, text))

    def _tree(self, source: Node, items: list[Node]) -> Node:
        """A statement that selects some items from what the selection selects from."""
        tree = self._context.parser.parse("SELECT 1")
        inner = copy.deepcopy(source)
        inner.update(
            select_list=items,
            group_expressions=[],
            group_sets=[],
            aggregate_handling="STANDARD_HANDLING",
            having=None,
            qualify=None,
            modifiers=[],
            cte_map={"map": copy.deepcopy(self._ctes)},
        )
        tree["statements"][0]["node"] = inner
        return tree

    def _types(self, source: Node) -> dict[int, str]:
        """The types that DuckDB gives to aggregates, by their places."""
        values = self._grouping.values
        known = [at for at, each in enumerate(values) if not self._context.functions.is_own(each)]
        if not known:
            return {}
        text = self._context.parser.print(self._tree(source, copy.deepcopy([values[at] for at in known])))
        with closing(self._context.connect()) as cursor:
            return dict(zip(known, map(str, cursor.sql(text).types), strict=True))

    def _finish(self, types: Mapping[int, str]) -> None:
        """Give aggregates the types of DuckDB's, and the window itself, where it is selected, a start and an end."""
        parser = self._context.parser
        made = {value(at).strip('"'): f"CAST({value(at)} AS {kind})" for at, kind in types.items()}
        made[GROUP.strip('"')] = 'struct_pack(start := window_start, "end" := window_end)'
        select = self._grouping.select
        parts = [select["select_list"], select["having"], select["qualify"], select["modifiers"]]
        for node in list(nodes(parts)):
            if node.get("class") == "COLUMN_REF" and node["column_names"][0] in made:
                put(node, parser.expression(made[node["column_names"][0]]))

    # -- from the index ---------------------------------------------------------------------------------------------

    def _indexed(self, source: _Source, windows: Kind) -> WindowPlan:
        """The windows from the index. Raises :class:`NotSo` if it does not know them, or if that would take longer."""
        block = source.block
        if block is None:
            raise NotSo("the rows are not those of one stream")
        if windows.frames is None:
            raise NotSo("the windows are not those of time")
        if source.by:
            raise NotSo("there are keys")
        stream = block.relation.stream
        interval = block.interval(block.select["where_clause"])
        if not stream.snapshot.has_all(interval.start, interval.end, stream.numbers):
            raise NotSo("only events up to a version count")
        question = question_of(stream.snapshot, stream.options, [*source.aggregates.values(), "count(*)"])
        others = [
            call
            for each, call in zip(question.readings, source.aggregates.values(), strict=False)
            if each.source is not Source.ENTRIES
        ]
        if others:
            raise NotSo(f"the index does not keep {', '.join(others)}")
        found = bounds(stream.snapshot, stream.options, interval)
        if found is None:
            raise NotSo("there are no events")
        frames = windows.frames
        if isinstance(frames, FromFirst):
            frames = FixedFrames(frames.size, frames.slide, found[0])
        plan = WindowPlan(stream.snapshot, question, interval, frames, *found, **windows.flags)
        if found[2] < _LEAST_ROWS * plan.slices:
            raise NotSo(f"slices have about {found[2] // max(plan.slices, 1):,} events each, which are read as fast")
        return plan

    @property
    def _title(self) -> str:
        return shown(self._context.parser.print_expression(self._grouping.call))

    @property
    def _keys(self) -> list[str]:
        return [key(at).strip('"') for at in range(len(self._grouping.keys))]

    @property
    def _values(self) -> list[str]:
        return [value(at).strip('"') for at in range(len(self._grouping.values))]


class Apart:
    """A selection with windows, taken apart: it selects from then on from what the operator gives.

    Columns of that are ``#key 0`` and so on, ``window_start``, ``window_end``, and ``#value 0`` and so on.
    """

    def __init__(self, select: Node, context: Context) -> None:
        self._windows = _Windows(select, [], context)
        grouping = self._windows._grouping
        self.call = grouping.call
        """What makes the windows."""
        self.time = self._windows._time()
        """What gives the time of rows; None for the stream's own."""
        self.having: Node | None = select["having"]
        """What is asked of what comes out."""
        if self.having is not None:
            grouping.lift_one(self.having, _leave)
        grouping.lift(_leave)
        for node in nodes([select["select_list"], self.having]):
            if node.get("class") == "COLUMN_REF" and node["column_names"][0].startswith("#"):
                node["query_location"] = NOWHERE  # theirs is that of another text
        self.keys = dict(zip(self._windows._keys, grouping.keys, strict=True))
        """What rows are grouped by besides."""
        self.values = dict(zip(self._windows._values, grouping.values, strict=True))
        """The aggregates."""

    def operator(self, shape: Shape, aggregates: Mapping[str, str]) -> Callable[[], Operator]:
        """What makes the operator, for rows that have the keys as columns, and texts of the aggregates."""
        return partial(self._windows._arguments.kind(shape.clock).operator, shape, aggregates, list(self.keys))


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows for windows, and what is computed of them."""

    shape: Shape
    aggregates: Mapping[str, str]
    by: Sequence[str]
    rows: Callable[[], Iterator[pa.RecordBatch]]
    block: Block | None = None
    """The selection of one stream whose rows these are."""


def _leave(node: Node) -> bool:
    """Leave columns that windows have as they are."""
    if not _is_own(node):
        return False
    node["column_names"] = [node["column_names"][-1].lower()]
    return True


def _named(node: Node, name: str) -> Node:
    own = copy.deepcopy(node)
    own["alias"] = name
    return own


def _asked(connect: Callable[[], duckdb.DuckDBPyConnection], text: str) -> Iterator[pa.RecordBatch]:
    """The rows of a statement, by a connection of their own."""
    with closing(connect()) as cursor:
        yield from cursor.sql(text).to_arrow_reader(_BATCH)
