"""A stream of a hundred events a second, its windows in every plan, and the same rows in a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import data
import tidelog
from tidelog.engine.stream import writer_of
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Operator, Shape
from tidelog.operators.replaying import replay
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows
from tidelog.plan import choosing
from tidelog.plan.choosing import AskedWindows, Candidate, candidates, fastest
from tidelog.plan.windows import TimeWindowPlan, asked, slid
from tidelog.store.read.scan import scan

MILLIS = 1000
DAY = 86_400 * MILLIS
CALLS = ("sum(v0)", "avg(v0)", "count(v0)")
COLUMNS = ("ts", "v0")
_CACHED_NODES = 50


class Ticks:
    """Events in a stream of ours, whose cache holds fifty nodes."""

    def __init__(self, place: Path, kind: str, events: int) -> None:
        self.events = events
        self._store = tidelog.open(place)
        stream = self._store.create_stream(kind, data.STREAMS[kind]().schema, "ts")
        for batch in data.batches(kind, events):
            stream.append(batch)
        stream.flush()
        self.stream = stream
        self.leaf_rows = stream.options.leaf_rows
        writer_of(stream).context.nodes.budget = _CACHED_NODES * stream.stats()["node_bytes"]
        stored = self.snapshot.layout.stored
        self.shape = Shape(pa.schema([stored.field(name) for name in COLUMNS]), "ts")

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    @property
    def snapshot(self) -> Any:
        """The stream as it is now."""
        return self.stream.snapshot()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Times and the first reading, in order."""
        return scan(self.snapshot, Intervals((Interval(),)), COLUMNS)


class Windows:
    """Complete windows of a stream by one slide."""

    def __init__(self, ticks: Ticks, size: int, slide: int) -> None:
        self.ticks = ticks
        self.frames = FixedFrames(size, slide)
        self.schema = self._operator().output.schema
        last = (ticks.events - 1) * data.Ticks.STEP_MILLIS
        self.count = max(0, (last + 1 - size) // slide + 1)
        """How many windows there are."""

    def _operator(self) -> Operator:
        named = {f"a{place}": call for place, call in enumerate(CALLS)}
        return TimeWindows(self.ticks.shape, self.frames, named, complete_only=True)

    def replayed(self) -> Iterator[pa.RecordBatch]:
        """All windows, by the operator."""
        return replay(self._operator(), [self.ticks.rows()])

    def candidates(self) -> Sequence[Candidate]:
        """All ways, also where those from the index cannot be faster."""
        least, choosing.LEAST_LEAVES = choosing.LEAST_LEAVES, 0
        try:
            return candidates(self._asked())
        finally:
            choosing.LEAST_LEAVES = least

    def _asked(self) -> AskedWindows:
        stream = self.ticks.stream
        flags = {"complete_only": True}
        return AskedWindows(stream.snapshot(), stream.options, None, Interval(), self.frames, CALLS, flags)

    def chosen(self) -> Iterator[pa.RecordBatch]:
        """All windows, in the way that is chosen for them; the choice included."""
        try:
            plan = fastest(candidates(self._asked())).plan
        except choosing.NotIndexed:
            plan = None
        return self.replayed() if plan is None else self.planned(plan)

    def planned(self, plan: Any) -> Iterator[pa.RecordBatch]:
        """All windows of a plan from the index."""
        return iter(plan.batches(self.schema))

    def sampled(self, plan: Any, most: int) -> int:
        """So many windows of a plan from the index, from the first complete one on; how many there were."""
        assert isinstance(plan, TimeWindowPlan)
        numbers = 0, min(most, self.count)
        found = asked(self.frames, numbers, plan.slices.of) if plan.naive else slid(self.frames, numbers, plan.slices)
        return sum(len(plan.slices.values(states)[0]) for _, states in found)
