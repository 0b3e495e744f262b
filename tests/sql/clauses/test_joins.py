"""Joins by windows and by the nearest time in SQL: against DuckDB where it has them, and pairs by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

Row = tuple[Any, ...]


def _rows(seed: int, count: int, value: str, *, ties: bool) -> pa.Table:
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(0, 60, count) if ties else draw.permutation(600)[:count])
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
            "k": pa.array(draw.choice(["u", "v", "w"], count), pa.string(), mask=draw.random(count) < 0.15),
            value: pa.array(draw.integers(-20, 20, count) / 4, pa.float64(), mask=draw.random(count) < 0.15),
        }
    )


A, B = _rows(1, 120, "x", ties=True), _rows(2, 90, "y", ties=True)
APART_A, APART_B = _rows(3, 150, "x", ties=False), _rows(4, 110, "y", ties=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("joins"), maintenance="manual") as opened:
        for name, table in {"a": A, "b": B, "one": APART_A, "two": APART_B}.items():
            stream = opened.create_stream(name, table.schema, "ts", leaf_rows=128)
            stream.append(table.slice(40))
            stream.append(table.slice(0, 40))  # late, and in another order among equal times
        opened.create_stream("none", A.schema, "ts")
        plain = pa.schema([("t", pa.int64()), ("v", pa.int64())])
        opened.create_stream("e1", plain, "t").append({"t": [1, 3, 5], "v": [3, 7, 5]})
        opened.create_stream("e2", plain, "t").append({"t": [2, 4, 6], "v": [1, 2, 6]})
        yield opened


def _stored(store: Store, name: str) -> list[dict[str, Any]]:
    """The rows of a stream in their order, with integers as times."""
    table = store.sql(f"SELECT *, _seq FROM {name} ORDER BY ts, _seq").arrow()
    found: list[dict[str, Any]] = table.set_column(0, "ts", table["ts"].cast(pa.int64())).to_pylist()
    return found


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("kind", ["", "LEFT"])
@pytest.mark.parametrize("sign", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("keyed", [False, True])
def test_as_of_joins_are_those_of_duckdb(store: Store, kind: str, sign: str, keyed: bool) -> None:
    key = "a.k = b.k AND" if keyed else ""
    text = f"SELECT a.ts, a.k, x, b.ts, b.k, y FROM one a ASOF {kind} JOIN two b ON {key} a.ts {sign} b.ts"
    with duckdb.connect() as connection:
        connection.register("one", APART_A)
        connection.register("two", APART_B)
        expected = connection.execute(text).fetchall()
    assert len(expected) > 50
    for more in ("", " TOLERANCE '1 day'"):
        assert _sorted(store.sql(text + more).fetchall()) == _sorted(expected)
    assert any("ASOF JOIN: one pass" in line for (line,) in store.sql(f"EXPLAIN {text}").fetchall())
    stars = text.replace("a.ts, a.k, x, b.ts, b.k, y", "*")
    assert _sorted(store.sql(stars).fetchall()) == _sorted(expected)
    stars = text.replace("a.ts, a.k, x, b.ts, b.k, y", "a.*, b.*")
    assert _sorted(store.sql(stars).fetchall()) == _sorted(expected)


def test_as_of_by_using(store: Store) -> None:
    for kind, what in itertools.product(("", "LEFT"), ("*", "k, ts, x, y, b.ts", "b.k, a.k, ts, * EXCLUDE (y)")):
        text = f"SELECT {what} FROM one a ASOF {kind} JOIN two b USING (k, ts)"
        with duckdb.connect() as connection:
            connection.register("one", APART_A)
            connection.register("two", APART_B)
            expected = connection.execute(text).fetchall()
        assert _sorted(store.sql(text).fetchall()) == _sorted(expected)


@pytest.mark.parametrize("where", ["a.ts >= TIMESTAMP '1970-01-01 00:00:00.0003' AND x > 0", "y > 0", "x IS NULL"])
def test_conditions_are_about_what_is_joined(store: Store, where: str) -> None:
    for kind, sign in itertools.product(("", "LEFT"), (">=", "<")):
        text = f"SELECT a.ts, x, y FROM one a ASOF {kind} JOIN two b ON a.k = b.k AND a.ts {sign} b.ts"
        with duckdb.connect() as connection:
            connection.register("one", APART_A)
            connection.register("two", APART_B)
            expected = connection.execute(f"{text} WHERE {where}").fetchall()
        assert _sorted(store.sql(f"{text} WHERE {where}").fetchall()) == _sorted(expected)
        wide = store.sql(f"{text} TOLERANCE '50 us' WHERE {where}").fetchall()
        assert _sorted(wide) == _sorted(
            store.sql(f"FROM ({text} TOLERANCE '50 us') WHERE {where.replace('a.', '')}").fetchall()
        )


@pytest.mark.parametrize("sign", [">=", ">"])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("tolerance", [None, 0, 2])
def test_nearest_with_equal_times(store: Store, sign: str, outer: bool, tolerance: int | None) -> None:
    """Of rows at one time the last one counts before, and the first one behind, by (time, _seq)."""
    more = "" if tolerance is None else f" TOLERANCE INTERVAL {tolerance} MICROSECONDS"
    found = store.sql(
        f"SELECT l.ts, x, r.ts, y FROM a l ASOF NEAREST {'LEFT' if outer else ''} JOIN b r "
        f"ON l.k = r.k AND l.ts {sign} r.ts{more}"
    ).fetchall()
    expected: list[Row] = []
    others = _stored(store, "b")
    for row in _stored(store, "a"):
        best = None
        for place, other in enumerate(others):
            apart = abs(other["ts"] - row["ts"])
            is_before = other["ts"] < row["ts"] or (other["ts"] == row["ts"] and sign == ">=")
            if row["k"] is None or other["k"] != row["k"] or (sign == ">" and apart == 0):
                continue
            if tolerance is not None and apart > tolerance:
                continue
            # Nearer, then before rather than behind, then the last one before and the first one behind.
            rank = (apart, not is_before, -place if is_before else place)
            if best is None or rank < best[0]:
                best = rank, other
        if best is not None:
            expected.append((row["ts"], row["x"], best[1]["ts"], best[1]["y"]))
        elif outer:
            expected.append((row["ts"], row["x"], None, None))
    assert _sorted(_micros_of(found)) == _sorted(expected)


def _micros_of(rows: list[Row]) -> list[Row]:
    def ticks(value: Any) -> Any:
        return value.second * 1_000_000 + value.microsecond if hasattr(value, "microsecond") else value

    return [tuple(map(ticks, row)) for row in rows]


WINDOWS = [("T", 5, 1), ("T", 6, 4), ("T", 3, 7), ("R", 4, 1), ("R", 7, 3), ("R", 2, 5)]


def _window_text(kind: str, size: int, slide: int) -> str:
    if kind == "R":
        return f"{size} ROWS SLIDE {slide}"
    return f"INTERVAL {size} MICROSECONDS SLIDE INTERVAL {slide} MICROSECONDS"


def _active(rows: list[dict[str, Any]], window: tuple[str, int, int], time: int, before: int) -> list[int]:
    """The rows in the window that is active when a row arrives, before which so many have; windows may begin early."""
    kind, size, slide = window
    if kind == "R":
        first = (before - size) // slide * slide
        return [place for place in range(before) if first <= place < first + size]
    start = (time + 1 - size) // slide * slide
    return [place for place in range(before) if start <= rows[place]["ts"] < start + size]


@pytest.mark.parametrize("left", WINDOWS, ids=str)
@pytest.mark.parametrize("right", WINDOWS[::2], ids=str)
@pytest.mark.parametrize("on", ["l.k = r.k", "l.k = r.k AND l.x < r.y", "l.x > r.y - 1 AND l.x < r.y + 1", None])
def test_window_joins(store: Store, left: tuple[str, int, int], right: tuple[str, int, int], on: str | None) -> None:
    condition = "" if on is None else f"ON => {on}, "
    found = store.sql(
        f"SELECT l.ts, x, r.ts, y, time FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, {condition}"
        f"LEFT => {_window_text(*left)}, RIGHT => {_window_text(*right)})"
    ).fetchall()
    both = _stored(store, "a"), _stored(store, "b")
    arrivals = sorted([(row["ts"], side, place) for side in (0, 1) for place, row in enumerate(both[side])])
    expected = []
    counts = [0, 0]
    for time, side, place in arrivals:
        for partner in _active(both[1 - side], (left, right)[1 - side], time, counts[1 - side]):
            one, other = (both[0][place], both[1][partner]) if side == 0 else (both[0][partner], both[1][place])
            if _holds(on, one, other):
                expected.append((one["ts"], one["x"], other["ts"], other["y"], time))
        counts[side] += 1
    assert expected
    assert _sorted(_micros_of(found)) == _sorted(expected)


def _holds(on: str | None, one: dict[str, Any], other: dict[str, Any]) -> bool:
    if on is None:
        return True
    if "l.k = r.k" in on and (one["k"] is None or one["k"] != other["k"]):
        return False
    if "l.x" not in on:
        return True
    if one["x"] is None or other["y"] is None:
        return False
    return bool(one["x"] < other["y"]) if "l.x < r.y" in on and "- 1" not in on else abs(one["x"] - other["y"]) < 1


def test_two_windows_of_two_rows(store: Store) -> None:
    """A row of value 6 arrives while the other window holds 7 and 5, of which 5 is not greater."""
    text = (
        "SELECT time, l.v, r.v FROM WINDOW_JOIN(TABLE e1 AS l, TABLE e2 AS r, ON => l.v <= r.v, LEFT => 2 ROWS, "
        "RIGHT => 2 ROWS{}) ORDER BY ALL"
    )
    assert store.sql(text.format("")).fetchall() == [(6, 5, 6)]
    # Each stream needs two rows before there is a window of it to find partners in.
    assert store.sql(text.format(", COMPLETE_ONLY => true")).fetchall() == [(6, 5, 6)]
    all_pairs = text.replace("l.v <= r.v", "true")
    joined = store.sql(all_pairs.format("")).fetchall()
    complete = store.sql(all_pairs.format(", COMPLETE_ONLY => true")).fetchall()
    assert len(joined) == 8
    assert complete == [row for row in joined if row[0] >= 4]


def test_clauses_stand_wherever_tables_do(store: Store) -> None:
    join = "WINDOW_JOIN(TABLE {} AS l, TABLE b AS r, ON => l.k = r.k, LEFT => 3 ROWS, RIGHT => '2 us')"
    count = store.sql(f"SELECT count(*) FROM {join.format('a')}").fetchone()
    assert count is not None
    assert count[0] > 30
    texts = [
        f"WITH c AS (FROM a) SELECT count(*) FROM {join.format('c')}",
        f"SELECT count(*) FROM {join.format('(SELECT * FROM a)')}".replace("TABLE (", "("),
        f"SELECT (SELECT count(*) FROM {join.format('a')})",
        f"WITH j AS MATERIALIZED (FROM {join.format('a')}) SELECT count(*) FROM j w",
        f"SELECT count(*) FROM (FROM {join.format('a')}) JOIN (SELECT 1) ON true",
        f"SELECT count(*) FROM (SELECT 1 AS one), {join.format('a')} w WHERE one = 1 AND w.time IS NOT NULL",
        f"SELECT count(l.ts) FROM {join.format('a')} WHERE r.ts IS NOT NULL",
        f"SELECT sum(n) FROM (SELECT count(*) AS n FROM {join.format('a')} GROUP BY l.k)",
        f"SELECT count(*) FROM (FROM {join.format('a')} UNION ALL FROM {join.format('none')})",
    ]
    for text in texts:
        assert store.sql(text).fetchone() == count, text
    nested = store.sql(
        f"SELECT count(*) FROM WINDOW_JOIN((SELECT time, x FROM {join.format('a')}) AS p, TABLE a AS q, "
        "LEFT => 1 ROWS, RIGHT => 1 ROWS, TIME => later)"
    )
    assert nested.fetchall() != [(0,)]
    tables = {name: store.sql(f"SELECT * FROM {name} ORDER BY ts, _seq").arrow() for name in ("a", "b")}
    given = tidelog.sql(f"SELECT count(*) FROM {join.format('a')}", tables=tables).fetchone()
    assert given == count


def test_a_query_of_one_stream_is_read_in_order(store: Store) -> None:
    """Columns and conditions of a stream need no sorting; what is computed is sorted by DuckDB, with the same rows."""
    text = (
        "SELECT l.*, r.*, time FROM WINDOW_JOIN((SELECT {} FROM a WHERE x > -3 AND ts > '1970-01-01 00:00:00.000005') "
        "l, (SELECT * FROM b) r, ON => l.key = r.k, LEFT => 4 ROWS, RIGHT => '9 us')"
    )
    direct = store.sql(text.format("k AS key, ts AS t, x"))
    computed = store.sql(text.format("k AS key, ts AS t, x + 0 AS x"))
    assert _sorted(direct.fetchall()) == _sorted(computed.fetchall()) != []
    told = str(store.sql(f"EXPLAIN {text.format('k AS key, ts AS t, x')}").fetchall())
    assert "reads only what may satisfy (x > (-3))" in told


def test_where_partners_are_looked_for_is_told(store: Store) -> None:
    text = "EXPLAIN FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, {} LEFT => 3 ROWS, RIGHT => '2 us')"
    ways = {
        "ON => l.k = r.k AND l.x > r.y,": ("equal keys (k), then", ""),
        "ON => l.x BETWEEN r.y - 1 AND r.y + 1,": ("ranges of values, then", ""),
        "ON => l.x * r.y > 3,": ("all rows of a window, then", "because nothing bounds the difference or the sum"),
        "": ("all rows of a window", "all pairs are wanted, as there is no condition"),
    }
    for condition, (way, reason) in ways.items():
        first, second, *_ = (line for (line,) in store.sql(text.format(condition)).fetchall())
        assert f"partners among {way}" in first
        assert reason in second if reason else not second.startswith("  not by")


def test_columns_go_by_the_names_of_sides(store: Store) -> None:
    join = "WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.k = r.k, LEFT => 3 ROWS, RIGHT => '2 us')"
    names = store.sql(f"FROM {join}").columns
    assert names == ["ts", "k", "x", "ts_1", "k_1", "y", "time"]
    assert store.sql(f"SELECT r.*, l.x + r.y, r.k AS other FROM {join}").columns == [
        "ts",
        "k",
        "y",
        "(l.x + r.y)",
        "other",
    ]
    assert store.sql(f"SELECT w.k_1, w.* EXCLUDE (ts, time) FROM {join} AS w").columns[0] == "k_1"
    same = store.sql(f"SELECT count(*) FROM {join} WHERE l.k <> r.k OR k <> k_1").fetchall()
    assert same == [(0,)]


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE zz AS r, {})", "no stream or table", "zz"),
        ("FROM WINDOW_JOIN(a AS l, TABLE b AS r, {})", "expected TABLE", "a AS"),
        ("FROM WINDOW_JOIN(TABLE a AS l, {})", "expected TABLE", "LEFT"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => 1 ROWS)", "without RIGHT", ")"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => 1 ROWS, LEFT => '1 s')", "LEFT twice", "LEFT => '"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => 1 ROWS, RIHGT => 1 ROWS)", "mean 'RIGHT'", "RIHGT"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => 0 ROWS, RIGHT => 1 ROWS)", "at least 1", "0 ROWS"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => 'x', RIGHT => 1 ROWS)", "Could not convert", "'x'"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => '0 s', RIGHT => 1 ROWS)", "below one tick", "'0 s'"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => '1 month', RIGHT => 1 ROWS)", "of months", "'1 month'"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => NULL, RIGHT => 1 ROWS)", "null", "NULL"),
        ("FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, LEFT => l.x ROWS, RIGHT => 1 ROWS)", "a constant", "l.x"),
        ("FROM WINDOW_JOIN(TABLE a, TABLE a, {})", "two sides called 'a'", "WINDOW_JOIN"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, ON => l.q = r.k, {})", "no column", "l.q"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, ON => k = 'u', {})", "no column of one", "k ="),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, ON => l._seq > 1, {})", "_seq", "l._seq"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, ON => nope(l.x), {})", "no function", "nope"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, ON => (SELECT true), {})", "a query", "(SEL"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE e1 r, {})", "different units", "WINDOW_JOIN"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, {}, TIME => x)", "TIME => another", "WINDOW"),
        ("FROM WINDOW_JOIN(TABLE a l DESCRIPTOR(x), TABLE b r, {})", "as time", "x)"),
        ("FROM WINDOW_JOIN((SELECT x FROM a) l, TABLE b r, {})", "no column of times", None),
        ("SELECT l.q FROM WINDOW_JOIN(TABLE a l, TABLE b r, {})", "no column 'q'", "l.q"),
        ("SELECT q FROM WINDOW_JOIN(TABLE a l, TABLE b r, {})", '"q" not found', "q"),
        ("FROM WINDOW_JOIN(TABLE a l, TABLE b r, {}", "not closed", "WINDOW_JOIN"),
        ("FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts TOLERANCE 'x'", "Could not convert", "'x'"),
        ("FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts TOLERANCE", "without a length", None),
        ("FROM a ASOF JOIN b ON a.ts >= b.ts TOLERANCE '1 s' NEAREST", "behind TOLERANCE; it stands before", "NEAREST"),
        ("FROM a ASOF JOIN b ON a.k = b.k TOLERANCE '1 s'", "without a comparison of times", "ASOF"),
        ("FROM a ASOF NEAREST JOIN b ON a.k <> b.k AND a.ts >= b.ts", "another condition", "a.k <>"),
        ("FROM a ASOF NEAREST FULL JOIN b ON a.ts >= b.ts", "expected ASOF JOIN or ASOF LEFT JOIN", "ASOF"),
        ("FROM a ASOF NEAREST JOIN b ON a.x >= b.y", "as time", "a.x"),
        ("FROM a ASOF NEAREST JOIN b ON a.k = b.y AND a.ts >= b.ts", "types string and double", "ASOF"),
        ("FROM a JOIN none USING (k) ASOF NEAREST JOIN b ON a.ts >= b.ts", "more than a table", "JOIN none"),
        ("FROM a ASOF NEAREST JOIN a ON true", "two sides called 'a'", "ASOF"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(store: Store, text: str, message: str, at: str | None) -> None:
    text = text.format("LEFT => 1 ROWS, RIGHT => 1 ROWS")
    with pytest.raises(SqlError, match=message) as raised:
        store.sql(text).fetchall()
    assert raised.value.text == text
    if at is not None:
        assert raised.value.position is not None, raised.value
        assert text[raised.value.position :].startswith(at), raised.value
