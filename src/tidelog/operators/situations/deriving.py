"""Situations derived from rows: conditions as whole columns, runs of rows, and aggregates over these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.expr import Predicate, predicate
from tidelog.model.arrays import integer_column, integers
from tidelog.operators.base import Ints, Shape
from tidelog.operators.situations import kernels
from tidelog.operators.situations.codes import CARRIED, ENDED, NO_TIME, STARTED, STAYS, WHOLE
from tidelog.operators.situations.rows import Rows
from tidelog.operators.situations.syntax import Definition
from tidelog.operators.state import State, packed, unpacked

Mask = npt.NDArray[np.bool_]

_GOING: pa.Schema = pa.schema([("is_on", pa.int64()), ("since", pa.int64()), ("is_seen", pa.int64())])


@dataclass(frozen=True)
class Runs:
    """The runs of one definition in some rows, those that go on among them."""

    partitions: Ints
    firsts: Ints
    ends: Ints
    """The rows behind their last ones, in the order of partitions."""
    flags: Ints
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

    def leap(self, before: pa.RecordBatch | None, since: int) -> None:
        """Know of one key only that the condition holds for a row, from a time on; or that it does not."""
        going = self.going
        going.grow(1)
        going.is_on[0] = before is not None and self._condition.mask(before)[-1]
        going.since[0], going.is_seen[0] = since, 0
        for fold, own in zip(self.folds, going.states, strict=True):
            own[0] = fold.start()[0]

    def runs(self, rows: Rows) -> Runs:
        """The runs in some rows; those that are not over are kept."""
        going, definition = self.going, self.definition
        mask = self._condition.mask(rows.batch)
        if rows.order is not None:
            mask = mask[rows.order]
        mask = np.ascontiguousarray(mask).view(np.uint8)
        carried = going.is_on[rows.keys]
        none = np.empty((4, 0), np.int64)
        table = np.empty((4, kernels.find_runs(mask, rows.cuts, carried, 0, none)), np.int64)
        kernels.find_runs(mask, rows.cuts, carried, 1, table)
        partitions, firsts, ends, flags = table
        keys = rows.keys[partitions]
        is_carried, is_going = (flags & CARRIED) != 0, (flags & STAYS) != 0
        starts = np.where(is_carried, going.since[keys], rows.times[np.minimum(firsts, len(rows) - 1)])
        stops = np.where(is_going, NO_TIME, rows.times[np.minimum(ends, len(rows) - 1)])
        lengths = stops.view(np.uint64) - starts.view(np.uint64)
        is_valid = ~is_going & (lengths >= np.uint64(max(definition.least, 1)))
        if definition.most is not None:
            is_valid &= lengths <= np.uint64(definition.most)
        was_seen = is_carried & (going.is_seen[keys] != 0)
        prior, states = self._states(rows, keys, firsts, ends, is_carried, is_valid | is_going)
        going.is_on[rows.keys] = 0
        last = keys[is_going]
        going.is_on[last], going.since[last], going.is_seen[last] = 1, starts[is_going], was_seen[is_going]
        for kept, own in zip(going.states, states, strict=True):
            kept[last] = own[is_going]
        return Runs(partitions, firsts, ends, flags, starts, stops, is_valid, is_going, was_seen, prior, states)

    def _states(
        self, rows: Rows, keys: Ints, firsts: Ints, ends: Ints, is_carried: Mask, is_needed: Mask
    ) -> tuple[list[States], list[States]]:
        """The states of runs before these rows, and with them."""
        if not self.folds:
            return [], []
        lengths = np.where(is_needed, ends - firsts, 0)
        taken = rows.taken(self._columns, firsts, lengths)
        cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.flatnonzero(is_carried & is_needed)
        prior, found = [], []
        for fold, kept in zip(self.folds, self.going.states, strict=True):
            before = np.repeat(fold.start(), len(firsts), axis=0)
            before[at] = kept[keys[at]]
            states = fold.lift(taken, cuts).copy()
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
