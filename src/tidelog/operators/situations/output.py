"""The rows that come out for matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.aggregates.contract import Fold
from tidelog.expr import Expression, ExpressionError, UnsupportedError, parse, parse_aggregate
from tidelog.expr.aggregates.database import database_call
from tidelog.model.arrays import batch_of, boolean_column, integer_column
from tidelog.operators.base import Ints, Shape
from tidelog.operators.keys import Keys
from tidelog.operators.situations.deriving import Derived
from tidelog.operators.situations.errors import SituationError
from tidelog.operators.situations.matching import Searched
from tidelog.operators.situations.rows import with_numbers
from tidelog.operators.situations.syntax import (
    MATCH_TIME,
    OPEN_SUFFIX,
    Aggregate,
    Bound,
    Instant,
    Mode,
    Situations,
    Term,
    duration_type,
)


def folds_of(query: Situations, shape: Shape) -> list[dict[str, Fold]]:
    """The aggregates of each definition, by their calls. Raises :class:`SituationError` for what is none."""
    schema = with_numbers(shape)
    found: list[dict[str, Fold]] = []
    for definition in query.definitions:
        own: dict[str, Fold] = {}
        for number, each in enumerate(query.returned):
            for term in each.terms:
                if isinstance(term, Aggregate) and term.situation == definition.name and term.call not in own:
                    own[term.call] = fold_of(term.call, schema, shape.time, number)
        found.append(own)
    return found


def fold_of(call: str, schema: pa.Schema, time: str, number: int) -> Fold:
    """An aggregate over rows that tells the type of its values; what has no states of ours keeps its rows."""
    fold: Fold
    try:
        fold = parse_aggregate(call, schema, time)
    except ExpressionError as error:
        try:
            fold = database_call(call, schema)
        except ExpressionError as reason:
            # What we know with other types we tell as well as DuckDB does, and where it is wrong.
            told = reason if isinstance(error, UnsupportedError) or "no aggregate function" in str(error) else error
            raise SituationError(str(told).partition("\n")[0], "returned", number) from None
    if fold.type is None:
        raise SituationError(
            f"{call} does not tell the type of its values; have its result_type() say it", "returned", number
        )
    return fold


@dataclass(frozen=True)
class Rendered:
    """Rows for some matches, and what they are ordered by, the last first: starts, then the row, then the time."""

    batch: pa.RecordBatch
    order_keys: list[Ints]


def in_order(parts: Sequence[Rendered]) -> pa.RecordBatch:
    """The rows of some parts, of which there is at least one."""
    batch = pa.concat_batches([each.batch for each in parts])
    keys = [np.concatenate(each) for each in zip(*(each.order_keys for each in parts), strict=True)]
    return batch.take(integer_column(np.lexsort(keys)))


class Output:
    """Renders the matches of one query: keys, what is returned, the time, and which situations still go on."""

    def __init__(self, query: Situations, shape: Shape, keys: Keys, derived: Sequence[Derived]) -> None:
        self._query, self._keys, self._derived = query, keys, tuple(derived)
        self._names = [each.name for each in query.definitions]
        self._time_type = shape.time_type
        self._calls = [list(own) for own in folds_of(query, shape)]
        self._expressions = [self._expression(number) for number in range(len(query.returned))]
        fields = [*keys.schema]
        fields += [
            pa.field(each.name, self._type(each.terms[0]) if value is None else value.type)
            for each, value in zip(query.returned, self._expressions, strict=True)
        ]
        fields.append(pa.field(MATCH_TIME, shape.time_type, nullable=False))
        if query.mode is Mode.EARLY:
            fields += [pa.field(f"{name}{OPEN_SUFFIX}", pa.bool_(), nullable=False) for name in self._names]
        names = [each.name.lower() for each in fields]
        for each in fields:
            if names.count(each.name.lower()) > 1:
                raise SituationError(
                    f"found two columns {each.name} that come out; {MATCH_TIME} and, of early matches, names that end "
                    f"with {OPEN_SUFFIX} are always there: give others to columns",
                    "returned",
                )
        self.shape = Shape(pa.schema(fields), MATCH_TIME)

    def _expression(self, number: int) -> Expression | None:
        """What is computed of terms; None if it is the only one of them as it is."""
        returned = self._query.returned[number]
        if returned.text == '"#0"':
            return None
        schema = pa.schema([(f"#{at}", self._type(term)) for at, term in enumerate(returned.terms)])
        for term, field in zip(returned.terms, schema, strict=True):
            if pa.types.is_nested(field.type):
                told = term.call if isinstance(term, Aggregate) else term.bound.value
                raise SituationError(
                    f"found a computation with {told} of {term.situation}, which is of type {field.type}; return it by "
                    "itself, and compute with it where matches are selected",
                    "returned",
                    number,
                )
        try:
            return parse(returned.text, schema)
        except ExpressionError as error:
            raise SituationError(str(error).partition("\n")[0], "returned", number) from None

    def _type(self, term: Term) -> pa.DataType:
        if isinstance(term, Instant):
            return duration_type(self._time_type) if term.bound is Bound.DURATION else self._time_type
        own = self._names.index(term.situation)
        kind = self._derived[own].folds[self._calls[own].index(term.call)].type
        assert kind is not None
        return kind

    def rendered(self, searched: Searched) -> Rendered:
        """The rows for the matches of a part; several threads may ask at once."""
        one = _Rendering(self, searched)
        rows, matches = one.rows, one.matches
        columns = self._keys.values(rows.keys[np.searchsorted(rows.cuts, matches.rows, side="right") - 1])
        values: dict[Term, pa.Array] = {}
        for returned, expression in zip(self._query.returned, self._expressions, strict=True):
            for term in returned.terms:
                if term not in values:
                    values[term] = one.value(term)
            terms = [values[term] for term in returned.terms]
            if expression is None:
                columns.append(terms[0])
                continue
            schema = pa.schema([(f"#{at}", each.type) for at, each in enumerate(terms)])
            columns.append(expression.evaluate(batch_of(terms, schema, len(matches))))
        columns.append(integer_column(one.times).view(self._time_type))
        if self._query.mode is Mode.EARLY:
            columns += [boolean_column(np.ascontiguousarray(own < 0)) for own in matches.members.T]
        batch = pa.RecordBatch.from_arrays(
            [each.cast(field.type) for each, field in zip(columns, self.shape.schema, strict=True)],
            schema=self.shape.schema,
        )
        return Rendered(batch, one.order_keys())

    def fold(self, term: Aggregate) -> tuple[int, int]:
        """The definition that an aggregate is about, and its number there."""
        own = self._names.index(term.situation)
        return own, self._calls[own].index(term.call)

    def definition(self, term: Term) -> int:
        """The number of the definition that a term is about."""
        return self._names.index(term.situation)

    @property
    def time_type(self) -> pa.DataType:
        """The type of times."""
        return self._time_type

    @property
    def derived(self) -> tuple[Derived, ...]:
        """What derives the situations of each definition."""
        return self._derived


class _Rendering:
    """The values of terms for some matches."""

    def __init__(self, output: Output, searched: Searched) -> None:
        part = searched.part
        self._output, self._buffers = output, part.view
        self.rows, self._changes, self.matches = part.rows, part.changes, searched.matches
        self.times = self.rows.times[self.matches.rows]

    def order_keys(self) -> list[Ints]:
        """What matches are ordered by, the last first."""
        numbers = self.rows.numbers(self.matches.rows)
        starts = [self._starts(own) for own in reversed(range(self.matches.members.shape[1]))]
        return [*starts, numbers, self.times]

    def _starts(self, own: int) -> Ints:
        members = self.matches.members[:, own]
        return np.where(
            members < 0,
            self._changes.table[1][np.maximum(-1 - members, 0)] if self._changes.table.shape[1] else 0,
            self._buffers.starts[np.maximum(members, 0)],
        )

    def value(self, term: Term) -> pa.Array:
        """The value of a term for each match."""
        return self._instant(term) if isinstance(term, Instant) else self._aggregate(term)

    def _instant(self, term: Instant) -> pa.Array:
        own = self._output.definition(term)
        time = self._output.time_type
        if term.bound is Bound.START:
            return integer_column(self._starts(own)).view(time)
        members = self.matches.members[:, own]
        ends = self._buffers.ends[np.maximum(members, 0)]
        kind = time
        if term.bound is Bound.DURATION:
            ends, kind = ends - self._starts(own), duration_type(time)
        is_open = np.ascontiguousarray(members < 0)
        return pa.array(ends, mask=is_open).view(kind)

    def _aggregate(self, term: Aggregate) -> pa.Array:
        own, number = self._output.fold(term)
        derived = self._output.derived[own]
        members = self.matches.members[:, own]
        states = self._buffers.states[own][number][np.maximum(members, 0)]
        at = np.flatnonzero(members < 0)
        if len(at):
            runs = self._changes.runs[own]
            which = -1 - members[at] - self._changes.offsets[own]
            ends = self.matches.rows[at] + 1
            pairs, places = np.unique(np.stack([which, ends]), axis=1, return_inverse=True)
            found = derived.states_until(number, self.rows, runs, pairs[0], pairs[1])
            states = states.copy()
            states[at] = found[places.ravel()]
        return derived.folds[number].lower_column(states)
