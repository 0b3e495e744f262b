"""The part of a snapshot that a coarse split is: aggregates of whole entries, and no rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn, final

import numpy as np

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.errors import CorruptionError, GrainError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.parts.stretches import Stretches
from tidelog.store.read.parts.tree import SplitPart
from tidelog.store.rows.stored import Ints
from tidelog.store.split.coarse import CoarseEntries, read_coarse
from tidelog.store.split.context import StreamContext


@final
class CoarsePart(SplitPart):
    """The entries of a coarse split. Whatever needs its rows raises :class:`GrainError`.

    So does a range that begins or ends inside of an entry. What a range has to begin or end at is told.
    """

    has_rows = False

    def __init__(self, info: SplitInfo, read: Callable[[SplitInfo], CoarseEntries]) -> None:
        """``read`` gives the entries whenever they are needed."""
        super().__init__(info, self._no_tree, None)
        self._read = read

    @property
    def coarse(self) -> CoarseEntries:
        """The entries."""
        return self._read(self.info)

    @property
    def layout(self) -> Layout:
        """The layout of the tree that the entries are from."""
        if self._layout is None:
            self._layout = self.coarse.layout
        return self._layout

    def shape(self) -> dict[str, int] | None:
        """Rows, entries, and the level they were cut at."""
        coarse = self.coarse
        return {"rows": self.rows, "entries": len(coarse.entries), "level": coarse.level}

    # -- what it answers ------------------------------------------------------------------------------------------

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range, which must not cut an entry."""
        first, last = self._between(start, end)
        total = Aggregate(self.layout, columns)
        total.add(self.coarse.words, first, last)
        return total

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, none of which may cut an entry."""
        bounds = [self._between(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        firsts, lasts = np.array(bounds, np.int64).reshape(-1, 2).T
        found = blank(self.layout, len(bounds))
        merge_all(self.layout, columns, self.coarse.entries, firsts, lasts, found)
        return found

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range, which must not cut an entry.

        All that is ``wanted`` must be among those of the layout.
        """
        first, last = self._between(start, end)
        coarse = self.coarse
        table = np.ascontiguousarray(coarse.states[first:last, self.layout.states.words_of(wanted)])
        found = wanted.merge(table, np.array([0, last - first], np.int64))
        if wanted.is_unknown(found)[0]:  # computed by a process without their code
            self.require_rows()
        return wanted.shifted(found, self.base) if self.base else found

    def stretches(self, start: int | None, end: int | None, counters: ReadCounters) -> Stretches:
        """Entries, none of which the range may cut."""
        chosen, coarse = slice(*self._between(start, end)), self.coarse
        rows = np.diff(coarse.before)[chosen].astype(np.int64)
        words = coarse.words[chosen]
        leaves = np.arange(chosen.start, chosen.stop, dtype=np.int64)
        return Stretches.of_leaves(coarse.lows[chosen], coarse.highs[chosen], rows, leaves, words)

    def leaf_rows(self, leaves: Ints, columns: Sequence[str], counters: ReadCounters) -> NoReturn:
        """There are none."""
        self.require_rows()

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time, which must not be inside of an entry."""
        return int(self.coarse.before[self._place(time)])

    def _between(self, start: int | None, end: int | None) -> tuple[int, int]:
        """The entries of a time range."""
        low = INT64_MIN if start is None else start
        if end is not None and end <= low:
            return 0, 0
        first = self._place(low)
        if end is None or end > INT64_MAX:
            return first, len(self.coarse.entries)
        return first, max(self._place(end), first)

    def _place(self, time: int) -> int:
        """The first entry that is not before a time."""
        cut = self.coarse.cut_by(time)
        if cut is not None:
            self._refuse_cut(time, cut)
        return int(np.searchsorted(self.coarse.lows, time))

    # -- what it does not -----------------------------------------------------------------------------------------

    def _refuse_cut(self, time: int, cut: int) -> NoReturn:
        coarse, show = self.coarse, self.layout.schema.clock.format
        low, high = int(coarse.lows[cut]), int(coarse.highs[cut])
        raise GrainError(
            f"found a bound at {show(time)}, inside of an entry of coarse events, which stands for "
            f"{int(coarse.entries['rows'][cut])} of them from {show(low)} to {show(high)}; expected a bound at "
            f"{show(low)} or before, or after {show(high)}, such as {high + 1} in ticks",
            grain=(low, high),
        )

    def require_rows(self) -> NoReturn:
        """Raise the error for those who want rows."""
        coarse, show = self.coarse, self.layout.schema.clock.format
        low, high = int(coarse.lows[0]), int(coarse.highs[0])
        raise GrainError(
            f"the events from {show(self.first)} to {show(self.last)} are coarsened to {len(coarse.entries)} entries, "
            f"the first from {show(low)} to {show(high)}: only count, sum, min, max, avg and the user-defined "
            "aggregates that were kept can be told, of ranges that cut no entry; ask for these, or for events after "
            f"{show(self.last)}",
            grain=(low, high),
        )

    def _no_tree(self, _: SplitInfo) -> TreeReader:
        self.require_rows()


def coarse_split(context: StreamContext, info: SplitInfo) -> CoarseEntries:
    """The entries of a coarse split, under the names that its columns have now."""
    path = context.path(info.name)
    found = read_coarse(context.medium, path)
    stands_for = int(found.before[-1]), int(found.lows[0]), int(found.highs[-1])
    if stands_for != (info.rows, info.time_min, info.time_max):
        raise CorruptionError(
            f"{path} is another file than the one that was written: it stands for {stands_for[0]} rows of times "
            f"{stands_for[1:]}, the manifest says {info.rows} of times {(info.time_min, info.time_max)}; restore it "
            "from a backup, or salvage the store"
        )
    if context.history is None:
        return found
    return replace(found, layout=context.history.renamed(found.layout, info.schema))
