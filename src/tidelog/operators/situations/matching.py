"""The search for matches among situations, many partitions at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from tidelog import threads
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Ints
from tidelog.operators.situations import kernels
from tidelog.operators.situations.buffers import Buffers, View
from tidelog.operators.situations.checks import Relations
from tidelog.operators.situations.deriving import Derived, Mask, Pieces, Runs
from tidelog.operators.situations.orders.adapting import Floats, Ordering
from tidelog.operators.situations.orders.triggers import triggers
from tidelog.operators.situations.rows import Rows
from tidelog.operators.situations.syntax import Mode, Situations

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
    """Some rows, what happens to situations in them, and the buffers as the search of them begins."""

    rows: Rows
    changes: Changes
    view: View


@dataclass(frozen=True)
class Searched:
    """What the search of a part has found, counted, and needed room for."""

    part: Part
    matches: Matches
    seen: Floats
    held: Floats
    room: int

    def known_from(self, time: int) -> Searched:
        """Without the matches that became known before a time."""
        own = self.matches
        is_wanted = self.part.rows.times[own.rows] >= time
        if is_wanted.all():
            return self
        return replace(self, matches=Matches(own.rows[is_wanted], own.members[is_wanted]))


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

    def found(self, rows: Rows) -> list[Searched]:
        """The matches that become known in some rows, in parts that threads work on at once.

        Each thread derives what lies in its part; what goes on from one part to the next is then put together, and
        buffers are filled, in order; then each searches its part, from the situations on that have ended before it.
        """
        parts = self._parts(rows)
        if rows.is_single or len(parts) < 2:
            pieces = threads.together([partial(self.pieces, each) for each in parts])
            changes = [self._settled(part, own) for part, own in zip(parts, pieces, strict=True)]
        else:  # parts know nothing of each other
            truths = self._truths(rows)
            changes = threads.together([partial(self._derived, each, truths) for each in parts])
        rings = self._add(parts, changes, int(rows.times.min()))
        views = self._views(rows, changes, rings)
        divided = [Part(*each) for each in zip(parts, changes, views, strict=True)]
        found = threads.together([partial(self.search, each) for each in divided])
        self.buffers.firsts, self.buffers.lasts = views[-1].firsts, views[-1].lasts
        self.learn(found)
        return found

    def settle(self, rows: Rows, pieces: Sequence[Pieces], first_time: int) -> Part:
        """Put together what goes on from rows before these, and fill buffers: what may then be searched at any time.

        Rows have to be settled in order. ``first_time`` is that of the first rows that are not searched yet.
        """
        changes = self._settled(rows, pieces)
        (rings,) = self._add([rows], [changes], first_time)
        view = self.buffers.view().copied()
        # What is too old for these rows may leave the buffers while they are searched.
        view.purge(_rings(rows.keys, len(self.derived)), max(int(rows.times.min()) - self._within, INT64_MIN))
        np.add.at(self.buffers.lasts, rings, 1)
        return Part(rows, changes, view)

    def learn(self, found: Sequence[Searched]) -> None:
        """Let what searches have counted count for those to come."""
        self.ordering.learn(
            np.sum([each.seen for each in found], axis=0), np.sum([each.held for each in found], axis=0)
        )
        self._room = max(self._room, *(each.room for each in found))

    def _parts(self, rows: Rows) -> list[Rows]:
        count = min(self.threads, len(rows) // _LEAST_ROWS)
        return [rows] if count < 2 else rows.parts(count)

    def _truths(self, rows: Rows) -> list[Mask]:
        """For which rows conditions hold; parts of different keys have rows all over the batch."""
        return threads.together([partial(each.truth, rows.batch) for each in self.derived])

    def _derived(self, rows: Rows, truths: Sequence[Mask]) -> Changes:
        return self._settled(rows, self.pieces(rows, truths))

    def pieces(self, rows: Rows, truths: Sequence[Mask] | None = None) -> list[Pieces]:
        """The pieces of runs of each definition in some rows; several threads may look for them at once."""
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

    def _add(self, parts: Sequence[Rows], changes: Sequence[Changes], first_time: int) -> list[Ints]:
        """Put situations that end into their buffers; they count when the search comes to them.

        What no search from a time on needs any more leaves them. Gives for each part the rings that have more then.
        """
        self.buffers.tidy()
        count = len(self.derived)
        limit = max(first_time - self._within, INT64_MIN)
        found: list[list[Ints]] = [[] for _ in parts]
        for number in range(count):
            runs = [own.runs[number] for own in changes]
            ended = [np.flatnonzero(own.is_valid) for own in runs]
            rings = [
                part.keys[own.partitions[at]] * count + number for part, own, at in zip(parts, runs, ended, strict=True)
            ]
            for each, more in zip(found, rings, strict=True):
                each.append(more)
            starts, stops = (
                np.concatenate([getattr(own, name)[at] for own, at in zip(runs, ended, strict=True)])
                for name in ("starts", "stops")
            )
            if not len(starts):
                continue
            slots = self.buffers.add(np.concatenate(rings), starts, stops, np.full(len(starts), limit))
            for fold, arena in enumerate(self.buffers.states[number]):
                arena[slots] = np.concatenate([own.states[fold][at] for own, at in zip(runs, ended, strict=True)])
        return [np.concatenate(each) for each in found]

    def _views(self, rows: Rows, changes: Sequence[Changes], rings: Sequence[Ints]) -> list[View]:
        """The buffers as the search of each part begins; the ends of rings in the last one are those that go on.

        Parts of different keys share them. Where parts follow each other in time, each begins behind what has ended in
        those before it.
        """
        view = self.buffers.view()
        if not rows.is_single:
            return [view] * len(changes)
        found = []
        for own in rings:
            found.append(view.copied())
            np.add.at(view.lasts, own, 1)
        return found

    def find(self, *arguments: Any) -> None:
        """Search, by the kernel."""
        kernels.find_matches(*arguments)

    def search(self, part: Part) -> Searched:
        """The matches of a part; several threads may search parts at once."""
        rows, changes, view = part.rows, part.changes, part.view
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
                view.starts,
                view.ends,
                view.layout,
                view.firsts,
                view.lasts,
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
        return Searched(part, own, seen, held, room)


def _rings(keys: Ints, count: int) -> Ints:
    """The numbers of the rings of some keys."""
    found: Ints = (keys[:, None] * count + np.arange(count)).ravel()
    return found
