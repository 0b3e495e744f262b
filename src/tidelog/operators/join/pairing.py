"""From arriving rows to the rows of a join: candidates, those of them that a condition holds for, and their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.expr import Predicate, all_of
from tidelog.model.arrays import integer_column
from tidelog.operators.backlog import Backlog
from tidelog.operators.base import Batches, Ints, Shape
from tidelog.operators.join.banded import Banded
from tidelog.operators.join.conditions.bands import band_of
from tidelog.operators.join.conditions.matching import Matcher
from tidelog.operators.join.conditions.program import Sides, programs
from tidelog.operators.join.keyed import Keyed
from tidelog.operators.join.pairs import BOTH, LEFT, RIGHT, TILE, Arriving, Finder, Job, Nested, Path

_SHARES: Final = 4
"""Jobs for each thread, so that all of them end at about the same time."""
_MOST_TOGETHER: Final = 8
"""Jobs of a finder whose pairs become columns together."""


class Pairing:
    """Finds the pairs of two logs, of whose rows it is told."""

    def __init__(
        self,
        output: pa.Schema,
        logs: tuple[Backlog, Backlog],
        columns: Sequence[list[str]],
        by: Mapping[str, str],
        condition: Predicate | None,
        left: Shape,
    ) -> None:
        """``columns`` are those of either log, as they come out one behind the other, before that of the later time."""
        self._output, self._logs, self._columns = output, logs, columns
        middle = len(columns[LEFT])
        self._names = (output.names[:middle], output.names[middle:-1])
        self._condition = self._rest = condition
        self._matchers: list[Matcher] = []
        band = None
        if condition is not None:
            sides = Sides(middle, len(columns[RIGHT]))
            conjuncts = [each.expression.node for each in condition.conjuncts]
            found, rest = programs(conjuncts, sides)
            self._matchers = [Matcher(program) for program in found]
            others = [each for each in condition.conjuncts if each.expression.node in rest]
            self._rest = all_of(others) if others else None
            band = band_of(conjuncts, sides)
        nested = Nested(self._matchers[0] if self._matchers else None)
        self._finder: Finder = nested if band is None else Banded(band, nested)
        if by:
            renamed = dict(zip(columns[RIGHT], self._names[RIGHT], strict=True))
            self._finder = Keyed(left, {one: renamed[other] for one, other in by.items()})
        self.path = Path.KEYS if by else Path.ROWS if band is None else Path.VALUES
        """Where partners are looked for."""

    def append(self, port: int, batch: pa.RecordBatch) -> None:
        """Rows have been put behind those of a log."""
        named = batch.select(self._columns[port]).rename_columns(self._names[port])
        for matcher in self._matchers:
            matcher.append(port, named)
        self._finder.append(port, named)

    def drop(self, port: int, count: int) -> None:
        """Rows are gone from the front of a log."""
        for matcher in self._matchers:
            matcher.drop(port, count)
        self._finder.drop(port, count)

    def restore(self, done: Sequence[int]) -> None:
        """Know all rows of the logs, of which so many have arrived."""
        for port in BOTH:
            self.append(port, self._logs[port].rows)
            none = np.zeros(done[port], np.int64)
            for _ in self._finder.jobs(Arriving(np.full(done[port], port), np.arange(done[port]), none, none)):
                raise AssertionError("rows without a window have no partners")

    def jobs(self, arriving: Arriving, threads: int) -> Iterator[Callable[[], Batches]]:
        """Jobs for some threads that give the pairs of arriving rows, in the order in which they come out."""
        if not self._finder.finds_few:
            for job in self._finder.jobs(arriving):
                yield partial(self._wanted, arriving, [job])
            return
        jobs = list(self._finder.jobs(arriving))
        size = max(min(len(jobs) // (_SHARES * threads), _MOST_TOGETHER), 1)
        for first in range(0, len(jobs), size):
            yield partial(self._wanted, arriving, jobs[first : first + size])

    def _wanted(self, arriving: Arriving, jobs: Sequence[Job]) -> Batches:
        """The pairs that jobs find and the condition holds for; the columns of a few are made together."""
        found, kept, count = [], [], 0
        for job in jobs:
            numbers, places, is_first_true = job()
            is_left = arriving.ports[numbers] == LEFT
            own = arriving.rows[numbers]
            left, right = np.where(is_left, own, places), np.where(is_left, places, own)
            matchers = self._matchers[1 if is_first_true else 0 :]
            for first in range(0, len(numbers), TILE):
                at = slice(first, first + TILE)
                kept.append(self._kept(left[at], right[at], is_left[at], matchers))
                count += len(kept[-1][0])
                if count >= TILE // 2:
                    found.append(self._joined(kept))
                    kept, count = [], 0
        if count:
            found.append(self._joined(kept))
        return found

    def _joined(self, kept: Sequence[tuple[Ints, Ints, Ints]]) -> pa.RecordBatch:
        left, right, is_left = (np.concatenate(each) for each in zip(*kept, strict=True))
        return self._batch(left, right, is_left)

    def _kept(self, left: Ints, right: Ints, is_left: Ints, matchers: list[Matcher]) -> tuple[Ints, Ints, Ints]:
        rest = self._rest
        for matcher in matchers:
            mask = matcher.check(left, right)
            if mask is None:  # arithmetic of columns tells what is wrong, or that nothing is
                rest = self._condition
                break
            left, right, is_left = left[mask], right[mask], is_left[mask]
        if rest is not None and len(left):
            mask = rest.mask(self._batch(left, right, is_left, set(rest.columns)))
            left, right, is_left = left[mask], right[mask], is_left[mask]
        return left, right, is_left

    def _batch(self, left: Ints, right: Ints, is_left: Ints, wanted: set[str] | None = None) -> pa.RecordBatch:
        """The columns of pairs; only some of them if these are told."""
        fields: list[pa.Field] = []
        arrays: list[pa.Array] = []
        for port, places in ((LEFT, left), (RIGHT, right)):
            named = zip(self._columns[port], self._names[port], strict=True)
            chosen = [(column, name) for column, name in named if wanted is None or name in wanted]
            fields += [self._output.field(name) for _, name in chosen]
            arrays += self._logs[port].take(places, [column for column, _ in chosen])
        field = self._output.field(len(self._output) - 1)
        if wanted is None or field.name in wanted:
            times = np.where(is_left, self._logs[LEFT].times[left], self._logs[RIGHT].times[right])
            column = integer_column(times)
            fields.append(field)
            arrays.append(column if field.type == pa.int64() else column.view(field.type))
        if not fields:  # a condition without columns
            return pa.RecordBatch.from_arrays([pa.nulls(len(left))], ["_"])
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
