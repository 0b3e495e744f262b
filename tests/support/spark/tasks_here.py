"""A stand-in for a Spark session that runs tasks in this process, one after the other.

For tests of what drivers and tasks do to a store: Spark itself adds nothing to these but time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class _Frame:
    """Numbers, one in each partition, and what is done with them."""

    partitions: list[pa.RecordBatch]
    work: _Work | None = None

    def mapInArrow(self, work: _Work, schema: Any) -> _Frame:  # noqa: N802  (these names are Spark's)
        return _Frame(self.partitions, work)

    def collect(self) -> list[dict[str, Any]]:
        assert self.work is not None
        return [row for part in self.partitions for batch in self.work([part]) for row in batch.to_pylist()]


class TasksHere:
    """What of a session is needed to run tasks."""

    def range(self, start: int, end: int, step: int, partitions: int) -> _Frame:
        """Numbers, one in each partition."""
        assert (step, partitions) == (1, end - start)
        return _Frame([pa.record_batch([pa.array([number], pa.int64())], ["id"]) for number in range(start, end)])
