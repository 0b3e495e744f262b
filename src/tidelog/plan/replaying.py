"""Stored streams through a continuous operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelog.operators.base import Operator, Shape
from tidelog.operators.replaying import replay
from tidelog.plan.reading import read, relation_schema
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Stored:
    """The rows of a snapshot that are an input of an operator."""

    snapshot: Snapshot
    where: str | None = None
    numbers: SeqSet | None = None


def stored_shape(snapshot: Snapshot, columns: Sequence[str] | None = None) -> Shape:
    """The shape of rows of a stream, with ``_seq``: of some columns, or of all. Time is always among them."""
    every, time = relation_schema(snapshot, seq=True), snapshot.layout.schema.time
    wanted = every.names if columns is None else list(dict.fromkeys([time, *columns, every.names[-1]]))
    return Shape(pa.schema([every.field(name) for name in wanted]), time)


def replay_stored(operator: Operator, inputs: Sequence[Stored]) -> Iterator[pa.RecordBatch]:
    """What comes out of an operator for stored rows, of each input as many columns as it has; see :func:`replay`."""
    batches = []
    for source, shape in zip(inputs, operator.inputs, strict=True):
        _, rows = read(source.snapshot, source.numbers, shape.schema.names, source.where)
        batches.append(rows)
    return replay(operator, batches)
