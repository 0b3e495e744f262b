"""Where buckets of time begin and end: ``time_bucket`` and ``date_trunc`` as ranges, which DuckDB itself tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.times.interval import Interval
from tidelog.plan.answers import bounds
from tidelog.sql.planning.blocks import Block, NotSo
from tidelog.sql.text.tree import Node, nodes

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


def buckets(
    block: Block, group: Node, interval: Interval, cursor: duckdb.DuckDBPyConnection, least_leaves: int
) -> tuple[list[Interval], pa.Array]:
    """Ranges of time, one for each bucket that may have events, and the buckets as DuckDB names them.

    Raises :class:`NotSo` if buckets have less than so many leaves of events on average, or if it is not known where
    they end.
    """
    import duckdb

    stream = block.relation.stream
    kind = stream.snapshot.layout.stored.field(stream.time).type
    if not pa.types.is_timestamp(kind):
        raise NotSo("times are no timestamps")
    asked = _Asked(block.text(group), stream.time, kind, cursor)
    streams = block.relation.streams
    found = [each for one in streams if (each := bounds(one.snapshot, one.options, interval)) is not None]
    step = _step(block, group)
    try:
        if not found:
            return [], asked.of(np.empty(0, np.int64))[0]
        first, last = min(each[0] for each in found), max(each[1] for each in found)
        rows = sum(each[2] for each in found) // len(found)
        ends, (low, high) = asked.of(np.array([first, last]))
        length = cursor.sql(f"SELECT greatest(1, epoch_us({step}))").fetchall()[0][0]
        count = (high - low) // length + 1
        if count > _MOST_BUCKETS:
            raise NotSo(f"there are about {count:,} buckets")
        if rows < least_leaves * stream.options.leaf_rows * max(1, count - 1) and count > 1:
            raise NotSo(f"buckets have about {rows // count:,} events each, which are read as fast")
        zones = dict.fromkeys([*_zones(group), block.timezone, "UTC"]) if kind.tz is not None else [None]
        cuts = np.unique(np.concatenate([asked.series(ends, step, zone) for zone in zones]))
        cuts = cuts[(cuts > first) & (cuts <= last)]
        # Where a bucket begins, another one has just ended.
        _, names = asked.of(np.concatenate([cuts, cuts - 1]))
        cuts = np.concatenate([[first], cuts[names[: len(cuts)] != names[len(cuts) :]]])
        count = len(cuts)
        starts, names = asked.of(np.concatenate([cuts, cuts[1:] - 1, [last]]))
    except duckdb.Error as error:
        raise NotSo(f"where buckets end is not known: {error}") from None
    if not np.array_equal(names[:count], names[count:]) or np.any(np.diff(names[:count]) <= 0):
        raise NotSo("where buckets end is not known")
    starts = starts.slice(0, count)
    following = [*cuts[1:].tolist(), None]
    ranges = [Interval(start, end).intersect(interval) for start, end in zip(cuts.tolist(), following, strict=True)]
    return ranges, starts


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

    def series(self, ends: pa.Array, step: str, zone: str | None) -> npt.NDArray[np.int64]:
        """Times from one bucket to another in steps by the clocks of a zone: most buckets begin at one of them."""
        local = "" if zone is None else "AT TIME ZONE '" + zone.replace("'", "''") + "'"
        own = local if ends.type.tz is not None else ""  # else they are of some zone already
        steps = f"unnest(generate_series(min(bucket {own}), max(bucket {own}), {step}))"
        text = f'SELECT epoch_us({steps} {local}) AS at FROM "#buckets"'
        self.cursor.register("#buckets", pa.table({"bucket": ends}))
        micros: npt.NDArray[np.int64] = self.cursor.sql(text).to_arrow_table()["at"].to_numpy()
        per_tick = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(self.kind.unit)
        return micros * 1000 if per_tick is None else -(-micros // per_tick)


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
