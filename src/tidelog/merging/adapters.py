"""Other ways in which streams tell of events, as batches of elements.

Payloads are all columns that are not named otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.merging.adapting.codes import FINALIZE
from tidelog.merging.adapting.models import AddModifyFinalize, Changes, Model, OpenClose, Told
from tidelog.merging.adapting.snapshots import Snapshots
from tidelog.merging.sources import Source, alike, columns_told
from tidelog.model.arguments import found, pair
from tidelog.model.arrays import integers
from tidelog.model.errors import InputError, SchemaError, did_you_mean
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Ints, Shape
from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import CAUSE, KIND, NEVER, STABLE
from tidelog.operators.merge.columns import element_columns, element_shape
from tidelog.operators.merge.payloads.hashing import hash_rows, numbers_of


def from_add_modify_finalize(
    data: Any, *, kind: str = "kind", start: str = "start", end: str = "end", slack: Any = 0
) -> Iterator[pa.RecordBatch]:
    """Rows that add an event (``"a"``), give one another end (``"m"``), or say that ends before a time are final.

    The last ones (``"f"``) have their time as ``start``; a null ``end`` is none. By itself an ``"f"`` does not say that
    no event is added before it any more: ``slack``, a duration, is how far before it they may still be.
    """
    return _adapted(data, kind, start, end, lambda clock: AddModifyFinalize(clock.duration(slack)))


def from_open_close(
    data: Any, *, kind: str = "kind", time: str = "time", in_order: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows that open (``"open"``) and close (``"close"``) an event of a payload; a later close revises an earlier one.

    With ``in_order`` rows come in the order of time, and each time that is new is a stable.
    """
    return _adapted(data, kind, time, None, lambda _: OpenClose(in_order=in_order))


def from_changes(data: Any, *, kind: str = "kind", time: str = "time") -> Iterator[pa.RecordBatch]:
    """Change data in the order of time: rows that are inserted (``"insert"``) and deleted (``"delete"``).

    An update is a delete and an insert. A row is valid from its insert to its delete.
    """
    return _adapted(data, kind, time, None, lambda _: Changes())


def from_snapshots(
    tables: Iterable[tuple[Any, pa.Table]], *, time: pa.DataType | None = None
) -> Iterator[pa.RecordBatch]:
    """A table at rising instants: a row that is there is valid, one that is gone has ended.

    ``time`` is the type of the instants, by default 64-bit integers.
    """
    type_ = time or pa.int64()
    clock, known, shape, first = Clock(type_), None, None, pa.schema([])
    before: int | None = None
    if not isinstance(tables, Iterable):
        raise found("snapshots", tables, "pairs of an instant and a pyarrow.Table")
    for each in tables:
        instant, table = pair("a snapshot", each, "an instant and a pyarrow.Table")
        if not isinstance(table, pa.Table):
            raise InputError(f"found {type(table).__name__} as the table at {instant}; expected a pyarrow.Table")
        at = clock.instant(instant)
        if before is not None and at <= before:
            raise InputError(
                f"found a table at {clock.format(at)} behind one at {clock.format(before)}; expected rising instants"
            )
        before = at
        batches = table.combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        if known is None or shape is None:
            known, shape, first = Snapshots(table.schema), element_shape(type_, table.schema), table.schema
        if columns_told(table.schema) != columns_told(first):
            raise SchemaError(
                f"the table at {clock.format(at)} has the columns {columns_told(table.schema)}; expected those of the "
                f"first one, {columns_told(first)}"
            )
        yield _batch(*known.elements(at, batch), shape)


def _adapted(
    data: Any, kind: str, time: str, end: str | None, make: Callable[[Clock], Model]
) -> Iterator[pa.RecordBatch]:
    source = Source(data)
    schema = source.open()
    if source.failure is not None:
        raise source.failure
    if schema is None:
        return
    named = (kind, time) if end is None else (kind, time, end)
    for name in named:
        if name not in schema.names:
            raise SchemaError(f"there is no column {name!r}; {did_you_mean(name, schema.names)}")
    time_type = Shape(schema, time).time_type
    if end is not None and schema.field(end).type != time_type:
        raise SchemaError(
            f"column {end!r} has the type {schema.field(end).type}; expected {time_type}, as {time!r} has: cast it"
        )
    payload = [name for name in schema.names if name not in named]
    shape = element_shape(time_type, [schema.field(name) for name in payload])
    model = make(shape.clock)
    names, count = pa.array(model.names), 0
    for batch in alike(source.batches, schema):
        hashes = hash_rows([batch.column(name) for name in payload], batch.num_rows)
        kinds = batch.column(kind).cast(pa.string())
        places = pc.index_in(kinds, value_set=names)
        if places.null_count:
            row = pc.index(places.is_null(), True).as_py()
            expected = " or ".join(map(repr, model.names))
            raise InputError(
                f"row {count + row} is of kind {kinds[row].as_py()!r}; expected {expected}", row=count + row
            )
        timeless = pc.and_(batch.column(time).is_null(), pc.not_equal(kinds, AddModifyFinalize.names[FINALIZE]))
        if (row := pc.index(timeless, True).as_py()) >= 0:
            raise InputError(
                f"row {count + row} has no time ({time!r} is null); leave it out, or say when", row=count + row
            )
        count += batch.num_rows
        times = _times(batch.column(time))
        rows = model.elements(
            Told(
                integers(places.cast(pa.int64())),
                numbers_of(hashes),
                hashes[1].view(np.int64),
                times,
                times if end is None else _times(batch.column(end)),
            )
        )
        if rows.shape[1]:
            yield _batch(rows, batch.select(payload), shape)


def _times(column: pa.Array) -> Ints:
    """Times in ticks; nulls are infinite."""
    found = integers(column)
    return np.where(np.asarray(column.is_null()), NEVER, found) if column.null_count else found


def _batch(rows: Rows, payloads: pa.RecordBatch, shape: Shape) -> pa.RecordBatch:
    """Elements with the payloads of their causes."""
    is_stable = rows[KIND] == STABLE
    columns = element_columns(rows, shape.time_type)
    if is_stable.any() or not np.array_equal(rows[CAUSE], np.arange(payloads.num_rows)):
        chosen = pa.array(rows[CAUSE], mask=is_stable)
        columns += [pc.take(column, chosen, boundscheck=False) for column in payloads.columns]
    else:
        columns += payloads.columns
    return pa.RecordBatch.from_arrays(columns, schema=shape.schema)
