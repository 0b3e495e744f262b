"""Row patterns inside of statements: where they may stand, what they read, and how that is told."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.clauses.row_pattern import making

START = datetime.datetime(2026, 1, 1)
PRICES = [90, 80, 70, 80, 90, 85, 80, 95, 60]
V = """MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts
    MEASURES FIRST(DOWN.ts) AS start, LAST(DOWN.price) AS bottom, LAST(UP.ts) AS stop, count(*) AS rows
    PATTERN (DOWN+ UP+)
    DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
)"""


def ticks(symbol: str = "x", add: int = 0) -> pa.Table:
    """Prices of one symbol, a minute apart."""
    return pa.table(
        {
            "symbol": pa.array([symbol] * len(PRICES)),
            "ts": pa.array([START + datetime.timedelta(minutes=at) for at in range(len(PRICES))], pa.timestamp("us")),
            "price": pa.array([price + add for price in PRICES], pa.float64()),
        }
    )


def minute(at: int) -> datetime.datetime:
    """The time of a row."""
    return START + datetime.timedelta(minutes=at)


EXPECTED = [("x", minute(1), 70.0, minute(4), 4), ("x", minute(5), 80.0, minute(7), 3)]


def test_clause_behind_a_table() -> None:
    """Columns come out in the order of the partition's and the measures."""
    found = tidelog.sql(f"SELECT * FROM t {V} ORDER BY start", tables={"t": ticks()})
    assert found.columns == ["symbol", "start", "bottom", "stop", "rows"]
    assert found.fetchall() == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT m.* FROM t AS input {V} AS m ORDER BY m.start",
        f"SELECT m.* FROM t {V} m ORDER BY m.start",
        f"SELECT * FROM (SELECT * FROM t) {V} ORDER BY start",
        f"SELECT * FROM (SELECT * FROM t) AS input {V} ORDER BY start",
        f"WITH c AS (SELECT * FROM t) SELECT * FROM c {V} ORDER BY start",
        f"WITH c AS (SELECT * FROM t {V}) SELECT * FROM c ORDER BY start",
        f"SELECT * FROM (SELECT * FROM t {V}) ORDER BY start",
        f"SELECT * FROM (t JOIN (SELECT 'x' AS symbol, 1 AS one) USING (symbol)) {V} ORDER BY start",
        f"SELECT m.* FROM t {V} AS m JOIN (SELECT DISTINCT symbol FROM t) AS o USING (symbol) ORDER BY start",
        f"SELECT m.* FROM (SELECT 1) AS o, t {V} AS m ORDER BY start",
        f"SELECT m.* FROM (SELECT 1) AS o CROSS JOIN t {V} AS m ORDER BY start",
        f"SELECT * FROM (FROM t SELECT *) {V} WHERE bottom > 0 ORDER BY start",
        f"SELECT a, b, c, d, e FROM t {V} AS m(a, b, c, d, e) ORDER BY b",
        f"(SELECT * FROM t {V} ORDER BY start LIMIT 1) UNION ALL (SELECT * FROM t {V} ORDER BY start DESC LIMIT 1)",
        f"SELECT * FROM t {V.lower().replace('down', 'Down')} ORDER BY start",
    ],
)
def test_clause_anywhere(text: str) -> None:
    """A clause stands wherever a table does, and reads whatever a table is."""
    assert tidelog.sql(text, tables={"t": ticks()}).fetchall() == EXPECTED


def test_clause_reads_another_clause() -> None:
    """What comes out of one is what another one reads."""
    text = f"""
        SELECT * FROM t {V} MATCH_RECOGNIZE (
            ORDER BY start MEASURES A.bottom AS low, B.bottom AS higher PATTERN (A B) DEFINE B AS bottom > A.bottom
        )"""
    assert tidelog.sql(text, tables={"t": ticks()}).fetchall() == [(70.0, 80.0)]


