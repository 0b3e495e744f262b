"""Jobs of Spark that maintain a stream: many side by side, each of which may be made in vain, and how far they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from tidelog.engine.store import Store
from tidelog.model.arguments import found, integer
from tidelog.spark.datasource.options import shared_path
from tidelog.spark.jobs.tasks import beside_the_store
from tidelog.spark.runtime.session import is_remote
from tidelog.store.upkeep.rewriting import Rewritten
from tidelog.threads import Threads, taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_AT_ONCE: Final = 256
"""Jobs under way at once, however many tasks a session can run: each has a thread of the driver."""

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a compaction or a rebuilding has come. What is left can grow: merges make new ones possible."""

    bytes_done: int = 0
    """Bytes of splits that were written anew, or left to others because of a conflict."""
    bytes_planned: int = 0
    """Those, and what is known to be left."""
    steps_done: int = 0
    steps_planned: int = 0
    conflicts: int = 0


ProgressCallback: TypeAlias = Callable[[Progress], None]


def advanced(state: Progress, bytes: int, is_conflict: bool) -> Progress:
    """The progress after one more step."""
    return replace(
        state,
        bytes_done=state.bytes_done + bytes,
        steps_done=state.steps_done + 1,
        conflicts=state.conflicts + is_conflict,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A stream, for tasks."""

    path: str
    stream: str

    def open(self) -> Store:
        """The store, to be written."""
        return Store.open(self.path, maintenance="manual")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of some splits; None of it is known of a conflict but that."""

    splits_before: int = 0
    splits_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    is_conflict: bool = False

    @classmethod
    def of(cls, done: Rewritten | None) -> Outcome:
        """That of a rewriting; None stands for a conflict."""
        if done is None:
            return cls(is_conflict=True)
        written = sum(split.bytes for split in done.added)
        return cls(len(done.removed), len(done.added), done.bytes_read, written)


def place_of(spark: SparkSession, path: str | os.PathLike[str], stream: str) -> Place:
    """A stream, which must exist."""
    place = Place(shared_path(path, is_remote=is_remote(spark)), stream)
    beside_the_store(spark, _refuse_absent, place)
    return place


def _refuse_absent(place: Place) -> None:
    """Raise :class:`NotFoundError` if there is no such store, which is not to be made, or no such stream."""
    with Store.open(place.path, read_only=True) as store:
        store.stream(place.stream)


def check_jobs(at_once: int | None, progress: object) -> int | None:
    """How many jobs there are at a time. Raises :class:`InputError` for what is none, or cannot be told of them."""
    if progress is not None and not callable(progress):
        raise found("progress", progress, "a function that is told how far it is")
    return None if at_once is None else integer("at_once", at_once, 1)


def side_by_side(
    spark: SparkSession, work: Callable[[_Job], _Done], jobs: Iterable[_Job], at_once: int | None
) -> Iterator[tuple[_Job, _Done]]:
    """Do some work for jobs, several at a time, each of which starts tasks of its own; yields what was done.

    After an error, or if the caller stops, no more jobs are begun, and those under way are waited for.
    """
    waiting = list(jobs)
    ended: SimpleQueue[int] = SimpleQueue()

    def do(index: int) -> _Done:
        try:
            return work(waiting[index])
        finally:
            ended.put(index)

    threads = Threads(at_once or _tasks_at_once(spark))
    tasks = [threads.submit(partial(do, index)) for index in range(len(waiting))]
    try:
        for _ in tasks:
            index = taken(ended)
            yield waiting[index], tasks[index].result()
    finally:
        for task in tasks:
            task.cancel()
        threads.end()


def _tasks_at_once(spark: SparkSession) -> int:
    """How many tasks a session runs at once, by its own account: frames of numbers have a partition for each."""
    from pyspark.sql import functions

    partitions = spark.range(0, _MOST_AT_ONCE).select(functions.spark_partition_id()).distinct()
    return partitions.count()
