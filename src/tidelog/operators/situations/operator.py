"""Situations as continuous operators: matches of patterns, and situations alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.expr import ExpressionError
from tidelog.expr.aggregates.database import DatabaseCall
from tidelog.model.arrays import batch_of, distinct, integer_column
from tidelog.model.errors import SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Batches, Ints, LookBack, Needs, Operator, Shape, count_before
from tidelog.operators.keys import Keys, latest
from tidelog.operators.situations.checks import check_definitions, check_returned, relations_of
from tidelog.operators.situations.conditions import Conditions, counting, thinned
from tidelog.operators.situations.deriving import Derived
from tidelog.operators.situations.errors import SituationError
from tidelog.operators.situations.matching import Matcher, Searched
from tidelog.operators.situations.orders.explaining import explained
from tidelog.operators.situations.output import Output, Rendered, fold_of, folds_of, in_order
from tidelog.operators.situations.rows import Coded, Mask, with_numbers
from tidelog.operators.situations.syntax import (
    END_TIME,
    SITUATION,
    START_TIME,
    Definition,
    Derivation,
    Situations,
)
from tidelog.operators.state import Core, State, together
from tidelog.operators.waiting import Waiting
from tidelog.threads import Task


class _Situated(Operator):
    """Rows wait for the watermark; what is known of situations by them comes out with the rows that tell it."""

    def __init__(self, shape: Shape, output: Shape, keys: Keys, derived: Sequence[Derived], needs: Needs) -> None:
        super().__init__([shape], output, needs)
        self._shape = shape
        self._keys = keys
        self._derived = tuple(derived)
        self._waiting = Waiting(shape)
        self._rows = 0
        """How many rows have been put in order."""
        self._horizon = self._limit = INT64_MIN
        """Before which nothing need come out, and before which, of the rows of a key, only the last one counts."""
        self._version = 0
        self._content: dict[str, pa.Buffer] = {}

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait until their order is certain."""
        self._waiting.add(batch)
        return []

    def advance(self, watermark: int) -> Batches:
        """What the rows before the watermark tell."""
        rows = self.rows_before(watermark)
        if rows is None:
            return []
        found = self._found(rows)
        if self.has_many_keys:
            self.forget(rows)
        self._version += 1
        self._content = {}
        return [found] if found.num_rows else []

    def stand_for(self, rows: pa.RecordBatch, totals: Sequence[Sequence[States]]) -> Batches:
        """What rows of one time tell that stand for many which follow each other and are alike; there are no keys.

        ``totals`` are for each definition the states of its aggregates over all of them. All rows before them have
        come. Others of the same time are among the many; where matches come early, all of these are given.
        """
        time = int(self._shape.times(rows)[0])
        found = list(self.advance(time))
        prior = [each.going.prior() for each in self._derived]
        self.push(0, rows)
        found += self.advance(time + 1)
        for each, before, own in zip(self._derived, prior, totals, strict=True):
            if each.going.is_on[0]:
                for fold, kept, one, more in zip(each.folds, each.going.states, before, own, strict=True):
                    kept[:1] = fold.plus(one, more)
        return found

    @property
    def folds(self) -> tuple[tuple[Fold, ...], ...]:
        """The aggregates over the rows of each definition's situations."""
        return tuple(tuple(each.folds) for each in self._derived)

    @property
    def explain(self) -> list[str]:
        """What is to be known of how it works, as things stand: lines of text."""
        return [
            f"{fold} of {each.definition.name} is computed by DuckDB of all its rows, which are kept for that"
            for each in self._derived
            for fold in each.folds
            if isinstance(fold, DatabaseCall)
        ]

    def rows_before(self, watermark: int) -> Coded | None:
        """The rows that waited and are before the watermark, in the order of time; None if there are none."""
        fresh = self._waiting.take(watermark)
        if fresh is None:
            return None
        useful = self._useful(fresh)
        dropped = fresh.num_rows - useful.num_rows
        self.skipped += dropped
        # Those that are dropped come first, so that the numbers of all that count are what they were.
        truths = self._begun(useful)
        codes = self._keys.encode(useful) if self._keys.columns else None
        rows = Coded(useful, self._shape.times(useful), codes, self._rows + dropped, truths)
        self._rows += fresh.num_rows
        self._grow(len(self._keys))
        return rows

    def _begun(self, rows: pa.RecordBatch) -> tuple[Task[Mask], ...]:
        """What threads may begin with while keys are numbered."""
        return ()

    def _useful(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """All rows from the limit on, and before it the last one of each key, which tells what goes on there."""
        old = count_before(self._shape.times(rows), self._limit)
        if old < 2:
            return rows
        last = np.flatnonzero(latest(self._keys.encode(rows.slice(0, old)), 1))
        if len(last) == old:
            return rows
        return rows.take(integer_column(np.concatenate([last, np.arange(old, rows.num_rows)])))

    def skip(self, horizon: int) -> tuple[int, ...]:
        """What is known before it does not come out; all rows may be of use."""
        self._horizon = max(self._horizon, horizon)
        return super().skip(horizon)

    @property
    def has_many_keys(self) -> bool:
        """Whether it is time to forget some keys."""
        return bool(self._keys.columns) and self._keys.are_many

    def forget(self, rows: Coded) -> None:
        """Forget keys of which nothing is known that counts behind some rows."""
        self._choose(self._needed(rows))

    @abstractmethod
    def _found(self, rows: Coded) -> pa.RecordBatch:
        """What comes out by some rows."""

    def _grow(self, keys: int) -> None:
        for each in self._derived:
            each.going.grow(keys)

    def _needed(self, rows: Coded) -> Ints:
        """The keys of which something is known."""
        found = [np.flatnonzero(each.going.is_on) for each in self._derived]
        return distinct(np.concatenate(found))

    def _choose(self, keys: Ints) -> None:
        self._keys.keep(keys)
        for each in self._derived:
            each.going.choose(keys)

    @property
    def goes_on(self) -> bool:
        """Whether some situation is not over, as far as rows have been put in order."""
        return any(bool(each.going.is_on.any()) for each in self._derived)

    def _conditions(self, query: Situations | Derivation) -> Conditions:
        columns = [name for each in self._derived for fold in each.folds for name in fold.columns]
        return Conditions(self._shape, query.definitions, [*columns, *self._keys.columns])

    def _thinned(self, batch: pa.RecordBatch, query: Situations | Derivation) -> pa.RecordBatch:
        if self._keys.columns or not batch.num_rows:
            return batch
        return thinned(batch, [each.truth(batch) for each in self._derived], counting(query))

    def next_deadline(self) -> int | None:
        """When the first row that waits is in order."""
        first = self._waiting.first
        return None if first is None else first + 1

    def snapshot(self) -> State:
        """The rows that wait, situations that go on, and whatever else is known."""
        if not self._content:
            self._content = self._chunks()
        own = State(self._core(), {f"{self._version}/{name}": content for name, content in self._content.items()})
        parts = {"waiting": self._waiting.snapshot(), "known": self._keys.snapshot(), "own": own}
        return together(parts, {"rows": self._rows, "version": self._version})

    def restore(self, state: State) -> None:
        """Go on with the same."""
        self._rows, self._version = state.core["rows"], state.core["version"]
        self._waiting.restore(state.part("waiting"))
        self._keys.restore(state.part("known"))
        own, prefix = state.part("own"), f"{self._version}/"
        self._content = {name.removeprefix(prefix): content for name, content in own.chunks.items()}
        self._restore(State(own.core, self._content))

    def _core(self) -> Core:
        """What of the state is small."""
        return {}

    def _chunks(self) -> dict[str, pa.Buffer]:
        return {
            f"going {number}/{name}": content
            for number, each in enumerate(self._derived)
            for name, content in each.going.snapshot().items()
        }

    def _restore(self, state: State) -> None:
        for number, each in enumerate(self._derived):
            each.going.restore(state, f"going {number}/")


class SituationsOperator(_Situated):
    """The matches of a pattern of situations, keyed by what it is partitioned by.

    A match comes out with the row by which it becomes known; its time is that of the row. What situations that go on
    when there are no rows any more would have been, nobody knows: they are in no match that needs their end.
    """

    def __init__(self, shape: Shape, query: Situations) -> None:
        """Raises :class:`SituationError` for a query that breaks a rule, or that rows of this shape cannot answer."""
        relations = relations_of(query)
        check_returned(query)
        keys = keys_of(shape, query.partition)
        derived = derived_of(shape, query.definitions, [list(own.values()) for own in folds_of(query, shape)])
        self._output = Output(query, shape, keys, derived)
        needs = Needs(keys=(keys.columns,), behind=None) if keys.columns else Needs(True, None, query.within, 0, True)
        super().__init__(shape, self._output.shape, keys, derived, needs)
        counted = any(SEQUENCE_COLUMN in fold.columns for each in derived for fold in each.folds)
        self._can_tell = shape.has_numbers or not counted
        """Whether rows have the same numbers where others before them are not read."""
        if self._can_tell:
            self.looks_back = (LookBack(1, keys.columns),)
        self._query = query
        self.matcher = Matcher(query, relations, derived)

    def use_threads(self, most: int) -> None:
        """For parts of large batches: of the keys, or of the time if there are none."""
        self.matcher.threads = most

    def _found(self, rows: Coded) -> pa.RecordBatch:
        return in_order(self.matcher.found(rows, self._rendered))

    def _begun(self, rows: pa.RecordBatch) -> tuple[Task[Mask], ...]:
        return self.matcher.begun(rows) if self._keys.columns else ()

    def _rendered(self, found: Searched) -> Rendered:
        return self._output.rendered(found.known_from(self._horizon))

    def rendered(self, found: Searched) -> pa.RecordBatch:
        """The rows that come out for what a search has found; several threads may ask at once."""
        return in_order([self._rendered(found)])

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Situations that start before the horizon less the window are in no match that is wanted.

        Those that start later have all their rows from there on, and the row before them, by which they start there.
        """
        self._horizon = max(self._horizon, horizon)
        self._limit = max(self._limit, horizon - self._query.within)
        return (self._limit if self._can_tell else INT64_MIN,)

    def split(self) -> tuple[Operator, Operator]:
        """Conditions first."""
        first = self._conditions(self._query)
        return first, SituationsOperator(first.output, first.rest(self._query))

    def thinned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows at which a condition changes, and those that count."""
        return self._thinned(batch, self._query)

    def _grow(self, keys: int) -> None:
        super()._grow(keys)
        self.matcher.buffers.grow(keys)

    def _needed(self, rows: Coded) -> Ints:
        limit = max(rows.last_time - self._query.within, INT64_MIN)
        return distinct(np.concatenate([super()._needed(rows), self.matcher.buffers.needed_keys(limit)]))

    def _choose(self, keys: Ints) -> None:
        super()._choose(keys)
        self.matcher.buffers.choose(keys)

    @property
    def explain(self) -> list[str]:
        """Also in which order situations are joined, and why."""
        return [*explained(self._query, self.matcher), *super().explain]

    def _core(self) -> Core:
        return {"ordering": self.matcher.ordering.snapshot()}

    def _chunks(self) -> dict[str, pa.Buffer]:
        buffers = self.matcher.buffers.snapshot()
        return {**super()._chunks(), **{f"buffers/{name}": content for name, content in buffers.items()}}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self.matcher.buffers.restore(state, "buffers/")
        self.matcher.ordering.restore(state.core["ordering"])


class DeriveOperator(_Situated):
    """Situations alone, each a row: keys, its definition, when it started and ended, and aggregates over its rows."""

    def __init__(self, shape: Shape, query: Derivation) -> None:
        """Raises :class:`SituationError` for a query that breaks a rule, or that rows of this shape cannot answer."""
        check_definitions(query.definitions)
        keys = keys_of(shape, query.partition)
        schema = with_numbers(shape)
        self._folds = [fold_of(call, schema, shape.time, number) for number, (_, call) in enumerate(query.returned)]
        derived = derived_of(shape, query.definitions, [self._folds] * len(query.definitions))
        fields = [*keys.schema, pa.field(SITUATION, pa.string(), nullable=False)]
        fields += [pa.field(name, shape.time_type, nullable=False) for name in (START_TIME, END_TIME)]
        fields += [pa.field(name, fold.type) for (name, _), fold in zip(query.returned, self._folds, strict=True)]
        names = [each.name.lower() for each in fields]
        for number, each in enumerate(fields):
            if names.count(each.name.lower()) > 1:
                raise SituationError(
                    f"found two columns {each.name} that come out; give one another name",
                    "returned",
                    max(number - len(keys.columns) - 3, 0),
                )
        needs = Needs(keys=(keys.columns,) if keys.columns else None, behind=None)
        super().__init__(shape, Shape(pa.schema(fields), END_TIME), keys, derived, needs)
        self._query = query
        self._names = pa.array([each.name for each in query.definitions], pa.string())

    def split(self) -> tuple[Operator, Operator]:
        """Conditions first."""
        first = self._conditions(self._query)
        return first, DeriveOperator(first.output, first.rest(self._query))

    def thinned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows at which a condition changes, and those that count."""
        return self._thinned(batch, self._query)

    def _found(self, coded: Coded) -> pa.RecordBatch:
        rows = coded.whole()
        found = [each.runs(rows) for each in self._derived]
        ended = [np.flatnonzero(each.is_valid & (each.stops >= self._horizon)) for each in found]
        kinds = np.repeat(np.arange(len(found)), list(map(len, ended)))
        if not len(kinds):
            return self.output.empty()
        partitions, places, starts, stops = (
            np.concatenate([getattr(runs, name)[own] for runs, own in zip(found, ended, strict=True)])
            for name in ("partitions", "ends", "starts", "stops")
        )
        columns = self._keys.values(rows.keys[partitions])
        columns.append(self._names.take(integer_column(kinds)))
        columns += [integer_column(each).view(self._shape.time_type) for each in (starts, stops)]
        for number, fold in enumerate(self._folds):
            states = np.concatenate([runs.states[number][own] for runs, own in zip(found, ended, strict=True)])
            columns.append(fold.lower_column(states))
        batch = batch_of(columns, self.output.schema, len(kinds))
        return batch.take(integer_column(np.lexsort((kinds, rows.numbers(places), stops))))


def keys_of(shape: Shape, partition: Sequence[str]) -> Keys:
    """The keys of a query."""
    try:
        return Keys(shape, partition)
    except SchemaError as error:
        raise SituationError(str(error), "partition") from None


def derived_of(shape: Shape, definitions: Sequence[Definition], folds: Sequence[Sequence[Fold]]) -> list[Derived]:
    """What derives the situations of each definition."""
    found = []
    for number, (definition, own) in enumerate(zip(definitions, folds, strict=True)):
        try:
            found.append(Derived(shape, definition, own))
        except ExpressionError as error:
            message = str(error).partition("\n")[0]
            raise SituationError(message, "definitions", number) from None
    return found
