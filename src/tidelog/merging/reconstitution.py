"""What a prefix of a stream of elements means: the events that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.merging.sources import Source, alike
from tidelog.model.arrays import integer_column
from tidelog.model.errors import InputError, SchemaError
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Shape
from tidelog.operators.merge.algorithms import ALGORITHMS
from tidelog.operators.merge.codes import ADJUST, BEFORE, END, INSERT, KIND, NEVER, OLD, STABLE, START
from tidelog.operators.merge.columns import COLUMNS, FROM, TO, is_elements
from tidelog.operators.merge.payloads.hashing import hash_rows, numbers_of
from tidelog.operators.merge.ports import ElementPort, Input


def reconstitute(elements: Any, *, frozen: bool = False) -> pa.Table:
    """The events that a stream of elements stands for, by ``valid_from`` and ``valid_to``, as often as they are there.

    With ``frozen`` only those that will stay as they are: they end before the last stable. Elements are Arrow data or
    an iterable of batches; raises :class:`~tidelog.operators.merge.errors.MergeError` for elements behind a stable, and
    :class:`InputError` for adjusts of events that are not there.
    """
    source = Source(elements)
    schema = source.open()
    if source.failure is not None:
        raise source.failure
    if schema is None or not is_elements(schema):
        told = "no batches" if schema is None else f"the columns {', '.join(schema.names)}"
        raise SchemaError(f"found {told}; expected elements, with the columns {', '.join(COLUMNS)}")
    port = ElementPort(Input("elements", Shape(schema, FROM)))
    batches, parts, reached = [], [], BEFORE
    for batch in alike(source.batches, schema):
        _, rows = port.elements(batch, ALGORITHMS["R4"], reached)
        reached = max(reached, int(rows[END, rows[KIND] == STABLE].max(initial=BEFORE)))
        batches.append(batch)
        parts.append(rows)
    names = [name for name in schema.names if name not in COLUMNS]
    fields = [schema.field(FROM), schema.field(TO), *(schema.field(name) for name in names)]
    result = pa.schema(fields)
    if not parts:
        return result.empty_table()
    whole, rows = pa.Table.from_batches(batches, schema).combine_chunks(), np.concatenate(parts, axis=1)
    columns = {name: whole.column(name).combine_chunks() for name in names}
    numbers = numbers_of(hash_rows(list(columns.values()), whole.num_rows))
    is_insert = (rows[KIND] == INSERT) & (rows[END] > rows[START])
    is_adjust = (rows[KIND] == ADJUST) & (rows[END] != rows[OLD])
    gone, new = np.flatnonzero(is_adjust), np.flatnonzero(is_insert | (is_adjust & (rows[END] > rows[START])))
    at = np.concatenate([new, gone])
    ends = np.concatenate([rows[END, new], rows[OLD, gone]])
    weights = np.concatenate([np.ones(len(new), np.int64), -np.ones(len(gone), np.int64)])
    order = np.lexsort((numbers[at], ends, rows[START, at]))
    at, ends, weights = at[order], ends[order], weights[order]
    starts, payloads = rows[START, at], numbers[at]
    is_first = np.ones(len(at), np.bool_)
    is_first[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1]) | (payloads[1:] != payloads[:-1])
    firsts = np.flatnonzero(is_first)
    counts = np.add.reduceat(weights, firsts) if len(firsts) else weights
    if (counts < 0).any():
        place = firsts[int(np.flatnonzero(counts < 0)[0])]
        told = Clock(schema.field(FROM).type).format(int(starts[place]))
        raise InputError(f"row {int(at[place])} adjusts an event from {told} on that is not there", row=int(at[place]))
    if frozen:
        counts = np.where(ends[firsts] < reached, counts, 0)
    chosen = np.repeat(firsts, counts)
    place = integer_column(at[chosen])
    valid_to = pa.array(ends[chosen], pa.int64(), mask=ends[chosen] == NEVER).view(schema.field(TO).type)
    found = [whole.column(FROM).combine_chunks().take(place), valid_to]
    return pa.Table.from_arrays([*found, *(columns[name].take(place) for name in names)], schema=result)
