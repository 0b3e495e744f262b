"""Values of Python arrive in statements as what they are."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelog
from tidelog.model.errors import InputError

NANOSECONDS = 1_767_225_600_123_456_789


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (np.datetime64(NANOSECONDS, "ns"), NANOSECONDS, pa.timestamp("ns")),
        (pd.Timestamp(NANOSECONDS), NANOSECONDS, pa.timestamp("ns")),
        (pd.Timestamp(NANOSECONDS, tz="UTC"), NANOSECONDS, pa.timestamp("ns", "UTC")),
        (pa.scalar(NANOSECONDS, pa.timestamp("ns")), NANOSECONDS, pa.timestamp("ns")),
        (pa.scalar(NANOSECONDS, pa.timestamp("ns", "Asia/Tokyo")), NANOSECONDS, pa.timestamp("ns", "UTC")),
        (np.datetime64("2026-01-01T08", "h"), NANOSECONDS // 1000 // 10**6 * 10**6 + 8 * 3600 * 10**6, None),
        (np.datetime64("2026-02", "M"), 20485, pa.date32()),
        (np.datetime64("NaT"), None, pa.null()),
        (pd.NaT, None, pa.null()),
        (pd.NA, None, pa.null()),
        (np.array([1, 2]), [1, 2], pa.list_(pa.field("l", pa.int32()))),
        (np.array([[1], [2]]), [[1], [2]], None),
        (np.timedelta64(1500, "ms"), pa.MonthDayNano([0, 0, 1_500_000_000]), None),
        (np.timedelta64("NaT", "ms"), None, pa.null()),
        (pd.Timedelta("1500ms"), pa.MonthDayNano([0, 0, 1_500_000_000]), None),
        (pd.Series(["a", None]), ["a", None], None),
        (pd.Series([1, 2]), [1, 2], None),
        (pl.Series(["a", None]), ["a", None], None),
        (pa.array([1, None]), [1, None], None),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"], None),
    ],
)
def test_values_of_numpy_and_pandas(value: Any, expected: Any, kind: pa.DataType | None) -> None:
    (found,) = tidelog.sql("SELECT ? AS v", [value]).arrow()["v"]
    assert kind is None or found.type == kind
    assert (found.value if isinstance(found, pa.TimestampScalar | pa.Date32Scalar) else found.as_py()) == expected


def test_lengths_that_intervals_cannot_have() -> None:
    for length in (np.timedelta64(5, "ns"), np.timedelta64(5, "ps"), pd.Timedelta("1ns")):
        with pytest.raises(InputError, match="whole microseconds"):
            tidelog.sql("SELECT ?", [length])


def test_what_has_no_constant() -> None:
    frame = pd.DataFrame({"a": [1]})
    for value in (np.datetime64(5, "ps"), frame, pl.DataFrame(frame), range(3), np.complex64(1), datetime.UTC):
        with pytest.raises(InputError, match="for a parameter; expected a"):
            tidelog.sql("SELECT ?", [value])


def test_a_time_of_day_keeps_its_zone() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    found = tidelog.sql("SELECT ?, ?", [datetime.time(1, 2, tzinfo=zone), datetime.time(1, 2)]).fetchone()
    assert found == (datetime.time(1, 2, tzinfo=zone), datetime.time(1, 2))


def test_names_in_any_case() -> None:
    assert tidelog.sql("SELECT $Low, $low + $HIGH", {"low": 1, "High": 2}).fetchall() == [(1, 3)]
