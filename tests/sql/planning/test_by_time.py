"""``first``, ``last``, ``arg_min`` and ``arg_max`` by time: the value of one event, told by (time, ``_seq``)."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.result import Result

ROWS = 30_000
LEAF = 100


def table() -> pa.Table:
    """Events of 30 days, several of them of one time, and with a column that is null most of the time."""
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, ROWS // 3, ROWS)) * 259_200_000 + 1_767_225_600_000_000
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "n": np.arange(ROWS),
            "x": pa.array(random.integers(-500, 500, ROWS) / 8, mask=random.random(ROWS) < 0.5),
            "rare": pa.array(np.arange(ROWS), mask=random.random(ROWS) < 0.98),
            "s": pa.array(random.choice(["a", "b", "c"], ROWS)),
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("by_time"), maintenance="manual") as opened:
        opened.create_stream("t", time="ts", data=table(), leaf_rows=LEAF).flush()
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("t", table())
        yield connection


def leaves(result: Result) -> int:
    return sum(reading.counters.leaves for each in result._query.relations.values() for reading in each.readings)


CALLS = {
    "first({})": "first({} ORDER BY ts, n)",
    "last({})": "last({} ORDER BY ts, n)",
    "any_value({})": "any_value({} ORDER BY ts, n)",
    "arbitrary({})": "first({} ORDER BY ts, n)",
    "first({} ORDER BY ts)": "first({} ORDER BY ts, n)",
    "first({} ORDER BY ts DESC)": "last({} ORDER BY ts, n)",
    "last({} ORDER BY ts)": "last({} ORDER BY ts, n)",
    "last({} ORDER BY ts, _seq)": "last({} ORDER BY ts, n)",
    "arg_min({}, ts)": "any_value({} ORDER BY ts, n)",
    "min_by({}, t.ts)": "any_value({} ORDER BY ts, n)",
    "arg_max({}, ts)": "any_value({} ORDER BY ts DESC, n DESC)",
    "max_by({}, TS)": "any_value({} ORDER BY ts DESC, n DESC)",
    "arg_max_null({}, ts)": "last({} ORDER BY ts, n)",
}
"""A call, and what it means: the one event that is meant is told by its number."""

SHAPES = [
    "SELECT {} AS v FROM t",
    "SELECT {} AS v FROM t WHERE ts >= '2026-01-03 07:00' AND ts < '2026-01-20 01:02:03'",
    "SELECT date_trunc('day', ts) AS d, {} AS v, count(*) FROM t GROUP BY d ORDER BY d",
    "SELECT time_bucket(INTERVAL '5 days', ts, TIMESTAMP '2026-01-02') AS d, {} AS v FROM t"
    " WHERE ts > '2026-01-04 05:00' GROUP BY d HAVING {} IS NOT NULL ORDER BY d DESC",
    "SELECT {} FILTER (WHERE ts >= '2026-01-20') AS v, {} AS w FROM t",
    "WITH c AS (SELECT {} AS v FROM t) SELECT v FROM c",
]


@pytest.mark.parametrize("call", CALLS)
def test_from_the_index(store: Store, plain: duckdb.DuckDBPyConnection, call: str) -> None:
    for turn, shape in enumerate(SHAPES, list(CALLS).index(call)):
        column = ("x", "rare", "n", "s")[turn % 4]
        text = shape.replace("{}", call.format(column))
        expected = plain.sql(shape.replace("{}", CALLS[call].format(column))).fetchall()
        result = store.sql(text)
        assert result.fetchall() == expected, text
        (relation,) = result._query.relations.values()
        assert relation.way.startswith("the index"), (text, relation.reasons)
        assert relation.readings == []


@pytest.mark.parametrize("call", CALLS)
def test_from_the_events(store: Store, plain: duckdb.DuckDBPyConnection, call: str) -> None:
    """The same events are meant where DuckDB computes it, and times are not read for that."""
    for shape in (
        "SELECT s, {} AS v FROM t GROUP BY s ORDER BY s",
        "SELECT s, count(*), {} AS v FROM t WHERE n % 3 > 0 GROUP BY ALL ORDER BY s",
        "SELECT {} + 1 AS v, median(n) FROM t WHERE n > 100",
        "SELECT s, {} FILTER (WHERE n > 20_000) AS v FROM t GROUP BY ROLLUP (s) ORDER BY s",
    ):
        result = store.sql(shape.replace("{}", call.format("x")))
        assert result.fetchall() == plain.sql(shape.replace("{}", CALLS[call].format("x"))).fetchall(), shape
        (relation,) = result._query.relations.values()
        assert relation.way.startswith("the events")
        assert all("ts" not in reading.columns for reading in relation.readings)


def test_only_blocks_at_the_ends_are_read(store: Store) -> None:
    result = store.sql("SELECT first(x), last(x), arg_max(n, ts), max(n) FROM t")
    assert result._query.relations["#0 t"].way.endswith(" of 1 ranges of time, with 2 blocks of events")
    days = store.sql("SELECT date_trunc('day', ts), last(n) FROM t GROUP BY 1")
    (relation,) = days._query.relations.values()
    read = int(relation.way.rpartition("with ")[2].split(" ")[0])
    assert read <= 3 * 30 + 1  # of 300: where buckets are cut, and where they end
    assert leaves(days) == 0


def test_names_and_types_are_those_of_duckdb(store: Store, plain: duckdb.DuckDBPyConnection) -> None:
    for text in (
        "SELECT first(x), last(s), arg_max(n, ts), min_by(ts, ts), any_value(rare) FROM t",
        "SELECT s, first(x), last(s), arg_max(n, ts), min_by(ts, ts), any_value(rare) FROM t GROUP BY s",
    ):
        expected = plain.sql(text).to_arrow_table().schema
        assert store.sql(text).schema == expected
        assert store.sql(text).arrow().schema == expected


def test_what_shows_all_columns_is_left_to_duckdb(store: Store, plain: duckdb.DuckDBPyConnection) -> None:
    for text in (
        "SELECT s, arg_max(t, ts).n IS NULL AS v FROM t GROUP BY s ORDER BY s",
        "SELECT s, max(COLUMNS(* EXCLUDE (s))), arg_max(s, ts) FROM t GROUP BY s ORDER BY s",
    ):
        assert store.sql(text).schema == plain.sql(text).to_arrow_table().schema
        assert store.sql(text).fetchall() == plain.sql(text).fetchall()


def test_an_empty_stream_and_an_empty_range(store: Store) -> None:
    assert store.sql("SELECT first(x), arg_max(n, ts), count(*) FROM t WHERE ts < '2000-01-01'").fetchall() == [
        (None, None, 0)
    ]
    assert store.sql("SELECT date_trunc('day', ts), last(n) FROM t WHERE ts < '2000-01-01' GROUP BY 1").fetchall() == []


def test_what_a_stream_keeps_takes_no_events(tmp_path_factory: pytest.TempPathFactory) -> None:
    with tidelog.open(tmp_path_factory.mktemp("kept"), maintenance="manual") as other:
        kept = ["last(n)", "stddev(x)"]
        other.create_stream("t", time="ts", data=table(), leaf_rows=LEAF, user_aggregates=kept).flush()
        result = other.sql("SELECT last(n), stddev(x), var_pop(x) FROM t")
        with duckdb.connect() as connection:
            connection.register("t", table())
            expected = connection.sql("SELECT last(n ORDER BY ts, n), stddev(x), var_pop(x) FROM t").fetchall()
        assert result.fetchall()[0] == pytest.approx(expected[0], rel=1e-12)
        (relation,) = result._query.relations.values()
        assert relation.way == (
            'the index: last("n"), stddev("x"), count(*) of 1 ranges of time; from the events: var_pop(x)'
        )
        assert [list(reading.columns) for reading in relation.readings] == [["x"]]


def test_a_selection_that_was_asked_about_before_it_was_numbered(
    store: Store, plain: duckdb.DuckDBPyConnection
) -> None:
    """The index is asked where buckets end, and does not answer in the end."""
    text = "SELECT date_trunc('minute', ts) AS m, {} AS v FROM t GROUP BY m ORDER BY m LIMIT 50"
    result = store.sql(text.format("max_by(x, ts)"))
    assert result.fetchall() == plain.sql(text.format("any_value(x ORDER BY ts DESC, n DESC)")).fetchall()
    (relation,) = result._query.relations.values()
    assert relation.way.startswith("the events")
