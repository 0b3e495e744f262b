"""Rows that come late into a stream, counted from its index and by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.spark.pipeline.running.lateness import LateRows

SECOND = 1_000_000
SCHEMA = pa.schema([pa.field("the time", pa.timestamp("us", "UTC"), nullable=False), ("v", pa.int64())])


@settings(max_examples=scaled(10))
@given(
    delay=st.integers(0, 5),
    looks=st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=5),
    compacts=st.booleans(),
)
def test_late_rows_equal_a_recount(
    tmp_path_factory: pytest.TempPathFactory, delay: int, looks: list[list[int]], compacts: bool
) -> None:
    path = tmp_path_factory.mktemp("late")
    with Store.open(path, maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "the time", leaf_rows=4, fanout=2)
        late = LateRows(str(path), "s", Fraction(delay))
        expected, newest = 0, None
        for times in looks:
            stream.append({"the time": [time * SECOND for time in times], "v": times})
            stream.flush()
            if compacts:
                stream.compact()
            if newest is not None:
                expected += sum(time < newest - delay for time in times)
            newest = max([*times, *([] if newest is None else [newest])], default=None)
            assert late.look() == expected


def test_rows_from_before_do_not_count_and_plain_numbers_have_no_delay(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", pa.schema([("t", pa.int64())]), "t")
        stream.append({"t": [10, 5, 7]})
        stream.flush()
        late = LateRows(str(tmp_path), "s", Fraction(100))
        assert late.look() == 0
        stream.append({"t": [9, 11, 10]})
        stream.flush()
        assert late.look() == 1
        assert late.look() == 1