def test_values_are_given_as_parameters() -> None:
    """Parameters are counted through the statement, and ? of a pattern is none."""
    text = """
        SELECT ? AS a, m.* FROM t MATCH_RECOGNIZE (
            ORDER BY ts MEASURES A.price + ? AS p, LAST(price, ?) AS q PATTERN (A B??  C?) DEFINE A AS price = ?
        ) AS m WHERE p > ?"""
    assert tidelog.sql(text, [7, 5, 0, 70, 1], tables={"t": ticks()}).fetchall() == [(7, 75.0, 80.0)]
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS p PATTERN (A$) DEFINE A AS price < $most)"
    assert tidelog.sql(text, {"most": 61}, tables={"t": ticks()}).fetchall() == [(60.0,)]


def test_keys_may_be_expressions() -> None:
    """Rows are partitioned and ordered by what is computed of them."""
    text = """
        SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY upper(symbol) ORDER BY -price, ts MEASURES count(*) AS n, A.price AS first PATTERN (A B*)
        )"""
    found = tidelog.sql(text, tables={"t": ticks()})
    assert found.columns == ["upper(symbol)", "n", "first"]
    assert found.fetchall() == [("X", 9, 95.0)]


def test_order_goes_by_directions_and_nulls() -> None:
    """Nulls come last, whatever the direction, unless it is said."""
    table = pa.table({"n": [2, None, 1]})

    def ordered(order: str) -> str:
        text = f"""
            SELECT v FROM t MATCH_RECOGNIZE (
                ORDER BY {order} MEASURES coalesce(n, 0) AS v ALL ROWS PER MATCH PATTERN (A+)
            )"""
        return "".join(str(row[0]) for row in tidelog.sql(text, tables={"t": table}).fetchall())

    assert ordered("n") == "120"
    assert ordered("n DESC") == "210"
    assert ordered("n ASC NULLS FIRST") == "012"
    assert ordered("n DESC NULLS FIRST") == "021"
    assert ordered("n % 2, n DESC") == "210"


def test_columns_of_all_rows() -> None:
    """All rows have the columns of the partition, of the order, the measures, and all others."""
    found = tidelog.sql(
        """SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY ts MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH PATTERN (A)
        )""",
        tables={"t": ticks().select(["price", "ts", "symbol"])},
    )
    assert found.columns == ["symbol", "ts", "c", "price"]


def test_streams_are_read_in_their_order(tmp_path: Path) -> None:
    """A stream in the order of its time is not sorted; with a partition it is."""
    with tidelog.open(tmp_path) as store:
        store.create_stream("t", ticks().schema, time="ts").append(ticks())
        whole = V.replace("PARTITION BY symbol ORDER", "ORDER").replace("MEASURES", "MEASURES symbol AS symbol,")
        found = store.sql(f"SELECT * FROM t {whole}")
        assert found.fetchall() == EXPECTED
        told = found.explain()
        assert "MATCH_RECOGNIZE: the rows of the stream in their order" in told
        assert "DOWN: whole columns" in told
        by_key = store.sql(f"SELECT * FROM t {V}")
        assert by_key.fetchall() == EXPECTED
        assert "MATCH_RECOGNIZE: rows sorted in memory, or by DuckDB" in by_key.explain()
        descending = store.sql(f"SELECT * FROM t {V.replace('ORDER BY ts', 'ORDER BY ts DESC')} ORDER BY start")
        assert [row[2] for row in descending.fetchall()] == [70.0, 80.0]
        assert store.sql(f"SELECT count(*) FROM t AT (VERSION => 4) {V}").fetchall() == [(1,)]


def test_explain_tells_of_conditions_that_are_slow() -> None:
    """What no kernel can hold is named."""
    text = """
        EXPLAIN SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS string_agg(symbol, '') <> 'xx'
        )"""
    told = "\n".join(row[0] for row in tidelog.sql(text, tables={"t": ticks()}).fetchall())
    assert "A: row by row, exactly and slowly" in told


