"""Ctrl-C stops a query, and everything goes on after it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

import tidelog
from support.interrupts import assert_interrupted
from tidelog.sql.result import Result

LONG = "SELECT sum(a.x * b.x) FROM t a, t b, t c"
TABLES = {"t": pa.table({"x": [float(i) for i in range(20_000)]})}

FETCHES: dict[str, Callable[[Result], object]] = {
    "fetchall": lambda result: result.fetchall(),
    "fetchone": lambda result: result.fetchone(),
    "arrow": lambda result: result.arrow(),
    "reader": lambda result: result.reader().read_all(),
    "df": lambda result: result.df(),
    "explain": lambda result: result.explain(analyze=True),
}


@pytest.mark.parametrize(
    "text",
    [
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, range(9) WHERE n > 0) FROM r ORDER BY n",
        "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) = 0",
    ],
)
def test_an_interrupt_stops_what_has_no_end(text: str) -> None:
    result = tidelog.sql(text, sql_memory="64MB")
    assert_interrupted(result.fetchall, after=0.5)


@pytest.mark.parametrize("name", FETCHES)
def test_an_interrupt_stops_a_query(name: str) -> None:
    result = tidelog.sql(LONG, tables=TABLES)
    assert_interrupted(lambda: FETCHES[name](result), after=0.3)
    assert tidelog.sql("SELECT count(*) FROM t", tables=TABLES).fetchone() == (20_000,)


def test_an_interrupt_while_a_stream_is_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = pa.table({"ts": list(range(20_000)), "x": [float(i) for i in range(20_000)]})
    with tidelog.open(tmp_path_factory.mktemp("interrupted"), maintenance="manual") as store:
        store.create_stream("t", time="ts", data=rows)
        assert_interrupted(lambda: store.sql(LONG).fetchall(), after=0.3)
        assert_interrupted(lambda: store.sql("INSERT INTO t SELECT a.ts + 20000, b.x FROM t a, t b"), after=0.3)
        assert store.sql("SELECT count(*), max(x) FROM t").fetchone() == (20_000, 19_999.0)


def test_other_threads_ask_as_well() -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(tidelog.sql("SELECT sum(x) FROM t", tables=TABLES).fetchone()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(199_990_000.0,)] * 4
