"""Numbers for the values of keys, so that everything else is done by numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column
from tidelog.model.errors import SchemaError, did_you_mean
from tidelog.operators.base import Ints, Shape
from tidelog.operators.columns.known import Known, known_values
from tidelog.operators.state import State, packed, unpacked

_FEW: Final = 1024
"""Keys that are kept though nobody needs them, rather than numbering others anew."""

_MANY_ROWS: Final = 256
"""From so many on keys are looked up by kernels."""

_PARTS: Final = 32
_MOST_PARTS: Final = 256
"""Chunks of keys from which on two small ones become one, and any two."""

_NAN: Final = object()
"""NaN as part of a key: all of them are one value."""


class Keys:
    """The values of some columns, numbered from 0 on in the order in which they first come.

    As in GROUP BY, nulls are equal, and so are NaN, and zeros of both signs. Without columns everything is number 0.
    """

    def __init__(self, shape: Shape, columns: Sequence[str]) -> None:
        """Raises :class:`SchemaError` for columns that are not there, or cannot be compared."""
        for name in columns:
            if name not in shape.schema.names:
                raise SchemaError(f"there is no column {name!r} for a key; {did_you_mean(name, shape.schema.names)}")
            if pa.types.is_nested(shape.schema.field(name).type):
                raise SchemaError(f"column {name!r} has type {shape.schema.field(name).type}, which cannot be a key")
        self.columns = tuple(columns)
        self.schema = pa.schema([shape.schema.field(name) for name in columns])
        self._numbers: dict[Any, int] = {}
        self._parts: list[tuple[int, pa.RecordBatch, pa.Buffer]] = []
        """Keys in the order of their numbers: the names of chunks, and what is in these."""
        self._next = 0
        self._kept = 0
        self._known = self._none_known()
        """Keys of one column that were looked up already; which ones have numbers only the dictionary tells."""
        self._whole: tuple[Any, pa.Table] = None, self.schema.empty_table()
        """All of them in one, and of which parts."""

    def _none_known(self) -> Known | None:
        return known_values(_comparable_type(self.schema.types[0])) if len(self.columns) == 1 else None

    def __len__(self) -> int:
        return len(self._numbers) if self.columns else 1

    def encode(self, batch: pa.RecordBatch, threads: int = 1) -> Ints:
        """The number of each row's key, looked up by so many threads."""
        if not self.columns or not batch.num_rows:
            return np.zeros(batch.num_rows, np.int64)
        if self._known is None or batch.num_rows < _MANY_ROWS:
            return self._number(batch)
        column = comparable(batch.column(self.columns[0]))
        codes = self._known.find(column, threads)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            rest = batch.select(self.columns).take(integer_column(unknown)) if len(unknown) < len(codes) else batch
            numbers = self._number(rest)
            codes[unknown] = numbers
            values = comparable(rest.column(self.columns[0]))
            _, firsts = np.unique(numbers, return_index=True)
            firsts = firsts[np.asarray(values.is_valid())[firsts]]
            self._known.add(values.take(integer_column(firsts)), numbers[firsts])
        return codes

    def _number(self, batch: pa.RecordBatch) -> Ints:
        """The same by a dictionary of Python, which gives keys that are new their numbers."""
        parts = [pc.dictionary_encode(comparable(batch.column(name)), null_encoding="encode") for name in self.columns]
        places = np.asarray(parts[0].indices).astype(np.int64)
        for part in parts[1:]:
            places = places * len(part.dictionary) + np.asarray(part.indices)
        values: list[Any]
        if len(parts) > 1:
            joined = pc.dictionary_encode(integer_column(places))
            places, left = np.asarray(joined.indices).astype(np.int64), np.asarray(joined.dictionary)
            columns = []
            for part in reversed(parts):
                columns.append(part.dictionary.take(integer_column(left % len(part.dictionary))))
                left = left // len(part.dictionary)
            values = list(zip(*(map(_hashable, column.to_pylist()) for column in reversed(columns)), strict=True))
        else:
            values = list(map(_hashable, parts[0].dictionary.to_pylist()))
        known = len(self._numbers)
        numbers = np.array([self._numbers.setdefault(value, len(self._numbers)) for value in values], np.int64)
        if len(self._numbers) > known:
            firsts = np.full(len(values), -1, np.int64)
            firsts[places[::-1]] = np.arange(len(places) - 1, -1, -1)
            self._add(batch.select(self.columns).take(integer_column(firsts[numbers >= known])))
        found: Ints = numbers[places]
        return found

    def encode_present(self, batch: pa.RecordBatch, threads: int = 1) -> Ints:
        """The same, and -1 for rows with nulls in their keys: as in joins, where these are equal to nothing."""
        codes = self.encode(batch, threads)
        for name in self.columns:
            column = comparable(batch.column(name))
            if column.null_count:
                codes = np.where(np.asarray(column.is_valid()), codes, -1)
        return codes

    def _add(self, rows: pa.RecordBatch) -> None:
        # Other threads may ask for values meanwhile: lists are replaced, never changed.
        parts = [*self._parts, self._part(rows)]
        if len(parts) > _PARTS:
            sizes = [part.num_rows for _, part, _ in parts]
            at = min(range(len(sizes) - 1), key=lambda place: sizes[place] + sizes[place + 1])
            if sizes[at] + sizes[at + 1] <= max(_FEW, rows.num_rows) or len(sizes) > _MOST_PARTS:
                parts[at : at + 2] = [self._part(pa.concat_batches([parts[at][1], parts[at + 1][1]]))]
        self._parts = parts

    def _part(self, rows: pa.RecordBatch) -> tuple[int, pa.RecordBatch, pa.Buffer]:
        self._next += 1
        return self._next - 1, rows, packed(rows)

    @property
    def are_many(self) -> bool:
        """Whether there are so many more than were kept last time that it is time to forget some."""
        return len(self._numbers) > 2 * self._kept + _FEW

    def may_forget(self, used: int) -> bool:
        """Whether it is worth forgetting all but so many that are used; if it is not, they are not many any more."""
        if 2 * used > len(self):
            self._kept = used
            return False
        return True

    def keep(self, numbers: Ints) -> Ints:
        """Forget all keys but some, and number these anew: the new numbers by the old ones, -1 for those forgotten."""
        found = np.full(len(self), -1, np.int64)
        found[numbers] = np.arange(len(numbers))
        rows = pa.RecordBatch.from_arrays(self.values(numbers), schema=self.schema)
        self._parts, self._numbers, self._kept = [], {}, len(numbers)
        self._known = self._none_known()
        self._know(rows)
        self._add(rows)
        return found

    def _know(self, rows: pa.RecordBatch) -> None:
        columns = [comparable(column).to_pylist() for column in rows.columns]
        for row in zip(*columns, strict=True):
            value = tuple(map(_hashable, row)) if len(row) > 1 else _hashable(row[0])
            self._numbers[value] = len(self._numbers)

    def values(self, numbers: Ints) -> list[pa.Array]:
        """The columns of the keys with some numbers; other threads may ask while further rows are encoded."""
        if not self.columns:
            return []
        parts, (known, whole) = self._parts, self._whole
        if known is not parts:
            whole = pa.Table.from_batches([rows for _, rows, _ in parts], self.schema).combine_chunks()
            self._whole = parts, whole
        return [column.combine_chunks() for column in whole.take(integer_column(numbers)).columns]

    def snapshot(self) -> State:
        """The keys so far."""
        core = {"next": self._next, "kept": self._kept, "parts": [number for number, _, _ in self._parts]}
        return State(core, {str(number): content for number, _, content in self._parts})

    def restore(self, state: State) -> None:
        """Number the same keys."""
        self._next, self._kept = state.core["next"], state.core["kept"]
        for number in state.core["parts"]:
            content = state.chunks[str(number)]
            rows = unpacked(content, self.schema)
            self._know(rows)
            self._parts.append((number, rows, content))