def test_large_input_is_read_by_batches(tmp_path: Path) -> None:
    """Matches across batches are found, of one sequence and of partitions."""
    count = 300_000
    draw = np.random.default_rng(4)
    table = pa.table(
        {
            "ts": pa.array(np.arange(count), pa.int64()),
            "k": pa.array(draw.integers(0, 7, count)),
            "v": pa.array(draw.integers(0, 4, count)),
        }
    )
    clause = """MATCH_RECOGNIZE (
        {} ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS b PATTERN (A B+ C) DEFINE A AS v = 0, B AS v = 1, C AS v = 2
    )"""
    text = "SELECT count(*), sum(b - a) FROM t " + clause
    values = "".join(map(str, table["v"].to_pylist()))

    def counted(values: str) -> int:
        return sum(1 for _ in re.finditer("01+2", values))

    assert tidelog.sql(text.format(""), tables={"t": table}).fetchall()[0][0] == counted(values)
    keys = table["k"].to_numpy()
    expected = sum(counted("".join(map(str, table["v"].to_numpy()[keys == key]))) for key in range(7))
    assert tidelog.sql(text.format("PARTITION BY k"), tables={"t": table}).fetchall()[0][0] == expected


def test_matches_are_drawn_over_the_series(tmp_path: Path) -> None:
    """A stretch for each match, behind the line of all rows."""
    text = """
        SELECT ts, price, number FROM t MATCH_RECOGNIZE (
            ORDER BY ts MEASURES MATCH_NUMBER() AS number ALL ROWS PER MATCH WITH UNMATCHED ROWS
            PATTERN (DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
        ) ORDER BY ts"""
    figure = tidelog.sql(text, tables={"t": ticks()}).plot(tmp_path / "matches.png")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.get_lines()] == ["price"]
    assert len(axes.get_lines()[0].get_xdata()) == len(PRICES)
    assert len(axes.patches) == len(EXPECTED)
    assert (tmp_path / "matches.png").stat().st_size > 0


@pytest.mark.parametrize("source", ["t", "(SELECT * FROM t WHERE n % 3 > 0)", "(VALUES (2, 1), (1, 4)) AS v(n, g)"])
def test_many_rows_are_sorted_by_a_database(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """With the same rows as where they fit into memory."""
    table = pa.table({"n": [5, 3, 4, 1, 8, 2, 7], "g": [1, 2, 1, 2, 1, 1, 2]})
    text = f"SELECT * FROM {source} MATCH_RECOGNIZE (PARTITION BY g ORDER BY n DESC MEASURES n AS last PATTERN (A B?))"
    found = tidelog.sql(text, tables={"t": table}).fetchall()
    monkeypatch.setattr(making, "BYTES_PER_ROW", 1 << 40)
    assert tidelog.sql(text, tables={"t": table}).fetchall() == found != []


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("m.symbol = 'y'", "(symbol = 'y')"),
        ("symbol IN ('x', 'z') AND rows > 3", "(symbol IN ('x', 'z'))"),
        (
            "symbol > 'x' AND (m.symbol < 'z' OR symbol IS NULL)",
            "((symbol > 'x') AND ((symbol < 'z') OR (symbol IS NULL)))",
        ),
        ("rows > 3", None),
        ("symbol = 'x' OR rows = 3", None),
        ("upper(symbol) = 'X'", None),
        ("symbol = (SELECT max(symbol) FROM t)", None),
    ],
)
def test_conditions_about_partitions_decide_what_is_read(tmp_path: Path, condition: str, told: str | None) -> None:
    """Rows of partitions that nobody asks for are not looked at; others come out as they would."""
    table = pa.concat_tables([ticks("x"), ticks("y", 3), ticks("z", 7)])
    every = f"SELECT * FROM (SELECT * FROM t {V} AS m OFFSET 0) AS m WHERE {condition} ORDER BY ALL"
    text = f"SELECT * FROM t {V} AS m WHERE {condition} ORDER BY ALL"
    with tidelog.open(tmp_path) as store:
        store.create_stream("t", table.schema, time="ts").append(table)
        for run in (store.sql, lambda text: tidelog.sql(text, tables={"t": table})):
            found = run(text).fetchall()
            assert found == run(every).fetchall()
            assert len(found) > 1
            plan = "\n".join(str(row[0]) for row in run(f"EXPLAIN {text}").fetchall())
            assert ("only partitions with" in plan) == (told is not None)
            assert told is None or f"only partitions with {told}" in plan


