"""Measures and conditions, worked out by hand, and examples that others have published, written anew."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.row_patterns.values import ALL, ONE, TABLE, UNMATCHED


def asked(text: str, table: pa.Table = TABLE) -> list[tuple[Any, ...]]:
    """The rows of a statement; decimals, which sums are, as integers."""
    rows = tidelog.sql(text, tables={"t": table}).fetchall()
    return [tuple(int(each) if isinstance(each, Decimal) else each for each in row) for row in rows]


@pytest.mark.parametrize(("measures", "rest", "expected"), ONE, ids=[f"{m} {r}" for m, r, _ in ONE])
def test_one_row_per_match(measures: str, rest: str, expected: list[tuple[Any, ...]]) -> None:
    """Measures of whole matches."""
    assert asked(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES {measures} {rest})") == expected


@pytest.mark.parametrize(("measures", "rest", "expected"), ALL, ids=[f"{m} {r}" for m, r, _ in ALL])
def test_all_rows_per_match(measures: str, rest: str, expected: list[tuple[Any, ...]]) -> None:
    """Measures of a match up to each row, and FINAL ones."""
    text = f"ORDER BY n MEASURES {measures} ALL ROWS PER MATCH {rest}"
    found = asked(f"SELECT * EXCLUDE (price, v, s) FROM t MATCH_RECOGNIZE ({text})")
    assert found == expected


@pytest.mark.parametrize(
    ("measures", "which", "rest", "expected"), UNMATCHED, ids=[f"{w} {m}" for m, w, *_ in UNMATCHED]
)
def test_rows_without_a_match(measures: str, which: str, rest: str, expected: list[tuple[Any, ...]]) -> None:
    """Empty matches and rows that are in none."""
    text = f"ORDER BY n MEASURES {measures} ALL ROWS PER MATCH {which} {rest}"
    assert asked(f"SELECT * EXCLUDE (price, v, s) FROM t MATCH_RECOGNIZE ({text}) ORDER BY n") == expected


# -- published examples -----------------------------------------------------------------------------------------------

TICKER = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]


def prices(values: list[int], **more: list[Any]) -> pa.Table:
    """Prices of days that are counted from 1 on."""
    return pa.table({"day": list(range(1, len(values) + 1)), "price": values, **more})


def test_v_shapes_of_a_ticker() -> None:
    """The first example of Oracle's guide: a fall and a rise, the last day of which begins the next."""
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES STRT.day AS start, LAST(DOWN.day) AS bottom, LAST(UP.day) AS stop
            ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP
            PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)
        )""",
        prices(TICKER),
    )
    assert found == [(5, 6, 10), (10, 12, 13), (14, 16, 18)]


def test_v_shapes_with_all_rows() -> None:
    """The second one: rows, their variables, running and final counts."""
    found = asked(
        """SELECT day, number, variable, ups, all_ups, days, gain FROM t MATCH_RECOGNIZE (
            ORDER BY day
            MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS variable, count(UP.day) AS ups,
                FINAL count(UP.day) AS all_ups, RUNNING count(day) AS days, price - STRT.price AS gain
            ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST UP
            PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
        ) WHERE number = 1 ORDER BY day""",
        prices(TICKER),
    )
    assert found == [
        (5, 1, "STRT", 0, 4, 1, 0),
        (6, 1, "DOWN", 0, 4, 2, -13),
        (7, 1, "UP", 1, 4, 3, -10),
        (8, 1, "UP", 2, 4, 4, -5),
        (9, 1, "UP", 3, 4, 5, -1),
        (10, 1, "UP", 4, 4, 6, 0),
    ]


def test_w_shape() -> None:
    """Two falls and two rises, one after the other."""
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES STRT.day AS start, Z.day AS stop
            ONE ROW PER MATCH AFTER MATCH SKIP TO LAST Z
            PATTERN (STRT X+ Y+ W+ Z+)
            DEFINE X AS price < PREV(price), Y AS price > PREV(price),
                W AS price < PREV(price), Z AS price > PREV(price)
        )""",
        prices(TICKER),
    )
    assert found == [(5, 13)]


def test_reluctant_pattern_stops_early() -> None:
    """TR 19075-5, quantifiers: as few rows as the rest lets be."""
    text = """SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY day MEASURES count(A.*) AS a, count(B.*) AS b
        PATTERN (A{2,3}%s B+) DEFINE A AS price < 20, B AS price > 0
    )"""
    table = prices([10, 11, 12, 13, 30])
    assert asked(text % "", table) == [(3, 2)]
    assert asked(text % "?", table) == [(2, 3)]


