"""Random rows for operators: nulls, ties, late ones, several keys, none and one; clocks of every unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.operators.base import LookBack, Shape
from tidelog.operators.feedback import Scan

TIMES = (pa.int64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.timestamp("us", "Europe/Berlin"))

KEYS = ("a", "b", "", "long enough not to be kept beside its length", None)


def shape(time: pa.DataType | None = None, *, seq: bool = True) -> Shape:
    fields = [
        pa.field("ts", time or pa.int64(), nullable=False),
        pa.field("k", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("x", pa.float64()),
    ]
    return Shape(pa.schema([*fields, *([pa.field("_seq", pa.int64(), nullable=False)] if seq else [])]), "ts")


def rows(of: Shape, dice: np.random.Generator, count: int, *, span: int = 60, jitter: int = 0) -> pa.RecordBatch:
    """Rows in the order of arrival: times that rise from about -20 on, up to ``jitter`` behind one another, or more."""
    times = np.sort(dice.integers(-20, max(span - 20, -19), count))
    if jitter:
        times = times - np.where(dice.random(count) < 0.3, dice.integers(0, jitter + 1, count), 0)
    columns: dict[str, Any] = {
        "ts": pa.array(times, pa.int64()).cast(of.time_type),
        "k": pa.array([KEYS[each] for each in dice.integers(0, len(KEYS), count)], pa.string()),
        "n": pa.array(dice.integers(-5, 6, count), pa.int64(), mask=dice.random(count) < 0.2),
        "x": pa.array(dice.integers(-40, 41, count) / 8, pa.float64(), mask=dice.random(count) < 0.2),
        "_seq": pa.array(np.arange(count), pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in of.schema.names], schema=of.schema)


def dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts; times are integers."""
    names = batch.schema.names
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in batch.columns
    ]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


class Parts(Iterator[pa.RecordBatch]):
    """Rows in some batches, which cannot be read from any time on."""

    def __init__(self, batch: pa.RecordBatch, dice: np.random.Generator) -> None:
        cuts = np.sort(dice.integers(0, batch.num_rows + 1, 12)).tolist()
        parts = [
            batch.slice(first, last - first) for first, last in zip([0, *cuts], [*cuts, batch.num_rows], strict=True)
        ]
        self._parts = iter(parts)

    def __next__(self) -> pa.RecordBatch:
        return next(self._parts)


def rereadable(rows: pa.RecordBatch, time: str, dice: np.random.Generator) -> Scan:
    """Rows that can be read from any time on, and of which the last ones before a time are known."""
    times = np.asarray(rows.column(time)).astype(np.int64)

    def open_at(start: int | None) -> Iterator[pa.RecordBatch]:
        yield from Parts(rows if start is None else rows.filter(pa.array(times >= start)), dice)

    def last_before(start: int | None, end: int, last: LookBack) -> Iterator[pa.RecordBatch]:
        counts: Counter[tuple[object, ...]] = Counter()
        chosen = []
        for place in reversed(range(rows.num_rows)):
            if times[place] < end and (start is None or times[place] >= start):
                key = tuple(rows.column(name)[place].as_py() for name in last.keys)
                counts[key] += 1
                if counts[key] <= last.rows:
                    chosen.append(place)
        yield rows.take(pa.array(chosen[::-1], pa.int64()))

    return Scan(open_at, time, last_before)
