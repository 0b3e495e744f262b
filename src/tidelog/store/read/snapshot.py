"""A snapshot: the rows of a stream at one moment, as parts that are read and merged when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integers
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.manifest import Deletion, Manifest
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet, Span
from tidelog.store.read.parts.masked import MaskedPart
from tidelog.store.read.parts.part import Part, may_delete
from tidelog.store.read.parts.part_index import PartIndex
from tidelog.store.rows.stored import Ints
from tidelog.store.split.entry_bounds import with_numbers
from tidelog.store.tail.journal import Head
from tidelog.store.tail.tail import TailView


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a stream at one moment. Nothing it names changes."""

    manifest: Manifest
    layout: Layout
    parts: tuple[Part, ...]
    given_out: int
    """All sequence numbers that rows have, or that are reserved, are below this one."""
    unseen: tuple[Span, ...] = ()
    """Those reserved for rows of the tail that are not in this snapshot."""
    journaled: tuple[Span, ...] = ()
    """The numbers of rows in the tail's journal, some of which may be in splits too."""
    late: Mapping[str, float] = field(default_factory=dict)
    """What the tail's journal says has become of late rows (:class:`~tidelog.store.tail.late.lateness.LateCounters`).
    """
    view: TailView | None = None
    """What it was taken of, in the process that writes the tail."""
    head: Head | None = None
    """What a journal says that goes on from here without open splits; of what was flushed, if the tail ever wrote."""
    version: int = 0
    """The version of the schema that it is presented under."""
    index: PartIndex = field(init=False)
    """Finds parts by their times."""
    is_shifted: bool = field(init=False)
    """Whether there are parts whose sequence numbers are not those in their trees."""

    _living: Snapshot | None = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", PartIndex(self.layout, self.parts))
        object.__setattr__(self, "is_shifted", any(part.base for part in self.parts))

    @property
    def visible(self) -> SeqSet:
        """The sequence numbers of all rows up to this moment.

        A number in it that no row of the snapshot has will never have one; rows of later snapshots have others. (While
        the tail's writer is in the middle of a very long append, some of its rows can be in the snapshot without being
        in this set: whoever goes by sets passes it to :func:`~tidelog.store.read.scan.scan`.)
        """
        return SeqSet([(0, self.given_out)]) - SeqSet(self.unseen)

    @property
    def next_seq(self) -> int:
        """One more than the greatest visible sequence number."""
        return self.visible.stop

    @property
    def unlisted(self) -> SeqSet:
        """Sequence numbers that rows outside of the manifest's splits have, or may come to have: those of the tail."""
        open_parts = [part.numbers for part in self.parts if part.info is None]
        return SeqSet([*self.unseen, *self.journaled, *((low, high + 1) for low, high in open_parts)])

    def lost(self, numbers: SeqSet) -> SeqSet:
        """Which of the numbers were those of rows that could be seen and that ``deleted_before`` has deleted since.

        For readers that go by numbers and may have been overtaken. What was overwritten does not count, nor do rows
        that came when they were deleted already. Of splits that are gone only the bounds are known: where rows came out
        of order, or were overwritten first, other numbers between them can be among the result, but never those of rows
        that are still there. Reads parts that ``deleted_before`` cuts, or that have such numbers, and no others.
        """
        bound = self.manifest.deleted_before
        if bound is None or not numbers:
            return EMPTY
        result = numbers & self.manifest.gone
        for part in self.parts:
            if part.has_rows and result.overlaps(*part.numbers):
                result -= _set_of(numbers_in(part, None, result))
        seen = numbers & self.manifest.deleted_seen
        cut = [part for part in self.parts if part.has_rows and part.first < bound and seen.overlaps(*part.numbers)]
        for part in cut:
            result |= _set_of(numbers_in(part, bound, seen, self.manifest.deletions))
        return result

    def not_deleted(self, start: int | None) -> int | None:
        """The start of a time range, or the time before which everything is deleted if that is later."""
        deleted = self.manifest.deleted_before
        return deleted if deleted is not None and (start is None or start < deleted) else start

    def in_range(self, start: int | None, end: int | None) -> tuple[int | None, list[Part]]:
        """The start of a time range, not before what is deleted, and the parts that reach into the range."""
        start = self.not_deleted(start)
        if start is not None and end is not None and end <= start:
            return start, []
        return start, self.index.reaching(start, end)

    def reached_by(self, ranges: Intervals) -> tuple[Intervals, list[Part]]:
        """A set of time ranges without what is deleted as a whole, and the parts that reach into it."""
        deleted = self.manifest.deleted_before
        if deleted is not None:
            ranges = ranges & Interval(deleted, None)
        if not ranges:
            return ranges, []
        within = ranges.bounds
        parts = self.index.reaching(within.start, within.end)
        if len(ranges.spans) > 1:
            parts = [part for part in parts if ranges.reaching(part.first, part.last)]
        return ranges, parts

    def deletions(self, start: int | None, end: int | None) -> list[Deletion]:
        """Deletions of single ranges that matter in a time range, because rows that they delete may be there."""
        if not self.manifest.deletions:
            return []
        wanted = Interval(start, end)
        near = [deletion for deletion in self.manifest.deletions if deletion.interval.overlaps(wanted)]
        parts = self.in_range(start, end)[1] if near else []
        return [deletion for deletion in near if any(may_delete(deletion, part) for part in parts)]

    def has_all(self, start: int | None, end: int | None, numbers: SeqSet | None) -> bool:
        """Whether all rows of the parts in a time range have one of some numbers, as they have for None."""
        return numbers is None or all(numbers.covers(*part.numbers) for part in self.in_range(start, end)[1])

    @property
    def living(self) -> Snapshot:
        """The same rows, in parts without those that deletions of single ranges hide: for aggregates.

        The snapshot itself if there are none.
        """
        deletions = self.manifest.deletions
        if not deletions:
            return self
        if self._living is None:
            parts = [(part, [deletion for deletion in deletions if may_delete(deletion, part)]) for part in self.parts]
            masked = tuple(MaskedPart(part, touching) if touching else part for part, touching in parts)
            found = replace(self, parts=masked, manifest=replace(self.manifest, deletions=()))
            object.__setattr__(self, "_living", found)
            return found
        return self._living


def numbers_in(part: Part, end: int | None, numbers: SeqSet, deletions: Sequence[Deletion] = ()) -> Iterator[Ints]:
    """Those of some numbers that rows of a part before a time have, without rows that deletions hide; in batches."""
    layout = part.layout
    names = [layout.schema.time, layout.stored.names[layout.sequence]]
    deletions = [deletion for deletion in deletions if may_delete(deletion, part)]
    for batch in part.scan(None, end, names, with_numbers(layout, numbers, part.base), ReadCounters()):
        at, own = integers(batch.column(0)), integers(batch.column(1))
        wanted = numbers.contains(own)
        for deletion in deletions:
            wanted &= ~deletion.mask(at, own)
        yield own[wanted]


def _set_of(arrays: Iterator[Ints]) -> SeqSet:
    return SeqSet.of(np.concatenate([np.empty(0, np.int64), *arrays]))
