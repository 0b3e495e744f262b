"""Situations that have ended, as long as the window has room for them: a ring for each key and definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.model.arrays import distinct, integer_column, integers
from tidelog.operators.base import Ints
from tidelog.operators.situations import kernels
from tidelog.operators.state import State, packed, unpacked

_LEAST: Final = 1024
_LEAST_RING: Final = 4
_MOST_ROOM: Final = 8
"""How many times the room of its situations an arena has at the most. Rings have up to four times theirs."""
_LIVE: Final = pa.schema([("start", pa.int64()), ("end", pa.int64())])
_COUNTS: Final = pa.schema([("count", pa.int64())])


@dataclass(frozen=True)
class View:
    """What a search needs of buffers. It stays as it is whatever is added, as long as it is not purged of that."""

    starts: Ints
    ends: Ints
    states: list[list[States]]
    layout: Ints
    firsts: Ints
    lasts: Ints

    def copied(self) -> View:
        """The same, with ends of rings of its own."""
        return replace(self, layout=self.layout.copy(), firsts=self.firsts.copy(), lasts=self.lasts.copy())

    def purge(self, rings: Ints, limit: int) -> None:
        """Look at no situations any more, in some rings, that start before a limit."""
        none = np.zeros(len(rings), np.int64)
        limits = np.full(len(rings), limit)
        kernels.purge_and_measure(rings, none, limits, self.starts, self.firsts, self.lasts, self.layout)


@dataclass(frozen=True)
class Incoming:
    """Situations that go into rings."""

    rings: Ints
    starts: Ints
    ends: Ints
    own: Ints
    """The rings, each once."""
    counts: Ints
    """How many each of them gets."""
    needed: int
    """The room of those that become too small."""


class Buffers:
    """Rings in one arena. Rings are numbered by key, then by definition."""

    def __init__(self, folds: Sequence[Sequence[Fold]]) -> None:
        """``folds`` are the aggregates of each definition."""
        self._folds = [list(each) for each in folds]
        # Never without a slot, for whole columns of matches are looked up, also where situations that go on stand.
        self.starts: Ints = np.zeros(1, np.int64)
        self.ends: Ints = np.zeros(1, np.int64)
        self.states: list[list[States]] = [[fold.start() for fold in each] for each in self._folds]
        """Of each definition and aggregate, by slot."""
        self.layout: Ints = np.zeros(0, np.int64)
        """Where each ring is, and behind that how large it is."""
        self.firsts: Ints = np.zeros(0, np.int64)
        self.lasts: Ints = np.zeros(0, np.int64)
        self._top = 0

    def view(self) -> View:
        """As they are."""
        return View(self.starts, self.ends, self.states, self.layout, self.firsts, self.lasts)

    @property
    def rows(self) -> int:
        """How many situations there are."""
        return int((self.lasts - self.firsts).sum())

    @property
    def bytes(self) -> int:
        """The memory of the arena without states."""
        return self.starts.nbytes + self.ends.nbytes

    def grow(self, keys: int) -> None:
        """Make room for keys that are new."""
        rings = len(self.firsts)
        more = keys * len(self._folds) - rings
        if more > 0:
            more = max(more, rings // 2 // len(self._folds) * len(self._folds))
            zeros = np.zeros(more, np.int64)
            bases, sizes = self.layout[:rings], self.layout[rings:]
            self.layout = np.concatenate([bases, zeros, sizes, zeros])
            self.firsts, self.lasts = np.append(self.firsts, zeros), np.append(self.lasts, zeros)

    def tidy(self) -> None:
        """Give back room that rings have left; only while no situation waits to count."""
        if self._top > max(_LEAST, _MOST_ROOM * self.rows, _LEAST_RING * len(self.firsts)):
            self._compact()

    def measured(self, rings: Ints, starts: Ints, ends: Ints, limit: int) -> Incoming:
        """What it takes to put situations behind those of their rings, which stand one ring behind the other.

        What starts before the limit is not needed any more, and leaves these rings. Several threads may do so at once
        for different rings, and so may :meth:`place`; room is made for all of them in between.
        """
        is_new = np.ones(len(rings), np.bool_)
        is_new[1:] = rings[1:] != rings[:-1]
        at = np.flatnonzero(is_new)
        counts = np.diff(np.append(at, len(rings)))
        own = rings[at]
        limits = np.full(len(own), limit)
        needed = kernels.purge_and_measure(own, counts, limits, self.starts, self.firsts, self.lasts, self.layout)
        return Incoming(rings, starts, ends, own, counts, needed)

    def make_room(self, incoming: Sequence[Incoming]) -> list[int]:
        """Room in the arena: for each of those that come in where it begins."""
        tops = []
        for each in incoming:
            tops.append(self._top)
            self._top += each.needed
        if self._top > len(self.starts):
            self._enlarge(max(2 * len(self.starts), self._top, _LEAST))
        return tops

    def place(self, incoming: Incoming, top: int) -> Ints:
        """Put situations behind those of their rings: their slots. They count once ``lasts`` says so."""
        if incoming.needed:
            self._move(incoming.own, incoming.counts, top)
        slots = np.empty(len(incoming.rings), np.int64)
        kernels.place_situations(
            incoming.rings, incoming.starts, incoming.ends, self.lasts, self.layout, self.starts, self.ends, slots
        )
        return slots

    def _move(self, rings: Ints, counts: Ints, top: int) -> None:
        """Move rings that become too small to the top of the arena."""
        live = int((self.lasts[rings] - self.firsts[rings]).sum())
        sources, targets = np.empty(live, np.int64), np.empty(live, np.int64)
        moved = kernels.make_room(
            rings, counts, self.lasts, self.firsts, self.starts, self.ends, top, self.layout, sources, targets
        )
        for states in (own for each in self.states for own in each):
            states[targets[:moved]] = states[sources[:moved]]

    def _enlarge(self, size: int) -> None:
        self.starts, self.ends = (_enlarged(each, size) for each in (self.starts, self.ends))
        self.states = [[_enlarged(own, size) for own in each] for each in self.states]

    def _slots(self, rings: Ints) -> tuple[Ints, Ints]:
        """How many situations some rings have, and the slots of these, one ring behind the other."""
        total = len(self.firsts)
        counts = (self.lasts - self.firsts)[rings]
        begins = np.cumsum(counts) - counts
        addresses = np.arange(int(counts.sum())) + np.repeat(self.firsts[rings] - begins, counts)
        covers = np.maximum(self.layout[total + rings] - 1, 0)
        return counts, np.repeat(self.layout[rings], counts) + (addresses & np.repeat(covers, counts))

    def _compact(self, rings: Ints | None = None) -> None:
        """Put rings one behind the other, each with room to grow; perhaps only some, numbered anew."""
        own = np.arange(len(self.firsts)) if rings is None else rings
        counts, slots = self._slots(own)
        self._fill(
            counts,
            self.starts[slots],
            self.ends[slots],
            [[states[slots] for states in each] for each in self.states],
        )

    def _fill(self, counts: Ints, starts: Ints, ends: Ints, states: list[list[States]]) -> None:
        doubled = np.maximum(2 * counts, _LEAST_RING)
        sizes = np.where(counts > 0, np.int64(1) << np.ceil(np.log2(doubled)).astype(np.int64), 0)
        bases = np.cumsum(sizes) - sizes
        self._top = int(sizes.sum())
        targets = np.repeat(bases - (np.cumsum(counts) - counts), counts) + np.arange(len(starts))
        self.layout = np.concatenate([bases, sizes])
        self.firsts, self.lasts = np.zeros(len(counts), np.int64), counts.copy()
        self.starts, self.ends = (np.zeros(max(self._top, 1), np.int64) for _ in range(2))
        self.starts[targets], self.ends[targets] = starts, ends
        self.states = []
        for each, folds in zip(states, self._folds, strict=True):
            found = []
            for own, fold in zip(each, folds, strict=True):
                arena = _enlarged(fold.start(), max(self._top, 1))
                arena[targets] = own
                found.append(arena)
            self.states.append(found)

    def needed_keys(self, limit: int) -> Ints:
        """The keys with situations that do not start before a limit."""
        rings = np.flatnonzero(self.lasts > self.firsts)
        total = len(self.firsts)
        slots = self.layout[rings] + ((self.lasts[rings] - 1) & (self.layout[total + rings] - 1))
        return distinct(rings[self.starts[slots] >= limit] // len(self._folds))

    def choose(self, keys: Ints) -> None:
        """Keep some keys, under new numbers."""
        count = len(self._folds)
        self._compact((keys[:, None] * count + np.arange(count)).ravel())

    def snapshot(self) -> dict[str, pa.Buffer]:
        """As chunks."""
        counts, slots = self._slots(np.arange(len(self.firsts)))
        live = [integer_column(each[slots]) for each in (self.starts, self.ends)]
        found = {
            "live": packed(pa.RecordBatch.from_arrays(live, schema=_LIVE)),
            "counts": packed(pa.RecordBatch.from_arrays([integer_column(counts)], schema=_COUNTS)),
        }
        for definition, (states, folds) in enumerate(zip(self.states, self._folds, strict=True)):
            for number, (own, fold) in enumerate(zip(states, folds, strict=True)):
                found[f"{definition}.{number}"] = fold.pack(own[slots])
        return found

    def restore(self, state: State, prefix: str) -> None:
        """Hold the same."""
        starts, ends = (integers(each) for each in unpacked(state.chunks[f"{prefix}live"], _LIVE).columns)
        counts = integers(unpacked(state.chunks[f"{prefix}counts"], _COUNTS).column(0))
        states = [
            [fold.unpack(state.chunks[f"{prefix}{definition}.{number}"]) for number, fold in enumerate(folds)]
            for definition, folds in enumerate(self._folds)
        ]
        self._fill(counts, starts, ends, states)


def _enlarged(values: Any, size: int) -> Any:
    """The same values, and room for others; memory that nobody has written to is not touched."""
    found = np.zeros((size, *values.shape[1:]), values.dtype)
    found[: len(values)] = values[:size]
    return found
