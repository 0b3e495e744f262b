"""Statements about streams as such: ``CREATE``, ``ALTER``, ``DROP``, ``SHOW`` and ``DESCRIBE``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import ExistsError
from tidelog.model.schema import Schema
from tidelog.sql.changing.changes import Changes
from tidelog.sql.changing.clauses import Clauses, Option, shown_option
from tidelog.sql.errors import SqlError
from tidelog.sql.query import Query
from tidelog.sql.result import Result
from tidelog.store.manifest.options import StreamOptions

_BEHIND_TYPE: Final = (
    *(",", "NOT", "NULL", "DEFAULT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "GENERATED", "COLLATE", "AS", "USING"),
)
"""What may follow the type of a column in DuckDB."""
_KEPT_ANYWAY: Final = re.compile(r"aggregate '(?:count|sum|min|max|avg)'")


def create(clauses: Clauses, changes: Changes) -> pa.Table:
    """``CREATE STREAM``, of columns or of what a statement selects."""
    clauses.expect("CREATE", "STREAM")
    may_exist = clauses.accept("IF", "NOT", "EXISTS")
    place = clauses.place
    name = clauses.name("a name for the stream")
    columns = _columns(clauses) if clauses.comes("(") else None
    given = clauses.options() if clauses.accept("WITH") else []
    options = [each for each in given if each.name != "time"]
    time = next((each for each in given if each.name == "time"), None)
    if columns is not None:
        clauses.ends()
        schema = _schema(clauses, columns, time, place)
        wanted = clauses.check_options(options, schema)
        while True:
            known = clauses.sources.find_stream(name)
            if known is not None and may_exist:
                _refuse_other(
                    clauses, known, schema, {each.name: getattr(wanted, each.name) for each in options}, place
                )
                return _told(known)
            _refuse_taken(clauses, name, known, place)
            try:
                changes.create(name, schema, wanted, None)
                return _told(name)
            except ExistsError:  # since the moment of the call
                if not may_exist:
                    raise
                clauses.sources.forget_names()
    if not clauses.accept("AS"):
        raise clauses.error("expected the columns, as in (ts TIMESTAMP, x DOUBLE), or AS and a SELECT")
    known = clauses.sources.find_stream(name)
    if known is not None and may_exist:
        return pa.table({"count": pa.array([0], pa.int64())})
    _refuse_taken(clauses, name, known, place)
    start = clauses.place
    with clauses.placed(start):
        query = clauses.query(start, len(clauses.text))
        found = Result(query)
        schema = _schema(clauses, _selected(clauses, query, start), time, start)
        wanted = clauses.check_options(options, schema)
        if wanted.too_late != "accept":
            raise clauses.wrong(
                f"found too_late {wanted.too_late!r} for a stream of what is selected, which has no order of arrival; "
                "create the stream first, then INSERT",
                next(each.place for each in options if each.name == "too_late"),
            )
        try:
            count = changes.create(name, schema, wanted, found.reader())
        except ExistsError:
            if not may_exist:
                raise
            count = 0
    return pa.table({"count": pa.array([count], pa.int64())})


def _columns(clauses: Clauses) -> list[pa.Field]:
    clauses.expect("(")
    found: list[pa.Field] = []
    while True:
        place = clauses.place
        name = clauses.name("the name of a column")
        if name.lower() in [each.name.lower() for each in found]:
            raise clauses.wrong(f"found column {name!r} twice; rename one", place)
        type_ = clauses.column_type(*_BEHIND_TYPE)
        is_nullable = not clauses.accept("NOT", "NULL")
        if is_nullable:
            clauses.accept("NULL")
        with clauses.blaming(place):
            Schema(pa.schema([(name, pa.int64())]), name)  # is a name that a column can have
        found.append(pa.field(name, type_, nullable=is_nullable))
        if clauses.accept(")"):
            return found
        if not clauses.accept(","):
            raise clauses.error("a column has a name, a type and perhaps NOT NULL, and nothing more: expected , or )")


def _selected(clauses: Clauses, query: Query, place: int) -> list[pa.Field]:
    """The columns of what a statement selects, if they can be stored as they are."""
    with query.opened() as running:
        relation = running.relation
        types, names = [str(each) for each in relation.types], relation.columns
        found = relation.limit(0).to_arrow_table().schema
    columns = []
    for name, called, field in zip(names, types, found, strict=True):
        try:
            columns.append(pa.field(name, clauses.stored_type(field.type, called, place)))
        except SqlError as error:
            raise clauses.wrong(f"column {name!r}: {error.message}", place) from None
    return columns


def _schema(clauses: Clauses, columns: Sequence[pa.Field], time: Option | None, place: int) -> Schema:
    if time is not None:
        if not isinstance(time.value, str):
            raise clauses.wrong(f"found time = {time.value!r}; expected the name of a column, as in 'ts'", time.place)
        names = [each.name for each in columns]
        similar = [each for each in names if each.lower() == time.value.lower()]
        name = time.value if time.value in names or len(similar) != 1 else similar[0]
        place = time.place
    else:
        times = [each.name for each in columns if pa.types.is_timestamp(each.type)]
        if len(times) != 1:
            raise clauses.wrong(
                f"found {', '.join(times) or 'no column'} for the time of events; say which column it is, as in "
                "WITH (time = 'ts')",
                place,
            )
        [name] = times
    with clauses.blaming(place):
        return Schema(pa.schema(columns), name)


def _refuse_taken(
    clauses: Clauses,
    name: str,
    known: str | None,
    place: int,
    advice: str = "drop it, say IF NOT EXISTS, or choose another name",
) -> None:
    if known is not None and known != name:
        raise clauses.wrong(
            f"there is a stream {known!r}, which {name!r} would be taken for; choose another one", place
        )
    if known is not None:
        raise ExistsError(str(clauses.wrong(f"there is a stream {name!r} already; {advice}", place)))


def _refuse_other(clauses: Clauses, name: str, schema: Schema, options: Mapping[str, Any], place: int) -> None:
    """Raise unless a stream that is there has the columns, and the values of options, that are given."""
    at = clauses.sources.stream(name, None)
    if at.snapshot.layout.schema != schema:
        raise clauses.wrong(
            f"stream {name!r} exists with other columns, {at.snapshot.layout.schema!r}; found {schema!r}", place
        )
    for option, value in options.items():
        if (known := getattr(at.options, option)) != value:
            raise clauses.wrong(
                f"stream {name!r} exists with {option} = {shown_option(known)}; found {shown_option(value)}", place
            )


def drop(clauses: Clauses, changes: Changes) -> pa.Table:
    """``DROP STREAM``."""
    clauses.expect("DROP", "STREAM")
    may_miss = clauses.accept("IF", "EXISTS")
    token = clauses.peek()
    is_name = token is not None and token.kind in ("word", "name")
    if may_miss and token is not None and is_name and clauses.sources.find_stream(token.value) is None:
        clauses.take()
        clauses.ends()
        return _told(token.value)
    name = clauses.stream()
    clauses.ends()
    changes.drop(name)
    return _told(name)


def alter(clauses: Clauses, changes: Changes) -> pa.Table:
    """``ALTER STREAM``: one change of columns, options, aggregates or the name."""
    clauses.expect("ALTER", "STREAM")
    name = clauses.stream()
    schema = clauses.sources.stream(name, None).snapshot.layout.schema
    for words, step in _STEPS:
        if clauses.accept(*words):
            return _told(step(clauses, changes, name, schema))
    if clauses.comes("DROP"):
        raise clauses.error(
            "columns are not dropped, because events do not change; expected DROP AGGREGATE, or CREATE STREAM ... AS "
            "SELECT * EXCLUDE (column) for another stream without one"
        )
    raise clauses.error(
        "expected ADD COLUMN, ALTER COLUMN ... TYPE, ALTER COLUMN ... DROP NOT NULL, RENAME COLUMN, RENAME TO, "
        "SET (...), ADD AGGREGATE or DROP AGGREGATE"
    )


def _add_aggregate(clauses: Clauses, changes: Changes, name: str, schema: Schema) -> str:
    place = clauses.place
    found = _aggregates(clauses)
    is_rebuilt = clauses.accept("REBUILD")
    clauses.ends()
    with _blaming_aggregate(clauses, place):
        changes.attach(name, found, rebuild=is_rebuilt)
    return name


def _drop_aggregate(clauses: Clauses, changes: Changes, name: str, schema: Schema) -> str:
    place = clauses.place
    found = _aggregates(clauses)
    clauses.ends()
    with _blaming_aggregate(clauses, place):
        changes.detach(name, found)
    return name


@contextmanager
def _blaming_aggregate(clauses: Clauses, place: int) -> Iterator[None]:
    """An aggregate that cannot be is wrong at a place of the statement, not of its own text."""
    try:
        yield
    except ExpressionError as error:
        message = str(error).partition("\n")[0]
        if _KEPT_ANYWAY.search(message):
            message = (
                "count, sum, min, max and avg are kept of the columns that the option aggregates names, which is fixed "
                "when a stream is created; expected another aggregate, such as 'second_largest(price)'"
            )
        raise clauses.wrong(message, place) from error


def _aggregates(clauses: Clauses) -> list[str]:
    found = []
    while True:
        place = clauses.place
        value = clauses.constant("an aggregate, such as 'second_largest(price)'", ",", "REBUILD")
        if not isinstance(value, str):
            raise clauses.wrong(f"found {value!r}; expected a text such as 'second_largest(price)'", place)
        found.append(value)
        if not clauses.accept(","):
            return found


def _add_column(clauses: Clauses, changes: Changes, name: str, schema: Schema) -> str:
    clauses.accept("COLUMN")
    may_exist = clauses.accept("IF", "NOT", "EXISTS")
    place = clauses.place
    column = clauses.name("the name of a column")
    type_ = clauses.column_type(*_BEHIND_TYPE)
    behind = clauses.place
    if clauses.accept("NOT", "NULL") or clauses.accept("DEFAULT"):
        raise clauses.wrong("a column that is added is null in all events so far; expected no more than a type", behind)
    clauses.ends()
    similar = [each for each in schema.names if each.lower() == column.lower()]
    if similar:
        if may_exist and schema.field(similar[0]).type == type_:
            return name
        raise clauses.wrong(f"stream {name!r} has a column {similar[0]!r} already", place)
    with clauses.blaming(place):
        changes.evolve(name, add={column: type_})
    return name


def _alter_column(clauses: Clauses, changes: Changes, name: str, schema: Schema) -> str:
    clauses.accept("COLUMN")
    place = clauses.place
    column = clauses.column(schema)
    if clauses.accept("DROP", "NOT", "NULL"):
        clauses.ends()
        with clauses.blaming(place):
            changes.evolve(name, loosen=[column])
        return name
    if clauses.comes_all("SET", "NOT", "NULL"):
        raise clauses.error("events that are there may have nulls, which stay; expected TYPE or DROP NOT NULL")
    clauses.accept("SET", "DATA")
    clauses.expect("TYPE")
    place = clauses.place
    type_ = clauses.column_type(*_BEHIND_TYPE)
    clauses.ends()
    with clauses.blaming(place):
        changes.evolve(name, widen={column: type_})
    return name


def _rename(clauses: Clauses, changes: Changes, name: str, schema: Schema) -> str:
    if clauses.accept("TO"):
        place = clauses.place
        new = clauses.name("another name")
        clauses.ends()
        known = clauses.sources.find_stream(new)
        if known not in (None, name):
            _refuse_taken(clauses, new, known, place, "drop it, or choose another name")
        with clauses.blaming(place):
            changes.rename(name, new)
        return new
    clauses.accept("COLUMN")
    place = clauses.place
    column = clauses.column(schema)
    clauses.expect("TO")
    new = clauses.name("another name")
    clauses.ends()
    with clauses.blaming(place):
        changes.evolve(name, rename={column: new})
    return name


def _set(clauses: Clauses, changes: Changes, name: str, schema: Schema) -> str:
    place = clauses.place
    options = clauses.options()
    clauses.ends()
    for each in options:  # which tells the place of the first one that cannot be, before any is changed
        with clauses.blaming(each.place):
            changes.check_configuration(name, {each.name: each.value})
    with clauses.blaming(place):
        changes.configure(name, {each.name: each.value for each in options})
    return name


_STEPS: Final[tuple[tuple[tuple[str, ...], Callable[[Clauses, Changes, str, Schema], str]], ...]] = (
    (("ADD", "AGGREGATE"), _add_aggregate),
    (("DROP", "AGGREGATE"), _drop_aggregate),
    (("ADD",), _add_column),
    (("ALTER",), _alter_column),
    (("RENAME",), _rename),
    (("SET",), _set),
)


def show(clauses: Clauses) -> pa.Table | None:
    """``SHOW STREAMS`` and ``SHOW OPTIONS FROM`` a stream; None for anything else."""
    if clauses.accept("SHOW", "STREAMS") or clauses.accept("SHOW", "TABLES"):
        clauses.ends()
        return pa.table({"name": pa.array(clauses.sources.streams.names(), pa.string())})
    if clauses.accept("SHOW", "OPTIONS", "FROM"):
        name = clauses.stream()
        clauses.ends()
        values = _options(clauses.sources.stream(name, None).options)
        return pa.table({"name": pa.array(values, pa.string()), "value": pa.array(values.values(), pa.string())})
    return None


def describe(clauses: Clauses) -> pa.Table | None:
    """``DESCRIBE`` a stream: as DuckDB does it, and which column has the times, and with what options it is kept.

    None for anything else that can be described.
    """
    token, behind = clauses.peek(1), clauses.peek(2)
    if not clauses.comes("DESCRIBE", "DESC") or token is None or behind is not None:
        return None
    if token.kind not in ("word", "name") or clauses.sources.find_table(token.value) is not None:
        return None
    name = clauses.sources.find_stream(token.value)
    if name is None:
        return None
    at = clauses.sources.stream(name, None)
    defaults = _options(StreamOptions())
    chosen = {option: text for option, text in _options(at.options).items() if text != defaults[option]}
    rows = [
        {
            "column_name": field.name,
            "column_type": clauses.database.type_of(field.type),
            "null": "YES" if field.nullable else "NO",
            "key": "time" if field.name == at.time else None,
            "default": None,
            "extra": ", ".join(f"{option} = {text}" for option, text in chosen.items())
            if field.name == at.time
            else "",
        }
        for field in at.snapshot.layout.schema
    ]
    return pa.Table.from_pylist(
        [{each: value or None for each, value in row.items()} for row in rows],
        pa.schema([(each, pa.string()) for each in rows[0]]),
    )


def _options(options: StreamOptions) -> dict[str, str]:
    return {each.name: shown_option(getattr(options, each.name)) for each in fields(options)}


def _told(name: str) -> pa.Table:
    return pa.table({"stream": pa.array([name], pa.string())})
