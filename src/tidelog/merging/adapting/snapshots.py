"""A table at rising instants: what has come, and what is gone, between one and the next."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import batch_of, integer_column
from tidelog.model.errors import InputError
from tidelog.operators.base import Ints
from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import ADJUST, BEFORE, CAUSE, END, INSERT, KIND, NEVER, OLD, STABLE, START
from tidelog.operators.merge.payloads.hashing import hash_rows, numbers_of


class Snapshots:
    """A row that is there is valid, one that is gone has ended; of equal rows the first that came ends first."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = pa.RecordBatch.from_pylist([], schema=schema)
        """Those that are there: equal ones together, in the order in which they came."""
        self._numbers = self._checks = self._starts = np.empty(0, np.int64)

    def elements(self, time: int, batch: pa.RecordBatch) -> tuple[Rows, pa.RecordBatch]:
        """The elements of an instant, and the rows of which their causes are."""
        hashes = hash_rows(batch.columns, batch.num_rows)
        known = len(self._numbers)
        numbers = np.concatenate([self._numbers, numbers_of(hashes)])
        checks = np.concatenate([self._checks, hashes[1].view(np.int64)])
        _, firsts, payloads = np.unique(numbers, return_index=True, return_inverse=True)
        if (checks[firsts[payloads]] != checks).any():
            raise InputError("two rows have the same hash of 63 bits; add a column to the table")
        had, has = (np.bincount(each, minlength=len(firsts)) for each in (payloads[:known], payloads[known:]))
        is_gone = self._ranks() < (had - has)[payloads[:known]]
        here, at = np.unique(payloads[known:], return_index=True)
        in_turn = np.argsort(at)
        come = np.repeat(known + at[in_turn], np.maximum(has - had, 0)[here[in_turn]])
        gone = np.flatnonzero(is_gone)
        found = np.zeros((CAUSE + 1, 1 + len(gone) + len(come)), np.int64)
        found[KIND] = np.repeat([STABLE, ADJUST, INSERT], [1, len(gone), len(come)])
        found[START] = np.concatenate([[BEFORE], self._starts[gone], np.full(len(come), time)])
        found[END] = np.where(found[KIND] == INSERT, NEVER, time)
        found[OLD] = np.where(found[KIND] == ADJUST, NEVER, BEFORE)
        found[CAUSE] = np.concatenate([[0], gone, come])
        rows = pa.concat_batches([self._rows, batch]) if known else batch
        kept = np.concatenate([np.flatnonzero(~is_gone), come])
        starts = np.concatenate([self._starts[~is_gone], np.full(len(come), time)])
        order = np.argsort(firsts[payloads[kept]], kind="stable")
        kept, self._starts = kept[order], starts[order]
        columns = [column.take(integer_column(kept)) for column in rows.columns]
        self._rows = batch_of(columns, rows.schema, len(kept))
        self._numbers, self._checks = numbers[kept], checks[kept]
        return found, rows

    def _ranks(self) -> Ints:
        """How many equal rows there are before each of those that are there."""
        count = len(self._numbers)
        heads = np.flatnonzero(np.diff(self._numbers, prepend=~self._numbers[:1]))
        return np.arange(count) - np.repeat(heads, np.diff(heads, append=count))
