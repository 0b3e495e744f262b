"""A statement of tidelog's own while it is read: names, constants, types of columns and options, each at its place."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from tidelog.model.errors import InputError, SchemaError, TimeError, did_you_mean
from tidelog.model.schema import Schema
from tidelog.model.types import storable
from tidelog.sql.database import Database
from tidelog.sql.errors import SqlError
from tidelog.sql.query import Query
from tidelog.sql.resolving import Sources
from tidelog.sql.text.literals import parameters
from tidelog.sql.text.tokens import Reader, pattern_places, tokens
from tidelog.store.manifest.options import StreamOptions

OPTIONS: Final = tuple(each.name for each in fields(StreamOptions))
_FIRST: Final = ("lateness", "too_late")
"""Options that others are checked together with."""


class Parameters:
    """The values of the parameters of a text: ``?`` counts through all of its statements, ``$name`` is the same."""

    def __init__(self, params: Any, text: str) -> None:
        """Raises :class:`InputError` if some are missing or too many."""
        self._places: list[tuple[int, str, bool]] = []
        """Where each stands, its name, and whether it is counted."""
        counted = 0
        found = tokens(text)
        others = pattern_places(found)
        for index, token in enumerate(found):
            if not token.says("?", "$") or token.start in others:
                continue
            behind = found[index + 1] if index + 1 < len(found) else None
            if behind is not None and behind.start == token.end and behind.kind in ("word", "number"):
                self._places.append((token.start, behind.text, False))
            elif token.says("?"):
                counted += 1
                self._places.append((token.start, str(counted), True))
        names = list(dict.fromkeys(name for _, name, _ in self._places))
        try:
            self._values = parameters(params, names)
        except InputError as error:
            place = self._places[0][0] if self._places else None
            raise SqlError(str(error), text=text, position=place) from None

    def of(self, start: int, end: int) -> dict[str, Any]:
        """The values of those in a part of the text, by the names that they have in it alone."""
        here = [(name, is_counted) for at, name, is_counted in self._places if start <= at < end]
        counted = [name for name, is_counted in here if is_counted]
        named = {name: self._values[name] for name, is_counted in here if not is_counted}
        return named | {str(number): self._values[name] for number, name in enumerate(counted, 1)}


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a statement gives."""

    name: str
    value: Any
    place: int


