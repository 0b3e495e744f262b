"""Steps that are a query in Spark's SQL, checked before Spark runs: syntax, tables, columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from tidelog.model.errors import did_you_mean
from tidelog.spark.pipeline.relations import DIALECT, Columns, Relation
from tidelog.spark.pipeline.steps import Fault, Reference, Step, StepError, register_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@register_step("sql")
@dataclass(frozen=True, kw_only=True)
class Sql(Step):
    """A query over sources and earlier steps."""

    sql: str

    def references(self) -> Sequence[Reference]:
        """The tables of the query, each once, in the order of the text."""
        query = _parsed(self.sql)
        found: dict[str, Reference] = {}
        for table in _tables(query):
            name = ".".join(part.name for part in table.parts)
            found.setdefault(name, Reference(name, "sql", _offset(table.parts[0])))
        if not found:
            raise StepError(Fault("sql", "the query reads nothing; expected FROM with a source or an earlier step"))
        return list(found.values())

    def columns(self, inputs: Mapping[str, Relation]) -> Columns | None:
        """What the query selects, if the columns of all its tables are known."""
        query = _parsed(self.sql)
        known = {name.lower(): each.columns for name, each in inputs.items()}
        _check_functions(query)
        if any(columns is None for columns in known.values()):
            return None
        schema: dict[str, object] = {
            name: {column.lower(): type_ for column, type_ in (own or {}).items()} for name, own in known.items()
        }
        try:
            qualified = qualify(_without_made_columns(query), schema=schema, dialect=DIALECT)
            typed = annotate_types(qualified, schema=schema, dialect=DIALECT)
        except SqlglotError as error:
            reachable = {name: [each.lower() for each in own or ()] for name, own in known.items()}
            raise StepError(_unresolved(query, reachable, _one_line(error))) from None
        if not isinstance(typed, exp.Query):
            return None
        names = [each.alias_or_name for each in typed.selects]
        if typed.is_star or any(_UNNAMED.fullmatch(name) for name in names):
            return None  # Spark has names of its own for what has none
        unknown = exp.DataType.build("unknown")
        return {name: each.type or unknown for name, each in zip(names, typed.selects, strict=True)}

    def build(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The step in Spark; the views are there."""
        return session.sql(self.sql)

    def state(self, inputs: Mapping[str, Relation]) -> str | None:
        """The query, if it groups or joins rows that keep arriving, without what makes no difference."""
        query = _parsed(self.sql)
        streaming = [name for name, each in inputs.items() if each.is_streaming]
        gathers = query.find(exp.Group, exp.AggFunc, exp.Distinct) is not None
        joins = len(streaming) > 1 and query.find(exp.Join) is not None
        if not streaming or not (gathers or joins):
            return None
        return query.sql(DIALECT, comments=False, normalize=True)


@lru_cache(maxsize=256)
def _parsed(text: str) -> exp.Query:
    """A query. Raises :class:`StepError` for what is none; callers must not change what is returned."""
    # sqlglot takes ``window(`` behind GROUP BY for the clause WINDOW. The other name has the same length, so that
    # everything stays where it was.
    readable = _WINDOW_CALL.sub(_WINDOW, text)
    try:
        statements = [each for each in sqlglot.parse(readable, read=DIALECT) if each is not None]
    except ParseError as error:
        first = error.errors[0]
        near = str(first.get("highlight") or "")
        end = _offset_of(text, int(first.get("line") or 1), int(first.get("col") or 1))
        found = f"near {near!r}" if near else "at the end"
        description = str(first["description"]).split(" but got <")[0].rstrip(".")
        message = f"this is no SQL {found}: {description}"
        raise StepError(Fault("sql", message, max(0, end - len(near)))) from None
    except TokenError as error:
        raise StepError(Fault("sql", f"this is no SQL: {_one_line(error)}", 0)) from None
    if len(statements) != 1:
        raise StepError(Fault("sql", f"found {len(statements)} statements; expected one query", 0))
    query = statements[0]
    if not isinstance(query, exp.Query):
        word = text.split(maxsplit=1)[0].upper()
        raise StepError(Fault("sql", f"found {word}; expected a query, such as SELECT ... FROM a source or step", 0))
    return query


