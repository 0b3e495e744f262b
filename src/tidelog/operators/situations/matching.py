"""The search for matches among situations, many partitions at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tidelog.operators.base import Ints
from tidelog.operators.situations import kernels
from tidelog.operators.situations.adapting import Ordering
from tidelog.operators.situations.buffers import Buffers
from tidelog.operators.situations.checks import Relations
from tidelog.operators.situations.deriving import Derived, Runs
from tidelog.operators.situations.rows import Rows
from tidelog.operators.situations.syntax import Mode, Situations
from tidelog.operators.situations.triggers import triggers

_ROOM: Final = 1 << 12
"""Matches that there is room for at first."""


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


class Matcher:
    """Matches of one query: what it keeps are situations that have ended."""

    def __init__(self, query: Situations, relations: Relations, derived: Sequence[Derived]) -> None:
        self._within = query.within
        self._is_early = query.mode is Mode.EARLY
        self.relations = relations
        self._relations = np.array(relations, np.int64)
        self._derived = tuple(derived)
        self.triggers = triggers(relations, query.definitions, query.mode)
        self.ordering = Ordering(relations)
        self.buffers = Buffers([each.folds for each in derived])
        self._room = _ROOM

    def found(self, rows: Rows) -> tuple[Changes, Matches]:
        """The matches that become known in some rows."""
        changes = self._changes(rows)
        self._add(rows, changes)
        return changes, self._search(rows, changes)

    def _changes(self, rows: Rows) -> Changes:
        runs = [each.runs(rows) for each in self._derived]
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
        for number, (each, own) in enumerate(zip(self._derived, runs, strict=True)):
            places, which, kinds = each.changes(rows, own, is_early=self._is_early)
            found.append(np.stack([places, which + offsets[number], kinds]))
            seen = np.flatnonzero(own.was_seen)
            carried[own.partitions[seen], number] = seen + offsets[number]
        changes = np.concatenate(found, axis=1)
        order = np.argsort(changes[0], kind="stable")
        changes = np.ascontiguousarray(changes[:, order])
        cuts = np.searchsorted(changes[0], rows.cuts)
        return Changes(runs, offsets, table, changes, cuts, carried)

    def _add(self, rows: Rows, changes: Changes) -> None:
        """Put situations that end into their buffers; they count when the search comes to them."""
        self.buffers.tidy()
        count = len(self._derived)
        first_times = rows.times[rows.cuts[:-1]]
        limits = np.where(first_times - self._within > first_times, np.iinfo(np.int64).min, first_times - self._within)
        for number, own in enumerate(changes.runs):
            ended = np.flatnonzero(own.is_valid)
            if not len(ended):
                continue
            partitions = own.partitions[ended]
            slots = self.buffers.add(
                rows.keys[partitions] * count + number, own.starts[ended], own.stops[ended], limits[partitions]
            )
            for arena, states in zip(self.buffers.states[number], own.states, strict=True):
                arena[slots] = states[ended]

    def _search(self, rows: Rows, changes: Changes) -> Matches:
        partitions, count = len(rows.keys), len(self._derived)
        found: list[tuple[Ints, Ints]] = []
        progress = np.zeros(2, np.int64)
        seen, held = np.zeros((count, count, 2)), np.zeros((count, 2))
        while progress[0] < partitions:
            first = int(progress[0])
            own_rows, members = np.empty(self._room, np.int64), np.empty((self._room, count), np.int64)
            kernels.find_matches(
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
                self.buffers.firsts,
                self.buffers.lasts,
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
                self._room *= 2
        self.ordering.learn(seen, held)
        return Matches(np.concatenate([own for own, _ in found]), np.concatenate([own for _, own in found]))
