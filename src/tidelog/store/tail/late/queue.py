"""Late rows of a tail: those that are older than what is sealed, until they are merged into trees (spec 6.1, 11.1).

Rows arrive in :class:`LateArrivals`. When there are many, all of them become the *bulk*: sorted once, and given to the
trees leaf by leaf, those with the most rows first, in slices between appends; meanwhile others arrive. Which rows of a
bulk are merged is known here by a mask. On disk nothing has to say so: a merge is durable together with the commit of
the tree it went to, and rows of the journal that a tree has are dropped by whoever reads both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.tabtree.merging import Shares
from tidelog.model.schema import Schema
from tidelog.storage.rows.numbered import Rows
from tidelog.storage.rows.ordered import OrderedRows
from tidelog.store.rows.stored import Ints, concatenated, seqs, taken
from tidelog.store.tail.late.arrivals import LateArrivals


class Taker(Protocol):
    """A tree that late rows can be merged into."""

    def shares(self, times: Ints) -> Shares:
        """Which leaves rows of sorted times belong to."""

    def room(self, leaves: Ints, rows: OrderedRows) -> Ints:
        """How many such rows as these leaves can still take."""

    def merge(self, rows: OrderedRows) -> int:
        """Put rows where they belong; returns how many are new."""


_PINNED: Final = 2
"""Which fraction of the limit of late rows may stay in memory with late rows that were not copied yet."""

Claim = tuple[Taker, int, int]
"""A tree and the times of rows that belong into it: from the first up to the second, which is excluded."""


class LateQueue:
    """Late rows in memory. Calls must take turns."""

    def __init__(self, schema: Schema, stored: pa.Schema, most_rows: int, most_bytes: int) -> None:
        """``most_rows`` and ``most_bytes`` are what is to be kept in memory, see :meth:`exceeds`."""
        self._schema = schema
        self._stored = stored
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._arriving = LateArrivals(schema, stored, most_bytes // _PINNED)
        self._bulk: OrderedRows | None = None
        self._is_copied = False
        """Whether the rows of the bulk are those of one batch, in order."""
        self._left = np.empty(0, np.bool_)
        """Which rows of the bulk are not merged."""
        self._left_rows = 0
        self._row_bytes = 0.0
        self.unsaved_bytes = 0
        """About how much of it has come since :meth:`note_saved`."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._arriving.rows + self._left_rows

    @property
    def bytes(self) -> int:
        """About how much memory they take."""
        return self._arriving.bytes + int(self._left_rows * self._row_bytes)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do: no rows, and no bulk that is being merged."""
        return not self._arriving.rows and self._bulk is None

    @property
    def is_merging(self) -> bool:
        """Whether a bulk is being merged."""
        return self._bulk is not None

    def exceeds(self, factor: float) -> bool:
        """Whether there are so many times the rows, or bytes, that are to be kept in memory, or more."""
        return self.rows >= factor * self._most_rows or self.bytes >= factor * self._most_bytes

    def add(self, rows: Rows, places: Ints) -> None:
        """Take in the rows at some rising places; the memory of all rows must not change afterwards."""
        self.unsaved_bytes += self._arriving.add(rows, places)

    def note_saved(self) -> None:
        """All rows are durable somewhere."""
        self.unsaved_bytes = 0

    def sorted(self) -> list[pa.RecordBatch]:
        """All rows, as sorted batches."""
        return [batch for batch in (self._rest(), self._arriving.copied().sorted()) if batch.num_rows]

    def since(self, seq: int) -> list[pa.RecordBatch]:
        """The rows with sequence numbers from ``seq`` on."""
        rest = self._rest()
        wanted = seqs(rest) >= seq
        found = [rest.filter(pa.array(wanted))] if wanted.any() else []
        return found + self._arriving.copied().since(seq)

    def _rest(self) -> pa.RecordBatch:
        """What is left of the bulk."""
        if self._bulk is None:
            return concatenated([], self._stored)
        if not self._is_copied or self._left_rows < self._bulk.num_rows:
            rest = taken(self._bulk.parts, self._bulk.order[self._left], self._stored)
            self._bulk = OrderedRows.of(rest, self._schema.time_index)
            self._left = np.ones(rest.num_rows, np.bool_)
            self._is_copied = True
        (batch,) = self._bulk.parts
        return batch

    def begin(self) -> None:
        """Make a bulk of all rows."""
        self.end()
        arrived = self._arriving.copied()
        self._row_bytes = arrived.bytes / max(1, arrived.rows)
        self._bulk = arrived.take_in_order()
        self._is_copied = False
        self._left = np.ones(self._bulk.num_rows, np.bool_)
        self._left_rows = self._bulk.num_rows

    def end(self) -> None:
        """Merge no more: what is left of the bulk waits with the rows that have come since."""
        rest, self._bulk, self._left_rows = self._rest(), None, 0
        if rest.num_rows:
            arrived = self._arriving.copied()
            come = arrived.take()
            arrived.add(rest)  # first: it is older, as :meth:`MemoryRows.since` wants it
            arrived.add(come)

    def take(self) -> pa.RecordBatch:
        """Remove and return all rows, sorted."""
        self.end()
        return self._arriving.copied().take()

    def merge_slice(self, claims: Sequence[Claim], most_leaves: int, fewest_rows: int) -> int:
        """Merge rows of the bulk into the leaves that get the most of them; returns how many rows left the queue.

        At most ``most_leaves`` leaves, none that would get fewer than ``fewest_rows`` or has no room for its share. The
        merge is durable with the next commit of the trees.
        """
        assert self._bulk is not None
        offers = list(self._offers(claims, fewest_rows))
        counts = np.concatenate([np.empty(0, np.int64), *(offer.counts for offer in offers)])
        if not len(counts):
            return 0
        threshold = int(np.partition(counts, -most_leaves)[-most_leaves]) if len(counts) > most_leaves else 0
        rest = most_leaves
        merged = 0
        for offer in offers:
            chosen = np.flatnonzero(offer.counts >= threshold)[:rest]
            rest -= len(chosen)
            merged += self._merge(offer, chosen)
        return merged

    def _offers(self, claims: Sequence[Claim], fewest_rows: int) -> Iterator[_Offer]:
        assert self._bulk is not None
        at = self._bulk.times
        is_whole = self._left_rows == len(at)
        before = None if is_whole else np.concatenate([np.zeros(1, np.int64), np.cumsum(self._left)])
        for taker, start, end in claims:
            first, last = np.searchsorted(at, (start, end)).tolist()
            if first == last or (before is not None and before[first] == before[last]):
                continue
            shares = taker.shares(at[first:last])
            cuts = shares.cuts + first
            counts = np.diff(cuts if before is None else before[cuts])
            room = taker.room(shares.leaves, self._bulk)
            fits = np.flatnonzero((counts >= max(1, fewest_rows)) & (counts <= room))
            if len(fits):
                yield _Offer(taker, cuts[fits], cuts[fits + 1], counts[fits])

    def _merge(self, offer: _Offer, chosen: npt.NDArray[np.intp]) -> int:
        assert self._bulk is not None
        if not len(chosen):
            return 0
        firsts, lasts = offer.firsts[chosen], offer.lasts[chosen]
        if self._left_rows == len(self._left) and (firsts[1:] == lasts[:-1]).all():  # as when all leaves get theirs
            first, last = int(firsts[0]), int(lasts[-1])
            rows, merged = self._bulk.slice(first, last - first), slice(first, last)
        else:
            lengths = lasts - firsts
            places = np.arange(int(lengths.sum())) + np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths)
            merged = places[self._left[places]]
            rows = replace(self._bulk, order=self._bulk.order[merged], times=self._bulk.times[merged])
        offer.taker.merge(rows)
        self._left[merged] = False
        self._left_rows -= rows.num_rows
        return rows.num_rows


@dataclass(frozen=True, slots=True)
class _Offer:
    """Leaves of a tree that could be given their rows of the bulk, ``firsts[i]`` to ``lasts[i]``."""

    taker: Taker
    firsts: Ints
    lasts: Ints
    counts: Ints
    """How many of these rows are not merged."""
