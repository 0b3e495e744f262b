"""Where buckets of time begin and end: ``time_bucket`` and ``date_trunc`` as ranges.

Those of a fixed length by plain clocks are computed here; of months, zones, origins and offsets DuckDB itself tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arrays import distinct
from tidelog.model.times.interval import Interval
from tidelog.plan.answers import bounds
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.planning.conditions.monotone import is_constant
from tidelog.sql.text.tree import Node, nodes
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.read.snapshot import Snapshot

if TYPE_CHECKING:
    import duckdb

FUNCTIONS: Final = ("time_bucket", "date_trunc")
_UNITS: Final = {
    "quarter": "3 months",
    "decade": "10 years",
    "century": "100 years",
    "millennium": "1000 years",
}
_MOST_BUCKETS: Final = 200_000
_TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ROUNDED: Final = 500
"""Nanoseconds before a bucket begins that DuckDB counts to it: it rounds times to microseconds first."""
_MONDAY: Final = 946_857_600
"""Seconds from 1970 to Monday, 2000-01-03, where buckets of any fixed length begin unless they say otherwise."""
_EVEN_UNITS: Final = frozenset({"microsecond", "millisecond", "second", "minute", "hour", "day", "week"})
"""Units that such buckets may have, too."""
_FARTHEST: Final = 1 << 57
"""Microseconds before and after 1970, some 4,500 years, within which arithmetic is all there is to buckets."""


def buckets(
    block: Block, group: Node, interval: Interval, cursor: duckdb.DuckDBPyConnection, least_leaves: int | None = None
) -> tuple[list[Interval], pa.Array]:
    """Ranges of time, one for each bucket that may have events, and the buckets as DuckDB names them.

    Raises :class:`NotSo` if buckets have less than so many leaves of events on average, or if it is not known where
    they end. Without ``least_leaves`` nothing is read: more may be told than have events.
    """
    import duckdb

    stream = block.relation.stream
    kind = stream.snapshot.layout.stored.field(stream.time).type
    if not pa.types.is_timestamp(kind):
        raise NotSo("times are no timestamps")
    asked = _Asked(block.text(group), stream.time, kind, cursor)
    extent = _extent if least_leaves is None else bounds
    found = [
        each for one in block.relation.streams if (each := extent(one.snapshot, one.options, interval)) is not None
    ]
    step = _step(block, group)
    try:
        if not found:
            return [], asked.of(np.empty(0, np.int64))[0]
        first, last = min(each[0] for each in found), max(each[1] for each in found)
        rows = sum(each[2] for each in found) // len(found)
        length, is_fixed = _length(step, cursor)

        def refuse(count: int) -> None:
            if count > _MOST_BUCKETS:
                raise NotSo(f"there are about {count:,} buckets")
            least = (least_leaves or 0) * stream.options.leaf_rows
            if rows < least * max(1, count - 1) and count > 1:
                raise NotSo(f"buckets have about {rows // count:,} events each, which are read as fast")

        guessed = _even_cuts(first, last, length, kind, refuse) if is_fixed and length > 0 and kind.tz is None else None
        known = None if guessed is None or not _is_even(block, group) else _names(guessed, first, length, kind)
        if known is None and guessed is not None:
            known = asked.named(guessed, last)
        if known is None:
            ends, (low, high) = asked.of(np.array([first, last]))
            refuse((high - low) // max(length, 1) + 1)
            zones = dict.fromkeys([*_zones(group), block.timezone, "UTC"]) if kind.tz is not None else [None]
            cuts = distinct(np.concatenate([asked.series(ends, step, zone) for zone in zones]))
            cuts = cuts[(cuts > first) & (cuts <= last)]
            # Where a bucket begins, another one has just ended.
            _, names = asked.of(np.concatenate([cuts, cuts - 1]))
            guessed = np.concatenate([[first], cuts[names[: len(cuts)] != names[len(cuts) :]]])
            known = asked.named(guessed, last)
    except duckdb.Error as error:
        raise NotSo(f"where buckets end is not known: {error}") from None
    if known is None or guessed is None:
        raise NotSo("where buckets end is not known")
    cuts = guessed
    following = [*cuts[1:].tolist(), None]
    ranges = [Interval(start, end).intersect(interval) for start, end in zip(cuts.tolist(), following, strict=True)]
    return ranges, known


def _extent(snapshot: Snapshot, _: StreamOptions, interval: Interval) -> tuple[int, int, int] | None:
    """Like :func:`bounds`, but wider than the events that there are: nothing is read for it, and none are counted."""
    inside = [interval.intersect(Interval(part.first, part.last + 1)) for part in snapshot.parts if part.rows]
    ends = [(each.start, each.end) for each in inside if not each.is_empty]
    first = min((start for start, _ in ends if start is not None), default=None)
    last = max((end for _, end in ends if end is not None), default=None)
    return None if first is None or last is None else (first, last - 1, 0)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The buckets of times, as DuckDB computes them."""

    text: str
    time: str
    kind: pa.DataType
    cursor: duckdb.DuckDBPyConnection

    def of(self, ticks: npt.NDArray[np.int64]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """The buckets of some times, and as numbers that tell them apart and have their order."""
        times = pa.array(ticks, pa.int64()).cast(self.kind)
        self.cursor.register("#asked", pa.table({self.time: times, "#n": np.arange(len(ticks))}))
        text = f'SELECT {self.text} AS bucket, "#n" FROM "#asked"'
        found = self.cursor.sql(f'SELECT bucket, epoch_us(bucket) AS at FROM ({text}) ORDER BY "#n"').to_arrow_table()
        return found["bucket"].combine_chunks(), found["at"].to_numpy()

    def named(self, cuts: npt.NDArray[np.int64], last: int) -> pa.Array | None:
        """The buckets that begin at some times, the last of which ends at one; None if they do not."""
        count = len(cuts)
        starts, names = self.of(np.concatenate([cuts, cuts[1:] - 1, [last]]))
        if not np.array_equal(names[:count], names[count:]) or np.any(np.diff(names[:count]) <= 0):
            return None
        return starts.slice(0, count)

    def series(self, ends: pa.Array, step: str, zone: str | None) -> npt.NDArray[np.int64]:
        """Times from one bucket to another in steps by the clocks of a zone: most buckets begin at one of them."""
        local = "" if zone is None else "AT TIME ZONE '" + zone.replace("'", "''") + "'"
        own = local if ends.type.tz is not None else ""  # else they are of some zone already
        steps = f"unnest(generate_series(min(bucket {own}), max(bucket {own}), {step}))"
        text = f'SELECT epoch_us({steps} {local}) AS at FROM "#buckets"'
        self.cursor.register("#buckets", pa.table({"bucket": ends}))
        micros: npt.NDArray[np.int64] = self.cursor.sql(text).to_arrow_table()["at"].to_numpy()
        per_tick = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(self.kind.unit)
        return micros * 1000 - _ROUNDED if per_tick is None else -(-micros // per_tick)


_MOST_LENGTHS: Final = 1024
_LENGTHS: dict[str, tuple[int, bool]] = {}
"""What DuckDB has said of lengths of buckets."""


def _length(step: str, cursor: duckdb.DuckDBPyConnection) -> tuple[int, bool]:
    """The microseconds of an interval, and whether it has as many always, as months have not."""
    known = _LENGTHS.get(step)
    if known is None:
        months = f"datepart('year', {step}) = 0 AND datepart('month', {step}) = 0"
        known = cursor.sql(f"SELECT coalesce(epoch_us({step}), 0), {months}").fetchall()[0]
        if len(_LENGTHS) >= _MOST_LENGTHS:
            _LENGTHS.clear()
        _LENGTHS[step] = known
    return known


def _even_cuts(
    first: int, last: int, length: int, kind: pa.DataType, refuse: Callable[[int], None]
) -> npt.NDArray[np.int64] | None:
    """Where buckets of a length most likely begin; None if that is between two ticks."""
    ticks, rest = divmod(length * _TICKS[kind.unit], 1_000_000)
    if rest or not ticks:
        return None
    origin = _MONDAY * _TICKS[kind.unit]
    low, high = (first - origin) // ticks, (last - origin) // ticks
    refuse(high - low + 1)
    cuts: npt.NDArray[np.int64] = np.arange(low, high + 1, dtype=np.int64) * ticks + origin
    if kind.unit == "ns":
        cuts -= _ROUNDED
    cuts[0] = first
    return cuts


def _is_even(block: Block, group: Node) -> bool:
    """Whether buckets of a fixed length are counted from the usual origin, by what is written."""
    arguments = group["arguments"]
    if len(arguments) != 2 or any(each["name"] for each in arguments):
        return False
    width, time = (each["expression"] for each in arguments)
    if block.column(time) != block.relation.stream.time:
        return False
    if group["function_name"].lower() == "time_bucket":
        return is_constant(width)
    return str(width["literal"].get("text", "")).lower().removesuffix("s") in _EVEN_UNITS


def _names(cuts: npt.NDArray[np.int64], first: int, length: int, kind: pa.DataType) -> pa.Array | None:
    """The buckets that begin at some times as DuckDB names them, which rounds nanoseconds first; None if it may differ.

    The first bucket may begin before the first time.
    """
    per_tick = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(kind.unit)
    if per_tick is None:
        return None
    origin = _MONDAY * 1_000_000
    begin = (first * per_tick - origin) // length * length + origin
    if not -_FARTHEST < begin <= begin + (len(cuts) - 1) * length < _FARTHEST:
        return None
    return pa.array(begin + np.arange(len(cuts), dtype=np.int64) * length, pa.timestamp("us"))


def _step(block: Block, group: Node) -> str:
    """How long a bucket is, as an interval."""
    width = group["arguments"][0]["expression"]
    if any(node.get("class") == "COLUMN_REF" for node in nodes(width)):
        raise NotSo("buckets differ in length")
    if group["function_name"].lower() == "time_bucket":
        return f"CAST({block.text(width)} AS INTERVAL)"
    if width.get("class") != "CONSTANT":
        raise NotSo("buckets are named by an expression")
    unit = str(width["literal"].get("text", "")).lower()
    return f"INTERVAL '{_UNITS.get(unit.removesuffix('s'), f'1 {unit}')}'"


def _zones(group: Node) -> Iterator[str]:
    """What may be a time zone that a bucket names."""
    for node in nodes(group):
        literal = node.get("literal", {})
        if literal.get("kind") == "STRING" and re.fullmatch(r"[A-Za-z_]+(/[A-Za-z_]+)+", literal["text"]):
            yield literal["text"]