def test_subset_of_variables() -> None:
    """TR 19075-5, union variables: an average over the rows of two variables."""
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES avg(U.price) AS low, avg(STRT.price) AS start, CLASSIFIER(U) AS last
            PATTERN (STRT DOWN+ UP+) SUBSET U = (DOWN, UP)
            DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
        )""",
        prices([20, 10, 6, 8, 12]),
    )
    assert found == [(9.0, 20.0, "UP")]


def test_orders_that_fall_and_rise_above_their_start() -> None:
    """The example of Trino's page: a fall, a rise up to the start, and a rise above it."""
    table = pa.table(
        {
            "customer": ["c1"] * 4 + ["c2"] * 5,
            "day": [1, 2, 3, 4, 1, 2, 3, 4, 5],
            "price": [100, 80, 90, 110, 50, 40, 45, 49, 70],
        }
    )
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY customer ORDER BY day
            MEASURES A.price AS start, LAST(B.price) AS bottom, LAST(U.price) AS top
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A B+ C+ D+) SUBSET U = (C, D)
            DEFINE B AS price < PREV(price), C AS price > PREV(price) AND price <= A.price, D AS price > PREV(price)
        ) ORDER BY customer""",
        table,
    )
    assert found == [("c1", 100, 80, 110), ("c2", 50, 40, 70)]


def test_fall_and_one_rise() -> None:
    """The first example of Flink's page: the fall ends with one higher price."""
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES START_ROW.day AS start, LAST(PRICE_DOWN.day) AS bottom, LAST(PRICE_UP.day) AS stop
            ONE ROW PER MATCH AFTER MATCH SKIP TO LAST PRICE_UP
            PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
            DEFINE
                PRICE_DOWN AS (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price)
                    OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
                PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)
        )""",
        prices([12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]),
    )
    assert found == [(5, 8, 9)]


def test_average_below_a_threshold() -> None:
    """The second one: as long as the average of a run stays below 15."""
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES FIRST(A.day) AS start, LAST(A.day) AS stop, avg(A.price) AS average
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A+ B) DEFINE A AS avg(A.price) < 15
        )""",
        prices([12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]),
    )
    assert found == [(1, 4, 14.5), (6, 11, 13.5)]


def test_drop_within_an_hour() -> None:
    """The third one: WITHIN limits how long a match may take."""
    text = """SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts MEASURES C.ts - A.ts AS took, A.price - C.price AS lost
        PATTERN (A B* C) WITHIN INTERVAL '1' HOUR
        DEFINE B AS B.price > A.price - 10, C AS C.price < A.price - 10
    )"""
    table = tidelog.sql(
        """SELECT * FROM (VALUES ('x', TIMESTAMP '2026-04-01 10:00:00', 20), ('x', TIMESTAMP '2026-04-01 10:20:00', 17),
            ('x', TIMESTAMP '2026-04-01 10:40:00', 18), ('x', TIMESTAMP '2026-04-01 11:00:00', 11),
            ('x', TIMESTAMP '2026-04-01 11:20:00', 14), ('x', TIMESTAMP '2026-04-01 11:40:00', 9),
            ('x', TIMESTAMP '2026-04-01 12:00:00', 25), ('x', TIMESTAMP '2026-04-01 12:40:00', 14),
            ('x', TIMESTAMP '2026-04-01 13:00:00', 13)) AS v(symbol, ts, price)"""
    ).arrow()
    found = asked(text, table)
    assert [(took.total_seconds(), lost) for _, took, lost in found] == [(2400.0, 11)]


