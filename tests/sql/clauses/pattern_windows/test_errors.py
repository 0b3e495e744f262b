"""What row patterns of windows cannot be, told at its place before anything runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

TABLE = pa.table({"id": [1], "v": [2], "s": ["a"], "g": [1]})
ROWS = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"

WINDOWS: list[tuple[str, str, str]] = [
    # -- the frame
    ("ORDER BY id PATTERN (A)", "has a frame", "PATTERN"),
    ("ORDER BY id MEASURES v AS m PATTERN (A)", "has a frame", "PATTERN"),
    ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW PATTERN (A)", "another start", "UNBOUNDED"),
    ("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW PATTERN (A)", "another start", "1 PRECEDING"),
    ("ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING PATTERN (A)", "another start", "1 FOLLOWING"),
    ("ROWS UNBOUNDED PRECEDING PATTERN (A)", "another start", "UNBOUNDED"),
    ("RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A)", "a frame of RANGE", "BETWEEN"),
    ("GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A)", "a frame of GROUPS", "BETWEEN"),
    ("ROWS BETWEEN CURRENT ROW AND 1 PRECEDING PATTERN (A)", "expected FOLLOWING", "PRECEDING"),
    ("ROWS BETWEEN CURRENT ROW AND -1 FOLLOWING PATTERN (A)", "a whole number of rows", "-1"),
    ("ROWS BETWEEN CURRENT ROW AND 1.5 FOLLOWING PATTERN (A)", "a whole number of rows", "1.5"),
    ("ROWS BETWEEN CURRENT ROW AND NULL FOLLOWING PATTERN (A)", "a whole number of rows", "NULL"),
    ("ROWS BETWEEN CURRENT ROW AND s FOLLOWING PATTERN (A)", "a whole number of rows", "s FOLLOWING"),
    ("ROWS BETWEEN CURRENT ROW AND FOLLOWING PATTERN (A)", "expected a number of rows", "FOLLOWING"),
    (f"{ROWS} EXCLUDE CURRENT ROW PATTERN (A)", "found EXCLUDE", "EXCLUDE"),
    (f"{ROWS} EXCLUDE TIES PATTERN (A)", "found EXCLUDE", "EXCLUDE"),
    # -- parts
    (f"PATTERN (A) {ROWS}", "has a frame", "PATTERN"),
    (f"{ROWS} MEASURES v AS m PATTERN (A)", "in their order", "MEASURES"),
    (f"{ROWS} PATTERN (A) SEEK", "in their order", "SEEK"),
    (f"{ROWS} INITIAL SEEK PATTERN (A)", "in their order", "SEEK"),
    (f"{ROWS} AFTER MATCH PATTERN (A)", "found PATTERN behind AFTER MATCH; expected SKIP", "PATTERN"),
    (f"{ROWS} PATTERN (A) ORDER BY id", "in their order", "ORDER"),
    (f"ONE ROW PER MATCH {ROWS} PATTERN (A)", "every row has one match", "ONE"),
    (f"ORDER BY id ALL ROWS PER MATCH {ROWS} PATTERN (A)", "every row has one match", "ALL"),
    (f"{ROWS} ALL MATCHES PATTERN (A)", "in their order", "ALL"),
    (f"{ROWS} PATTERN (A) WITHIN 5", "where the frame says", "5"),
    (f"{ROWS} PATTERN (A) SKIP TILL NEXT", "where the frame says", "TILL"),
    (f"{ROWS} PATTERN (A) LIMIT 5 ROWS", "where the frame says", "5"),
    (f"other {ROWS} PATTERN (A)", "no window 'other' before", "other"),
    (f"plain PARTITION BY g {ROWS} PATTERN (A)", "found PARTITION BY in a window", "plain"),
    (f"plain ORDER BY v {ROWS} PATTERN (A)", "found ORDER BY in a window", "plain"),
    (f"framed {ROWS} PATTERN (A)", "more than keys in window framed", "ROWS BETWEEN 1"),
    # -- patterns and names
    (f"{ROWS} PATTERN (^ A)", "the anchor ^", "^"),
    (f"{ROWS} PATTERN (A $)", "the anchor $", "$"),
    (f"MEASURES MATCH_NUMBER() AS m {ROWS} PATTERN (A)", "MATCH_NUMBER() in a window", "MATCH_NUMBER"),
    (f"MEASURES sum(MATCH_NUMBER()) AS m {ROWS} PATTERN (A)", "MATCH_NUMBER() in a window", "MATCH_NUMBER"),
    (f"{ROWS} PATTERN (A) DEFINE A AS MATCH_NUMBER() > 1", "MATCH_NUMBER() in a window", "MATCH_NUMBER"),
    (f"{ROWS} PATTERN (A) DEFINE B AS TRUE", "not in the pattern", "B AS"),
    (f"{ROWS} PATTERN (A) DEFINE A AS FINAL LAST(v) > 1", "FINAL in DEFINE", "LAST"),
    (f"{ROWS} PATTERN (A) DEFINE A AS v", "of type int64", "A AS v"),
    (f"{ROWS} AFTER MATCH SKIP TO B PATTERN (A)", "no variable of the pattern", "B PATTERN"),
    (f"MEASURES CLASSIFIER(B) AS m {ROWS} PATTERN (A)", "no variable 'B'", "B)"),
    (f"MEASURES B.v AS m {ROWS} PATTERN (A)", "neither a variable nor a column 'B'", "B.v"),
    (f"MEASURES w AS m {ROWS} PATTERN (A)", "no column 'w'", "w AS m"),
    (f"MEASURES v AS m, v AS M {ROWS} PATTERN (A)", "two measures M", "v AS M"),
    (f"MEASURES (SELECT PREV(1)) AS m {ROWS} PATTERN (A)", "found PREV inside of a query", "PREV("),
]


@pytest.mark.parametrize(("window", "message", "place"), WINDOWS, ids=[each[0] for each in WINDOWS])
def test_error_of_a_window_is_told_at_its_place(window: str, message: str, place: str) -> None:
    """What breaks a rule is refused, whether a window is used or not."""
    framed = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
    before = f"plain AS (PARTITION BY g ORDER BY id), framed AS (ORDER BY id {framed})"
    text = f"SELECT count(*) OVER w FROM t WINDOW {before}, w AS ({window})"
    with pytest.raises(SqlError) as caught:
        tidelog.sql(text, tables={"t": TABLE})
    assert message in caught.value.message
    start = 0 if place.startswith("ROWS BETWEEN 1") else text.index("w AS (") + 6
    assert caught.value.position in [at for at in range(start, len(text)) if text.startswith(place, at)]


W = f"WINDOW w AS (ORDER BY id MEASURES v AS m, 1 AS total {ROWS} PATTERN (A))"
STATEMENTS: list[tuple[str, str, str]] = [
    (f"SELECT n OVER w FROM t {W}", "no measure 'n' in window w", "n OVER"),
    (f"SELECT totl OVER w FROM t {W}", "did you mean 'total'", "totl"),
    (f"SELECT m OVER w FROM t WHERE m OVER w > 1 {W}", "SELECT, QUALIFY or ORDER BY", "m OVER w >"),
    (f"SELECT id FROM t WHERE count(*) OVER w > 1 {W}", "SELECT, QUALIFY or ORDER BY", "count"),
    (f"SELECT m OVER w FROM t GROUP BY m {W}", "beside GROUP BY", "m OVER"),
    (f"SELECT m OVER w FROM t GROUP BY ALL {W}", "beside GROUP BY", "m OVER"),
    (f"SELECT m OVER w, max(v) FROM t {W}", "found the aggregate max", "max"),
    (f"SELECT m OVER w {W}", "over no table", "m OVER"),
    (f"SELECT abs(v) OVER w FROM t {W}", "found abs over a window", "abs"),
    (f"SELECT nth_value(v, id) OVER w FROM t {W}", "nth_value without the number", "nth_value"),
    (f"SELECT nth_value(v, 0) OVER w FROM t {W}", "nth_value without the number", "nth_value"),
    (f"SELECT sum(w) OVER w FROM t {W}", "no column 'w'", "w) OVER"),
    (f"SELECT t, m OVER w FROM t {W}", "found a whole row", "t, m"),
    (f"SELECT m OVER w FROM t JOIN t AS o USING (id) {W}", "two columns 'v' in the input of WINDOW", "(ORDER"),
    (f"SELECT COLUMNS('v'), m OVER w FROM t {W}", "COLUMNS with a condition", "COLUMNS"),
    (f"SELECT o.*, m OVER w FROM t JOIN (SELECT id AS other FROM t) o ON t.id = other {W}", "o.* of a join", "o.*"),
    (f"SELECT id FROM t WINDOW w AS (ORDER BY id {ROWS} PATTERN (A) DEFINE)", "expected a variable", ")"),
    (f"SELECT m OVER w FROM (SELECT m OVER w FROM t) {W}", "OVER", "OVER"),
]


@pytest.mark.parametrize(("text", "message", "place"), STATEMENTS, ids=[each[0] for each in STATEMENTS])
def test_error_of_a_use_is_told_at_its_place(text: str, message: str, place: str) -> None:
    """So is what is asked of a window."""
    with pytest.raises(SqlError) as caught:
        tidelog.sql(text, tables={"t": TABLE})
    assert message in caught.value.message
    assert caught.value.position in [at for at in range(len(text)) if text.startswith(place, at)]


def test_streams_that_arrive_have_none(tmp_path: Path) -> None:
    """A continuous query names what it does not take, and where."""
    with tidelog.open(tmp_path) as store:
        store.create_stream("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]), time="id")
        for text in (f"SELECT id, m OVER w FROM t {W}", f"SELECT id, count(*) OVER w AS n FROM t WHERE v > 1 {W}"):
            with pytest.raises(SqlError, match="found a row pattern in a window, instead of MATCH_RECOGNIZE") as caught:
                store.subscribe(text)
            assert caught.value.position == text.index("(ORDER")
