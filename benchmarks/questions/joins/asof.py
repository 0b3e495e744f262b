"""How fast is each trade put beside the last quote before it?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import data
from formats.base import THREADS
from harness import Bench, Bound
from questions.joins.contest import DUCKDB, POLARS, ask, is_there, joined
from tidelog.operators.base import Shape
from tidelog.operators.join.asof import AsOfJoin

BY_KEY = "as-of join by symbol"
WITHOUT_KEY = "as-of join"
_COLUMNS = ["ts", "symbol", "price"]


def ask_asof(bench: Bench, events: int, bound: Bound) -> None:
    """Race AS-OF joins of a stream of trades with one of quotes, of a quarter of its length over the same time."""
    left = _stream(events, 1)
    right = _stream(max(events // 4, 1), 2)
    scale = max(int(left["ts"][-1].as_py()) // max(int(right["ts"][-1].as_py()), 1), 1)
    times = pa.array(right["ts"].to_numpy() * scale)
    right = right.set_column(0, right.schema.field("ts"), times)
    of = Shape(left.schema, "ts")
    for name, by in ((BY_KEY, {"symbol": "symbol"}), (WITHOUT_KEY, None)):
        if not bench.wants(name):
            continue
        peers: dict[str, Any] = {}
        if is_there(bench, DUCKDB, "duckdb"):
            peers[DUCKDB] = _duckdb(left, right, by is not None)
        if is_there(bench, POLARS, "polars"):
            peers[POLARS] = _polars(left, right, by is not None)
        ask(
            bench,
            name,
            left.num_rows + right.num_rows,
            lambda by=by: joined(AsOfJoin(of, of, by, outer=True), left, right),  # type: ignore[misc]
            peers,
            len,
            [("fastest", (DUCKDB, POLARS), bound)],
            f"{left.num_rows:,} trades, {right.num_rows:,} quotes",
        )


def _stream(events: int, seed: int) -> pa.Table:
    table = data.table("stock_strings", events, seed=seed).select(_COLUMNS).combine_chunks()
    return table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))


def _duckdb(left: pa.Table, right: pa.Table, by_key: bool) -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    for name, table in (("l", left), ("r", right)):
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS FROM given")
    key = "l.symbol = r.symbol AND" if by_key else ""
    query = f"SELECT l.*, r.* FROM l ASOF LEFT JOIN r ON {key} l.ts >= r.ts"
    return lambda: connection.sql(query).to_arrow_table()


def _polars(left: pa.Table, right: pa.Table, by_key: bool) -> Any:
    import polars

    frames = [polars.DataFrame(polars.from_arrow(table)).set_sorted("ts") for table in (left, right)]
    options: dict[str, Any] = {"by": "symbol"} if by_key else {}
    return lambda: frames[0].join_asof(frames[1], on="ts", coalesce=False, check_sortedness=False, **options)
