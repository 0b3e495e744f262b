"""Whether inputs agree in what they have told for good: the check ``full``.

What two inputs have both settled must be the same: of events that end before both their stables, all; of events that
start before them, how many there are of each payload. Each input has, for every start and every end that others have
not settled yet, one sum of hashes; equal ones are forgotten when the last input has come as far.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tidelog.operators.base import Ints
from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import ADJUST, BEFORE, END, KIND, OLD, STABLE, START
from tidelog.operators.merge.errors import DisagreementError

_STARTS: Final = 0
_ENDS: Final = 1
_SPEAKS: Final = ("start", "end")


class Audit:
    """Compares the inputs of a merge. By ``keyed`` an event that an input tells again is the same one.

    If it may be ``revised``, it ends then as it was told last.
    """

    def __init__(self, *, keyed: bool, revised: bool) -> None:
        self._keyed, self._replaces = keyed, keyed and revised
        self._inputs: dict[str, _Told] = {}
        self._compared = BEFORE
        """Everything before it has been compared."""
        self.seconds = 0.0
        """What all of it has taken so far."""

    def attach(self, name: str, join: int) -> None:
        """One more input, of which events that end before its join time say nothing."""
        self._inputs[name] = _Told(max(join, self._compared))

    def detach(self, name: str) -> None:
        """One less."""
        self._inputs.pop(name, None)

    def take(self, name: str, rows: Rows, numbers: Ints) -> None:
        """Take the elements of an input, and the numbers of all their payloads.

        Raises :class:`DisagreementError` if it differs from others in what both have settled.
        """
        begun = time.perf_counter()
        own = self._inputs[name]
        own.add(rows, numbers, self._replaces)
        reached = int(rows[END, rows[KIND] == STABLE].max(initial=BEFORE))
        if reached > own.reached:
            own.settle(reached, self._keyed, self._replaces)
            self._compare(name)
        self.seconds += time.perf_counter() - begun

    def _compare(self, name: str) -> None:
        reached = min(each.reached for each in self._inputs.values())
        if reached <= self._compared:
            return
        mine = self._inputs[name]
        for other, theirs in self._inputs.items():
            if other == name:
                continue
            first = max(mine.join, theirs.join)
            for speaks in (_STARTS, _ENDS):
                place = _difference(mine.part(speaks, first, reached), theirs.part(speaks, first, reached))
                if place is not None:
                    raise DisagreementError(
                        f"its events with the {_SPEAKS[speaks]} {place} are not those of input {other!r}, though both "
                        "have said that nothing about them will change: they are no copies of one stream",
                        input=name,
                    )
        self._compared = reached
        for each in self._inputs.values():
            each.forget(reached)

    def snapshot(self) -> dict[str, Any]:
        """What is known, as JSON."""
        return {"compared": self._compared, "inputs": {name: own.snapshot() for name, own in self._inputs.items()}}

    def restore(self, core: Mapping[str, Any]) -> None:
        """Know the same."""
        self._compared = core["compared"]
        self._inputs = {name: _Told.restored(own) for name, own in core["inputs"].items()}


class _Told:
    """What an input has told."""

    def __init__(self, join: int) -> None:
        self.join = join
        self.reached = BEFORE
        self._open = np.zeros((4, 0), np.int64)
        """Starts, payloads, ends, and how often; several columns may be of one event."""
        self._sums = [np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64)]
        """By start, and by end: times, and sums of hashes."""

    def add(self, rows: Rows, numbers: Ints, replaces: bool) -> None:
        """More elements. Where they replace what was told of a payload and start before, removals are kept, too."""
        is_adjust = rows[KIND] == ADJUST
        is_new = (rows[KIND] != STABLE) & (rows[END] > rows[START])
        parts = [self._open]
        chosen_ends = ((is_new | is_adjust, END, 1),) if replaces else ((is_new, END, 1), (is_adjust, OLD, -1))
        for chosen, end, weight in chosen_ends:
            at = np.flatnonzero(chosen)
            parts.append(np.stack([rows[START, at], numbers[at], rows[end, at], np.full(len(at), weight)]))
        self._open = np.concatenate(parts, axis=1)

    def settle(self, reached: int, keyed: bool, replaces: bool) -> None:
        """Sum up what a stable settles."""
        starts, payloads, ends, weights = _newest(self._open) if replaces else _united(self._open, keyed)
        is_begun = (starts >= self.reached) & (starts < reached)
        self._put(_STARTS, starts[is_begun], _mixed(starts, payloads, weights)[is_begun])
        is_over = ends < reached
        self._put(_ENDS, ends[is_over], _mixed(starts ^ (ends * 3), payloads, weights)[is_over])
        self._open = np.stack([starts, payloads, ends, weights])[:, ~is_over]
        self.reached = reached

    def _put(self, speaks: int, times: Ints, hashes: Ints) -> None:
        known = self._sums[speaks]
        times, places = np.unique(np.concatenate([known[0], times]), return_inverse=True)
        sums = np.zeros(len(times), np.int64)
        np.add.at(sums, places, np.concatenate([known[1], hashes]))
        self._sums[speaks] = np.stack([times, sums])[:, sums != 0]

    def part(self, speaks: int, first: int, last: int) -> Rows:
        """The sums of times from one up to another one."""
        times = self._sums[speaks][0]
        return self._sums[speaks][:, (times >= first) & (times < last)]

    def forget(self, reached: int) -> None:
        """Forget sums that have been compared."""
        self._sums = [each[:, each[0] >= reached] for each in self._sums]

    def snapshot(self) -> dict[str, Any]:
        """What is known, as JSON."""
        sums = [each.tolist() for each in self._sums]
        return {"join": self.join, "reached": self.reached, "open": self._open.tolist(), "sums": sums}

    @staticmethod
    def restored(core: Mapping[str, Any]) -> _Told:
        """The same again."""
        found = _Told(core["join"])
        found.reached = core["reached"]
        found._open = np.array(core["open"], np.int64).reshape(4, -1)
        found._sums = [np.array(each, np.int64).reshape(2, -1) for each in core["sums"]]
        return found


def _newest(rows: Rows) -> Rows:
    """Of each payload and start what was told last, unless it is gone."""
    rows = rows[:, np.lexsort((rows[1], rows[0]))]
    is_last = np.ones(rows.shape[1], np.bool_)
    is_last[:-1] = (rows[:2, 1:] != rows[:2, :-1]).any(axis=0)
    return rows[:, is_last & (rows[2] > rows[0])]


def _united(rows: Rows, keyed: bool) -> Rows:
    """Events with how often they are there."""
    if not rows.shape[1]:
        return rows
    rows = rows[:, np.lexsort((rows[2], rows[1], rows[0]))]
    is_first = np.ones(rows.shape[1], np.bool_)
    is_first[1:] = (rows[:3, 1:] != rows[:3, :-1]).any(axis=0)
    firsts = np.flatnonzero(is_first)
    weights = np.add.reduceat(rows[3], firsts)
    if keyed:
        weights = np.clip(weights, 0, 1)
    found = np.concatenate([rows[:3, firsts], weights[None]])
    return found[:, weights != 0]


def _mixed(times: Ints, payloads: Ints, weights: Ints) -> Ints:
    """Hashes, as often as events are there."""
    mixed = times.view(np.uint64) * np.uint64(0x9E3779B185EBCA87) ^ payloads.view(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x165667B19E3779F9)
    found: Ints = (mixed ^ (mixed >> np.uint64(32))).view(np.int64) * weights
    return found


def _difference(one: Rows, other: Rows) -> int | None:
    """The first time whose sums differ."""
    times = np.union1d(one[0], other[0])
    sums = np.zeros((2, len(times)), np.int64)
    for place, each in enumerate((one, other)):
        sums[place, np.searchsorted(times, each[0])] = each[1]
    differ = np.flatnonzero(sums[0] != sums[1])
    return int(times[differ[0]]) if len(differ) else None
