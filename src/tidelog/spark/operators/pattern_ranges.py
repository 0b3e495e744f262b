"""Row patterns without partitions over DataFrames that are all there, by tasks for ranges of time.

The times are looked at, and cut; each task gets the rows of its range and those around it. In a first pass tasks tell
where the searches of their ranges come to, for each row that these may begin with, and from that the driver knows with
which row, and which number of a match, each range begins. In a second pass, that of the DataFrame that comes out, each
task renders its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidelog.model.errors import TidelogError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.compiling import RowPatternQuery, compile_query
from tidelog.operators.rowpattern.ranges.ranges import Links, Range, linked, needs_links, one_search_because
from tidelog.operators.rowpattern.rows import order_times
from tidelog.operators.rowpattern.syntax import RowPattern
from tidelog.spark.jobs.tasks import import_all
from tidelog.spark.operators.columns import converted, declared, outward
from tidelog.spark.operators.ranges import BESIDE, Beside, by_range, find_cuts, numbered
from tidelog.spark.runtime.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_ROWS: Final = 1 << 22
"""Rows of a range: a task has them in memory."""
_MOST_BESIDE: Final = 1 << 10
"""Rows before or behind a match that conditions may look at."""
_LINKS: Final = pa.schema(
    [
        ("range", pa.int32()),
        ("rows", pa.int64()),
        ("check", pa.int64()),
        ("is_known", pa.bool_()),
        ("counts", pa.list_(pa.int64())),
        ("exits", pa.list_(pa.int64())),
        ("matches", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True)
class PatternRanges:
    """Ranges of a pattern's order, and what each task is told."""

    pattern: RowPattern
    cuts: tuple[int, ...]
    lows: tuple[int, ...]
    """The first time of the rows that each range needs."""
    highs: tuple[int, ...]
    """The last one."""
    imports: tuple[str, ...]
    begins: tuple[tuple[int, int], ...] = ()
    """The row that each begins with, and the number of its first match."""
    checks: dict[int, int] = field(default_factory=dict)
    """What was found of the rows of each in the first pass."""

    def __len__(self) -> int:
        return len(self.lows)

    def divided(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows, each with every range that needs it."""
        lows, highs = np.array(self.lows), np.array(self.highs)
        for batch in batches:
            times = ticks(self.pattern, batch)
            yield numbered(batch, np.searchsorted(highs, times), np.searchsorted(lows, times, side="right") - 1)

    def linking(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The links of ranges, whose rows come in order."""
        for number, own, check in self._ranges(batches):
            found = own.links()
            told = found or Links(0, np.empty(0, np.int64), np.empty(0, np.int64))
            changes = (np.diff(told.exits) != 0) | (np.diff(told.matches) != 0)
            firsts = np.concatenate([[0], np.flatnonzero(changes) + 1])[: len(told.exits)].astype(np.int64)
            counts = np.diff(np.append(firsts, len(told.exits)))
            lists = [counts, told.exits[firsts], told.matches[firsts]]
            values = [number, told.rows, check, found is not None, *(each.tolist() for each in lists)]
            yield pa.RecordBatch.from_pylist([dict(zip(_LINKS.names, values, strict=True))], schema=_LINKS)
        settle()

    def rendering(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What comes out of ranges, whose rows come in order."""
        for number, own, check in self._ranges(batches):
            if self.checks.get(number, check) != check:
                raise TidelogError(
                    "the input of a row pattern gave other rows when it was read a second time; expected the same "
                    "rows each time: write them to a table, or give the rows a partition"
                )
            yield from outward([own.rendered(*self.begins[number])], self.pattern.output)
        settle()

    def _ranges(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Range, int]]:
        import_all(self.imports)
        query = compile_query(self.pattern)
        schema = self.pattern.schema
        for number, parts in by_range(batches):
            rows = pa.concat_batches([converted(batch.columns[: len(schema)], schema) for batch in parts])
            times = order_times(rows, self.pattern.order[0])
            begin = self.cuts[number - 1] if number else None
            end = self.cuts[number] if number < len(self.cuts) else None
            check = int(np.bitwise_xor.reduce(times * np.arange(1, 2 * len(times), 2))) ^ len(times)
            yield number, Range.between(query, rows, begin, end), check


def ticks(pattern: RowPattern, batch: pa.RecordBatch) -> Ints:
    """The times of rows by which ranges are cut."""
    key = pattern.order[0]
    schema = pa.schema([pattern.schema.field(key.column)])
    return order_times(converted([batch.column(key.column)], schema), key)


def one_task_because(query: RowPatternQuery, tasks: int | None) -> str | None:
    """Why one task has to search a pattern without partitions; None if several may."""
    whole = one_search_because(query)
    if whole is not None:
        return whole
    if tasks == 1:
        return "that was asked for"
    if max(query.conditions.behind, query.conditions.ahead) > _MOST_BESIDE:
        return f"it looks at more than {_MOST_BESIDE:,} rows beside a match"
    return None


def find_pattern_ranges(
    rows: DataFrame, query: RowPatternQuery, tasks: int | None, imports: Sequence[str]
) -> PatternRanges:
    """Cut the times of rows, and find out which rows each range needs."""
    pattern = query.pattern
    within = pattern.within or 0
    own = partial(ticks, pattern)
    times = rows.select("`" + pattern.order[0].column.replace("`", "``") + "`")
    cuts = find_cuts(times, own, within, tasks, _MOST_ROWS)
    ends = [min(cut - 1 + within, INT64_MAX) for cut in cuts]
    lows, highs = list(cuts), list(ends)
    behind, ahead = query.conditions.behind, query.conditions.ahead
    if cuts and (behind or ahead):
        beside = Beside(own, tuple(cuts), tuple(ends), behind, ahead)
        table = times.mapInArrow(beside, BESIDE).toArrow()
        places, sides, found = (table.column(name).to_numpy() for name in ("place", "is_behind", "time"))
        for place in range(len(cuts)):
            before = np.sort(found[(places == place) & sides])[-behind:] if behind else found[:0]
            after = np.sort(found[(places == place) & ~sides])[:ahead]
            lows[place] = int(before[0]) if len(before) else lows[place]
            highs[place] = int(after[-1]) if len(after) else highs[place]
    return PatternRanges(pattern, tuple(cuts), (INT64_MIN, *lows), (*highs, INT64_MAX), tuple(imports))


def link(rows: DataFrame, ranges: PatternRanges, query: RowPatternQuery) -> PatternRanges | None:
    """Ranges that know with what they begin, from a pass over their rows; None if that would take too long."""
    if not needs_links(query):
        return replace(ranges, begins=((0, 1),) * len(ranges))
    found: list[Links | None] = [Links(0, np.empty(0, np.int64), np.empty(0, np.int64))] * len(ranges)
    checks = {}
    for row in rows.mapInArrow(ranges.linking, declared(_LINKS)).toArrow().to_pylist():
        counts = row["counts"]
        exits, matches = (np.repeat(np.array(row[name], np.int64), counts) for name in ("exits", "matches"))
        found[row["range"]] = Links(row["rows"], exits, matches) if row["is_known"] else None
        checks[row["range"]] = row["check"]
    begins = linked(found)
    return None if begins is None else replace(ranges, begins=tuple(begins), checks=checks)
