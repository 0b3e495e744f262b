"""Row patterns over streams: a match comes out as soon as no later row can change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column, integers
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import FOREVER, Batches, Ints, LookBack, Needs, Operator, Shape
from tidelog.operators.keys import Keys, latest
from tidelog.operators.rowpattern.compiling import compile_query
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.machine.partitions import Partitions
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.rows import Rows
from tidelog.operators.rowpattern.syntax import OrderKey, RowPattern, Skip, counts_matches
from tidelog.operators.rowpattern.syntax import Rows as RowsOut
from tidelog.operators.state import State, packed, together, unpacked
from tidelog.operators.waiting import Waiting

TIME_COLUMN: Final = "#time"
"""The last column that comes out: when a row became certain."""

_LAST: Final = {"s": 253_402_300_799, "ms": 253_402_300_799_999, "us": 253_402_300_799_999_999}
"""The end of the year 9999, where the calendars of Python and others end, in ticks; nanoseconds do not reach it."""
_PER_KEY: Final = pa.schema([(name, pa.int64()) for name in ("begin", "resume", "number", "decided", "count")])


@dataclass
class _Kept:
    """Rows that may still be part of a match, by key, and how far the search is in each key."""

    rows: pa.RecordBatch
    arrivals: Ints
    """The number of each row, in the order in which rows came."""
    covered: npt.NDArray[np.uint8]
    counts: Ints
    """How many rows there are of each key."""
    begins: Ints
    """The place of a key's first row among its rows; -1 if that is gone."""
    resumes: Ints
    """The place of the first row of which it is not known whether it begins a match."""
    numbers: Ints
    decided: Ints
    version: int = 0
    content: dict[str, pa.Buffer] = field(default_factory=dict)
    """What was made of it for a snapshot."""

    @classmethod
    def nothing(cls, schema: pa.Schema) -> _Kept:
        """No rows of no keys."""
        none = np.empty(0, np.int64)
        rows = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)
        return cls(rows, none, np.empty(0, np.uint8), none, none, none, none, none)

    def grow(self, keys: int) -> None:
        """Make room for keys that are new."""
        more = keys - len(self.counts)
        if more > 0:
            zeros = np.zeros(more, np.int64)
            self.counts, self.begins = np.append(self.counts, zeros), np.append(self.begins, zeros)
            self.resumes, self.numbers = np.append(self.resumes, zeros), np.append(self.numbers, zeros + 1)
            self.decided = np.append(self.decided, zeros + INT64_MIN)


