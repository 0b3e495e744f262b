"""CREATE, ALTER, DROP, SHOW and DESCRIBE: the same streams as by the Python API, and errors at their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import ExistsError, NotFoundError
from tidelog.sql.errors import SqlError
from tidelog.store.manifest.options import StreamOptions

COLUMNS = pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64()), ("n", pa.int32())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path / "store", maintenance="manual") as opened:
        yield opened


# -- columns ------------------------------------------------------------------------------------------------------

TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "tinyint": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "REAL": pa.float32(),
    "FLOAT8": pa.float64(),
    "DOUBLE PRECISION": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR(20)": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "NUMERIC": pa.decimal128(18, 3),
}


@pytest.mark.parametrize("type_", TYPES)
def test_types(store: Store, type_: str) -> None:
    store.sql(f"CREATE STREAM s (ts TIMESTAMP, x {type_} NOT NULL, y {type_} NULL) WITH (time = 'ts')")
    found = store.stream("s").schema.arrow
    assert found.field("x") == pa.field("x", TYPES[type_], nullable=False)
    assert found.field("y") == pa.field("y", TYPES[type_])


@pytest.mark.parametrize(
    "type_",
    [
        "HUGEINT",
        "UUID",
        "TIME",
        "INTERVAL",
        "JSON",
        "BIT",
        "INT[]",
        "STRUCT(a INT)",
        "MAP(INT, INT)",
        "ENUM('a')",
        "WHAT",
    ],
)
def test_types_that_cannot_be_stored(store: Store, type_: str) -> None:
    text = f"CREATE STREAM s (ts TIMESTAMP, x {type_})"
    with pytest.raises(SqlError) as caught:
        store.sql(text)
    assert caught.value.position == text.rindex(type_)
    assert store.streams() == []


def test_the_time_is_the_only_timestamp_unless_said(store: Store) -> None:
    store.sql("CREATE STREAM a (n INT, at TIMESTAMP)")
    assert store.stream("a").schema.time == "at"
    store.sql("CREATE STREAM b (a TIMESTAMP, b TIMESTAMP) WITH (TIME = 'B')".replace("TIME ", "time "))
    assert store.stream("b").schema.time == "b"
    store.sql('CREATE STREAM "c/1" ("my time" BIGINT, "x ""y""" INT) WITH (time = \'my time\')')
    assert store.stream("c/1").schema.names == ("my time", 'x "y"')
    for columns in ("(n INT)", "(a TIMESTAMP, b TIMESTAMP)"):
        with pytest.raises(SqlError, match="say which column"):
            store.sql(f"CREATE STREAM d {columns}")


# -- options ------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, str] = {
    "split": "'1d'",
    "split_bytes": "1000000",
    "leaf_rows": "64 * 2",
    "fanout": "8",
    "aggregates": "['x', 'n']",
    "user_aggregates": "['second_largest(x)', 'last(n)']",
    "durability": "'batch'",
    "retention": "INTERVAL 30 DAY",
    "coarse_after": "'7d'",
    "coarse_grain": "'1h'",
    "lateness": "'2h'",
    "too_late": "'aside'",
    "aside": "'other'",
    "late_rows": "1000",
    "late_bytes": "100000",
    "late_merge": "'plain'",
    "grace": "1.5",
    "journal_bytes": "100000",
}
GIVEN: dict[str, Any] = {
    "split": "1d",
    "split_bytes": 1_000_000,
    "leaf_rows": 128,
    "fanout": 8,
    "aggregates": ["x", "n"],
    "user_aggregates": ["second_largest(x)", "last(n)"],
    "durability": "batch",
    "retention": "2592000000000us",
    "coarse_after": "7d",
    "coarse_grain": "1h",
    "lateness": "2h",
    "too_late": "aside",
    "aside": "other",
    "late_rows": 1000,
    "late_bytes": 100_000,
    "late_merge": "plain",
    "grace": 1.5,
    "journal_bytes": 100_000,
}


