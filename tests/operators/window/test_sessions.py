"""Sessions, against sessions row by row."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from operators.window.models import AGGREGATES, sessions
from tidelog.model.errors import TimeError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.window.sessions import SessionWindows


@pytest.mark.parametrize("by", [(), ("k",), ("k", "n")], ids=str)
@pytest.mark.parametrize("gap", [1, 2, 5, 30])
def test_sessions(gap: int, by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(21)
    of = shape()
    for count in (0, 1, 50):
        batch = rows(of, dice, count, span=100, jitter=6)
        make = partial(SessionWindows, of, gap, AGGREGATES, by)
        found = OperatorConformance(make).check([batch], dice, lateness=6, rounds=2)
        assert found == sessions(dicts(in_order(of, batch)), gap, by)


def test_what_cannot_be() -> None:
    with pytest.raises(TimeError, match="at least one tick"):
        SessionWindows(shape(), 0, {})
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    with pytest.raises(TimeError, match="out of the range"):
        SessionWindows(of, 5, {}).push(0, pa.RecordBatch.from_arrays([pa.array([2**63 - 3])], schema=of.schema))
