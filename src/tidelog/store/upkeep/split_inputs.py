"""Closed splits that are read once and whole, to be written anew.

A file is open only while it is read. Small splits that follow one another are read together, as one part: opening a
file and decoding a few thousand rows by calls of their own takes ten times as long as the rows are worth.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.root import Root
from tidelog.index.tabtree.searching import Test
from tidelog.model.arrays import integer_column, integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.storage import ContainerReader
from tidelog.storage.codec import is_text
from tidelog.storage.codec.text import TextOverflowError
from tidelog.storage.read.images import Images, Wanted
from tidelog.store.manifest.schemas import version_in
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.parts.evolved import under
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.tree import SplitPart
from tidelog.store.rows.merge import chained, in_order
from tidelog.store.rows.stored import concatenated
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import closed_tree
from tidelog.store.upkeep.compaction_plan import READING_BYTES, reading_memory

_TOGETHER_BYTES: Final = 32 << 20
"""Memory for the rows of splits that are read together, by estimate."""

_MOST_BYTES: Final = 4 * _TOGETHER_BYTES
"""If they come to take more they are read one after the other."""

_FIRST_FILES: Final = 8
"""Files that are decoded first."""

_SMALL_SHARE: Final = 8
"""Splits are read together if this many of them have room at least: of larger ones, each is worth its calls."""

_TEXT_BYTES: Final = 32
"""What a value that is no number is taken to have."""

_LEAF_BYTES: Final = 8 << 20
"""What a leaf has that was cut before it was full, because its rows are long."""

_SHORT_LEAF: Final = 4
"""Leaves of that kind have this part of a full one's rows, or fewer, on average."""


