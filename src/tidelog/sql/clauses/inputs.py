"""What an event clause reads: the rows of a stream as they are stored, or of anything else, sorted by DuckDB."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.expr import Expression, parse
from tidelog.model.errors import did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.interval import Interval
from tidelog.operators.base import Shape
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.operation import Selected
from tidelog.sql.planning.blocks import Block, NotSo, conjuncts
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node, nodes

if TYPE_CHECKING:
    import duckdb

_OTHERS: Final = ("SUBQUERY", "LAMBDA")
_MORE: Final = ("group_expressions", "group_sets", "having", "qualify", "sample", "modifiers")
_STAR_PARTS: Final = ("relation_name", "exclude_list", "replace_list", "rename_list", "expr", "columns")
_BATCH: Final = 1 << 16
"""Rows that DuckDB gives at once."""


@dataclass(frozen=True)
class Input:
    """A relation that a clause reads in the order of time."""

    alias: str
    """What it is called."""
    schema: pa.Schema
    """Its columns."""
    time: str
    """Which of them is its time."""
    relation: Relation | None
    """The stream, if it is one as it is stored."""
    _text: str = ""
    """A statement that selects it; the mention of the stream, if it is one."""
    _connect: Callable[[], duckdb.DuckDBPyConnection] | None = field(default=None, repr=False)
    _stored: tuple[Relation, Mapping[str, str]] | None = field(default=None, repr=False)
    """A stream that has these rows in order, and its columns by their names here."""
    _computed: Mapping[str, Expression] = field(default_factory=dict)
    """Columns that are computed of others, row by row."""

    def with_computed(self, texts: Mapping[str, str]) -> Input:
        """The same with more columns: expressions, by their names."""
        if not texts:
            return self
        computed = {name: parse(text, self.schema) for name, text in texts.items()}
        fields = [pa.field(name, each.type) for name, each in computed.items()]
        return replace(self, schema=pa.schema([*self.schema, *fields]), _computed=computed)

    def shape(self, names: Mapping[str, str]) -> Shape:
        """What rows look like: some columns under other names, that of the time always."""
        fields = [self.schema.field(own).with_name(name) for own, name in self._columns(names).items()]
        return Shape(pa.schema(fields), self._columns(names)[self.time])

    def rows(self, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The rows in the order of time, with some columns under other names; those without a time are left out."""
        columns = self._columns(names)
        schema = self.shape(names).schema
        for batch in self._all(list(columns)):
            types = zip(batch.columns, schema.types, strict=True)
            own = [each if each.type == type_ else each.cast(type_) for each, type_ in types]
            yield pa.RecordBatch.from_arrays(own, schema=schema)

    def selected(self, names: Mapping[str, str]) -> Selected:
        """The same rows, for those who read them themselves."""
        columns = list(self._columns(names))
        if self.relation is not None:
            return Selected([self._plain_item(each) for each in columns], _quoted(self._text), self._text)
        source = f"({self._text}) WHERE {_quoted(self.time)} IS NOT NULL"
        return Selected([self._item(each) for each in columns], source)

    @property
    def is_read_by_duckdb(self) -> bool:
        """Whether its rows are those of a statement, and not of a stream in its order."""
        return self.relation is None and self._stored is None

    def in_zones_of(self, other: Input) -> Input:
        """The same with times in the zones of those of the same names; only of one that DuckDB reads.

        DuckDB gives instants in the zone of the statement, whatever zone they came in.
        """
        types = {name.lower(): other.schema.field(name).type for name in other.schema.names}
        types[self.time.lower()] = other.schema.field(other.time).type
        fields = [each.with_type(_in_zone(each.type, types.get(each.name.lower()))) for each in self.schema]
        return replace(self, schema=pa.schema(fields))

    def filtered(self, condition: str) -> Input:
        """The same without rows for which a condition does not hold; only of one that DuckDB reads."""
        return replace(self, _text=f"SELECT * FROM ({self._text}) WHERE {condition}")

    def _columns(self, names: Mapping[str, str]) -> Mapping[str, str]:
        return names if self.time in names else {self.time: self.time, **names}

    def _all(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns, also such as are computed."""
        computed = {name: self._computed[name] for name in names if name in self._computed}
        if not computed:
            yield from self._read(names)
            return
        needed = {*names, *(own for each in computed.values() for own in each.columns)}
        for batch in self._read([name for name in self.schema.names if name in needed and name not in computed]):
            columns = [computed[name].evaluate(batch) if name in computed else batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([self.schema.field(name) for name in names]))

    def _read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.relation is not None:
            yield from self.relation.rows(names, None)
            return
        if self._stored is not None:
            relation, stored = self._stored
            yield from relation.rows([stored[name] for name in names], None)
            return
        assert self._connect is not None
        time = _quoted(self.time)
        items = ", ".join(f"{self._item(each)} AS {_quoted(each)}" for each in names)
        text = (
            f'SELECT {items} FROM (SELECT *, row_number() OVER () AS "#row" FROM ({self._text})) '
            f'WHERE {time} IS NOT NULL ORDER BY {time}, "#row"'
        )
        with closing(self._connect()) as cursor:
            for batch in cursor.sql(text).to_arrow_reader(_BATCH):
                yield _plain(batch)

    def _plain_item(self, name: str) -> str:
        return f"({self._computed[name]})" if name in self._computed else _quoted(name)

    def _item(self, name: str) -> str:
        if name != self.time:
            return self._plain_item(name)
        return f"CAST({_quoted(name)} AS {_cast(self.schema.field(name).type)})"

    def column(self, name: str) -> str | None:
        """The column of a name, in whatever case; None if there is none."""
        return next((each for each in self.schema.names if each.lower() == name.lower()), None)


def read_input(
    table: Node,
    ctes: Sequence[Node],
    context: Context,
    time: Node | None = None,
    naming: str = "DESCRIPTOR(column)",
) -> Input:
    """The relation of a node, and its time: that of the stream, a column that is told, or the only timestamp.

    ``naming`` is how the clause tells the column, for those who have not done so.
    """
    alias = str(table.get("alias") or table.get("table_name") or "")
    relation = context.relations.get(table["table_name"]) if table["type"] == "BASE_TABLE" else None
    if relation is not None and relation.is_one and not table["sample"] and not table["column_name_alias"]:
        stored = relation.stream.snapshot.layout.stored
        names = relation.stream.snapshot.layout.schema.names
        schema = pa.schema([stored.field(name) for name in names])
        own = Input(alias, schema, relation.stream.time, relation, table["table_name"])
        if time is None or _named(own, time, context) == own.time:
            return own
    selected = _selected(table, context, time) if table["type"] == "SUBQUERY" else None
    text = _selecting(table, ctes, context)
    if selected is not None:
        return replace(selected, _text=text, _connect=context.connect)
    with closing(context.connect()) as cursor:
        schema = cursor.sql(text).limit(0).to_arrow_table().schema
    schema = pa.schema([each.with_type(_plain_type(each.type)) for each in schema if each.name != SEQUENCE_COLUMN])
    if len(set(map(str.lower, schema.names))) < len(schema.names):
        raise context.refuse("found two columns of the same name in it; give one of them another name, by AS", table)
    if time is not None:
        found = _named(Input(alias, schema, "", None), time, context)
    else:
        times = [each.name for each in schema if pa.types.is_timestamp(each.type)]
        if len(times) != 1:
            told = "no column of times" if not times else f"{len(times)} columns of times, {', '.join(times)},"
            raise context.refuse(f"found {told} in {alias or 'a query'}; name its time by {naming}", table)
        (found,) = times
    kind = schema.field(found).type
    if pa.types.is_date(kind):
        kind = pa.timestamp("us")
    elif pa.types.is_integer(kind):
        kind = pa.int64()
    elif not pa.types.is_timestamp(kind):
        raise context.refuse(f"found {found!r} of type {kind} as time; expected times or integers", time or table)
    schema = schema.set(schema.get_field_index(found), pa.field(found, kind, nullable=False))
    return Input(alias, schema, found, None, _text=text, _connect=context.connect)


def _selected(table: Node, context: Context, time: Node | None) -> Input | None:
    """A query that selects columns of one stream as they are, perhaps by a condition of ours; None if it is another."""
    node = table["subquery"]["node"]
    if node["type"] != "SELECT_NODE" or table["sample"] or table["column_name_alias"] or node["cte_map"]["map"]:
        return None
    if any(node[each] for each in _MORE) or node["aggregate_handling"] != "STANDARD_HANDLING":
        return None
    source = node["from_table"]
    relation = context.relations.get(source["table_name"]) if source["type"] == "BASE_TABLE" else None
    if relation is None or not relation.is_one or source["sample"] or source["column_name_alias"]:
        return None
    block = Block(node, relation, context.parser, context.timezone)
    layout = relation.stream.snapshot.layout
    stored: dict[str, str] = {}
    for item in node["select_list"]:
        column = block.column(item)
        if column is not None and column in layout.schema.names:
            stored[item["alias"] or column] = column
        elif item.get("class") == "STAR" and not any(item[each] for each in _STAR_PARTS):
            stored |= {name: name for name in layout.schema.names}
        else:
            return None
    schema = pa.schema([layout.stored.field(own).with_name(name) for name, own in stored.items()])
    own = Input(str(table["alias"]), schema, "", None, _stored=(relation, stored))
    name = next((name for name, column in stored.items() if column == relation.stream.time), None)
    if name is None or (time is not None and _named(own, time, context) != name):
        return None
    try:
        conditions = [str(block.condition(part)) for part in conjuncts(node["where_clause"])]
    except NotSo:
        return None
    times = block.confined()
    relation.confined = lambda: times
    for condition in conditions:
        relation.add_condition(condition)
    return replace(own, time=name)


def _named(own: Input, node: Node, context: Context) -> str:
    *before, name = node["column_names"]
    found = own.column(name)
    if found is None or (before and before[-1].lower() != own.alias.lower()):
        raise context.refuse(f"there is no column {name!r}; {did_you_mean(name, own.schema.names)}", node)
    return found


def _selecting(table: Node, ctes: Sequence[Node], context: Context) -> str:
    """A statement that selects everything of a relation."""
    tree = context.parser.parse("SELECT * FROM x")
    select = tree["statements"][0]["node"]
    select["from_table"] = copy.deepcopy(table)
    select["cte_map"] = {"map": copy.deepcopy(list(ctes))}
    context.plan(tree)
    return context.parser.print(tree)


def _cast(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "BIGINT"
    if kind.tz is not None:
        return "TIMESTAMPTZ"
    return {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}[kind.unit]


def _in_zone(own: pa.DataType, other: pa.DataType | None) -> pa.DataType:
    """Instants in the zone of others, if both are such; any other type as it is."""
    if other is None or not (pa.types.is_timestamp(own) and pa.types.is_timestamp(other)):
        return own
    return other if own.unit == other.unit and None not in (own.tz, other.tz) else own


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without dictionaries, which operators do not take."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [each.cast(_plain_type(each.type)) for each in batch.columns]
    return pa.record_batch(columns, names=batch.schema.names)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def push_conditions(
    select: Node, table: Node, relation: Relation, context: Context, is_own: Callable[[Node], bool]
) -> Interval:
    """Have a stream give only rows that a selection asks for, by conditions on columns that are its own.

    Returns the times that are asked for.
    """
    parts = []
    for part in conjuncts(select["where_clause"]):
        inside = list(nodes(part))
        columns = [each for each in inside if each.get("class") == "COLUMN_REF"]
        if columns and all(map(is_own, columns)) and not any(each.get("class") in _OTHERS for each in inside):
            parts.append(part)
    if not parts:
        return Interval()
    whole = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": parts}
    block = Block({**select, "from_table": table, "where_clause": whole}, relation, context.parser, context.timezone)
    times = block.confined()
    relation.confined = lambda: times
    for part in parts:
        with suppress(NotSo):
            relation.add_condition(str(block.condition(part)))
    return times
