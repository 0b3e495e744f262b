"""The statements of a text, run in order: those that select are lazy, all others are done at once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from tidelog.model.arguments import text as checked_text
from tidelog.sql.changes import Changes
from tidelog.sql.database import Database, shared
from tidelog.sql.errors import SqlError
from tidelog.sql.explaining import explain
from tidelog.sql.query import Query, Sources
from tidelog.sql.result import Result
from tidelog.sql.sources import NoStreams, Streams, checked_tables
from tidelog.sql.tokens import Reader, statements

_SELECTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "SUMMARIZE", "PIVOT", "UNPIVOT", "(")


def run(
    text: str,
    params: Any,
    *,
    streams: Streams,
    changes: Changes | None,
    database: Database,
    tables: Mapping[str, Any] | None,
    as_of: int | None,
    timezone: str,
) -> Result:
    """Run the statements of a text; returns the result of the last one."""
    given = checked_tables(tables)
    now = datetime.datetime.now(datetime.UTC)
    sources = Sources(streams, given, as_of, now, timezone)
    found = statements(checked_text("a statement", text))
    if not found:
        raise SqlError("found no statement; expected one such as SELECT count(*) FROM trades")
    result: Result | None = None
    for statement, _ in found:
        result = _Statement(statement, params, sources, changes, database).run()
    assert result is not None
    return result


def run_on_tables(text: str, params: Any, tables: Mapping[str, Any] | None, timezone: str) -> Result:
    """Run the statements of a text that mentions no streams."""
    return run(
        text,
        params,
        streams=NoStreams(),
        changes=None,
        database=shared(checked_text("timezone", timezone)),
        tables=tables,
        as_of=None,
        timezone=timezone,
    )


class _Statement:
    """One statement."""

    def __init__(self, text: str, params: Any, sources: Sources, changes: Changes | None, database: Database) -> None:
        self._text = text
        self._params = params
        self._sources = sources
        self._changes = changes
        self._database = database
        self._reader = Reader(text)

    def run(self) -> Result:
        """Do it; what selects is looked at, and run when it is fetched."""
        reader = self._reader
        first = reader.peek()
        if first is not None and first.says(*_SELECTS):
            return Result(self._query(self._text))
        if reader.accept("EXPLAIN"):
            analyze = reader.accept("ANALYZE")
            lines = explain(self._query(reader.rest()), analyze=analyze).split("\n")
            return self._told(pa.table({"plan": pa.array(lines, pa.string())}))
        if reader.accept("SHOW", "STREAMS") or reader.accept("SHOW", "TABLES"):
            reader.ends()
            return self._told(pa.table({"name": pa.array(self._sources.streams.names(), pa.string())}))
        raise reader.error(
            "found a statement that tidelog does not run; expected SELECT, EXPLAIN, DESCRIBE, SUMMARIZE, SHOW STREAMS, "
            "CREATE STREAM, INSERT, DELETE, ALTER STREAM or DROP STREAM"
        )

    def _query(self, text: str) -> Query:
        return Query(text, self._params, self._sources, self._database)

    def _told(self, table: pa.Table) -> Result:
        """A table that is known already, as a result."""
        sources = Sources(self._sources.streams, {"told": table}, None, self._sources.now, self._sources.timezone)
        return Result(Query("FROM told", None, sources, self._database))
