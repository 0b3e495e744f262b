"""Situations derived from rows: conditions as whole columns, runs of rows, and aggregates over these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.expr import Predicate, predicate
from tidelog.model.arrays import integer_column, integers
from tidelog.operators.base import Ints, Shape
from tidelog.operators.situations import kernels
from tidelog.operators.situations.codes import ENDED, STARTED, STAYS, WHOLE
from tidelog.operators.situations.rows import Mask, Rows
from tidelog.operators.situations.syntax import Definition
from tidelog.operators.state import State, packed, unpacked

_ANY_LENGTH: Final = (1 << 64) - 1
_GOING: pa.Schema = pa.schema([("is_on", pa.int64()), ("since", pa.int64()), ("is_seen", pa.int64())])


@dataclass(frozen=True)
class Pieces:
    """What lies in some rows of the runs of one definition."""

    table: Ints
    """Their partitions, first rows, rows behind their last ones, in the order of partitions, and flags."""
    states: list[States]
    """For each aggregate the states of their rows."""


@dataclass(frozen=True)
class Runs:
    """The runs of one definition in some rows, those that go on among them."""

    partitions: Ints
    firsts: Ints
    ends: Ints
    """The rows behind their last ones, in the order of partitions."""
    starts: Ints
    stops: Ints
    """When they end; :data:`NO_TIME` for those that go on."""
    is_valid: Mask
    """Which have ended, and are situations."""
    is_going: Mask
    was_seen: Mask
    """Which have counted before these rows."""
    prior: list[States]
    """For each aggregate the states of rows before these."""
    states: list[States]
    """The states of all rows; only of those that are valid or go on."""

    def __len__(self) -> int:
        return len(self.firsts)


class Going:
    """What is known, of each key, of the run of a definition that is not over."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = folds
        self.is_on = np.zeros(0, np.uint8)
        self.since = np.zeros(0, np.int64)
        self.is_seen = np.zeros(0, np.uint8)
        self.states = [fold.start()[:0] for fold in folds]

    def grow(self, keys: int) -> None:
        """Make room for keys that are new."""
        more = keys - len(self.is_on)
        if more > 0:
            more = max(more, len(self.is_on) // 2)
            self.is_on = np.append(self.is_on, np.zeros(more, np.uint8))
            self.is_seen = np.append(self.is_seen, np.zeros(more, np.uint8))
            self.since = np.append(self.since, np.zeros(more, np.int64))
            self.states = [
                np.concatenate([own, np.repeat(fold.start(), more, axis=0)])
                for own, fold in zip(self.states, self._folds, strict=True)
            ]

    def prior(self) -> list[States]:
        """Without keys, the states of the run that is not over; those of no rows if there is none."""
        if not self.is_on[:1].any():
            return [fold.start() for fold in self._folds]
        return [own[:1].copy() for own in self.states]

    def choose(self, keys: Ints) -> None:
        """Keep some keys, under new numbers."""
        self.is_on, self.since, self.is_seen = self.is_on[keys], self.since[keys], self.is_seen[keys]
        self.states = [own[keys] for own in self.states]

    def snapshot(self) -> dict[str, pa.Buffer]:
        """As chunks."""
        columns = [integer_column(each.astype(np.int64)) for each in (self.is_on, self.since, self.is_seen)]
        found = {"going": packed(pa.RecordBatch.from_arrays(columns, schema=_GOING))}
        return found | {
            str(at): fold.pack(own) for at, (fold, own) in enumerate(zip(self._folds, self.states, strict=True))
        }

    def restore(self, state: State, prefix: str) -> None:
        """Know the same."""
        is_on, since, is_seen = (integers(each) for each in unpacked(state.chunks[f"{prefix}going"], _GOING).columns)
        self.is_on, self.since, self.is_seen = is_on.astype(np.uint8), since.copy(), is_seen.astype(np.uint8)
        self.states = [fold.unpack(state.chunks[f"{prefix}{at}"]).copy() for at, fold in enumerate(self._folds)]


class Derived:
    """Finds the situations of one definition."""

    def __init__(self, shape: Shape, definition: Definition, folds: Sequence[Fold]) -> None:
        """Raises :class:`~tidelog.expr.ExpressionError` for a condition that is none."""
        self.definition = definition
        self.folds = folds
        self.going = Going(folds)
        self._condition: Predicate = predicate(definition.condition, shape.schema)
        columns = dict.fromkeys(name for fold in folds for name in fold.columns)
        self._columns = list(columns) or [shape.time]

    def truth(self, batch: pa.RecordBatch) -> Mask:
        """For which rows the condition holds."""
        return self._condition.mask(batch)

    def runs(self, rows: Rows) -> Runs:
        """The runs in some rows; those that are not over are kept."""
        return self.settled(rows, self.pieces(rows, self.truth(rows.batch)))

    def pieces(self, rows: Rows, truth: Mask) -> Pieces:
        """The pieces of runs that lie in some rows, whatever comes before these. Several threads may do so at once.

        ``truth`` tells for which rows of their batch the condition holds. A piece that begins with the first row of its
        partition may go on from before: how long it lasts is not known, and it is kept whatever its length.
        """
        order = np.empty(0, np.int64) if rows.order is None else rows.order
        most = (len(rows) + len(rows.keys)) // 2  # of each partition every other row
        table = np.empty((4, most), np.int64)
        count = kernels.find_runs(np.ascontiguousarray(truth).view(np.uint8), order, rows.cuts, table)
        found = np.ascontiguousarray(table[:, :count])
        return Pieces(found, self._lifted(rows, found) if self.folds else [])

    def _lifted(self, rows: Rows, table: Ints) -> list[States]:
        """The states of pieces, as far as these may be parts of situations."""
        partitions, firsts, ends, flags = table
        is_needed = ((flags & STAYS) != 0) | (firsts == rows.cuts[partitions])
        is_needed |= self._is_one(rows.times[firsts], rows.times[np.minimum(ends, len(rows) - 1)])
        lengths = np.where(is_needed, ends - firsts, 0)
        taken = rows.taken(self._columns, firsts, lengths)
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return [fold.lift(taken, cuts).copy() for fold in self.folds]

    def _is_one(self, starts: Ints, stops: Ints) -> Mask:
        """Which runs that have ended are situations."""
        lengths = stops.view(np.uint64) - starts.view(np.uint64)
        found: Mask = lengths >= np.uint64(max(self.definition.least, 1))
        if self.definition.most is not None:
            found &= lengths <= np.uint64(self.definition.most)
        return found

    def settled(self, rows: Rows, pieces: Pieces) -> Runs:
        """The runs that pieces are of, given what goes on from before; those that are not over are kept.

        Pieces of the rows of a key have to be settled in the order of time.
        """
        going, total = self.going, pieces.table.shape[1] + len(rows.keys)
        table, marks = np.empty((6, total), np.int64), np.empty((4, total), np.uint8)
        count = kernels.settle_runs(
            pieces.table,
            rows.times,
            rows.keys,
            rows.cuts,
            max(self.definition.least, 1),
            _ANY_LENGTH if self.definition.most is None else self.definition.most,
            going.is_on,
            going.since,
            going.is_seen,
            table,
            marks,
        )
        partitions, firsts, ends, sources, starts, stops = table[:, :count]
        is_valid, is_going, was_seen, is_carried = marks[:, :count].view(np.bool_)
        keys = rows.keys[partitions]
        own = self._of_runs(sources, pieces.states)
        prior, states = self._continued(keys, np.flatnonzero(is_carried & (is_valid | is_going)), own)
        last = keys[is_going]
        for kept, each in zip(going.states, states, strict=True):
            kept[last] = each[is_going]
        return Runs(partitions, firsts, ends, starts, stops, is_valid, is_going, was_seen, prior, states)

    def _of_runs(self, sources: Ints, states: Sequence[States]) -> Sequence[States]:
        """The states of pieces as those of the runs that they are of; some have none."""
        if not self.folds or len(sources) == len(states[0]):
            return states
        has_piece = sources >= 0
        found = []
        for fold, own in zip(self.folds, states, strict=True):
            each = np.repeat(fold.start(), len(sources), axis=0)
            each[has_piece] = own
            found.append(each)
        return found

    def _continued(self, keys: Ints, at: Ints, pieces: Sequence[States]) -> tuple[list[States], list[States]]:
        """The states of runs before these rows, and with them."""
        prior, found = [], []
        for fold, kept, states in zip(self.folds, self.going.states, pieces, strict=True):
            before = np.repeat(fold.start(), len(keys), axis=0)
            before[at] = kept[keys[at]]
            if len(at):
                states[at] = fold.plus(before[at], states[at])
            prior.append(before)
            found.append(states)
        return prior, found

    def states_until(self, number: int, rows: Rows, runs: Runs, which: Ints, ends: Ints) -> States:
        """The states of an aggregate for the rows of some runs up to others than their last ones.

        Pairs of a run and the row behind the last one, each once, in order.
        """
        fold = self.folds[number]
        is_new = np.ones(len(which), np.bool_)
        is_new[1:] = which[1:] != which[:-1]
        firsts = runs.firsts[which].copy()
        firsts[1:] = np.where(is_new[1:], firsts[1:], ends[:-1])
        lengths = ends - firsts
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        states = fold.lift(rows.taken(self._columns, firsts, lengths), cuts).copy()
        at = np.flatnonzero(is_new)
        states[at] = fold.plus(runs.prior[number][which[at]], states[at])
        return fold.scan(states, np.append(at, len(which)))

    def changes(self, rows: Rows, runs: Runs, *, is_early: bool) -> tuple[Ints, Ints, Ints]:
        """The rows at which situations start to count or end, their runs, and the kinds of these changes."""
        ended = np.flatnonzero(runs.is_valid)
        kinds = np.full(len(ended), WHOLE)
        if not is_early or self.definition.most is not None:
            return runs.ends[ended], ended, kinds
        seen = np.empty(len(runs), np.int64)
        kernels.first_long_enough(rows.times, runs.starts, runs.firsts, runs.ends, self.definition.least, seen)
        has = ~runs.was_seen & (seen < runs.ends)
        has &= runs.is_going | (rows.times[np.minimum(seen, len(rows) - 1)] < runs.stops)
        going = runs.partitions[has & runs.is_going]
        self.going.is_seen[rows.keys[going]] = 1
        kinds[(has | runs.was_seen)[ended]] = ENDED
        begun = np.flatnonzero(has & (runs.is_valid | runs.is_going))
        return (
            np.concatenate([seen[begun], runs.ends[ended]]),
            np.concatenate([begun, ended]),
            np.concatenate([np.full(len(begun), STARTED), kinds]),
        )