def test_all_options(store: Store) -> None:
    assert set(OPTIONS) == set(GIVEN) == {each.name for each in fields(StreamOptions)}
    text = ", ".join(f"{name} = {value}" for name, value in reversed(OPTIONS.items()))
    store.sql(f"CREATE STREAM s (ts TIMESTAMP, x DOUBLE, n INT) WITH ({text})")
    expected = store.create_stream("t", COLUMNS, "ts", **GIVEN)
    assert store.stream("s").options == expected.options
    assert store.stream("s").schema == expected.schema
    shown = dict(store.sql("SHOW OPTIONS FROM s").fetchall())
    again = ", ".join(f"{name} = {value}" for name, value in shown.items())
    store.sql(f"CREATE STREAM u (ts TIMESTAMP, x DOUBLE, n INT) WITH ({again})")
    assert store.stream("u").options == expected.options


@pytest.mark.parametrize(
    ("options", "at", "found"),
    [
        ("splitt = '1d'", "splitt", "did you mean 'split'"),
        ("split = '1d', fanout = 1", "fanout", "expected 2 to 65536"),
        ("split = 'soon'", "split", "option split"),
        ("split = INTERVAL 1 MONTH", "INTERVAL", "months"),
        ("fanout = 'a', split = '1d'", "fanout", "expected an int"),
        ("split = '1d', split = '2d'", "split = '2d'", "twice"),
        ("aggregates = ['y']", "aggregates", "no column 'y'"),
        ("user_aggregates = ['nothing(x)']", "user_aggregates", "nothing"),
        ("too_late = 'reject'", "too_late", "no lateness"),
        ("split = n", "n)", "n"),
        ("split", ")", "expected ="),
        ("split = ", ")", "expected a value"),
        ("split = '1d' fanout = 3", "= 3", "syntax error"),
        ("", ")", "the name of an option"),
        ("time = 'nothing'", "time", "no column 'nothing'"),
        ("time = 3", "time", "expected the name of a column"),
        ("time = 'x'", "time", "float64"),
    ],
)
def test_options_that_cannot_be(store: Store, options: str, at: str, found: str) -> None:
    before = "CREATE STREAM s (ts TIMESTAMP, x DOUBLE) WITH ("
    with pytest.raises(SqlError, match=found) as caught:
        store.sql(f"{before}{options})")
    assert caught.value.position == len(before) + f"{options})".index(at)
    assert store.streams() == []


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("CREATE STREAM", 13),
        ("CREATE STREAM s", 15),
        ("CREATE STREAM s ()", 17),
        ("CREATE STREAM s (ts)", 19),
        ("CREATE STREAM s (ts TIMESTAMP", 29),
        ("CREATE STREAM s (ts TIMESTAMP,)", 30),
        ("CREATE STREAM s (ts TIMESTAMP PRIMARY KEY)", 30),
        ("CREATE STREAM s (ts TIMESTAMP, x INT DEFAULT 3)", 37),
        ("CREATE STREAM s (ts TIMESTAMP, x INT, X INT)", 38),
        ("CREATE STREAM s (ts TIMESTAMP, _seq INT)", 31),
        ('CREATE STREAM s (ts TIMESTAMP, "" INT)', 31),
        ("CREATE STREAM s (ts TIMESTAMP) AS SELECT 1", 31),
        ("CREATE STREAM s (ts TIMESTAMP) x", 31),
        ("CREATE STREAM 's' (ts TIMESTAMP)", 14),
        ("CREATE STREAM s AS SELECT x", 26),
        ("CREATE STREAM s AS SELECT 1 AS x", 19),
    ],
)
def test_what_is_wrong_is_shown_at_its_place(store: Store, text: str, position: int) -> None:
    with pytest.raises(SqlError) as caught:
        store.sql(text)
    assert caught.value.text == text
    assert caught.value.position == position
    assert store.streams() == []


