"""A mention of a stream as a relation of the groups that its events are reduced to, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog import threads
from tidelog.plan.partial.reducer import SLICE_ROWS, Reducer
from tidelog.sql.reading.dataset import Relation, handed, handed_over

if TYPE_CHECKING:
    from tidelog.sql.reading.filters import Condition

_LIKELY_SHARE: Final = 16
"""One group in so many rows is expected, which nobody knows."""


class Reduction:
    """What DuckDB reads in the place of a relation."""

    def __init__(self, relation: Relation, reducer: Reducer, where: str | None) -> None:
        """``where`` is the condition of the statement, all of which is applied here."""
        self._relation = relation
        self._reducer = reducer
        self._where = where
        self.schema = reducer.schema
        """The columns of groups."""
        self.handed = handed(reducer.schema)
        """The same as DuckDB gets them."""

    def source(self) -> Any:
        """The groups, as DuckDB takes them."""
        from tidelog.sql.reading.source import Source  # which loads DuckDB

        return Source(self)

    @property
    def likely_rows(self) -> int:
        """About how many groups come."""
        return -(-self._relation.likely_rows // _LIKELY_SHARE)

    def can_apply(self, filter: Condition) -> bool:
        """Whether a condition is one on keys that are columns, so that it can be applied to events."""
        return filter.columns <= self._reducer.key_columns and self._relation.can_apply(filter)

    def reader(self, columns: Sequence[str], conditions: Sequence[Condition]) -> pa.RecordBatchReader:
        """Begin to read some columns of the groups of events that satisfy conditions."""
        texts = [*([] if self._where is None else [self._where]), *(each.text for each in conditions)]
        reducer = self._reducer.narrowed(columns)
        rows = self._relation.reading(reducer.columns, texts)
        schema = pa.schema([self.handed.field(name) for name in columns])
        groups = (batch.select(list(columns)) for batch in _reduced(reducer, rows))
        return pa.RecordBatchReader.from_batches(schema, self._relation.watched(handed_over(groups, schema)))


def _reduced(reducer: Reducer, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    slices = (batch.slice(first, SLICE_ROWS) for batch in batches for first in range(0, batch.num_rows, SLICE_ROWS))
    jobs = (partial(reducer.reduce, rows, number) for rows, number in zip(slices, count(), strict=False))
    return threads.in_order(jobs, threads.THREADS)