def test_conditions_on_rows_of_joins_are_not_about_partitions() -> None:
    """A row that a join has found no match for has no partition either."""
    sides = pa.table({"name": ["x", "y"]})
    text = f"SELECT name, m.symbol FROM s LEFT JOIN t {V} AS m ON name = m.symbol WHERE m.symbol IS NULL"
    assert tidelog.sql(text, tables={"t": ticks("x"), "s": sides}).fetchall() == [("y", None)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_times_are_computed_in_the_zone_of_the_statement(zone: str) -> None:
    """What rows say of their times is what a query in that zone says of them, in conditions, measures and windows."""
    start = datetime.datetime(2026, 3, 28, 20, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(minutes=47 * at) for at in range(30)]
    table = pa.table({"n": pa.array(range(30)), "z": pa.array(times, pa.timestamp("us", "UTC"))})
    inner = "(SELECT n, z, hour(z) AS h, z::DATE AS d, strftime(z, '%H:%M') AS s, date_trunc('hour', z) AS t FROM t)"
    clause = """SELECT * FROM {} MATCH_RECOGNIZE (
        ORDER BY n MEASURES FIRST({h}) AS a, LAST({s}) AS b, max({d}) AS c, {ah} AS d, {p} AS e,
            coalesce({bh}, -1) AS f, {t} AS g, list({h}) AS h
        PATTERN (A B*) DEFINE B AS {d} = {pd} AND {h} <> 7) ORDER BY ALL"""
    own = {"h": "hour(z)", "s": "strftime(z, '%H:%M')", "d": "z::DATE", "t": "date_trunc('hour', A.z)"}
    own |= {"ah": "extract(hour FROM A.z)", "bh": "hour(B.z)", "p": "hour(PREV(LAST(z), 2))", "pd": "PREV(z)::DATE"}
    plain = {
        "h": "h",
        "s": "s",
        "d": "d",
        "t": "A.t",
        "ah": "A.h",
        "bh": "B.h",
        "p": "PREV(LAST(h), 2)",
        "pd": "PREV(d)",
    }
    found = tidelog.sql(clause.format("t", **own), tables={"t": table}, timezone=zone).fetchall()
    assert found == tidelog.sql(clause.format(inner, **plain), tables={"t": table}, timezone=zone).fetchall()
    assert found != tidelog.sql(clause.format("t", **own), tables={"t": table}).fetchall()
    window = """SELECT n, last_value({h}) OVER w, count(*) FILTER (WHERE {h} > 9) OVER w, m OVER w FROM {} WINDOW w AS (
        ORDER BY n MEASURES LAST({s}) AS m ROWS BETWEEN CURRENT ROW AND {h} FOLLOWING PATTERN (A+) DEFINE A AS {h} < 20)
        ORDER BY n"""
    found = tidelog.sql(window.format("t", **own), tables={"t": table}, timezone=zone).fetchall()
    assert found == tidelog.sql(window.format(inner, **plain), tables={"t": table}, timezone=zone).fetchall()


def test_all_rows_and_chosen_partitions_compute_in_the_zone_of_the_statement() -> None:
    """What is computed for conditions and measures does not come out with the other columns."""
    start = datetime.datetime(2026, 3, 28, 22, 30, tzinfo=datetime.UTC)  # the clock is put forward at 1 in UTC
    times = [start + datetime.timedelta(hours=at) for at in range(5)]
    table = pa.table({"k": [1, 1, 1, 2, 2], "n": range(5), "z": pa.array(times, pa.timestamp("us", "UTC"))})
    text = """
        SELECT {} FROM t MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY n MEASURES hour(A.z) AS a, LAST(strftime(z, '%d %H')) AS b
            {} PATTERN (A B*) DEFINE B AS hour(z) <> 4 AND z::DATE = A.z::DATE
        ) WHERE k {} ORDER BY ALL"""

    def asked(columns: str, which: str, condition: str) -> list[tuple[object, ...]]:
        found = tidelog.sql(text.format(columns, which, condition), tables={"t": table}, timezone="Europe/Berlin")
        return found.fetchall()

    one = [(1, 0, "29 01"), (1, 23, "28 23"), (2, 3, "29 03"), (2, 4, "29 04")]
    every = [(1, 0, "29 00", 1), (1, 0, "29 01", 2), (1, 23, "28 23", 0), (2, 3, "29 03", 3), (2, 4, "29 04", 4)]
    assert asked("*", "", "> 0") == one
    assert asked("*", "", "= 1") == one[:2]
    assert asked("k, a, b, n", "ALL ROWS PER MATCH", "> 0") == every
    assert asked("k, a, b, n", "ALL ROWS PER MATCH", "IN (1, 9)") == every[:3]
    assert len(asked("*", "ALL ROWS PER MATCH", "> 0")[0]) == 5


def test_lists_structs_and_times_of_day() -> None:
    """Their fields and elements are columns like others; they themselves may be measures."""
    table = pa.table(
        {
            "n": range(4),
            "place": [{"lat": 1, "name": {"de": "a"}}, {"lat": 5, "name": {"de": "b"}}, None, {"lat": 7, "name": None}],
            "tags": [["x"], ["x", "y"], [], None],
            "daytime": pa.array([datetime.time(hour) for hour in (8, 9, 10, 11)]),
            "wait": pa.array([1, 2, 3, 4], pa.duration("s")),
        }
    )
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES {} PATTERN ({}) {})"

    def asked(measures: str, pattern: str, defines: str = "") -> list[tuple[object, ...]]:
        return tidelog.sql(text.format(measures, pattern, defines), tables={"t": table}).fetchall()

    fields = "A.place.lat AS a, place.name.de AS b, PREV(B.tags)[1] AS c, len(tags) AS d, (FIRST(place)).lat AS e"
    assert asked(fields, "A B") == [(1, "b", "x", 2, 1), (None, None, None, None, None)]
    assert asked("n AS a, epoch(wait) AS b", "A", "DEFINE A AS hour(daytime) > 9 OR tags[2] = 'y'") == [
        *[(1, 2.0), (2, 3.0), (3, 4.0)]
    ]
    assert asked("LAST(n) AS a", "A B", "DEFINE B AS place.lat > A.place.lat") == [(1,)]
    assert asked("A.place AS a, LAST(tags) AS b, list(daytime) AS c, max(wait) AS d", "A B") == [
        (table["place"][0].as_py(), ["x", "y"], [datetime.time(8), datetime.time(9)], datetime.timedelta(seconds=2)),
        (None, None, [datetime.time(10), datetime.time(11)], datetime.timedelta(seconds=4)),
    ]
    assert asked("list_transform([1], lambda x: x + A.place.lat) AS a", "A B C D") == [([2],)]
    found = tidelog.sql(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES sum(place.lat) AS a ALL ROWS PER MATCH PATTERN (A B))",
        tables={"t": table},
    )
    assert found.columns == ["n", "a", "place", "tags", "daytime", "wait"]
    assert [row[1] for row in found.fetchall()] == [1, 6, None, 7]


