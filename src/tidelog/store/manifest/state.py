"""What a stream consists of, apart from its tail, as values: a manifest for each commit, and what a commit changes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tidelog.model.errors import ConflictError, InputError
from tidelog.model.evolution import Renames, check_evolution
from tidelog.model.schema import Schema
from tidelog.model.times.clock import INT64_MAX
from tidelog.model.times.interval import Interval
from tidelog.store.log.file_names import FileName, check_plain_name, stem_of
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import EMPTY, Mask, Numbers, SeqSet, Span
from tidelog.store.manifest.split_info import SplitInfo


class Removed(dict[str, float]):
    """Files that left, and may still be on disk, with the time at which they did. Never changes in a manifest."""

    @functools.cached_property
    def stems(self) -> frozenset[str]:
        """Their stems, which the files that belong together share."""
        return frozenset(map(stem_of, self))


@dataclass(frozen=True, slots=True)
class Deletion:
    """The events of a time interval that have certain sequence numbers are deleted."""

    interval: Interval
    numbers: SeqSet
    at: int = field(default=0, compare=False)
    """The number of the manifest that had it first; 0 if it was not noted."""

    def __post_init__(self) -> None:
        if self.interval.is_empty or not self.numbers:
            raise InputError(f"found a deletion of {self.numbers} in {self.interval}, which is of nothing")

    def touches(self, first: int, last: int, low: int, high: int) -> bool:
        """Whether it may delete some of the events with times ``first`` to ``last`` and numbers ``low`` to ``high``.

        All four are included.
        """
        start, end = self.interval.start, self.interval.end
        return (start is None or last >= start) and (end is None or first < end) and self.numbers.overlaps(low, high)

    def concerns(self, split: SplitInfo) -> bool:
        """Whether it may delete some of the events of a split, by what is known of it."""
        if split.clean_at and self.at <= split.clean_at:
            return False
        return self.touches(split.time_min, split.time_max, split.seq_min, split.seq_max)

    def mask(self, times: Numbers, numbers: Numbers) -> Mask:
        """For each of some events, given by time and number, whether it is deleted by it."""
        deleted = self.numbers.contains(numbers)
        if self.interval.start is not None:
            deleted &= times >= self.interval.start
        if self.interval.end is not None:
            deleted &= times < self.interval.end
        return deleted

    def includes(self, other: Deletion) -> bool:
        """Whether it deletes all that another one does."""
        return self.interval.intersect(other.interval) == other.interval and other.numbers.issubset(self.numbers)

    def to_list(self) -> list[Any]:
        """The deletion as JSON values."""
        values = [self.interval.start, self.interval.end, self.numbers.to_list()]
        return [*values, self.at] if self.at else values

    @classmethod
    def from_list(cls, values: Iterable[Any]) -> Deletion:
        """The deletion that :meth:`to_list` described."""
        start, end, numbers, *at = values
        return cls(Interval(start, end), SeqSet.from_list(numbers), *at)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a commit does to a manifest; everything left out stays as it is."""

    add: tuple[SplitInfo, ...] = ()
    """New splits. Their sequence numbers count as given out."""
    remove: tuple[FileName, ...] = ()
    """Splits that leave; :class:`ConflictError` if one has left already. Their files stay for the grace period."""
    condemn: tuple[FileName, ...] = ()
    """Files that are no splits and never will be; they go like those of removed splits."""
    forget: tuple[FileName, ...] = ()
    """Removed files that are no longer on disk."""
    schema: Schema | None = None
    """The next version of the schema, which must have evolved from the last."""
    renames: Renames = ()
    """With ``schema``: columns of the last version that have other names in it."""
    options: StreamOptions | None = None
    deleted_before: int | None = None
    """Events before this instant are deleted, those still to come too. Never moves back: a smaller one is ignored."""
    deleted_seen: SeqSet | None = None
    """With ``deleted_before``: the sequence numbers visible at that moment; all given out unless it is said."""
    gone: SeqSet = EMPTY
    """Sequence numbers of rows that leave because of ``deleted_before``, and of nothing else."""
    delete: tuple[Deletion, ...] = ()
    undelete: tuple[Deletion, ...] = ()
    """Deletions that no longer matter because no event is left that they apply to."""
    next_seq: int | None = None
    """The smallest sequence number to be given out from now on. Never moves back: a smaller one is ignored."""
    tail_block: Span | None = None
    """Sequence numbers reserved for the tail from now on, behind all given out; :class:`ConflictError` if they are not.

    They count as given out. What is left of the block before is given up: those numbers will have no rows.
    """
    transactions: Mapping[str, int] = field(default_factory=dict)
    """The number of the last transaction of some producers; :class:`ConflictError` if one was committed before."""

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return self == Change()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a stream consists of, apart from its tail. Never changes; the mappings must not be written to."""

    number: int = 0
    at: float = 0.0
    """When it was committed, in seconds since 1970."""
    schemas: tuple[Schema, ...] = ()
    """All versions of the schema, the current one last."""
    renames: tuple[Renames, ...] = ()
    """For each version but the first, the columns that were called something else in the one before."""
    options: StreamOptions = field(default_factory=StreamOptions)
    splits: Mapping[str, SplitInfo] = field(default_factory=dict)
    """Closed splits by name, in the order they were added in."""
    deleted_before: int | None = None
    deleted_seen: SeqSet = EMPTY
    """Sequence numbers that could be seen when ``deleted_before`` was set.

    Events before it with other numbers came when they were deleted already, and nobody could ever see them.
    """
    gone: SeqSet = EMPTY
    """Sequence numbers of events that could be seen and are in no split any more, because of ``deleted_before``.

    Numbers between those of such events may be among them.
    """
    deletions: tuple[Deletion, ...] = ()
    next_seq: int = 0
    """No split has this sequence number or a greater one, and none is reserved."""
    tail_block: Span | None = None
    """The sequence numbers reserved for the tail; None if it has reserved none yet."""
    tail_seq: int = 0
    """Numbers of the tail's block below this one are behind those that closed splits have."""
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Of each producer (a writer, a streaming query) the number of its last committed transaction."""
    removed: Removed = field(default_factory=Removed)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[-1]

    @property
    def rows(self) -> int:
        """Rows in all splits, deleted ones included."""
        return sum(split.rows for split in self.splits.values())

    def changed(self, change: Change, number: int, at: float, *, in_place: bool = False) -> Manifest:
        """The manifest after a change committed at time ``at``; raises :class:`ConflictError` if it does not fit.

        With ``in_place`` the mappings of this one are changed and become the other's: nobody may go on using it.
        """
        removed = self._removed_after(change, at, in_place)
        splits = self._splits_after(change, removed, in_place)
        numbers = [self.next_seq, change.next_seq or 0, *(split.seq_max + 1 for split in change.add)]
        block, tail_seq = self._tail_after(change)
        schemas, renames = self._schemas_with(change.schema, change.renames)
        if block is not None:
            numbers.append(block[1])
        return Manifest(
            number=number,
            at=at,
            schemas=schemas,
            renames=renames,
            options=self.options if change.options is None else change.options,
            splits=splits,
            deleted_before=_later(self.deleted_before, change.deleted_before),
            deleted_seen=self._deleted_seen_after(change),
            gone=self.gone | change.gone if change.gone else self.gone,
            deletions=self._deletions_after(change, number),
            next_seq=max(numbers),
            tail_block=block,
            tail_seq=tail_seq,
            transactions=self._transactions_with(change.transactions),
            removed=removed,
        )

    # With thousands of splits, copies are most of what a commit takes: what does not change is shared.

    def _removed_after(self, change: Change, at: float, in_place: bool) -> Removed:
        if not (change.remove or change.condemn or change.forget):
            return self.removed
        removed = self.removed if in_place else Removed(self.removed)
        removed.__dict__.pop("stems", None)
        for name in change.remove:
            removed[name] = at
        for name in change.condemn:
            if name in self.splits and name not in change.remove:
                raise ConflictError(f"cannot give up {name}: it is a split of the stream")
            removed.setdefault(check_plain_name(name), at)
        for name in change.forget:
            removed.pop(name, None)
        return removed

    def _splits_after(self, change: Change, removed: Removed, in_place: bool) -> Mapping[str, SplitInfo]:
        if not (change.add or change.remove):
            return self.splits
        splits = cast("dict[str, SplitInfo]", self.splits) if in_place else dict(self.splits)
        for name in change.remove:
            if splits.pop(name, None) is None:
                raise ConflictError(f"cannot remove split {name}: it is not in the manifest any more; go on without it")
        for split in change.add:
            if split.name in splits:
                raise ConflictError(f"cannot add split {split.name}: it is in the manifest already")
            if stem_of(split.name) in removed.stems:
                raise ConflictError(
                    f"cannot add split {split.name}: its file was removed, or given up because it was not added in "
                    "time; write it again"
                )
            splits[split.name] = split
        return splits

    def _schemas_with(self, schema: Schema | None, renames: Renames) -> tuple[tuple[Schema, ...], tuple[Renames, ...]]:
        if schema is None or (self.schemas and schema == self.schema and not renames):
            return self.schemas, self.renames
        if not self.schemas:
            return (schema,), ()
        moved = dict(renames)
        check_evolution(self.schema.renamed([moved.get(name, name) for name in self.schema.names]), schema)
        return (*self.schemas, schema), (*self.renames, renames)

    def _deleted_seen_after(self, change: Change) -> SeqSet:
        if change.deleted_before is None or _later(self.deleted_before, change.deleted_before) == self.deleted_before:
            return self.deleted_seen
        return self.deleted_seen | (SeqSet.below(self.next_seq) if change.deleted_seen is None else change.deleted_seen)

    def _deletions_after(self, change: Change, number: int) -> tuple[Deletion, ...]:
        kept = [deletion for deletion in self.deletions if deletion not in change.undelete]
        kept += [replace(deletion, at=number) for deletion in dict.fromkeys(change.delete) if deletion not in kept]
        return tuple(kept)

    def _tail_after(self, change: Change) -> tuple[Span | None, int]:
        """The tail's block, and which of its numbers closed splits have."""
        block, reached = self.tail_block, self.tail_seq
        if change.tail_block is not None:
            block = change.tail_block
            reached = block[0]
            if not self.next_seq <= block[0] < block[1] <= INT64_MAX:
                raise ConflictError(
                    f"cannot reserve the sequence numbers {block[0]} to {block[1] - 1} for the tail: the next one to "
                    f"be given out is {self.next_seq}, the last one {INT64_MAX - 1}"
                )
        if block is not None:
            reached = max([reached, *(split.seq_max + 1 for split in change.add if split.seq_max < block[1])])
        return block, reached

    def _transactions_with(self, new: Mapping[str, int]) -> Mapping[str, int]:
        if not new:
            return self.transactions
        for producer, number in new.items():
            last = self.transactions.get(producer)
            if last is not None and number <= last:
                raise ConflictError(
                    f"transaction {number} of {producer!r} is not new: {last} was committed already; skip it"
                )
        return {**self.transactions, **new}


def _later(old: int | None, new: int | None) -> int | None:
    return max((each for each in (old, new) if each is not None), default=None)