_WINDOW: Final = "wind0w"
_WINDOW_CALL: Final = re.compile(r"(?i)\bwindow(?=\s*\()")
_UNNAMED: Final = re.compile(r"_col_\d+")
_MADE: Final = {"window": "timestamp", "session_window": "timestamp", "_metadata": "unknown"}
"""Columns with fields that Spark makes by itself, and the type of these."""
_COLUMN: Final = re.compile(r"(?:Column '([^']+)'|Unknown column: (\S+))")


def _tables(query: exp.Query) -> list[exp.Table]:
    """The tables of a query that are none of its own definitions, in the order of the text."""
    found: dict[int, exp.Table] = {}
    for scope in traverse_scope(query):
        own = {name.lower() for name in scope.cte_sources}
        for table in scope.tables:
            if isinstance(table.this, exp.Identifier) and (table.db or table.name.lower() not in own):
                found[id(table)] = table
    return sorted(found.values(), key=lambda table: _offset(table.this) or 0)


def _without_made_columns(query: exp.Query) -> exp.Query:
    """The query with columns that no table has, but Spark makes, replaced by nulls of their types."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        made = node.parts[0].name.lower()
        if made not in _MADE or made in tables:
            return node
        null = exp.cast(exp.null(), exp.DataType.build(_MADE[made] if len(node.parts) > 1 else "unknown"))
        return exp.alias_(null, node.name) if isinstance(node.parent, exp.Select) else null

    tables = {table.alias_or_name.lower() for table in query.find_all(exp.Table)}
    found = query.transform(replaced)
    assert isinstance(found, exp.Query)
    return found


def _unresolved(query: exp.Query, known: Mapping[str, Collection[str]], said: str) -> Fault:
    """What an error about a column means, and where the column is."""
    found = _COLUMN.search(said)
    if found is None:
        return Fault("sql", said, 0)
    name = found[1] or found[2]
    column = next((each for each in query.find_all(exp.Column) if each.name.lower() == name.lower()), None)
    offset = None if column is None else _offset(column.parts[0])
    has = [table for table, columns in known.items() if name.lower() in columns]
    if column is not None and not column.table and len(has) > 1:
        whose = " and of ".join(map(repr, has))
        return Fault("sql", f"column {name!r} is one of {whose}; say whose, as in {has[0]}.{name}", offset)
    if column is not None and column.table and has:
        aliases = [table.alias_or_name for table in query.find_all(exp.Table)]
        if column.table.lower() not in map(str.lower, aliases):
            return Fault(
                "sql", f"there is no table {column.table!r} here; {did_you_mean(column.table, aliases)}", offset
            )
    if has:
        return Fault("sql", f"column {name!r} is out of reach here: what this reads does not select it", offset)
    names = dict.fromkeys(column for columns in known.values() for column in columns)
    return Fault("sql", f"there is no column {name!r}; {did_you_mean(name, names)}", offset)


def _check_functions(query: exp.Query) -> None:
    """Raise :class:`StepError` for functions that look like misspelt ones of Spark's; others may be anybody's own."""
    from pyspark.sql import functions

    known = [name for name in dir(functions) if name.islower() and not name.startswith("_")]
    for call in query.find_all(exp.Anonymous):
        name = call.name.lower()
        close = get_close_matches(name, known, n=1, cutoff=0.75)
        if name not in known and name != _WINDOW and close:
            fault = f"Spark has no function {name!r}; did you mean {close[0]!r}?"
            raise StepError(Fault("sql", fault, _offset(call)))


def _offset(node: exp.Expr | None) -> int | None:
    """Where a name begins in the text."""
    start = None if node is None else node.meta.get("start")
    return start if isinstance(start, int) else None


def _offset_of(text: str, line: int, column: int) -> int:
    """The offset behind a character, of which sqlglot tells the line and the column, both counted from 1."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return min(starts[min(line, len(starts)) - 1] + column, len(text))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
