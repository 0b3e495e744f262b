"""Rebuilding the splits of a stream by tasks of Spark, so that their trees keep all of its user-defined aggregates.

One task for each split, which commits it too (:mod:`tidelog.store.upkeep.rebuilding`): what is done stays done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tidelog.aggregates import Binding
from tidelog.engine.altering import several
from tidelog.engine.store import manifests_of
from tidelog.model.arguments import names, pair
from tidelog.model.errors import NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.spark.jobs.running import (
    Outcome,
    Place,
    Progress,
    ProgressCallback,
    advanced,
    check_jobs,
    place_of,
    side_by_side,
)
from tidelog.spark.jobs.tasks import beside_the_store, import_all, in_tasks
from tidelog.store.split.context import StreamContext
from tidelog.store.upkeep.rebuilding import rebuild_split, to_rebuild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuilding has done."""

    splits: int = 0
    """Splits that were written anew."""
    bytes_read: int = 0
    bytes_written: int = 0
    conflicts: int = 0
    """Splits that left the stream meanwhile: merged by somebody, or deleted."""
    is_done: bool = True
    """Whether all closed splits have the stream's aggregates now."""


def rebuild(
    spark: SparkSession,
    path: str | os.PathLike[str],
    stream: str,
    aggregates: str | Binding | Sequence[str | Binding] = (),
    range: tuple[Any, Any] | None = None,
    *,
    imports: Sequence[str] = (),
    at_once: int | None = None,
    progress: ProgressCallback | None = None,
) -> Rebuilt:
    """Write closed splits anew that lack user-defined aggregates of the stream, by tasks; returns what was done.

    ``aggregates``, e.g. ``"second_largest(price)"``, are attached first, as ``Stream.attach`` does it; without them
    the stream has those it has. ``imports`` are the modules that register the code of such ones, to be imported by the
    tasks. ``range``, a start and an end, half-open, leaves alone splits that have nothing in it. ``at_once`` and
    ``progress`` are as for :func:`tidelog.spark.compact`.

    Takes no lock. Each split is one commit, so whoever is interrupted calls this again and goes on from there. What the
    tail is writing gets new aggregates with its next split.
    """
    range = None if range is None else pair("range", range)
    at_once = check_jobs(at_once, progress)
    imports = names("imports", imports, "module")
    given = several(aggregates)
    place = place_of(spark, path, stream)
    splits, digest = beside_the_store(spark, _plan_rebuilding, place, given, range, tuple(imports))
    state = Progress(bytes_planned=sum(size for _, size in splits), steps_planned=len(splits))
    total = Rebuilt(is_done=False)
    work = partial(_rebuild_in_task, spark, partial(_rebuild_split, place, digest), tuple(imports))
    for (_, size), outcome in side_by_side(spark, work, splits, at_once):
        total = Rebuilt(
            splits=total.splits + (not outcome.is_conflict),
            bytes_read=total.bytes_read + outcome.bytes_read,
            bytes_written=total.bytes_written + outcome.bytes_written,
            conflicts=total.conflicts + outcome.is_conflict,
            is_done=False,
        )
        state = advanced(state, size, outcome.is_conflict)
        if progress is not None:
            progress(state)
    left, _ = beside_the_store(spark, _plan_rebuilding, place, [], None, tuple(imports))
    return replace(total, is_done=not left)


_Splits: TypeAlias = list[tuple[str, int]]
"""Names and sizes."""


def _plan_rebuilding(
    place: Place, aggregates: Sequence[str | Binding], range: tuple[Any, Any] | None, imports: Sequence[str]
) -> tuple[_Splits, str]:
    """The splits to be written anew, and the digest of the states that they are to have."""
    import_all(imports)
    with place.open() as store:
        found = store.stream(place.stream)
        if aggregates:
            found.attach(aggregates)
        manifests = manifests_of(store, place.stream)
        manifest = manifests.load()
        context = StreamContext.of(manifests)
        within = Interval() if range is None else manifest.schema.clock.interval(*range)
        splits = [(info.name, info.bytes) for info in to_rebuild(context, manifest, within)]
    return splits, context.layout.states.digest


def _rebuild_in_task(
    spark: SparkSession, work: Callable[[str], Outcome], imports: Sequence[str], split: tuple[str, int]
) -> Outcome:
    return in_tasks(spark, work, [split[0]], imports)[0]


def _rebuild_split(place: Place, digest: str, name: str) -> Outcome:
    """Write a split anew, and commit it; in a task."""
    with place.open() as store:
        manifests = manifests_of(store, place.stream)
        context = StreamContext.of(manifests)
        if context.layout.states.digest != digest:
            raise NotFoundError(
                f"the code of the aggregates of stream {place.stream!r} is not the same for tasks of Spark as for the "
                "driver; name the modules that register it: imports=[...]"
            )
        return Outcome.of(rebuild_split(context, manifests, name))