def check_keys(left: Shape, right: Shape, by: Mapping[str, str]) -> None:
    """Raise :class:`SchemaError` unless the keys of a join are columns of the same types."""
    Keys(left, list(by))
    Keys(right, list(by.values()))
    for one, other in by.items():
        types = left.schema.field(one).type, right.schema.field(other).type
        if types[0] != types[1]:
            raise SchemaError(
                f"the keys {one!r} and {other!r} have the types {types[0]} and {types[1]}; expected the same one: cast "
                "either before the join"
            )


def comparable(column: pa.Array) -> pa.Array:
    """A column in which equal values are equal in memory, and of types that Python can compare."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return comparable(column.dictionary_decode())
    if pa.types.is_floating(type_):
        return pc.add(column.cast(pa.float64()), 0.0)  # no zero is negative then
    if pa.types.is_temporal(type_):
        return column.cast(pa.int64() if type_.bit_width == 64 else pa.int32())
    return column


def _comparable_type(type_: pa.DataType) -> pa.DataType:
    return comparable(pa.array([], type_)).type


def _hashable(value: Any) -> Any:
    return _NAN if isinstance(value, float) and math.isnan(value) else value


def latest(codes: Ints, count: int) -> npt.NDArray[np.bool_]:
    """Which rows, of some in order, are among the last so many of their key."""
    order = np.argsort(codes, kind="stable")
    own = codes[order]
    found = np.empty(len(codes), np.bool_)
    found[order] = np.searchsorted(own, own, side="right") - np.arange(len(own)) <= count
    return found
