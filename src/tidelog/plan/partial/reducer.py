"""Rows of a stream reduced to one for each group, from which the aggregates of all rows can be put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import Expression, Predicate
from tidelog.expr.values.vectors import Mask, has_numbers, numbers, valid_rows
from tidelog.model.arrays import integers
from tidelog.plan.partial import kernels
from tidelog.plan.partial.groups import (
    Buckets,
    Grouped,
    Ints,
    TooMany,
    each_its_own,
    grouped,
    of_times,
    of_values,
    single,
    words_of,
)

SLICE_ROWS: Final = 1 << 18
"""Rows that are reduced at a time: what is made in between stays in the cache."""

_ALL: Final[Mask] = np.empty(0, np.bool_)
_SIGN: Final = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class State:
    """What is kept of the rows of a group."""

    function: str
    """``count``, ``sum``, ``avg`` (a sum and a count), ``min``, ``max``, or ``first`` and ``last`` of the rows."""
    value: str | Expression | None
    """Of which column, or of what is computed; None for rows."""
    where: Predicate | None = None
    """Which rows count."""
    skips_nulls: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it takes."""
        value = self.value
        own = () if value is None else (value,) if isinstance(value, str) else value.columns
        return own if self.where is None else (*own, *self.where.columns)

    def type(self, schema: pa.Schema) -> pa.DataType | None:
        """The type of its values; None of rows."""
        value = self.value
        return None if value is None else schema.field(value).type if isinstance(value, str) else value.type

    def fields(self, name: str, schema: pa.Schema) -> list[pa.Field]:
        """The columns with it, beginning with one of some name."""
        kind = self.type(schema)
        if self.function == "count":
            return [pa.field(name, pa.int64())]
        if self.function in ("sum", "avg"):
            rows = [pa.field(f"{name} rows", pa.int64())] if self.function == "avg" else []
            if pa.types.is_floating(kind):
                return [pa.field(name, pa.float64()), *rows]
            return [pa.field(name, pa.int64()), pa.field(f"{name} high", pa.int64()), *rows]
        if self.function in ("first", "last"):
            return [pa.field(name, kind), pa.field(f"{name} place", pa.int64())]
        return [pa.field(name, kind)]


def can_keep(function: str, kind: pa.DataType | None) -> bool:
    """Whether there is such a state of values of a type."""
    if function in ("count", "first", "last"):
        return True
    assert kind is not None
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return has_numbers(kind)
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    return function in ("min", "max") and is_time


