"""Cutting the levels below one off the trees of old splits, so that they stay answerable at a coarser grain.

A split all of whose events are before a time is replaced by a coarse one (:mod:`tidelog.store.split.coarse`). What
was deleted of it is left out first, by writing it anew, for entries cannot be taken apart; and so it gets states of
user-defined aggregates that it lacks, for without events they cannot be computed any more. The file is durable before
the commit that swaps it in, which fails if the split has left, or something of it was deleted, meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tidelog.model.errors import ConflictError, GrainError, NotFoundError
from tidelog.store.log.file_names import new_file_name
from tidelog.store.manifest.manifest import Change, Deletion, Manifest, ManifestLog
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.split.coarse import SUFFIX, CoarseEntries, read_coarse, write_coarse
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import closed_tree
from tidelog.store.split.removal import give_up
from tidelog.store.upkeep.alignment import aligned, bounds_over
from tidelog.store.upkeep.rebuilding import lacks_states
from tidelog.store.upkeep.rewriting import rewrite


@dataclass(frozen=True, slots=True)
class Coarsened:
    """What became of splits that were old enough."""

    splits: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def to_coarsen(
    manifest: Manifest, before: int, journaled: SeqSet, open_splits: Iterable[Extent] = ()
) -> list[SplitInfo]:
    """The splits all of whose events are before a time that can be coarsened, in the order in which they have to be.

    ``journaled`` are the numbers of rows in the tail's journal, of which splits may have some: they are compared with
    it row by row when the tail is opened, so they stay as they are for now. Splits that lie over denser ones follow
    them, because their entries are to end where those of the denser ones do (:mod:`tidelog.store.upkeep.alignment`);
    and wait if these cannot be coarsened yet, as those that the tail is writing, ``open_splits``.
    """
    found: list[SplitInfo] = []
    others = list(open_splits)
    for split in manifest.splits.values():
        if split.kind == "coarse":
            continue
        if split.time_max < before and not journaled.overlaps(split.seq_min, split.seq_max):
            found.append(split)
        else:
            others.append(_extent(split))
    found.sort(key=lambda split: (_spread(_extent(split)), split.time_min, split.name))
    waiting = _Waiting(others, len(found))
    chosen = []
    for split in found:
        if waiting.lies_over(_extent(split)):
            waiting.add(_extent(split))
        else:
            chosen.append(split)
    return chosen


Extent: TypeAlias = tuple[int, int, int]
"""The first and the last time of a split, and how many rows it has."""


def _extent(split: SplitInfo) -> Extent:
    return split.time_min, split.time_max, split.rows


def _spread(extent: Extent) -> float:
    """How long an entry of so many rows is, more or less."""
    first, last, rows = extent
    return (last - first) / rows


class _Waiting:
    """Splits that stay whole for now."""

    def __init__(self, extents: Sequence[Extent], room: int) -> None:
        """There is room for so many more."""
        self._count = 0
        self._bounds = np.empty((2, len(extents) + room), np.int64)
        self._spreads = np.empty(len(extents) + room, np.float64)
        for extent in extents:
            self.add(extent)

    def add(self, extent: Extent) -> None:
        """One more; one with a single time does not matter, for no range cuts it."""
        first, last, _ = extent
        if first < last:
            self._bounds[:, self._count] = first, last
            self._spreads[self._count] = _spread(extent)
            self._count += 1

    def lies_over(self, extent: Extent) -> bool:
        """Whether a split lies over denser ones of these; what ends where another one begins does not."""
        first, last, _ = extent
        firsts, lasts = self._bounds[:, : self._count]
        is_near = (firsts < last) & (lasts > first) & (self._spreads[: self._count] < _spread(extent))
        return first < last and bool(is_near.any())


def coarsen(
    context: StreamContext,
    manifests: ManifestLog,
    before: int,
    grain: int | None,
    look: Callable[[], Snapshot],
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    is_over: Callable[[], bool] = lambda: False,
    is_wanted: Callable[[Manifest], bool] = lambda _: True,
) -> Coarsened:
    """Coarsen the splits all of whose events are before a time; ``may_go_on`` is asked before each.

    Each keeps the entries of the highest level at which none is longer than ``grain`` ticks, else those of its leaves,
    as it does for None; where it lies over others, cut where theirs are. Splits that leave meanwhile are passed over.
    ``look`` gives the newest snapshot of what was flushed. ``is_over`` is asked while a split is written anew, and
    raises :class:`ClosedError` out of that. A split is coarsened only if the manifest that this becomes part of says
    that it ``is_wanted``, for it cannot be taken back.
    """
    splits = rows = size_before = size_after = 0
    manifest = manifests.load()
    context = context.at(manifest)
    # In this order: rows are in the journal before they are in a closed split, so what is asked for now has the numbers
    # of all those in the manifest; asked before it, rows of a split that was closed in between would be missed.
    snapshot = look()
    open_splits = [
        (part.first, part.last, part.rows) for part in snapshot.parts if part.info is None and not part.in_memory
    ]
    for split in to_coarsen(manifest, before, SeqSet(snapshot.journaled), open_splits):
        if not (may_go_on() and is_wanted(manifests.load())):
            break
        for old in _ready(context, manifests, split, is_over):
            new = _reduce(context, manifests, old, grain, is_wanted)
            if new is not None:
                splits += 1
                rows += new.rows
                size_before += old.bytes
                size_after += new.bytes
    return Coarsened(splits, rows, size_before, size_after)


def _ready(
    context: StreamContext, manifests: ManifestLog, split: SplitInfo, is_over: Callable[[], bool]
) -> Iterable[SplitInfo]:
    """A split, or what is written in its place if rows of it are deleted, or its tree lacks states."""
    if not _is_touched(manifests.load(), split) and not lacks_states(context, split):
        return (split,)
    try:
        width = context.options.split_ticks(context.layout.schema.clock) if split.boundary is not None else None
        return rewrite(context, manifests, [split.name], width=width, is_over=is_over).added
    except (ConflictError, NotFoundError):
        if split.name in manifests.load().splits:
            raise
        return ()


def _is_touched(manifest: Manifest, split: SplitInfo) -> bool:
    """Whether some of its rows may be deleted."""
    bound = manifest.deleted_before
    return (bound is not None and split.time_min < bound) or any(
        deletion.concerns(split) for deletion in manifest.deletions
    )


def _reduce(
    context: StreamContext,
    manifests: ManifestLog,
    old: SplitInfo,
    grain: int | None,
    is_wanted: Callable[[Manifest], bool],
) -> SplitInfo | None:
    """Put the entries of a split in its place; None if it has left, or nobody wants that any more."""
    manifest = manifests.load()
    context = context.at(manifest)  # which knows the version of the schema that the split has
    bounds = bounds_over(context, manifest, old)
    try:
        tree, reader = closed_tree(context, old)
    except NotFoundError:
        return None
    with reader:
        chosen = CoarseEntries.of_tree(tree, 1)
        while grain is not None and len(chosen.entries) > 1:
            higher = CoarseEntries.of_tree(tree, chosen.level + 1)
            if higher.widest > grain or len(higher.entries) == len(chosen.entries):
                break
            chosen = higher
        chosen = aligned(chosen, tree, bounds, context.options.split_ticks(context.layout.schema.clock))
    if context.history is not None:  # under the names that the columns have in the split's version of the schema
        chosen = replace(chosen, layout=chosen.layout.renamed(context.history.schemas[old.schema].names))
    name = new_file_name(context.now(), SUFFIX)
    size = write_coarse(context.medium, context.path(name), chosen)
    number = manifests.load().number
    new = replace(
        old,
        name=name,
        kind="coarse",
        bytes=size,
        root=b"",
        dead_bytes=0,
        clean_at=max(number, 1),
        created_at=context.now(),
    )

    def swap(manifest: Manifest) -> Change:
        if old.name not in manifest.splits or _is_touched(manifest, old) or not is_wanted(manifest):
            raise ConflictError(f"split {old.name} has changed while it was coarsened; try again")
        return Change(remove=(old.name,), add=(replace(new, clean_at=manifest.number),))

    try:
        manifests.commit(swap)
    except ConflictError:
        give_up(manifests, [name])
        return None
    return new


# What deletions must leave whole. ---------------------------------------------------------------------


def whole_bound(context: StreamContext, manifest: Manifest, bound: int) -> int:
    """The latest time, not after ``bound``, before which everything can be deleted without taking an entry apart."""
    while True:
        lower = min((low for low, _ in _entries_at(context, manifest, bound)), default=bound)
        if lower == bound:
            return bound
        bound = lower  # which may be inside of an entry of another split


def _entries_at(context: StreamContext, manifest: Manifest, bound: int) -> Iterator[tuple[int, int]]:
    """The first and the last time of entries that have events before a time and others that are not."""
    for split in manifest.splits.values():
        if split.kind == "coarse" and split.time_min < bound <= split.time_max:
            coarse = read_coarse(context.medium, context.path(split.name))
            cut = coarse.cut_by(bound)
            if cut is not None:
                yield int(coarse.lows[cut]), int(coarse.highs[cut])


def refuse_cut(context: StreamContext, manifest: Manifest, bound: int) -> None:
    """Raise :class:`GrainError` if deleting everything before a time would take an entry apart."""
    if manifest.deleted_before is not None and bound <= manifest.deleted_before:
        return  # nothing is left to be deleted
    longest = max(_entries_at(context, manifest, bound), key=lambda entry: entry[1], default=None)
    if longest is not None:
        show, (low, high) = manifest.schema.clock.format, longest
        raise GrainError(
            f"cannot delete what is before {show(bound)}: that is inside of an entry of coarse events, from "
            f"{show(low)} to {show(high)}, which cannot be taken apart; delete what is before "
            f"{show(whole_bound(context, manifest, bound))}, or choose a time after {show(high)}",
            grain=longest,
        )


def refuse_overwrite(manifest: Manifest, deletion: Deletion) -> None:
    """Raise :class:`GrainError` if a deletion would delete a part of a coarse split."""
    for split in manifest.splits.values():
        # A deletion that is not committed yet has no number, so its bounds are all there is to go by.
        if split.kind == "coarse" and deletion.touches(split.time_min, split.time_max, split.seq_min, split.seq_max):
            start, end = deletion.interval.start, deletion.interval.end
            if (start is None or start <= split.time_min) and (end is None or end > split.time_max):
                continue
            show = manifest.schema.clock.format
            raise GrainError(
                f"cannot overwrite a part of the events from {show(split.time_min)} to {show(split.time_max)}, which "
                "are coarsened; overwrite all of them, or none",
                grain=(split.time_min, split.time_max),
            )