class RowPatternOperator(Operator):
    """The matches of a row pattern whose first key of order is time, keyed by what it is partitioned by.

    Rows come out with a last column :data:`TIME_COLUMN`: the time of the row that decided that they do, or, where it
    was ``WITHIN`` that left no other way, the last time that could have changed it. What only the end decides has the
    last time that calendars have: the end of the year 9999.
    """

    def __init__(self, shape: Shape, pattern: RowPattern) -> None:
        """Raises :class:`PatternError` for what streams cannot answer."""
        query = compile_query(pattern)
        if query.search.program.has_end:
            raise PatternError("found the anchor $ in a pattern over a stream, which has no end; expected none")
        first = pattern.order[0] if pattern.order else None
        if first is None or first.column != shape.time or first.is_descending:
            told = "no order" if first is None else first.column + (" DESC" if first.is_descending else "")
            raise PatternError(f"found {told} as the order of a stream; expected {shape.time}, its time, first")
        output = Shape(
            pa.schema([*pattern.output, pa.field(TIME_COLUMN, shape.time_type, nullable=False)]), TIME_COLUMN
        )
        super().__init__([shape], output, Needs(True, (pattern.partition,) if pattern.partition else None, None, 0))
        self._query = query
        self._shape = shape
        self._keys = Keys(shape, pattern.partition)
        self._waiting = Waiting(shape)
        self._kept = _Kept.nothing(query.input)
        self._rows = 0
        """How many rows have been put in order."""
        self._horizon = self._limit = INT64_MIN
        """Before which nothing need come out, and before which rows are only looked at from others."""
        self._end = _LAST.get(shape.clock.unit or "", INT64_MAX)
        expressions = [*pattern.defines.values(), *(each.value for each in pattern.measures)]
        self._may_forget = not (any(map(counts_matches, expressions)) or query.search.program.has_start)
        if query.conditions.behind:
            self.looks_back = (LookBack(query.conditions.behind, tuple(pattern.partition)),)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait until their order is certain."""
        self._waiting.add(batch)
        return []

    def advance(self, watermark: int) -> Batches:
        """What is certain now."""
        fresh = self._waiting.take(watermark)
        if fresh is None and not self._is_due(watermark):
            return []
        rows, codes = self._merged(fresh)
        partitions, cuts, present = self._partitions(codes, watermark)
        own = Rows(rows, cuts)
        times = integers(rows.column(self._shape.time).cast(self._shape.time_type))
        matches = self._query.search.run(own, partitions, times, self._kept.covered, end_time=self._end)
        found = self._rendered(matches)
        self._keep(rows, cuts, present, partitions)
        return found

    def _is_due(self, watermark: int) -> bool:
        if watermark >= FOREVER:
            return len(self._kept.arrivals) > 0
        deadline = self._deadline()
        return deadline is not None and deadline <= watermark

    def _deadline(self) -> int | None:
        """When the first row that may begin a match is too old for it; FOREVER if that does not occur."""
        kept = self._kept
        waits = kept.resumes < kept.counts
        if not waits.any():
            return None
        within = self._query.pattern.within
        if within is None:
            return FOREVER
        ends = np.cumsum(kept.counts)
        firsts = (ends - kept.counts + kept.resumes)[waits]
        times = integers(kept.rows.column(self._shape.time))
        return int(times[firsts].min()) + within + 1

    def _merged(self, fresh: pa.RecordBatch | None) -> tuple[pa.RecordBatch, Ints]:
        """Rows that are kept and those that are new, by key and in order; the keys of all."""
        kept, schema = self._kept, self._query.input
        if fresh is None:
            return kept.rows, np.repeat(np.arange(len(kept.counts)), kept.counts)
        codes = self._keys.encode(fresh)
        new = fresh.select(schema.names)
        order = self._order(new, codes)
        arrivals = self._rows + np.arange(new.num_rows)
        self._rows += new.num_rows
        if order is not None:
            new, codes, arrivals = new.take(integer_column(order)), codes[order], arrivals[order]
        useful = self._useful(new, codes)
        if useful is not None:
            self.skipped += new.num_rows - len(useful)
            new, codes, arrivals = new.take(integer_column(useful)), codes[useful], arrivals[useful]
        kept.grow(len(self._keys))
        old = np.repeat(np.arange(len(kept.counts)), kept.counts)
        rows = pa.concat_batches([kept.rows, new]) if len(old) else new
        whole = np.concatenate([old, codes])
        kept.arrivals = np.concatenate([kept.arrivals, arrivals])
        kept.covered = np.concatenate([kept.covered, np.zeros(len(codes), np.uint8)])
        if len(self._keys) > 1:
            places = np.argsort(whole, kind="stable")
            rows, whole = rows.take(integer_column(places)), whole[places]
            kept.arrivals, kept.covered = kept.arrivals[places], kept.covered[places]
        return rows, whole

    def _useful(self, rows: pa.RecordBatch, codes: Ints) -> Ints | None:
        """The new rows that may begin a match that is wanted, and those before them that are looked at; None for all.

        They are in the order of their keys, so that what is left before the limit are always the last rows of a key.
        """
        is_old = integers(rows.column(self._shape.time)) < self._limit
        old = np.flatnonzero(is_old)
        last = latest(codes[old], self._query.conditions.behind)
        if last.all():
            return None
        is_old[old[last]] = False
        return np.flatnonzero(~is_old)

    def _order(self, rows: pa.RecordBatch, codes: Ints) -> Ints | None:
        """The order of new rows by key and all keys of the order, which time leads; None if they are in it."""
        if len(self._query.pattern.order) < 2:
            return None
        ranks: list[Any] = [np.arange(rows.num_rows)]
        ranks += [_ranks(rows.column(key.column), key) for key in reversed(self._query.pattern.order)]
        return np.lexsort((*ranks, codes))

    def _partitions(self, codes: Ints, watermark: int) -> tuple[Partitions, Ints, Ints]:
        """How far the search is in keys that have rows; where these begin, and which they are."""
        kept = self._kept
        counts = np.bincount(codes, minlength=len(kept.counts))
        present = np.flatnonzero(counts)
        cuts = np.concatenate([[0], np.cumsum(counts[present])]).astype(np.int64)
        found = Partitions.new(cuts, closed=watermark >= FOREVER)
        begins = kept.begins[present]
        found.begins[:] = np.where(begins >= 0, found.lows + begins, -1)
        found.resumes[:] = found.lows + kept.resumes[present]
        found.numbers[:] = kept.numbers[present]
        found.decisions[:] = kept.decided[present]
        found.horizons[:] = min(watermark, INT64_MAX)
        return found, cuts, present

    def _rendered(self, matches: Matches) -> Batches:
        """Rows for matches, in the order in which these became certain."""
        matches = matches.chosen(matches.decided >= self._horizon)
        batch, owners = self._query.output.rendered(matches)
        if not batch.num_rows:
            return []
        times = matches.decided[owners]
        order = np.lexsort((np.arange(len(owners)), self._kept.arrivals[matches.starts[owners]], times))
        column = integer_column(times[order]).view(self._shape.time_type)
        chosen = batch.take(integer_column(order))
        return [pa.RecordBatch.from_arrays([*chosen.columns, column], schema=self.output.schema)]

    def _keep(self, rows: pa.RecordBatch, cuts: Ints, present: Ints, partitions: Partitions) -> None:
        """Keep the rows that later ones may need."""
        kept = self._kept
        firsts = np.maximum(partitions.resumes - self._query.conditions.behind, cuts[:-1])
        left = cuts[1:] - firsts
        marks = np.zeros(rows.num_rows + 1, np.int64)
        np.add.at(marks, firsts, 1)
        np.add.at(marks, cuts[1:], -1)
        chosen = np.flatnonzero(np.cumsum(marks[:-1]) > 0)
        kept.counts[:] = 0
        kept.counts[present] = left
        kept.begins[present] = np.where(partitions.begins >= firsts, partitions.begins - firsts, -1)
        kept.resumes[present] = partitions.resumes - firsts
        kept.numbers[present] = partitions.numbers
        kept.decided[present] = partitions.decisions
        kept.rows = rows.take(integer_column(chosen)) if len(chosen) < rows.num_rows else rows
        kept.arrivals, kept.covered = kept.arrivals[chosen], kept.covered[chosen]
        if self._may_forget and self._keys.are_many:
            used = np.flatnonzero(kept.counts)
            self._keys.keep(used)
            kept.counts, kept.begins, kept.resumes = kept.counts[used], kept.begins[used], kept.resumes[used]
            kept.numbers, kept.decided = kept.numbers[used], kept.decided[used]
        kept.version += 1
        kept.content = {}

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Rows that begin no match that is decided later are of no use, where every row may begin one by itself.

        But for those that conditions look back at; where rows of one time are put in another order than that in which
        they come, they are chosen here alone. Else where a match begins depends on rows before it, or when it is
        decided on rows that may come at any time: then only what is found is left out.
        """
        self._horizon = max(self._horizon, horizon)
        pattern, conditions = self._query.pattern, self._query.conditions
        is_free = pattern.is_all_matches or pattern.skip is Skip.TO_NEXT_ROW
        looks_on = conditions.ahead or pattern.rows is RowsOut.WITH_UNMATCHED
        if pattern.within is None or not is_free or looks_on or pattern.frame or not self._may_forget:
            return (INT64_MIN,)
        limit = max(horizon - pattern.within - 1, INT64_MIN)
        if not conditions.behind:
            return (limit,)
        self._limit = max(self._limit, limit)
        return (self._limit if len(pattern.order) < 2 else INT64_MIN,)

    def next_deadline(self) -> int | None:
        """When the first row that waits is in order, or the first that may begin a match is too old for it."""
        first = self._waiting.first
        found = [each for each in (None if first is None else first + 1, self._deadline()) if each is not None]
        return min(found, default=None)

    def snapshot(self) -> State:
        """The rows that wait, those that are kept, and how far the search is."""
        kept = self._kept
        if not kept.content:
            per_key = [kept.begins, kept.resumes, kept.numbers, kept.decided, kept.counts]
            keys = pa.RecordBatch.from_arrays([integer_column(each) for each in per_key], schema=_PER_KEY)
            kept.content = {
                "rows": packed(kept.rows),
                "arrivals": pa.py_buffer(np.ascontiguousarray(kept.arrivals).tobytes()),
                "covered": pa.py_buffer(kept.covered.tobytes()),
                "keys": packed(keys),
            }
        core = {"rows": self._rows, "version": kept.version}
        own = State({}, {f"{kept.version}/{name}": content for name, content in kept.content.items()})
        return together({"waiting": self._waiting.snapshot(), "known": self._keys.snapshot(), "kept": own}, core)

    def restore(self, state: State) -> None:
        """Go on with the same rows."""
        self._rows = state.core["rows"]
        self._waiting.restore(state.part("waiting"))
        self._keys.restore(state.part("known"))
        version, own = state.core["version"], state.part("kept").chunks
        content = {name: own[f"{version}/{name}"] for name in ("rows", "arrivals", "covered", "keys")}
        begins, resumes, numbers, decided, counts = (
            integers(each).copy() for each in unpacked(content["keys"], _PER_KEY).columns
        )
        self._kept = _Kept(
            unpacked(content["rows"], self._query.input),
            np.frombuffer(content["arrivals"], np.int64),
            np.frombuffer(content["covered"], np.uint8).copy(),
            counts,
            begins,
            resumes,
            numbers,
            decided,
            version,
            content,
        )


def _ranks(values: pa.Array, key: OrderKey) -> Ints:
    """The places of values in an order; NaN is larger than all others."""
    ranks = np.asarray(pc.rank(values, tiebreaker="dense")).astype(np.int64)
    if pa.types.is_floating(values.type):
        ranks[np.asarray(pc.is_nan(values).fill_null(False))] = len(values) + 1
    if key.is_descending:
        ranks = -ranks
    ranks[np.asarray(values.is_null())] = INT64_MIN if key.nulls_first else INT64_MAX
    return ranks
