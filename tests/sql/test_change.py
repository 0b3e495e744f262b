"""INSERT and DELETE: what DuckDB would make of values, whole or not at all, and durable on return."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidelog
from support.media.crash import RecordingMedium, kills, power_losses
from tidelog.engine import sql as engine_sql
from tidelog.engine.store import Store
from tidelog.model.errors import InputError, LockedError, ReadOnlyError, TidelogError
from tidelog.sql.errors import SqlError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64()), ("name", pa.string())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path / "store", maintenance="manual") as opened:
        yield opened


# -- values -------------------------------------------------------------------------------------------------------

TYPES = ["BOOLEAN", "TINYINT", "INTEGER", "BIGINT", "UINTEGER", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "DATE"]
TYPES += ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMPTZ", "DECIMAL(6,2)"]
VALUES = ["NULL", "1", "-1", "300", "1.5", "2.675", "1e300", "'7'", "' 8 '", "'abc'", "true", "DATE '2026-02-03'"]
VALUES += ["TIMESTAMP '2026-02-03 04:05:06.789012'", "'2026-02-03 04:05:06.7'", "TIMESTAMPTZ '2026-02-03 04:05+02'"]
VALUES += ["'nan'::DOUBLE", "'\\x41'::BLOB", "INTERVAL 1 DAY", "[1]", "DEFAULT", "1::HUGEINT << 100"]


@pytest.mark.parametrize("type_", TYPES)
def test_values_become_what_duckdb_makes_of_them(store: Store, type_: str) -> None:
    columns = f"(ts TIMESTAMP, x {type_})"
    with duckdb.connect() as plain:
        plain.execute("SET TimeZone = 'UTC'")
        plain.execute(f"CREATE TABLE s {columns}")
        store.sql(f"CREATE STREAM s {columns} WITH (time = 'ts')")
        for number, value in enumerate(VALUES):
            text = f"INSERT INTO s VALUES (TIMESTAMP '2026-01-01' + INTERVAL {number} SECOND, {value})"
            try:
                plain.execute(text)
                fits = True
            except duckdb.Error:
                fits = False
            if fits:
                assert store.sql(text).fetchall() == [(1,)], value
            else:
                with pytest.raises(SqlError):
                    store.sql(text)
        question = "SELECT epoch_us(ts), x FROM s ORDER BY ts"
        assert repr(store.sql(question).fetchall()) == repr(plain.sql(question).fetchall())


FORMS = [
    "INSERT INTO s VALUES ('2026-01-01', 1, 'a'), ('2026-01-02', '2.5', 3), (DATE '2026-01-03', NULL, true)",
    "INSERT INTO s (name, ts) VALUES ('b', '2026-01-01'), (7.5, '2026-01-02')",
    "INSERT INTO s (ts, x) SELECT TIMESTAMP '2026-01-01' + to_days(range::INT), range FROM range(5)",
    "INSERT INTO s BY NAME SELECT 4 AS x, DATE '2026-01-01' AS ts",
    "INSERT INTO s BY POSITION SELECT '2026-01-01', 3, NULL",
    "INSERT INTO s FROM (VALUES ('2026-01-01'::TIMESTAMP, 1, 'z')) t",
    "INSERT INTO s (SELECT '2026-01-01', 1, 'q')",
    "INSERT INTO s WITH c AS (SELECT 1 AS one) SELECT '2026-01-01', one, one FROM c",
    "INSERT INTO s VALUES ('2026-01-01', DEFAULT, DEFAULT)",
    "INSERT INTO s SELECT '2026-01-01', NULL, NULL WHERE false",
    "INSERT INTO s SELECT '2026-01-01', 1, 'a' UNION ALL SELECT '2026-01-02', 2, 'b'",
]


@pytest.mark.parametrize("text", FORMS)
def test_forms(store: Store, text: str) -> None:
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE s (ts TIMESTAMP, x DOUBLE, name VARCHAR)")
        count = plain.execute(text).fetchall()
        store.create_stream("s", SCHEMA, "ts")
        assert store.sql(text).fetchall() == count
        question = "SELECT * FROM s ORDER BY ALL"
        assert store.sql(question).fetchall() == plain.sql(question).fetchall()


WRONG = [
    ("INSERT INTO s VALUES ('2026-01-01', 1)", None),
    ("INSERT INTO s VALUES ('2026-01-01', 1, 'a', 2)", None),
    ("INSERT INTO s (ts, y) VALUES ('2026-01-01', 1)", 19),
    ("INSERT INTO s (ts, ts) VALUES ('2026-01-01', 1)", 19),
    ("INSERT INTO t VALUES (1)", 12),
    ("INSERT INTO s", 13),
    ("INSERT INTO s SET x = 1", 14),
    ("INSERT INTO s SELECT nothing", 21),
    ("INSERT INTO s SELECT * FROM nowhere", 28),
    ("INSERT INTO s VALUES (1, 2", None),
]


@pytest.mark.parametrize(("text", "position"), WRONG)
def test_what_is_wrong_is_shown_at_its_place(store: Store, text: str, position: int | None) -> None:
    store.create_stream("s", SCHEMA, "ts")
    with pytest.raises(SqlError) as caught:
        store.sql(text)
    assert caught.value.text == text
    assert position is None or caught.value.position == position
    assert len(store.stream("s")) == 0


def test_what_append_would_refuse_is_refused(store: Store) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, x DOUBLE NOT NULL)")
    with pytest.raises(InputError, match="not nullable"):
        store.sql("INSERT INTO s (ts) VALUES ('2026-01-01')")
    with pytest.raises(InputError, match="not nullable"):
        store.sql("INSERT INTO s (x) VALUES (1)")
    assert len(store.stream("s")) == 0


def test_times_of_other_zones_are_the_same_moments(store: Store) -> None:
    schema = pa.schema([("ts", pa.timestamp("ns", "Europe/Berlin")), ("n", pa.int64())])
    store.create_stream("s", schema, "ts")
    store.sql("INSERT INTO s VALUES (TIMESTAMPTZ '2026-07-01 12:00:00+00', 1)", timezone="America/New_York")
    store.sql("INSERT INTO s VALUES ('2026-07-01 12:00:00', 2)", timezone="America/New_York")
    (table,) = [store.stream("s").scan().read_all()]
    moments = [each.value for each in table.column("ts").to_pandas()]
    noon = int(datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC).timestamp()) * 10**9
    assert moments == [noon, noon + 4 * 3600 * 10**9]


# -- whole or not at all ------------------------------------------------------------------------------------------

MANY = 200_000


@pytest.mark.parametrize("rows", [10, MANY])
def test_few_rows_and_many(store: Store, rows: int) -> None:
    stream = store.create_stream("s", SCHEMA, "ts")
    stream.append({"ts": ["2025-01-01"], "x": [0.0], "name": ["first"]})
    select = f"SELECT TIMESTAMP '2026-01-01' + to_seconds(range), range / 2, 'n' || range FROM range({rows})"
    assert store.sql(f"INSERT INTO s {select}").fetchone() == (rows,)
    stream.append({"ts": ["2027-01-01"], "x": [0.0], "name": ["last"]})
    with duckdb.connect() as plain:
        expected = plain.sql(
            f"SELECT count(*) + 2, sum(x), greatest(max(name), 'n') FROM ({select}) t(ts, x, name)"
        ).fetchall()
    assert (
        store.sql("SELECT count(*), sum(x), greatest(max(name) FILTER (name <> 'last'), 'n') FROM s").fetchall()
        == expected
    )
    assert store.sql("SELECT count(DISTINCT _seq) FROM s").fetchone() == (rows + 2,)
    stream.flush()
    assert store.check() == []


@pytest.mark.parametrize("rows", [10, MANY])
def test_nothing_is_stored_if_one_row_does_not_fit(store: Store, rows: int) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, x INTEGER NOT NULL)")
    store.sql("INSERT INTO s VALUES ('2026-01-01', 1)")
    moments = "TIMESTAMP '2026-01-01' + to_seconds(range)"
    with pytest.raises(SqlError, match="Could not convert"):
        store.sql(f"INSERT INTO s SELECT {moments}, if(range = {rows - 1}, 'x', '1') FROM range({rows})")
    with pytest.raises(InputError, match="not nullable"):
        store.sql(f"INSERT INTO s SELECT {moments}, if(range = {rows - 1}, NULL, 1) FROM range({rows})")
    assert store.sql("SELECT * FROM s").fetchall() == [(datetime.datetime(2026, 1, 1), 1)]
    assert store.orphans() == []
    assert store.check() == []


def test_a_stream_is_inserted_into_itself_as_it_was(store: Store) -> None:
    store.create_stream("s", SCHEMA, "ts", data={"ts": ["2026-01-01"], "x": [1.0], "name": ["a"]})
    for count in (1, 2, 4, 8):
        assert store.sql("INSERT INTO s FROM s").fetchone() == (count,)
    assert len(store.stream("s")) == 16


def crash_store(medium: RecordingMedium) -> Store:
    return Store(medium, maintenance="manual")


def ids(store: Store, name: str) -> set[int]:
    return {each for batch in store.stream(name).scan(columns=["n"]) for each in batch.column(0).to_pylist()}


def crashes(medium: RecordingMedium, most: int) -> Iterator[Any]:
    """Some of the states that crashes could have left, spread evenly."""
    found = [*power_losses(medium), *kills(medium)]
    step = max(1, len(found) // most)
    yield from found[::step]
    yield found[-1]


@pytest.mark.parametrize("few", [1 << 20, -1], ids=["by the tail", "by splits"])
@pytest.mark.parametrize("leaf", [4, 8192])
def test_a_crash_leaves_an_insert_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, few: int, leaf: int) -> None:
    monkeypatch.setattr(engine_sql, "_FEW_BYTES", few)
    medium = RecordingMedium()
    with crash_store(medium) as store:
        store.sql(f"CREATE STREAM s (ts BIGINT, n BIGINT) WITH (time = 'ts', leaf_rows = {leaf}, fanout = 3)")
        store.sql("INSERT INTO s SELECT range, range FROM range(6)")
        medium.mark("first")
        # Late rows, rows of equal times, and more than some leaves hold.
        store.sql("INSERT INTO s SELECT (range * 7) % 23, 100 + range FROM range(50)")
        medium.mark("second")
    first, second = set(range(6)), set(range(100, 150))
    seen = set()
    for crash in crashes(medium, 300):
        with crash_store(crash.medium()) as store:
            if "s" not in store:
                assert "first" not in crash.marks
                continue
            found = ids(store, "s")
            assert found & first in (set(), first), crash
            assert found & second in (set(), second), crash
            assert "first" not in crash.marks or first <= found, crash
            assert "second" not in crash.marks or second <= found, crash
            seen.add(len(found))
    assert seen == {0, 6, 56}


def test_a_crash_leaves_a_stream_of_a_select_whole_or_not_at_all() -> None:
    medium = RecordingMedium()
    with crash_store(medium) as store:
        medium.mark("opened")
        store.sql("CREATE STREAM s WITH (time = 'ts', leaf_rows = 4) AS SELECT range AS ts, range AS n FROM range(50)")
        medium.mark("created")
    seen = set()
    for crash in crashes(medium, 300):
        with crash_store(crash.medium()) as store:
            found = ids(store, "s") if "s" in store else set()
            assert found in (set(range(50)), set()), crash
            assert ("s" in store) == bool(found), crash
            assert "created" not in crash.marks or found, crash
            seen.add(len(found))
    assert seen == {0, 50}


def test_an_insert_beside_another_writer(tmp_path: Path, store: Store) -> None:
    stream = store.create_stream("s", SCHEMA, "ts", data={"ts": ["2026-01-01"], "x": [1.0], "name": ["a"]})
    stream.flush()
    with tidelog.open(tmp_path / "store", maintenance="manual") as other:
        assert other.sql("INSERT INTO s VALUES ('2026-01-02', 2, 'b')").fetchone() == (1,)
    stream.append({"ts": ["2026-01-03"], "x": [3.0], "name": ["c"]})
    assert store.sql("SELECT name FROM s ORDER BY ts").fetchall() == [("a",), ("b",), ("c",)]


def test_inserts_of_several_threads(store: Store) -> None:
    store.create_stream("s", SCHEMA, "ts")
    with ThreadPoolExecutor(4) as pool:
        inserts = (f"INSERT INTO s VALUES ('2026-01-01', {n}, 'a'), ('2026-01-02', {n}, 'b')" for n in range(40))
        assert [result.fetchone() for result in pool.map(store.sql, inserts)] == [(2,)] * 40
    assert store.sql("SELECT count(*), count(DISTINCT x), count(DISTINCT _seq) FROM s").fetchall() == [(80, 40, 80)]


# -- rows that are too late ---------------------------------------------------------------------------------------


def test_rows_that_are_too_late_are_refused(store: Store, tmp_path: Path) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, n INT) WITH (lateness = '1h', too_late = 'reject')")
    store.sql("INSERT INTO s VALUES ('2026-01-01 12:00', 1)")
    with pytest.raises(InputError, match="older than"):
        store.sql("INSERT INTO s VALUES ('2026-01-01 12:30', 2), ('2026-01-01 10:00', 3)")
    assert store.sql("SELECT n FROM s").fetchall() == [(1,)]
    with tidelog.open(tmp_path / "store", maintenance="manual") as other, pytest.raises(LockedError):
        other.sql("INSERT INTO s VALUES ('2026-01-01 12:30', 2)")


def test_rows_that_are_too_late_are_set_aside(store: Store, tmp_path: Path) -> None:
    store.sql("CREATE STREAM s (ts TIMESTAMP, n INT) WITH (lateness = INTERVAL 1 HOUR, too_late = 'aside')")
    store.sql("INSERT INTO s VALUES ('2026-01-01 12:00', 1), ('2026-01-01 10:00', 2), ('2026-01-01 11:30', 3)")
    store.sql("INSERT INTO s VALUES ('2026-01-01 10:30', 4)")
    with tidelog.open(tmp_path / "store", read_only=True) as reader:  # where what is durable is seen
        assert reader.sql("SELECT n FROM s ORDER BY n").fetchall() == [(1,), (3,)]
        assert reader.sql('SELECT n FROM "s.late" ORDER BY n').fetchall() == [(2,), (4,)]


# -- deletion -----------------------------------------------------------------------------------------------------

TIMES = ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ", "BIGINT"]
BOUNDS = [
    "'2026-01-01 00:00:03'",
    "TIMESTAMP '2026-01-01 00:00:03'",
    "TIMESTAMP '2026-01-01 00:00:03.5'",
    "TIMESTAMP_NS '2026-01-01 00:00:03.000000001'",
    "TIMESTAMPTZ '2026-01-01 01:00:03+01'",
    "CAST('2026-01-01 00:00:04' AS TIMESTAMP)",
    "DATE '2026-01-01'",
    "DATE '2027-01-01'",
    "TIMESTAMP '2026-01-01' + INTERVAL 4 SECOND",
    "(SELECT TIMESTAMP '2026-01-01 00:00:02')",
    "NULL",
]
NUMBERS = ["3", "3.5", "-1", "'4'", "2 + 3", "3.0::DOUBLE", "2.2::FLOAT", "NULL", "7::HUGEINT", "10000"]


@pytest.mark.parametrize(
    ("type_", "operator"),
    [*((type_, "<") for type_ in TIMES), *((type_, ">=") for type_ in TIMES), ("TIMESTAMP", "<="), ("BIGINT", ">")],
)
def test_what_duckdb_would_delete_is_deleted(store: Store, type_: str, operator: str) -> None:
    is_swapped = operator.startswith(">")
    moment = "range" if type_ == "BIGINT" else "TIMESTAMP '2026-01-01' + to_seconds(range)"
    with duckdb.connect() as plain:
        plain.execute("SET TimeZone = 'UTC'")
        for number, bound in enumerate(NUMBERS if type_ == "BIGINT" else BOUNDS):
            for target in (f"STREAM s{number}", f"TABLE s{number}"):
                text = f"CREATE {target} (ts {type_}, n BIGINT)"
                if target.startswith("STREAM"):
                    store.sql(f"{text} WITH (time = 'ts')")
                else:
                    plain.execute(text)
            fill = f"INSERT INTO s{number} SELECT {moment}, range FROM range(8)"
            where = f"{bound} {operator} ts" if is_swapped else f"ts {operator} {bound}"
            delete = f"DELETE FROM s{number} WHERE {where}"
            store.sql(fill)
            plain.execute(fill)
            try:
                plain.execute(delete)
            except duckdb.BinderException:  # no comparison at all
                with pytest.raises(SqlError):
                    store.sql(delete)
                continue
            if type_ == "TIMESTAMP_S" and "TIMESTAMP_NS" in bound:
                continue  # DuckDB compares them, and has no cast from one to the other
            store.sql(delete)
            question = f"SELECT n FROM s{number} ORDER BY n"
            assert store.sql(question).fetchall() == plain.sql(question).fetchall(), delete


def test_the_bound_of_a_deletion_is_told_and_counts_for_events_to_come(store: Store) -> None:
    store.create_stream(
        "s", SCHEMA, "ts", data={"ts": ["2026-01-01", "2026-01-02"], "x": [1.0, 2.0], "name": ["a", "b"]}
    )
    moment = datetime.datetime(2026, 1, 2)
    assert store.sql("DELETE FROM s WHERE S.Ts < ?", [moment]).fetchall() == [(moment,)]
    store.sql("INSERT INTO s VALUES ('2026-01-01', 3, 'c'), ('2026-01-03', 4, 'd')")
    assert store.sql("SELECT name FROM s ORDER BY ts").fetchall() == [("b",), ("d",)]
    assert store.sql("DELETE FROM s WHERE ts < (SELECT max(ts) FROM s)").fetchall() == [
        (datetime.datetime(2026, 1, 3),)
    ]
    assert store.sql("SELECT name FROM s").fetchall() == [("d",)]


REFUSED = [
    "DELETE FROM s",
    "DELETE FROM s WHERE x < 3",
    "DELETE FROM s WHERE ts = '2026-01-01'",
    "DELETE FROM s WHERE ts > '2026-01-01'",
    "DELETE FROM s WHERE '2026-01-01' < ts",
    "DELETE FROM s WHERE ts BETWEEN '2026-01-01' AND '2026-01-02'",
    "DELETE FROM s WHERE ts < '2026-01-01' AND x < 3",
    "DELETE FROM s WHERE ts < '2026-01-01' OR true",
    "DELETE FROM s WHERE NOT ts >= '2026-01-01'",
    "DELETE FROM s WHERE CAST(ts AS DATE) < '2026-01-01'",
    "DELETE FROM s WHERE ts < ts",
    "DELETE FROM s WHERE ts < (SELECT max(o.ts) FROM s o WHERE o.x = s.x)",
    "DELETE FROM s WHERE ts < 'infinity'",
    "DELETE FROM s WHERE ts < 'yesterday'",
    "DELETE FROM s WHERE ts < '2027-01-01' LIMIT 1",
    "DELETE FROM s WHERE ts < '2027-01-01' UNION SELECT 1",
    "DELETE FROM s s2 WHERE ts < '2027-01-01'",
    "DELETE FROM nowhere WHERE ts < '2027-01-01'",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_deleted(store: Store, text: str) -> None:
    store.create_stream(
        "s", SCHEMA, "ts", data={"ts": ["2026-01-01", "2026-01-02"], "x": [1.0, 2.0], "name": ["a", "b"]}
    )
    with pytest.raises(SqlError):
        store.sql(text)
    assert len(store.stream("s")) == 2


# -- several statements, and who may not ----------------------------------------------------------------------------


def test_statements_see_what_those_before_have_done(store: Store) -> None:
    found = store.sql(
        """
        CREATE STREAM s (ts TIMESTAMP, n INT) WITH (split = $split);
        INSERT INTO s VALUES ($at, 1);
        INSERT INTO s SELECT ts + INTERVAL 1 DAY, n + 1 FROM s; -- two
        ALTER STREAM s RENAME COLUMN n TO m;
        SELECT m, ts < $at AS is_before FROM s ORDER BY ts;
        """,
        {"split": "1d", "at": "2026-01-01"},
    )
    assert found.fetchall() == found.fetchall() == [(1, False), (2, False)]
    assert store.stream("s").options.split == "1d"


def test_parameters_are_counted_through_all_statements(store: Store) -> None:
    create = "CREATE STREAM s (ts TIMESTAMP, n INT) WITH (split = ?, retention = ?)"
    text = f"{create}; INSERT INTO s VALUES (?, ?); SELECT n + ? FROM s"
    assert store.sql(text, ["1d", "7d", "2026-01-01", 5, 10]).fetchall() == [(15,)]
    assert store.stream("s").options.retention == "7d"
    with pytest.raises(InputError, match="expected those of the statement"):
        store.sql("INSERT INTO s VALUES (?, 1); SELECT ?", [1])
    assert len(store.stream("s")) == 1


def test_a_result_of_before_stays_as_it_was(store: Store) -> None:
    store.create_stream("s", SCHEMA, "ts", data={"ts": ["2026-01-01"], "x": [1.0], "name": ["a"]})
    before = store.sql("SELECT count(*) FROM s")
    store.sql("INSERT INTO s FROM s")
    assert before.fetchone() == (1,)
    result = store.sql("INSERT INTO s FROM s")
    assert result.fetchone() == result.fetchone() == (2,)  # run once, at the call
    assert store.sql("SELECT count(*) FROM s").fetchone() == (4,)


CHANGES = [
    "CREATE STREAM t (ts TIMESTAMP)",
    "CREATE STREAM t AS SELECT now() AS ts",
    "INSERT INTO s VALUES (now(), 1, 'a')",
    "DELETE FROM s WHERE ts < now()",
    "ALTER STREAM s ADD COLUMN y INT",
    "DROP STREAM s",
    "DROP STREAM IF EXISTS t",
]


@pytest.mark.parametrize("text", CHANGES)
def test_who_may_not_change(tmp_path: Path, text: str) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_stream("s", SCHEMA, "ts", data={"ts": ["2026-01-01"], "x": [1.0], "name": ["a"]})
    with tidelog.open(tmp_path, read_only=True) as reader:
        with pytest.raises(ReadOnlyError):
            reader.sql(text)
        assert reader.sql("SELECT count(*) FROM s").fetchone() == (1,)
    with pytest.raises(SqlError, match="without a store"):
        tidelog.sql(text)


def test_tables_are_inserted(store: Store) -> None:
    store.create_stream("s", SCHEMA, "ts")
    rows = pa.table({"ts": ["2026-01-01", "2026-01-02"], "x": [1, 2]})
    store.sql("INSERT INTO s BY NAME FROM rows", tables={"rows": rows})
    store.sql('INSERT INTO s (ts) SELECT ts FROM "rows to insert"', tables={"rows to insert": rows})
    assert store.sql("SELECT x FROM s ORDER BY ALL").fetchall() == [(1.0,), (2.0,), (None,), (None,)]
    with pytest.raises(TidelogError, match="no stream 'rows'"):
        store.sql("INSERT INTO rows VALUES (1)", tables={"rows": rows})


@pytest.mark.parametrize(
    "wrong",
    ["SELEC 1", "SELECT FROM WHERE", "COPY s TO 'x'", "EXPLAIN DROP STREAM s", "PRAGMA version", "UPDATE s SET n = 1"],
)
def test_all_statements_are_read_before_the_first_one_runs(store: Store, wrong: str) -> None:
    before = store.streams()
    with pytest.raises(SqlError):
        store.sql(f"CREATE STREAM other (ts TIMESTAMP); INSERT INTO other VALUES (now()); {wrong}; SELECT 1")
    assert store.streams() == before


def test_a_statement_may_name_what_one_before_it_makes(store: Store) -> None:
    text = "CREATE STREAM other (ts TIMESTAMP); INSERT INTO other VALUES (now()); SELECT count(*) FROM other"
    assert store.sql(f"SELECT 1; {text}").fetchall() == [(1,)]


def test_an_aggregate_that_is_added_may_rebuild_splits(store: Store) -> None:
    store.sql("CREATE STREAM kept (ts TIMESTAMP, x DOUBLE) WITH (split = '1d')")
    store.sql("INSERT INTO kept SELECT TIMESTAMP '2026-01-01' + INTERVAL (i) SECOND, i FROM range(200000) t(i)")
    store.stream("kept").flush()
    before = {each.name for each in store.stream("kept").snapshot().manifest.splits.values()}
    store.sql("ALTER STREAM kept ADD AGGREGATE 'second_largest(x)' REBUILD")
    after = {each.name for each in store.stream("kept").snapshot().manifest.splits.values()}
    assert before
    assert not before & after
    assert store.sql("SELECT second_largest(x) FROM kept").fetchall() == [(199_998.0,)]
    with pytest.raises(SqlError, match="expected the end"):
        store.sql("ALTER STREAM kept DROP AGGREGATE 'second_largest(x)' REBUILD")
