"""When late rows are merged into trees, how many at a time, and which not at all (spec/event-store.md 6.2, 11.1)."""

from __future__ import annotations

from typing import Final

from tidelog.store.manifest.options import StreamOptions
from tidelog.store.tail.late.queue import LateQueue
from tidelog.store.tail.splits import TailSplits

_LEFT: Final = 0.5
"""What share of the limit of late rows is left when a bulk of them was merged as far as it is worth it."""

_AT_MOST: Final = 2
"""How many times the limit of late rows may wait before an append merges more than a slice of them."""

_SLICE_LEAVES: Final = 64
"""Leaves that late rows are merged into between two appends: half a million rows, about a tenth of a second."""

_MUCH_UNSAVED: Final = 4 << 20
"""Bytes of late rows from which on a flush merges them instead of writing them to the journal, of which they are not
compressed and have to leave again: half a gigabyte a second for the journal is no more than a merge takes."""

_ALL_LEAVES: Final = 512
"""Leaves of a slice then; their new images are in memory at once."""

_SPARSE: Final = 32
"""A leaf is written again for late rows if they are at least this fraction of a full one. For fewer it is cheaper to
write them as a split of their own, in one go; compaction merges that later, with everything else around it."""


_FEW: Final = 8
"""Late rows are few if they are fewer than a leaf in this many: however they are spread, the others stay."""


def is_much(size: int, options: StreamOptions) -> bool:
    """Whether so many bytes of rows are too many to be left in a journal for nothing."""
    return size >= min(_MUCH_UNSAVED, options.late_bytes)


def merge_late(queue: LateQueue, splits: TailSplits, options: StreamOptions, *, now: bool = False) -> int:
    """Merge late rows into the splits they belong to, the densest regions first; returns how many left the queue.

    The next commit of the splits makes it durable. A slice at a time, so that appends do not have to wait for long,
    unless there are far too many late rows. When half of what may be kept is left, or the rest is spread so thinly that
    a leaf would be written again for a few rows, that rest stays where it is. If many rows are durable nowhere, all of
    them are merged that are worth it, for otherwise the flush that follows would write them to the journal first. If it
    is to be done ``now``, so they are, and a few are merged into however many leaves.
    """
    how, merged = options.late_merge, 0
    is_whole = now or is_much(queue.unsaved_bytes, options)
    if how == "never" or not (queue.is_merging or is_whole or queue.exceeds(1)):
        return merged
    if not queue.is_merging or is_whole:
        splits.hasten()  # while the bulk is sorted
        queue.begin()
    is_plain = how == "plain" or (now and queue.rows * _FEW * options.leaf_rows <= splits.rows)
    is_all = is_plain or is_whole
    fewest = 1 if is_plain else options.leaf_rows // _SPARSE
    while queue.is_merging:
        some = queue.merge_slice(splits.claims(), _ALL_LEAVES if is_all else _SLICE_LEAVES, fewest)
        merged += some
        if not some or not (is_all or queue.exceeds(_LEFT)):
            queue.end()
        elif not (is_all or queue.exceeds(_AT_MOST)):
            break
    return merged
