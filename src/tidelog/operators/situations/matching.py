"""The search for matches among situations, many partitions at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from tidelog import threads
from tidelog.operators.base import Ints
from tidelog.operators.situations import kernels
from tidelog.operators.situations.adapting import Floats, Ordering
from tidelog.operators.situations.buffers import Buffers
from tidelog.operators.situations.checks import Relations
from tidelog.operators.situations.deriving import Derived, Mask, Pieces, Runs
from tidelog.operators.situations.rows import Rows
from tidelog.operators.situations.syntax import Mode, Situations
from tidelog.operators.situations.triggers import triggers

_ROOM: Final = 1 << 12
"""Matches that there is room for at first."""
_LEAST_ROWS: Final = 1 << 14
"""Rows from which on a part is worth a thread."""


@dataclass(frozen=True)
class Matches:
    """What a search has found."""

    rows: Ints
    """The last row of the instant at which each match became known."""
    members: Ints
    """For each match and definition the slot of the situation, or -1 less the run of one that goes on."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Changes:
    """What happens to situations in some rows."""

    runs: list[Runs]
    """Those of each definition."""
    offsets: Ints
    """Where the runs of each definition begin among all."""
    table: Ints
    """The definitions, starts and ends of all runs."""
    changes: Ints
    """The rows, runs and kinds of changes, in the order of rows."""
    cuts: Ints
    """Where the changes of each partition begin."""
    carried: Ints
    """For each partition and definition the run that goes on from before and counts; -1 for none."""


@dataclass(frozen=True)
class Part:
    """Some rows, what happens to situations in them, and the matches that become known by that."""

    rows: Rows
    changes: Changes
    matches: Matches


@dataclass(frozen=True)
class _Searched:
    """What a thread has found, counted, and needed room for."""

    matches: Matches
    seen: Floats
    held: Floats
    room: int


