"""Compaction of a stream by tasks of Spark, while others write and read it.

What is to be merged is decided as embedded compaction decides it (:mod:`tidelog.store.upkeep.compaction_plan`), and put
in place as it does that (:mod:`tidelog.store.upkeep.rewriting`): one commit for each merge, which fails if an input has
left the stream meanwhile. Here many merges are made at once, and a large one by several tasks, each for an interval of
time.

A merge of one task is committed by that task, so a driver that dies takes nothing along that is done. Files of a merge
whose driver died before its commit belong to nothing, and a sweep removes them (:mod:`tidelog.store.split.removal`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from tidelog.engine.store import manifests_of
from tidelog.model.arguments import integer, pair
from tidelog.model.errors import ConflictError, TidelogError
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
from tidelog.spark.jobs.tasks import beside_the_store, in_tasks, outcomes
from tidelog.store.manifest.deletions import drop_deleted
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import THOROUGH
from tidelog.store.split.removal import give_up
from tidelog.store.upkeep.compaction import ATTEMPTS, Compacted
from tidelog.store.upkeep.compaction_plan import choose_merges, divided, is_within
from tidelog.store.upkeep.reclaiming import DeadRows, choose_dead
from tidelog.store.upkeep.rewriting import Rewriting, Written, rewrite, swap, unless_overtaken, write_anew

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class _Merge:
    """Splits to be merged, in so many tasks as there are intervals."""

    names: tuple[str, ...]
    width: int | None
    bytes: int
    intervals: tuple[Interval, ...]


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str],
    stream: str,
    range: tuple[Any, Any] | None = None,
    *,
    max_bytes: int | None = None,
    at_once: int | None = None,
    progress: ProgressCallback | None = None,
) -> Compacted:
    """Merge small and overlapping splits of a stream by tasks of Spark; returns what was done.

    Does what ``Stream.compact`` does, until nothing is left to do: splits become as large as the stream's
    ``split_bytes``, and regular where it has the option ``split``. ``range``, a start and an end, half-open, leaves
    alone splits that are not whole in it. At most ``max_bytes`` of files are read. ``at_once`` merges are under way at
    the same time, as many as the session can run tasks unless it is given. ``progress`` is called after each, in this
    thread.

    Takes no lock: writers and readers go on, and files that were merged stay for the grace period. Each merge is one
    commit, so whoever is interrupted calls this again and goes on from there. Merges whose splits somebody else has
    changed meanwhile are planned anew and counted (:attr:`Compacted.conflicts`).
    """
    if max_bytes is not None:
        max_bytes = integer("max_bytes", max_bytes, 1)
    range = None if range is None else pair("range", range)
    at_once = check_jobs(at_once, progress)
    place = place_of(spark, path, stream)
    total, state, in_vain = Compacted(is_done=False), Progress(), 0
    while in_vain < ATTEMPTS:
        left = None if max_bytes is None else max_bytes - total.bytes_read
        merges = beside_the_store(spark, _plan_merges, place, range, left)
        if not merges:
            is_done = left is None or not beside_the_store(spark, _plan_merges, place, range, None)
            total = replace(total, is_done=is_done)
            break
        state = replace(
            state,
            bytes_planned=state.bytes_done + sum(merge.bytes for merge in merges),
            steps_planned=state.steps_done + len(merges),
        )
        merged = 0
        for merge, outcome in side_by_side(spark, partial(_merge, spark, place), merges, at_once):
            merged += not outcome.is_conflict
            total = _with(total, outcome)
            state = advanced(state, merge.bytes, outcome.is_conflict)
            if progress is not None:
                progress(state)
        in_vain = 0 if merged else in_vain + 1
    beside_the_store(spark, _drop_deleted, place)
    return total


def _with(total: Compacted, outcome: Outcome) -> Compacted:
    return replace(
        total,
        merges=total.merges + (not outcome.is_conflict),
        splits_before=total.splits_before + outcome.splits_before,
        splits_after=total.splits_after + outcome.splits_after,
        bytes_read=total.bytes_read + outcome.bytes_read,
        bytes_written=total.bytes_written + outcome.bytes_written,
        conflicts=total.conflicts + outcome.is_conflict,
    )


def _plan_merges(place: Place, range: tuple[Any, Any] | None, max_bytes: int | None) -> list[_Merge]:
    """Merges that can be made at once, of so many bytes at most."""
    with place.open() as store:
        manifests = manifests_of(store, place.stream)
        manifest = manifests.load()
        within = Interval() if range is None else manifest.schema.clock.interval(*range)
        merges = list(choose_merges(manifest, THOROUGH, max_bytes, within))
        if not merges:  # which may take what is dead along
            dead = choose_dead(StreamContext.of(manifests), manifest, THOROUGH, DeadRows(), max_bytes)
            merges = [merge for merge in dead if all(is_within(split, within) for split in merge.inputs)]
    target = manifest.options.split_bytes
    found: list[_Merge] = []
    for merge in merges:
        if max_bytes is not None:
            if merge.bytes > max_bytes:
                break
            max_bytes -= merge.bytes
        names = tuple(split.name for split in merge.inputs)
        found.append(_Merge(names, merge.width, merge.bytes, tuple(divided(merge.inputs, target, merge.width))))
    return found


def _merge(spark: SparkSession, place: Place, merge: _Merge) -> Outcome:
    """Make one merge, by as many tasks as it has intervals."""
    if len(merge.intervals) == 1:
        return in_tasks(spark, partial(_merge_alone, place), [merge])[0]
    rewriting = beside_the_store(spark, _begin, place, merge)
    if rewriting is None:
        return Outcome(is_conflict=True)
    found = outcomes(spark, partial(_write_interval, place, rewriting), merge.intervals)
    written = [each for each in found if isinstance(each, Written)]
    errors = [each for each in found if isinstance(each, TidelogError)]
    if errors:
        return beside_the_store(spark, _give_up, place, merge, written, errors[0])
    return beside_the_store(spark, _swap, place, merge, rewriting, written)


def _merge_alone(place: Place, merge: _Merge) -> Outcome:
    """Make a merge, and commit it; in a task."""
    with place.open() as store:
        manifests = manifests_of(store, place.stream)
        anew = partial(rewrite, StreamContext.of(manifests), manifests, merge.names, width=merge.width)
        return Outcome.of(unless_overtaken(manifests, merge.names, anew))


def _begin(place: Place, merge: _Merge) -> Rewriting | None:
    with place.open() as store:
        try:
            return Rewriting.of(manifests_of(store, place.stream), merge.names, merge.width)
        except ConflictError:
            return None


def _write_interval(place: Place, rewriting: Rewriting, interval: Interval) -> Written:
    """Write what splits have in an interval; in a task."""
    with place.open() as store:
        return write_anew(StreamContext.of(manifests_of(store, place.stream)), rewriting, interval)


def _swap(place: Place, merge: _Merge, rewriting: Rewriting, written: Sequence[Written]) -> Outcome:
    with place.open() as store:
        manifests = manifests_of(store, place.stream)
        return Outcome.of(unless_overtaken(manifests, merge.names, partial(swap, manifests, rewriting, written)))


def _give_up(place: Place, merge: _Merge, written: Sequence[Written], error: TidelogError) -> Outcome:
    """Remove what tasks have written, because another one failed."""

    def fail() -> NoReturn:
        raise error

    with place.open() as store:
        manifests = manifests_of(store, place.stream)
        give_up(manifests, [split.name for each in written for split in each.splits])
        return Outcome.of(unless_overtaken(manifests, merge.names, fail))


def _drop_deleted(place: Place) -> None:
    """Take out what deletions have made superfluous, as those that applied to what was merged alone."""
    with place.open() as store:
        manifests = manifests_of(store, place.stream)
        drop_deleted(manifests, Snapshots(StreamContext.of(manifests), manifests).newest().unlisted)
