"""Keeping a stream in order: what is due is decided by its manifest and the time, and done in bounded steps.

Four things are: events beyond the stream's ``retention`` are deleted, splits are merged where that pays
(:mod:`tidelog.store.upkeep.compaction_plan`), those that are mostly dead are written anew
(:mod:`tidelog.store.upkeep.reclaiming`), and files whose grace period is over are removed. Everything is done by
commits that fit whatever others do meanwhile, so any number of processes may maintain the same stream, beside its
writer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.clock import INT64_MIN
from tidelog.store.manifest.deletions import drop_deleted, is_deleted, is_spent, retention_bound
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import EMPTY
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import AUTOMATIC, MergePolicy
from tidelog.store.split.removal import sweep
from tidelog.store.tail.state import read_split_names
from tidelog.store.upkeep.coarsening import Coarsened, coarsen, to_coarsen, whole_bound
from tidelog.store.upkeep.compaction import Compacted, compact
from tidelog.store.upkeep.compaction_plan import Merge, choose_merge
from tidelog.store.upkeep.reclaiming import DeadRows, cut_splits, worn_splits

STEP_BYTES: Final = 4
"""One merge reads so many times the size of a full split at most."""

SWEEP_COMMITS: Final = 64
"""Files of old manifests, and those that belong to nothing, are looked for after so many commits."""

_RETENTION_STEPS: Final = 16
"""Retention deletes when this part of it has passed since the last time, or when that frees a whole split."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done for a stream."""

    delete_before: int | None = None
    """The time before which retention deletes now."""
    coarsen_before: int | None = None
    """The time before which splits are to be coarsened, if there are such."""
    has_dead: bool = False
    """Whether there are splits in the manifest all of whose events are deleted, or deletions that are spent."""
    merge: Merge | None = None
    has_cut: bool = False
    """Whether ``deleted_before`` cuts large splits, which may be mostly dead: their trees know."""
    has_worn: bool = False
    """Whether much of a split is what late rows have left behind."""
    has_expired: bool = False
    """Whether files wait for their removal, or are to be looked for."""

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is."""
        return self == Due()


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done for a stream."""

    deleted_before: int | None = None
    """The time before which retention has deleted; None if it had nothing to delete."""
    splits_dropped: int = 0
    """Splits that left because all of their events are deleted."""
    coarsened: Coarsened = field(default_factory=Coarsened)
    compacted: Compacted = field(default_factory=Compacted)
    files_removed: int = 0


def what_is_due(
    manifest: Manifest,
    now: float,
    *,
    bounds: tuple[int, int] | None = None,
    swept: int = 0,
    policy: MergePolicy = AUTOMATIC,
) -> Due:
    """What is to be done for a stream at time ``now``, in seconds since 1970. Looks at nothing but its arguments.

    ``bounds`` are the first and the last time of its events, those of the tail included; None if it has none.
    ``swept`` is the number of the manifest at the last sweep.
    """
    expired = any(at + manifest.options.grace <= now for at in manifest.removed.values())
    return Due(
        delete_before=_due_bound(manifest, bounds),
        coarsen_before=_coarse_bound(manifest, bounds),
        has_dead=any(is_deleted(manifest, split) for split in manifest.splits.values()),
        merge=choose_merge(manifest, policy, STEP_BYTES * manifest.options.split_bytes),
        has_cut=any(cut_splits(manifest, policy)),
        has_worn=any(worn_splits(manifest, policy)),
        has_expired=expired or manifest.number - swept >= SWEEP_COMMITS,
    )


