"""A part of a snapshot that was written under another version of the schema than the snapshot has.

Rows are cast, entries are translated: an inner entry says the same of columns whose words mean the same under both
versions; of those that were added it says that all rows are null; of others only counts are kept, so nothing is ruled
out by bounds that do not compare, and aggregates of these columns are computed from the part's events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

import numpy as np
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, empty, entry_dtype, words_of
from tidelog.index.layout import Layout
from tidelog.index.states import States, still_holds
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.numbering import Numbered
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.store.manifest.schemas import presented
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.stretches import Stretches
from tidelog.store.read.parts.wrapped import WrappedPart
from tidelog.store.rows.stored import Ints


def under(part: Part, layout: Layout) -> Part:
    """A part as one of a snapshot with a layout: itself if it has that schema."""
    return part if part.layout.schema == layout.schema else EvolvedPart(part, layout)


def _same_words(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether equal values of two types have equal words in entries, and bounds compare alike."""
    types = pa.types
    if before == after:
        return True
    if types.is_integer(before) and types.is_integer(after):
        # A value that both have, neither negative where one is unsigned, has the same 64 bits.
        return True
    return {before, after} in ({pa.string(), pa.large_string()}, {pa.binary(), pa.large_binary()})


@final
class _Translation:
    """Entries of one layout as entries of another."""

    def __init__(self, old: Layout, new: Layout) -> None:
        self._new = new
        self._size = len(old.kinds)
        self.sources: dict[int, int] = {}
        """For each column of the new layout that the old one has, its position there."""
        for index, name in enumerate(new.stored.names):
            if name in old.stored.names:
                self.sources[index] = old.index(name)
        types = zip(self.sources, self.sources.values(), strict=True)
        self.exact = frozenset(index for index, source in types if _same_words(old.types[source], new.types[index]))
        """Columns of which entries say the same under both."""

    def answers(self, columns: Ints) -> bool:
        """Whether translated entries know all that entries know of columns of the new layout."""
        return all(column in self.exact or column not in self.sources for column in columns.tolist())

    def columns(self, columns: Ints) -> Ints:
        """Where the old layout has columns of the new one, as far as it has them."""
        return np.array([self.sources[each] for each in columns.tolist() if each in self.sources], np.int64)

    def __call__(self, entries: Entries) -> Entries:
        translated = empty(self._new, len(entries))
        translated["child"], translated["rows"] = entries["child"], entries["rows"]
        records, old = translated["columns"], entries["columns"]
        for index in range(len(self._new.kinds)):
            source = self.sources.get(index)
            if source is None:
                records["nulls"][:, index] = entries["rows"]
            elif index in self.exact:
                records[:, index] = old[:, source]
            else:
                records["nulls"][:, index] = old["nulls"][:, source]
                records["nans"][:, index] = old["nans"][:, source]
        return translated

    def of_bytes(self, entry: bytes) -> Entries | None:
        """The translation of an entry as a manifest keeps it; None if it has none of the old layout."""
        dtype = entry_dtype(self._size)
        return self(np.frombuffer(entry, dtype, 1)) if len(entry) >= dtype.itemsize else None


@final
class EvolvedPart(WrappedPart):
    """The rows of a part under the columns of another version of the schema."""

    def __init__(self, part: Part, layout: Layout) -> None:
        """``part`` has the layout it was written with, with the names of ``layout``."""
        super().__init__(part)
        self._plain = layout.with_states(())
        self._translation = _Translation(part.layout, self._plain)
        stored = part.layout.stored
        kept = [each for each in part.layout.states.kept if still_holds(each, stored, layout.stored)]
        self._layout = self._plain.with_states(kept) if kept else self._plain

    @property
    def layout(self) -> Layout:
        """The layout it is presented under, with those states of its tree that still hold."""
        return self._layout

    def known_states(self, wanted: States) -> Words | None:
        """The states of all rows, if the manifest knows them and they still hold."""
        return self._part.known_states(wanted) if self._layout.states.has_all(wanted) else None

    def _test(self, test: Test | None) -> Test | None:
        return None if test is None else lambda entries: test(self._translation(entries))

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range, in order, cast to the types they have now."""
        stored = self._part.layout.stored.names
        known = [name for name in columns if name in stored]
        target = pa.schema([self._layout.stored.field(name) for name in columns])
        for batch in self._part.scan(start, end, known, self._test(test), counters):
            yield presented(batch, target)

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return self._part.rank(time, counters)

    def times_near(self, index: int, counters: ReadCounters) -> tuple[int, int]:
        """Times around that of row number ``index``."""
        return self._part.times_near(index, counters)

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, choice: RowChoice, counters: ReadCounters
    ) -> list[Subtree]:
        """What a time range consists of."""
        own = replace(choice, may_hold=self._test(choice.may_hold))
        return self._part.subtrees(most_rows, start, end, own, counters)

    def numbered(self, node: int | None, counters: ReadCounters) -> Numbered:
        """The children of an inner node, with the sequence numbers of each."""
        return self._part.numbered(node, counters)

    def numbers_of_leaf(self, id: int, counters: ReadCounters) -> tuple[Ints, Ints]:
        """The times and the sequence numbers of the rows of a leaf."""
        return self._part.numbers_of_leaf(id, counters)

    def stretches(self, start: int | None, end: int | None, counters: ReadCounters) -> Stretches:
        """The part's own, with entries that know what they know under both versions of the schema."""
        found = self._part.stretches(start, end, counters)
        own, before = self._part.layout, entry_dtype(len(self._part.layout.kinds)).itemsize // 8
        plain = np.ascontiguousarray(found.words[:, :before]).view(entry_dtype(len(own.kinds)))[:, 0]
        words = words_of(self._translation(plain))
        if self._layout.states.kept:
            states = found.words[:, before:][:, own.states.words_of(self._layout.states)]
            words = np.concatenate([words, states], axis=1)
        return replace(found, words=words)

    def leaf_rows(self, leaves: Ints, columns: Sequence[str], counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """The rows of leaves, cast to the types they have now."""
        stored = self._part.layout.stored.names
        known = [name for name in columns if name in stored] or [self._part.layout.schema.time]
        target = pa.schema([self._layout.stored.field(name) for name in columns])
        return (presented(batch, target) for batch in self._part.leaf_rows(leaves, known, counters))

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range, from events where entries do not tell."""
        if not self._translation.answers(columns):
            return super().aggregate(start, end, columns, counters)
        if self._is_whole(start, end):
            known = self._translation.of_bytes(self._part.manifest_entry)
            if known is not None:
                return Aggregate(self._plain, columns, known)
        found = self._part.aggregate(start, end, self._translation.columns(columns), counters)
        return Aggregate(self._plain, columns, self._translation(found.entry))

    def _is_whole(self, start: int | None, end: int | None) -> bool:
        return (start is None or start <= self.first) and (end is None or end > self.last)

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        if not self._translation.answers(columns):
            return super().aggregates(starts, ends, columns, counters)
        return self._translation(self._part.aggregates(starts, ends, self._translation.columns(columns), counters))

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range, a table of one row."""
        known = self._part.known_states(wanted) if self._is_whole(start, end) else None
        return self._part.states(start, end, wanted, counters) if known is None else known
