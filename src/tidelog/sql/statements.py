"""The statements of a text, run in order: those that select are lazy, all others are done at once."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from tidelog.model.arguments import text as checked_text
from tidelog.model.errors import did_you_mean
from tidelog.sql.changing import definition, modification
from tidelog.sql.changing.changes import Changes
from tidelog.sql.changing.clauses import Clauses, Parameters
from tidelog.sql.database import Database, memory_limit, shared
from tidelog.sql.errors import SqlError
from tidelog.sql.explaining import explain
from tidelog.sql.query import Query, read_alone
from tidelog.sql.reading.sources import NoStreams, Streams, checked_tables
from tidelog.sql.resolving import Sources
from tidelog.sql.result import Result
from tidelog.sql.situations import Asked
from tidelog.sql.text.limits import refuse_monstrous
from tidelog.sql.text.tokens import statements, tokens

_FIRSTS: Final = ("SELECT", "EXPLAIN", "DESCRIBE", "SUMMARIZE", "SHOW", "CREATE", "INSERT", "DELETE", "ALTER", "DROP")
"""What statements begin with."""
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
    refuse_monstrous(checked_text("a statement", text))
    now = datetime.datetime.now(datetime.UTC)
    sources = Sources(streams, given, as_of, now, timezone)
    found = statements(text)
    if not found:
        raise SqlError("found no statement; expected one such as SELECT count(*) FROM trades")
    values = Parameters(params, text)
    result: Result | None = None
    try:
        if len(found) > 1:
            for statement, start in found:
                _Statement(Clauses(statement, start, values, sources, database), changes).check()
        for statement, start in found:
            result = _Statement(Clauses(statement, start, values, sources, database), changes).run()
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # which DuckDB makes of Ctrl-C while the main thread asks it something
            raise KeyboardInterrupt from None
        raise
    assert result is not None
    return result


def changes_something(text: str) -> bool:
    """Whether a statement of a text is one that changes streams."""
    firsts = [tokens(statement)[0] for statement, _ in statements(text)]
    return any(first.says(*(words[0] for words in _CHANGES)) for first in firsts)


def run_on_tables(
    text: str, params: Any, tables: Mapping[str, Any] | None, timezone: str, sql_memory: str | int | None
) -> Result:
    """Run the statements of a text that mentions no streams."""
    memory = None if sql_memory is None else memory_limit(sql_memory)
    return run(
        text,
        params,
        streams=NoStreams(),
        changes=None,
        database=shared(checked_text("timezone", timezone), memory),
        tables=tables,
        as_of=None,
        timezone=timezone,
    )


def situations_on_tables(table: Any, question: Asked, timezone: str, sql_memory: str | int | None) -> Result:
    """The answer to a question about the situations of a table."""
    with question.placed():
        if not question.table:
            raise SqlError(
                "found FROM without a name; expected one, which the table has in the query",
                text=question.statement,
                position=0,
            )
        return run_on_tables(question.statement, None, {question.table: table}, timezone, sql_memory)


class _Statement:
    """One statement."""

    def __init__(self, clauses: Clauses, changes: Changes | None) -> None:
        self._clauses = clauses
        self._changes = changes

    def run(self) -> Result:
        """Do it; what selects is looked at, and run when it is fetched."""
        clauses = self._clauses
        for tell in (definition.describe, definition.show):
            if (told := tell(clauses)) is not None:
                return self._told(told)
        if clauses.comes(*_SELECTS):
            return Result(clauses.query(0, len(clauses.text)))
        if clauses.accept("EXPLAIN"):
            return self._told(pa.table({"plan": pa.array(self._explained(), pa.string())}))
        for words, change in _CHANGES.items():
            if clauses.comes_all(*words):
                told = change(clauses, self._checked())
                clauses.sources.forget_names()
                return self._told(told)
        raise self._refusal()

    def check(self) -> None:
        """Raise if it is none that may run here, or cannot be read: names may be those that others will have made."""
        clauses = self._clauses
        if clauses.comes("SHOW", "DESC"):
            return
        is_explained = clauses.accept("EXPLAIN")
        if is_explained:
            clauses.accept("ANALYZE")
        if clauses.comes(*_SELECTS):
            start = clauses.place
            with clauses.placed(start):
                read_alone(clauses.text[start:], clauses.database)
        elif is_explained:
            raise self._explained_refusal()
        elif not any(clauses.comes_all(*words) for words in _CHANGES):
            raise self._refusal()
        else:
            self._checked()

    def _refusal(self) -> SqlError:
        clauses = self._clauses
        for words, advice in _ADVICE.items():
            if clauses.comes_all(*words):
                return clauses.error(f"found {' '.join(words)}, which tidelog does not run; {advice}")
        first = clauses.peek()
        word = "" if first is None else first.text.upper()
        meant = "" if word in _FIRSTS else did_you_mean(word, _FIRSTS)
        return clauses.error(
            "found a statement that tidelog does not run; expected SELECT, EXPLAIN, DESCRIBE, SUMMARIZE, SHOW STREAMS, "
            "CREATE STREAM, INSERT, DELETE, ALTER STREAM or DROP STREAM" + (f"; {meant}" if "did" in meant else "")
        )

    def _explained_refusal(self) -> SqlError:
        if self._clauses.peek() is None:
            return self._clauses.error("expected a statement that selects behind EXPLAIN")
        word = self._clauses.peek()
        meant = did_you_mean("" if word is None else word.text.upper(), ["ANALYZE"])
        return self._clauses.error(
            "EXPLAIN tells of statements that select; expected SELECT or another of these"
            + (f"; {meant}" if meant.startswith("did") else "")
        )

    def _explained(self) -> list[str]:
        clauses = self._clauses
        analyze = clauses.accept("ANALYZE")
        if not clauses.comes(*_SELECTS):
            raise self._explained_refusal()
        start = clauses.place
        with clauses.placed(start):
            return explain(clauses.query(start, len(clauses.text)), analyze=analyze).split("\n")

    def _checked(self) -> Changes:
        """What changes streams, if something may."""
        if self._changes is None:
            raise self._clauses.error("without a store nothing can be changed; use the sql method of a store")
        self._changes.check()
        return self._changes

    def _told(self, table: pa.Table) -> Result:
        """A table that is known already, as a result."""
        clauses = self._clauses
        before = clauses.sources
        sources = Sources(before.streams, {"told": table}, None, before.now, before.timezone)
        return Result(Query("FROM told", None, sources, clauses.database))


_CHANGES: Final[Mapping[tuple[str, ...], Callable[[Clauses, Changes], pa.Table]]] = {
    ("CREATE", "STREAM"): definition.create,
    ("ALTER", "STREAM"): definition.alter,
    ("DROP", "STREAM"): definition.drop,
    ("INSERT",): modification.insert,
    ("DELETE",): modification.delete,
}
_ADVICE: Final[Mapping[tuple[str, ...], str]] = {
    ("SHOW",): "expected SHOW STREAMS, or SHOW OPTIONS FROM and a stream; DESCRIBE tells the columns of one",
    ("SET",): "a time zone is given as timezone='Europe/Berlin', memory as sql_memory='2GB'",
    ("BEGIN",): "each statement is done whole or not at all, by itself",
    ("COMMIT",): "each statement is done whole or not at all, by itself",
    ("COPY",): "write a result with pyarrow, or by tidelog sql --output",
    ("PREPARE",): "give values as parameters, for ? or $name",
    ("PRAGMA",): "DESCRIBE tells the columns of a stream, SHOW OPTIONS FROM its options",
    ("MERGE",): "events do not change: insert others, or create another stream of a SELECT",
    ("USE",): "a store has streams alone, without schemas",
    ("ATTACH",): "each store is opened by tidelog.open",
    ("VACUUM",): "streams are maintained by store.maintain()",
    ("CREATE", "OR"): "to replace a stream, say DROP STREAM IF EXISTS s; CREATE STREAM s ...",
    ("CREATE", "VIEW"): "a query gets a name inside of a statement, as in WITH v AS (SELECT ...) SELECT ...",
    ("CREATE", "MATERIALIZED"): "rows that follow the events are put into a stream by store.subscribe(text, into='s')",
    ("CREATE", "CONTINUOUS"): "rows that follow the events are put into a stream by store.subscribe(text, into='s')",
    ("CREATE", "INDEX"): "each stream has an index, by time",
    ("CREATE",): "expected CREATE STREAM",
    ("ALTER",): "expected ALTER STREAM",
    ("DROP",): "expected DROP STREAM",
    ("UPDATE",): "events do not change: insert others, or create another stream of a SELECT",
    ("TRUNCATE",): "to delete all events, DROP STREAM and create it again",
}
