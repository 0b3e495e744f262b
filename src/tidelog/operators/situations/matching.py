"""The search for matches among situations, many partitions at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from tidelog import threads
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Ints
from tidelog.operators.situations import kernels
from tidelog.operators.situations.buffers import Buffers, Incoming, View
from tidelog.operators.situations.checks import Relations
from tidelog.operators.situations.deriving import Derived, Pieces, Runs
from tidelog.operators.situations.orders.adapting import Floats, Ordering
from tidelog.operators.situations.orders.triggers import triggers
from tidelog.operators.situations.rows import Coded, Mask, Rows
from tidelog.operators.situations.syntax import Mode, Situations
from tidelog.threads import Task

_T = TypeVar("_T")

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

    def begun(self, batch: pa.RecordBatch) -> tuple[Task[Mask], ...]:
        """Have threads tell for which rows conditions hold, if it is worth that: what needs no keys."""
        if self._count_of_parts(batch.num_rows) < 2:
            return ()
        return tuple(threads.submit(partial(each.truth, batch)) for each in self.derived)

    def found(self, rows: Coded, use: Callable[[Searched], _T]) -> list[_T]:
        """What is made of the matches that become known in some rows, in parts that threads work on at once."""
        count = self._count_of_parts(len(rows))
        if count < 2 or rows.is_single:
            found = self._by_time(rows.whole(), count, rows.first_time, use)
        else:
            found = self._by_keys(rows, count, use)
        self.learn([searched for searched, _ in found])
        return [own for _, own in found]

    def _count_of_parts(self, rows: int) -> int:
        return min(self.threads, rows // _LEAST_ROWS)

    def _by_keys(self, rows: Coded, count: int, use: Callable[[Searched], _T]) -> list[tuple[Searched, _T]]:
        """Ranges of keys know nothing of each other: threads meet only where buffers get more room."""
        self.buffers.tidy()
        truths = [each.result() for each in rows.truths] or [each.truth(rows.batch) for each in self.derived]

        def derived(keys: tuple[int, int]) -> tuple[Rows, Changes, Incoming]:
            own = rows.of_keys(*keys)
            changes = self._settled(own, self.pieces(own, truths))
            return own, changes, self._incoming([own], [changes], rows.first_time)

        def searched(own: Rows, changes: Changes, incoming: Incoming, top: int) -> tuple[Searched, _T]:
            self._place([changes], incoming, top)
            found = self.search(Part(own, changes, view))
            return found, use(found)

        parts = threads.together([partial(derived, each) for each in rows.ranges(count)])
        tops = self.buffers.make_room([incoming for _, _, incoming in parts])
        view = self.buffers.view()
        return threads.together([partial(searched, *part, top) for part, top in zip(parts, tops, strict=True)])

    def _by_time(
        self, rows: Rows, count: int, first_time: int, use: Callable[[Searched], _T]
    ) -> list[tuple[Searched, _T]]:
        """Each thread derives what lies in its stretch of time; what goes on from one to the next is then put together,
        and buffers are filled, in order; then each searches its own, from the situations on that have ended before it.
        """

        def searched(part: Part) -> tuple[Searched, _T]:
            found = self.search(part)
            return found, use(found)

        parts = [rows] if count < 2 else rows.stretches(count)
        pieces = threads.together([partial(self.pieces, each) for each in parts])
        changes = [self._settled(part, own) for part, own in zip(parts, pieces, strict=True)]
        views = self._views(changes, self._add(parts, changes, first_time))
        divided = [Part(*each) for each in zip(parts, changes, views, strict=True)]
        found = threads.together([partial(searched, each) for each in divided])
        self.buffers.firsts, self.buffers.lasts = views[-1].firsts, views[-1].lasts
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
        incoming = self._incoming(parts, changes, first_time)
        (top,) = self.buffers.make_room([incoming])
        self._place(changes, incoming, top)
        count = len(self.derived)
        return [
            np.concatenate([part.keys[runs.partitions[runs.is_valid]] * count + at for at, runs in enumerate(own.runs)])
            for part, own in zip(parts, changes, strict=True)
        ]

    def _incoming(self, parts: Sequence[Rows], changes: Sequence[Changes], first_time: int) -> Incoming:
        """The situations that end in some parts, those of one definition behind those of another."""
        count = len(self.derived)
        rings, starts, stops = [], [], []
        for number in range(count):
            for part, own in zip(parts, changes, strict=True):
                runs = own.runs[number]
                at = np.flatnonzero(runs.is_valid)
                rings.append(part.keys[runs.partitions[at]] * count + number)
                starts.append(runs.starts[at])
                stops.append(runs.stops[at])
        limit = max(first_time - self._within, INT64_MIN)
        return self.buffers.measured(np.concatenate(rings), np.concatenate(starts), np.concatenate(stops), limit)

    def _place(self, changes: Sequence[Changes], incoming: Incoming, top: int) -> None:
        """Put situations into buffers, and the states of their aggregates."""
        slots = self.buffers.place(incoming, top)
        at = 0
        for number, arenas in enumerate(self.buffers.states):
            for own in changes:
                runs = own.runs[number]
                is_valid = runs.is_valid
                size = int(np.count_nonzero(is_valid))
                for arena, states in zip(arenas, runs.states, strict=True):
                    arena[slots[at : at + size]] = states[is_valid]
                at += size

    def _views(self, changes: Sequence[Changes], rings: Sequence[Ints]) -> list[View]:
        """The buffers as the search of each part begins, behind what has ended in those before it.

        The ends of rings in the last one are those that go on.
        """
        view = self.buffers.view()
        if len(changes) == 1:
            return [view]
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
