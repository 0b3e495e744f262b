"""Row patterns of windows inside of statements: where they may stand, what they are over, and how that is told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelog

N = None
TABLE = pa.table({"id": [1, 2, 3, 4, 5, 6], "v": [3, 2, 1, 2, 1, 5], "g": ["a", "a", "a", "b", "b", "b"]})
OTHER = pa.table({"key": [1, 2, 3, 4, 5, 6], "weight": [10, 20, 30, 40, 50, 60]})
FALL = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS v < PREV(v)"
W = f"w AS (ORDER BY id MEASURES LAST(v) AS m, count(*) AS rows {FALL})"
M = [1, N, N, 1, N, N]
"""The measure m over w: rows 1 to 3, and 4 and 5, are matches."""

TEXTS = [
    f"SELECT id, m OVER w FROM t WINDOW {W} ORDER BY id",
    f"SELECT id, M over W FROM t WINDOW {W} ORDER BY id",
    f'SELECT id, "m" OVER "w" FROM t WINDOW {W} ORDER BY id',
    f"SELECT t.id, m OVER w AS m FROM t WINDOW {W} ORDER BY t.id",
    f"SELECT x.id, m OVER w AS m FROM t AS x WINDOW {W} ORDER BY x.id",
    f"SELECT id, (m OVER w) AS m FROM t WINDOW {W} ORDER BY id",
    f"FROM t SELECT id, m OVER w WINDOW {W} ORDER BY id",
    f"SELECT id, m OVER w FROM (SELECT * FROM t) WINDOW {W} ORDER BY id",
    f"WITH c AS (SELECT * FROM t) SELECT id, m OVER w FROM c WINDOW {W} ORDER BY id",
    f"WITH c AS (SELECT id, m OVER w FROM t WINDOW {W}) SELECT * FROM c ORDER BY id",
    f"SELECT id, m FROM (SELECT id, m OVER w FROM t WINDOW {W}) ORDER BY id",
    f"SELECT id, m OVER ({W[6:-1]}) FROM t ORDER BY id",
    f"SELECT id, m OVER (w {W[18:-1]}) FROM t WINDOW w AS (ORDER BY id) ORDER BY id",
    f"SELECT id, m OVER w FROM t WINDOW k AS (ORDER BY id), w AS (k {W[18:-1]}) ORDER BY id",
    f"SELECT id, last_value(v) OVER w AS m FROM t WINDOW {W} ORDER BY id",
    f"SELECT id, min(t.v) OVER w AS m FROM t WINDOW {W} ORDER BY id",
    f"SELECT id, m OVER w FROM t WINDOW {W} UNION ALL SELECT id, m OVER w FROM t WHERE FALSE WINDOW {W} ORDER BY id",
    f"SELECT id, m OVER w FROM t JOIN o ON t.id = o.key WINDOW {W} ORDER BY t.id",
    f"SELECT t.id, m OVER w FROM t JOIN o ON t.id = o.key WHERE o.weight > 0 "
    f"WINDOW w AS (ORDER BY t.id {W[18:-1]}) ORDER BY id",
    f"SELECT * EXCLUDE (v, g), m OVER w FROM t WINDOW {W} ORDER BY id",
    f"SELECT DISTINCT id, m OVER w FROM t WINDOW {W} ORDER BY id LIMIT 6",
    f"SELECT id, m OVER w FROM t, (SELECT 1 AS one) WHERE one = $1 WINDOW {W} ORDER BY id",
]


@pytest.mark.parametrize("text", TEXTS)
def test_where_windows_stand(text: str) -> None:
    """Names count in any case, in one SELECT, in whatever order, over whatever rows."""
    params = [1] if "$1" in text else None
    found = tidelog.sql(text, params, tables={"t": TABLE, "o": OTHER})
    assert [name.lower() for name in found.columns] == ["id", "m"]
    assert found.fetchall() == list(zip(range(1, 7), M, strict=True))


def test_star_has_the_columns_of_the_table() -> None:
    """What is computed over a window, or for its keys, is no column of the table."""
    text = f"SELECT *, rows OVER w FROM t WINDOW w AS (PARTITION BY upper(g) ORDER BY -id, id {W[18:-1]}) ORDER BY id"
    found = tidelog.sql(text, tables={"t": TABLE})
    assert found.columns == ["id", "v", "g", "rows"]
    assert [row[3] for row in found.fetchall()] == [N, N, N, N, N, 2]
    assert tidelog.sql(f"SELECT t.* FROM t WINDOW {W} ORDER BY m OVER w, id", tables={"t": TABLE}).columns == [
        "id",
        "v",
        "g",
    ]


def test_names_of_columns() -> None:
    """A measure is called by its name, a function by its text."""
    text = f"SELECT m OVER w, count( * )  OVER w, sum(v) OVER w + 1 AS more, sum(v) OVER ({W[6:-1]}) FROM t WINDOW {W}"
    columns = tidelog.sql(text, tables={"t": TABLE}).columns
    assert columns == ["m", "count( * ) OVER w", "more", "sum(...) OVER (...)"]
    text = f"SELECT 'ü', abs(m OVER w), sum(v) OVER w + rows OVER w, max(m OVER w) OVER (ORDER BY id) FROM t WINDOW {W}"
    columns = tidelog.sql(text, tables={"t": TABLE}).columns[1:]
    assert columns == ["abs(m OVER w)", "(sum(v) OVER w + rows OVER w)", "max(m OVER w) OVER (ORDER BY id)"]


def test_two_windows_and_an_ordinary_one() -> None:
    """Each has its own matches; functions over others are as ever."""
    text = f"""
        SELECT id, m OVER w, up OVER other, sum(v) OVER plain, count(*) OVER other, m OVER w + up OVER other AS both
        FROM t WINDOW {W}, plain AS (ORDER BY id), other AS (ORDER BY id MEASURES LAST(id) AS up
            ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A B) DEFINE B AS v > PREV(v))
        ORDER BY id"""
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [
        (1, 1, N, 3, 0, N),
        (2, N, N, 5, 0, N),
        (3, N, 4, 6, 2, N),
        (4, 1, N, 8, 0, N),
        (5, N, 6, 9, 2, N),
        (6, N, N, 14, 0, N),
    ]


def test_conditions_before_and_behind_windows() -> None:
    """WHERE counts before windows, QUALIFY behind them."""
    text = f"SELECT id, rows OVER w FROM t WHERE id <> 2 WINDOW {W} QUALIFY m OVER w IS NOT NULL ORDER BY id"
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [(1, 2), (4, 2)]
    text = f"SELECT id FROM t WINDOW {W} QUALIFY count(*) OVER w > 2 OR rank() OVER (ORDER BY id DESC) = 1 ORDER BY 1"
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [(1,), (6,)]
    text = f"SELECT id FROM t WINDOW {W} ORDER BY m OVER w NULLS LAST, id DESC LIMIT 3"
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [(4,), (1,), (6,)]


def test_windows_inside_of_each_other() -> None:
    """A name counts in its own SELECT alone; a row pattern may be over what another one gives."""
    text = f"""
        SELECT id, n OVER w FROM (SELECT id, coalesce(m OVER w, 9) AS v FROM t WINDOW {W})
        WINDOW w AS (ORDER BY id MEASURES count(*) AS n {FALL}) ORDER BY id"""
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [(1, N), (2, N), (3, 2), (4, N), (5, N), (6, N)]
    text = """
        SELECT first, count(*) OVER w AS n FROM t MATCH_RECOGNIZE (
            ORDER BY id MEASURES FIRST(id) AS first, LAST(v) AS v PATTERN (A B*) DEFINE B AS v < PREV(v)
        ) WINDOW w AS (ORDER BY first ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A+) DEFINE A AS v = 1)
        ORDER BY first"""
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [(1, 2), (4, 0), (6, 0)]


def test_parameters_and_question_marks() -> None:
    """A question mark in a pattern is no parameter, before and behind it there may be some."""
    text = """SELECT id, m OVER w FROM t WHERE id > ? WINDOW w AS (ORDER BY id MEASURES LAST(v) + ? AS m
        ROWS BETWEEN CURRENT ROW AND ? FOLLOWING PATTERN (A?? B) DEFINE B AS v < ?) ORDER BY id"""
    assert tidelog.sql(text, [1, 100, 1, 2], tables={"t": TABLE}).fetchall() == [
        (2, 101), (3, N), (4, 101), (5, N), (6, N)
    ]  # fmt: skip


def test_streams_in_their_order(tmp_path: Path) -> None:
    """A stream is read as it is stored, and ``_seq`` orders what is of one time; EXPLAIN tells how it is done."""
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]), time="id")
        stream.append({"id": [1, 1, 2, 2, 3, 3], "v": [3, 2, 1, 2, 1, 5]})
        text = f"SELECT *, m OVER w FROM t WINDOW w AS (ORDER BY id, _seq {W[18:-1]}) ORDER BY id, _seq"
        found = store.sql(text)
        assert found.columns == ["id", "v", "m"]
        assert [row[2] for row in found.fetchall()] == M
        plan = "\n".join(str(row[0]) for row in store.sql(f"EXPLAIN {text}").fetchall())
        assert "WINDOW w with a row pattern: the rows of the stream in their order" in plan
        assert "searched for a match that begins with each row" in plan
        assert "B: code over the match so far" in plan
        sorted_ = text.replace("ORDER BY id, _seq L", "PARTITION BY v % 1 ORDER BY v L").replace(
            "FOLLOWING", "FOLLOWING SEEK", 1
        )
        plan = "\n".join(str(row[0]) for row in store.sql(f"EXPLAIN {sorted_}").fetchall())
        assert "the first match in the frame of each row" in plan
