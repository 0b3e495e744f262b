"""What a statement asks of a store, found beside it: the plan, the moment of every stream, and what is read of each.

The index answers what it knows already here, and of one end of a stream the rows are taken as well: both are small.
Everything else is parts of streams for tasks to read, of one moment, whatever is committed meanwhile.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle

from tidelog.engine.store import Store, manifests_of
from tidelog.expr import predicate
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.intervals import Intervals
from tidelog.plan.reading import EVER, read, times_of
from tidelog.spark.sql.binding import Bound, bind, bind_part
from tidelog.spark.sql.columns import conditions, mark_used, positions, scans, table, used
from tidelog.spark.sql.conditions import texts_of
from tidelog.spark.sql.expressions.aggregates import ORDERED
from tidelog.sql.clauses.operation import Work
from tidelog.sql.database import shared
from tidelog.sql.errors import SqlError
from tidelog.sql.query import Query
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.reading.sources import NoStreams, StreamAt, Streams
from tidelog.sql.resolving import Question, Sources
from tidelog.sql.text.limits import refuse_monstrous
from tidelog.sql.text.tokens import statements, tokens
from tidelog.sql.text.tree import Node, nodes, place
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.pieces import Piece, plan
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext

_SELECTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "(")
_MOST_ROWS_AT_ONCE: Final = 100_000
"""Rows of one end of a stream that are read beside the store; more are for tasks."""


@dataclass(frozen=True)
class Asked:
    """A statement, and what it may mention."""

    text: str
    params: Any
    columns: Mapping[str, pa.Schema]
    """Those of tables that are given."""
    as_of: int | None
    timezone: str
    now: datetime.datetime
    rows_per_task: int
    streaming: frozenset[str] = frozenset()
    """The tables that are streams of Spark's."""
    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    """What was asked of tables before, by the texts of the questions."""


@dataclass(frozen=True)
class Part:
    """What a task reads of a stream."""

    stream: str
    directory: str
    piece: Piece


@dataclass(frozen=True)
class Reading:
    """One scan of a stream: columns by their names, and the parts; or the rows themselves."""

    columns: Mapping[int, pa.Field]
    """Those that are used, by their places in the stream."""
    where: str | None
    """A condition that the statement has as well."""
    parts: tuple[Part, ...]
    rows: pa.Table | None = None


@dataclass(frozen=True)
class Selecting:
    """A statement, or a part of one, and what it reads of streams."""

    bound: Bound
    readings: Mapping[int, Reading]
    """Scans of streams, by their numbers in the plan."""


@dataclass(frozen=True)
class Operated:
    """An event clause that tasks compute: what gives an operator, and its inputs."""

    make: bytes
    """That of the work. Pickled by value: functions that are made of a text have no name."""
    inputs: tuple[tuple[Selecting, bool], ...]
    """Whether numbers of rows stand behind the columns."""


@dataclass(frozen=True)
class Planned:
    """A statement, ready to be written for Spark. Can be pickled."""

    whole: Selecting
    operations: Mapping[str, Operated]
    """Event clauses, by the names of tables in the plan."""
    answers: Mapping[str, pa.Table]
    """Answers of the index, by the names of tables in the plan."""
    given: Mapping[str, str]
    """Tables that were given, likewise."""


class ContinuousAsked(Exception):
    """A statement has event clauses about streams of Spark's, and so is a continuous query."""


