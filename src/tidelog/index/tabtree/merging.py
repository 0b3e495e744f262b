"""Late rows on their way into leaves that are written already (spec/event-store.md 6.2).

Ids are arithmetic, so a leaf is never split: it grows, up to :data:`GROWTH` times what a leaf is cut to, and what does
not fit there has to be kept elsewhere. A grown leaf, and the nodes on its path, are new images under their old ids;
links between neighbours stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import threads
from tidelog.index import ids, kernels
from tidelog.index.entries import Entries, Words
from tidelog.index.layout import Layout
from tidelog.model.arrays import integers
from tidelog.model.errors import InputError
from tidelog.storage.codec import Ints
from tidelog.storage.rows.ordered import OrderedRows
from tidelog.storage.rows.row_size import RowSize
from tidelog.storage.write.updates import LeafUpdate

GROWTH: Final = 4
"""How many times the rows of a full leaf one may come to have.

The room takes no space while nobody needs it. It is sized for bulks that overtake the whole of a leaf's own rows three
times over; independent late rows of mean ``m`` to a leaf pass ``4 m`` with a probability below 1e-6 from m = 6 on
(spec/event-store.md 2.7).
"""

_RUN_ROWS: Final = 1 << 18
"""Rows of leaves that are read, merged and encoded by one task."""

_LEAST_ROWS: Final = 1 << 15
"""Rows that are worth a task of their own."""

_RUN_BYTES: Final = 64 << 20
"""The same limit in bytes, for rows of many columns."""

_RUN_LEAVES: Final = 32
"""The same limit in leaves, for rows with values of no fixed width, of which leaves have fewer the longer they are."""


class LeafBounds:
    """First and last times and rows of a tree's leaves: 24 bytes for each. Calls must take turns."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._table = np.empty((3, 0), np.int64)

    @property
    def lows(self) -> Ints:
        """The time of the first row of each leaf."""
        lows: Ints = self._table[0]
        return lows

    @property
    def highs(self) -> Ints:
        """The time of the last row of each leaf."""
        highs: Ints = self._table[1]
        return highs

    @property
    def rows(self) -> Ints:
        """How many rows each leaf has."""
        rows: Ints = self._table[2]
        return rows

    def __len__(self) -> int:
        return len(self.lows)

    def keep(self, count: int) -> None:
        """Forget all leaves but the first ones."""
        self._table = self._table[:, :count]

    def add(self, *tables: Ints) -> None:
        """The next leaves, by what :func:`bounds_in` tells of their entries."""
        self._table = np.concatenate([self._table, *tables], axis=1)

    def replace(self, leaves: Ints, entries: Entries) -> None:
        """Some leaves have other rows now."""
        self._table[:, leaves] = bounds_in(self._layout, entries)


def bounds_in(layout: Layout, entries: Entries) -> Ints:
    """First times, last times and rows of leaves, a row each."""
    times = entries["columns"][:, layout.time]
    return np.stack([times["min"].astype(np.int64), times["max"].astype(np.int64), entries["rows"]])


@dataclass(frozen=True, slots=True)
class Shares:
    """Which leaves sorted rows belong to."""

    leaves: Ints
    """Ordinals of leaves that get rows, rising."""
    cuts: Ints
    """Leaf ``leaves[i]`` gets the rows ``cuts[i]`` to ``cuts[i + 1]``."""

    @property
    def counts(self) -> Ints:
        """How many rows each leaf gets."""
        return np.diff(self.cuts)


def shares_of(bounds: LeafBounds, times: Ints) -> Shares:
    """Where rows of sorted times belong: in the last leaf that begins at their time or before, else in the first."""
    firsts = np.searchsorted(times, bounds.lows)
    firsts[0] = 0
    counts = np.diff(firsts, append=len(times))
    leaves = np.flatnonzero(counts)
    return Shares(leaves, np.append(firsts[leaves], len(times)))


