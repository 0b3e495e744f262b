"""What every kind of part has to answer, checked against a plain list of the rows that it should have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, entry_dtype
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import RowChoice
from tidelog.model.arrays import integers
from tidelog.model.errors import GrainError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.storage.format.value_range import ValueRange
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.stretches import NO_LEAF, WHOLE
from tidelog.store.rows.stored import Ints

Row = Mapping[str, Any]
Range = tuple[int | None, int | None]


@final
class PartConformance:
    """Checks of a part; each raises :class:`AssertionError` if the part does not keep its contract.

    Times are integers, so that rows can be written down without a clock.
    """

    def __init__(
        self, part: Part, rows: Sequence[Row], bounds: Iterable[int | None], *, is_masked: bool = False
    ) -> None:
        """``rows`` has all stored columns of the rows that the part should have, in order.

        Time ranges between all pairs of ``bounds`` are asked for. Of a part that ``is_masked`` some rows are deleted,
        and what is said of all of it may still count these.
        """
        self._part = part
        self._rows = rows
        self._is_masked = is_masked
        self._time = part.layout.schema.time
        self._names = list(part.layout.stored.names)
        ends = [None, *bounds]
        self._ranges: list[Range] = list(product(ends, ends))

    def check(self) -> None:
        """All that a part of its kind has to keep."""
        self.check_description()
        self.check_aggregates()
        self.check_states()
        if self._part.has_rows:
            self.check_scans()
            self.check_tests()
            self.check_selections()
            self.check_places()
            self.check_subtrees()
            self.check_stretches()
            self.check_numbers()
        else:
            self.check_refusals()

    # -- what is said of the whole ----------------------------------------------------------------------------------

    def check_description(self) -> None:
        """Bounds, and how many rows there are: exact, unless some are deleted."""
        part, numbers = self._part, [row[SEQUENCE_COLUMN] for row in self._rows]
        first, last, rows, low, high = part.first, part.last, part.rows, *part.numbers
        at = [row[self._time] for row in self._rows]
        if self._is_masked:
            assert rows >= len(self._rows)
            assert all(first <= time <= last for time in at)
            assert all(low <= number <= high for number in numbers)
        else:
            assert (first, last, rows) == (at[0], at[-1], len(at))
            assert (low, high) == (min(numbers), max(numbers))
        if part.has_rows:
            assert part.newest(ReadCounters()) == (at[-1] if at else None)
        assert not (part.info and part.in_memory)
        assert not (part.in_memory and part.shape())
        known = part.known_aggregate()
        if known is not None:
            assert not self._is_masked
            self._check_aggregate(known, self._rows, range(len(self._names) - bool(part.base)))

    # -- rows -------------------------------------------------------------------------------------------------------

    def check_scans(self) -> None:
        """The rows of time ranges, with all columns, some, or another order of them."""
        for start, end in self._ranges:
            for names in (self._names, self._names[::-2], [self._time]):
                assert self._scanned(start, end, names) == self._expected(start, end, names)

    def check_tests(self) -> None:
        """A test of entries leaves out nothing that it accepts."""
        for start, end in self._ranges:
            for low, high in self._wanted_numbers():
                found = self._scanned(start, end, self._names, partial(self._reaches, low=low, high=high))
                every = self._expected(start, end, self._names)
                kept = [row for row in every if low <= row[SEQUENCE_COLUMN] <= high]
                assert [row for row in found if row in kept] == kept
                assert [row for row in every if row in found] == found

    def check_selections(self) -> None:
        """The rows that are wanted, by their numbers and by their times, and how many there are."""
        for start, end in self._ranges:
            for low, high in self._wanted_numbers():
                found = self._part.select(start, end, self._names, self._choice(low, high), ReadCounters())
                every = self._expected(start, end, self._names)
                assert _rows_of(found) == [row for row in every if low <= row[SEQUENCE_COLUMN] <= high]
        for (start, end), (low, high) in product(self._ranges, self._wanted_times()):
            choice = self._choice_of_times(low, high)
            names = [SEQUENCE_COLUMN]
            wanted = [row for row in self._between(start, end) if low <= row[self._time] <= high]
            found = self._part.select(start, end, names, choice, ReadCounters())
            assert _rows_of(found) == [{name: row[name] for name in names} for row in wanted]
            holds_all = partial(self._inside, low=low, high=high)
            assert self._part.count(start, end, choice, holds_all, ReadCounters()) == len(wanted)

    # -- places -----------------------------------------------------------------------------------------------------

    def check_places(self) -> None:
        """Ranks of times, and times around rows."""
        for time in {bound for each in self._ranges for bound in each if bound is not None}:
            assert self._part.rank(time, ReadCounters()) == len(self._between(None, time))
        for index, row in enumerate(self._rows):
            low, high = self._part.times_near(index, ReadCounters())
            assert low <= row[self._time] <= high

    def check_subtrees(self) -> None:
        """Subtrees are in order, and have all rows that are wanted."""
        for (start, end), most, (low, high) in product(self._ranges, (1, 7, 1 << 30), self._wanted_numbers()):
            found = self._part.subtrees(most, start, end, self._choice(low, high), ReadCounters())
            assert [each[:2] for each in found] == sorted(each[:2] for each in found)
            wanted = [row for row in self._between(start, end) if low <= row[SEQUENCE_COLUMN] <= high]
            for row in wanted:
                assert any(first <= row[self._time] <= last for first, last, _ in found)
            assert sum(rows for _, _, rows in found) >= len(wanted)

    def check_stretches(self) -> None:
        """Stretches are in order, have every row once, and those that are leaves are what their entries say."""
        part = self._part
        for start, end in self._ranges:
            found = part.stretches(start, end, ReadCounters())
            rows = self._between(start, end)
            assert int(found.rows.sum()) == len(rows)
            assert (found.rows > 0).all()
            cuts = np.append(0, np.cumsum(found.rows)).tolist()
            for place in range(len(found)):
                own = rows[cuts[place] : cuts[place + 1]]
                assert found.firsts[place] <= own[0][self._time]
                assert own[-1][self._time] <= found.lasts[place]
                if found.leaves[place] == NO_LEAF:
                    continue
                read = _rows_of(part.leaf_rows(found.leaves[place : place + 1], self._names, ReadCounters()))
                skipped = int(found.skipped[place])
                if skipped != WHOLE:
                    assert read[skipped : skipped + len(own)] == own
                    continue
                assert read == own
                width = entry_dtype(len(part.layout.kinds)).itemsize // 8
                words = np.ascontiguousarray(found.words[place : place + 1, :width])
                entry = words.view(entry_dtype(len(part.layout.kinds)))[:, 0]
                every = range(len(self._names) - bool(part.base))
                self._check_aggregate(Aggregate(part.layout, entry=entry), own, every)

    def check_numbers(self) -> None:
        """Nodes tell the bounds of all below them, and leaves have every row once."""
        found = sorted(self._below(None))
        assert found == sorted((row[self._time], row[SEQUENCE_COLUMN]) for row in self._rows)

    def _below(self, node: int | None) -> list[tuple[int, int]]:
        children = self._part.numbered(node, ReadCounters())
        found: list[tuple[int, int]] = []
        for place, (id, level) in enumerate(zip(children.ids, children.levels, strict=True)):
            if level:
                own = self._below(id)
            else:
                at, numbers = self._part.numbers_of_leaf(id, ReadCounters())
                own = list(zip(at.tolist(), numbers.tolist(), strict=True))
            assert len(own) == children.rows[place]
            assert (min(own)[0], max(own)[0]) == (children.firsts[place], children.lasts[place])
            numbers_below = [number for _, number in own]
            assert (min(numbers_below), max(numbers_below)) == (children.lows[place], children.highs[place])
            found += own
        return found

    # -- aggregates -------------------------------------------------------------------------------------------------

    def check_aggregates(self) -> None:
        """Aggregates of time ranges, one by one and together: exact, or refused by a part without rows."""
        part = self._part
        every = np.arange(len(self._names) - bool(part.base), dtype=np.int64)
        for columns in (every, every[:0], every[1:2]):
            answered: list[tuple[int, int]] = []
            for start, end in self._ranges:
                try:
                    found = part.aggregate(start, end, columns, ReadCounters())
                except GrainError:
                    assert not part.has_rows
                    assert self._is_masked or (start, end) != (None, None)
                    continue
                self._check_aggregate(found, self._between(start, end), columns.tolist())
                if start is not None and end is not None:
                    answered.append((start, end))
            starts, ends = np.array(answered, np.int64).reshape(-1, 2).T
            entries = part.aggregates(starts, ends, columns, ReadCounters())
            assert len(entries) == len(answered)
            for place, (start, end) in enumerate(answered):
                one = Aggregate(part.layout, columns, entries[place : place + 1])
                self._check_aggregate(one, self._between(start, end), columns.tolist())

    def _check_aggregate(self, found: Aggregate, rows: Sequence[Row], columns: Iterable[int]) -> None:
        assert found.rows == len(rows)
        for column in columns if rows else ():
            name, known = self._names[column], found.at(column)
            values = [row[name] for row in rows if row[name] is not None]
            assert known.nulls == len(rows) - len(values)
            if values and known.knows_bounds:
                assert (known.minimum(), known.maximum()) == (min(values), max(values))
            if values and known.knows_sum and isinstance(values[0], int | float):
                assert np.isclose(float(known.total()), float(sum(values)), rtol=1e-9)

    def check_states(self) -> None:
        """States of user-defined aggregates: those that are kept, as if they were computed from the rows."""
        part, wanted = self._part, self._part.layout.states
        if not wanted.kept:
            return
        stored = pa.schema([part.layout.stored.field(name) for name in wanted.columns])
        for start, end in self._ranges:
            rows = [{name: row[name] for name in wanted.columns} for row in self._between(start, end)]
            expected = self._results(wanted.of_rows(_batch(rows, stored), np.array([0, len(rows)], np.int64)))
            try:
                assert self._results(part.states(start, end, wanted, ReadCounters())) == expected
            except GrainError:
                assert not part.has_rows
            if part.has_rows:
                assert self._results(part.states_of_rows(start, end, wanted, ReadCounters())) == expected
            known = part.known_states(wanted)
            if (start, end) == (None, None) and known is not None:
                assert self._results(known) == expected

    def _results(self, table: npt.NDArray[np.uint64]) -> list[Any]:
        states = self._part.layout.states
        assert table.shape == (1, states.words)
        return [states.result(binding, table[0]) for binding in states.bindings]

    # -- parts without rows -----------------------------------------------------------------------------------------

    def check_refusals(self) -> None:
        """Whatever needs rows is refused."""
        part, counters, choice = self._part, ReadCounters(), self._choice(0, 1 << 40)
        asked: list[Callable[[], object]] = [
            part.require_rows,
            lambda: list(part.scan(None, None, self._names, None, counters)),
            lambda: list(part.select(None, None, self._names, choice, counters)),
            lambda: part.count(None, None, self._choice_of_times(0, 1 << 40), self._always, counters),
            lambda: part.times_near(0, counters),
            lambda: part.subtrees(1, None, None, choice, counters),
            lambda: part.numbered(None, counters),
        ]
        for ask in asked:
            try:
                ask()
            except GrainError:
                continue
            raise AssertionError("a part without rows has answered what takes rows")

    # -- the model --------------------------------------------------------------------------------------------------

    def _between(self, start: int | None, end: int | None) -> list[Row]:
        above = [row for row in self._rows if start is None or row[self._time] >= start]
        return [row for row in above if end is None or row[self._time] < end]

    def _expected(self, start: int | None, end: int | None, names: Sequence[str]) -> list[Row]:
        return [{name: row[name] for name in names} for row in self._between(start, end)]

    def _scanned(self, start: int | None, end: int | None, names: Sequence[str], test: Any = None) -> list[Row]:
        return _rows_of(self._part.scan(start, end, names, test, ReadCounters()))

    def _wanted_numbers(self) -> list[tuple[int, int]]:
        numbers = sorted(row[SEQUENCE_COLUMN] for row in self._rows) or [0]
        return [(numbers[0], numbers[len(numbers) // 5]), (numbers[len(numbers) // 2], numbers[-1] + 9)]

    def _wanted_times(self) -> list[tuple[int, int]]:
        at = [row[self._time] for row in self._rows] or [0]
        return [(at[0], at[len(at) // 4]), (at[len(at) // 3], at[-1])]

    def _choice(self, low: int, high: int) -> RowChoice:
        def keeps(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
            numbers = integers(batch.column(SEQUENCE_COLUMN))
            return (numbers >= low) & (numbers <= high)

        return RowChoice([SEQUENCE_COLUMN], keeps, lambda entries: self._reaches(entries, low, high))

    def _choice_of_times(self, low: int, high: int) -> RowChoice:
        def keeps(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
            at = integers(batch.column(self._time))
            return (at >= low) & (at <= high)

        def may_hold(entries: Entries) -> npt.NDArray[np.bool_]:
            lows, highs = self._bounds(entries, self._part.layout.time)
            return (lows <= high) & (highs >= low)

        return RowChoice([self._time], keeps, may_hold, ValueRange(self._time, low, high))

    def _reaches(self, entries: Entries, low: int, high: int) -> npt.NDArray[np.bool_]:
        lows, highs = self._bounds(entries, self._part.layout.sequence)
        return (lows + self._part.base <= high) & (highs + self._part.base >= low)

    def _inside(self, entries: Entries, low: int, high: int) -> npt.NDArray[np.bool_]:
        lows, highs = self._bounds(entries, self._part.layout.time)
        return (lows >= low) & (highs <= high)

    @staticmethod
    def _always(entries: Entries) -> npt.NDArray[np.bool_]:
        return np.ones(len(entries), np.bool_)

    @staticmethod
    def _bounds(entries: Entries, column: int) -> tuple[Ints, Ints]:
        bounds = entries["columns"][:, column]
        return bounds["min"].astype(np.int64), bounds["max"].astype(np.int64)


def _rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def _batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)
