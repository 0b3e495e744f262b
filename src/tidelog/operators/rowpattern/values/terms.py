"""The values of terms, and of expressions around them, for many matches at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr import EvaluationError, ExpressionError, parse_aggregate
from tidelog.expr.aggregates import database
from tidelog.expr.aggregates.database import with_column
from tidelog.model.arrays import batch_of, integer_column
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.errors import in_words
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.rows import (
    Mask,
    asked,
    column_of,
    expression_over,
    index_array,
    names_in,
    parsed,
    schema_of_terms,
    taken,
    type_over,
)
from tidelog.operators.rowpattern.syntax import (
    CLASSIFIER_COLUMN,
    MATCH_NUMBER_COLUMN,
    Aggregate,
    Expression,
    MatchNumber,
    Navigation,
    Term,
)
from tidelog.operators.rowpattern.values import kernels


class Values:
    """Evaluates expressions over matches of a pattern with some variables."""

    def __init__(self, variables: tuple[str, ...], schema: pa.Schema) -> None:
        self._variables = variables
        self._schema = schema_of_terms(schema)
        self._names = pa.array(variables, pa.string())

    def of_matches(self, expression: Expression, matches: Matches) -> pa.Array:
        """The value of an expression for each match, as it is at its end."""
        values = [self._final(term, matches) for term in expression.terms]
        return combined(expression, values, len(matches))

    def of_rows(self, expression: Expression, matches: Matches) -> pa.Array:
        """The value of an expression for each row of each match, as it is there."""
        values = [self._running(term, matches) for term in expression.terms]
        return combined(expression, values, len(matches.places))

    def of_term(self, term: Term, matches: Matches) -> pa.Array:
        """The value of a term for each match, as it is at its end."""
        return self._final(term, matches)

    def _wanted(self, variables: frozenset[str] | None) -> np.ndarray[Any, np.dtype[np.uint8]]:
        return np.array([variables is None or name in variables for name in self._variables], np.uint8)

    def _final(self, term: Term, matches: Matches) -> pa.Array:
        match term:
            case MatchNumber():
                return matches.number_column
            case Navigation(variables=None, logical=0):
                places = matches.offsets[1:] - 1 if term.is_last else matches.offsets[:-1]
                places = np.where(matches.lengths > 0, places, -1)
                return self._navigated(term, matches, places, np.arange(len(matches)))
            case Navigation():
                places = np.empty(len(matches), np.int64)
                kernels.locate(
                    matches.offsets,
                    matches.variables,
                    self._wanted(term.variables),
                    int(term.is_last),
                    term.logical,
                    places,
                )
                return self._navigated(term, matches, places, np.arange(len(matches)))
            case Aggregate():
                return self._aggregated(term, matches, is_running=False)

    def _running(self, term: Term, matches: Matches) -> pa.Array:
        match term:
            case MatchNumber():
                return matches.number_column.take(integer_column(matches.owners))
            case Navigation(is_final=False):
                return self._navigated(term, matches, self._running_places(term, matches), matches.owners)
            case Aggregate(is_final=False):
                return self._aggregated(term, matches, is_running=True)
            case _:
                return self._final(term, matches).take(integer_column(matches.owners))

    def _running_places(self, term: Navigation, matches: Matches) -> Ints:
        places, own = np.empty(len(matches.places), np.int64), np.empty(len(matches.places), np.int64)
        kernels.locate_running(
            matches.offsets,
            matches.variables,
            self._wanted(term.variables),
            int(term.is_last),
            term.logical,
            own,
            places,
        )
        return places

    def _navigated(self, term: Navigation, matches: Matches, places: Ints, owners: Ints) -> pa.Array:
        """The values of a term's expression at places among the rows of matches, -1 for none."""
        missing: Mask = places < 0
        rows = matches.places
        if not len(rows):
            return pa.nulls(len(places), type_over(term.expression, self._schema))
        found = rows[places]
        labels = places
        if term.physical and matches.skips:
            labels = places + term.physical
            begins, ends = matches.offsets[:-1][owners], matches.offsets[1:][owners]
            missing = missing | (labels < begins) | (labels >= ends)
            labels = np.where(missing, 0, labels)
            found = rows[labels]
        elif term.physical:
            found = found + term.physical
            low, high = matches.seen(owners)
            missing = missing | (found < low) | (found >= high)
            if CLASSIFIER_COLUMN in term.expression:
                labels = np.where(missing, -1, places + term.physical)
                begins, ends = matches.offsets[:-1][owners], matches.offsets[1:][owners]
                labels = np.where((labels < begins) | (labels >= ends), -1, labels)
        indices = index_array(found, missing)
        batch = matches.rows.batch
        if (name := column_of(term.expression, batch.schema)) is not None:
            values, kind = batch.column(name).take(indices), type_over(term.expression, self._schema)
            return values.cast(kind) if values.type != kind else values
        known = expression_over(term.expression, self._schema)
        used = names_in(term.expression, self._schema) if known is None else list(known.columns)
        columns = taken(batch, [name for name in used if name in batch.schema.names], indices)
        if CLASSIFIER_COLUMN in used:
            outside = missing | (labels < 0)
            codes = index_array(matches.variables[labels].astype(np.int64), outside)
            columns = with_column(columns, CLASSIFIER_COLUMN, self._names.take(codes))
        if MATCH_NUMBER_COLUMN in used:
            columns = with_column(columns, MATCH_NUMBER_COLUMN, matches.number_column.take(integer_column(owners)))
        values = asked(term.expression, columns) if known is None else known.evaluate(columns)
        return pc.if_else(pc.is_valid(indices), values, pa.scalar(None, values.type)) if indices.null_count else values

    def _aggregated(self, term: Aggregate, matches: Matches, *, is_running: bool) -> pa.Array:
        wanted = self._wanted(term.variables)[matches.variables] != 0
        counts = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int64)
        cuts = counts[matches.offsets]
        chosen = np.flatnonzero(wanted)
        values = _aggregate(term.call, self._schema, self._columns(term.call, matches, chosen), cuts, is_running)
        if not is_running:
            return values
        # Behind the last value is that of no rows.
        last = counts[1:] - 1
        return values.take(integer_column(np.where(last < cuts[:-1][matches.owners], len(chosen), last)))

    def _columns(self, call: str, matches: Matches, chosen: Ints) -> pa.RecordBatch:
        """The columns that a call uses, of some rows of matches."""
        own = matches.rows.batch
        names = names_in(call, own.schema)
        columns = taken(own, names, integer_column(matches.places[chosen]))
        if CLASSIFIER_COLUMN in call:
            codes = integer_column(matches.variables[chosen].astype(np.int64))
            columns = with_column(columns, CLASSIFIER_COLUMN, self._names.take(codes))
        if MATCH_NUMBER_COLUMN in call:
            numbers = matches.number_column.take(integer_column(matches.owners[chosen]))
            columns = with_column(columns, MATCH_NUMBER_COLUMN, numbers)
        return columns