def _runs(rows: Ints, layout: Layout) -> list[tuple[int, int]]:
    """Leaves of so many rows each, as runs ``[first, last)`` that are a good unit of work.

    All threads are to have the same share of it, since whoever merges waits for the last one.
    """
    size = RowSize(layout.stored)
    most = min(_RUN_ROWS, _RUN_BYTES // max(1, size.fixed))
    leaves = len(rows) if size.is_fixed else _RUN_LEAVES
    rounds = -(-int(rows.sum()) // (most * threads.THREADS))
    enough = max(_LEAST_ROWS, int(rows.sum()) // (rounds * threads.THREADS))
    cuts = [0]
    total = 0
    for index, count in enumerate(rows.tolist()):
        if total and (total >= enough or total + count > most or index - cuts[-1] >= leaves):
            cuts.append(index)
            total = 0
        total += count
    return list(zip(cuts, [*cuts[1:], len(rows)], strict=True))


@dataclass(frozen=True, slots=True)
class Merge:
    """Puts new rows into a run of leaves."""

    layout: Layout
    new: OrderedRows
    new_cuts: Ints
    """The leaf with number ``i`` in the run gets the new rows ``new_cuts[i]`` to ``new_cuts[i + 1]``."""
    before: Ints
    """The last time of the leaf left of each."""

    def __call__(self, old: pa.RecordBatch, cuts: Ints) -> tuple[OrderedRows, Ints]:
        """The rows of all leaves, and where each begins, with the new rows; those that are there already are left out.

        Raises :class:`InputError` for a row that belongs among rows of the same time at the end of the leaf before:
        rows come in the order of their numbers, so one that comes late is behind all others of its time.
        """
        layout, new = self.layout, self.new
        old_times, old_numbers = (integers(old.column(column)) for column in (layout.time, layout.sequence))
        new_times, new_numbers = new.times, new.numbers()
        order, times = np.empty((2, old.num_rows + len(new_times)), np.int64)
        at = np.empty(len(new_times), np.int64)
        kernels.interleave(old_times, new_times, order, times, at)
        counts, places = np.diff(self.new_cuts), None
        # Rows come late when all others of their leaf are written, unless they come again after a crash.
        newest, oldest = (
            np.maximum.reduceat(old_numbers, cuts[:-1]),
            np.minimum.reduceat(new_numbers, self.new_cuts[:-1]),
        )
        if not (newest < oldest).all():
            leaves = np.repeat(np.arange(len(cuts) - 1), counts)
            firsts = cuts[leaves]
            last_before = np.maximum(at - 1, firsts)
            is_behind = (old_times[last_before] < new_times) | (old_numbers[last_before] < new_numbers) | (at == firsts)
            if not is_behind.all():
                self._check_places(leaves, firsts, old_times, new_times, old_numbers, new_numbers)
                order, counts = self._sorted_anew(cuts, leaves, old_times, new_times, old_numbers, new_numbers)
                times = np.concatenate([old_times, new_times])[order]
                places = np.flatnonzero(order >= old.num_rows)
        if places is not None:
            order[places] = new.order[order[places] - old.num_rows] + old.num_rows
        else:
            order[at + np.arange(len(at))] = new.order + old.num_rows
        new_cuts = cuts + np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return OrderedRows(layout.stored, (old, *new.parts), order, times, layout.time), new_cuts

    def _check_places(
        self,
        leaves: npt.NDArray[np.intp],
        firsts: Ints,
        old_times: Ints,
        new_times: Ints,
        old_numbers: Ints,
        new_numbers: Ints,
    ) -> None:
        """Raise :class:`InputError` for a row that belongs into the leaf before, see :meth:`__call__`."""
        is_early = (new_times == old_times[firsts]) & (new_times == self.before[leaves])
        is_early &= new_numbers < old_numbers[firsts]
        if is_early.any():
            row = int(np.argmax(is_early))
            raise InputError(
                f"found a row with time {int(new_times[row])} and sequence number {int(new_numbers[row])}, older "
                "than rows of the same time, which are in more than one leaf; expected rows that came later",
                row=row,
                column=self.layout.schema.time,
            )

    def _sorted_anew(
        self,
        cuts: Ints,
        leaves: npt.NDArray[np.intp],
        old_times: Ints,
        new_times: Ints,
        old_numbers: Ints,
        new_numbers: Ints,
    ) -> tuple[Ints, Ints]:
        """The order of all rows without those that are there twice, and how many new ones that leaves in each leaf."""
        of_old = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
        owners = np.concatenate([of_old, leaves])
        times, numbers = np.concatenate([old_times, new_times]), np.concatenate([old_numbers, new_numbers])
        order: Ints = np.lexsort((numbers, times, owners))  # stable: what is there stands before what comes again
        times, numbers, owners = times[order], numbers[order], owners[order]
        is_again = np.zeros(len(order), np.bool_)
        is_again[1:] = (times[1:] == times[:-1]) & (numbers[1:] == numbers[:-1]) & (owners[1:] == owners[:-1])
        totals = np.bincount(owners[~is_again], minlength=len(cuts) - 1)
        return order[~is_again], totals - np.diff(cuts)


def updates_of(layout: Layout, bounds: LeafBounds, shares: Shares, rows: OrderedRows) -> list[LeafUpdate]:
    """What is to be done with leaves for them to get their shares of rows."""
    leaves, cuts = shares.leaves, shares.cuts
    # Left of the first leaf is none: any time will do that is not its first one.
    before = np.where(leaves > 0, bounds.highs[leaves - 1], ~bounds.lows[0])
    found = ids.leaf_ids(leaves, layout.fanout)
    return [
        LeafUpdate(
            found[first:last],
            Merge(
                layout,
                rows.slice(int(cuts[first]), int(cuts[last] - cuts[first])).trimmed(),
                cuts[first : last + 1] - cuts[first],
                before[first:last],
            ),
        )
        for first, last in _runs(bounds.rows[leaves] + shares.counts, layout)
    ]


def with_states(layout: Layout, updates: Sequence[LeafUpdate]) -> tuple[list[LeafUpdate], list[Words]]:
    """The same updates, and where each puts the states of user-defined aggregates of its new leaves when it is made.

    The rows of a new leaf are at hand then and nowhere else; its states, which cannot be merged with those of the new
    rows alone if they are rough estimates, are computed anew (spec/event-store.md 3.5, 3.6).
    """
    states = [layout.states.unknown(len(update.ids)) for update in updates]

    def change(index: int, old: pa.RecordBatch, cuts: Ints) -> tuple[pa.RecordBatch, Ints]:
        changed, new_cuts = updates[index].change(old, cuts)
        rows = changed.gathered() if isinstance(changed, OrderedRows) else changed
        states[index][:] = layout.states.of_rows(rows, new_cuts)
        return rows, new_cuts

    return [update._replace(change=partial(change, index)) for index, update in enumerate(updates)], states


def check_late(layout: Layout, rows: OrderedRows, last: tuple[int, int] | None) -> None:
    """Raise :class:`InputError` unless rows can be merged: of the stored schema, sorted, and none behind the last one.

    They are sorted by (time, sequence number), without two that are equal in both.
    """
    if not rows.schema.equals(layout.stored):
        raise InputError(
            f"found a batch of the columns {', '.join(rows.schema.names)}, expected the stored ones, "
            f"{', '.join(layout.stored.names)}, of the types in the schema"
        )
    if not rows.num_rows:
        return
    times, numbers = rows.times, rows.numbers()
    row = int(kernels.first_disorder(times, numbers))
    if row >= 0:
        raise InputError(
            f"found row {row} behind one that is not older; expected rows in ascending order of time and sequence "
            "number",
            row=row,
            column=layout.schema.time,
        )
    newest = int(times[-1]), int(numbers[-1])
    if last is None or newest > last:
        raise InputError(
            f"found a row with time {newest[0]} and sequence number {newest[1]}, expected none behind the last one in "
            f"the tree, {last}; use extend"
        )
