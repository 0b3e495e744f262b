"""A snapshot: the rows of a stream at one moment, as parts that are read and merged when asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, empty, from_batch
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.searching import Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.model.errors import CorruptionError, NotFoundError, StorageError
from tidelog.model.interval import Interval
from tidelog.storage import ContainerReader
from tidelog.storage.source import RowTest
from tidelog.storage.valuerange import ValueRange
from tidelog.store.entrytests import tree_numbers, with_numbers
from tidelog.store.manifest import Deletion, Manifest, ManifestLog, SplitInfo
from tidelog.store.opensplit import Site, closed_tree
from tidelog.store.published import Publications, TailRecord
from tidelog.store.rows import Ints, integers, seqs, shifted, sorted_rows, times
from tidelog.store.seqset import EMPTY, SeqSet, Span
from tidelog.store.tail import TailView, lock_path, published_path
from tidelog.store.tailjournal import read_entries
from tidelog.store.tailstate import TailState, is_closed, not_in, read_state, state_of, tail_splits

_ATTEMPTS: Final = 100
_OPEN_TREES: Final = 256
_CHUNK_ROWS: Final = 1 << 18


Opened = tuple[str, tuple[int, int]]
"""A split that the tail is writing, at a commit: its name, number and position of the commit."""


class TreePart:
    """The rows of a tree."""

    def __init__(self, tree: TreeReader, info: SplitInfo | None = None, opened: Opened | None = None) -> None:
        """Of a closed split, of one at a commit, or of what only its writer has."""
        self._tree = tree
        self.info = info
        self.opened = opened
        self.base = 0 if info is None else info.seq_base
        """What is added to the sequence numbers in the tree."""
        bounds = tree.time_bounds
        assert bounds is not None  # trees without rows are no parts
        self.first, self.last = bounds
        self.layout = tree.layout
        self.rows = tree.rows

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        return tree_numbers(self._tree) if self.info is None else (self.info.seq_min, self.info.seq_max)

    def shape(self) -> dict[str, int]:
        """Rows, leaves and height of the tree."""
        fanout, leaves, height = self.layout.fanout, self._tree.leaves, 1
        while leaves > 1:
            leaves = -(-leaves // fanout)
            height += 1
        return {"rows": self.rows, "leaves": self._tree.leaves, "height": height}

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range, in order; without leaves that a test, of numbers as in the tree, rejects."""
        batches = self._tree.scan(start, end, columns, test, counters)
        return (shifted(batch, self.base) for batch in batches) if self.base else batches

    def select(
        self,
        start: int | None,
        end: int | None,
        columns: Sequence[str],
        tested: Sequence[str],
        row_test: RowTest,
        test: Test | None,
        counters: ReadCounters,
        wanted: ValueRange | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range that pass a test of some columns, in order."""
        if not self.base:
            return self._tree.select(start, end, columns, tested, row_test, test, counters, wanted)

        def test_shifted(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
            return row_test(shifted(batch, self.base))

        batches = self._tree.select(start, end, columns, tested, test_shifted, test, counters, wanted)
        return (shifted(batch, self.base) for batch in batches)

    def count(
        self,
        start: int | None,
        end: int | None,
        wanted: ValueRange,
        row_test: RowTest,
        may_hold: Test,
        holds_all: Test,
        counters: ReadCounters,
    ) -> int:
        """How many rows of a time range have a value in a range, see :meth:`TreeReader.count`."""
        return self._tree.count(start, end, wanted, row_test, may_hold, holds_all, counters)

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, test: Test | None, counters: ReadCounters
    ) -> list[Subtree]:
        """What a time range consists of, see :meth:`TreeReader.subtrees`."""
        return self._tree.subtrees(most_rows, start, end, test, counters)

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range; of sequence numbers, as they are in the tree."""
        return self._tree.aggregate(start, end, columns, counters)

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        return self._tree.aggregates(starts, ends, columns, counters)

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return self._tree.rank(time, counters)


class MemoryPart:
    """Sorted rows in memory, at least one."""

    base = 0

    def __init__(self, layout: Layout, rows: pa.RecordBatch) -> None:
        self.layout = layout
        self._rows = rows
        self._times = times(rows, layout.schema)
        self.first, self.last = int(self._times[0]), int(self._times[-1])
        self.rows = rows.num_rows
        self._whole: Aggregate | None = None

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        numbers = seqs(self._rows)
        return int(numbers.min()), int(numbers.max())

    def between(self, start: int | None, end: int | None, numbers: SeqSet | None = None) -> pa.RecordBatch:
        """The rows of a time range, with all their columns; only those with certain sequence numbers if given."""
        rows = self._range(start, end)
        return rows if numbers is None else rows.filter(pa.array(numbers.contains(seqs(rows))))

    def _range(self, start: int | None, end: int | None) -> pa.RecordBatch:
        first = 0 if start is None else int(np.searchsorted(self._times, start))
        last = len(self._times) if end is None else int(np.searchsorted(self._times, end))
        return self._rows.slice(first, max(0, last - first))

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range, in order."""
        rows = self._range(start, end).select(list(columns))
        for first in range(0, rows.num_rows, _CHUNK_ROWS):
            yield rows.slice(first, _CHUNK_ROWS)

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range."""
        if (start is not None and start > self.first) or (end is not None and end <= self.last):
            return Aggregate.of(self.layout, self._range(start, end), columns)
        if self._whole is None:  # asked for again and again, while the rows stay the same
            self._whole = Aggregate.of(self.layout, self._rows)
        return self._whole

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        entries = empty(self.layout, len(starts))
        firsts, lasts = self._times.searchsorted(starts), self._times.searchsorted(ends)
        cuts = np.unique(np.concatenate([firsts, lasts]))
        if len(cuts) > 1:
            chosen = self._rows.select([self.layout.stored.names[column] for column in columns.tolist()])
            runs = from_batch(self.layout, chosen, cuts, columns)
            firsts, lasts = cuts.searchsorted(firsts), cuts.searchsorted(lasts)
            merge_all(self.layout, columns, runs, firsts, np.maximum(firsts, lasts), entries)
        return entries

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return int(np.searchsorted(self._times, time))


Part = TreePart | MemoryPart


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
    view: TailView | None = None
    """What it was taken of, in the process that writes the tail."""
    is_uniform: bool = field(init=False)
    """Whether all parts have the schema of the stream as it is now."""
    is_shifted: bool = field(init=False)
    """Whether there are parts whose sequence numbers are not those in their trees."""

    def __post_init__(self) -> None:
        schema = self.layout.schema
        uniform = all(part.layout is self.layout or part.layout.schema == schema for part in self.parts)
        object.__setattr__(self, "is_uniform", uniform)
        object.__setattr__(self, "is_shifted", any(part.base for part in self.parts))

    @property
    def visible(self) -> SeqSet:
        """The sequence numbers of all rows up to this moment.

        A number in it that no row of the snapshot has will never have one; rows of later snapshots have others. (While
        the tail's writer is in the middle of a very long append, some of its rows can be in the snapshot without being
        in this set: whoever goes by sets passes it to :func:`~tidelog.store.scan.scan`.)
        """
        return SeqSet([(0, self.given_out)]) - SeqSet(self.unseen)

    @property
    def next_seq(self) -> int:
        """One more than the greatest visible sequence number."""
        return self.visible.stop

    @property
    def unlisted(self) -> SeqSet:
        """Sequence numbers that rows outside of the manifest's splits have, or may come to have: those of the tail."""
        open_parts = [part.numbers for part in self.parts if not (isinstance(part, TreePart) and part.info)]
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
            if result.overlaps(*part.numbers):
                result -= SeqSet.of(_numbers_in(part, None, result, ()))
        seen = numbers & self.manifest.deleted_seen
        cut = [part for part in self.parts if part.first < bound and seen.overlaps(*part.numbers)]
        for part in cut:
            result |= SeqSet.of(_numbers_in(part, bound, seen, self.manifest.deletions))
        return result

    def in_range(self, start: int | None, end: int | None) -> tuple[int | None, list[Part]]:
        """The start of a time range, not before what is deleted, and the parts that reach into the range."""
        deleted = self.manifest.deleted_before
        if deleted is not None and (start is None or start < deleted):
            start = deleted
        found = [
            part for part in self.parts if (end is None or part.first < end) and (start is None or part.last >= start)
        ]
        return start, [] if start is not None and end is not None and end <= start else found

    def deletions(self, start: int | None, end: int | None) -> list[Deletion]:
        """Deletions of single ranges that matter in a time range, because rows that they delete may be there."""
        if not self.manifest.deletions:
            return []
        wanted = Interval(start, end)
        near = [mark for mark in self.manifest.deletions if mark.interval.overlaps(wanted)]
        parts = self.in_range(start, end)[1] if near else []
        return [mark for mark in near if any(mark.touches(part.first, part.last, *part.numbers) for part in parts)]

    def is_whole(self, start: int | None, end: int | None, numbers: SeqSet | None) -> bool:
        """Whether all rows of the parts in a time range count: none is deleted, and all have some of the numbers."""
        if numbers is not None and not all(numbers.covers(*part.numbers) for part in self.in_range(start, end)[1]):
            return False
        return not self.deletions(start, end)


def _numbers_in(part: Part, end: int | None, numbers: SeqSet, deletions: Sequence[Deletion]) -> Ints:
    """Those of some numbers that rows of a part before a time have, without rows that deletions hide."""
    layout = part.layout
    names = [layout.schema.time, layout.stored.names[layout.sequence]]
    found = [np.empty(0, np.int64)]
    for batch in part.scan(None, end, names, with_numbers(layout, numbers, part.base), ReadCounters()):
        at, own = integers(batch.column(0)), integers(batch.column(1))
        wanted = numbers.contains(own)
        for mark in deletions:
            wanted &= ~mark.mask(at, own)
        found.append(own[wanted])
    return np.concatenate(found)


def _rest(block: Span | None, number: int) -> tuple[Span, ...]:
    """What of a block is left from a number on."""
    return () if block is None or number >= block[1] else ((max(number, block[0]), block[1]),)


class Snapshots:
    """Takes snapshots of one stream; keeps trees of closed splits open. May be used from several threads."""

    def __init__(self, site: Site, manifests: ManifestLog) -> None:
        self._site = site
        self._manifests = manifests
        self._lock = threading.Lock()
        self._trees: OrderedDict[str, TreeReader] = OrderedDict()
        self._publications = Publications(site.medium, published_path(site.directory))
        self._last: tuple[tuple[Hashable, ...], Snapshot] | None = None
        """The last snapshot, and what it was taken of: as long as that stays the same, so does the snapshot."""

    def of_tail(self, view: TailView) -> Snapshot:
        """What the writer of the tail sees, to whom ``view`` was given just now."""
        manifest = self._manifests.load()
        key = (id(view), manifest.number)
        last = self._last
        if last is None or last[0] != key:
            # The key stays right for as long as it is used: the view is kept with it.
            unseen = _rest(manifest.tail_block, view.next_seq)
            parts = [TreePart(tree) for tree in view.trees]
            last = self._last = (key, self._snapshot(manifest, parts, view.rows, view.next_seq, unseen, view))
        return last[1]

    def newest(self) -> Snapshot:
        """Everything that was flushed, as any process can see it.

        The tail is looked at before the manifest: rows move from the one to the other, never back.
        """
        for attempt in range(_ATTEMPTS):
            try:
                snapshot = self._newest()
                if snapshot is not None:
                    return snapshot
            except (NotFoundError, CorruptionError):
                # A journal or split was replaced while we were looking: look again. A damaged file stays damaged.
                if attempt == _ATTEMPTS - 1 or not self._manifests.exists():
                    raise
        raise StorageError(
            f"{self._site.directory} changed {_ATTEMPTS} times while it was looked at; ask again when less is written"
        )

    def _newest(self) -> Snapshot | None:
        """The newest snapshot; None if something came in between."""
        is_locked = self._site.medium.is_locked(lock_path(self._site.directory))
        # A writer publishes when it comes and whenever it has flushed, so with the same publication and manifest, and a
        # writer still there or still gone, nothing has changed.
        number, record = self._publications.newest()
        key = (is_locked, number, self._manifests.load().number)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        if is_locked and record is not None:
            snapshot = self._published(record)
            # Rows of later flushes that have moved to the manifest already would be seen without the others.
            manifest = snapshot.manifest
            is_certain = manifest.tail_block == record.block and manifest.tail_seq <= record.next_seq
        else:
            snapshot = self._left_behind()
            is_certain = False
        if not is_certain:  # nobody may have changed anything meanwhile
            now = self._site.medium.is_locked(lock_path(self._site.directory)), self._publications.newest()[0]
            if now != (is_locked, number):
                return None
        self._last = (key, snapshot) if snapshot.manifest.number == key[2] else None
        return snapshot

    def _published(self, record: TailRecord) -> Snapshot:
        """The state that a writer at work has published."""
        entries = read_entries(self._site.medium, record.journal, self._site.layout.stored, record.records)
        manifest = self._manifests.load()
        return self._of_state(state_of(0, entries, manifest), manifest, record)

    def _left_behind(self) -> Snapshot:
        """The state that a writer which has gone has left."""
        manifest = self._manifests.load()
        state = read_state(self._site, manifest)
        return self._of_state(state, self._manifests.load(), None)

    def _of_state(self, state: TailState, manifest: Manifest, record: TailRecord | None) -> Snapshot:
        splits = state.splits if record is None else record.splits
        trees: list[TreeReader] = []
        opened: list[Opened] = []
        for name, at in splits.items():
            if is_closed(name, manifest):  # by the manifest's newer account; what was overwritten has left it
                continue
            exact = at if record is not None or state.producers else None
            reader = ContainerReader.open(self._site.medium, self._site.path(name), at=exact)
            tree = TreeReader(reader, Layout.of(reader.description))
            if tree.rows:
                trees.append(tree)
                opened.append((name, (reader.commit.number, reader.commit.position)))
        rows = state.rows(self._site.layout.stored)
        numbers = [state.next_seq, *(tree_numbers(tree)[1] + 1 for tree in trees)]
        journaled: tuple[Span, ...] = ()
        if rows.num_rows:
            journaled = ((int(seqs(rows).min()), int(seqs(rows).max()) + 1),)
            numbers.append(journaled[0][1])
            rows = not_in(trees, rows)
            rows = not_in([self._tree(info) for info in tail_splits(manifest, rows)], rows)
        rows = sorted_rows(rows, self._site.layout.schema)
        if record is not None:
            next_seq, unseen = record.next_seq, _rest(record.block, record.next_seq)
            if manifest.tail_block is not None and manifest.tail_block != record.block:
                unseen += (manifest.tail_block,)  # reserved just now, and nothing in it was published yet
        else:  # what the writer has not left behind will never be there
            next_seq = max(numbers)
            unseen = _rest(manifest.tail_block, next_seq)
        open_parts = [TreePart(tree, opened=at) for tree, at in zip(trees, opened, strict=True)]
        memory = [rows] if rows.num_rows else []
        return replace(self._snapshot(manifest, open_parts, memory, next_seq, unseen), journaled=journaled)

    def _snapshot(
        self,
        manifest: Manifest,
        open_parts: Sequence[TreePart],
        rows: Sequence[pa.RecordBatch],
        next_seq: int,
        unseen: tuple[Span, ...],
        view: TailView | None = None,
    ) -> Snapshot:
        layout = self._site.layout
        parts: list[Part] = [TreePart(self._tree(info), info) for info in manifest.splits.values()]
        parts += open_parts
        parts += [MemoryPart(layout, batch) for batch in rows]
        return Snapshot(manifest, layout, tuple(parts), max(next_seq, manifest.next_seq), unseen, view=view)

    def _tree(self, info: SplitInfo) -> TreeReader:
        with self._lock:
            tree = self._trees.get(info.name)
            if tree is None:
                # Not closed by anyone: the file goes when the last snapshot that uses it does.
                tree, _ = closed_tree(self._site, info)
                self._trees[info.name] = tree
                while len(self._trees) > _OPEN_TREES:
                    self._trees.popitem(last=False)
            self._trees.move_to_end(info.name)
            return tree