def combined(expression: Expression, values: list[pa.Array], count: int) -> pa.Array:
    """An expression around terms with some values."""
    columns = [
        value if value.type == type_ else value.cast(type_)
        for value, type_ in zip(values, expression.types, strict=True)
    ]
    if expression.text.strip('"') == "#0":
        return columns[0]
    schema = pa.schema([(f"#{place}", type_) for place, type_ in enumerate(expression.types)])
    batch = batch_of(columns, schema, count)
    try:
        return parsed(expression.text, schema).evaluate(batch)
    except EvaluationError as error:
        raise in_words(error, expression) from None
    except ExpressionError:
        return asked(expression.text, batch)


@lru_cache(256)
def _call(call: str, schema: pa.Schema) -> Any:
    try:
        return parse_aggregate(call, schema)
    except ExpressionError:
        return None


def _aggregate(call: str, schema: pa.Schema, rows: pa.RecordBatch, cuts: Ints, is_running: bool) -> pa.Array:
    """The aggregate of each run of rows; with ``is_running`` of each row and those before it, then of no rows."""
    known = _call(call, schema)
    if known is None:
        return _aggregate_by_database(call, rows, cuts, is_running)
    if not is_running:
        return known.lower_column(known.lift(rows, cuts))
    states = known.lift(rows, np.arange(rows.num_rows + 1))
    return known.lower_column(np.concatenate([known.scan(states, cuts), known.start()]))


def _aggregate_by_database(call: str, rows: pa.RecordBatch, cuts: Ints, is_running: bool) -> pa.Array:
    if not is_running:
        return database.of_runs(call, rows, cuts)
    runs = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    batch = with_column(with_column(rows, "#run", integer_column(runs)), "#row", integer_column(np.arange(len(runs))))
    frame = 'PARTITION BY "#run" ORDER BY "#row" ROWS UNBOUNDED PRECEDING'
    values = database.asked(
        f'SELECT x FROM (SELECT {call} OVER ({frame}) AS x, "#row" FROM input) ORDER BY "#row"', batch
    )
    return pa.concat_arrays([values, database.of_nothing(call, rows.schema).cast(values.type)])
