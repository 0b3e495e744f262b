"""Stored streams as inputs that heed what nobody wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import integer_column, integers
from tidelog.model.errors import ConflictError
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.operators.base import Ints, LookBack, Shape
from tidelog.operators.feedback import Scan
from tidelog.operators.keys import Keys, latest
from tidelog.store.manifest.sequence_set import SeqSet

_MANY: Final = 1 << 16
"""Rows that may be kept in any case."""


class _Stream(Protocol):
    """What is asked of a stream of a store."""

    @property
    def schema(self) -> Schema: ...

    def snapshot(self) -> Any: ...

    def scan(
        self, start: Any = ..., end: Any = ..., columns: Sequence[str] | None = ..., **how: Any
    ) -> pa.RecordBatchReader: ...


def stored(stream: _Stream, columns: Sequence[str] | None = None, *, seq: bool = False) -> Scan:
    """The rows of a stored stream, as it is now, in the order of time; with ``seq`` also their numbers, ``_seq``.

    Blocks before what is of use are not read. Where of old rows the last ones of each key are, the stream is read from
    the end: without keys as few rows as that, with keys the columns of the key alone, and then these rows.
    """
    moment, time = stream.snapshot(), stream.schema.time

    def open_at(start: int | None) -> Iterator[pa.RecordBatch]:
        yield from stream.scan(start, None, columns, as_of=moment, seq=seq)

    def last_before(start: int | None, end: int, last: LookBack) -> Iterator[pa.RecordBatch]:
        if not last.keys:
            how: dict[str, Any] = {"as_of": moment, "seq": seq, "limit": last.rows, "newest_first": True}
            newest = stream.scan(start, end, columns, **how).read_all()
            yield from newest.take(integer_column(np.arange(newest.num_rows)[::-1])).combine_chunks().to_batches()
            return
        names = list(dict.fromkeys((*last.keys, time)))
        numbers = _numbers(stream.scan(start, end, names, as_of=moment, seq=True), time, last)
        given = 0
        for batch in stream.scan(start, end, columns, as_of=SeqSet.of(numbers), seq=seq):
            given += batch.num_rows
            yield batch
        if given != len(numbers):
            raise ConflictError(
                f"found {given} of {len(numbers)} rows of a stream that were there when it was looked at; the others "
                "were deleted since: merge it anew"
            )

    return Scan(open_at, time, last_before)


def _numbers(rows: pa.RecordBatchReader, time: str, last: LookBack) -> Ints:
    """The numbers of the last rows of each key. Of others no more are kept than of these, but for a few."""
    keys = Keys(Shape(rows.schema, time), last.keys)
    kept: list[tuple[Ints, Ints]] = []
    fresh = old = 0
    for batch in rows:
        kept.append((keys.encode(batch), integers(batch.column(SEQUENCE_COLUMN))))
        fresh += batch.num_rows
        if fresh >= max(old, _MANY):  # as many are looked at again as are new
            kept = [_latest(kept, last.rows)]
            fresh, old = 0, len(kept[0][0])
    return _latest(kept, last.rows)[1] if kept else np.empty(0, np.int64)


def _latest(rows: Sequence[tuple[Ints, Ints]], most: int) -> tuple[Ints, Ints]:
    """The last rows of each key: keys and numbers."""
    codes, numbers = (np.concatenate(each) for each in zip(*rows, strict=True))
    is_last = latest(codes, most)
    return codes[is_last], numbers[is_last]
