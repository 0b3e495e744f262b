"""Results of Spark and of DuckDB, made comparable: types that only one of them has become others."""

from __future__ import annotations

import datetime

import pyarrow as pa


def plain(table: pa.Table) -> pa.Table:
    """A result with types that both sides have: times in UTC, whole numbers as decimals, intervals as spans."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column = column.cast(pa.timestamp("us", "UTC"))
        elif pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us"))
        elif pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
            column = pa.chunked_array(
                [pa.array([None if each is None else int(each) for each in column.to_pylist()], pa.decimal256(60))]
            )
        elif pa.types.is_interval(kind):
            spans = [
                None if each is None else datetime.timedelta(each.days, 0, each.nanoseconds // 1000)
                for each in column.to_pylist()
            ]
            column = pa.chunked_array([pa.array(spans, pa.duration("us"))])
        columns.append(column)
    return pa.table(columns, names=[f"c{place}" for place in range(len(columns))])