class RowsAsked(Exception):
    """A statement cannot be planned before another one about its tables, whose text this is, is answered."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def plan_statement(path: str | None, asked: Asked) -> Planned:
    """Read, check and bind a statement, and see what it reads. Raises :class:`SqlError`, and what reading raises."""
    refuse_monstrous(asked.text)
    found = statements(asked.text)
    if len(found) != 1:
        raise SqlError(f"found {len(found)} statements; expected one that selects", text=asked.text)
    text, start = found[0]
    if not tokens(text)[0].says(*_SELECTS):
        raise SqlError(
            "found a statement that does not select; on Spark only SELECT is run, all others by the sql method of a "
            "store",
            text=asked.text,
            position=start,
        )
    try:
        return _planned(path, text, asked)
    except SqlError as error:
        raise SqlError(
            error.message,
            text=asked.text,
            position=None if error.position is None else error.position + start,
            column=error.column,
        ) from None


def _planned(path: str | None, text: str, asked: Asked) -> Planned:
    with ExitStack() as stack:
        streams: Streams = NoStreams()
        if path is not None:
            streams = _Published(stack.enter_context(Store.open(path, read_only=True)), path)
        tables = {name: schema.empty_table() for name, schema in asked.columns.items()}

        def ask(question: Question) -> pa.Table:
            if not question.tables.isdisjoint(asked.streaming):
                raise ContinuousAsked
            if question.text not in asked.rows:
                raise RowsAsked(question.text)
            return asked.rows[question.text]

        sources = Sources(streams, tables, asked.as_of, asked.now, asked.timezone, ask)
        query = Query(text, asked.params, sources, shared(asked.timezone))
        has_clauses = query.operations or any(token.says("ASOF") for token in tokens(text))
        if has_clauses and any(f"#{name}" in query.tables for name in asked.streaming):
            raise ContinuousAsked
        _refuse_order(query)
        planning = _Planning(query, streams, asked)
        operations: dict[str, Operated] = {}
        answers = {}
        for name, operation in query.operations.items():
            if operation.is_indexed:
                batches = [batch.rename_columns(operation.schema.names) for batch in operation.run()]
                answers[name] = pa.Table.from_batches(batches, operation.schema)
            elif operation.work is None:
                raise SqlError(f"found {operation.title}, which is not computed on Spark; ask store.sql", text=text)
            else:
                operations[name] = planning.operated(operation.work)
        whole = planning.selecting(bind(query, asked.timezone, planning.schemas()))
    given = {f"#{name}": name for name in asked.columns if f"#{name}" in query.tables}
    answers |= {name: each for name, each in query.tables.items() if name not in given}
    return Planned(whole, operations, answers, given)


class _Planning:
    """Sees what parts of a statement read."""

    def __init__(self, query: Query, streams: Streams, asked: Asked) -> None:
        self._query = query
        self._streams = streams
        self._asked = asked

    def schemas(self, numbered: str | None = None) -> dict[str, pa.Schema]:
        """The columns of all that is mentioned; a stream may have its ``_seq`` besides."""
        query = self._query
        found = {name: each.schema for name, each in (*query.relations.items(), *query.tables.items())}
        found |= {name: each.schema for name, each in query.operations.items()}
        if numbered is not None and SEQUENCE_COLUMN not in found[numbered].names:
            found[numbered] = found[numbered].append(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False))
        return found

    def operated(self, work: Work) -> Operated:
        """An event clause, and what its inputs read."""
        inputs = []
        for each in work.inputs():
            items = [f'{item} AS "c{at}"' for at, item in enumerate(each.items)]
            if each.stream is not None:
                items.append(f'{SEQUENCE_COLUMN} AS "place"')
            text = f"SELECT {', '.join(items)} FROM {each.source}"
            schemas = self.schemas(each.stream)
            bound = bind_part(text, self._query, self._asked.timezone, schemas)
            inputs.append(
                (self.selecting(bound, schemas, EVER if each.times is None else each.times), each.stream is not None)
            )
        return Operated(cloudpickle.dumps(work.make), tuple(inputs))  # type: ignore[no-untyped-call]

    def selecting(
        self, bound: Bound, schemas: Mapping[str, pa.Schema] | None = None, times: Intervals = EVER
    ) -> Selecting:
        """A bound statement, and what its scans of streams read: of some times, if only rows of these matter."""
        mark_used(bound.root)
        wanted = conditions(bound.root)
        readings = {}
        for number, scan in enumerate(scans(bound.root)):
            scan["number"] = number
            relation = self._query.relations.get(table(scan))
            if relation is not None:
                assert isinstance(self._streams, _Published)
                schema = relation.schema if schemas is None else schemas[table(scan)]
                rows = self._asked.rows_per_task
                known = wanted.get(id(scan), [])
                readings[number] = _reading(scan, relation, schema, known, times, self._streams, rows)
        return Selecting(bound, readings)


def _refuse_order(query: Query) -> None:
    """Raise for aggregates that depend on the order of rows, which is not kept on Spark."""
    for node in nodes(query.tree):
        if node.get("class") != "FUNCTION" or node["function_name"].lower() not in ORDERED:
            continue
        of_answers = any(
            str(each).startswith("#") for each in node["arguments"][0]["expression"].get("column_names", ())
        )
        if not node["order_bys"]["orders"] and not of_answers:
            raise SqlError(
                f"found {node['function_name']} without an order; rows have none on Spark: say one, as in "
                f"{node['function_name']}(x ORDER BY ts)",
                text=query.text,
                position=place(node, query.text),
            )


class _Published(Streams):
    """The streams of a store as any process sees them."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self.path = path
        self.directories: dict[str, str] = {}

    def names(self) -> Sequence[str]:
        return self._store.streams()

    def at(self, name: str, version: int | None) -> StreamAt:
        log = manifests_of(self._store, name)
        self.directories[name] = log.directory
        snapshot = Snapshots(StreamContext.of(log), log).newest()
        numbers = None if version is None else SeqSet.below(version)
        return StreamAt(name, snapshot, numbers, snapshot.manifest.options)


def _reading(
    scan: Node,
    relation: Relation,
    schema: pa.Schema,
    wanted: Sequence[Node],
    times: Intervals,
    streams: _Published,
    rows_per_task: int,
) -> Reading:
    """What a scan reads."""
    places = positions(scan)
    names = [schema.names[each] if each < len(schema.names) else "" for each in places]
    columns = {places[at]: schema.field(names[at]) for at in sorted(used(scan)) if names[at]}
    stored = relation.stream.snapshot.layout.stored
    known = [f"({each})" for each in (relation.where, relation.hint) if each is not None]
    where = " AND ".join([*texts_of(wanted, names, stored), *known]) or None
    if relation.end is not None and relation.end.rows <= _MOST_ROWS_AT_ONCE and relation.is_one:
        snapshot, numbers = relation.stream.snapshot, relation.stream.numbers
        own = [each.name for each in columns.values()] or [relation.stream.time]  # no places are asked for beside LIMIT
        _, batches = read(snapshot, numbers, own, where, relation.end, within=relation.within)
        rows = pa.Table.from_batches(batches, pa.schema([stored.field(name) for name in own]))
        return Reading(columns, None, (), rows)
    parts = []
    for member in relation.streams:
        condition = None if where is None else predicate(where, member.snapshot.layout.stored)
        ranges = times_of(member.snapshot, condition) & relation.within & times
        pieces = plan(member.snapshot, ranges, condition, member.numbers, rows_per_piece=rows_per_task)
        parts += [Part(member.name, streams.directories[member.name], each) for each in pieces]
    return Reading(columns, where, tuple(parts))