@pytest.mark.parametrize("first", [0, 2**63 - 2, 2**64 - 9])
@pytest.mark.parametrize("direction", ["ASC", "DESC NULLS FIRST"])
def test_unsigned_numbers_of_any_size_have_windows(first: int, direction: str) -> None:
    """Rows without a number are near each other alone."""
    numbers = [first, first + 1, first + 3, None, None]
    table = pa.table({"u": pa.array(numbers, pa.uint64()), "n": range(5)})
    text = f"""
        SELECT list_sort([a, b]) AS rows FROM t MATCH_RECOGNIZE (
            ORDER BY u {direction}, n MEASURES FIRST(n) AS a, LAST(n) AS b AFTER MATCH SKIP TO NEXT ROW
            PATTERN (A B) WITHIN 1) ORDER BY ALL"""
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [([0, 1],), ([3, 4],)]


@pytest.mark.parametrize("source", ["t", "(FROM t)", "(SELECT [n] AS n FROM t)", "(VALUES (1), (2), (3)) AS v(n)", "s"])
def test_rows_count_where_no_column_is_asked_for(tmp_path: Path, source: str) -> None:
    """What is neither ordered nor looked at has rows all the same."""
    rows = pa.table({"n": [1, 2, 3]})
    clause = "MEASURES count(*) AS n, 'x' AS x, MATCH_NUMBER() AS m PATTERN (A{,2}) DEFINE A AS count(*) < 9"
    with tidelog.open(tmp_path) as store:
        store.create_stream("s", rows.schema, time="n").append(rows)
        ask = store.sql if source == "s" else lambda text: tidelog.sql(text, tables={"t": rows})
        assert ask(f"SELECT * FROM {source} MATCH_RECOGNIZE ({clause})").fetchall() == [(2, "x", 1), (1, "x", 2)]


