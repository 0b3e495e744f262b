"""Expressions that the matcher leaves to DuckDB, in conditions and inside of navigations: worked out by hand."""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

TABLE = pa.table(
    {
        "g": [1, 1, 1, 2, 2, 2, 3, 3, 3],
        "n": pa.array(range(9), pa.int64()),
        "s": ["a", "ab", "abc", "b", "a", "ab", None, "c", "cd"],
        "l": [[0, 0], [1, 1], [2, 2], [0, 3], None, [2, 5], [0, 6], [1, 7], [2, 8]],
        "r": [{"a": n} for n in range(9)],
        "wait": pa.array([datetime.timedelta(seconds=n % 4) for n in range(9)]),
        "opens": pa.array([datetime.time(n % 5) for n in range(9)]),
        "id": [uuid.UUID(int=n % 4).hex for n in range(9)],
    }
)
STARTS = "PARTITION BY g ORDER BY n MEASURES FIRST(n) AS a, LAST(n) AS b PATTERN (A B+)"


def asked(clause: str, **others: Any) -> list[tuple[Any, ...]]:
    """What a clause over the table finds."""
    return tidelog.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", tables={"t": TABLE} | others).fetchall()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("s LIKE A.s || '%'", [(1, 0, 2), (2, 4, 5), (3, 7, 8)]),
        ("s LIKE PREV(s) || '%' AND l <> A.l", [(1, 0, 2), (3, 7, 8)]),
        ("s NOT SIMILAR TO A.s AND n > 1", [(1, 1, 2), (2, 3, 5), (3, 7, 8)]),
        ("(n, n) < (A.n + 1, 99)", [(1, 0, 1), (2, 3, 4), (3, 6, 7)]),
        ("PREV(l) < l AND list_contains(l, n)", [(1, 0, 2), (3, 6, 8)]),
        ("list_sum(l) > 8 OR s GLOB '*bc'", [(1, 1, 2), (3, 7, 8)]),
        ("l > A.l AND r <> A.r AND wait > A.wait AND opens > A.opens", [(1, 0, 2), (3, 6, 7)]),
        ("wait > INTERVAL 1 SECOND AND n > A.n", [(1, 1, 2), (3, 6, 7)]),
        ("id::UUID >= A.id::UUID", [(1, 0, 2), (2, 4, 5), (3, 6, 7)]),
        ("PREV(printf('%d', n)) = printf('%d', A.n)", [(1, 0, 1), (2, 3, 4), (3, 6, 7)]),
        ("LAST([n, 1]) = [A.n + 1, 1]", [(1, 0, 1), (2, 3, 4), (3, 6, 7)]),
        ("max(l)[2] = n AND sum(list_sum(B.l)) < 10", [(1, 0, 2), (2, 4, 5), (3, 6, 7)]),
        ("count(*) FILTER (WHERE l[1] = 0) < 2 AND {'a': n} <> A.r", [(1, 0, 2), (2, 3, 5), (3, 6, 8)]),
        ("s::VARCHAR = 'ab'", [(1, 0, 1), (2, 4, 5)]),
        ("CASE WHEN n = 99 THEN error('not asked') ELSE true END", [(1, 0, 2), (2, 3, 5), (3, 6, 8)]),
    ],
)
def test_conditions_may_be_any_expression(condition: str, expected: list[tuple[Any, ...]]) -> None:
    """With functions, operators and types that the matcher does not compute with."""
    assert asked(f"{STARTS} DEFINE B AS {condition}") == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("LAST(printf('%d', n))", ["2", "5", "8"]),
        ("PREV(list_sum(l), 2)", [0, 3, 6]),
        ("FIRST(coalesce(l, [n]), 1)", [[1, 1], [4], [1, 7]]),
        ("LAST(CLASSIFIER() || format('{}', n + MATCH_NUMBER()))", ["C3", "C6", "C9"]),
        ("NEXT(printf('%s', CLASSIFIER()))", [None, None, None]),
        ("PREV(r)", [{"a": 1}, {"a": 4}, {"a": 7}]),
        ("FIRST(s COLLATE NOCASE)", ["a", "b", None]),
    ],
)
def test_navigations_find_any_expression(measure: str, expected: list[Any]) -> None:
    """A value that DuckDB computes of a row is that of the row which is found, and NULL where there is none."""
    found = asked(f"PARTITION BY g ORDER BY n MEASURES {measure} AS a PATTERN (A B C)")
    assert [a for _, a in found] == expected