def test_rise_then_fall_of_companies() -> None:
    """Like Snowflake's example: V shapes of two companies, with what the neighbours of the match were."""
    table = pa.table(
        {
            "company": ["A"] * 6 + ["B"] * 6,
            "day": list(range(1, 7)) * 2,
            "price": [50, 36, 39, 42, 30, 47, 80, 70, 75, 72, 60, 90],
        }
    )
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY company ORDER BY day
            MEASURES MATCH_NUMBER() AS number, FIRST(day) AS start, LAST(day) AS stop, count(*) AS days,
                count(lower.*) AS falls, count(higher.*) AS rises, PREV(FIRST(day)) AS before, NEXT(LAST(day)) AS after
            AFTER MATCH SKIP TO LAST higher
            PATTERN (start_row lower+ higher+) DEFINE lower AS price < PREV(price), higher AS price > PREV(price)
        ) ORDER BY company, number""",
        table,
    )
    assert found == [
        ("A", 1, 1, 4, 4, 1, 2, None, 5),
        ("A", 2, 4, 6, 3, 1, 1, 3, None),
        ("B", 1, 1, 3, 3, 1, 1, None, 4),
        ("B", 2, 3, 6, 4, 2, 1, 2, None),
    ]


def test_reference_to_an_earlier_event() -> None:
    """A rise of five degrees: the row that ends it would go on rising too, but nothing follows that does."""
    table = pa.table({"ts": [1, 2, 3, 4, 5], "temp": [20, 21, 23, 25, 24]})
    text = """SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY ts MEASURES FIRST(ts) AS start, LAST(ts) AS stop %s
        PATTERN (A B* C) DEFINE B AS temp > PREV(temp), C AS temp >= A.temp + 5
    )"""
    assert asked(text % "", table) == [(1, 4)]
    assert asked(text % "ALL MATCHES", table) == [(1, 4)]


def test_partitions_count_their_matches() -> None:
    """MATCH_NUMBER begins anew in each partition."""
    found = asked(
        """SELECT s, number, n FROM t MATCH_RECOGNIZE (
            PARTITION BY s ORDER BY n MEASURES MATCH_NUMBER() AS number, n AS n PATTERN (A)
        ) ORDER BY n"""
    )
    assert found == [
        ("a", 1, 1),
        ("b", 1, 2),
        ("b", 2, 3),
        ("c", 1, 4),
        ("a", 2, 5),
        ("b", 3, 6),
        ("c", 2, 7),
        ("c", 3, 8),
    ]


def test_small_transfers_before_a_large_one() -> None:
    """Like Oracle's example of fraud: three small transfers within 30 days, a large one within 10 days of the last."""
    table = pa.table(
        {
            "who": ["jo"] * 6 + ["al"] * 5,
            "day": [1, 5, 9, 30, 38, 70, 1, 2, 40, 41, 42],
            "amount": [500, 900, 100, 1500, 2_000_000, 5_000_000, 10, 20, 30, 40, 3_000_000],
        }
    )
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY who ORDER BY day
            MEASURES FIRST(S.day) AS first_small, LAST(S.day) AS last_small, L.amount AS amount, count(S.*) AS smalls
            PATTERN (S{3,} L)
            DEFINE S AS amount < 2000 AND LAST(S.day) - FIRST(S.day) < 30,
                L AS amount >= 1000000 AND day - LAST(S.day) < 10
        )""",
        table,
    )
    assert found == [("jo", 1, 30, 2_000_000, 4)]  # al has two small ones within 30 days, and three within 40


def test_calls_that_drop() -> None:
    """Like Oracle's example of calls: a call, and calls of the same two soon behind it, count as one."""
    table = pa.table(
        {
            "caller": ["x"] * 5 + ["y"] * 2,
            "start": [0, 70, 150, 400, 500, 0, 100],
            "stop": [60, 140, 200, 450, 520, 50, 130],
        }
    )
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY caller ORDER BY start
            MEASURES A.start AS since, LAST(B.stop) AS until, count(B.*) AS restarts,
                A.stop - A.start + sum(B.stop - B.start) AS spoken
            PATTERN (A B+) DEFINE B AS start - PREV(stop) <= 50
        ) ORDER BY caller, since""",
        table,
    )
    assert found == [("x", 0, 200, 2, 180), ("x", 400, 520, 1, 70), ("y", 0, 130, 1, 80)]


def test_falls_of_a_size() -> None:
    """Like Oracle's example of dips: a day on which the price is 8 per cent below that of the first day, and more."""
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES A.day AS first_day, B.day AS deep_day, FINAL LAST(C.day) AS back, A.price AS was
            AFTER MATCH SKIP TO B
            PATTERN (A B C*) DEFINE B AS (A.price - B.price) / A.price > 0.08, C AS C.price < A.price
        )""",
        prices([100, 99, 90, 95, 98, 99, 100, 91, 80, 100]),
    )
    assert found == [(2, 3, 5, 99), (7, 8, 9, 100), (8, 9, None, 91)]


def test_what_is_left_out_of_all_rows() -> None:
    """Like the examples of exclusion of Trino's and Snowflake's pages: the row at the bottom does not come out."""
    found = asked(
        """SELECT day, price, label, number FROM t MATCH_RECOGNIZE (
            ORDER BY day MEASURES CLASSIFIER() AS label, MATCH_NUMBER() AS number
            ALL ROWS PER MATCH
            PATTERN (TOP DOWN*? {- BOTTOM -} UP+)
            DEFINE DOWN AS price < PREV(price), BOTTOM AS price < PREV(price) AND price < NEXT(price),
                UP AS price > PREV(price)
        )""",
        prices([90, 80, 70, 85, 60, 65]),
    )
    assert found == [(1, 90, "TOP", 1), (2, 80, "DOWN", 1), (4, 85, "UP", 1)]


def test_order_of_parts_does_not_matter() -> None:
    """Like the example of PERMUTE of Trino's page: of several orders the one that is written first."""
    table = pa.table({"n": range(1, 10), "s": list("abcbcacba")})
    found = asked(
        """SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY n MEASURES string_agg(CLASSIFIER(), '') AS found, FIRST(n) AS at
            PATTERN (PERMUTE(A, B, C)) DEFINE A AS s = 'a', B AS s = 'b', C AS s = 'c'
        )""",
        table,
    )
    assert found == [("ABC", 1), ("BCA", 4), ("CBA", 7)]


def test_rows_to_skip_to_are_told_if_they_are_none() -> None:
    """When it runs: what the variable is bound to is not known before."""
    text = """SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY day MEASURES day AS day AFTER MATCH SKIP TO {} PATTERN ({}) DEFINE B AS price > 100)"""
    with pytest.raises(tidelog.TidelogError, match="B bound to the first row of a match"):
        asked(text.format("B", "B A"), prices([200, 1]))
    with pytest.raises(tidelog.TidelogError, match="in which no row is bound to B"):
        asked(text.format("FIRST B", "A B?"), prices([1, 2]))
    assert asked(text.format("FIRST B", "A B?"), prices([])) == []
