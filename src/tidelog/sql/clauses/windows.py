"""Windows in SQL: ``GROUP BY window(ts, '1 hour', '5 minutes')``, ``session_window``, ``count_window``.

A selection that is grouped by one of them, and perhaps by keys, becomes a selection of what the operator of such
windows gives: a row for each window and key, with ``window_start`` and ``window_end``. What is around the aggregates
stays, and ``HAVING`` becomes a condition on these rows.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.expr import parse_aggregate
from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import TidelogError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator, Shape
from tidelog.operators.replaying import replay
from tidelog.operators.window.aggregating import END, REVISION, START
from tidelog.plan.choosing import AskedWindows, NotIndexed, candidates, fastest
from tidelog.plan.slices import Unknown
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.grouping import GROUP, Grouping, Refuse, calls, key, own_nodes, value
from tidelog.sql.clauses.operation import Operation, Selected, Work, milliseconds
from tidelog.sql.clauses.window_arguments import FUNCTIONS, MAKERS, Arguments, Kind, shown
from tidelog.sql.errors import SqlError
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.text.tree import NOWHERE, Node, nodes, put

if TYPE_CHECKING:
    import duckdb

_COLUMNS: Final = (START, END)
_TIME: Final = "#time"
_UNKNOWN: Final = re.compile(r"no aggregate function '(\w+)'")
"""What is told of aggregates that expressions do not have."""
_BATCH: Final = 1 << 16
"""Rows that DuckDB gives at once."""


def has_windows(select: Node) -> bool:
    """Whether a selection is one with windows."""
    return any(calls(each, *MAKERS) for each in own_nodes(select))


def make_windows(select: Node, ctes: Sequence[Node], name: str, context: Context) -> Operation:
    """The windows of a selection, which selects from the relation of a name from now on: what is given back."""
    return _Windows(select, list(ctes), context).operation(name)


def refuse_windows(tree: Node, refuse: Refuse) -> None:
    """Raise for windows where none can be."""
    for node in nodes(tree):
        if calls(node, *FUNCTIONS):
            raise _misplaced(node, refuse)


def _misplaced(node: Node, refuse: Refuse) -> Exception:
    name = shown(node["function_name"].lower()) if calls(node, *FUNCTIONS) else node["column_names"][-1]
    return refuse(
        f"found {name} outside of a selection that is grouped by one window; expected GROUP BY window(time, size), "
        "session_window or count_window, alone or with other columns",
        node,
    )


def _is_early(select: Node) -> bool:
    """Whether windows of a selection are told early."""
    found = (node for node in own_nodes(select) if calls(node, *FUNCTIONS))
    return any(each["name"].lower() == "early" for node in found for each in node["arguments"])


class _Windows:
    """One selection with windows."""

    def __init__(self, select: Node, ctes: list[Node], context: Context) -> None:
        self._context = context
        self._ctes = ctes
        parser, refuse = context.parser, context.refuse
        self._columns = (*_COLUMNS, REVISION) if _is_early(select) else _COLUMNS
        """The columns that windows have."""
        self._grouping = Grouping(
            select,
            MAKERS,
            context.functions.of_duckdb | context.functions.own,
            parser,
            refuse,
            own=self._is_own,
            misplaced=_misplaced,
        )
        self._arguments = Arguments(self._grouping, context.connect)

    def _is_own(self, node: Node) -> bool:
        """Whether a node is a column that windows have."""
        return node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in self._columns

    def leave(self, node: Node) -> bool:
        """Leave columns that windows have as they are."""
        if not self._is_own(node):
            return False
        node["column_names"] = [node["column_names"][-1].lower()]
        return True

    def operation(self, name: str) -> Operation:
        """The relation of the windows, from which the selection selects from now on."""
        grouping, context = self._grouping, self._context
        select = grouping.select
        source = copy.deepcopy(select)
        having = select["having"]
        if having is not None:
            grouping.lift_one(having, self.leave, named=True)
        grouping.lift(self.leave)
        if having is not None:
            grouping.resolve(having)
        types = self._types(source)
        try:
            operation = self._made(source)
        except SqlError:
            raise
        except TidelogError as error:  # of the operator, which knows nothing of the statement
            told = str(error).partition("\n")[0]
            self._refuse_unknown(told)
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
        names = [*self._keys, *self._columns, *self._values]
        schema = pa.schema([output.field(at).with_name(name) for at, name in enumerate(names)])

        def replayed() -> Iterator[pa.RecordBatch]:
            return replay(make(), [made.rows()])

        work = Work(make, lambda: [made.selected()])
        try:
            found = candidates(self._asked(made, windows))
        except (NotSo, NotIndexed) as reason:
            why = [f"not from the index, because {reason}"]
            return Operation(self._title, schema, replayed, "replay of the rows in order", why, work=work)
        chosen = fastest(found)
        others = [f"{each.name}: about {milliseconds(each.seconds)}" for each in found if each is not chosen]
        estimated = [
            f"estimated to take {milliseconds(chosen.seconds)} of processors" + "".join(f"; {each}" for each in others)
        ]
        plan = chosen.plan
        if plan is None:
            way = "replay of the rows in order"
            return Operation(self._title, schema, replayed, way, estimated, chosen.seconds, work=work)
        way = f"the index, {chosen.name} plan: {plan.count:,} windows"
        assert made.block is not None
        relation = made.block.relation
        relation.way, relation.is_indexed = f"{way}, for {self._title}", True

        def asked() -> Iterator[pa.RecordBatch]:
            given = 0
            try:
                for batch in plan.batches(schema):
                    given += batch.num_rows
                    yield batch
            except Unknown:  # which is rare: sums that do not fit
                for batch in replayed():
                    done = min(given, batch.num_rows)
                    given -= done
                    yield batch.slice(done)

        return Operation(self._title, schema, asked, way, estimated, chosen.seconds, is_indexed=True)

    def _refuse_unknown(self, told: str) -> None:
        """Raise if what an operator told is about an aggregate that DuckDB alone knows."""
        found = _UNKNOWN.search(told)
        for node in self._grouping.values if found else ():
            name = node["function_name"].lower()
            if found and name == found[1].lower() and name in self._context.functions.of_duckdb:
                raise self._context.refuse(
                    f"found {name}, which DuckDB alone computes; {self._title} takes aggregates of tidelog: select "
                    f"{name} in a query of its own, and join the two",
                    node,
                )

    # -- rows and aggregates ------------------------------------------------------------------------------------------

    def _time(self) -> Node | None:
        """What gives the time of rows; None for the stream's own."""
        arguments = self._arguments.plain()
        if self._grouping.name == "count_window":
            return arguments[2] if len(arguments) > 2 else None
        if not arguments:
            raise self._arguments.refuse("without arguments; expected a time, and a length")
        return arguments[0]

    def _own_time(self, table: Node) -> Node | None:
        """The time of the rows of a stream, or the only timestamp of a table; None if there is none."""
        if table["type"] != "BASE_TABLE":
            return None
        context, name = self._context, table["table_name"]
        relation = context.relations.get(name)
        if relation is not None:
            found = [relation.stream.time] if relation.is_one else []
        else:
            given = getattr(context.tables.get(name), "schema", None)
            fields = given if isinstance(given, pa.Schema) else ()
            found = [each.name for each in fields if pa.types.is_timestamp(each.type)]
        return context.parser.expression(_quoted(found[0])) if len(found) == 1 else None

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
        after = "" if where is None else f" WHERE {grouping.text(where)}"
        stream = table["table_name"]
        whence = f"{_quoted(stream)} AS {_quoted(table['alias'] or stream)}{after}"
        selected = partial(Selected, [_quoted(name) for name in names], whence, stream)
        return _Source(shape, dict(zip(self._values, texts, strict=True)), by, rows, selected, block)

    def _computed(self, source: Node) -> _Source:
        """Rows that DuckDB computes: times, keys, and arguments of aggregates, in order."""
        context, grouping = self._context, self._grouping
        time = self._time() or self._own_time(source["from_table"])
        if time is None:
            raise self._arguments.refuse(
                "of rows of which nobody knows the time; expected it as third argument, behind a size and a slide"
            )
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
        shape = Shape(schema, _TIME)
        whence = f'(SELECT *{cast} FROM ({inner})) WHERE "{_TIME}" IS NOT NULL'
        selected = partial(Selected, [_quoted(name) for name in schema.names], whence)
        return _Source(shape, aggregates, self._keys, partial(_asked, context.connect, text), selected)

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

    def _asked(self, source: _Source, windows: Kind) -> AskedWindows:
        """What is asked of the index. Raises :class:`NotSo` if it does not know such windows."""
        block = source.block
        if block is None:
            raise NotSo("the rows are not those of one stream")
        if source.by:
            raise NotSo("there are keys")
        if windows.frames is None:
            raise NotSo("where sessions end only the events tell")
        stream = block.relation.stream
        interval = block.interval(block.select["where_clause"])
        calls = list(source.aggregates.values())
        frames, flags = windows.frames, windows.flags
        return AskedWindows(stream.snapshot, stream.options, stream.numbers, interval, frames, calls, flags)

    @property
    def _title(self) -> str:
        word = self._grouping.call.get("word")
        return word if word is not None else shown(self._context.parser.print_expression(self._grouping.call))

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
            grouping.lift_one(self.having, self._windows.leave, named=True)
        grouping.lift(self._windows.leave)
        if self.having is not None:
            grouping.resolve(self.having)
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
    selected: Callable[[], Selected]
    block: Block | None = None
    """The selection of one stream whose rows these are."""


def _named(node: Node, name: str) -> Node:
    own = copy.deepcopy(node)
    own["alias"] = name
    return own


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _asked(connect: Callable[[], duckdb.DuckDBPyConnection], text: str) -> Iterator[pa.RecordBatch]:
    """The rows of a statement, by a connection of their own."""
    with closing(connect()) as cursor:
        yield from cursor.sql(text).to_arrow_reader(_BATCH)
