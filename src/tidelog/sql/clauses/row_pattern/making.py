"""``MATCH_RECOGNIZE`` of a statement as a relation: what the matcher makes of the rows of its input."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from tidelog.model.errors import did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.rowpattern.compiling import RowPatternQuery
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.ranges.parallel import evaluate_in_ranges
from tidelog.operators.rowpattern.ranges.ranges import one_search_because
from tidelog.operators.rowpattern.sorting import BYTES_PER_ROW, can_sort, sorted_batches
from tidelog.operators.rowpattern.syntax import RowPattern
from tidelog.plan.patterns import PatternPlan, plan_pattern
from tidelog.plan.stretches import NotPruned
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.operation import Operation, Selected, Work
from tidelog.sql.clauses.row_pattern.binding import plain
from tidelog.sql.clauses.row_pattern.checks import names_of
from tidelog.sql.clauses.row_pattern.clause import WORD
from tidelog.sql.clauses.row_pattern.computed import computed_columns
from tidelog.sql.clauses.row_pattern.pushing import partition_condition
from tidelog.sql.clauses.row_pattern.queries import answer_queries
from tidelog.sql.clauses.row_pattern.resolving import Keys, ready, resolve
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node

_BATCH: Final = 1 << 16
"""Rows that DuckDB gives at once."""
_PLACE: Final = "#row"


def make_row_pattern(node: Node, scope: Scope, context: Context) -> Operation:
    """The relation of a clause."""
    answered = answer_queries(node, scope, context)
    source = Source(node, scope, context).with_computed_columns()
    query = resolve(node, source.schema, source.keys, context, hidden=source.more)
    compiled = ready(query, node, context)
    work = Work(query, partial(_inputs, source, query))
    plan = source.pruned(compiled)
    if plan is not None:
        return Operation(WORD, query.output, plan, source.way, [*answered, *compiled.explain], work=work)
    fewer = _of_fewer_partitions(source)
    if source.stored is None:
        work = Work(query, partial(_inputs, fewer, query))
    rows = fewer.rows(query)
    reasons = [*answered, *fewer.reasons]
    search: Callable[[RowPatternQuery, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]] = evaluate
    if not query.partition:
        whole = one_search_because(compiled)
        if whole is None:
            search = evaluate_in_ranges
        reasons.append(
            "searched by threads, in ranges of time, if that is worth it"
            if whole is None
            else f"searched by one thread, because {whole}"
        )
    reasons += compiled.explain
    return Operation(WORD, query.output, lambda: search(compiled, rows()), fewer.way, reasons, work=work)


def _inputs(source: Source, query: RowPattern) -> list[Selected]:
    return [source.selected(query)]


def _of_fewer_partitions(source: Source) -> Source:
    """The same without partitions that nobody asks for, as far as that is known."""
    import duckdb

    condition = partition_condition(source.node, source.scope)
    if condition is None:
        return source
    text = source.context.parser.print_expression({**condition, "alias": ""})
    node = {**source.node, "chosen": {"where_clause": condition}}
    try:
        reasons = [*source.reasons, f"only partitions with {text}"]
        return Source(node, source.scope, source.context, reasons=reasons, more=source.more)
    except duckdb.Error:  # which the statement will tell at its place
        return source


@dataclass
class Source:
    """The rows that a pattern is looked for in."""

    node: Node
    scope: Scope
    context: Context
    way: str = ""
    reasons: list[str] = field(default_factory=list)
    more: Mapping[str, Node] = field(default_factory=dict)
    """Expressions that come as columns too, by names that no column has."""
    plan: PatternPlan | None = None
    """What is known of where matches may be."""

    def __post_init__(self) -> None:
        table = self.node["input"]
        relation = self.context.relations.get(table["table_name"]) if table["type"] == "BASE_TABLE" else None
        self.is_stream = relation is not None
        is_plain = table["type"] == "BASE_TABLE" and not table["sample"] and not table["column_name_alias"]
        is_plain = is_plain and not any(self.node.get("chosen", {}).values())
        is_stored = is_plain and relation is not None and relation.is_one
        given = self.context.tables.get(table["table_name"]) if is_plain else None
        self._given: pa.Table | None = given if isinstance(given, pa.Table) else None
        self.stored: Relation | None = relation if is_stored else None
        """The stream, if it is one as it is stored."""
        self._mention: str = table["table_name"] if is_stored else ""
        self._text = ""
        if self.stored is not None:
            relation = self.stored
            stored = relation.stream.snapshot.layout.stored
            self.schema = pa.schema([each for each in stored if each.name in relation.schema.names])
        else:
            self.schema = self._schema([])
        self._check_names(self.schema)
        partition = [self.column(each) for each in self.node["partition"]]
        order = [self.column(each["expression"]) for each in self.node["order"]]
        self.keys = Keys(partition, order)
        named = [*zip(partition, self.node["partition"], strict=True)]
        named += zip(order, (each["expression"] for each in self.node["order"]), strict=True)
        named += self.more.items()
        self.computed = {name: each for name, each in named if name not in self.schema.names}
        """Columns that the input does not have, and their expressions."""
        self._items = [{**copy.deepcopy(each), "alias": name} for name, each in self.computed.items()]
        if self._items:
            self.schema = self._computed(named)
            self._check_names(self.schema)

    def _computed(self, named: Sequence[tuple[str, Node]]) -> pa.Schema:
        import duckdb

        try:
            return self._schema(self._items)
        except duckdb.Error:
            for name, each in named:
                if name not in self.schema.names and each.get("class") == "COLUMN_REF":
                    told = f"no column {each['column_names'][-1]!r}; {did_you_mean(name, self.schema.names)}"
                    raise self.context.refuse(told, each) from None
            raise

    def with_computed_columns(self) -> Source:
        """The same with what the clause computes and the matcher cannot as columns, which it names from now on."""
        names = names_of(self.node, self.schema, self.context.refuse)
        labels = frozenset({*names.variables, *names.subsets})
        more = computed_columns(self.node, self.schema, labels, self.context)
        return Source(self.node, self.scope, self.context, more={**self.more, **more}) if more else self

    def column(self, node: Node) -> str:
        """The column that an expression is; a new one, under the name of its text, if it is none of the input's."""
        names: list[str] = node["column_names"] if node.get("class") == "COLUMN_REF" else []
        alias = self.node["input"].get("alias") or self.node["input"].get("table_name", "")
        if len(names) == 2 and names[0].lower() == alias.lower():
            names = names[1:]
        if len(names) == 1:
            return next((each for each in self.schema.names if each.lower() == names[0].lower()), names[0])
        return self.context.parser.print_expression({**node, "alias": ""})

    def _check_names(self, schema: pa.Schema) -> None:
        lower = [name.lower() for name in schema.names]
        double = next((name for name in schema.names if lower.count(name.lower()) > 1), None)
        if double is not None:
            raise self.context.refuse(
                f"found two columns {double!r} in the input of {self.node['word']}; expected a query in parentheses "
                "that gives one of them another name, by AS",
                self.node,
            )

    def _selecting(self, items: Sequence[Node]) -> str:
        """A statement that selects everything of the input, and some expressions."""
        tree = self.context.parser.parse("SELECT * FROM x")
        select = tree["statements"][0]["node"]
        select["from_table"] = copy.deepcopy(self.node["input"])
        select.update(copy.deepcopy(self.node.get("chosen", {})))
        select["select_list"] += copy.deepcopy(list(items))
        select["cte_map"] = {"map": copy.deepcopy(list(self.scope.ctes))}
        self.context.plan(tree)
        return self.context.parser.print(tree)

    def _schema(self, items: Sequence[Node]) -> pa.Schema:
        self._text = self._selecting(items)
        with closing(self.context.connect()) as cursor:
            relation = cursor.sql(self._text)
            found = relation.limit(0).to_arrow_table().schema
            names = relation.columns
        return pa.schema(
            [each.with_name(name).with_type(plain(each.type)) for each, name in zip(found, names, strict=True)]
        )

    def pruned(self, query: RowPatternQuery) -> Callable[[], Iterator[pa.RecordBatch]] | None:
        """What finds the matches by reading only where some may be; None if that is not known."""
        relation = self.stored
        if relation is None or self._items or not self._is_by_time(relation, query.pattern):
            return None
        try:
            plan = plan_pattern(query, relation.stream.snapshot, relation.stream.numbers)
        except NotPruned as reason:
            self.reasons.append(f"all rows are read, because {reason}")
            return None
        self.plan = plan
        self.way = f"{len(plan.times.spans):,} stretches of time that have all variables near enough"
        relation.way = (
            f"the events of {len(plan.times.spans):,} stretches of time, {plan.share:.2%} of them, for {WORD}"
        )
        return lambda: plan.batches(relation.readings.append)

    @staticmethod
    def _is_by_time(relation: Relation, query: RowPattern) -> bool:
        """Whether the order of a query is that of the stream."""
        order = [(each.column, each.is_descending) for each in query.order]
        by_time = [(relation.stream.time, False), (SEQUENCE_COLUMN, False)]
        return order in (by_time[:1], by_time)

    def selected(self, query: RowPattern) -> Selected:
        """The input, for those who read and sort it themselves."""
        items = [_quoted(name) for name in query.schema.names]
        if self.stored is not None and not self._items:
            times = None if self.plan is None else self.plan.read_times()
            return Selected(items, _quoted(self._mention), self._mention, times)
        return Selected(items, f"({self._text})")

    def rows(self, query: RowPattern) -> Callable[[], Iterator[pa.RecordBatch]]:
        """What reads the input in the order of the query."""
        relation = self.stored
        if relation is not None and not query.partition and not self._items:
            if self._is_by_time(relation, query):
                self.way = "the rows of the stream in their order"
                relation.way = f"the events, for {WORD}"
                return lambda: relation.rows(query.schema.names, None)
            self.reasons.append(f"sorted, because the order is not that of {relation.stream.time}")
        if relation is not None and not self._text:
            self._text = self._selecting([])
        is_sorted_here = can_sort(query)
        self.way = "rows sorted in memory, or by DuckDB if they are many" if is_sorted_here else "rows sorted by DuckDB"
        names = ", ".join(map(_quoted, query.schema.names))
        keys = [_quoted(each) for each in query.partition]
        for each in query.order:
            direction = "DESC" if each.is_descending else "ASC"
            keys.append(f"{_quoted(each.column)} {direction} NULLS {'FIRST' if each.nulls_first else 'LAST'}")
        text = (
            f'SELECT {names} FROM (SELECT *, row_number() OVER () AS "{_PLACE}" FROM ({self._text})) '
            f"ORDER BY {', '.join([*keys, chr(34) + _PLACE + chr(34)])}"
        )
        connect = self.context.connect

        def asked(text: str) -> Generator[pa.RecordBatch]:
            with closing(connect()) as cursor:
                for batch in cursor.sql(text).to_arrow_reader(_BATCH):
                    columns = [
                        each.cast(kind) if each.type != kind else each
                        for each, kind in zip(batch.columns, query.schema.types, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=query.schema)

        def read() -> Iterator[pa.RecordBatch]:
            few = self._few(query, lambda: asked(f"SELECT {names} FROM ({self._text})")) if is_sorted_here else None
            rows = asked(text) if few is None else sorted_batches(query, few)
            del few  # what is gathered takes its place
            yield from rows

        return read

    def _few(self, query: RowPattern, read: Callable[[], Generator[pa.RecordBatch]]) -> pa.Table | None:
        """The rows of the input as they come; None if they are too many to be sorted in memory."""
        given = self._given
        if given is not None and not self._items and _has(given, query.schema):
            held = sum(given.column(name).nbytes for name in query.schema.names if given.column(name).num_chunks > 1)
            is_small = held + given.num_rows * BYTES_PER_ROW <= self.context.memory
            columns = [given.column(name) for name in query.schema.names]
            return pa.Table.from_arrays(columns, schema=query.schema) if is_small else None
        if self.stored is not None:
            likely = self.stored.likely_rows * (BYTES_PER_ROW + 16 * len(query.schema))
            if likely > 2 * self.context.memory:
                return None
        batches, held = [], 0
        with closing(read()) as rows:
            for batch in rows:
                batches.append(batch)
                held += 2 * batch.nbytes + batch.num_rows * BYTES_PER_ROW  # they are copied once
                if held > self.context.memory:
                    return None
        return pa.Table.from_batches(batches, query.schema)


def _has(given: pa.Table, schema: pa.Schema) -> bool:
    """Whether a table has columns of the types that are asked for."""
    names = given.schema.names
    return all(names.count(each.name) == 1 and given.schema.field(each.name).type == each.type for each in schema)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
