"""Conditions of windowed joins by every path (programs, bands, keys, columns), against DuckDB's answers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tidelog.model.errors import TidelogError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance, rows_of
from tidelog.operators.join import banded, keyed, pairing, pairs
from tidelog.operators.join.banded import Banded
from tidelog.operators.join.partners import JoinWindow, RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin

FIELDS = [
    pa.field("ts", pa.int64(), nullable=False),
    pa.field("k", pa.string()),
    pa.field("x", pa.float64()),
    pa.field("y", pa.float32()),
    pa.field("z", pa.float64(), nullable=False),
    pa.field("i", pa.int32()),
    pa.field("n", pa.int64()),
    pa.field("t", pa.timestamp("us")),
]
OF = Shape(pa.schema(FIELDS), "ts")

BANDS = [
    "x BETWEEN x_right - 1.5 AND x_right + 0.5",
    "abs(x - x_right) <= 0.25",
    "0.5 > abs(x_right - x)",
    "abs(y_right - y) < 0.75",
    "y - 1 <= y_right AND y_right - 0.125 < y",
    "abs(n - n_right) < 2",
    "i BETWEEN n_right - 1 AND n_right + 1",
    "x + z_right BETWEEN -0.5 AND 0.5",
    "n = n_right",
    "x - i_right >= -0.25 AND x - i_right <= 0.5",
    "x = y_right",
    "t BETWEEN t_right AND t_right",
    "abs(x - x_right) <= 1 AND (k = k_right OR k IS NULL)",
    "abs(x - x_right) <= 1 AND abs(n - n_right) <= 3 AND y < y_right",
    "NOT x - x_right > 1 AND x_right - x <= 1",
]
OTHERS = [
    "x < x_right",
    "(x - x_right) * (x - x_right) + (z - z_right) * (z - z_right) < 4",
    "(y - y_right) * (y - y_right) + (y - y_right) * (y - y_right) < 3",
    "(x - x_right) * (x - x_right) + (y - y_right) * (y - y_right) < 3",
    "(x - x_right) * (x - x_right) + (z - z_right) * (z - z_right) + (z - x_right) * (z - x_right) < 4",
    " + ".join(f"({a} - {b}_right) * ({a} - {b}_right)" for a, b in ["xx", "zz", "xz", "zx", "zz", "xx", "xz"])
    + " < 9",
    "z_right + (x - x_right) * (x - x_right) + (z - x_right) * (z - x_right) + (z - z_right) * (z - z_right) + "
    "(x - 0.3) * (x - 0.3) > x",
    "sqrt(abs(x * 2 - z_right)) / 2 > 0.5 AND -x < z_right",
    "(n * n_right > 4 OR i = i_right) AND NOT (n - i_right BETWEEN 0 AND 1)",
    "NOT (x < 1 OR x_right / 0 > 3)",
    "sqrt(x - x_right) > 1",
    "x <> x_right AND t <> t_right",
    "i + i_right > 3 AND n > 0",
    "t < t_right OR t = t_right",
    "n + 1 > n_right * 2 OR time % 3 = 0",
    "k || k_right LIKE '%a%'",
    "k = k_right AND x > x_right AND time > 3",
    "z > z_right",
    "x IS NULL AND x_right > 1",
    "1 = 1",
]


def rows(dice: np.random.Generator, count: int) -> pa.RecordBatch:
    def floats(name: str) -> Any:
        values = dice.integers(-16, 17, count) / 8
        odd = dice.random(count)
        if name != "z" or dice.random() < 0.5:
            values = np.select(
                [odd < 0.06, odd < 0.1, odd < 0.13, odd < 0.15], [math.nan, math.inf, -math.inf, 1e30], values
            )
        return values

    columns: dict[str, Any] = {name: floats(name) for name in "xyz"}
    columns["i"] = dice.integers(-4, 5, count)
    columns["n"] = dice.integers(-4, 5, count)
    columns["t"] = dice.integers(0, 6, count)
    columns["ts"] = np.sort(dice.integers(0, 40, count))
    columns["k"] = np.array(["a", "b", "ab", ""])[dice.integers(0, 4, count)]
    arrays = []
    for field in FIELDS:
        missing = dice.random(count) < 0.12 if field.nullable else None
        plain = pa.array(columns[field.name], mask=missing)
        arrays.append(plain.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=OF.schema)


def expected(
    batches: list[pa.RecordBatch], windows: tuple[JoinWindow, JoinWindow], where: str, output: Shape
) -> list[tuple[Any, ...]]:
    """Windows one row at a time; what of their pairs is wanted is for DuckDB to say."""
    left, right = batches
    seen: tuple[list[int], list[int]] = ([], [])
    found: list[tuple[int, int, int]] = []
    times = [OF.times(batch).tolist() for batch in batches]
    for time, port, row in sorted((at, side, place) for side in (0, 1) for place, at in enumerate(times[side])):
        window, others = windows[1 - port], seen[1 - port]
        if isinstance(window, TimeWindow):
            end = (time + 1 - window.size) // window.slide * window.slide + window.size
            chosen = [other for other in others if end - window.size <= times[1 - port][other] < end]
        else:
            first = (len(others) - window.size) // window.slide * window.slide
            chosen = others[max(first, 0) : max(first + window.size, 0)]
        found += [(row, other, time) if port == 0 else (other, row, time) for other in chosen]
        seen[port].append(row)
    columns = [
        *left.take(pa.array([pair[0] for pair in found], pa.int64())).columns,
        *right.take(pa.array([pair[1] for pair in found], pa.int64())).columns,
        pa.array([pair[2] for pair in found], pa.int64()),
    ]
    table = pa.Table.from_arrays([*columns, pa.array(range(len(found)))], names=[*output.schema.names, "place"])
    with duckdb.connect() as connection:
        connection.register("pairs", table)
        places = connection.sql(f"SELECT place FROM pairs WHERE {where} ORDER BY place").fetchall()
    kept = table.drop_columns("place").take(pa.array([place for (place,) in places], pa.int64()))
    return rows_of(output, kept.cast(output.schema).to_batches())


def same(one: Any, other: Any) -> bool:
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pairing, pairs, keyed, banded):
        monkeypatch.setattr(module, "TILE", 199)
    monkeypatch.setattr(pairs, "MATCHED", 311)
    monkeypatch.setattr(banded, "_LEAST_RUN", 3)


WINDOWS: list[tuple[JoinWindow, JoinWindow]] = [
    (TimeWindow(12), TimeWindow(9, 4)),
    (RowWindow(20), RowWindow(15, 4)),
    (TimeWindow(30), RowWindow(30)),
]


@pytest.mark.parametrize("where", [*BANDS, *OTHERS])
def test_against_duckdb(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(len(where))
    for number, windows in enumerate(WINDOWS):
        monkeypatch.setattr(banded, "_DENSE", number % 2 * 16)  # as a band, or as all others
        batches = [rows(dice, 45), rows(dice, 45)]
        make = partial(WindowJoin, OF, OF, windows, where=where, threads=1 + number % 2)
        found = OperatorConformance(make).check(batches, dice, rounds=1)
        wanted = expected(batches, windows, where, make().output)
        assert len(found) == len(wanted)
        assert all(same(*each) for pair in zip(found, wanted, strict=True) for each in zip(*pair, strict=True))
    by_key = make(by={"k": "k"})
    found = rows_of(by_key.output, [*by_key.push(0, batches[0]), *by_key.push(1, batches[1]), *by_key.finish()])
    wanted = expected(batches, WINDOWS[-1], f"k = k_right AND ({where})", by_key.output)
    assert len(found) == len(wanted)
    assert all(same(*each) for pair in zip(found, wanted, strict=True) for each in zip(*pair, strict=True))


@pytest.mark.parametrize("where", BANDS)
def test_bands_are_seen(where: str) -> None:
    join = WindowJoin(OF, OF, WINDOWS[0], None, where)
    assert isinstance(join._pairing._finder, Banded)


@pytest.mark.parametrize(
    "where",
    ["x <> x_right", "x + x_right < z", "x * 2 < x_right", "x < 3", "abs(x - x_right) > 1", "x < x_right OR x > 3"],
)
def test_what_is_no_band(where: str) -> None:
    join = WindowJoin(OF, OF, WINDOWS[0], None, where)
    assert not isinstance(join._pairing._finder, Banded)


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("n + n_right > 3", [2**63 - 1, 5]),
        ("n * n_right > 3", [2**62, -(2**62)]),
        ("-n * 1 < n_right", [-(2**63)]),
        ("i * i_right > 2", [2**30, 7]),
    ],
)
def test_what_does_not_fit_is_an_error(where: str, values: list[int]) -> None:
    """What a program cannot tell is told by columns, as it is anywhere."""
    names = [field.name for field in FIELDS]
    batch = pa.RecordBatch.from_pylist(
        [dict.fromkeys(names, 0) | {"k": "a", "n": value, "i": value % 2**31} for value in values],
        schema=pa.schema([field if field.name != "t" else field.with_type(pa.int64()) for field in FIELDS]),
    )
    of = Shape(batch.schema, "ts")
    join = WindowJoin(of, of, (RowWindow(5), RowWindow(5)), None, where)
    join.push(0, batch)
    join.push(1, batch)
    with pytest.raises(TidelogError, match="overflow"):
        join.finish()


def test_large_integers_that_fit() -> None:
    """Sums that a program does not dare to make are made by columns."""
    of = Shape(pa.schema([FIELDS[0], FIELDS[6]]), "ts")
    left = pa.RecordBatch.from_arrays([pa.array([0, 0, 0]), pa.array([2**62, -(2**62), None])], schema=of.schema)
    right = pa.RecordBatch.from_arrays([pa.array([0, 0]), pa.array([-(2**62), 2**61])], schema=of.schema)
    join = WindowJoin(of, of, (RowWindow(5), RowWindow(5)), None, "n + n_right = 0")
    join.push(0, left)
    join.push(1, right)
    assert rows_of(join.output, join.finish()) == [(0, 2**62, 0, -(2**62), 0)]
