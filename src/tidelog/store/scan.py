"""Reading the rows of a snapshot: time travel, column pruning, pruning by what summaries say, exact filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.index.entries import Entries
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.reader import Test
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.store.manifest import Deletion
from tidelog.store.merge import chained
from tidelog.store.rows import Ints, integers
from tidelog.store.snapshot import Part, Snapshot

Mask = npt.NDArray[np.bool_]


def scan(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    columns: Sequence[str],
    where: Predicate | None = None,
    below_seq: int | None = None,
    counters: ReadCounters | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows with ``start <= time < end`` that satisfy ``where``, in the order of (time, ``_seq``), lazily.

    ``columns`` are stored ones, ``_seq`` among them; ``below_seq`` leaves out rows that arrived later. Batches without
    rows are left out.
    """
    counters = counters or ReadCounters()
    start, parts = snapshot.in_range(start, end)
    deletions = snapshot.deletions(start, end)
    time = snapshot.layout.schema.time
    needed = dict.fromkeys(columns)
    if where is not None:
        needed |= dict.fromkeys(where.columns)
    if below_seq is not None or deletions or _overlap(parts):
        needed |= dict.fromkeys((time, SEQUENCE_COLUMN))
    names = list(needed)
    target = pa.schema([snapshot.layout.stored.field(name) for name in names])
    opened: list[tuple[int, int, Callable[[], Iterator[pa.RecordBatch]]]] = [
        (part.first, part.last, partial(_read, part, start, end, target, where, below_seq, counters)) for part in parts
    ]
    if not _overlap(parts):
        ordered = sorted(opened, key=lambda part: part[:2])
        batches: Iterator[pa.RecordBatch] = (batch for _, _, read in ordered for batch in read())
    else:
        batches = chained(opened, names.index(time), names.index(SEQUENCE_COLUMN))
    for batch in batches:
        kept = _kept(batch, time, where, below_seq, deletions)
        if kept is not None and not kept.all():
            batch = batch.filter(pa.array(kept))
        if batch.num_rows:
            yield batch.select(list(columns)) if names != list(columns) else batch


def _overlap(parts: Sequence[Part]) -> bool:
    bounds = sorted((part.first, part.last) for part in parts)
    return any(after[0] <= before[1] for before, after in pairwise(bounds))


def _read(
    part: Part,
    start: int | None,
    end: int | None,
    target: pa.Schema,
    where: Predicate | None,
    below_seq: int | None,
    counters: ReadCounters,
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that may count, under the names and types of the stream as it is now."""
    layout = part.layout
    known = [name for name in target.names if name in layout.stored.names]
    test = pruning(layout, where, below_seq)
    for batch in part.scan(start, end, known, test, counters):
        yield batch if batch.schema.equals(target) else _evolved(batch, target)


def _evolved(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Rows of an older version of the schema: new columns are null, widened ones are cast."""
    arrays = []
    for field in target:
        index = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def pruning(layout: Layout, where: Predicate | None, below_seq: int | None) -> Test | None:
    """What tells by entries whether there may be rows below that count; None if everything may count."""
    if where is None and below_seq is None:
        return None
    indexes = {name: layout.index(name) for name in (where.columns if where else ()) if name in layout.stored.names}

    def test(entries: Entries) -> Mask:
        columns = entries["columns"]
        result = np.ones(len(entries), np.bool_)
        if where is not None:
            result &= where.may_match({name: columns[:, index] for name, index in indexes.items()}, entries["rows"])
        if below_seq is not None:
            result &= columns[:, layout.sequence]["min"] < np.uint64(max(below_seq, 0))
        return result

    return test


def _kept(
    batch: pa.RecordBatch, time: str, where: Predicate | None, below_seq: int | None, deletions: Sequence[Deletion]
) -> Mask | None:
    """Which rows count; None for all."""
    kept: Mask | None = None
    if below_seq is not None or deletions:
        numbers = integers(batch.column(SEQUENCE_COLUMN))
        kept = np.ones(batch.num_rows, np.bool_)
        if below_seq is not None:
            kept &= numbers < below_seq
        times: Ints = integers(batch.column(time))
        for deletion in deletions:
            low, high = deletion.interval.start, deletion.interval.end
            gone = numbers < deletion.below_seq
            if low is not None:
                gone &= times >= low
            if high is not None:
                gone &= times < high
            kept &= ~gone
    if where is not None:
        mask = where.mask(batch)
        kept = mask if kept is None else kept & mask
    return kept