def test_what_duckdb_computes_is_known_of_whole_columns_where_it_can_be() -> None:
    """Only what depends on the match so far is asked row by row, where all else holds."""
    clause = """
        EXPLAIN SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY n MEASURES 1 AS x PATTERN (A B C D E)
            DEFINE A AS s LIKE s || '%' AND list_sum(l) > 3, B AS s LIKE A.s || '%' AND n > 3, C AS PREV(l) = [1],
                D AS list_contains(l, A.n), E AS printf('%d', n) = '3' AND n > A.n
        )"""
    told = [row[0].strip() for row in tidelog.sql(clause, tables={"t": TABLE}).fetchall()]
    assert "A: whole columns" in told
    assert "B: row by row, exactly and slowly, for an expression that DuckDB computes" in told
    assert "C: whole columns" in told
    assert "D: row by row, exactly and slowly, for values of type list<l: int64>" in told
    assert "E: code over the match so far" in told


def test_expressions_of_what_is_stored_and_of_what_arrives(tmp_path: Path) -> None:
    """The index rules out by what it knows, and DuckDB computes the rest."""
    count = 40_000
    rows = pa.table({"n": range(count), "k": [n // 100 for n in range(count)], "s": [f"{n % 7}" for n in range(count)]})
    clause = """
        FROM x MATCH_RECOGNIZE (
            ORDER BY n MEASURES A.n AS a, LAST(printf('%d', n)) AS b PATTERN (A B) SKIP TILL NEXT WITHIN 50
            DEFINE A AS k = 250 AND format('{}', s) = '3', B AS s LIKE A.s || '%' AND n > A.n + 7
        ) AS m"""
    expected = [(n, str(n + 14)) for n in range(25_000, 25_100) if n % 7 == 3 and (n - 25_000) // 7 % 3 == 0]
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("x", rows.schema, time="n")
        with store.subscribe(f"SELECT m.a, m.b, m.match_time {clause}") as arriving:
            stream.append(rows)
            stream.flush()
            found = store.sql(f"SELECT m.a, m.b {clause}")
            assert "stretches of time" in found.explain()
            assert found.fetchall() == expected
            told: list[tuple[Any, ...]] = []
            while len(told) < len(expected):
                told += [(row["a"], row["b"]) for row in next(arriving).to_pylist()]
        assert told == expected


def test_a_value_that_cannot_be_is_told_before_anything_runs() -> None:
    """Though DuckDB would find it out with the first row."""
    with pytest.raises(SqlError, match="'y' cannot be read as BIGINT") as caught:
        asked("ORDER BY n MEASURES 1 AS x PATTERN (A B) DEFINE A AS s LIKE s, B AS n = 'y'")
    assert caught.value.position is not None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "it's", "x y", "\u00e9", "#0", "#row", "measures"])
@pytest.mark.parametrize("value", ["{}", "PREV({} + 1)", "sum({})", "string_agg({}, '')::BIGINT"])
def test_columns_may_have_any_name(name: str, value: str) -> None:
    """Quotes, signs and words of the clause in it change nothing."""
    table = pa.table({"n": [1, 2, 3], name: [4, 5, 6]})
    quoted = name.replace('"', '""')
    about = value.format(f'"{quoted}"')
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES {about} AS a PATTERN (A B) DEFINE B AS {about} > 4)"
    expected = {"{}": 5, "PREV({} + 1)": 5, "sum({})": 9, "string_agg({}, '')::BIGINT": 45}
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [(expected[value],)]