def inputs_of(context: StreamContext, infos: Sequence[SplitInfo]) -> list[Part]:
    """Splits as parts under the schema of a context, in no particular order; opens no file.

    What is read together takes no more memory than what is open at once anyway.
    """
    found: list[Part] = []
    width = _width(context.layout)
    most = min(_TOGETHER_BYTES, READING_BYTES // max(_overlapping(infos), 1))
    group: list[SplitInfo] = []
    taken = 0

    def end_group() -> None:
        nonlocal taken
        found.append(SmallSplits(context, group) if len(group) > 1 else SplitInput(context, group[0]))
        group.clear()
        taken = 0

    for info in sorted(infos, key=lambda info: (info.time_min, info.time_max, info.name)):
        # Some rows compress very well.
        size = max(reading_memory(info), info.rows * width, _of_long_rows(info, context))
        is_small = size * _SMALL_SHARE <= most and info.kind != "coarse"
        # A larger one in between ends the group, which otherwise would have to be merged with it.
        if group and (not is_small or taken + size > most or info.schema != group[0].schema):
            end_group()
        if is_small:
            group.append(info)
            taken += size
        else:
            found.append(SplitInput(context, info))
    if group:
        end_group()
    return [under(part, context.layout) for part in found]


def _overlapping(infos: Sequence[SplitInfo]) -> int:
    """How many splits have rows at the same time, at most."""
    ends: list[int] = []
    most = 0
    for first, last in sorted((info.time_min, info.time_max) for info in infos):
        while ends and ends[0] < first:
            heapq.heappop(ends)
        heapq.heappush(ends, last)
        most = max(most, len(ends))
    return most


def _width(layout: Layout) -> int:
    """What a row takes in memory, by estimate."""
    return sum(type.bit_width // 8 + 1 if pa.types.is_primitive(type) else _TEXT_BYTES for type in layout.types)


def _of_long_rows(info: SplitInfo, context: StreamContext) -> int:
    """What the rows of a split take in memory if they are long, by the number of its leaves; else 0."""
    if info.rows < 2 or not any(map(is_text, context.layout.types)) or info.kind == "coarse":
        return 0
    leaves = Root.from_bytes(info.root).leaves
    is_long = leaves > 1 and info.rows * _SHORT_LEAF <= leaves * context.options.leaf_rows
    return leaves * _LEAF_BYTES if is_long else 0


@final
class SplitInput(SplitPart):
    """A split that is read once: its file is open only while it is."""

    def __init__(self, context: StreamContext, info: SplitInfo) -> None:
        self._context = context
        self._reader: ContainerReader | None = None
        super().__init__(info, self._opened, context.known_layout(info))

    def _opened(self, info: SplitInfo) -> TreeReader:
        if self._reader is None:
            self._read_tree, self._reader = closed_tree(self._context, info)
        return self._read_tree

    def _close(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()

    @property
    def layout(self) -> Layout:
        """The layout of the tree."""
        if self._layout is None:
            is_open = self._reader is not None
            self._layout = self._tree.layout
            if not is_open:
                self._close()
        return self._layout

    def scan(self, *arguments: Any) -> Iterator[pa.RecordBatch]:
        """Like that of the base; closes the file at the end."""
        return self._closing(super().scan(*arguments))

    def select(self, *arguments: Any) -> Iterator[pa.RecordBatch]:
        """Like that of the base; closes the file at the end."""
        return self._closing(super().select(*arguments))

    def _closing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        finally:
            self._close()


@final
class SmallSplits(Part):
    """The rows of several small splits of one version of the schema. Knows only how to read them, all at once."""

    def __init__(self, context: StreamContext, infos: Sequence[SplitInfo]) -> None:
        self._context = context
        self._infos = tuple(infos)
        self.first = min(info.time_min for info in infos)
        self.last = max(info.time_max for info in infos)
        self.rows = sum(info.rows for info in infos)

    @property
    def layout(self) -> Layout:
        """The layout of the trees, without user-defined aggregates, which some of them may have."""
        assert self._context.history is not None
        return self._context.history.layout_of(self._infos[0].schema)

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        return min(info.seq_min for info in self._infos), max(info.seq_max for info in self._infos)

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range, in order, as one batch if it can hold them. All are read, whatever a test says."""
        infos = [
            info
            for info in self._infos
            if (start is None or info.time_max >= start) and (end is None or info.time_min < end)
        ]
        if not infos:
            return
        rows = self._together(infos)
        if rows is None:
            yield from self._in_turn(infos, start, end, columns, test, counters)
            return
        at = integers(rows.column(self.layout.time))
        first = 0 if start is None else int(np.searchsorted(at, start))
        last = len(at) if end is None else int(np.searchsorted(at, end))
        if first < last:
            yield rows.slice(first, last - first).select(list(columns))

    def _together(self, infos: Sequence[SplitInfo]) -> pa.RecordBatch | None:
        """All rows of splits, in order; None if they take much more memory than was expected."""
        context, stored = self._context, self.layout.stored
        images = Images(context.medium, [Wanted(context.path(info.name), info.bytes, info.root) for info in infos])
        plain = [index for index, info in enumerate(infos) if self._can_decode(images, index, info)]
        # How long texts are is not known before: a few files tell what to expect of as many more.
        count = _FIRST_FILES if any(map(is_text, self.layout.types)) else len(plain)
        batches: list[pa.RecordBatch] = []
        done = 0
        while done < len(plain):
            try:
                batches.append(self._decoded(infos, images, plain[done : done + count]))
            except TextOverflowError:
                return None
            done += count
            count = done
            if done < len(plain) and sum(batch.nbytes for batch in batches) > _MOST_BYTES:
                return None
        for index in sorted({*range(len(infos))} - {*plain}):
            batches.extend(SplitInput(context, infos[index]).scan(None, None, stored.names, None, ReadCounters()))
            if sum(batch.nbytes for batch in batches) > _MOST_BYTES:
                return None
        return in_order(concatenated(batches, stored), self.layout.time, self.layout.sequence)

    def _can_decode(self, images: Images, index: int, info: SplitInfo) -> bool:
        """Whether a file is as plain as most are, and has the columns that the manifest says."""
        if not images.is_plain(index) or version_in(images.description(index)) != info.schema:
            return False
        return images.has_leaves_of(index, self.layout.stored)

    def _decoded(self, infos: Sequence[SplitInfo], images: Images, files: Sequence[int]) -> pa.RecordBatch:
        """The rows of some files, with their sequence numbers."""
        sequence = self.layout.sequence
        batch, counts = images.decode(files, self.layout.stored, self._context.meter)
        bases = np.array([infos[index].seq_base for index in files], np.int64)
        if bases.any():
            numbers = integers(batch.column(sequence)) + np.repeat(bases, counts)
            batch = batch.set_column(sequence, batch.schema.field(sequence), integer_column(numbers))
        return batch

    def _in_turn(
        self,
        infos: Sequence[SplitInfo],
        start: int | None,
        end: int | None,
        columns: Sequence[str],
        test: Test | None,
        counters: ReadCounters,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range, in order, a few leaves of each split at a time."""
        time, sequence = self.layout.schema.time, SEQUENCE_COLUMN
        names = list(dict.fromkeys((*columns, time, sequence)))
        parts = [SplitInput(self._context, info) for info in infos]
        opened = [(part.first, part.last, partial(part.scan, start, end, names, test, counters)) for part in parts]
        for batch in chained(opened, names.index(time), names.index(sequence)):
            yield batch.select(list(columns))
