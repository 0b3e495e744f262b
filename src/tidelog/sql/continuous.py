"""Continuous queries: statements that are asked of what arrives as well as of history, as plans of operators.

What one may contain is the list here, and anything else is an error that names it:

* ``SELECT`` of columns, ``*``, and expressions (docs/expressions.md), one of which is the time of the rows as it is;
* ``FROM`` a stream;
* ``WHERE`` a condition;
* ``GROUP BY`` windows, ``window``, ``session_window`` or ``count_window``, perhaps beside other expressions, with
  aggregates and ``HAVING``: a row for each window, when the watermark has passed its end;
* ``UNION ALL`` of such, which gives their rows in the order of time.

Constants may be parameters. Rows keep their time, and their numbers, ``_seq``, until they are united.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa

from tidelog import aggregates
from tidelog.expr import ExpressionError, parse_aggregate
from tidelog.model.errors import SchemaError, TidelogError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator, Shape
from tidelog.operators.composed import Composed, chain
from tidelog.operators.ordering import Union
from tidelog.operators.rowwise import Filter, Presented, Projection
from tidelog.sql.clauses.grouping import GROUP, calls, own_nodes
from tidelog.sql.clauses.window_arguments import FUNCTIONS, parsed, shown
from tidelog.sql.clauses.windows import Apart, Context
from tidelog.sql.database import Database
from tidelog.sql.errors import SqlError, of_engine
from tidelog.sql.planning.calls import Functions
from tidelog.sql.query import refuse_monstrous
from tidelog.sql.text.literals import literal, parameters
from tidelog.sql.text.moments import moment
from tidelog.sql.text.tree import Node, Parser, nodes, place, put

_ALLOWED: Final = (
    "a continuous query is SELECT ... FROM stream [WHERE ...] [GROUP BY window(...), ...], or UNION ALL of such"
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
    "JOIN": "a join",
    "SUBQUERY": "a query in parentheses",
    "TABLE_FUNCTION": "a table function",
    "EMPTY": "no FROM",
    "EXPRESSION_LIST": "VALUES",
    "PIVOT": "PIVOT",
    "SHOW_REF": "DESCRIBE",
}
_INNER: Final = {"WINDOW": "OVER", "SUBQUERY": "a query in an expression", "LAMBDA": "a lambda"}
_STAR_PARTS: Final = {"replace_list": "REPLACE", "rename_list": "RENAME", "expr": "COLUMNS", "columns": "COLUMNS"}


@dataclass(frozen=True)
class Continuous:
    """A continuous query."""

    text: str
    """As it was written."""
    meaning: str
    """As it was understood: equal for texts that say the same of the same columns."""
    streams: tuple[str, ...]
    """The streams that are read, one for each input; one that is mentioned twice is two inputs."""
    columns: tuple[str, ...]
    """The columns that come out."""
    make: Callable[[], Operator]
    """Gives a new operator, always an equal one. Its inputs have the columns that are needed of the streams."""

    def presented(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the operator as they are handed out."""
        return batch if len(self.columns) == batch.num_columns else batch.select(list(self.columns))


def read_continuous(
    text: str, params: Any, database: Database, names: Sequence[str], shape_of: Callable[[str], Shape]
) -> Continuous:
    """Understand a continuous query of the streams of some names.

    Raises :class:`SqlError` for what is none, with its place.
    """
    refuse_monstrous(text)
    try:
        with database.mutex:
            return _Reading(text, params, database, names, shape_of).read()
    except RecursionError:
        raise SqlError("the statement is nested too deeply; split it up", text=text, position=0) from None


@dataclass(frozen=True)
class _Plan:
    """A part of a query: what it reads, and an operator for that."""

    streams: tuple[str, ...]
    make: Callable[[], Operator]
    columns: tuple[str, ...]
    node: Node