def _due_bound(manifest: Manifest, bounds: tuple[int, int] | None) -> int | None:
    """The instant before which retention deletes, if it is worth a commit.

    It is when a whole split goes, or when a sixteenth of the retention has passed since the last time.
    """
    kept = manifest.options.retention_ticks(manifest.schema.clock)
    if kept is None or bounds is None:
        return None
    first, newest = bounds
    bound = retention_bound(manifest, newest)
    before = first if manifest.deleted_before is None else max(first, manifest.deleted_before)
    if bound is None or bound <= before:
        return None
    frees = any(before <= split.time_max < bound for split in manifest.splits.values())
    return bound if frees or bound - before >= max(kept // _RETENTION_STEPS, 1) else None


def _coarse_bound(manifest: Manifest, bounds: tuple[int, int] | None) -> int | None:
    """The instant before which splits are coarsened to aggregates, if there are such splits."""
    after, _ = manifest.options.coarse_ticks(manifest.schema.clock)
    if after is None or bounds is None:
        return None
    before = max(bounds[1] - after, INT64_MIN)
    return before if to_coarsen(manifest, before, EMPTY) else None


def bounds_of(snapshot: Snapshot) -> tuple[int, int] | None:
    """The first and the last time of the events in a snapshot; None if it has none.

    The first may be that of an event which was overwritten. The last one is not: what is too old is judged by it, and
    an event from the future that was corrected must not take others with it.
    """
    newest: int | None = None
    parts = snapshot.living.parts
    for part in sorted(parts, key=lambda part: part.last, reverse=True):
        if newest is not None and part.last <= newest:
            break
        last = part.newest(ReadCounters())
        if last is not None:
            newest = last if newest is None else max(newest, last)
    return None if newest is None else (min(part.first for part in parts), newest)


class Maintenance:
    """Maintains one stream. Remembers nothing that matters: another one may go on. One thread at a time."""

    def __init__(self, context: StreamContext, manifests: ManifestLog, *, policy: MergePolicy = AUTOMATIC) -> None:
        self._context = context
        self._manifests = manifests
        self._snapshots = Snapshots(context, manifests)
        self._policy = policy
        self._swept = 0
        self._dead = DeadRows()

    def close(self) -> None:
        """Keep no file open any more."""
        self._snapshots.close()

    def due(self) -> Due:
        """What is to be done now."""
        return self._due(self._manifests.load())

    def _due(self, manifest: Manifest) -> Due:
        options = manifest.options
        # Only these go by what the tail has, too.
        goes_by_time = options.retention is not None or options.coarse_after is not None
        bounds = bounds_of(self._snapshots.newest()) if goes_by_time else None
        return what_is_due(
            manifest,
            self._manifests.clock(),
            bounds=bounds,
            swept=self._swept,
            policy=self._policy,
        )

    def run(
        self,
        *,
        max_bytes: int | None = None,
        may_go_on: Callable[[], bool] = lambda: True,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Maintained:
        """Do what is due; the arguments limit merges as they do for ``compact``."""
        manifest = self._manifests.load()
        due, options = self._due(manifest), manifest.options
        deleted = self._delete(due.delete_before, options)
        dropped = self._drop() if due.has_dead or deleted is not None else 0
        coarsened = self._coarsen(due.coarsen_before, options, may_go_on, is_over)
        done = Compacted()
        if due.merge is not None or due.has_cut or due.has_worn:
            done = compact(
                self._context,
                self._manifests,
                self._policy,
                max_bytes=max_bytes,
                max_step=STEP_BYTES * self._context.options.split_bytes,
                may_go_on=may_go_on,
                is_over=is_over,
                dead=self._dead,
            )
        if done.merges:
            self._drop()  # deletions that applied to what was merged alone
        removed = self._sweep() if due.has_expired else 0
        return Maintained(deleted, dropped, coarsened, done, removed)

    def _delete(self, bound: int | None, options: StreamOptions) -> int | None:
        """Delete what is before a time, unless somebody has changed the retention that these options have."""
        if bound is None:
            return None
        seen = self._snapshots.newest().visible

        before = self._manifests.load().deleted_before

        def change(manifest: Manifest) -> Change | None:
            if manifest.options.retention != options.retention:
                return None
            # Entries of coarse events go when all of what they stand for does; until then the bound may stay.
            whole = whole_bound(self._context, manifest, bound)
            is_later = manifest.deleted_before is None or whole > manifest.deleted_before
            return Change(deleted_before=whole, deleted_seen=seen) if is_later else None

        after = self._manifests.commit(change, frees=True).deleted_before
        return None if after == before else after

    def _coarsen(
        self,
        before: int | None,
        options: StreamOptions,
        may_go_on: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> Coarsened:
        """Coarsen what is before a time, as long as nobody changes what these options say about it."""
        if before is None:
            return Coarsened()
        manifest = self._manifests.load()
        _, grain = options.coarse_ticks(manifest.schema.clock)

        def is_wanted(manifest: Manifest) -> bool:
            now = manifest.options
            return (now.coarse_after, now.coarse_grain) == (options.coarse_after, options.coarse_grain)

        return coarsen(
            self._context,
            self._manifests,
            before,
            grain,
            self._snapshots.newest,
            may_go_on=may_go_on,
            is_over=is_over,
            is_wanted=is_wanted,
        )

    def _drop(self) -> int:
        """Remove splits all of whose events are deleted, and deletions that are spent; returns the number of splits."""
        snapshot = self._snapshots.newest()
        manifest = snapshot.manifest
        dead = sum(is_deleted(manifest, split) for split in manifest.splits.values())
        if dead or any(is_spent(manifest, deletion, snapshot.unlisted) for deletion in manifest.deletions):
            drop_deleted(self._manifests, snapshot.unlisted)
        return dead

    def _sweep(self) -> int:
        in_use = read_split_names(self._context.medium, self._context.directory)
        swept = sweep(self._context.medium, self._manifests, self._manifests.clock(), keep=in_use)
        self._swept = self._manifests.load().number
        return len(swept.deleted) + len(swept.pruned)
