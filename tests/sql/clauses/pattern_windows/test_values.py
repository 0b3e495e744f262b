"""Row patterns of windows, worked out by hand; most cases are those of Trino's documentation and tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tidelog

N = None
UNBOUNDED = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
NEXT_ROW = "AFTER MATCH SKIP TO NEXT ROW"
FALL_RISE = "PATTERN (A B+ C+) DEFINE B AS B.v < PREV(B.v), C AS C.v > PREV(C.v)"
FALLING = "PATTERN (B+) DEFINE B AS B.v > NEXT(B.v)"
PAIR = "PATTERN (A B) DEFINE A AS A.v = NEXT(A.v)"
V = [90, 80, 70, 80, 90, 50, 40, 60]
FOUR = [90, 80, 70, 70]
FIVE = [50, 80, 70, 60, 50]
TWICE = [10, 20, 30, 30, 40, 50]


def asked(values: list[Any], columns: str, window: str) -> list[tuple[Any, ...]]:
    """Some columns over a window of rows 1, 2, ... of some values."""
    table = pa.table({"id": pa.array(range(1, len(values) + 1), pa.int64()), "v": pa.array(values, pa.int64())})
    items = ", ".join(f"{each} OVER w" for each in columns.split("; "))
    found = tidelog.sql(f"SELECT {items} FROM t WINDOW w AS (ORDER BY id {window}) ORDER BY id", tables={"t": table})
    return [tuple(int(each) if isinstance(each, Decimal) else each for each in row) for row in found.fetchall()]


CASES: list[tuple[list[Any], str, str, list[Any]]] = [
    # -- one match from a row on, the rest skipped
    (V, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} {FALL_RISE}", [90, N, N, N, N, 60, N, N]),
    (V, "m", f"MEASURES RUNNING LAST(v) AS m {UNBOUNDED} {FALL_RISE}", [90, N, N, N, N, 60, N, N]),
    (V, "m", f"MEASURES CLASSIFIER() AS m {UNBOUNDED} {FALL_RISE}", ["C", N, N, N, N, "C", N, N]),
    (V, "m", f"MEASURES FIRST(v) AS m {UNBOUNDED} {FALL_RISE}", [90, N, N, N, N, 50, N, N]),
    (V, "m", f"MEASURES FIRST(B.v) AS m {UNBOUNDED} {FALL_RISE}", [80, N, N, N, N, 40, N, N]),
    (V, "m", f"MEASURES count(*) AS m {UNBOUNDED} {FALL_RISE}", [5, N, N, N, N, 3, N, N]),
    (V, "m", f"MEASURES 'yes' AS m {UNBOUNDED} {FALL_RISE}", ["yes", N, N, N, N, "yes", N, N]),
    (V, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} {FALL_RISE.replace('A B+ C+', '{- A B+ C+ -}')}",
     [90, N, N, N, N, 60, N, N]),
    # -- functions see the rows of the match, or none
    (V, "count(*)", f"{UNBOUNDED} {FALL_RISE}", [5, 0, 0, 0, 0, 3, 0, 0]),
    (V, "sum(v)", f"{UNBOUNDED} {FALL_RISE}", [410, N, N, N, N, 150, N, N]),
    (V, "min(v)", f"{UNBOUNDED} {FALL_RISE}", [70, N, N, N, N, 40, N, N]),
    (V, "first_value(v)", f"{UNBOUNDED} {FALL_RISE}", [90, N, N, N, N, 50, N, N]),
    (V, "nth_value(v, 2)", f"{UNBOUNDED} {FALL_RISE}", [80, N, N, N, N, 40, N, N]),
    (V, "nth_value(v, 4)", f"{UNBOUNDED} {FALL_RISE}", [80, N, N, N, N, N, N, N]),
    (V, "row_number()", f"{UNBOUNDED} {FALL_RISE}", [1, 2, 3, 4, 5, 6, 7, 8]),
    (V, "lag(v)", f"{UNBOUNDED} {FALL_RISE}", [N, 90, 80, 70, 80, 90, 50, 40]),
    (FIVE, "list(v)", f"{UNBOUNDED} {FALLING}", [N, [80, 70, 60], N, N, N]),
    # -- patterns
    (FOUR, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} PATTERN (() | A)", [N, N, N, N]),
    (FOUR, "m", f"MEASURES 'yes' AS m {UNBOUNDED} PATTERN (() | A)", ["yes", "yes", "yes", "yes"]),
    (FOUR, "count(*)", f"{UNBOUNDED} PATTERN (() | A)", [0, 0, 0, 0]),
    (FOUR, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} PATTERN (A B C) DEFINE B AS v < PREV(v), C AS v = PREV(v)",
     [N, 70, N, N]),
    (FOUR, "m", f"MEASURES CLASSIFIER() AS m {UNBOUNDED} PATTERN (B | C | A) DEFINE B AS v < PREV(v), "
     "C AS v <= PREV(v)", ["A", "A", "A", "A"]),
    (FOUR, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} PATTERN (PERMUTE(B, C, A)) DEFINE B AS v < PREV(v), "
     "C AS v < PREV(v)", [70, N, N, N]),
    (FOUR, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} PATTERN (A B+?) DEFINE B AS v <= PREV(v)", [80, N, 70, N]),
    (FOUR, "m", f"MEASURES CLASSIFIER() AS m {UNBOUNDED} PATTERN (A B??) DEFINE B AS v <= PREV(v)",
     ["A", "A", "A", "A"]),
    (FOUR, "m", f"MEASURES CLASSIFIER() AS m {UNBOUNDED} PATTERN (A B{{2,}}? | C) DEFINE B AS v <= PREV(v)",
     ["B", N, N, "C"]),
    (FOUR, "m", f"MEASURES LAST(v) AS m {UNBOUNDED} PATTERN (B{{5,}}) DEFINE B AS v <= PREV(v)", [N, N, N, N]),
    ([90, 80, 70, 80], "m", f"MEASURES CLASSIFIER(U) AS m {UNBOUNDED} PATTERN ((L | H) A) SUBSET U = (L, H) "
     "DEFINE A AS A.v = 80, L AS L.v < 80, H AS H.v > 80", ["H", N, "L", N]),
    ([70, 80, 80, 70], "m", f"MEASURES CLASSIFIER() AS m {UNBOUNDED} PATTERN (B | ()*) DEFINE B AS v >= NEXT(v)",
     [N, "B", "B", N]),
    # -- where the search goes on
    ([90, 80, 70, 80, 70, 100], "m", f"MEASURES LAST(v) AS m {UNBOUNDED} {NEXT_ROW} "
     "PATTERN (A B+ C+ | E) DEFINE B AS v < PREV(v), C AS v > PREV(v)", [80, 80, 70, 100, 70, 100]),
    ([90, 80, 70, 80, 70, 100], "m", f"MEASURES LAST(v) AS m {UNBOUNDED} AFTER MATCH SKIP TO FIRST C "
     f"{FALL_RISE}", [80, N, N, 100, N, N]),
    ([90, 80, 70, 80, 70, 100], "m", f"MEASURES LAST(v) AS m {UNBOUNDED} AFTER MATCH SKIP TO LAST B "
     f"{FALL_RISE}", [80, N, N, 100, N, N]),
    # -- INITIAL and SEEK
    (FIVE, "list(v)", f"{UNBOUNDED} {NEXT_ROW} INITIAL {FALLING}", [N, [80, 70, 60], [70, 60], [60], N]),
    (FIVE, "list(v)", f"{UNBOUNDED} {NEXT_ROW} SEEK {FALLING}", [[80, 70, 60], [80, 70, 60], [70, 60], [60], N]),
    (FIVE, "list(v)", f"{UNBOUNDED} SEEK {FALLING}", [[80, 70, 60], N, N, N, N]),
    ([10, 20, 30, 40, 10], "list(v)", f"{UNBOUNDED} {NEXT_ROW} SEEK {FALLING}", [[40], [40], [40], [40], N]),
    ([10, 20, 30, 40, 10], "list(v)", f"{UNBOUNDED} SEEK {FALLING}", [[40], N, N, N, N]),
    ([100, 100], "list(v)", f"{UNBOUNDED} SEEK {FALLING}", [N, N]),
    (FIVE, "list(v)", f"ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING SEEK {FALLING}", [[80], N, [70, 60], N, N]),
    (FIVE, "list(v)", f"ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING {NEXT_ROW} SEEK {FALLING}",
     [[80], [80, 70], [70, 60], [60], N]),
    # -- the frame limits the match, and what is seen
    ([1, 2, 6, 0, 2], "m", f"MEASURES LAST(id) AS m ROWS BETWEEN CURRENT ROW AND v FOLLOWING {NEXT_ROW} PATTERN (A+)",
     [2, 4, 5, 4, 5]),
    ([1, 2, 6, 0, 2], "count(*)", f"ROWS BETWEEN CURRENT ROW AND 1 + 1 FOLLOWING {NEXT_ROW} PATTERN (A+)",
     [3, 3, 3, 2, 1]),
    ([1, 2, 6, 0, 2], "count(*)", f"ROWS BETWEEN CURRENT ROW AND CURRENT ROW {NEXT_ROW} PATTERN (A+)", [1, 1, 1, 1, 1]),
    ([1, 2, 6, 0, 2], "count(*)", f"ROWS CURRENT ROW EXCLUDE NO OTHERS {NEXT_ROW} PATTERN (A+)", [1, 1, 1, 1, 1]),
    ([1, 2, 6, 0, 2], "count(*)", "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A+)", [2, 0, 2, 0, 1]),
    (TWICE, "m", f"MEASURES PREV(B.id, 1) AS m {UNBOUNDED} {PAIR}", [N, N, 3, N, N, N]),
    (TWICE, "m", f"MEASURES PREV(B.id, 2) AS m {UNBOUNDED} {PAIR}", [N, N, N, N, N, N]),
    (TWICE, "m", f"MEASURES NEXT(B.id, 2) AS m {UNBOUNDED} {PAIR}", [N, N, 6, N, N, N]),
    (TWICE, "m", f"MEASURES NEXT(B.id, 1) AS m ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING {PAIR}", [N] * 6),
    (TWICE, "m", f"MEASURES PREV(B.id, 3) AS m ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING SEEK {PAIR}",
     [1, N, N, N, N, N]),
    (TWICE, "m", f"MEASURES NEXT(B.id, 1) AS m ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING SEEK {PAIR}",
     [5, N, N, N, N, N]),
    (TWICE, "m", f"MEASURES NEXT(B.id, 2) AS m ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING SEEK {PAIR}", [N] * 6),
    (TWICE, "m", f"MEASURES PREV(B.id, 2) AS m ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING SEEK {PAIR}",
     [N, 2, N, N, N, N]),
    (TWICE, "m", f"MEASURES PREV(B.id, 1) AS m ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING {NEXT_ROW} SEEK {PAIR}",
     [N, 3, 3, N, N, N]),
    (TWICE, "m", f"MEASURES LAST(id) AS m ROWS CURRENT ROW SEEK {PAIR}", [N] * 6),
    ([1, 2, 3], "m", f"MEASURES NEXT(FIRST(v), 2) AS m {UNBOUNDED} PATTERN (A+)", [3, N, N]),
    ([1, 2, 3], "m", f"MEASURES PREV(FIRST(v, 10), 2) AS m {UNBOUNDED} PATTERN (A+)", [N, N, N]),
    # -- conditions about the match so far
    ([1, 2, 3, 4], "list(v)", f"{UNBOUNDED} PATTERN (A+) DEFINE A AS sum(v) < 7", [[1, 2, 3], N, N, [4]]),
    ([1, 2, 3, 4], "list(v)", f"{UNBOUNDED} {NEXT_ROW} PATTERN (A B+) DEFINE B AS v <= A.v + 2",
     [[1, 2, 3], [2, 3, 4], [3, 4], N]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "column", "window", "expected"), CASES)
def test_one_column(values: list[Any], column: str, window: str, expected: list[Any]) -> None:
    """What is computed over a window for each row."""
    assert [each for (each,) in asked(values, column, window)] == expected


def test_partitions_in_no_order() -> None:
    """Rows are partitioned and sorted; functions that number rows see the partition, others the match."""
    rows = [(1, "p", 90), (2, "p", 80), (6, "p", 80), (2, "q", 20), (3, "p", 70), (4, "p", 80), (5, "p", 90)]
    rows += [(1, "q", 20), (3, "q", 10)]
    table = pa.table(dict(zip(("id", "part", "v"), map(list, zip(*rows, strict=True)), strict=True)))
    text = f"""
        SELECT part, id, val OVER w, label OVER w, row_number() OVER w, list(v) OVER w FROM t
        WINDOW w AS (
            PARTITION BY part ORDER BY id MEASURES RUNNING LAST(v) AS val, CLASSIFIER() AS label
            {UNBOUNDED} AFTER MATCH SKIP PAST LAST ROW {FALLING}
        ) ORDER BY part, id"""
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [
        ("p", 1, 80, "B", 1, [90, 80]),
        ("p", 2, N, N, 2, N),
        ("p", 3, N, N, 3, N),
        ("p", 4, N, N, 4, N),
        ("p", 5, 90, "B", 5, [90]),
        ("p", 6, N, N, 6, N),
        ("q", 1, N, N, 1, N),
        ("q", 2, 20, "B", 2, [20]),
        ("q", 3, N, N, 3, N),
    ]


def test_rows_without_a_place_to_skip_to() -> None:
    """It is an error where the search goes on, as for tables."""
    with pytest.raises(tidelog.TidelogError, match="no row is bound to D"):
        asked(V, "count(*)", f"{UNBOUNDED} AFTER MATCH SKIP TO D PATTERN (A D?) DEFINE D AS FALSE")
    with pytest.raises(tidelog.TidelogError, match="bound to the first row"):
        asked(V, "count(*)", f"{UNBOUNDED} AFTER MATCH SKIP TO A PATTERN (A B)")


def test_numbers_of_rows_that_are_none() -> None:
    """A column that tells the end of frames has to tell it for each row."""
    for value, told in ((-1, "-1"), (None, "NULL")):
        with pytest.raises(tidelog.TidelogError, match=f"found {told} rows FOLLOWING"):
            asked([1, value], "count(*)", "ROWS BETWEEN CURRENT ROW AND v FOLLOWING PATTERN (A)")


def test_many_batches() -> None:
    """Rows come in batches, and frames reach over their ends."""
    count = 300_000
    table = pa.table({"id": pa.array(range(count)), "v": pa.array([at % 1000 for at in range(count)])})
    text = "SELECT id, count(*) OVER w AS n FROM t WINDOW w AS (ORDER BY id {} PATTERN (A B+) DEFINE B AS v > {})"
    found = tidelog.sql(f"SELECT n, count(*), min(id % 1000) FROM ({text.format(UNBOUNDED, 'PREV(v)')}) GROUP BY n "
                        "ORDER BY n", tables={"t": table})  # fmt: skip
    assert found.fetchall() == [(0, 299_700, 1), (1000, 300, 0)]
    frame = f"ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING {NEXT_ROW} SEEK"
    found = tidelog.sql(f"SELECT n, count(*) FROM ({text.format(frame, 'PREV(v)')}) GROUP BY n ORDER BY n",
                        tables={"t": table})  # fmt: skip
    # The last rows of a thousand have fewer; the very last one of them finds what begins behind it.
    assert found.fetchall() == [(0, 1), *((n, 300) for n in range(2, 9)), (9, 599), (10, 297_300)]
