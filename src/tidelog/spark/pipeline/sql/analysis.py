"""Steps that are a query in Spark's SQL, checked before Spark runs: syntax, tables, columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from tidelog.model.errors import did_you_mean
from tidelog.spark.pipeline.description.relations import DIALECT, Columns, Relation, family, is_time
from tidelog.spark.pipeline.description.steps import Fault, Reference, Step, StepError, register_step
from tidelog.spark.pipeline.sql.intervals import WINDOWS
from tidelog.spark.pipeline.sql.mistakes import certain_types, forget_exploded, mistakes_of_text, mistakes_of_types
from tidelog.spark.pipeline.sql.parsing import not_too_deep, offset, one_line, parsed, tables_of
from tidelog.spark.pipeline.sql.streaming import Arriving, gathers, unsupported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@register_step("sql")
@dataclass(frozen=True, kw_only=True)
class Sql(Step):
    """A query over sources and earlier steps."""

    sql: str

    def references(self) -> Sequence[Reference]:
        """The tables of the query, each once, in the order of the text."""
        query = parsed(self.sql)
        found: dict[str, Reference] = {}
        with not_too_deep():
            tables = tables_of(query)
        for table in tables:
            name = ".".join(part.name for part in table.parts)
            found.setdefault(name, Reference(name, "sql", offset(table.parts[0])))
        if not found:
            raise StepError(Fault("sql", "the query reads nothing; expected FROM with a source or an earlier step"))
        return list(found.values())

    def columns(self, inputs: Mapping[str, Relation]) -> Columns | None:
        """What the query selects, if the columns of all its tables are known."""
        query = parsed(self.sql)
        known = {name.lower(): each.columns for name, each in inputs.items()}
        with not_too_deep():
            _refuse(mistakes_of_text(query))
            _check_functions(query)
            return None if any(columns is None for columns in known.values()) else self._typed(query, known)

    def _typed(self, query: exp.Query, known: Mapping[str, Columns | None]) -> Columns | None:
        schema: dict[str, object] = {
            name: {column.lower(): type_ for column, type_ in (own or {}).items()} for name, own in known.items()
        }
        try:
            qualified = qualify(_without_made_columns(query), schema=schema, dialect=DIALECT)
            typed = annotate_types(qualified, schema=schema, dialect=DIALECT)
        except SqlglotError as error:
            reachable = {name: [each.lower() for each in own or ()] for name, own in known.items()}
            raise StepError(_unresolved(query, reachable, one_line(error))) from None
        if not isinstance(typed, exp.Query):
            return None
        forget_exploded(typed)
        _refuse(mistakes_of_types(typed))
        names = [each.alias_or_name for each in typed.selects]
        if typed.is_star or any(_UNNAMED.fullmatch(name) for name in names):
            return None  # Spark has names of its own for what has none
        return dict(zip(names, certain_types(typed), strict=True))

    def build(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The step in Spark; the views are there."""
        return session.sql(self.sql)

    def state(self, inputs: Mapping[str, Relation]) -> str | None:
        """The query, if it groups or joins rows that keep arriving, without what makes no difference."""
        query = parsed(self.sql)
        streaming = [name for name, each in inputs.items() if each.is_streaming]
        joins = len(streaming) > 1 and query.find(exp.Join) is not None
        if not streaming or not (gathers(query) or joins):
            return None
        with not_too_deep():
            return query.sql(DIALECT, comments=False, normalize=True)

    def unsupported(self, inputs: Mapping[str, Relation], mode: str) -> Sequence[Fault]:
        """What a streaming query cannot do in this output mode."""
        times: set[str] = set()
        plain: set[str] = set()
        is_known = all(each.columns is not None for each in inputs.values())
        for each in inputs.values():
            for name, type_ in (each.columns or {}).items():
                (times if is_time(type_) or family(type_) is None else plain).add(name.lower())
        streaming = [name.lower() for name, each in inputs.items() if each.is_streaming]
        with not_too_deep():
            known = Arriving(streaming, plain - times if is_known else (), mode)
            return unsupported(self.sql, parsed(self.sql), known)

    def gathers(self) -> bool:
        """Whether it groups."""
        return gathers(parsed(self.sql))


_UNNAMED: Final = re.compile(r"_col_\d+")
_MADE: Final = {"window": "timestamp", "session_window": "timestamp", "_metadata": "unknown"}
"""Columns with fields that Spark makes by itself, and the type of these."""
_COLUMN: Final = re.compile(r"(?:Column '([^']+)'|Unknown column: (\S+))")


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


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise StepError(*faults)


def _unresolved(query: exp.Query, known: Mapping[str, Collection[str]], said: str) -> Fault:
    """What an error about a column means, and where the column is."""
    found = _COLUMN.search(said)
    if found is None:
        return Fault("sql", said, 0)
    name = found[1] or found[2]
    column = next((each for each in query.find_all(exp.Column) if each.name.lower() == name.lower()), None)
    place = None if column is None else offset(column.parts[0])
    has = [table for table, columns in known.items() if name.lower() in columns]
    if column is not None and not column.table and len(has) > 1:
        whose = " and of ".join(map(repr, has))
        return Fault("sql", f"column {name!r} is one of {whose}; say whose, as in {has[0]}.{name}", place)
    if column is not None and column.table and has:
        aliases = [table.alias_or_name for table in query.find_all(exp.Table)]
        if column.table.lower() not in map(str.lower, aliases):
            return Fault(
                "sql", f"there is no table {column.table!r} here; {did_you_mean(column.table, aliases)}", place
            )
    if has:
        return Fault("sql", f"column {name!r} is out of reach here: what this reads does not select it", place)
    names = dict.fromkeys(column for columns in known.values() for column in columns)
    return Fault("sql", f"there is no column {name!r}; {did_you_mean(name, names)}", place)


def _check_functions(query: exp.Query) -> None:
    """Raise :class:`StepError` for functions that look like misspelt ones of Spark's; others may be anybody's own."""
    from pyspark.sql import functions

    known = [name for name in dir(functions) if name.islower() and not name.startswith("_")]
    for call in query.find_all(exp.Anonymous):
        name = call.name.lower()
        close = get_close_matches(name, known, n=1, cutoff=0.75)
        if name not in known and name not in WINDOWS and close:
            fault = f"Spark has no function {name!r}; did you mean {close[0]!r}?"
            raise StepError(Fault("sql", fault, offset(call)))