class _Reading:
    """Reads one statement."""

    def __init__(
        self, text: str, params: Any, database: Database, names: Sequence[str], shape_of: Callable[[str], Shape]
    ) -> None:
        self._text = text
        self._params = params
        self._parser: Parser = database.parser
        self._database = database
        self._names = names
        self._shape_of = shape_of

    def read(self) -> Continuous:
        tree = parsed(self._parser, self._text)
        statement = tree["statements"][0]
        given = parameters(self._params, [each["key"] for each in statement["named_param_map"]])
        values = {name: self._parser.expression(literal(value)) for name, value in given.items()}
        statement["named_param_map"] = []
        for node in [each for each in nodes(tree) if each.get("class") == "PARAMETER"]:
            put(node, values[node["identifier"]])
        meaning = shown(self._parser.print(tree))
        plan = self._query(statement["node"])
        try:
            plan.make()
        except SchemaError as error:  # clocks of different units
            raise self._error(str(error), plan.node) from None
        return Continuous(self._text, meaning, plan.streams, plan.columns, plan.make)

    # -- queries --------------------------------------------------------------------------------------------------

    def _query(self, node: Node) -> _Plan:
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

    def _union(self, node: Node) -> _Plan:
        if node["setop_type"] not in ("UNION", "UNION_BY_NAME") or not node["setop_all"]:
            self.refuse(f"{node['setop_type'].replace('_', ' ')}{' ALL' if node['setop_all'] else ''}", node)
        if node["setop_type"] == "UNION_BY_NAME":
            self.refuse("UNION ALL BY NAME", node)
        plans = [self._query(each) for each in node["children"] or [node["left"], node["right"]]]
        first = plans[0]
        for plan in plans[1:]:
            if len(plan.columns) != len(first.columns):
                raise self._error(
                    f"found {len(plan.columns)} columns of a UNION ALL whose first query has {len(first.columns)}",
                    plan.node,
                )
        shapes = [plan.make().output for plan in plans]
        for plan in plans:
            if SEQUENCE_COLUMN in plan.columns:
                raise self._error(f"rows that are united have no {SEQUENCE_COLUMN} in common; name it by AS", plan.node)
        fields = [self._united(plans, shapes, place) for place in range(len(first.columns))]
        output = Shape(pa.schema(fields), shapes[0].time)
        times = [plan.columns.index(shape.time) for plan, shape in zip(plans, shapes, strict=True)]
        for plan, at in zip(plans, times, strict=True):
            if at != times[0]:
                raise self._error(
                    f"the time of the rows is column {at + 1} here, and column {times[0] + 1} of the first query of "
                    "this UNION ALL; give both at the same place",
                    plan.node,
                )

        def make() -> Operator:
            sources = [_presented(plan.make(), plan.columns, output) for plan in plans]
            return Composed(Union([each.output for each in sources]), sources)

        return _Plan(tuple(name for plan in plans for name in plan.streams), make, first.columns, first.node)

    def _united(self, plans: Sequence[_Plan], shapes: Sequence[Shape], at: int) -> pa.Field:
        """A column of a union: named as the first one, of the type that all of them have."""
        fields = [shape.schema.field(plan.columns[at]) for plan, shape in zip(plans, shapes, strict=True)]
        for plan, field in zip(plans, fields, strict=True):
            if field.type != fields[0].type:
                raise self._error(
                    f"column {field.name!r} has type {field.type}, and {fields[0].type} in the first query of this "
                    "UNION ALL; cast one of them",
                    plan.node,
                )
        return fields[0].with_nullable(any(field.nullable for field in fields))

    def _select(self, node: Node) -> _Plan:
        if any(calls(each, *FUNCTIONS) for each in own_nodes(node)):
            return self._windowed(node)
        for member, what in _CLAUSES.items():
            if node[member]:
                found = node[member][0] if isinstance(node[member], list) and node[member] else node[member]
                self.refuse(what, found if isinstance(found, dict) else node["from_table"])
        if node["aggregate_handling"] != "STANDARD_HANDLING":
            self.refuse("GROUP BY", node["from_table"])
        source = _Source(self, node["from_table"])
        columns = dict(self._columns(node["select_list"], source))
        where = node["where_clause"]
        condition = None if where is None else source.text(where)
        texts = {name: text for name, (text, _) in columns.items()}
        time = self._time(texts, source.shape, node["select_list"][0])
        self._check(source.shape, condition, where)
        for name, (text, item) in columns.items():
            self._check_columns(source.shape, {time: source.shape.time, name: text}, time, item)
        shape = source.read

        def make() -> Operator:
            return chain(*_filters(shape, condition), Projection(shape, texts, time))

        return _Plan((source.name,), make, tuple(columns), node["select_list"][0])

    def _windowed(self, node: Node) -> _Plan:
        """A selection that is grouped by windows: rows, keys, windows, what is asked of these, columns."""
        for member in ("sample", "qualify"):
            if node[member]:
                self.refuse(_CLAUSES[member], node["from_table"])
        source = _Source(self, node["from_table"])
        where = node["where_clause"]
        condition = None if where is None else source.text(where)
        self._check(source.shape, condition, where)
        own = frozenset(aggregates.names()) - self._database.functions
        functions = Functions(self._database.aggregates, own)
        context = Context(self._parser, self._error, functions, {}, "UTC", self._database.cursor, lambda tree: None)
        self._refuse_functions(node["group_expressions"])
        apart = Apart(node, context)
        if apart.time is not None and source.text(apart.time) != source.shape.time:
            raise self._error(
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
            raise self._error(str(error).partition("\n")[0], apart.call) from None
        except _duckdb_error() as error:  # of lengths and other constants
            raise of_engine(error, self._text, lambda _: self._place(apart.call)) from None
        columns: dict[str, str] = {}
        for item in node["select_list"]:
            text = self._given(item, output, apart.call)
            if item["alias"] in columns:
                raise self._error(f"found two columns {item['alias']!r}; give one of them another name, by AS", item)
            columns[item["alias"]] = text
        time = self._time(columns, output, node["select_list"][0])
        for item in node["select_list"]:
            one = {time: output.time, item["alias"]: columns[item["alias"]]}
            self._check_columns(output, one, time, item)
        having = None if apart.having is None else self._given(apart.having, output, apart.call)
        self._check(output, having, apart.having)

        def make() -> Operator:
            before = [*_filters(shape, condition), Projection(shape, kept)]
            return chain(*before, windows(), *_filters(output, having), Projection(output, columns, time))

        return _Plan((source.name,), make, tuple(columns), node["select_list"][0])

    def _refuse_functions(self, groups: Sequence[Node]) -> None:
        """Raise for functions that tell of the process, or change it: constants of windows are computed by DuckDB."""
        for each in nodes(list(groups)):
            name = each.get("function_name", "").lower() if each.get("class") == "FUNCTION" else None
            if name is not None and name not in FUNCTIONS and name not in self._database.functions:
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

    def _time(self, columns: Mapping[str, str], shape: Shape, node: Node) -> str:
        """The first column that is the time of rows."""
        for name, text in columns.items():
            if text == shape.time:
                return name
        raise self._error(
            f"found no column that is the time of the rows, {shape.time!r}; expected it among those of SELECT, under "
            "whatever name",
            node,
        )

    def _check(self, shape: Shape, condition: str | None, node: Node | None) -> None:
        """Raise for what is no condition."""
        try:
            _filters(shape, condition)
        except ExpressionError as error:
            assert node is not None
            raise self._wrong(error, node) from None

    def _check_columns(self, shape: Shape, columns: Mapping[str, str], time: str | None, node: Node) -> None:
        """Raise for what are no columns."""
        try:
            Projection(shape, columns, time)
        except ExpressionError as error:
            raise self._wrong(error, node) from None

    def _columns(self, items: Sequence[Node], source: _Source) -> Iterator[tuple[str, tuple[str, Node]]]:
        """The columns of a SELECT: names, each with its text, and where it stands."""
        taken: set[str] = set()
        for item in items:
            for name, text in source.star(item) if item["class"] == "STAR" else [source.named(item)]:
                if name.lower() in taken:
                    raise self._error(f"found two columns {name!r}; give one of them another name, by AS", item)
                taken.add(name.lower())
                yield name, (text, item)

    # -- errors and texts -----------------------------------------------------------------------------------------

    def find(self, node: Node) -> str:
        """The stream that a FROM names."""
        name: str = node["table_name"]
        if node["schema_name"] or node["catalog_name"]:
            raise self._error(f"found {node['schema_name'] or node['catalog_name']}.{name}; there are no schemas", node)
        if name in self._names:
            return name
        similar = [each for each in self._names if each.lower() == name.lower()]
        if len(similar) != 1:
            raise self._error(f"there is no stream {name!r}; {did_you_mean(name, self._names)}", node)
        return similar[0]

    def shape(self, name: str) -> Shape:
        """What the rows of a stream look like."""
        return self._shape_of(name)

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
        return self._error(said, node)

    def refuse(self, what: str, node: Node) -> NoReturn:
        """Raise for what is not allowed."""
        raise self._error(f"found {what}; {_ALLOWED}", node)

    def _error(self, message: str, node: Node) -> SqlError:
        """An error where the text of a node begins."""
        return SqlError(message, text=self._text, position=self._place(node))

    def _place(self, node: Node) -> int | None:
        places = (place(each, self._text) for each in nodes(node))
        return min((each for each in places if each is not None), default=None)


class _Source:
    """The stream that a SELECT reads, and how its columns are named there."""

    def __init__(self, reading: _Reading, node: Node) -> None:
        self._reading = reading
        if node["type"] != "BASE_TABLE":
            reading.refuse(_SOURCES.get(node["type"], str(node["type"])), node)
        for member, what in (("at_clause", "AT"), ("sample", "SAMPLE"), ("column_name_alias", "names of columns")):
            if node[member]:
                reading.refuse(what, node)
        self.name = reading.find(node)
        self.shape = reading.shape(self.name)
        self._alias = node["alias"] or node["table_name"]
        self._by_lower = {name.lower(): name for name in self.shape.schema.names}
        self.used: set[str] = {SEQUENCE_COLUMN}
        """The columns that are needed."""

    @property
    def read(self) -> Shape:
        """The rows with the columns that are needed."""
        names = [name for name in self.shape.schema.names if name in self.used or name == self.shape.time]
        return Shape(pa.schema([self.shape.schema.field(name) for name in names]), self.shape.time)

    def aggregate(self, node: Node) -> str:
        """An aggregate as a text about the columns of the stream."""
        for each in node["arguments"]:
            self._reading.refuse_inner(each)
        return self._text(node).replace("count_star()", "count(*)")

    def text(self, node: Node) -> str:
        """An expression as a text about the columns of the stream."""
        self._reading.refuse_inner(node)
        return self._text(node)

    def _text(self, node: Node) -> str:
        own = copy.deepcopy(node)
        own["alias"] = ""
        for each in nodes(own):
            if each.get("class") == "COLUMN_REF":
                self._resolve(each)
        column = self._plain(own)
        return self._reading.printed(own) if column is None else column

    def _resolve(self, node: Node) -> None:
        """Name a column as it is stored, without the name of the stream."""
        names = node["column_names"]
        if len(names) > 1 and names[0].lower() == self._alias.lower():
            names = names[1:]
        stored = self._by_lower.get(names[0].lower())
        if stored is not None:
            names = [stored, *names[1:]]
            self.used.add(stored)
        node["column_names"] = list(names)

    def _plain(self, node: Node) -> str | None:
        """The column that an expression is; None if it is more."""
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
            name: str = node["column_names"][0]
            return name if name in self.shape.schema.names else None
        return None

    def named(self, item: Node) -> tuple[str, str]:
        """A column of SELECT: its name, and its text."""
        text = self.text(item)
        if item["alias"]:
            return item["alias"], text
        if text in self.shape.schema.names:
            return text, text
        if item["class"] == "COLUMN_REF":
            return item["column_names"][-1], text
        return self._reading.printed(item), text

    def star(self, item: Node) -> Iterator[tuple[str, str]]:
        """The columns that ``*`` stands for; ``_seq`` is not among them."""
        for member, what in _STAR_PARTS.items():
            if item[member]:
                self._reading.refuse(f"* with {what}", item)
        if item["relation_name"] and item["relation_name"].lower() != self._alias.lower():
            self._reading.refuse(f"{item['relation_name']}.*, which is no name of the stream here", item)
        excluded = {each.lower() for each in item["exclude_list"]}
        excluded |= {each["column"].lower() for each in item["qualified_exclude_list"]}
        for name in self.shape.schema.names:
            if name != SEQUENCE_COLUMN and name.lower() not in excluded:
                self.used.add(name)
                yield name, name


def _duckdb_error() -> type[Exception]:
    """What DuckDB raises, which is loaded when it is used."""
    import duckdb

    return duckdb.Error


def _filters(shape: Shape, condition: str | None) -> list[Operator]:
    return [] if condition is None else [Filter(shape, condition)]


def _presented(operator: Operator, columns: Sequence[str], output: Shape) -> Operator:
    """An operator whose columns are named, and may be null, as those of a union; with the numbers of rows, if any."""
    shape = operator.output
    fields = list(output.schema)
    names = list(columns)
    if shape.has_numbers and SEQUENCE_COLUMN not in names:
        names.append(SEQUENCE_COLUMN)
        fields.append(shape.schema.field(SEQUENCE_COLUMN))
    wanted = Shape(pa.schema(fields), output.time)
    return operator if wanted == shape else chain(operator, Presented(shape, names, wanted))


__all__ = ["Continuous", "read_continuous"]
