"""Operators give the rows of replay while rows arrive in streams: by steps that are kept, and by threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import TIMES, rows, shape
from tidelog.engine.online.conformance import ONLINE
from tidelog.operators.base import Operator
from tidelog.operators.composed import Composed, chain
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.join.asof import AsOfJoin
from tidelog.operators.join.partners import RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import TimeWindows

_AGGREGATES = {"rows": "count(*)", "total": "sum(n)", "least": "min(x)"}


def _plan(time: pa.DataType) -> Operator:
    of = shape(time)
    kept = [chain(Filter(of, "x > 0"), Projection(of, {"ts": "ts", "n": "n"})), Projection(of, {"ts": "ts", "n": "n"})]
    union = Union([each.output for each in kept])
    return chain(Composed(union, kept), TimeWindows(union.output, FixedFrames(10, 5), {"rows": "count(*)"}))


_MAKES: dict[str, Callable[[pa.DataType], Operator]] = {
    "filter": lambda time: Filter(shape(time), "n > 0"),
    "projection": lambda time: Projection(shape(time), {"at": "ts", "y": "n * 2 + x", "k": "k"}, "at"),
    "reorder": lambda time: Reorder(shape(time, seq=False)),
    "union": lambda time: Union([shape(time)] * 3),
    "plan": _plan,
    "time windows": lambda time: TimeWindows(shape(time), FixedFrames(12, 5), _AGGREGATES, ["k"]),
    "count windows": lambda time: CountWindows(shape(time), 7, 3, _AGGREGATES, ["k"]),
    "session windows": lambda time: SessionWindows(shape(time), 3, _AGGREGATES, ["k"]),
    "AS-OF join": lambda time: AsOfJoin(shape(time), shape(time), {"k": "k"}),
    "windowed join": lambda time: WindowJoin(shape(time), shape(time), (TimeWindow(4), RowWindow(5)), {"n": "n"}),
}


@pytest.mark.parametrize("kind", _MAKES)
def test_the_rows_of_replay(kind: str) -> None:
    dice = np.random.default_rng(len(kind))
    time = TIMES[int(dice.integers(len(TIMES)))]

    def make() -> Operator:
        return _MAKES[kind](time)

    given = [rows(of, dice, int(dice.integers(100, 200)), jitter=30) for of in make().inputs]
    assert OperatorConformance(make, ONLINE).check(given, dice, lateness=25, rounds=2)
    assert OperatorConformance(make, ONLINE).check([each.slice(0, 0) for each in given], dice, rounds=1) == []