class Clauses(Reader):
    """Reads the clauses of one statement; what is wrong is told at its place."""

    def __init__(self, text: str, start: int, params: Parameters, sources: Sources, database: Database) -> None:
        """Of a statement that begins at a place of the whole text."""
        super().__init__(text)
        self._start = start
        self._params = params
        self.sources = sources
        self.database = database

    def wrong(self, message: str, place: int) -> SqlError:
        """An error at a place."""
        return SqlError(message, text=self.text, position=place)

    @contextmanager
    def blaming(self, place: int) -> Iterator[None]:
        """What cannot be is wrong at a place."""
        try:
            yield
        except SqlError:
            raise
        except (InputError, SchemaError, TimeError) as error:
            raise self.wrong(str(error), place) from error

    @contextmanager
    def placed(self, start: int, before: str = "") -> Iterator[None]:
        """Errors of what begins at a place, and was read behind other words, are errors of the statement."""
        try:
            yield
        except SqlError as error:
            if error.text is self.text:  # told at its place already
                raise
            raise error.moved(self.text, start - len(before), start) from None

    def query(self, start: int, end: int, before: str = "", behind: str = "") -> Query:
        """A part of the statement as one that selects, between other words. Errors: :meth:`placed`."""
        values = self._params.of(self._start + start, self._start + end)
        return Query(f"{before}{self.text[start:end]}{behind}", values, self.sources, self.database)

    def stream(self) -> str:
        """The name of a stream that there is."""
        place = self.place
        name = self.name("the name of a stream")
        found = self.sources.find_stream(name)
        if found is None:
            raise self.wrong(f"no stream {name!r}; {did_you_mean(name, self.sources.streams.names())}", place)
        return found

    def column(self, schema: Schema) -> str:
        """The name of a column that there is, in whatever case if that is clear."""
        place = self.place
        return self.column_called(self.name("the name of a column"), schema, place)

    def column_called(self, name: str, schema: Schema, place: int) -> str:
        """The column of a name that was read at a place."""
        similar = [each for each in schema.names if each.lower() == name.lower()]
        if name in schema:
            return name
        if len(similar) != 1:
            raise self.wrong(f"no column {name!r}; {did_you_mean(name, schema.names)}", place)
        return similar[0]

    def constant(self, what: str, *stops: str) -> Any:
        """The value of an expression, up to one of some words or signs."""
        start, end = self.until(what, *stops)
        before = "SELECT "
        with self.placed(start, before):
            query = self.query(start, end, before)
            if not is_expression(query):
                raise self.wrong(f"found {self.text[start:end]}; expected {what}", start)
            with query.opened() as running:
                relation = running.relation
                if str(relation.types[0]) == "INTERVAL":
                    return self._length(relation.to_arrow_table().column(0)[0].as_py(), start)
                [(value,)] = relation.fetchall()
        return float(value) if isinstance(value, Decimal) else value

    def _length(self, value: Any, place: int) -> datetime.timedelta | None:
        if value is None:
            return None
        if value.months or value.nanoseconds % 1000:
            raise self.wrong("found months, or parts of microseconds; expected a length of time such as '7d'", place)
        return datetime.timedelta(days=value.days, microseconds=value.nanoseconds // 1000)

    def column_type(self, *stops: str) -> pa.DataType:
        """A type of DuckDB, up to one of some words or signs, as the one of Arrow that is stored.

        Raises :class:`SqlError` for those that cannot be stored, or would be read back as another one.
        """
        start, end = self.until("a type, such as DOUBLE", *stops)
        before = "SELECT CAST(NULL AS "
        with self.placed(start, before):
            query = self.query(start, end, before, ")")
            with query.opened() as running:
                relation = running.relation
                found = relation.limit(0).to_arrow_table().schema.field(0).type
                called = str(relation.types[0])
            return self.stored_type(found, called, start)

    def stored_type(self, found: pa.DataType, called: str, place: int) -> pa.DataType:
        """The type of Arrow under which one of DuckDB, which says what it is in Arrow, is stored."""
        with self.blaming(place):
            stored = storable(found)
        back = self.database.type_of(stored)
        if back != called:
            raise self.wrong(f"type {called} cannot be stored as it is, only as {back}: say so, or cast to it", place)
        return stored

    def options(self) -> list[Option]:
        """Options in parentheses: names, and values that are constants."""
        self.expect("(")
        found: list[Option] = []
        while True:
            place = self.place
            name = self.name("the name of an option")
            if name in [each.name for each in found]:
                raise self.wrong(f"found option {name!r} twice; name it once", place)
            self.expect("=")
            found.append(Option(name, self.constant("a value", ","), place))
            if self.accept(")"):
                return found
            self.expect(",")

    def check_options(self, options: Sequence[Option], schema: Schema) -> StreamOptions:
        """Options that fit each other and a schema. Raises :class:`SqlError` at the first one that does not."""
        for each in options:
            if each.name not in OPTIONS:
                known_names = ("time", *OPTIONS)
                raise self.wrong(
                    f"there is no option {each.name!r}; {did_you_mean(each.name, known_names)}", each.place
                )
        known: dict[str, Any] = {}
        checked = StreamOptions()
        by_name = {each.name: each for each in options}
        for name in sorted(by_name, key=lambda each: each not in _FIRST or _FIRST.index(each) - len(_FIRST)):
            known[name] = by_name[name].value
            with self.blaming(by_name[name].place):
                checked = StreamOptions.from_dict(known)
                checked.check(schema)
        return checked


def is_expression(query: Query) -> bool:
    """Whether a statement that selects is nothing but one expression."""
    node: Mapping[str, Any] = query.tree["statements"][0]["node"]
    return (
        node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and node["from_table"]["type"] == "EMPTY"
        and not node["modifiers"]
        and not any(node[each] for each in ("where_clause", "group_expressions", "having", "qualify", "sample"))
    )


def shown_option(value: Any) -> str:
    """The value of an option as a statement would give it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, tuple):
        return "[" + ", ".join(shown_option(each if isinstance(each, str) else each.name) for each in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)
