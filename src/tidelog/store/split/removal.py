"""How files of splits leave the disk: when nobody reads them any more, or never will.

A file leaves in three steps, so that neither a reader nor a late committer is ever surprised:

1. A commit takes it out of the manifest and notes the time in ``removed``: as a split that was replaced or whose events
   are all deleted, or as an *orphan*, a file in ``splits`` that no manifest names. From here on no commit can add it.
2. When the grace period is over, :func:`sweep` removes it from the disk.
3. A commit forgets it.

Files have no times of their own; names tell when they were made (:mod:`tidelog.store.log.file_names`). A file with any
other name is not ours, or not for us to judge: it is reported, and never removed. Orphans come from writers that were
killed; they look like the files of writers that have not committed yet. Therefore three kinds are spared: those whose
lock somebody holds, those in use by the tail, which the caller names, and all younger than :data:`ORPHAN_AGE`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidelog.model.errors import LockedError, NotFoundError, StorageError
from tidelog.storage.media.medium import Medium
from tidelog.storage.media.reserve import FULL
from tidelog.store.log.file_names import born_at, join, stem_of
from tidelog.store.manifest.manifest import SPLITS, Change, Manifest, ManifestLog, split_path

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
        # As long as a journal names it, it must be known that it has left, and was not lost.
        if not stuck and name not in keep:
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

    log.commit(change, frees=True)
    return Swept(
        deleted=tuple(deleted),
        condemned=tuple(split_path(log.directory, name) for name in condemned),
        pruned=tuple(log.prune(now)),
        held=tuple(held),
    )


def remove_orphans(
    medium: Medium, log: ManifestLog, now: float, *, keep: Collection[str], older_than: float = ORPHAN_AGE
) -> list[str]:
    """Remove orphans that are older than so many seconds at time ``now``, at once; returns their names on the medium.

    Spares what :func:`sweep` spares. Nobody can be reading them, so there is no grace period; whoever was about to
    commit one is refused.
    """
    groups = _files_by_stem(medium, log.directory)
    lost = [
        paths[0].rpartition("/")[2]
        for stem, paths in groups.items()
        if (born := born_at(paths[0])) is not None and born + older_than <= now and stem not in map(stem_of, keep)
    ]
    gone = give_up(log, [name for name in lost if not _is_locked(medium, groups[stem_of(name)])])
    return [path for name in gone for path in groups[stem_of(name)]]


def give_up(log: ManifestLog, names: Collection[str]) -> list[str]:
    """Remove files in ``splits`` that were never committed; returns the names of those that were.

    Safe even if they were committed, or are just now: files that a manifest names, or named, stay, and those that go
    can no longer be committed.
    """
    given_up: list[str] = []

    def condemn(manifest: Manifest) -> Change:
        known = {stem_of(name) for name in (*manifest.splits, *manifest.removed)}
        given_up[:] = [name for name in names if stem_of(name) not in known]
        return Change(condemn=tuple(given_up))

    log.commit(condemn, frees=True)
    gone = remove_splits(log.medium, log.directory, given_up)
    if gone:
        log.commit(lambda manifest: Change(forget=tuple(name for name in gone if name in manifest.removed)), frees=True)
    return gone


def after_failed_commit(log: ManifestLog, names: Collection[str], error: StorageError) -> None:
    """Remove files in ``splits`` whose commit ended with an error, unless it took effect all the same.

    As far as that is possible: what is left is an orphan. It matters on a full disk, which such files keep full.
    """
    with suppress(StorageError, NotFoundError):
        if error.errno not in FULL:  # nobody knows what the medium has done: then a commit has to tell
            give_up(log, names)
            return
        manifest = log.load()
        known = {stem_of(name) for name in (*manifest.splits, *manifest.removed)}
        remove_splits(log.medium, log.directory, [name for name in names if stem_of(name) not in known])


def remove_splits(medium: Medium, directory: str, names: Collection[str]) -> list[str]:
    """Remove the files of splits, and their locks; returns the names of splits of which nothing is left."""
    gone = [name for name in names if not _remove(medium, medium.names(split_path(directory, f"{stem_of(name)}.")))]
    if gone:
        medium.sync_names(join(directory, SPLITS))
    return gone


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
