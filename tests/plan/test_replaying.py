"""Stored streams through an operator, against DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.operators.base import Shape
from tidelog.operators.conformance import rows_of
from tidelog.operators.join.asof import AsOfJoin
from tidelog.operators.ordering import Union
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows
from tidelog.plan.replaying import Stored, replay_stored, stored_shape

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("n", pa.int32()), ("x", pa.float64())])
SECOND = 1_000_000


def table(seed: int, rows: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    times = np.arange(rows) * SECOND + dice.integers(-20, 21, rows) * SECOND  # some come late
    return pa.table(
        [
            pa.array(times).cast(pa.timestamp("us")),
            pa.array(dice.choice(["a", "b", "c"], rows)),
            pa.array(dice.integers(0, 9, rows), pa.int32(), mask=dice.random(rows) < 0.1),
            pa.array(dice.integers(-99, 99, rows) / 4),
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def store(tmp_path: Path) -> tidelog.Store:
    opened = tidelog.open(tmp_path / "events")
    for seed, name in enumerate(("left", "right")):
        stream = opened.create_stream(name, schema=SCHEMA, time="ts", split="20m")
        data = table(seed, 5_000)
        for first in range(0, 5_000, 700):
            stream.append(data.slice(first, 700))
        stream.flush()
    yield opened
    opened.close()


def inputs(store: tidelog.Store, *names: str) -> tuple[list[Stored], list[Shape]]:
    snapshots = [store.stream(name).snapshot() for name in names]
    return [Stored(each) for each in snapshots], [stored_shape(each) for each in snapshots]


@pytest.mark.parametrize(("size", "slide"), [(600, 600), (600, 60), (100, 70)])
def test_windows_are_those_of_duckdb(store: tidelog.Store, size: int, slide: int) -> None:
    (source,), (of,) = inputs(store, "left")
    aggregates = {"rows": "count(*)", "total": "sum(x)", "low": "min(n)", "mean": "avg(n)", "deviation": "stddev(x)"}
    operator = TimeWindows(of, FixedFrames(size * SECOND, slide * SECOND), aggregates, ["k"])
    where = "x < 10 and ts >= '1970-01-01 00:10:00'"
    found = rows_of(operator.output, list(replay_stored(operator, [Stored(source.snapshot, where)])))
    with duckdb.connect() as connection:
        connection.register("events", table(0, 5_000))
        expected = connection.sql(
            f"""WITH w AS (SELECT unnest(range(-{size}, 6000, 1)) AS s),
                     windows AS (SELECT s * 1000000 AS s, (s + {size}) * 1000000 AS e FROM w WHERE s % {slide} = 0)
                SELECT k, s, e, count(*), sum(x), min(n), avg(n), stddev(x)
                FROM windows JOIN events ON epoch_us(ts) >= s AND epoch_us(ts) < e
                WHERE {where} GROUP BY ALL ORDER BY e, k"""
        ).fetchall()
    ordered = sorted(found, key=lambda row: (row[2], row[0]))
    assert [row[:7] for row in ordered] == [row[:7] for row in expected]
    assert [row[7] for row in ordered] == pytest.approx([row[7] for row in expected])


def test_two_streams_are_merged_by_time(store: tidelog.Store) -> None:
    sources, shapes = inputs(store, "left", "right")
    operator = Union(shapes)
    found = rows_of(operator.output, list(replay_stored(operator, sources)))
    with duckdb.connect() as connection:
        for seed, name in enumerate(("l", "r")):
            connection.register(name, table(seed, 5_000))
        expected = connection.sql(
            """SELECT epoch_us(ts), k, n, x FROM (
                   SELECT *, 0 AS input, row_number() OVER () AS arrival FROM l
                   UNION ALL SELECT *, 1, row_number() OVER () FROM r)
               ORDER BY ts, input, arrival"""
        ).fetchall()
    assert found == expected


def test_as_of_joins_are_those_of_duckdb(store: tidelog.Store) -> None:
    sources, shapes = inputs(store, "left", "right")
    operator = AsOfJoin(*shapes, {"k": "k"})
    found = rows_of(operator.output, list(replay_stored(operator, sources)))
    with duckdb.connect() as connection:
        for seed, name in enumerate(("l", "r")):
            connection.register(name, table(seed, 5_000))
        expected = connection.sql(
            """SELECT epoch_us(l.ts), l.k, l.x, epoch_us(r.ts) FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts"""
        ).fetchall()
    names = operator.output.schema.names
    chosen = [names.index(name) for name in ("ts", "k", "x", "ts_right")]
    assert sorted(tuple(row[place] for place in chosen) for row in found) == sorted(expected)


def test_only_some_columns_are_read(store: tidelog.Store) -> None:
    snapshot = store.stream("left").snapshot()
    of = stored_shape(snapshot, ["x"])
    assert of.schema.names == ["ts", "x", "_seq"]
    operator = TimeWindows(of, FixedFrames(10**12, 10**12), {"rows": "count(x)"})
    assert sum(row[2] for row in rows_of(operator.output, list(replay_stored(operator, [Stored(snapshot)])))) == 5_000
