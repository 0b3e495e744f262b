"""What leaves a stream: events by deletions in the manifest, splits with their last event, deletions with theirs."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.store.manifest.manifest import Change, Deletion, Manifest, ManifestLog
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet
from tidelog.store.manifest.split_info import SplitInfo


def retention_bound(manifest: Manifest, newest: int) -> int | None:
    """The instant before which the stream's ``retention`` deletes, if its newest event is at ``newest``."""
    kept = manifest.options.retention_ticks(manifest.schema.clock)
    return None if kept is None else max(newest - kept, INT64_MIN)


def is_deleted(manifest: Manifest, split: SplitInfo) -> bool:
    """Whether the deletions of a manifest, alone or together, delete every event of a split."""
    bound = manifest.deleted_before
    first = split.time_min if bound is None else max(split.time_min, bound)
    if first > split.time_max:
        return True
    if not manifest.deletions:
        return False
    deletions = [
        deletion
        for deletion in manifest.deletions
        if deletion.concerns(split) and deletion.touches(first, split.time_max, split.seq_min, split.seq_max)
    ]
    # Between two neighbouring bounds of deletions, the same deletions apply to all times.
    bounds = {
        each for deletion in deletions for each in (deletion.interval.start, deletion.interval.end) if each is not None
    }
    for time in (first, *(each for each in bounds if first < each <= split.time_max)):
        numbers = SeqSet(
            span for deletion in deletions if deletion.interval.contains(time) for span in deletion.numbers.spans
        )
        if not numbers.covers(split.seq_min, split.seq_max):
            return False
    return True


def is_spent(manifest: Manifest, deletion: Deletion, unlisted: SeqSet) -> bool:
    """Whether no event can be left that a deletion applies to, so that it may be taken back.

    ``unlisted``: rows that are in no split of the manifest (the tail's) can only have these sequence numbers.
    """
    bound, end = manifest.deleted_before, deletion.interval.end
    if bound is not None and end is not None and end <= bound:
        return True
    return not (deletion.numbers & unlisted) and not any(map(deletion.concerns, manifest.splits.values()))


def drop_deleted(log: ManifestLog, unlisted: SeqSet | None = None) -> Manifest:
    """Remove the splits that are deleted whole, then deletions that are spent; see :func:`is_spent` for ``unlisted``.

    None stands for all numbers.
    """
    rest_of_rows = SeqSet.below(INT64_MAX) if unlisted is None else unlisted

    def change(manifest: Manifest) -> Change:
        gone = tuple(name for name, split in manifest.splits.items() if is_deleted(manifest, split))
        rest = manifest.changed(Change(remove=gone), manifest.number, manifest.at)
        return Change(
            remove=gone,
            gone=_numbers_gone(manifest, gone),
            undelete=tuple(deletion for deletion in rest.deletions if is_spent(rest, deletion, rest_of_rows)),
        )

    return log.commit(change, frees=True)


def _numbers_gone(manifest: Manifest, names: Collection[str]) -> SeqSet:
    """The numbers of rows that could be seen and leave with some splits, if not by an overwrite alone."""
    bound = manifest.deleted_before
    if bound is None:
        return EMPTY
    splits = (manifest.splits[name] for name in names)
    return SeqSet((each.seq_min, each.seq_max + 1) for each in splits if each.time_min < bound) & manifest.deleted_seen
