"""Queries that the questions share, and how they are run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelog.operators.base import Shape
from tidelog.operators.replaying import replay
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.relations import mask_of
from tidelog.operators.situations.syntax import (
    Aggregate,
    Bound,
    Constraint,
    Definition,
    Instant,
    Mode,
    Returned,
    Situations,
)

BATCH = 1 << 17
Pattern = dict[tuple[str, str], str]
"""Relations between pairs, divided by semicolons, in Allen's words."""

DISCONNECTED: Pattern = {("A", "B"): "starts", ("B", "C"): "before", ("C", "D"): "overlaps"}
AGGRESSIVE: Pattern = {
    ("A", "B"): "meets; overlaps; starts; during",
    ("B", "C"): "contains; finished by; overlaps; meets",
    ("A", "C"): "before",
}
SIMPLIFIED: Pattern = {("A", "B"): "meets; overlaps", ("B", "C"): "overlaps; meets", ("A", "C"): "before"}
THREE: dict[str, Pattern] = {
    "Q1": {("A", "B"): "overlaps", ("A", "C"): "overlaps", ("B", "C"): "starts"},
    "Q2": {("A", "B"): "overlaps", ("A", "C"): "before", ("B", "C"): "overlaps"},
    "Q3": {("A", "B"): "before", ("A", "C"): "before", ("B", "C"): "before"},
}


def constraints(pattern: Pattern) -> tuple[Constraint, ...]:
    """A pattern as constraints."""
    return tuple(Constraint(one, mask_of(names.split("; ")), other) for (one, other), names in pattern.items())


def starts(names: Sequence[str]) -> tuple[Returned, ...]:
    """When situations start."""
    return tuple(Returned(f"{name}_start", '"#0"', (Instant(name, Bound.START),)) for name in names)


def of_attributes(pattern: Pattern, within: int, mode: Mode, returned: Sequence[str] = "A") -> Situations:
    """A pattern over attributes, without keys."""
    names = sorted({name for pair in pattern for name in pair})
    definitions = tuple(Definition(name, name.lower()) for name in names)
    return Situations(definitions, constraints(pattern), within, starts(returned), (), mode)


def thresholds(table: pa.Table) -> tuple[float, float, float]:
    """The 90th percentiles of accelerations either way, and the 99th of speeds, from the first million rows."""
    speed, accel = (np.asarray(table.column(name)[:1_000_000]) for name in ("speed", "accel"))
    up, down = np.percentile(accel[accel > 0], 90), np.percentile(accel[accel < 0], 10)
    return float(up), float(np.percentile(speed, 99)), float(down)


def drivers(table: pa.Table, mode: Mode, pattern: Pattern = AGGRESSIVE, within: int = 300) -> Situations:
    """Sharp acceleration, speeding and hard braking, without bounds of their lengths."""
    up, fast, down = thresholds(table)
    texts = {"A": f"accel > {up!r}", "B": f"speed > {fast!r}", "C": f"accel < {down!r}"}
    returned = (
        Returned("id", '"#0"', (Aggregate("B", 'first("car")'),)),
        Returned("avg_speed", '"#0"', (Aggregate("B", 'avg("speed")'),)),
        *starts("ABC"),
    )
    definitions = tuple(Definition(name, text) for name, text in texts.items())
    return Situations(definitions, constraints(pattern), within, returned, ("car",), mode)


def operator_of(table: pa.Table, query: Situations, threads: int = 1) -> SituationsOperator:
    """The operator of a query."""
    found = SituationsOperator(Shape(table.schema, "t"), query)
    found.use_threads(threads)
    return found


def batches(table: pa.Table, size: int = BATCH) -> list[pa.RecordBatch]:
    """The rows of a table as they are pushed."""
    return table.combine_chunks().to_batches(max_chunksize=size)


def found(operator: SituationsOperator, rows: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What comes out of an operator."""
    return replay(operator, [rows])


def matches(operator: SituationsOperator, rows: Sequence[pa.RecordBatch]) -> int:
    """How many matches come out of an operator."""
    return sum(batch.num_rows for batch in found(operator, rows))
