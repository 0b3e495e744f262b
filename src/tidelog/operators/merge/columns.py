"""Elements as columns of Arrow, and as the arrays that kernels take.

=================  ==================================================================================
``kind``           ``"insert"``, ``"adjust"`` or ``"stable"``
``valid_from``     the start; of a stable, its time
``valid_to``       the end, which is not part of the event any more; null for none, and for stables
``old_valid_to``   of an adjust, the end so far; null for none, and for others
…                  the payload; null for stables
=================  ==================================================================================

Times are 64-bit integers or timestamps, all of one type. The greatest one stands for infinity wherever it comes in; the
stable behind everything is not given out: it is the end of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column, integers
from tidelog.model.errors import InputError, SchemaError
from tidelog.operators.base import Ints, Shape
from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import ADJUST, BEFORE, END, KIND, NEVER, OLD, STABLE, START
from tidelog.operators.merge.elements import KINDS

KIND_COLUMN: Final = "kind"
FROM: Final = "valid_from"
TO: Final = "valid_to"
OLD_TO: Final = "old_valid_to"
COLUMNS: Final = (KIND_COLUMN, FROM, TO, OLD_TO)

_KINDS: Final = pa.array(KINDS)


def is_elements(schema: pa.Schema) -> bool:
    """Whether rows are elements, by the names of their columns."""
    return set(COLUMNS) <= set(schema.names)


def element_shape(time: pa.DataType, payload: Iterable[pa.Field]) -> Shape:
    """Elements whose payloads have some columns."""
    fields = [pa.field(KIND_COLUMN, pa.string(), nullable=False), pa.field(FROM, time, nullable=False)]
    fields += [pa.field(TO, time), pa.field(OLD_TO, time)]
    for each in payload:
        if each.name in COLUMNS:
            raise SchemaError(f"a payload cannot have a column {each.name!r}, which elements have; rename it before")
        fields.append(each.with_nullable(True))
    return Shape(pa.schema(fields), FROM)


def payload_of(shape: Shape) -> list[pa.Field]:
    """The columns of the payload of elements."""
    return [each for each in shape.schema if each.name not in COLUMNS]


def element_rows(batch: pa.RecordBatch) -> Rows:
    """Elements as arrays, without payloads."""
    kinds = batch.column(KIND_COLUMN)
    codes = kinds if pa.types.is_integer(kinds.type) else pc.index_in(kinds.cast(pa.string()), value_set=_KINDS)
    if codes.null_count:
        row = int(np.flatnonzero(np.asarray(codes.is_null()))[0])
        raise InputError(f"row {row} is of kind {kinds[row].as_py()!r}; expected insert, adjust or stable", row=row)
    rows = np.zeros((OLD + 1, batch.num_rows), np.int64)
    rows[KIND] = integers(codes.cast(pa.int64()))
    starts = batch.column(FROM)
    if starts.null_count:
        raise InputError(f"there are nulls in {FROM!r}, which every element has; of a stable it is the time")
    is_stable = rows[KIND] == STABLE
    rows[START] = np.where(is_stable, BEFORE, integers(starts))
    rows[END] = np.where(is_stable, integers(starts), _ends(batch.column(TO)))
    rows[OLD] = np.where(rows[KIND] == ADJUST, _ends(batch.column(OLD_TO)), BEFORE)
    wrong = ((rows[KIND] < 0) | (rows[KIND] > STABLE)) | ((rows[KIND] == ADJUST) & (rows[END] < rows[START]))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        if rows[KIND, row] == ADJUST:
            told = f"adjusts an event that starts at {rows[START, row]} to end at {rows[END, row]}, before it starts"
        else:
            told = f"is of kind {rows[KIND, row]}; expected 0 (insert), 1 (adjust) or 2 (stable)"
        raise InputError(f"row {row} {told}", row=row)
    return rows


def event_rows(times: Ints, stable: int | None) -> Rows:
    """Plain events as arrays, without payloads, and a stable behind them."""
    count = len(times)
    rows = np.zeros((OLD + 1, count + (stable is not None)), np.int64)
    rows[START, :count] = times
    rows[END, :count] = times + 1
    if (times == NEVER).any():
        raise InputError("found an event at the greatest time there is, which stands for infinity")
    rows[OLD] = BEFORE
    if stable is not None:
        rows[[KIND, START, END], count] = STABLE, BEFORE, stable
    return rows


def element_columns(rows: Rows, time: pa.DataType) -> list[pa.Array]:
    """The first columns of elements that come out."""
    kinds = rows[KIND]
    is_stable = kinds == STABLE
    names = pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int8)), _KINDS).cast(pa.string())
    return [
        names,
        _times(np.where(is_stable, rows[END], rows[START]), None, time),
        _times(rows[END], is_stable | (rows[END] == NEVER), time),
        _times(rows[OLD], (kinds != ADJUST) | (rows[OLD] == NEVER), time),
    ]


def chosen_rows(batch: pa.RecordBatch, rows: Ints, names: Sequence[str]) -> list[pa.Array]:
    """Columns of ascending rows of a batch."""
    if int(rows[-1] - rows[0]) + 1 == len(rows):
        return [batch.column(name).slice(int(rows[0]), len(rows)) for name in names]
    chosen = integer_column(rows)
    return [pc.take(batch.column(name), chosen, boundscheck=False) for name in names]


def _ends(column: pa.Array) -> Ints:
    if not column.null_count:
        return integers(column)
    return np.where(np.asarray(column.is_null()), NEVER, integers(column))


def _times(values: Ints, missing: npt.NDArray[np.bool_] | None, time: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64(), mask=missing).view(time)
