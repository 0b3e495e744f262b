"""Windows in SQL, against DuckDB's own means on the same rows."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.plan import choosing
from tidelog.sql.clauses import windows
from tidelog.sql.errors import SqlError

MINUTE = 60_000_000


def rows(seed: int, count: int, kind: pa.DataType | None = None) -> pa.Table:
    """Events of a few hours with equal times, nulls and gaps."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(0, 900, count)) * MINUTE // 2 + (draw.integers(0, 4, count) == 0) * 7
    times = np.sort(times) + (times > 200 * MINUTE) * 90 * MINUTE
    values = pa.array(draw.integers(-50, 50, count), mask=draw.integers(0, 7, count) == 0)
    kind = kind or pa.timestamp("us")
    ticks = times if pa.types.is_timestamp(kind) and kind.unit == "us" else times * 1000
    return pa.table(
        {
            "ts": pa.array(np.sort(ticks)).cast(kind),
            "site": pa.array(draw.choice(["a", "b", "c"], count), pa.string(), mask=draw.integers(0, 9, count) == 0),
            "n": values,
            "x": pa.array(draw.integers(0, 1000, count) / 8),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows(7, 4000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("windows"), maintenance="manual") as opened:
        stream = opened.create_stream("events", table.schema, "ts", leaf_rows=128, split="1h")
        times = table["ts"].to_numpy()
        changes = np.flatnonzero(times[1:] != times[:-1]) + 1  # equal times are never on both sides of a cut
        cuts = [0, *changes[::40].tolist(), table.num_rows]
        parts = list(itertools.pairwise(cuts))
        random.Random(3).shuffle(parts)
        for first, last in parts:  # most of them late
            stream.append(table.slice(first, last - first))
        opened.create_stream("none", table.schema, "ts")
        yield opened


def plain(table: pa.Table, text: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.register("events", table)
        return connection.execute(text).fetchall()


AGGREGATES = "count(*), count(n), sum(n), min(n), max(x), avg(n), sum(x), stddev(n)"


def close(one: list[tuple[object, ...]], other: list[tuple[object, ...]]) -> bool:
    def same(a: object, b: object) -> bool:
        return a == b or (isinstance(a, float) and isinstance(b, float) and a == pytest.approx(b, rel=1e-9))

    return len(one) == len(other) and all(all(map(same, a, b)) for a, b in zip(one, other, strict=True))


@pytest.fixture(params=["replay", "index"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to windows, whichever would be faster."""
    chosen = {"index": "optimised"}.get(request.param, request.param)
    monkeypatch.setattr(choosing, "LEAST_LEAVES", 0)
    monkeypatch.setattr(windows, "fastest", lambda found: next(each for each in found if each.name == chosen))
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("minutes", [1, 7, 60, 1440])
def test_tumbling_windows(store: Store, table: pa.Table, minutes: int, keyed: bool) -> None:
    key, also = ("site, ", ", site") if keyed else ("", "")
    found = store.sql(
        f"SELECT {key}window_start, window_end, {AGGREGATES} FROM events WHERE n IS NULL OR n < 40 "
        f"GROUP BY window(ts, '{minutes} minutes'){also} ORDER BY ALL"
    ).fetchall()
    expected = plain(
        table,
        f"SELECT {key}time_bucket('{minutes} minutes', ts, TIMESTAMP '1970-01-01') AS s, "
        f"s + INTERVAL {minutes} MINUTE, {AGGREGATES} FROM events WHERE n IS NULL OR n < 40 "
        f"GROUP BY s{also} ORDER BY ALL",
    )
    assert expected
    assert close(found, expected)


def test_windows_come_from_the_index(store: Store, table: pa.Table, way: str) -> None:
    """Where the condition is a range of time, which may cut windows, and the index keeps the aggregates."""
    kept = "count(*), sum(n), min(n), max(x), avg(n), sum(x)"
    for size, slide, options in [
        ("1 hour", "1 hour", ""),
        ("1 hour", "13 minutes", ""),
        ("7 minutes", "1 hour", ""),
        ("1 hour", "7 minutes", ", origin => 'first event'"),
        ("3 minutes", "2 minutes", ", empty => true"),
        ("1 hour", "5 minutes", ", complete_only => true"),
        ("1 day", "1 day", ", zone => 'America/New_York'"),
        ("2 days", "1 day", ", zone => 'Asia/Kathmandu'"),
    ]:
        text = (
            f"SELECT window_start, window_end, {kept} FROM events "
            "WHERE ts >= TIMESTAMP '1970-01-01 00:33:20' AND ts < TIMESTAMP '1970-01-01 07:11:11' "
            f"GROUP BY window(ts, '{size}', '{slide}'{options}) ORDER BY 1"
        )
        result = store.sql(text)
        assert ("the index, optimised plan" in result.explain()) == (way == "index")
        expected = tidelog.sql(text, tables={"events": table}).fetchall()
        assert expected
        assert result.fetchall() == expected


@pytest.mark.usefixtures("way")
def test_what_entries_do_not_tell_takes_the_events(tmp_path: Path) -> None:
    """Here sums of 64-bit numbers, and texts too long for an entry, of the later windows."""
    names = [f"n{at}" for at in range(300)] + ["m" * 5000 + str(at) for at in range(300)]
    numbers = pa.array([1] * 300 + [2**62] * 300)
    table = pa.table({"ts": pa.array(range(600), pa.timestamp("s")), "n": numbers, "name": names})
    text = (
        "SELECT window_start, sum(n), max(n), min(name) FROM events "
        "GROUP BY window(ts, '100 seconds', '50 seconds') ORDER BY 1"
    )
    with tidelog.open(tmp_path, maintenance="manual") as opened:
        opened.create_stream("events", data=table, time="ts", leaf_rows=16)
        found = opened.sql(text).fetchall()
        assert len(found) == 13
        assert found == tidelog.sql(text, tables={"events": table}).fetchall()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("size", "slide"), [(60, 30), (60, 7), (5, 11), (90, 90), (13, 1)])
def test_hopping_windows(store: Store, table: pa.Table, size: int, slide: int, keyed: bool) -> None:
    key, also = ("site, ", ", site") if keyed else ("", "")
    found = store.sql(
        f"SELECT {key}window_start, window_end, {AGGREGATES} FROM events "
        f"GROUP BY window(ts, '{size} minutes', INTERVAL {slide} MINUTE){also} ORDER BY ALL"
    ).fetchall()
    expected = plain(
        table,
        f"""WITH starts AS (
                SELECT unnest(generate_series(-{size}, 24 * 60, 1)) AS m),
            windows AS (
                SELECT make_timestamp(m * {MINUTE}) AS s, make_timestamp((m + {size}) * {MINUTE}) AS e
                FROM starts WHERE m % {slide} = 0)
            SELECT {key}s, e, {AGGREGATES} FROM windows JOIN events ON ts >= s AND ts < e
            GROUP BY s, e{also} ORDER BY ALL""",
    )
    assert len(expected) > 5
    assert close(found, expected)


@pytest.mark.parametrize("keyed", [False, True])
def test_sessions(store: Store, table: pa.Table, keyed: bool) -> None:
    key, by = ("site, ", "PARTITION BY site") if keyed else ("", "")
    found = store.sql(
        f"SELECT {key}window_start, window_end, {AGGREGATES} FROM events "
        f"GROUP BY session_window(ts, '30 seconds'){', site' if keyed else ''} ORDER BY ALL"
    ).fetchall()
    expected = plain(
        table,
        f"""WITH gaps AS (
                SELECT *, coalesce(ts > lag(ts) OVER ({by} ORDER BY ts) + INTERVAL 30 SECOND, true) AS new FROM events),
            numbered AS (SELECT *, sum(new::INT) OVER ({by} ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM gaps)
            SELECT {key}min(ts), max(ts) + INTERVAL 30 SECOND, {AGGREGATES} FROM numbered
            GROUP BY {key}session ORDER BY ALL""",
    )
    assert len(expected) > 10
    assert close(found, expected)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("size", "slide"), [(10, 10), (100, 7), (3, 5), (5000, 1)])
def test_windows_of_a_number_of_rows(store: Store, table: pa.Table, size: int, slide: int, keyed: bool) -> None:
    """Whole ones: from the first row, every so many rows."""
    key, by = ("site, ", "PARTITION BY site") if keyed else ("", "")
    found = store.sql(
        f"SELECT {key}count(*), sum(n), min(x), max(x) FROM events "
        f"GROUP BY count_window({size}, {slide}){', site' if keyed else ''} ORDER BY ALL"
    ).fetchall()
    expected = plain(
        table,
        f"""WITH numbered AS (
                SELECT *, row_number() OVER ({by} ORDER BY ts, place) - 1 AS r
                FROM (SELECT *, row_number() OVER () AS place FROM events)),
            windows AS (SELECT range AS w FROM range(0, 4000))
            SELECT {key}count(*), sum(n), min(x), max(x) FROM windows JOIN numbered
            ON r >= w * {slide} AND r < w * {slide} + {size}
            GROUP BY {key}w HAVING count(*) = {size} ORDER BY ALL""",
    )
    assert close(found, expected)


def test_rows_are_counted_in_the_order_of_time(store: Store, table: pa.Table) -> None:
    """Also where keys are computed, conditions ask a query, and the time of a table is its only timestamp."""
    expected = store.sql("SELECT site, first(n), max(x) FROM events GROUP BY count_window(7, 3), site ORDER BY ALL")
    rows = expected.fetchall()
    assert len(rows) > 100
    computed = (
        "SELECT Site || '' AS site, first(n), max(x) FROM events AS e WHERE e.ts IN (SELECT ts FROM events) "
        "GROUP BY count_window(7, 3), e.site || '' ORDER BY ALL"
    )
    assert store.sql(computed).fetchall() == rows
    assert tidelog.sql(computed, tables={"events": table}).fetchall() == rows
    two = table.append_column("born", table["ts"])
    with pytest.raises(SqlError, match="of rows of which nobody knows the time; expected it as third argument"):
        tidelog.sql(computed, tables={"events": two})
    assert tidelog.sql(computed.replace("(7, 3)", "(7, 3, ts)"), tables={"events": two}).fetchall() == rows


def test_what_is_around_stays(store: Store, table: pa.Table) -> None:
    found = store.sql(
        """WITH hours AS (
               SELECT site AS place, window_start AS h, sum(n) * 2 AS twice, rank() OVER (ORDER BY sum(n)) AS r
               FROM events WHERE site IS NOT NULL GROUP BY window(ts, '1 hour'), site
               HAVING count(*) > 10 QUALIFY r <= 5)
           SELECT place, date_trunc('hour', h) = h, twice FROM hours ORDER BY r, place, h LIMIT 3"""
    ).fetchall()
    expected = plain(
        table,
        """WITH hours AS (
               SELECT site AS place, date_trunc('hour', ts) AS h, sum(n) * 2 AS twice,
                      rank() OVER (ORDER BY sum(n)) AS r
               FROM events WHERE site IS NOT NULL GROUP BY h, site HAVING count(*) > 10 QUALIFY r <= 5)
           SELECT place, date_trunc('hour', h) = h, twice FROM hours ORDER BY r, place, h LIMIT 3""",
    )
    assert found == expected


@pytest.mark.parametrize(
    ("selected", "group", "having"),
    [
        ("upper(site) AS u, count(*) AS c", "u", "c > 10"),
        ("site AS u, count(*) AS c, c_min - 1 AS d", "u", "d > 0"),
        ("upper(site) || n AS u, lower(site) AS site, count(*) AS c", "u, site", "u <> 'A1' OR c > 1"),
        ("upper(site) AS site, count(*) AS c", "site", "c > 1"),  # by the column
    ],
)
def test_groups_and_conditions_by_the_names_of_items(
    store: Store, table: pa.Table, selected: str, group: str, having: str
) -> None:
    selected = selected.replace("c_min", "min(n)")
    of_ours = store.sql(
        f"SELECT window_start AS w, {selected} FROM events WHERE site IS NOT NULL "
        f"GROUP BY window(ts, '1 hour'), {group} HAVING {having} ORDER BY ALL"
    )
    expected = plain(
        table,
        f"SELECT date_trunc('hour', ts) AS w, {selected} FROM events WHERE site IS NOT NULL "
        f"GROUP BY w, {group} HAVING {having} ORDER BY ALL",
    )
    assert of_ours.fetchall() == expected


def test_windows_of_windows_and_of_joins(store: Store, table: pa.Table) -> None:
    names = pa.table({"site": ["a", "b"], "city": ["Ulm", "Hof"]})
    found = store.sql(
        """SELECT window_start, city, max(m) FROM (
               SELECT window_start AS s, city, max(n) AS m FROM events JOIN names USING (site)
               GROUP BY window(ts, '10 minutes'), city)
           GROUP BY city, window(s, '1 hour') ORDER BY ALL""",
        tables={"names": names},
    ).fetchall()
    expected = plain(
        table,
        "SELECT date_trunc('hour', ts) AS h, CASE site WHEN 'a' THEN 'Ulm' ELSE 'Hof' END AS c, max(n) FROM events "
        "WHERE site IN ('a', 'b') GROUP BY h, c ORDER BY ALL",
    )
    assert found == expected


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us", tz="UTC"), pa.timestamp("ns")])
def test_tables_in_any_order(kind: pa.DataType) -> None:
    table = rows(5, 500, pa.timestamp("us")).cast(
        pa.schema([("ts", pa.timestamp("us")), ("site", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
    )
    table = table.set_column(0, "ts", pa.compute.floor_temporal(table["ts"], 1, "second").cast(kind))
    table = table.append_column("id", pa.array(range(table.num_rows)))
    mixed = table.take(pa.array(np.random.default_rng(2).permutation(table.num_rows)))
    text = "SELECT window_start, count(*), sum(n), sum(id) FROM events GROUP BY window(ts, '20 minutes') ORDER BY 1"
    found = tidelog.sql(text, tables={"events": mixed}).fetchall()
    plainly = (
        "SELECT time_bucket('20 minutes', ts, {}) AS s, count(*), sum(n), sum(id) FROM events GROUP BY s ORDER BY 1"
    )
    origin = "TIMESTAMPTZ '1970-01-01 00:00+00'" if kind.tz else "TIMESTAMP '1970-01-01'"
    assert found == plain(table, plainly.format(origin))


def test_origins_zones_and_options(store: Store, table: pa.Table) -> None:
    first = table["ts"][0].as_py()
    text = "SELECT window_start, window_end, count(*) FROM events GROUP BY window(ts, {}) ORDER BY 1"
    begun = store.sql(text.format("'25 minutes', '25 minutes', origin => 'first event'")).fetchall()
    assert begun[0][0] == first
    assert sum(row[2] for row in begun) == table.num_rows
    given = store.sql(text.format("'1 hour', '1 hour', TIMESTAMP '2000-01-01 00:10'")).fetchall()
    assert {row[0].minute for row in given} == {10}
    days = store.sql(text.format("'1 day', zone => 'America/New_York'")).fetchall()
    assert {row[0].hour for row in days} == {5}
    months = store.sql(text.format("'1 month'")).fetchall()
    assert months == [(datetime.datetime(1970, 1, 1), datetime.datetime(1970, 2, 1), table.num_rows)]
    some = store.sql(text.format("'1 minute'")).fetchall()
    all_of_them = store.sql(text.format("'1 minute', empty => true")).fetchall()
    assert [row for row in all_of_them if row[2]] == some
    assert len(all_of_them) > len(some)
    assert [each[0] for each in all_of_them] == [
        all_of_them[0][0] + datetime.timedelta(minutes=at) for at in range(len(all_of_them))
    ]
    whole = store.sql(text.format("'1 hour', '10 minutes', complete_only => true")).fetchall()
    assert whole[0][0] >= first
    assert whole[-1][1] <= table["ts"][-1].as_py() + datetime.timedelta(microseconds=1)


def test_no_rows(store: Store) -> None:
    assert store.sql("SELECT window_start, count(*) FROM none GROUP BY window(ts, '1 hour')").fetchall() == []
    assert store.sql("SELECT count(*) FROM events WHERE n > 99 GROUP BY session_window(ts, '1 hour')").fetchall() == []


def test_the_window_itself_and_types(store: Store, table: pa.Table) -> None:
    result = store.sql("SELECT window(ts, '1 day') AS w, sum(n), count(*) FROM events GROUP BY w")
    assert result.columns == ["w", "sum(n)", "count_star()"]
    ((window, total, count),) = result.fetchall()
    assert window == {"start": datetime.datetime(1970, 1, 1), "end": datetime.datetime(1970, 1, 2)}
    assert (total, count) == plain(table, "SELECT sum(n), count(*) FROM events")[0]
    plainly = tidelog.sql("SELECT sum(n), count(*), avg(n) FROM events", tables={"events": table})
    windowed = store.sql("SELECT sum(n), count(*), avg(n) FROM events GROUP BY window(ts, '1 day')")
    assert windowed.schema.types == plainly.schema.types


def test_window_clauses_stay_what_they_are(store: Store, table: pa.Table) -> None:
    text = "SELECT sum(n) OVER w FROM events WINDOW w AS (ORDER BY ts, x, n, site ROWS 2 PRECEDING) ORDER BY ALL"
    assert store.sql(text).fetchall() == plain(table, text)


WRONG = {
    "SELECT window(ts, '1 hour') FROM events": "found window outside of a selection",
    "SELECT count(*) FROM events WHERE session_window(ts, '1 hour') IS NULL": "found session_window outside",
    "SELECT n FROM events GROUP BY window(ts, '1 hour')": "'n', which is neither",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 hour'), session_window(ts, '1 hour')": "one window",
    "SELECT count(*) FROM events GROUP BY window(ts, '0 hours')": "0",
    "SELECT count(*) FROM events GROUP BY window(ts, '-1 hours')": "below zero",
    "SELECT count(*) FROM events GROUP BY window(ts, n)": "expected a constant",
    "SELECT count(*) FROM events GROUP BY window(ts)": "with other arguments",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 hour', nothing => 1)": "with nothing",
    "SELECT count(*) FROM events GROUP BY window(ts, 'an hour')": "an hour",
    "SELECT count(*) FROM events GROUP BY window(site, '1 hour')": "has type string",
    "SELECT count(*) FROM events GROUP BY count_window(0)": "at least 1",
    "SELECT count(*) FROM events GROUP BY count_window(1.5)": "whole number",
    "SELECT count(*) FROM events GROUP BY count_window(9223372036854775808)": "expected at most 9223372036854775807",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 day', zone => 'Nowhere/City')": "no time zone 'Nowhere/City'",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 day', zone => 7)": "the zone 7; expected the name",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 day', zone => '')": "the zone ''; expected the name",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 day', origin => 'first event', zone => 'UTC')": "of a zone",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 day', empty => 'no')": "'no'; expected true or false",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 day', complete_only => NULL)": "None; expected true or false",
    "SELECT count(*) FROM (SELECT * FROM events) GROUP BY count_window(5)": "third argument",
    "SELECT count(*) FROM events GROUP BY session_window(ts, '1 month')": "months",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 month 2 hours')": "days or months",
    "SELECT quantile_cont(n, 0.5) FROM events GROUP BY window(ts, '1 hour')": "quantile_cont",
    "SELECT count(DISTINCT n) FROM events GROUP BY window(ts, '1 hour')": "(?i)distinct",
    "SELECT site, count(*) FROM events GROUP BY ROLLUP (window(ts, '1 hour'), site)": "several sets of groups",
    "SELECT nothing FROM events GROUP BY window(ts, '1 hour'), nothing": "nothing",
    "SELECT count(*) FROM events GROUP BY window(ts, '1 hour') window(ts)": "syntax error",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_is_told(store: Store, text: str) -> None:
    with pytest.raises(SqlError, match=WRONG[text]) as error:
        store.sql(text).fetchall()
    assert "w1ndow" not in str(error.value)


def test_explained(store: Store) -> None:
    text = "SELECT count(*) FROM events WHERE ts < '1970-01-01 02:00' GROUP BY window(ts, '1 hour', '1 minute')"
    told = store.sql(text).explain()
    assert "window(ts, '1 hour', '1 minute')" in told
    assert "w1ndow" not in told
    assert "from the beginning to 1970-01-01T02:00:00" in told
