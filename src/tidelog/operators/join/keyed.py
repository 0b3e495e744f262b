"""Partners with equal keys: each row knows the one before it with the same key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import distinct
from tidelog.operators.base import Shape
from tidelog.operators.columns.series import Series
from tidelog.operators.join import kernels
from tidelog.operators.join.conditions.matching import unpaired
from tidelog.operators.join.pairs import LEFT, TILE, Arriving, Finder, Job
from tidelog.operators.keys import Keys

_KEY, _BEFORE = 0, 1


class Keyed(Finder):
    """Follows the rows of a key back in time, so that only pairs with equal keys are ever looked at."""

    def __init__(self, left: Shape, by: Mapping[str, str]) -> None:
        """``by`` are the names of the right input's columns, in pairs, by those of the left one."""
        self._names = (list(by), list(by.values()))
        self._keys = Keys(left, self._names[LEFT])
        self._rows = [Series(np.int64, 2), Series(np.int64, 2)]
        """For each row its key, and the rank of the row before it with the same one."""
        self._bases = np.zeros(2, np.int64)
        self._newest = np.full((2, 1), -1, np.int64)

    def append(self, port: int, batch: pa.RecordBatch) -> None:
        """Number their keys; rows with nulls have none."""
        columns = batch.select(self._names[port]).rename_columns(self._names[LEFT])
        codes = self._keys.encode_present(columns)
        self._rows[port].append(np.stack([codes, np.full(len(codes), -1, np.int64)]))
        if len(self._keys) > self._newest.shape[1]:
            larger = np.full((2, 2 * len(self._keys)), -1, np.int64)
            larger[:, : self._newest.shape[1]] = self._newest
            self._newest = larger

    def drop(self, port: int, count: int) -> None:
        """Forget keys of which there are no rows any more, once they are many."""
        self._rows[port].drop(count)
        self._bases[port] += count
        if self._keys.are_many:
            lines = [each.lines[_KEY] for each in self._rows]
            used = distinct(np.concatenate(lines))
            used = used[used >= 0]
            numbers = self._keys.keep(used)
            for line in lines:
                line[line >= 0] = numbers[line[line >= 0]]
            newest = np.full((2, max(len(used), 1)), -1, np.int64)
            newest[:, : len(used)] = self._newest[:, used]
            self._newest = newest

    def jobs(self, arriving: Arriving) -> Iterator[Job]:
        """Tiles of pairs with equal keys."""
        progress = np.zeros(3, np.int64)
        starts = np.array([each.start for each in self._rows])
        left, right = (each.memory for each in self._rows)
        while progress[0] < len(arriving):
            found = np.empty(max(TILE, int(progress[2])), np.int64)
            kernels.follow_keys(
                arriving.ports,
                arriving.rows,
                arriving.firsts,
                arriving.lasts,
                left,
                right,
                starts,
                self._bases,
                self._newest,
                progress,
                found,
            )
            if progress[1]:
                yield lambda pairs=found[: int(progress[1])]: (*unpaired(pairs), False)  # type: ignore[misc]
