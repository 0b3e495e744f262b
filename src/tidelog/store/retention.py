"""What may leave: events by marks in the manifest, splits when all their events have, files when nobody reads them.

A file leaves in three steps, so that neither a reader nor a late committer is ever surprised:

1. A commit takes it out of the manifest and notes the time in ``removed``: as a split that was replaced or whose events
   are all deleted, or as an *orphan*, a file in ``splits`` that no manifest names. From here on no commit can add it.
2. When the grace period is over, :func:`sweep` removes it from the disk.
3. A commit forgets it.

Files have no times of their own; names tell when they were made (:mod:`tidelog.store.filenames`). A file with any other
name is not ours, or not for us to judge: it is reported, and never removed. Orphans come from writers that were killed;
they look like the files of writers that have not committed yet. Therefore three kinds are spared: those whose lock
somebody holds, those in use by the tail, which the caller names, and all younger than :data:`ORPHAN_AGE`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidelog.model.errors import LockedError, NotFoundError
from tidelog.model.time import INT64_MIN
from tidelog.storage.media import Medium
from tidelog.store.filenames import born_at, join, stem_of
from tidelog.store.manifest import SPLITS, Change, Deletion, Manifest, ManifestLog, split_path
from tidelog.store.split_info import SplitInfo

ORPHAN_AGE: Final = 86_400.0
"""Seconds after which a file that was never committed is given up: more than any job takes from file to commit."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file in ``splits`` that no manifest names."""

    path: str
    born_at: float | None
    """Seconds since 1970; None if its name does not tell, and so it is never removed."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did, by names on the medium."""

    deleted: tuple[str, ...] = ()
    """Files of removed splits and orphans that are gone from the disk."""
    condemned: tuple[str, ...] = ()
    """Orphans given up just now, which go when the grace period is over."""
    pruned: tuple[str, ...] = ()
    """Files of old manifests that are gone from the disk."""
    held: tuple[str, ...] = ()
    """Files that should have gone, but are locked."""


# Events and splits. -----------------------------------------------------------------------------------


def retention_bound(manifest: Manifest, newest: int) -> int | None:
    """The instant before which the stream's ``retention`` deletes, if its newest event is at ``newest``."""
    kept = manifest.options.retention_ticks(manifest.schema.clock)
    return None if kept is None else max(newest - kept, INT64_MIN)


def is_deleted(manifest: Manifest, split: SplitInfo) -> bool:
    """Whether the marks of a manifest, alone or together, delete every event of a split."""
    intervals = [mark.interval for mark in manifest.deletions if split.seq_max < mark.below_seq]
    spans = [(INT64_MIN if each.start is None else each.start, each.end) for each in intervals]
    if manifest.deleted_before is not None:
        spans.append((INT64_MIN, manifest.deleted_before))
    reached = split.time_min  # everything before it is deleted
    for start, end in sorted(spans, key=lambda span: span[0]):
        if start > reached:
            break
        if end is None or end > split.time_max:
            return True
        reached = max(reached, end)
    return False


def is_spent(manifest: Manifest, mark: Deletion, first_unlisted_seq: int) -> bool:
    """Whether no event can be left that a mark applies to, so that it may be taken back.

    ``first_unlisted_seq``: rows that are in no split of the manifest (the tail's) have this sequence number at least.
    """
    bound, end = manifest.deleted_before, mark.interval.end
    if bound is not None and end is not None and end <= bound:
        return True
    return first_unlisted_seq >= mark.below_seq and not any(
        split.seq_min < mark.below_seq and split.interval.overlaps(mark.interval) for split in manifest.splits.values()
    )


def drop_deleted(log: ManifestLog, first_unlisted_seq: int = 0) -> Manifest:
    """Remove the splits that marks delete whole, then the marks that are spent; see :func:`is_spent` for the number."""

    def change(manifest: Manifest) -> Change:
        gone = tuple(name for name, split in manifest.splits.items() if is_deleted(manifest, split))
        rest = manifest.changed(Change(remove=gone), manifest.number, manifest.at)
        return Change(
            remove=gone,
            undelete=tuple(mark for mark in rest.deletions if is_spent(rest, mark, first_unlisted_seq)),
        )

    return log.commit(change)


# Files. -----------------------------------------------------------------------------------------------


def orphans(medium: Medium, log: ManifestLog, *, keep: Collection[str] = ()) -> list[Orphan]:
    """Files in ``splits`` that neither the newest manifest names nor ``keep`` (names in ``splits``), of any age.

    A file that is being written, or waits for its commit, is among them.
    """
    groups = _files_by_stem(medium, log.directory)  # listed first: a split is on disk before it is in a manifest
    manifest = log.load()
    known = {stem_of(name) for name in (*manifest.splits, *manifest.removed, *keep)}
    unknown = [path for stem, paths in groups.items() if stem not in known for path in paths]
    return [Orphan(path, born_at(path)) for path in sorted(unknown)]


def sweep(
    medium: Medium, log: ManifestLog, now: float, *, keep: Collection[str], orphan_age: float = ORPHAN_AGE
) -> Swept:
    """Remove from the disk what may go at time ``now``, in seconds since 1970, and mark what may go later.

    ``keep`` are the names in ``splits`` that the tail uses, such as its open split, as they were before this call. Any
    number of sweeps may run at once, next to readers and writers.
    """
    groups = _files_by_stem(medium, log.directory)
    manifest = log.load()
    due = [name for name, at in manifest.removed.items() if at + manifest.options.grace <= now]
    deleted: list[str] = []
    held: list[str] = []
    forget = []
    for name in due:
        paths = groups.get(stem_of(name), [])
        stuck = _remove(medium, paths)
        held += stuck
        deleted += [path for path in paths if path not in stuck]
        if not stuck:
            forget.append(name)
    if deleted:
        medium.sync_names(join(log.directory, SPLITS))  # before they are forgotten: else they might come back unknown
    lost = [
        (stem, paths[0].rpartition("/")[2])
        for stem, paths in groups.items()
        if (born := born_at(paths[0])) is not None and born + orphan_age <= now and not _is_locked(medium, paths)
    ]
    condemned: list[str] = []

    def change(newest: Manifest) -> Change:
        known = {stem_of(name) for name in (*newest.splits, *newest.removed, *manifest.removed, *keep)}
        condemned[:] = [name for stem, name in lost if stem not in known]
        return Change(condemn=tuple(condemned), forget=tuple(name for name in forget if name in newest.removed))

    log.commit(change)
    return Swept(
        deleted=tuple(deleted),
        condemned=tuple(split_path(log.directory, name) for name in condemned),
        pruned=tuple(log.prune(now)),
        held=tuple(held),
    )


def _files_by_stem(medium: Medium, directory: str) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for path in medium.names(join(directory, f"{SPLITS}/")):
        groups[stem_of(path)].append(path)
    return dict(groups)


def _is_locked(medium: Medium, paths: list[str]) -> bool:
    return any(path.endswith(".lock") and medium.is_locked(path) for path in paths)


def _remove(medium: Medium, paths: list[str]) -> list[str]:
    """Remove the files of a stem, or none if one is locked; returns those that stay."""
    if _is_locked(medium, paths):
        return list(paths)
    stuck = []
    for path in paths:
        try:
            with suppress(NotFoundError):
                medium.remove(path)
        except LockedError:  # taken since we looked
            stuck.append(path)
    return stuck
