"""The same oracle for the rows of many keys at once, as columns: every pair of every key, no index, no state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from support.situations.oracle import GROUPS, Kind
from tidelog.operators.situations.syntax import Mode, Situations

NEVER = 1 << 40
"""The end of what goes on when there are no rows any more."""
_FAR = 1 << 20
"""More than any time, so that keys and times are one number."""

RELATIONS: dict[str, Any] = {
    "before": lambda a, b, c, d: b < c,
    "meets": lambda a, b, c, d: b == c,
    "overlaps": lambda a, b, c, d: (a < c) & (c < b) & (b < d),
    "starts": lambda a, b, c, d: (a == c) & (b < d),
    "during": lambda a, b, c, d: (c < a) & (b < d),
    "finishes": lambda a, b, c, d: (c < a) & (b == d) & (a < d),
    "equals": lambda a, b, c, d: (a == c) & (b == d),
    "after": lambda a, b, c, d: d < a,
    "met by": lambda a, b, c, d: d == a,
    "overlapped by": lambda a, b, c, d: (c < a) & (a < d) & (d < b),
    "started by": lambda a, b, c, d: (a == c) & (d < b),
    "contains": lambda a, b, c, d: (a < c) & (d < b),
    "finished by": lambda a, b, c, d: (a < c) & (b == d) & (c < b),
}


@dataclass(frozen=True)
class Stream:
    """The situations of a definition, those that never end among them."""

    keys: Any
    starts: Any
    ends: Any
    seen: Any
    first_rows: Any
    end_rows: Any


@dataclass(frozen=True)
class Rows:
    """Rows by key, then by time."""

    places: Any
    """Keys and times as one number."""
    keys: Any
    times: Any
    holds: list[Any]

    @classmethod
    def of(cls, rows: pa.RecordBatch, columns: Sequence[str]) -> Rows:
        keys, times = (np.asarray(rows.column(name)) for name in ("k", "t"))
        order = np.lexsort((times, keys))
        holds = [np.asarray(rows.column(name).fill_null(False)).astype(bool)[order] for name in columns]
        return cls(keys[order] * _FAR + times[order], keys[order], times[order], holds)

    def stream(self, number: int, kind: Kind) -> Stream:
        holds, keys, times = self.holds[number], self.keys, self.times
        is_first = np.append(True, keys[1:] != keys[:-1])
        firsts = np.flatnonzero(holds & (is_first | ~np.append(False, holds[:-1])))
        # The row behind the run: the first that does not hold, or the first of another key.
        breaks = np.append(np.flatnonzero(~holds | is_first), len(holds))
        ends = breaks[np.searchsorted(breaks, firsts, side="right")]
        has_end = (ends < len(holds)) & (keys[np.minimum(ends, len(holds) - 1)] == keys[firsts])
        starts = times[firsts]
        stops = np.where(has_end, times[np.minimum(ends, len(holds) - 1)], NEVER)
        long_enough = np.searchsorted(self.places, keys[firsts] * _FAR + starts + kind.least)
        of_key = keys[np.minimum(long_enough, len(keys) - 1)] == keys[firsts]
        is_there = (long_enough < len(keys)) & of_key
        seen = np.where(is_there, times[np.minimum(long_enough, len(keys) - 1)], NEVER)
        seen = stops if kind.most is not None else np.minimum(seen, stops)
        lengths = stops - starts
        is_one = (lengths > 0) & (lengths >= kind.least)
        if kind.most is not None:
            is_one &= lengths <= kind.most
        return Stream(*(each[is_one] for each in (keys[firsts], starts, stops, seen, firsts, ends)))


def expected(
    rows: pa.RecordBatch, query: Situations, kinds: Sequence[Kind], constraints: dict[tuple[int, int], set[str]]
) -> Any:
    """The matches, sorted, as a table of integers: key, time, then start, end, count of rows and openness of each.

    Ends that are not known are -1.
    """
    own = Rows.of(rows, [each.condition for each in query.definitions])
    streams = [own.stream(number, kind) for number, kind in enumerate(kinds)]
    members = [np.arange(len(streams[0].keys))]
    instants = streams[0].seen
    for number in range(1, len(streams)):
        members, instants = _joined(streams, members, instants, number)
        for (one, other), allowed in constraints.items():
            if other == number:
                members, instants = _kept(streams, members, instants, one, other, allowed)
    first_starts = np.min([each.starts[at] for each, at in zip(streams, members, strict=True)], axis=0)
    ends = np.array([each.ends[at] for each, at in zip(streams, members, strict=True)])
    if query.mode is Mode.COMPLETED:
        instants = ends.max(axis=0)
    is_in = (instants < NEVER) & (instants - first_starts <= query.within)
    keys = streams[0].keys[members[0]]
    upto = np.searchsorted(own.places, keys * _FAR + np.minimum(instants, _FAR - 1), side="right")
    columns = [keys, instants]
    for each, at in zip(streams, members, strict=True):
        is_open = each.ends[at] > instants
        columns += [
            each.starts[at],
            np.where(is_open, -1, each.ends[at]),
            np.minimum(each.end_rows[at], upto) - each.first_rows[at],
            is_open.astype(np.int64),
        ]
    return in_order(np.stack([each[is_in] for each in columns], axis=1))


def _joined(streams: Sequence[Stream], members: list[Any], instants: Any, number: int) -> tuple[list[Any], Any]:
    """Each partial match with each situation of the same key."""
    keys = streams[0].keys[members[0]]
    lows = np.searchsorted(streams[number].keys, keys)
    counts = np.searchsorted(streams[number].keys, keys, side="right") - lows
    which = np.repeat(np.arange(len(keys)), counts)
    added = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts - lows, counts)
    return [*(each[which] for each in members), added], instants[which]


def _kept(
    streams: Sequence[Stream], members: list[Any], instants: Any, one: int, other: int, allowed: set[str]
) -> tuple[list[Any], Any]:
    """Those that fulfil a constraint, and the instants at which that is certain."""
    left, right = streams[one], streams[other]
    a, b = left.starts[members[one]], left.ends[members[one]]
    c, d = right.starts[members[other]], right.ends[members[other]]
    is_allowed, is_early = np.zeros(len(a), np.bool_), np.zeros(len(a), np.bool_)
    for name in allowed:
        holds = RELATIONS[name](a, b, c, d)
        is_allowed |= holds
        if any(name in group and group <= allowed for group in GROUPS):
            is_early |= holds
    certain = np.where(is_early, np.maximum(a, c), np.sort(np.stack([a, b, c, d]), axis=0)[2])
    for stream, at in ((left, members[one]), (right, members[other])):
        certain = np.maximum(certain, stream.seen[at])
    return [each[is_allowed] for each in members], np.maximum(instants, certain)[is_allowed]


def found(batches: Sequence[pa.RecordBatch], query: Situations) -> Any:
    """What an operator gave, in the same form."""
    columns: list[list[Any]] = []
    for batch in batches:
        names = ["k", "match_time"]
        zeros = pa.array(np.zeros(batch.num_rows, np.int64))
        values = {name: batch.column(name) for name in batch.schema.names}
        own = [values.get(name, zeros) for name in names]
        for each in query.definitions:
            own += [
                values[f"{each.name}_start_time"],
                values[f"{each.name}_end_time"].fill_null(-1),
                values[f"rows_{each.name}"],
                values[f"{each.name}_is_open"].cast(pa.int64()) if query.mode is Mode.EARLY else zeros,
            ]
        columns.append([np.asarray(each) for each in own])
    if not columns:
        return np.zeros((0, 2 + 4 * len(query.definitions)), np.int64)
    return in_order(np.stack([np.concatenate(each) for each in zip(*columns, strict=True)], axis=1))


def in_order(table: Any) -> Any:
    """The rows of a table sorted."""
    return table[np.lexsort(table.T[::-1])]
