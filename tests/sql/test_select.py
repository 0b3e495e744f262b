"""Statements that select: names, parameters, tables, the past, and what results can be fetched as."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import ClosedError, InputError
from tidelog.sql.errors import SqlError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("site", pa.string()), ("celsius", pa.float64()), ("n", pa.int64())])
ROWS = {
    "ts": ["2026-01-01 08:00", "2026-01-01 09:00", "2026-01-02 08:00", "2026-01-03 10:00"],
    "site": ["north", "south", "north", None],
    "celsius": [20.5, 21.25, 19.0, float("nan")],
    "n": [1, 2, None, 4],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("sql"), maintenance="manual") as opened:
        opened.create_stream("sensors", SCHEMA, "ts", data=ROWS)
        opened.create_stream("sensors/1", SCHEMA, "ts", data=ROWS)
        opened.create_stream("Upper", SCHEMA, "ts", data=ROWS)
        opened.create_stream("empty", SCHEMA, "ts")
        yield opened


def plain(text: str) -> list[tuple[object, ...]]:
    """What DuckDB says of the same rows in a table."""
    table = pa.table([pa.array(ROWS["ts"]).cast(SCHEMA.field(0).type), *list(ROWS.values())[1:]], schema=SCHEMA)
    with duckdb.connect() as connection:
        connection.register("sensors", table)
        return connection.sql(text).fetchall()


QUERIES = [
    "SELECT * FROM sensors ORDER BY ts",
    "FROM sensors SELECT site, n ORDER BY ts DESC LIMIT 2",
    "SELECT site, count(*), sum(n), avg(n) FROM sensors GROUP BY ALL ORDER BY ALL",
    "WITH c AS (SELECT * FROM sensors WHERE n > 1) SELECT count(*) FROM c",
    "WITH sensors AS (SELECT 7 AS seven) SELECT * FROM sensors",
    "WITH a AS (SELECT max(n) AS m FROM sensors), b AS (SELECT m + 1 AS m FROM a) SELECT m FROM b",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT sum(i) FROM r",
    "SELECT a.n, b.n FROM sensors a JOIN sensors b ON a.site = b.site AND a.n < b.ts.day() ORDER BY ALL",
    "SELECT * FROM sensors WHERE celsius > 20 ORDER BY ts",
    "SELECT n FROM sensors WHERE celsius > 20 AND site IS NOT NULL ORDER BY ts",
    "SELECT n FROM sensors WHERE site IN ('north', 'west') OR n = 4 ORDER BY ts",
    "SELECT n FROM sensors WHERE site IS NULL OR ts < TIMESTAMP '2026-01-01 08:30' ORDER BY ts",
    "SELECT n FROM sensors WHERE date_trunc('day', ts) = DATE '2026-01-01' ORDER BY ts",
    "SELECT n FROM sensors WHERE NOT (n BETWEEN 2 AND 3) ORDER BY ts",
    "SELECT row_number() OVER (ORDER BY ts) AS r, n FROM sensors QUALIFY r > 2 ORDER BY r",
    "SELECT (SELECT max(n) FROM sensors s WHERE s.site = t.site) FROM sensors t ORDER BY t.ts",
    "SELECT n FROM sensors UNION ALL SELECT n + 10 FROM sensors ORDER BY ALL",
    "SELECT count(*) FROM sensors, range(3)",
    "SELECT unnest([1, 2]) AS u, n FROM sensors WHERE n < 3 ORDER BY ALL",
    "SELECT count(*) FILTER (WHERE n > 1), first(n ORDER BY ts), list(n ORDER BY ts) FROM sensors",
    "SELECT a.ts, b.n FROM sensors a ASOF JOIN sensors b ON a.ts > b.ts ORDER BY a.ts",
    "SELECT * EXCLUDE (ts) REPLACE (n * 2 AS n) FROM sensors ORDER BY ts",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT 1 WHERE EXISTS (FROM sensors)",
    "SELECT [n FOR n IN [1, 2, 3] IF n > 1], [celsius + 1 FOR celsius IN [n]] FROM sensors ORDER BY ts",
]


@pytest.mark.parametrize("text", QUERIES)
def test_the_same_rows_as_in_a_table_of_duckdb(store: Store, text: str) -> None:
    assert repr(store.sql(text).fetchall()) == repr(plain(text))


def test_a_stream_that_has_no_plain_name_is_quoted(store: Store) -> None:
    assert store.sql('SELECT count(*) FROM "sensors/1"').fetchone() == (4,)
    assert store.sql('SELECT "sensors/1".n FROM "sensors/1" ORDER BY ts LIMIT 1').fetchone() == (1,)


def test_names_are_found_in_any_case_unless_two_differ_by_it(store: Store, tmp_path: Path) -> None:
    assert store.sql("SELECT count(*) FROM SENSORS").fetchone() == (4,)
    assert store.sql("SELECT upper.n FROM upper ORDER BY ts LIMIT 1").fetchone() == (1,)
    with tidelog.open(tmp_path) as other:
        other.create_stream("a", SCHEMA, "ts", data=ROWS)
        other.create_stream("A", SCHEMA, "ts")
        assert other.sql('SELECT (SELECT count(*) FROM "a"), (SELECT count(*) FROM "A")').fetchone() == (4, 0)
        other.create_stream("Bb", SCHEMA, "ts")
        other.create_stream("bB", SCHEMA, "ts")
        with pytest.raises(SqlError, match="no stream or table 'bb'"):
            other.sql("SELECT * FROM bb")


def test_an_empty_stream(store: Store) -> None:
    assert store.sql("SELECT * FROM empty").fetchall() == []
    assert store.sql("SELECT count(*), sum(n) FROM empty").fetchone() == (0, None)
    assert store.sql("SELECT * FROM empty").schema.names == SCHEMA.names


def test_the_order_of_arrival_is_there_when_it_is_named(store: Store) -> None:
    assert store.sql("SELECT * FROM sensors").columns == SCHEMA.names
    assert store.sql("SELECT *, _seq FROM sensors").columns == [*SCHEMA.names, "_seq"]
    assert store.sql("SELECT s.*, s._seq + 1 AS next FROM sensors s").columns == [*SCHEMA.names, "next"]
    assert store.sql("SELECT n FROM sensors WHERE _seq = 2").fetchall() == [(None,)]
    assert store.sql("SELECT * FROM (SELECT n, _seq FROM sensors)").columns == ["n", "_seq"]
    joined = store.sql("SELECT * FROM sensors a JOIN sensors b ON a._seq = b._seq")
    assert joined.columns == [*SCHEMA.names, *SCHEMA.names]


def test_the_order_of_arrival_is_in_nothing_that_does_not_name_it(store: Store) -> None:
    assert store.sql("SELECT max(COLUMNS(*)) FROM sensors WHERE _seq >= 0").columns == SCHEMA.names
    joined = store.sql("SELECT * FROM sensors a JOIN sensors b USING (_seq)")
    assert joined.columns == [*SCHEMA.names, *SCHEMA.names]
    assert len(joined.fetchall()) == 4
    for text in (
        "SELECT s FROM sensors s WHERE _seq = 1",
        "SELECT COLUMNS('.*') FROM sensors WHERE _seq = 1",
        "SELECT count(*) FROM sensors a NATURAL JOIN sensors b WHERE a._seq = 1",
    ):
        with pytest.raises(SqlError, match="names _seq, which would be part of it"):
            store.sql(text)
    assert store.sql("SELECT n FROM (SELECT n, _seq FROM sensors) n ORDER BY _seq LIMIT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("SELECT (SELECT max(n) FROM sensors), EXISTS (FROM sensors), 1 + 1", None),
        ("SELECT ?, n + ? FROM sensors", [1, 2]),
        ("SELECT $a, abs($a) AS b FROM sensors", {"a": 1}),
        ("SELECT * FROM (SELECT (SELECT count(*) FROM sensors))", None),
        ("SELECT now() IS NULL, current_date IS NULL, localtimestamp IS NULL", None),
        ("SELECT n, n, site AS n FROM sensors", None),
        ("SELECT [n FOR n IN [1, 2, 3] IF n > 1] FROM sensors", None),
    ],
)
def test_columns_without_a_name_are_called_as_in_duckdb(store: Store, text: str, params: object) -> None:
    with duckdb.connect() as connection:
        connection.register("sensors", SCHEMA.empty_table())
        assert store.sql(text, params).columns == connection.sql(text, params=params).columns


def test_the_past(store: Store) -> None:
    text = "SELECT count(*) FROM sensors"
    assert store.sql(f"{text} AT (VERSION => 2)").fetchone() == (2,)
    assert store.sql(text, as_of=3).fetchone() == (3,)
    both = "SELECT (SELECT count(*) FROM sensors AT (VERSION => 1)), (SELECT count(*) FROM sensors)"
    assert store.sql(both).fetchone() == (1, 4)
    with pytest.raises(SqlError, match="expected AT"):
        store.sql("SELECT * FROM sensors AT (TIMESTAMP => '2026-01-01')")


def test_parameters(store: Store) -> None:
    text = "SELECT n FROM sensors WHERE ts >= {} AND n < {} ORDER BY ts"
    day = datetime.datetime(2026, 1, 1, 9)
    assert store.sql(text.format("?", "?"), [day, 4]).fetchall() == [(2,)]
    assert store.sql(text.format("$day", "$most"), {"day": "2026-01-01 09:00", "most": 4.5}).fetchall() == [(2,), (4,)]
    assert store.sql("SELECT n FROM sensors WHERE list_contains(?, n)", [[1, 4]]).fetchall() == [(1,), (4,)]
    assert store.sql("SELECT n FROM sensors ORDER BY ts LIMIT ?", [2]).fetchall() == [(1,), (2,)]


@pytest.mark.parametrize(
    ("params", "found"),
    [(None, "found parameters none"), ([1, 2], "number 1, number 2"), ({"x": 1}, r"\$x"), ("ab", "a list for")],
)
def test_parameters_that_do_not_fit(store: Store, params: object, found: str) -> None:
    with pytest.raises(InputError, match=found):
        store.sql("SELECT ?", params)


VALUES = [
    None,
    True,
    -7,
    10**30,
    1.5,
    -0.0,
    1e300,
    float("inf"),
    "it's",
    'a "b"',
    "",
    b"\x00\xff'",
    datetime.datetime(2026, 1, 2, 3, 4, 5, 678),
    datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    datetime.date(1999, 12, 31),
    datetime.time(1, 2, 3),
    datetime.timedelta(days=-3, seconds=5),
    [1, None, 3],
    {"a": 1, "b": "x"},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_parameters_mean_what_they_mean_to_duckdb(value: object) -> None:
    (found,) = tidelog.sql("SELECT ?", [value]).fetchall()[0]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        (expected,) = connection.execute("SELECT ?", [value]).fetchall()[0]
    assert found == expected or repr(found) == repr(expected)


def test_tables_of_all_kinds(store: Store) -> None:
    columns = {"site": ["north", "south"], "city": ["Kiel", "Ulm"]}
    kinds = {
        "arrow": pa.table(columns),
        "batch": pa.record_batch(columns),
        "reader": pa.table(columns).to_reader(),
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "result": tidelog.sql("SELECT * FROM t", tables={"t": pa.table(columns)}),
        "dict": columns,
        "rows": [{"site": "north", "city": "Kiel"}, {"site": "south", "city": "Ulm"}],
    }
    for name, table in kinds.items():
        result = store.sql(
            f"SELECT city, count(*) FROM sensors JOIN {name} USING (site) GROUP BY city ORDER BY city",
            tables={name: table},
        )
        assert result.fetchall() == result.fetchall() == [("Kiel", 2), ("Ulm", 1)], name
    with pytest.raises(InputError, match="expected an Arrow, pandas or Polars table"):
        store.sql("SELECT * FROM t", tables={"t": 7})
    for nothing in ({}, [], pd.DataFrame(), pa.table({})):
        with pytest.raises(InputError, match="table 't' has no columns"):
            store.sql("SELECT 1 FROM t", tables={"t": nothing})


def test_whatever_tells_the_time_tells_that_of_the_call() -> None:
    text = "SELECT now(), today(), current_timestamp, current_date, current_time, localtime, localtimestamp"
    result = tidelog.sql(text, timezone="Asia/Kolkata")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        plain = connection.sql(text)
        types, names = plain.to_arrow_table().schema.types, plain.columns
    assert result.arrow() == result.arrow()
    assert (result.schema.types, result.columns) == (types, names)
    row = result.fetchone()
    assert row is not None
    assert row[0].astimezone(datetime.timezone(datetime.timedelta(minutes=330))).replace(tzinfo=None) == row[6]
    named = {"t": pa.table({"localtime": [1, 2]})}
    assert tidelog.sql("SELECT localtime + 1 FROM t", tables=named).fetchall() == [(2,), (3,)]


def test_a_result_is_of_the_moment_of_the_call(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts", data=ROWS)
        before = store.sql("SELECT count(*), now() FROM s")
        first = before.fetchone()
        stream.append(ROWS)
        assert before.fetchone() == first
        assert first is not None
        assert first[0] == 4
        assert store.sql("SELECT count(*) FROM s").fetchone() == (8,)


def test_what_a_result_can_be_fetched_as(store: Store) -> None:
    result = store.sql("SELECT site, n FROM sensors WHERE n < 3 ORDER BY n")
    expected = pa.table({"site": ["north", "south"], "n": [1, 2]})
    assert result.arrow() == expected
    assert result.reader().read_all() == expected
    assert [batch.num_rows for batch in result.reader(1)] == [1, 1]
    for rows in (0, -1, "many", True):
        with pytest.raises(InputError, match="for batch_rows; expected an integer from 1 on"):
            result.reader(rows)  # type: ignore[arg-type]
    assert pa.table(result) == expected
    assert result.schema == expected.schema
    assert result.columns == ["site", "n"]
    assert result.fetchone() == ("north", 1)
    assert result.df().to_dict("list") == expected.to_pydict()
    assert result.pl().to_dict(as_series=False) == expected.to_pydict()
    assert "north" in str(result)
    assert "<td>north</td>" in result._repr_html_()


def test_lengths_of_time_in_polars(store: Store) -> None:
    text = "SELECT n, ts - lag(ts) OVER (ORDER BY ts) AS gap, INTERVAL '-2 months 1 day' AS i FROM sensors ORDER BY ts"
    found = store.sql(text).pl()
    assert found.schema["gap"] == found.schema["i"] == pl.Duration("us")
    assert found.rows() == store.sql(text).fetchall()
    assert store.sql(f"FROM ({text}) WHERE n > 9").pl().rows() == []


def test_html_of_values_is_escaped(store: Store) -> None:
    assert "<td>&lt;b&gt;</td>" in store.sql("SELECT '<b>' AS \"<i>\"")._repr_html_()


@pytest.mark.parametrize(("rows", "told"), [(40, "40 rows"), (41, "41 rows"), (5000, "5000 rows")])
def test_a_result_that_is_shown_in_part_says_so(store: Store, rows: int, told: str) -> None:
    result = store.sql(f"SELECT range AS n FROM range({rows})")
    assert told in str(result)
    html = result._repr_html_()
    assert html.count("<tr>") == 1 + 40
    assert html.endswith("<p>the first 40 rows; there are more</p>") == (rows > 40)


@pytest.mark.parametrize(("package", "method"), [("pandas", "df"), ("polars", "pl")])
def test_a_frame_needs_its_package(store: Store, package: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = store.sql("SELECT 1")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"found no {package} .* install it with `pip install {package}`"):
        getattr(result, method)()


def test_several_statements_give_the_last_result(store: Store) -> None:
    assert store.sql("SELECT 1; SELECT 'a;b' AS t -- ;\n;").fetchall() == [("a;b",)]
    with pytest.raises(SqlError, match="found no statement"):
        store.sql(" ; -- nothing")


def test_time_zones(tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    with tidelog.open(tmp_path) as store:
        store.create_stream(
            "s", schema, "ts", data={"ts": ["2026-01-01T23:30:00Z", "2026-01-02T00:30:00Z"], "n": [1, 2]}
        )
        text = "SELECT count(*) FROM s WHERE ts >= '2026-01-02'"
        assert store.sql(text).fetchone() == (1,)
        assert store.sql(text, timezone="Europe/Berlin").fetchone() == (2,)
        with pytest.raises(InputError, match="found timezone 'Mars/Base'"):
            store.sql(text, timezone="Mars/Base")


def test_errors_show_the_place(store: Store) -> None:
    with pytest.raises(SqlError, match="did you mean 'sensors'") as caught:
        store.sql("SELECT *\nFROM sensor")
    assert caught.value.position == 14
    assert str(caught.value).endswith("  FROM sensor\n       ^")
    with pytest.raises(SqlError, match="syntax error") as caught:
        store.sql("SELECT é, 1 1 FROM sensors")
    assert caught.value.position == 12


PLACES = {
    "SELECT n, prce FROM sensors": "prce",
    "SELECT sensors.prce FROM sensors": "sensors.prce",
    "SELECT other.n FROM sensors": "other.n",
    "SELECT 1, foo(n) FROM sensors": "foo",
    "SELECT n, sum(site) FROM sensors": "sum",
    "SELECT n FROM sensors GROUP BY site": "n FROM",
    "SELECT 'a'::INTEGER": "'a'",
    "SELECT date_trunc('foo', ts) FROM sensors": "'foo'",
}


@pytest.mark.parametrize("text", PLACES)
def test_what_duckdb_finds_is_shown_in_its_place(store: Store, text: str) -> None:
    with pytest.raises(SqlError) as caught:
        store.sql(text).fetchall()
    assert caught.value.position == text.index(PLACES[text])


def test_queries_change_nothing(store: Store) -> None:
    for inner in ("INSERT INTO sensors VALUES (1)", "DELETE FROM sensors", "UPDATE sensors SET n = 1"):
        with pytest.raises(SqlError, match=f"found {inner.split()[0]} inside of a query"):
            store.sql(f"WITH changed AS ({inner} RETURNING *) FROM changed")
    with pytest.raises(SqlError, match="PIVOT without the values"):
        store.sql("PIVOT sensors ON site USING sum(n)")


def test_a_closed_store_answers_no_more(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path)
    result = store.sql("SELECT 1")
    store.close()
    with pytest.raises(ClosedError):
        result.fetchall()
    with pytest.raises(ClosedError):
        store.sql("SELECT 1")


def test_an_error_that_ends_duckdb_is_one_of_the_statement_alone(tmp_path: Path) -> None:
    """A moment of a year that texts of DuckDB do not have, for which it refuses everything from then on."""
    rows = pa.table({"ts": pa.array([5, 1_767_225_600_000_000], pa.timestamp("s")), "n": [1, 2]})
    with tidelog.open(tmp_path) as store:
        store.create_stream("far", time="ts", data=rows)
        before = store.sql("SELECT sum(n) OVER (ORDER BY n) FROM far ORDER BY n")
        for text in ("SELECT ts::VARCHAR FROM far", "INSERT INTO far SELECT ts, length(ts::VARCHAR) FROM far"):
            with pytest.raises(SqlError) as caught:
                store.sql(text).fetchall()
            assert "Trace" not in str(caught.value)
            assert before.fetchall() == [(1,), (3,)]
        assert store.sql("SELECT ts::VARCHAR FROM far WHERE n = 1").fetchall() == [("1970-01-01 00:00:05",)]


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    import subprocess
    import sys

    text = "import sys, tidelog; tidelog.sql; print([m for m in ('duckdb', 'pyarrow.dataset') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", text], text=True).strip() == "[]"


def test_conditions_on_times_of_a_zone_that_a_scan_reads(tmp_path: Path) -> None:
    """What reads a stream runs in threads of DuckDB's, and may ask another DuckDB what a constant means."""
    times = pa.array(np.arange(1000) * 10**9, pa.timestamp("us", "UTC"))
    with tidelog.open(tmp_path) as other:
        other.create_stream("z", time="ts", data=pa.table({"ts": times, "n": np.arange(1000)})).flush()
        for _ in range(20):
            assert len(other.sql("SELECT n FROM z WHERE ts >= '1970-01-02'").fetchall()) == 913


def test_a_condition_of_two_columns_of_which_one_decides(tmp_path: Path) -> None:
    rows = pa.table(
        {"ts": list(range(500)), "k": [each % 7 for each in range(500)], "x": [float(each % 5) for each in range(500)]}
    )
    with tidelog.open(tmp_path / "store", maintenance="manual") as store:
        store.create_stream("t", time="ts", data=rows, leaf_rows=50)
        for condition in ("NOT (k > 2 AND ts > NULL)", "NOT (x > 2.5 AND ts > NULL)", "x <= 2.5 OR k > NULL"):
            text = f"SELECT * FROM {{}} WHERE {condition} ORDER BY ts"
            expected = duckdb.connect().from_arrow(rows).query("t", text.format("t")).fetchall()
            assert store.sql(text.format("t")).fetchall() == expected
