"""Row patterns of windows: the frames of rows, and the match of each row."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.opcodes import MATCHED, UNMATCHED
from tidelog.operators.rowpattern.syntax import Frame

_FAR: Final = 1 << 62
"""Behind all rows."""


def frame_ends(batch: pa.RecordBatch, frame: Frame) -> Ints:
    """The row behind the last one of each row's frame, as if partitions had no end.

    Raises :class:`PatternError` if a column tells no number of rows.
    """
    rows = np.arange(batch.num_rows, dtype=np.int64)
    if frame.column is None:
        return np.full(len(rows), _FAR) if frame.following is None else rows + min(frame.following, _FAR) + 1
    numbers = batch.column(frame.column)
    wrong = numbers.null_count or (len(numbers) and pc.min(numbers).as_py() < 0)
    if wrong:
        found = next(each for each in numbers.to_pylist() if each is None or each < 0)
        raise PatternError(
            f"found {'NULL' if found is None else found} rows FOLLOWING as the end of a frame; expected a number that "
            "is not negative"
        )
    following: Ints = np.minimum(np.asarray(numbers.cast(pa.uint64())), np.uint64(_FAR)).astype(np.int64)
    return rows + following + 1


def of_each_row(found: Matches, first: int, last: int, frames: Ints) -> Matches:
    """A record for each row from ``first`` to ``last``, most of them of rows that have no match."""
    count = last - first
    places = found.starts - first
    kinds = np.full(count, UNMATCHED, np.int64)
    kinds[places] = MATCHED
    lengths, numbers = np.zeros(count, np.int64), np.zeros(count, np.int64)
    lengths[places], numbers[places] = found.lengths, found.numbers
    starts = np.arange(first, last, dtype=np.int64)
    partitions = found.rows.partitions[first:last]
    return Matches(
        found.rows,
        partitions,
        starts,
        kinds,
        numbers,
        np.zeros(count, np.int64),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        found.places,
        found.variables,
        found.excluded,
        frames=(starts, np.minimum(frames[first:last], found.rows.cuts[partitions + 1])),
    )