# -- streams that are there -----------------------------------------------------------------------------------------


def test_a_stream_that_is_there(store: Store) -> None:
    text = "CREATE STREAM {}s (ts TIMESTAMP, x DOUBLE, n INT) WITH (split = '1d')"
    store.sql(text.format(""))
    store.sql("INSERT INTO s VALUES ('2026-01-01', 1, 2)")
    with pytest.raises(ExistsError, match=r"already; drop it.*\n  CREATE STREAM s .*\n {16}\^$"):
        store.sql(text.format(""))
    store.sql(text.format("IF NOT EXISTS "))
    store.sql(text.format("IF NOT EXISTS ").replace(" s ", " S "))
    store.sql("CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, x DOUBLE, n INT)")
    with pytest.raises(SqlError, match="other columns"):
        store.sql("CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, x DOUBLE)")
    with pytest.raises(SqlError, match="split = '1d'"):
        store.sql(text.format("IF NOT EXISTS ").replace("1d", "2d"))
    with pytest.raises(SqlError, match="would be taken for"):
        store.sql("CREATE STREAM S (ts TIMESTAMP)")
    with pytest.raises(ExistsError):
        store.sql("CREATE STREAM s AS SELECT now() AS ts")
    assert store.sql("CREATE STREAM IF NOT EXISTS s AS SELECT now() AS ts").fetchall() == [(0,)]
    assert store.streams() == ["s"]
    assert len(store.stream("s")) == 1
    store.sql("CREATE STREAM other (ts TIMESTAMP)")
    told = r"there is a stream 's' already; drop it, or choose another name\n  ALTER .*\n {31}\^$"
    with pytest.raises(ExistsError, match=told):
        store.sql("ALTER STREAM other RENAME TO s")


# -- of what is selected --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 10, 100_000])
def test_a_stream_of_what_is_selected(store: Store, rows: int) -> None:
    select = (
        f"SELECT TIMESTAMP '2026-01-01' + to_seconds(range) AS ts, range % 7 AS k, 'a' || range AS t FROM range({rows})"
    )
    assert store.sql(f"CREATE STREAM s WITH (split = '1h') AS {select}").fetchall() == [(rows,)]
    with duckdb.connect() as plain:
        plain.execute(f"CREATE TABLE s AS {select}")
        question = "SELECT count(*), sum(k), max(t), min(ts) FROM s"
        assert store.sql(question).fetchall() == plain.sql(question).fetchall()
        described = [(name, type_) for name, type_, *_ in plain.sql("DESCRIBE s").fetchall()]
    assert [(name, type_) for name, type_, *_ in store.sql("DESCRIBE s").fetchall()] == described
    assert store.stream("s").options.split == "1h"
    store.sql("INSERT INTO s FROM s")
    assert len(store.stream("s")) == 2 * rows
    assert store.check() == []


@pytest.mark.parametrize(
    ("select", "found"),
    [
        ("SELECT now() AS ts, sum(n) AS total FROM range(3) t(n)", "column 'total': type HUGEINT"),
        ("SELECT now() AS ts, uuid() AS u", "column 'u': type UUID"),
        ("SELECT now() AS ts, [1] AS l", "column 'l'"),
        ("SELECT now() AS ts, 1 AS x, 2 AS x", "both called 'x'"),
        ("SELECT NULL::TIMESTAMP AS ts, 1 AS x", "null"),
        ("SELECT now() AS ts, if(range = 99999, error('too much'), 1) AS x FROM range(100000)", "too much"),
    ],
)
def test_nothing_is_left_of_what_cannot_be_created(store: Store, select: str, found: str) -> None:
    with pytest.raises(tidelog.TidelogError, match=found):
        store.sql(f"CREATE STREAM s AS {select}")
    assert store.streams() == []
    assert store.orphans() == []


