"""Values that statements make out of nothing are refused before they take memory; others are what they were."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tidelog
from tidelog.sql.errors import SqlError

MEMORY = "64MB"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT length(repeat('x', 1000000000))", "repeat"),
        ("SELECT lpad('x', 1000000000, 'y')", "lpad"),
        ("SELECT rpad('x', 1000000000, 'y')", "rpad"),
        ("SELECT format('{:1000000000}', 1)", "format"),
        ("SELECT format('{:{}}', 1, 1000000000)", "format"),
        ("SELECT printf('%1000000000d', 1)", "printf"),
        ("SELECT printf('%*d', 1000000000, 1)", "printf"),
        ("SELECT len(list_resize([1], 200000000, 1))", "list_resize"),
        ("SELECT len(range(200000000))", "range"),
        ("SELECT len(generate_series(1, 200000000))", "generate_series"),
        ("SELECT len(generate_series(DATE '2000-01-01', DATE '2030-01-01', INTERVAL '1 second'))", "generate_series"),
        ("SELECT bitstring('1', 1000000000)", "bitstring"),
        ("SELECT length(replace(repeat('x', 30000), 'x', repeat('y', 30000)))", "replace"),
        ("SELECT length(regexp_replace(repeat('x', 30000), 'x', repeat('y', 30000), 'g'))", "regexp_replace"),
        ("SELECT 1 + \n  length(repeat('x', i))\nFROM range(1000000, 1000010) t(i)", "repeat"),
        ("SELECT repeat('x', 1000000000 + i) FROM range(3) t(i)", "repeat"),
        ("SELECT repeat('x', (1e9 + random())::BIGINT)", "repeat"),
        ("SELECT repeat(repeat(repeat('xy', i), i), i) FROM range(1000, 1002) t(i)", "repeat(repeat('xy'"),
        ("SELECT max(length(repeat('x', i * 1000))) FROM generate_series(1, 1000000) t(i)", "repeat"),
        ("SELECT list_transform(range(1000), lambda x: repeat('x', x * 1000))", "repeat"),
        ("SELECT " + "hex(" * 30 + "'x'" + ")" * 30, "hex"),
        ("SELECT count(*) FROM range(3) t(i) WHERE repeat('x', i * 1000000) = 'y'", "repeat"),
        ("VALUES (repeat('x', 1000000000))", "repeat"),
        ("SELECT length(list_reduce(list_transform(range(60), lambda x: 'xx'), lambda a, b: a || a))", "a || a"),
        ("SELECT reduce(range(40), lambda a, x: concat(a::VARCHAR, a::VARCHAR), 'x')", "concat"),
        ("SELECT len(list_concat(range(100000), range(100000), range(100000)))", "list_concat"),
        ("SELECT concat_ws(',', repeat('x', 900000), repeat('x', 900000))", "concat_ws"),
        ("SELECT len(string_split(repeat('x,', 400000), ','))", "string_split"),
        ("SELECT len(regexp_extract_all(repeat('x', 20000 + i), '.')) FROM range(3) t(i)", "regexp_extract_all"),
        ("SELECT sum(length(repeat('x', 900000) || i)) FROM range(5000) t(i)", "repeat('x', 900000) || i"),
        ("SELECT sum(i) FROM unnest(range(1000000)) t(i)", "range"),
        (
            "SELECT length(repeat(repeat(repeat(repeat(i::VARCHAR, 64), 64), 64), 64)) FROM range(3) t(i)",
            "repeat(repeat(repeat(i",
        ),
        (
            "SELECT length(replace(replace(replace(replace(i::VARCHAR, '1', '11111111111111111111'), '1', "
            "'11111111111111111111'), '1', '11111111111111111111'), '1', '11111111111111111111')) FROM range(3) t(i)",
            "replace(replace(replace(replace(",
        ),
        (
            "WITH RECURSIVE r AS (SELECT 'x' AS s UNION ALL SELECT repeat(s, 16) FROM r WHERE length(s) < 1e8) "
            "SELECT max(length(s)) FROM r",
            "repeat",
        ),
    ],
)
def test_values_out_of_nothing_are_refused_at_their_place(text: str, place: str) -> None:
    with pytest.raises(SqlError, match="give it more with sql_memory") as caught:
        tidelog.sql(text, sql_memory=MEMORY).fetchall()
    assert caught.value.position is not None
    assert text[caught.value.position :].startswith(place)


def test_texts_put_together_again_and_again_are_refused() -> None:
    steps = ", ".join(f"t{at} AS (SELECT s || s || s || s AS s FROM t{at - 1})" for at in range(1, 15))
    with pytest.raises(SqlError, match=r"\|\| would make a value of"):
        tidelog.sql(f"WITH t0 AS (SELECT 'x' AS s), {steps} SELECT length(s) FROM t14", sql_memory=MEMORY).fetchall()


def test_parameters_are_tested(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        with pytest.raises(SqlError, match="repeat would make a value of about 2,000,000,000 bytes"):
            store.sql("SELECT length(repeat($s, $n))", {"s": "xx", "n": 10**9}).fetchall()
        store.sql("CREATE STREAM s (ts TIMESTAMP, t VARCHAR) WITH (time = 'ts')")
        with pytest.raises(SqlError, match="repeat would make a value"):
            store.sql("INSERT INTO s VALUES ('2026-01-01', repeat('x', 1000000000))")
        assert store.sql("SELECT count(*) FROM s").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT repeat('xy', 5), lpad('7', 3, '0'), rpad('7', 3, '0'), replace('abc', 'b', 'xyz')",
        "SELECT repeat(s, n), lpad(s, n, '-'), s || n || s FROM {rows} ORDER BY n",
        "SELECT repeat(s, n) AS r, count(*) FROM {rows} GROUP BY r HAVING repeat(s, n) > '' ORDER BY ALL",
        "SELECT repeat(lower(s), n % 3), repeat([n], n), replace(s, 'a', s || s) FROM {rows} ORDER BY n",
        "SELECT repeat('x', NULL), repeat(NULL, 3), range(NULL), replace(NULL, 'a', s) FROM {rows}",
        "SELECT sum(j) FROM {rows}, unnest(range(n)) u(j)",
        "SELECT len(range(1, n + 10, 2)), generate_series(n, 1, -1), range(0, n, 0) FROM {rows} ORDER BY n",
        "SELECT generate_series(DATE '2026-01-01', DATE '2026-01-01' + n, INTERVAL '1 day') FROM {rows} ORDER BY n",
        "SELECT count(*) FROM (SELECT unnest(generate_series(min(n), max(n) + 100000)) FROM {rows})",
        "SELECT unnest(generate_series(TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-03', INTERVAL '1 minute')) AS t",
        "SELECT regexp_replace(s, '[ab]+', s || '!', 'g'), format('{:>5}|{}', n, s), printf('%5d', n) FROM {rows}",
        "SELECT list_transform([s, s], lambda x: repeat(x, n)), list_resize([n], n), bitstring('1', n + 1) FROM {rows}",
        "SELECT repeat('x', count(*)::INTEGER), repeat('y', (SELECT 3)) FROM {rows}",
        "SELECT list_reduce([s, 'x', s], lambda a, b: a || ',' || b), string_split(s || n, 'a') FROM {rows}",
        "SELECT string_split(repeat(s, n), 'a'), regexp_extract_all(repeat(s, n), '[ab]') FROM {rows} ORDER BY n",
        "SELECT 'a' || repeat('x', 900000) || 'b', concat_ws('-', s, repeat('x', 60000)) FROM {rows} ORDER BY n",
        "SELECT sum(i) FROM (SELECT unnest(range(400000)) AS i)",
        "SELECT length(repeat('x', 1000000)), length(repeat(repeat('x', 60000), 1))",
    ],
)
def test_small_values_are_those_of_duckdb(text: str) -> None:
    rows = "(VALUES ('a', 0), ('bab', 1), ('', 7), (NULL, 3), ('ünï', 12)) v(s, n)"
    found = tidelog.sql(text.replace("{rows}", rows), sql_memory=MEMORY).arrow()
    expected = duckdb.connect().sql(text.replace("{rows}", rows)).to_arrow_table()
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema == expected.schema
