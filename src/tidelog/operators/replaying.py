"""Rows that are all there, in order, through an operator: how history is asked what streams are asked."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.operators.base import FOREVER, Operator, advanced


def replay(operator: Operator, inputs: Sequence[Iterable[pa.RecordBatch]]) -> Generator[pa.RecordBatch, None, None]:
    """What comes out of an operator, which has seen nothing yet, for inputs whose rows come in order.

    Lazy: the next batch is always one of the input that is farthest behind, so that besides what the operator keeps
    there is one batch of each in memory. When abandoned, inputs are closed.
    """
    if len(inputs) != len(operator.inputs):
        raise SchemaError(f"found {len(inputs)} inputs for an operator of {len(operator.inputs)}")
    most = operator.most_rows
    iterators = [iter(each) if most is None else _cut(each, most) for each in inputs]
    reached: list[int] = [-FOREVER] * len(inputs)
    mark = -FOREVER
    try:
        while (behind := min(reached, default=FOREVER)) < FOREVER:
            port = reached.index(behind)
            batch = next(iterators[port], None)
            if batch is None:
                reached[port] = FOREVER
            elif batch.num_rows:
                reached[port] = int(operator.inputs[port].times(batch)[-1])
                yield from operator.push(port, batch)
            if mark < min(reached) < FOREVER:
                mark = min(reached)
                yield from advanced(operator, mark)
        yield from advanced(operator, FOREVER)
    finally:
        for each in iterators:
            close = getattr(each, "close", None)
            if close is not None:
                close()


def _cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of so many at the most."""
    iterator = iter(batches)
    try:
        for batch in iterator:
            for first in range(0, batch.num_rows, rows):
                yield batch.slice(first, rows)
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