def test_rows_selected_have_no_order_of_arrival(store: Store) -> None:
    with pytest.raises(SqlError, match="create the stream first"):
        store.sql("CREATE STREAM s WITH (lateness = '1h', too_late = 'reject') AS SELECT now() AS ts")


# -- changes ----------------------------------------------------------------------------------------------------------


def test_changes_are_those_of_the_python_interface(store: Store) -> None:
    rows = {"ts": ["2026-01-01"], "x": [1.0], "n": [2]}
    for name in ("s", "t"):
        store.create_stream(name, COLUMNS, "ts", data=rows, split="1d", aggregates=["x"])
    other = store.stream("t")

    def same() -> None:
        assert store.stream("s").schema == other.schema
        assert store.stream("s").options == other.options
        assert store.sql("SELECT * FROM s").fetchall() == store.sql("SELECT * FROM t").fetchall()

    store.sql("ALTER STREAM s ADD COLUMN c VARCHAR; ALTER STREAM S ADD d DECIMAL(5, 1)")
    other.evolve(add={"c": pa.string(), "d": pa.decimal128(5, 1)})
    same()
    store.sql("ALTER STREAM s ADD COLUMN IF NOT EXISTS c VARCHAR")
    store.sql("ALTER STREAM s ALTER COLUMN n SET DATA TYPE BIGINT; ALTER STREAM s ALTER d TYPE DECIMAL(8, 1)")
    other.evolve(widen={"n": pa.int64(), "d": pa.decimal128(8, 1)})
    same()
    store.sql('ALTER STREAM s RENAME COLUMN x TO "X y"; ALTER STREAM s RENAME c TO e')
    other.evolve(rename={"x": "X y", "c": "e"})
    same()
    store.sql("ALTER STREAM s SET (retention = '7d', grace = 3)")
    other.configure(retention="7d", grace=3)
    same()
    store.sql("ALTER STREAM s ADD AGGREGATE 'second_largest(n)', 'last(n)'; ALTER STREAM s DROP AGGREGATE 'last(n)'")
    other.attach("second_largest(n)")
    same()
    store.sql("INSERT INTO s BY NAME SELECT now() AS ts, 'z' AS e")
    assert store.sql('ALTER STREAM s RENAME TO "u/1"').fetchall() == [("u/1",)]
    assert store.streams() == ["t", "u/1"]
    assert store.sql('SELECT count(*) FROM "u/1"').fetchall() == [(2,)]


def test_columns_may_have_nulls_from_now_on(store: Store) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, x INT NOT NULL); ALTER STREAM s ALTER COLUMN x DROP NOT NULL")
    store.sql("INSERT INTO s (ts) VALUES ('2026-01-01')")
    assert store.sql("SELECT x FROM s").fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("ALTER STREAM nowhere RENAME TO t", 13),
        ("ALTER STREAM s", 14),
        ("ALTER STREAM s ADD COLUMN", 25),
        ("ALTER STREAM s ADD COLUMN n INT", 26),
        ("ALTER STREAM s ADD COLUMN y INT NOT NULL", 32),
        ("ALTER STREAM s ADD COLUMN y UUID", 28),
        ("ALTER STREAM s ADD COLUMN _seq INT", 26),
        ("ALTER STREAM s DROP COLUMN n", 15),
        ("ALTER STREAM s ALTER COLUMN y TYPE INT", 28),
        ("ALTER STREAM s ALTER COLUMN n TYPE SMALLINT", 35),
        ("ALTER STREAM s ALTER COLUMN n TYPE BIGINT USING n + 1", 42),
        ("ALTER STREAM s ALTER COLUMN ts TYPE DATE", 36),
        ("ALTER STREAM s ALTER COLUMN n SET NOT NULL", 30),
        ("ALTER STREAM s RENAME COLUMN y TO z", 29),
        ("ALTER STREAM s RENAME COLUMN n TO x", 29),
        ("ALTER STREAM s RENAME TO", 24),
        ("ALTER STREAM s RENAME TO T", 25),
        ("ALTER STREAM s SET (split = '2d')", 20),
        ("ALTER STREAM s SET (grace = 3, retention = 'x')", 31),
        ("ALTER STREAM s SET grace = 3", 19),
        ("ALTER STREAM s ADD AGGREGATE 3", 29),
        ("DROP STREAM nowhere", 12),
        ("DROP STREAM s t", 14),
        ("DROP STREAM", 11),
        ("SHOW OPTIONS FROM nowhere", 18),
    ],
)
def test_changes_that_cannot_be(store: Store, text: str, position: int) -> None:
    store.create_stream("s", COLUMNS, "ts")
    store.create_stream("t", COLUMNS, "ts")
    before = store.stream("s").schema, store.stream("s").options
    with pytest.raises(SqlError) as caught:
        store.sql(text)
    assert caught.value.text == text
    assert caught.value.position == position
    assert (store.stream("s").schema, store.stream("s").options) == before
    assert store.streams() == ["s", "t"]


