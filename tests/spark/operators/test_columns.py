"""Columns of Spark as those of operators, and back."""

from __future__ import annotations

import pyarrow as pa

from tidelog.spark.operators.columns import converted, outward

HUNDRED_YEARS = 36_525 * 86_400_000_000


def test_lengths_of_time_come_in_and_go_out() -> None:
    """An interval of days to seconds is a duration for Arrow, and an interval for DuckDB and operators."""
    schema = pa.schema([("length", pa.month_day_nano_interval())])
    lengths = pa.array([1, None, -5, 400 * HUNDRED_YEARS + 7, -86_400_000_000], pa.duration("us"))
    rows = converted([lengths.slice(1)], schema)
    assert [each and tuple(each) for each in rows.column(0).to_pylist()] == [
        None,
        (0, -1, 86_399_999_995_000),
        (0, 400 * 36_525, 7_000),
        (0, -1, 0),
    ]
    (back,) = outward([rows], schema)
    assert back.column(0).equals(lengths.slice(1))