def test_columns_that_are_never_null_are_read() -> None:
    """Of tables as they are given, and whatever else their fields tell."""
    fields = [pa.field("g", pa.int64(), nullable=False, metadata={"unit": "m"}), pa.field("n", pa.int64(), False)]
    table = pa.table([[1, 1, 2], [2, 1, 3]], schema=pa.schema(fields, metadata={"of": "me"}))
    text = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY g ORDER BY n MEASURES LAST(n) AS a {} PATTERN (A B?) {})"
    text = text.format("ALL ROWS PER MATCH", "DEFINE B AS n > PREV(n)")
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [(1, 1, 1), (1, 2, 2), (2, 3, 3)]
    one = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES n AS a, list(g) AS b PATTERN (A B) WITHIN 1)"
    assert tidelog.sql(one, tables={"t": table}).fetchall() == [(2, [1, 1])]
    over = "SELECT n, count(*) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A B)) FROM t"
    assert tidelog.sql(f"{over} ORDER BY n", tables={"t": table}).fetchall() == [(1, 2), (2, 0), (3, 0)]


def test_words_of_the_clause_are_names_of_columns_too() -> None:
    """Where a value is due, a word that begins a part of the clause is a column."""
    words = ["measures", "define", "subset", "initial", "seek", "within", "pattern", "after", "one", "emit"]
    table = pa.table({"n": range(4), **{word: [9, 0, 1, 1] for word in words}})
    columns = ", ".join(f"{word} + A.{word} AS {word}" for word in words)
    conditions = " AND ".join(f"{word} = 1 AND A.{word} < 2 AND 0 < {word}" for word in words)
    clause = f"ORDER BY measures, initial DESC, n MEASURES {columns} PATTERN (A{{2}} B) DEFINE A AS {conditions}"
    text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [(10,) * len(words)]
    text = """SELECT n, count(*) OVER (PARTITION BY seek ORDER BY initial, n MEASURES seek AS x
        ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A B)) FROM t ORDER BY n"""
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [(0, 0), (1, 0), (2, 2), (3, 0)]


def test_windows_end_where_numbers_do() -> None:
    """A window that would reach behind the largest number there is has all rows up to it."""
    table = pa.table({"n": pa.array([2**63 - 3, 2**63 - 1], pa.int64())})
    text = "SELECT a FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES count(*) AS a PATTERN (A B) WITHIN {})"
    found = [tidelog.sql(text.format(each), tables={"t": table}).fetchall() for each in (1, 2, 9)]
    assert found == [[], [(2,)], [(2,)]]
