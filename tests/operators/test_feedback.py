"""What is told not to be wanted is not read or computed, and what is wanted is as it would have been."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import Parts, rows, shape
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Operator
from tidelog.operators.composed import Composed, chain
from tidelog.operators.conformance import in_order, rows_of
from tidelog.operators.feedback import Flow, Scan
from tidelog.operators.join.asof import AsOfJoin, Direction
from tidelog.operators.join.lookup import Lookup
from tidelog.operators.join.partners import RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.ports import Input
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.window.assigning import SessionRows, WindowRows
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import FromFirst, TimeWindows

OF = shape(seq=False)
SUM = {"count": "count(*)", "total": "sum(n)", "first": "first(x)"}


def windows(by: list[str] | None = None) -> TimeWindows:
    return TimeWindows(OF, FixedFrames(10, 5), SUM, by or [])


def as_of(direction: Direction, tolerance: int | None) -> AsOfJoin:
    return AsOfJoin(OF, OF, {"k": "k"}, direction, tolerance=tolerance)


SKIPPING: dict[str, Callable[[], Operator]] = {
    "filter": lambda: Filter(OF, "n > 0"),
    "projection": lambda: Projection(OF, {"ts": "ts", "y": "x + 1"}),
    "lookup": lambda: Lookup(OF, pa.table({"key": ["a", "b"], "v": [1, 2]}), {"k": "key"}),
    "reorder": lambda: Reorder(OF),
    "union": lambda: Union([OF, OF]),
    "windows": windows,
    "grouped windows": lambda: windows(["k"]),
    "rows of windows": lambda: WindowRows(OF, FixedFrames(4, 2)),
    "windows with gaps": lambda: TimeWindows(OF, FixedFrames(3, 7), SUM),
    "filtered windows": lambda: chain(Filter(OF, "x > 0"), windows(["k"]), Filter(windows(["k"]).output, "count > 1")),
    "windows of a union": lambda: Composed(windows(["k"]), [Composed(Union([OF, OF]), [Filter(OF, "n > 0"), None])]),
    "as-of join backward": lambda: as_of(Direction.BACKWARD, 6),
    "as-of join forward": lambda: as_of(Direction.FORWARD, None),
    "window join": lambda: WindowJoin(OF, OF, (TimeWindow(6, 2), TimeWindow(3, 1)), {"k": "k"}),
    "merge": lambda: MergeOperator([Input("a", OF, delay=0), Input("b", OF, delay=0)], "R2dup"),
}
SESSIONS = SessionWindows(OF, 3, SUM).output
READING_ALL: dict[str, Callable[[], Operator]] = {
    "sessions": lambda: SessionWindows(OF, 2, {"count": "count(*)"}, ["k"]),
    "rows of sessions": lambda: SessionRows(OF, 2, ["k"]),
    "filtered sessions": lambda: chain(Filter(OF, "n > -3"), SessionWindows(OF, 3, SUM), Filter(SESSIONS, "count > 1")),
    "counted windows": lambda: CountWindows(OF, 3, 2, {"total": "sum(n)"}),
    "counted windows of keys": lambda: CountWindows(OF, 3, 1, {"total": "sum(n)"}, ["k"]),
    "windows from the first row on": lambda: TimeWindows(OF, FromFirst(10, 5), SUM),
    "windows without rows": lambda: TimeWindows(OF, FixedFrames(10, 5), SUM, empty=True),
    "join with the last rows": lambda: WindowJoin(OF, OF, (RowWindow(5), RowWindow(5)), {"k": "k"}),
}


def given(name: str, operator: Operator, dice: np.random.Generator) -> list[pa.RecordBatch]:
    """Rows for all inputs: those of a merge are copies."""
    found = [in_order(OF, rows(OF, dice, 80, span=100)) for _ in operator.inputs]
    return [found[0]] * len(found) if name == "merge" else found


@pytest.mark.parametrize("name", [*SKIPPING, *READING_ALL])
def test_rows_behind_the_horizon_are_what_they_were(name: str) -> None:
    make = (SKIPPING | READING_ALL)[name]
    skipped = 0
    for seed in range(12):
        dice = np.random.default_rng(seed)
        operator = make()
        inputs = given(name, operator, dice)
        whole = rows_of(operator.output, list(Flow(make(), [[each] for each in inputs])))
        flow = Flow(operator, [Parts(each, dice) for each in inputs])
        at = operator.output.schema.get_field_index(operator.output.time)
        horizon, found = INT64_MIN, []
        for batch in flow:
            found += [row for row in rows_of(operator.output, [batch]) if row[at] >= horizon]
            if dice.random() < 0.5:
                horizon = max(horizon, int(dice.integers(-20, 80)))
                flow.skip(horizon)
        # What came out before it was known not to be wanted is wanted by nobody either.
        assert [row for row in found if row[at] >= horizon] == [row for row in whole if row[at] >= horizon]
        skipped += flow.skipped
    assert (skipped > 0) == (name in SKIPPING)


@pytest.mark.parametrize("name", SKIPPING)
def test_sources_are_told(name: str) -> None:
    """Of a horizon that is known from the start, rows that are of no use are not read."""
    for seed in range(4):
        dice = np.random.default_rng(seed)
        operator = SKIPPING[name]()
        inputs = given(name, operator, dice)
        whole = rows_of(operator.output, list(Flow(SKIPPING[name](), [[each] for each in inputs])))

        def opened(batch: pa.RecordBatch) -> Callable[[int | None], Iterator[pa.RecordBatch]]:
            return lambda start: iter(
                [batch.filter(pa.array(OF.times(batch) >= (INT64_MIN if start is None else start)))]
            )

        sources = [Scan(opened(each), "ts") for each in inputs]
        flow = Flow(operator, sources)
        flow.skip(50)
        at = operator.output.schema.get_field_index(operator.output.time)
        found = rows_of(operator.output, list(flow))
        assert [row for row in found if row[at] >= 50] == [row for row in whole if row[at] >= 50]
        assert sum(source.rows for source in sources) < 80 * len(sources) // 1.3
        assert flow.skipped == 0


@pytest.mark.parametrize("name", [each for each in READING_ALL if "sessions" in each or "counted" in each])
def test_what_is_not_wanted_does_not_come_out(name: str) -> None:
    """Though all rows are needed for what does."""
    operator, other = READING_ALL[name](), READING_ALL[name]()
    (batch,) = given(name, operator, np.random.default_rng(5))
    assert operator.skip(30) == (INT64_MIN,)
    found, whole = (rows_of(each.output, each.push(0, batch) + each.finish()) for each in (operator, other))
    at = operator.output.schema.get_field_index(operator.output.time)
    assert found == [row for row in whole if row[at] >= 30]
    assert 0 < len(found) < len(whole)
