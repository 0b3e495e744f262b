"""Cutting the levels below one off the trees of old splits, so that they stay answerable at a coarser grain.

A split all of whose events are before a time is replaced by a reduced one (:mod:`tidelog.store.reduced`). What was
deleted of it is left out first, by writing it anew, for entries cannot be taken apart; and so it gets states of
user-defined aggregates that it lacks, for without events they cannot be computed any more. The file is durable before
the commit that swaps it in, which fails if the split has left, or something of it was deleted, meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tidelog.model.errors import ConflictError, GrainError, NotFoundError
from tidelog.store.filenames import new_file_name
from tidelog.store.manifest import Change, Deletion, Manifest, ManifestLog
from tidelog.store.opensplit import Site, closed_tree
from tidelog.store.rebuilding import lacks_states
from tidelog.store.reduced import SUFFIX, Reduced, read_reduced, write_reduced
from tidelog.store.retention import give_up
from tidelog.store.rewriting import rewrite
from tidelog.store.seqset import SeqSet, Span
from tidelog.store.split_info import SplitInfo


@dataclass(frozen=True, slots=True)
class Coarsened:
    """What became of splits that were old enough."""

    splits: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def to_coarsen(manifest: Manifest, before: int, journaled: SeqSet) -> list[SplitInfo]:
    """The splits all of whose events are before a time, oldest first, that can be reduced.

    ``journaled`` are the numbers of rows in the tail's journal, of which splits may have some: they are compared with
    it row by row when the tail is opened, so they stay as they are for now.
    """
    found = [
        split
        for split in manifest.splits.values()
        if split.kind != "reduced" and split.time_max < before and not journaled.overlaps(split.seq_min, split.seq_max)
    ]
    return sorted(found, key=lambda split: (split.time_min, split.time_max, split.name))


def coarsen(
    site: Site,
    manifests: ManifestLog,
    before: int,
    grain: int | None,
    journaled: Callable[[], Iterable[Span]],
    *,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Coarsened:
    """Reduce the splits all of whose events are before a time; ``may_go_on`` is asked before each.

    Each keeps the entries of the highest level at which none is longer than ``grain`` ticks, else those of its leaves,
    as it does for None. Splits that leave meanwhile are passed over. ``journaled`` tells which numbers rows in the
    tail's journal have now (``Snapshot.journaled``).
    """
    splits = rows = size_before = size_after = 0
    manifest = manifests.load()
    site = site.at(manifest)
    # In this order: rows are in the journal before they are in a closed split, so what is asked for now has the numbers
    # of all those in the manifest; asked before it, rows of a split that was closed in between would be missed.
    for split in to_coarsen(manifest, before, SeqSet(journaled())):
        if not may_go_on():
            break
        for old in _ready(site, manifests, split):
            new = _reduce(site, manifests, old, grain)
            if new is not None:
                splits += 1
                rows += new.rows
                size_before += old.bytes
                size_after += new.bytes
    return Coarsened(splits, rows, size_before, size_after)


def _ready(site: Site, manifests: ManifestLog, split: SplitInfo) -> Iterable[SplitInfo]:
    """A split, or what is written in its place if rows of it are deleted, or its tree lacks states."""
    if not _is_touched(manifests.load(), split) and not lacks_states(site, split):
        return (split,)
    try:
        width = site.options.split_ticks(site.layout.schema.clock) if split.boundary is not None else None
        return rewrite(site, manifests, [split.name], width=width).added
    except (ConflictError, NotFoundError):
        if split.name in manifests.load().splits:
            raise
        return ()


def _is_touched(manifest: Manifest, split: SplitInfo) -> bool:
    """Whether some of its rows may be deleted."""
    bound = manifest.deleted_before
    return (bound is not None and split.time_min < bound) or any(mark.concerns(split) for mark in manifest.deletions)


def _reduce(site: Site, manifests: ManifestLog, old: SplitInfo, grain: int | None) -> SplitInfo | None:
    """Put the entries of a split in its place; None if it has left."""
    site = site.at(manifests.load())  # which knows the version of the schema that the split has
    try:
        tree, reader = closed_tree(site, old)
    except NotFoundError:
        return None
    with reader:
        chosen = Reduced.of_tree(tree, 1)
        while grain is not None and len(chosen.entries) > 1:
            higher = Reduced.of_tree(tree, chosen.level + 1)
            if higher.widest > grain or len(higher.entries) == len(chosen.entries):
                break
            chosen = higher
    if site.history is not None:  # under the names that the columns have in the split's version of the schema
        chosen = replace(chosen, layout=chosen.layout.renamed(site.history.schemas[old.schema].names))
    name = new_file_name(site.now(), SUFFIX)
    size = write_reduced(site.medium, site.path(name), chosen)
    number = manifests.load().number
    new = replace(old, name=name, kind="reduced", bytes=size, root=b"", clean_at=max(number, 1), created_at=site.now())

    def swap(manifest: Manifest) -> Change:
        if old.name not in manifest.splits or _is_touched(manifest, old):
            raise ConflictError(f"split {old.name} has changed while it was reduced; try again")
        return Change(remove=(old.name,), add=(replace(new, clean_at=manifest.number),))

    try:
        manifests.commit(swap)
    except ConflictError:
        give_up(manifests, [name])
        return None
    return new


# What deletions must leave whole. ---------------------------------------------------------------------


def whole_bound(site: Site, manifest: Manifest, bound: int) -> int:
    """The latest time, not after ``bound``, before which everything can be deleted without taking an entry apart."""
    while True:
        lower = bound
        for split in manifest.splits.values():
            if split.kind == "reduced" and split.time_min < bound <= split.time_max:
                reduced = read_reduced(site.medium, site.path(split.name))
                cut = reduced.cut_by(bound)
                if cut is not None:
                    lower = min(lower, int(reduced.lows[cut]))
        if lower == bound:
            return bound
        bound = lower  # which may be inside of an entry of another split


def refuse_cut(site: Site, manifest: Manifest, bound: int) -> None:
    """Raise :class:`GrainError` if deleting everything before a time would take an entry apart."""
    whole = whole_bound(site, manifest, bound)
    if whole != bound:
        show = manifest.schema.clock.format
        raise GrainError(
            f"cannot delete what is before {show(bound)}: that is inside of an entry of reduced events, which cannot "
            f"be taken apart; delete what is before {show(whole)}, or choose a later time",
            grain=(whole, bound),
        )


def refuse_overwrite(manifest: Manifest, mark: Deletion) -> None:
    """Raise :class:`GrainError` if a mark would delete a part of a reduced split."""
    for split in manifest.splits.values():
        # A mark that is not committed yet has no number, so its bounds are all there is to go by.
        if split.kind == "reduced" and mark.touches(split.time_min, split.time_max, split.seq_min, split.seq_max):
            start, end = mark.interval.start, mark.interval.end
            if (start is None or start <= split.time_min) and (end is None or end > split.time_max):
                continue
            show = manifest.schema.clock.format
            raise GrainError(
                f"cannot overwrite a part of the events from {show(split.time_min)} to {show(split.time_max)}, which "
                "are reduced; overwrite all of them, or none",
                grain=(split.time_min, split.time_max),
            )