class Reducer:
    """Reduces rows to one for each group: its keys, then what is kept of it."""

    def __init__(
        self, time: str, keys: Sequence[str | Buckets], states: Mapping[int, State], stored: pa.Schema
    ) -> None:
        """``time`` is the column of times, by which rows are in order; names of columns are those of ``stored``.

        States go by numbers, which tell their names.
        """
        self._time = time
        self._keys = keys
        self._states = states
        self._stored = stored
        self.key_columns = frozenset(key for key in keys if isinstance(key, str))
        """The keys that are columns."""
        fields: list[pa.Field] = []
        for at, key in enumerate(keys):
            fields.append(stored.field(key) if isinstance(key, str) else pa.field(bucket_name(at), key.names.type))
        for at, state in states.items():
            fields += state.fields(state_name(at), stored)
        self.schema = pa.schema(fields)
        """The columns of what rows are reduced to."""
        needed = [key if isinstance(key, str) else time for key in keys]
        needed += [name for state in states.values() for name in state.columns]
        self.columns = tuple(dict.fromkeys(needed or [time]))
        """The columns that it takes."""
        self._is_unique = False
        """Whether there was nothing to gain in rows before."""

    @property
    def is_unique(self) -> bool:
        """Whether there was nothing to gain in rows: some groups may have come as several from then on."""
        return self._is_unique

    def narrowed(self, columns: Collection[str]) -> Reducer:
        """One for all keys and those states of which a column is wanted."""
        states = {
            at: state
            for at, state in self._states.items()
            if any(each.name in columns for each in state.fields(state_name(at), self._stored))
        }
        return Reducer(self._time, self._keys, states, self._stored)

    def reduce(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Reduce a batch that has rows, the one with some number of all, in which strings may be dictionaries."""
        codes = [None if self._is_unique and isinstance(key, str) else self._codes(batch, key) for key in self._keys]
        found = self._grouped(batch.num_rows, codes)
        firsts = np.full(found.size, -1, np.int64)
        kernels.first_rows(found.groups, firsts)
        kept = np.flatnonzero(firsts >= 0)
        firsts = firsts[kept]
        if len(kept) * 2 > batch.num_rows >= SLICE_ROWS // 2:
            self._is_unique = True
        columns = []
        for key, code in zip(self._keys, codes, strict=True):
            if isinstance(key, str):
                columns.append(batch.column(key).take(pa.array(firsts)))
            else:
                assert code is not None
                columns.append(key.names.take(pa.array(code.groups[firsts])))
        work = _Work(batch, found, kept, number)
        for state in self._states.values():
            columns += work.values_of(state)
        fields = [field.with_type(column.type) for field, column in zip(self.schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _codes(self, batch: pa.RecordBatch, key: str | Buckets) -> Grouped | None:
        """The groups of one key; None if there are nearly as many as rows."""
        if not isinstance(key, str):
            return of_times(integers(batch.column(self._time)), key)
        try:
            return of_values(batch.column(key))
        except TooMany:
            return None

    def _grouped(self, rows: int, codes: Sequence[Grouped | None]) -> Grouped:
        known = [each for each in codes if each is not None]
        if len(known) == len(codes):
            try:
                return grouped(known) if known else single(rows)
            except TooMany:
                pass
        self._is_unique = True
        return each_its_own(rows)


class _Work:
    """What is kept of the groups of a batch."""

    def __init__(self, batch: pa.RecordBatch, found: Grouped, kept: Ints, number: int) -> None:
        """``kept`` are the groups that have rows."""
        self._batch = batch
        self._groups, self._size = found
        self._kept = kept
        self._number = number
        self._masks: dict[str, Mask] = {}
        self._rows: Ints | None = None

    def values_of(self, state: State) -> list[pa.Array]:
        """The columns with what is kept."""
        value = state.value
        column = None
        if value is not None:
            column = self._batch.column(value) if isinstance(value, str) else value.evaluate(self._batch)
        counted = self._counted(state, column)
        if state.function == "count":
            return [pa.array(self._counts(counted))]
        assert column is not None
        if state.function in ("first", "last"):
            return self._ends(column, counted, last=state.function == "last")
        if state.function in ("sum", "avg"):
            return self._sums(column, counted, has_rows=state.function == "avg")
        return [self._extremes(column, counted, largest=state.function == "max")]

    def _counts(self, counted: Mask) -> Ints:
        """How many rows of each group count."""
        if not len(counted) and self._rows is not None:
            return self._rows
        counts = self._zeros()
        kernels.count_rows(self._groups, counted, counts)
        counts = counts[self._kept]
        if not len(counted):
            self._rows = counts
        return counts

    def _zeros(self) -> Ints:
        return np.zeros(self._size, np.int64)

    def _counted(self, state: State, column: pa.Array | None) -> Mask:
        """Which rows count; no array at all if all do."""
        found = None
        if state.where is not None:
            text = str(state.where)
            if text not in self._masks:
                self._masks[text] = state.where.mask(self._batch)
            found = self._masks[text]
        if column is not None and state.skips_nulls and (valid := valid_rows(column)) is not None:
            found = valid if found is None else found & valid
        return _ALL if found is None else np.ascontiguousarray(found)

    def _ends(self, column: pa.Array, counted: Mask, *, last: bool) -> list[pa.Array]:
        rows = np.full(self._size, -1, np.int64)
        kernels.end_rows(self._groups, counted, int(last), rows)
        rows = rows[self._kept]
        none = rows < 0
        places = pa.array(np.full(len(rows), self._number, np.int64), mask=none)
        return [column.take(pa.array(rows, mask=none)), places]

    def _sums(self, column: pa.Array, counted: Mask, *, has_rows: bool) -> list[pa.Array]:
        if pa.types.is_floating(column.type):
            sums = np.zeros(self._size, np.float64)
            values = np.ascontiguousarray(numbers(column), np.float64)
            kernels.sum_floats(self._groups, counted, values, sums)
            found: list[npt.NDArray[Any]] = [sums]
        else:
            highs, lows = self._zeros(), self._zeros()
            is_wide = pa.types.is_uint64(column.type)
            values = np.ascontiguousarray(numbers(column))
            words = values.view(np.int64) if is_wide else values.astype(np.int64, copy=False)
            kernels.sum_integers(self._groups, counted, words, 0xFFFFFFFF if is_wide else -1, highs, lows)
            found = [lows, highs]
        if not len(counted) and not has_rows:  # groups that are kept have rows
            return [pa.array(each[self._kept]) for each in found]
        rows = self._counts(counted)
        none = rows == 0 if len(counted) else None
        arrays = [pa.array(each[self._kept], mask=none) for each in found]
        return [*arrays, pa.array(rows)] if has_rows else arrays

    def _extremes(self, column: pa.Array, counted: Mask, *, largest: bool) -> pa.Array:
        counts, kind = self._zeros(), column.type
        if pa.types.is_floating(kind):
            best = np.zeros(self._size, np.float64)
            values = np.ascontiguousarray(numbers(column), np.float64)
            kernels.float_extremes(self._groups, counted, values, int(largest), best, counts)
            plain = best[self._kept].astype(kind.to_pandas_dtype())
        else:
            found = self._zeros()
            kernels.integer_extremes(self._groups, counted, words_of(column), int(largest), found, counts)
            words = found[self._kept]
            dtype = numbers(column.slice(0, 0)).dtype
            plain = words.view(np.uint64) ^ _SIGN if dtype == np.uint64 else words.astype(dtype)
        array = pa.array(plain, mask=counts[self._kept] == 0)
        return array if array.type == kind else array.view(kind)


def state_name(at: int) -> str:
    """What the column with a state is called."""
    return f"#{at}"


def bucket_name(at: int) -> str:
    """What the column with the bucket that is a key is called."""
    return f"#bucket {at}"