def test_aggregates_that_cannot_be(store: Store) -> None:
    store.create_stream("s", COLUMNS, "ts")
    for text in ("ADD AGGREGATE 'nothing(x)'", "ADD AGGREGATE 'last(y)'", "DROP AGGREGATE 'last(x)'"):
        with pytest.raises(tidelog.TidelogError):
            store.sql(f"ALTER STREAM s {text}")
    assert store.stream("s").options.user_aggregates == ()


def test_streams_are_dropped(store: Store) -> None:
    store.sql('CREATE STREAM s (ts TIMESTAMP); CREATE STREAM "t/1" (ts TIMESTAMP)')
    assert store.sql("SHOW STREAMS").fetchall() == [("s",), ("t/1",)]
    store.sql('DROP STREAM S; DROP STREAM IF EXISTS "t/1"; DROP STREAM IF EXISTS "t/1"')
    assert store.sql("SHOW STREAMS").fetchall() == []
    with pytest.raises(NotFoundError):
        store.stream("s")
    store.sql("CREATE STREAM s (at TIMESTAMP)")
    assert store.stream("s").schema.time == "at"


# -- what there is ----------------------------------------------------------------------------------------------------


def test_descriptions(store: Store) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, x DOUBLE NOT NULL, t VARCHAR) WITH (split = '1d', retention = '7d')")
    store.sql("INSERT INTO s VALUES ('2026-01-01', 1, 'a'), ('2026-01-02', 3, NULL)")
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE s (ts TIMESTAMP NOT NULL, x DOUBLE NOT NULL, t VARCHAR)")
        plain.execute("INSERT INTO s VALUES ('2026-01-01', 1, 'a'), ('2026-01-02', 3, NULL)")
        described, summarized = plain.sql("DESCRIBE s"), plain.sql("SUMMARIZE s")
        expected = [list(row) for row in described.fetchall()]
        expected[0][3] = "time"
        expected[0][5] = "split = '1d', retention = '7d'"
        found = store.sql("DESCRIBE s")
        assert found.columns == described.columns
        assert [list(row) for row in found.fetchall()] == expected
        assert store.sql("desc S").fetchall() == found.fetchall()
        assert store.sql("SUMMARIZE s").fetchall() == summarized.fetchall()
        text = "DESCRIBE SELECT x + 1 AS y FROM s"
        assert store.sql(text).fetchall() == plain.sql(text).fetchall()
    with pytest.raises(SqlError, match="no stream or table 'nowhere'"):
        store.sql("DESCRIBE nowhere")


def test_rows_that_a_stream_refuses_are_told_at_their_place(store: Store) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, x DOUBLE NOT NULL)")
    with pytest.raises(SqlError, match=r"(?s)'x'.*null.*\n  INSERT INTO s VALUES .*\n {16}\^$"):
        store.sql("INSERT INTO s VALUES ('2026-01-01', 1), ('2026-01-02', NULL)")
    assert len(store.stream("s")) == 0
