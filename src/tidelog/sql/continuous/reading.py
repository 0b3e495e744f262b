"""Reads a continuous query: a tree becomes operators, or an error that names what is not allowed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NoReturn

import pyarrow as pa

from tidelog import aggregates
from tidelog.expr import ExpressionError, parse_aggregate
from tidelog.model.errors import SchemaError, TidelogError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator, Shape
from tidelog.operators.composed import Composed, chain
from tidelog.operators.ordering import Union
from tidelog.operators.rowwise import Projection
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.cutting import CLAUSE
from tidelog.sql.clauses.grouping import GROUP, calls, own_nodes
from tidelog.sql.clauses.joins.asof import is_as_of
from tidelog.sql.clauses.printing import printable
from tidelog.sql.clauses.syntax import parsed
from tidelog.sql.clauses.tables.grouped import group_by_windows
from tidelog.sql.clauses.tables.reading import WORDS
from tidelog.sql.clauses.window_arguments import FUNCTIONS, shown
from tidelog.sql.clauses.windows import Apart
from tidelog.sql.continuous.joined import AsOfJoined, Assigned, LookedUp, WindowJoined
from tidelog.sql.continuous.merged import Merged
from tidelog.sql.continuous.patterns import Matched
from tidelog.sql.continuous.plans import Continuous, Plan, filters, presented
from tidelog.sql.continuous.situations import Situated
from tidelog.sql.continuous.sources import Column, Source, Statement, Stream, Subquery
from tidelog.sql.database import Database
from tidelog.sql.errors import SqlError, of_engine
from tidelog.sql.planning.calls import Functions
from tidelog.sql.reading.sources import checked_tables
from tidelog.sql.text.limits import refuse_monstrous
from tidelog.sql.text.literals import literal, parameters
from tidelog.sql.text.moments import moment
from tidelog.sql.text.tree import Node, Parser, nodes, place, put_value

_ALLOWED: Final = (
    "a continuous query is SELECT ... FROM stream, event clause or (query) [JOIN table ...] [WHERE ...] "
    "[GROUP BY window(...), ...], or UNION ALL of such"
)
_CLAUSES: Final = {
    "group_expressions": "GROUP BY",
    "group_sets": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "sample": "SAMPLE",
}
"""Members of a SELECT that it must not have, and what they are called."""
_MODIFIERS: Final = {
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "DISTINCT_MODIFIER": "DISTINCT",
}
_SOURCES: Final = {
    "TABLE_FUNCTION": "a table function",
    "EMPTY": "no FROM",
    "EXPRESSION_LIST": "VALUES",
    "PIVOT": "PIVOT",
    "SHOW_REF": "DESCRIBE",
}
_INNER: Final = {"WINDOW": "OVER", "SUBQUERY": "a query in an expression", "LAMBDA": "a lambda"}
_CLAUSE_SOURCES: Final[Mapping[str, Callable[[Statement, Node], Source]]] = {
    "WINDOW_JOIN": WindowJoined,
    "LOGICAL_MERGE": Merged,
    "MATCH_RECOGNIZE": Matched,
    "SITUATIONS": Situated,
    "DERIVE": Situated,
    **dict.fromkeys(WORDS, Assigned),
}
"""What reads the rows of clauses, by their words."""
_CLAUSES_OF_TABLES: Final = {"WINDOW": "a row pattern in a window, instead of MATCH_RECOGNIZE"}
"""What clauses are called that streams do not have, if not by their words."""
_CONSTANTS: Final = (
    "windows",
    "complete_only",
    "lengths",
    "options",
    "measures",
    "defines",
    "within",
    "definitions",
    "returned",
)
"""Members of clauses that DuckDB computes, once or of rows."""


def read_continuous(
    text: str,
    params: Any,
    database: Database,
    names: Sequence[str],
    shape_of: Callable[[str], Shape],
    tables: Mapping[str, Any] | None = None,
) -> Continuous:
    """Understand a continuous query of the streams of some names, and of tables, which are looked up.

    Raises :class:`SqlError` for what is none, with its place.
    """
    refuse_monstrous(text)
    try:
        with database.mutex:
            return _Reading(text, params, database, names, shape_of, checked_tables(tables)).read()
    except RecursionError:
        raise SqlError("the statement is nested too deeply; split it up", text=text, position=0) from None


class _Reading(Statement):
    """Reads one statement."""

    def __init__(
        self,
        text: str,
        params: Any,
        database: Database,
        names: Sequence[str],
        shape_of: Callable[[str], Shape],
        tables: Mapping[str, Any],
    ) -> None:
        self._text = text
        self._params = params
        self._parser: Parser = database.parser
        self._database = database
        self._names = names
        self._shape_of = shape_of
        self._tables = tables
        own = frozenset(aggregates.names()) - database.functions
        functions = Functions(database.aggregates, own)
        self.context = Context(self._parser, self.error, functions, {}, "UTC", database.cursor, lambda tree: None)

    def read(self) -> Continuous:
        tree = parsed(self._parser, self._text)
        statement = tree["statements"][0]
        given = parameters(self._params, [each["key"] for each in statement["named_param_map"]])
        values = {name.lower(): self._parser.expression(literal(value)) for name, value in given.items()}
        statement["named_param_map"] = []
        for node in [each for each in nodes(tree) if each.get("class") == "PARAMETER"]:
            put_value(node, values[node["identifier"].lower()])
        meaning = shown(self._parser.print(printable(tree)))
        plan = self.query(statement["node"])
        try:
            plan.make()
        except SchemaError as error:  # clocks of different units
            raise self.error(str(error), plan.node) from None
        return Continuous(self._text, meaning, plan.streams, plan.columns, plan.make)

    # -- queries --------------------------------------------------------------------------------------------------

    def query(self, node: Node) -> Plan:
        self._refuse_around(node)
        kind = node["type"]
        if kind not in ("SELECT_NODE", "SET_OPERATION_NODE"):
            self.refuse(kind.removesuffix("_NODE").replace("_", " "), node)
        return self._select(node) if kind == "SELECT_NODE" else self._union(node)

    def _refuse_around(self, node: Node) -> None:
        """Raise for what stands around a query."""
        for each in node["cte_map"]["map"]:
            self.refuse("WITH", each["value"].get("query", node))
        for modifier in node["modifiers"]:
            self.refuse(_MODIFIERS.get(modifier["type"], modifier["type"]), modifier)

    def _union(self, node: Node) -> Plan:
        if node["setop_type"] not in ("UNION", "UNION_BY_NAME") or not node["setop_all"]:
            self.refuse(f"{node['setop_type'].replace('_', ' ')}{' ALL' if node['setop_all'] else ''}", node)
        if node["setop_type"] == "UNION_BY_NAME":
            self.refuse("UNION ALL BY NAME", node)
        plans = [self.query(each) for each in node["children"] or [node["left"], node["right"]]]
        first = plans[0]
        for plan in plans[1:]:
            if len(plan.columns) != len(first.columns):
                raise self.error(
                    f"found {len(plan.columns)} columns of a UNION ALL whose first query has {len(first.columns)}",
                    plan.node,
                )
        shapes = [plan.make().output for plan in plans]
        for plan in plans:
            if SEQUENCE_COLUMN in plan.columns:
                raise self.error(f"rows that are united have no {SEQUENCE_COLUMN} in common; name it by AS", plan.node)
        fields = [self._united(plans, shapes, place) for place in range(len(first.columns))]
        output = Shape(pa.schema(fields), shapes[0].time)
        times = [plan.columns.index(shape.time) for plan, shape in zip(plans, shapes, strict=True)]
        for plan, at in zip(plans, times, strict=True):
            if at != times[0]:
                raise self.error(
                    f"the time of the rows is column {at + 1} here, and column {times[0] + 1} of the first query of "
                    "this UNION ALL; give both at the same place",
                    plan.node,
                )

        def make() -> Operator:
            sources = [presented(plan.make(), plan.columns, output) for plan in plans]
            return Composed(Union([each.output for each in sources]), sources)

        return Plan(tuple(name for plan in plans for name in plan.streams), make, first.columns, first.node)

    def _united(self, plans: Sequence[Plan], shapes: Sequence[Shape], at: int) -> pa.Field:
        """A column of a union: named as the first one, of the type that all of them have."""
        fields = [shape.schema.field(plan.columns[at]) for plan, shape in zip(plans, shapes, strict=True)]
        for plan, field in zip(plans, fields, strict=True):
            if field.type != fields[0].type:
                raise self.error(
                    f"column {field.name!r} has type {field.type}, and {fields[0].type} in the first query of this "
                    "UNION ALL; cast one of them",
                    plan.node,
                )
        return fields[0].with_nullable(any(field.nullable for field in fields))

    def _select(self, node: Node) -> Plan:
        group_by_windows(node, self.context)
        if any(calls(each, *FUNCTIONS) for each in own_nodes(node)):
            return self._windowed(node)
        for member, what in _CLAUSES.items():
            if node[member]:
                found = node[member][0] if isinstance(node[member], list) and node[member] else node[member]
                reason = node["from_table"].get("reason")  # why these are no groups of windows
                said = f"{what} of rows, since {reason}" if what == "GROUP BY" and reason else what
                self.refuse(said, found if isinstance(found, dict) else node["from_table"])
        if node["aggregate_handling"] != "STANDARD_HANDLING":
            self.refuse("GROUP BY", node["from_table"])
        source = self.source(node["from_table"])
        columns = dict(self._columns(node["select_list"], source))
        where = node["where_clause"]
        condition = None if where is None else source.text(where)
        texts = {name: text for name, (text, _) in columns.items()}
        time = self._time(texts, source.shape, node["select_list"][0], source.columns)
        self._check(source.shape, condition, where)
        for name, (text, item) in columns.items():
            self._check_columns(source.shape, {time: source.shape.time, name: text}, time, item)
        shape = source.read

        def make() -> Operator:
            return chain(*source.front(), *filters(shape, condition), Projection(shape, texts, time))

        return Plan(source.streams, make, tuple(columns), node["select_list"][0])

    def _windowed(self, node: Node) -> Plan:
        """A selection that is grouped by windows: rows, keys, windows, what is asked of these, columns."""
        for member in ("sample", "qualify"):
            if node[member]:
                self.refuse(_CLAUSES[member], node["from_table"])
        source = self.source(node["from_table"])
        where = node["where_clause"]
        condition = None if where is None else source.text(where)
        self._check(source.shape, condition, where)
        self._refuse_functions(node["group_expressions"])
        apart = Apart(node, self.context)
        if apart.time is not None and source.text(apart.time) != source.shape.time:
            raise self.error(
                f"found windows of another time than that of the rows, {source.shape.time!r}; expected these",
                apart.time,
            )
        keys = {name: source.text(each) for name, each in apart.keys.items()}
        for name, each in apart.keys.items():
            self._check_columns(source.shape, {source.shape.time: source.shape.time, name: keys[name]}, None, each)
        values = {name: source.aggregate(each) for name, each in apart.values.items()}
        for name, each in apart.values.items():
            try:
                parse_aggregate(values[name], source.shape.schema, source.shape.time)
            except ExpressionError as error:
                raise self._wrong(error, each) from None
        shape = source.read
        kept = {name: name for name in shape.schema.names} | keys
        keyed = Projection(shape, kept).output
        try:
            windows = apart.operator(keyed, values)
            output = windows().output
        except SqlError:
            raise
        except TidelogError as error:  # of the operator, which knows nothing of the statement
            raise self.error(str(error).partition("\n")[0], apart.call) from None
        except _duckdb_error() as error:  # of lengths and other constants
            raise of_engine(error, self._text, lambda _: self._place(apart.call)) from None
        columns: dict[str, str] = {}
        for item in node["select_list"]:
            text = self._given(item, output, apart.call)
            if item["alias"] in columns:
                raise self.error(f"found two columns {item['alias']!r}; give one of them another name, by AS", item)
            columns[item["alias"]] = text
        time = self._time(columns, output, node["select_list"][0])
        for item in node["select_list"]:
            one = {time: output.time, item["alias"]: columns[item["alias"]]}
            self._check_columns(output, one, time, item)
        having = None if apart.having is None else self._given(apart.having, output, apart.call)
        self._check(output, having, apart.having)

        def make() -> Operator:
            before = [*source.front(), *filters(shape, condition), Projection(shape, kept)]
            return chain(*before, windows(), *filters(output, having), Projection(output, columns, time))

        return Plan(source.streams, make, tuple(columns), node["select_list"][0])

    def _refuse_functions(self, groups: Sequence[Any]) -> None:
        """Raise for functions that tell of the process, or change it: constants of windows are computed by DuckDB."""
        known = {*FUNCTIONS, *self._database.functions, *self.context.functions.own}
        for each in nodes(list(groups)):
            name = each.get("function_name", "").lower() if each.get("class") == "FUNCTION" else None
            if name is not None and name not in known:
                self.refuse(f"the function {name}", each)

    def _given(self, node: Node, output: Shape, call: Node) -> str:
        """An expression of what windows give, as a text."""
        own = copy.deepcopy(node)
        own["alias"] = ""
        if any(each.get("column_names") == [GROUP.strip('"')] for each in nodes(own)):
            self.refuse("a window among the columns, instead of window_start and window_end", call)
        self.refuse_inner(own)
        if own.get("class") == "COLUMN_REF" and own["column_names"][-1] in output.schema.names:
            return str(own["column_names"][-1])
        return self.printed(own)

    def _time(self, columns: Mapping[str, str], shape: Shape, node: Node, named: Sequence[Column] = ()) -> str:
        """The first column that is the time of rows, which ``named`` may know under another name."""
        for name, text in columns.items():
            if text == shape.time:
                return name
        shown = next((each.name for each in named if each.here == shape.time), shape.time)
        raise self.error(
            f"found no column that is the time of the rows, {shown!r}; expected it among those of SELECT, under "
            "whatever name",
            node,
        )

    def _check(self, shape: Shape, condition: str | None, node: Node | None) -> None:
        """Raise for what is no condition."""
        try:
            filters(shape, condition)
        except ExpressionError as error:
            assert node is not None
            raise self._wrong(error, node) from None

    def _check_columns(self, shape: Shape, columns: Mapping[str, str], time: str | None, node: Node) -> None:
        """Raise for what are no columns."""
        try:
            Projection(shape, columns, time)
        except ExpressionError as error:
            raise self._wrong(error, node) from None

    def _columns(self, items: Sequence[Node], source: Source) -> Iterator[tuple[str, tuple[str, Node]]]:
        """The columns of a SELECT: names, each with its text, and where it stands."""
        taken: set[str] = set()
        for item in items:
            for name, text in source.star(item) if item["class"] == "STAR" else [source.column(item)]:
                if name.lower() in taken:
                    raise self.error(f"found two columns {name!r}; give one of them another name, by AS", item)
                taken.add(name.lower())
                yield name, (text, item)

    # -- errors and texts -----------------------------------------------------------------------------------------

    def source(self, node: Node) -> Source:
        """What a FROM reads."""
        kind = node["type"]
        if kind == CLAUSE:
            if node["word"] not in _CLAUSE_SOURCES:
                word: str = node["word"]
                self.refuse(_CLAUSES_OF_TABLES.get(word, word), node)
            self._refuse_functions([node.get(each) for each in _CONSTANTS])
            return _CLAUSE_SOURCES[node["word"]](self, node)
        if kind == "JOIN":
            return self._join(node)
        if kind == "SUBQUERY":
            return Subquery(self, node)
        if kind != "BASE_TABLE":
            self.refuse(_SOURCES.get(kind, str(kind)), node)
        if self.table(node) is not None:
            self.refuse("a table alone, instead of beside a stream, by JOIN", node)
        return Stream(self, node)

    def _join(self, node: Node) -> Source:
        if is_as_of(node):
            self._refuse_functions([node.get("tolerance")])
            return AsOfJoined(self, node)
        table = self.table(node["right"])
        if table is None:
            self.refuse("a join of streams, instead of ASOF JOIN, WINDOW_JOIN, or a JOIN with a table", node)
        return LookedUp(self, node, table)

    def stream(self, node: Node) -> tuple[str, Shape]:
        """The stream that a FROM names, and its rows."""
        name: str = node["table_name"]
        if node["schema_name"] or node["catalog_name"]:
            raise self.error(f"found {node['schema_name'] or node['catalog_name']}.{name}; there are no schemas", node)
        if name in self._names:
            return name, self._shape_of(name)
        similar = [each for each in self._names if each.lower() == name.lower()]
        if len(similar) != 1:
            raise self.error(f"there is no stream {name!r}; {did_you_mean(name, [*self._names, *self._tables])}", node)
        return similar[0], self._shape_of(similar[0])

    def table(self, node: Node) -> pa.Table | None:
        """The table that a FROM names; None if it names none."""
        if node["type"] != "BASE_TABLE" or node["schema_name"] or node["catalog_name"]:
            return None
        name = node["table_name"]
        similar = [each for each in self._tables if each.lower() == name.lower()]
        found = name if name in self._tables else similar[0] if len(similar) == 1 else None
        if found is None:
            return None
        with closing(self._database.cursor()) as cursor:  # which knows whatever is a table
            cursor.register("#table", self._tables[found])
            table: pa.Table = cursor.sql('FROM "#table"').to_arrow_table()
        return table

    def printed(self, node: Node) -> str:
        """An expression as a text."""
        return self._parser.print_expression(node)

    def refuse_inner(self, node: Node) -> None:
        """Raise for what no expression of a continuous query has."""
        for each in nodes(node):
            kind = each.get("class", "")
            if kind in _INNER:
                self.refuse(_INNER[kind], each)
            if kind == "FUNCTION" and each["function_name"].lower() in self._database.aggregates:
                self.refuse(f"the aggregate {each['function_name']}", each)
            if (told := moment(each)) is not None and kind == "FUNCTION":
                self.refuse(f"{told}(), which tells another time whenever it is asked", each)
            if kind == "STAR":
                self.refuse("* inside of an expression", each)

    def _wrong(self, error: ExpressionError, node: Node) -> SqlError:
        said = str(error).partition("\n")[0]
        return self.error(said, node)

    def refuse(self, what: str, node: Node) -> NoReturn:
        """Raise for what is not allowed."""
        raise self.error(f"found {what}; {_ALLOWED}", node)

    def error(self, message: str, node: Node) -> SqlError:
        """An error where the text of a node begins."""
        return SqlError(message, text=self._text, position=self._place(node))

    def _place(self, node: Node) -> int | None:
        own = place(node, self._text) if node.get("type") in ("JOIN", CLAUSE, None) else None
        if own is not None:  # what is joined stands before; parts of clauses are no expressions
            return own
        places = (place(each, self._text) for each in nodes(node))
        return min((each for each in places if each is not None), default=None)


def _duckdb_error() -> type[Exception]:
    """What DuckDB raises, which is loaded when it is used."""
    import duckdb

    return duckdb.Error