class Matcher:
    """Matches of one query: what it keeps are situations that have ended."""

    def __init__(self, query: Situations, relations: Relations, derived: Sequence[Derived]) -> None:
        self._within = query.within
        self._is_early = query.mode is Mode.EARLY
        self.relations = relations
        self._relations = np.array(relations, np.int64)
        self.derived = tuple(derived)
        self.triggers = triggers(relations, query.definitions, query.mode)
        self.ordering = Ordering(relations)
        self.buffers = Buffers([each.folds for each in derived])
        self._room = _ROOM
        self.threads = threads.THREADS

    def found(self, rows: Rows) -> list[Part]:
        """The matches that become known in some rows, in parts that threads work on at once.

        Each thread derives what lies in its part; what goes on from one part to the next is then put together, and
        buffers are filled, in order; then each searches its part, from the situations on that have ended before it.
        """
        parts = self._parts(rows)
        truths = self._truths(rows) if len(parts) > 1 and not rows.is_single else None
        pieces = threads.together([partial(self._pieces, each, truths) for each in parts])
        changes = [self._settled(part, own) for part, own in zip(parts, pieces, strict=True)]
        self._add(rows, parts, changes)
        ends = self._bounds(rows, parts, changes)
        found = threads.together([partial(self._search, *each) for each in zip(parts, changes, ends, strict=True)])
        self.buffers.firsts, self.buffers.lasts = ends[-1]
        self.ordering.learn(
            np.sum([each.seen for each in found], axis=0), np.sum([each.held for each in found], axis=0)
        )
        self._room = max(self._room, *(each.room for each in found))
        return [Part(*each) for each in zip(parts, changes, (each.matches for each in found), strict=True)]

    def _parts(self, rows: Rows) -> list[Rows]:
        count = min(self.threads, len(rows) // _LEAST_ROWS)
        return [rows] if count < 2 else rows.parts(count)

    def _truths(self, rows: Rows) -> list[Mask]:
        """For which rows conditions hold; parts of different keys have rows all over the batch."""
        return threads.together([partial(each.truth, rows.batch) for each in self.derived])

    def _pieces(self, rows: Rows, truths: Sequence[Mask] | None) -> list[Pieces]:
        own = [each.truth(rows.batch) for each in self.derived] if truths is None else truths
        return [each.pieces(rows, truth) for each, truth in zip(self.derived, own, strict=True)]

    def _settled(self, rows: Rows, pieces: Sequence[Pieces]) -> Changes:
        runs = [each.settled(rows, own) for each, own in zip(self.derived, pieces, strict=True)]
        offsets = np.cumsum([0, *map(len, runs)])
        table = np.stack(
            [
                np.repeat(np.arange(len(runs)), list(map(len, runs))),
                np.concatenate([each.starts for each in runs]),
                np.concatenate([each.stops for each in runs]),
            ]
        )
        carried = np.full((len(rows.keys), len(runs)), -1, np.int64)
        found = []
        for number, (each, own) in enumerate(zip(self.derived, runs, strict=True)):
            places, which, kinds = each.changes(rows, own, is_early=self._is_early)
            found.append(np.stack([places, which + offsets[number], kinds]))
            seen = np.flatnonzero(own.was_seen)
            carried[own.partitions[seen], number] = seen + offsets[number]
        changes = np.concatenate(found, axis=1)
        order = np.argsort(changes[0], kind="stable")
        changes = np.ascontiguousarray(changes[:, order])
        cuts = np.searchsorted(changes[0], rows.cuts)
        return Changes(runs, offsets, table, changes, cuts, carried)

    def _add(self, rows: Rows, parts: Sequence[Rows], changes: Sequence[Changes]) -> None:
        """Put situations that end into their buffers; they count when the search comes to them.

        What no search of these rows needs any more leaves them.
        """
        self.buffers.tidy()
        count = len(self.derived)
        first_times = np.empty(int(rows.keys.max()) + 1, np.int64)
        first_times[rows.keys] = rows.times[rows.cuts[:-1]]
        limits = np.where(first_times - self._within > first_times, np.iinfo(np.int64).min, first_times - self._within)
        for number in range(count):
            runs = [own.runs[number] for own in changes]
            ended = [np.flatnonzero(own.is_valid) for own in runs]
            keys, starts, stops = (
                np.concatenate(each)
                for each in zip(
                    *(
                        (part.keys[own.partitions[at]], own.starts[at], own.stops[at])
                        for part, own, at in zip(parts, runs, ended, strict=True)
                    ),
                    strict=True,
                )
            )
            if not len(keys):
                continue
            slots = self.buffers.add(keys * count + number, starts, stops, limits[keys])
            for fold, arena in enumerate(self.buffers.states[number]):
                arena[slots] = np.concatenate([own.states[fold][at] for own, at in zip(runs, ended, strict=True)])

    def _bounds(self, rows: Rows, parts: Sequence[Rows], changes: Sequence[Changes]) -> list[tuple[Ints, Ints]]:
        """The ends of rings that count before each part; those of the last part are the ones that go on.

        Parts of different keys share them. Where parts follow each other in time, each begins behind what has ended in
        those before it.
        """
        firsts, lasts = self.buffers.firsts, self.buffers.lasts
        if not rows.is_single:
            return [(firsts, lasts)] * len(parts)
        found = []
        rings = int(rows.keys[0]) * len(self.derived) + np.arange(len(self.derived))
        for own in changes:
            found.append((firsts.copy(), lasts.copy()))
            lasts = lasts.copy()
            lasts[rings] += [int(each.is_valid.sum()) for each in own.runs]
        return found

    def find(self, *arguments: Any) -> None:
        """Search, by the kernel."""
        kernels.find_matches(*arguments)

    def _search(self, rows: Rows, changes: Changes, bounds: tuple[Ints, Ints]) -> _Searched:
        partitions, count = len(rows.keys), len(self.derived)
        found: list[tuple[Ints, Ints]] = []
        progress = np.zeros(2, np.int64)
        seen, held = np.zeros((count, count, 2)), np.zeros((count, 2))
        room = self._room
        while progress[0] < partitions:
            first = int(progress[0])
            own_rows, members = np.empty(room, np.int64), np.empty((room, count), np.int64)
            self.find(
                int(self._is_early),
                self._within,
                self._relations,
                self.ordering.plan.orders,
                self.triggers,
                rows.times,
                rows.keys,
                rows.cuts,
                changes.cuts,
                changes.changes,
                changes.table,
                changes.carried,
                self.buffers.starts,
                self.buffers.ends,
                self.buffers.layout,
                *bounds,
                first,
                partitions,
                own_rows,
                members,
                seen,
                held,
                progress,
            )
            matches = int(progress[1])
            found.append((own_rows[:matches], members[:matches]))
            if progress[0] == first:
                room *= 2
        own = Matches(np.concatenate([own for own, _ in found]), np.concatenate([own for _, own in found]))
        return _Searched(own, seen, held, room)
