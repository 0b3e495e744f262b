"""How fast are rows found that are near in time and near in value, or near in space?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats.base import THREADS
from harness import Bench, Bound
from questions.joins.contest import DUCKDB, NUMPY, ask, is_there, joined
from tidelog.operators.base import Shape
from tidelog.operators.join.partners import RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin

BAND = "band join"
_WINDOW = 20_000
_WIDTH = 0.0005

_AXES = [f"a{number}" for number in range(1, 7)]
_DISTANCE = 0.2606
"""At which one of a thousand pairs of points of the unit cube is near enough."""
_CONDITION = (
    f"{' + '.join(f'({axis} - {axis}_right) * ({axis} - {axis}_right)' for axis in _AXES)} < {_DISTANCE**2:.8f}"
)


def ask_band(bench: Bench, events: int, bound: Bound) -> None:
    """Race a join of two streams by a distance in value, within a window of time, against DuckDB's range join."""
    if not bench.wants(BAND):
        return
    left, right = (_points(max(events // 2, 1), ["x"], pa.float64(), seed) for seed in (1, 2))
    window = min(_WINDOW, max(events // 20, 1))
    of = Shape(left.schema, "ts")
    where = f"x BETWEEN x_right - {_WIDTH} AND x_right + {_WIDTH}"
    peers: dict[str, Any] = {}
    if is_there(bench, DUCKDB, "duckdb"):
        import duckdb

        connection = duckdb.connect(config={"threads": THREADS})
        for name, table in (("l", left), ("r", right)):
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        query = (
            f"SELECT l.*, r.*, greatest(l.ts, r.ts) FROM l JOIN r ON l.x BETWEEN r.x - {_WIDTH} AND r.x + {_WIDTH} "
            f"AND l.ts BETWEEN r.ts - {window - 1} AND r.ts + {window - 1}"
        )
        peers[DUCKDB] = lambda: connection.sql(query).to_arrow_table()
    windows = (TimeWindow(window), TimeWindow(window))
    ask(
        bench,
        BAND,
        left.num_rows + right.num_rows,
        lambda: joined(WindowJoin(of, of, windows, None, where, threads=THREADS), left, right),
        peers,
        len,
        [(DUCKDB, (DUCKDB,), bound)],
        f"windows of {window:,} ticks, one event in each",
    )


def distance_question(window: int) -> str:
    """The name of the question about windows of so many rows."""
    return f"distance join 2^{window.bit_length() - 1}"


def ask_distance(bench: Bench, window: int, arrivals: int, bound: Bound) -> None:
    """Race a join by the distance of six floats against NumPy, which is given each event as it arrives.

    Windows are full when the clock starts to matter: of both streams there are as many rows as in a window, and then
    so many arrivals. NumPy keeps each stream as columns; all it does for an event is to look at the window.
    """
    name = distance_question(window)
    if not bench.wants(name):
        return
    count = window + max(arrivals // 2, 1)
    tables = [_points(count, _AXES, pa.float32(), seed) for seed in (3, 4)]
    of = Shape(tables[0].schema, "ts")
    columns = [[table[axis].to_numpy() for axis in _AXES] for table in tables]
    windows = (RowWindow(window), RowWindow(window))
    ask(
        bench,
        name,
        2 * count,
        lambda: joined(WindowJoin(of, of, windows, None, _CONDITION, threads=THREADS), *tables),
        {NUMPY: lambda: _per_event(columns, window)},
        lambda found: found if isinstance(found, int) else len(found),
        [(NUMPY, (NUMPY,), bound)],
        "six floats a side, one of a thousand pairs is near enough",
    )


def _points(count: int, names: list[str], type_: pa.DataType, seed: int) -> pa.Table:
    """Uniform points, one at each tick."""
    dice = np.random.default_rng(seed)
    fields = [pa.field("ts", pa.int64(), nullable=False), *(pa.field(name, type_, nullable=False) for name in names)]
    values = [pa.array(dice.random(count).astype(type_.to_pandas_dtype())) for _ in names]
    return pa.Table.from_arrays([pa.array(np.arange(count)), *values], schema=pa.schema(fields))


def _per_event(columns: list[list[npt.NDArray[np.float32]]], window: int) -> int:
    """The distances of each arriving event to the window of the other stream; how many are small enough."""
    found, limit = 0, np.float32(_DISTANCE**2)
    room, total = np.empty(window, np.float32), np.empty(window, np.float32)
    for row in range(len(columns[0][0])):
        for side in (0, 1):  # of one time the left event is first
            first, last = max(row + side - window, 0), row + side
            size = last - first
            one, other = columns[side], columns[1 - side]
            near, sum_ = room[:size], total[:size]
            sum_[:] = 0
            for mine, theirs in zip(one, other, strict=True):
                np.subtract(theirs[first:last], mine[row], out=near)
                np.multiply(near, near, out=near)
                np.add(sum_, near, out=sum_)
            found += len(np.flatnonzero(sum_ < limit))
    return found
