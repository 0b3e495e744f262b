"""Other ways in which streams tell of events, as batches of elements. Each goes row by row.

Payloads are all columns that are not named otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.merging.sources import Source
from tidelog.model.arrays import integers
from tidelog.model.errors import SchemaError, did_you_mean
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Ints, Shape
from tidelog.operators.merge.adapters import AddModifyFinalize, Changes, OpenClose, Snapshots
from tidelog.operators.merge.batches.engine import rows_of
from tidelog.operators.merge.codes import KIND, NEVER, PAYLOAD, STABLE
from tidelog.operators.merge.columns import element_columns, element_shape
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.payloads.hashing import numbers_of
from tidelog.operators.merge.payloads.store import Payloads

Take: TypeAlias = Callable[[Iterable[Any]], Iterator[Element]]
Read: TypeAlias = Callable[[pa.RecordBatch, list[int]], Iterable[Any]]


def from_add_modify_finalize(
    data: Any, *, kind: str = "kind", start: str = "start", end: str = "end", slack: Any = 0
) -> Iterator[pa.RecordBatch]:
    """Rows that add an event (``"a"``), give one another end (``"m"``), or say that ends before a time are final.

    The last ones (``"f"``) have their time as ``start``; a null ``end`` is none. By itself an ``"f"`` does not say that
    no event is added before it any more: ``slack``, a duration, is how far before it they may still be.
    """

    def read(batch: pa.RecordBatch, numbers: list[int]) -> Iterable[Any]:
        kinds, starts, ends = batch.column(kind).to_pylist(), _times(batch.column(start)), _times(batch.column(end))
        return zip(kinds, numbers, starts, ends, strict=True)

    return _adapted(data, (kind, start, end), start, read, lambda clock: AddModifyFinalize(clock.duration(slack)).take)


def from_open_close(
    data: Any, *, kind: str = "kind", time: str = "time", in_order: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows that open (``"open"``) and close (``"close"``) an event of a payload; a later close revises an earlier one.

    With ``in_order`` rows come in the order of time, and each is a stable.
    """
    return _adapted(data, (kind, time), time, _timed(kind, time), lambda _: OpenClose(in_order=in_order).take)


def from_changes(data: Any, *, kind: str = "kind", time: str = "time") -> Iterator[pa.RecordBatch]:
    """Change data in the order of time: rows that are inserted (``"insert"``) and deleted (``"delete"``).

    An update is a delete and an insert. A row is valid from its insert to its delete.
    """
    return _adapted(data, (kind, time), time, _timed(kind, time), lambda _: Changes().take)


def from_snapshots(
    tables: Iterable[tuple[Any, pa.Table]], *, time: pa.DataType | None = None
) -> Iterator[pa.RecordBatch]:
    """A table at rising instants: a row that is there is valid, one that is gone has ended.

    ``time`` is the type of the instants, by default 64-bit integers.
    """
    type_, adapter = time or pa.int64(), Snapshots()
    made: _Made | None = None
    for instant, table in tables:
        batches = table.combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        if made is None:
            made = _Made(element_shape(type_, table.schema), table.schema)
        numbers = made.number(batch).tolist()
        yield from made.batches(adapter.take([(Clock(type_).instant(instant), numbers)]))


def _timed(kind: str, time: str) -> Read:
    def read(batch: pa.RecordBatch, numbers: list[int]) -> Iterable[Any]:
        return zip(batch.column(kind).to_pylist(), numbers, _times(batch.column(time)), strict=True)

    return read


def _times(column: pa.Array) -> list[int]:
    """Times in ticks; nulls are infinite."""
    found: list[int] = np.where(np.asarray(column.is_null()), NEVER, integers(column)).tolist()
    return found


def _adapted(
    data: Any, named: tuple[str, ...], time: str, read: Read, adapter: Callable[[Clock], Take]
) -> Iterator[pa.RecordBatch]:
    source = Source(data)
    schema = source.open()
    if schema is None:
        return
    for name in named:
        if name not in schema.names:
            raise SchemaError(f"there is no column {name!r}; {did_you_mean(name, schema.names)}")
    payload = pa.schema([field for field in schema if field.name not in named])
    shape = element_shape(schema.field(time).type, payload)
    made, take = _Made(shape, payload), adapter(shape.clock)
    for batch in source.batches:
        yield from made.batches(take(read(batch, made.number(batch).tolist())))


class _Made:
    """Elements, whose payloads are numbers, as batches."""

    def __init__(self, shape: Shape, payload: pa.Schema) -> None:
        self._shape = shape
        self._payloads = Payloads(payload, tuple(payload.names))

    def number(self, batch: pa.RecordBatch) -> Ints:
        """The numbers of rows' payloads, which are kept."""
        hashes = self._payloads.hashes(batch, np.zeros(batch.num_rows, np.int64))
        numbers = numbers_of(hashes)
        self._payloads.add(batch, hashes, numbers, np.arange(batch.num_rows))
        return numbers

    def batches(self, elements: Iterable[Element]) -> Iterator[pa.RecordBatch]:
        """A batch, if there are elements; the stable behind everything is the end of the stream."""
        rows = rows_of([each for each in elements if each.kind != STABLE or each.end != NEVER])
        if not rows.shape[1]:
            return
        is_stable = rows[KIND] == STABLE
        wanted, places = np.unique(rows[PAYLOAD, ~is_stable], return_inverse=True)
        at = np.zeros(rows.shape[1], np.int64)
        at[~is_stable] = places
        if len(wanted):
            chosen = pa.array(at, mask=is_stable)
            payload = [column.take(chosen) for column in self._payloads.take(wanted).columns]
        else:
            payload = [pa.nulls(len(at), field.type) for field in self._payloads.schema]
        columns = element_columns(rows, self._shape.time_type) + payload
        yield pa.RecordBatch.from_arrays(columns, schema=self._shape.schema)
