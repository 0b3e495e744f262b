"""Replay: rows that are stored, in order, through an operator. Nothing is late here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import FOREVER, Operator


def replay(operator: Operator, inputs: Sequence[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """What an operator gives for all rows of its inputs, each in the order of (time, ``_seq``); lazily.

    Inputs are read in turns, always the one that is furthest behind, a batch at a time, so that no more than a batch of
    each is held beside what the operator keeps.
    """
    batches = [iter(each) for each in inputs]
    reached = [INT64_MIN] * len(batches)
    while min(reached) < FOREVER:
        port = reached.index(min(reached))
        batch = next(batches[port], None)
        if batch is not None and not batch.num_rows:
            continue
        if batch is None:
            reached[port] = FOREVER
        else:
            yield from operator.push(port, batch)
            reached[port] = int(operator.inputs[port].times(batch)[-1])
        if INT64_MIN < min(reached) < FOREVER:
            yield from operator.advance(min(reached))
    yield from operator.finish()
