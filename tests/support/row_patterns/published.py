"""Statements like those of TR 19075-5 and of the documentation of Oracle, Trino, Snowflake and Flink, construct by
construct, over rows of our own, worked out by hand; those of :data:`SHARES` by what Snowflake's page prints.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

V: Final = "DEFINE D AS price < PREV(price), U AS price > PREV(price)"


def days(*prices: int, **more: list[Any]) -> pa.Table:
    """Prices of days that are counted from 1 on."""
    return pa.table({"day": list(range(1, len(prices) + 1)), "price": list(prices), **more})


TICKER: Final = days(12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22)
SHARES: Final = pa.table(
    {
        "company": ["ABCD"] * 10 + ["XYZ"] * 10,
        "day": list(range(1, 11)) * 2,
        "price": [50, 36, 39, 42, 30, 47, 71, 80, 75, 63, 89, 24, 37, 63, 65, 56, 50, 54, 30, 32],
    }
)
SHAPES: Final = days(10, 8, 8, 8, 9, 11, 7, 9)
ZIGZAG: Final = days(5, 3, 5, 3, 5, 3, 5)
WAVE: Final = days(0, 1, 2, 3, 2, 1, 0, -1, 0, 1, 2, 1, 0, -1)
TAXED: Final = days(10, 20, 30, 40, 50, 60, tax=[1, 2, 3, 4, 5, 6])
DIP: Final = days(100, 91, 90, 95, 99, 101, 100)
FLAT: Final = days(11, 14, 20, 13)
SUMS: Final = days(7, 9, 10, 5, 10, 10, 14)
TRADES: Final = pa.table(
    {
        "minute": [0, 10, 20, 30, 100, 130, 140, 165],
        "volume": [40_000, 100, 35_000, 50_000, 31_000, 200, 32_000, 33_000],
    }
)
LOG: Final = pa.table(
    {
        "t": list(range(10)),
        "ip": ["x", "x", "x", "y", "y", "x", "y", "y", "y", "x"],
        "message": ["fail", "fail", "fail", "ok", "fail", "fail", "fail", "fail", "fail", "ok"],
    }
)
CLICKS: Final = pa.table(
    {
        "who": ["mary"] * 7 + ["sam"] * 6,
        "t": [1, 11, 23, 34, 44, 53, 63, 2, 12, 22, 32, 43, 48],
        "page": [1, 2, 1, 2, 1, 2, 2, 1, 1, 2, 1, 1, 2],
    }
)
PAGES: Final = pa.table({"page": [1, 2], "kind": ["home", "shop"]})
TRANSFERS: Final = pa.table(
    {
        "day": [1, 5, 9, 12, 20, 22, 23, 24, 30],
        "who": ["jo"] * 5 + ["al"] * 4,
        "to": ["bob", "tim", "tim", "bob", "bob", "a", "b", "c", "d"],
        "amount": [1000, 1500, 1500, 1500, 1_000_000, 1000, 1500, 18_000, 2_000_000],
    }
)
ORDERS: Final = pa.table(
    {"who": ["a"] * 6 + ["b"] * 2, "day": [1, 2, 3, 4, 5, 6, 1, 2], "price": [9, 5, 3, 6, 2, 8, 7, 3]}
)
TABLES: Final = {
    "ticker": TICKER,
    "shares": SHARES,
    "shapes": SHAPES,
    "zigzag": ZIGZAG,
    "wave": WAVE,
    "taxed": TAXED,
    "dip": DIP,
    "flat": FLAT,
    "sums": SUMS,
    "trades": TRADES,
    "log": LOG,
    "clicks": CLICKS,
    "pages": PAGES,
    "transfers": TRANSFERS,
    "orders": ORDERS,
}

SESSIONS: Final = "PATTERN (B S*) DEFINE S AS t - PREV(t) <= 10"
W: Final = (
    "PATTERN (S X+ Y+ W+ Z+) DEFINE X AS price < PREV(price), Y AS price > PREV(price), W AS price < PREV(price), "
    "Z AS price > PREV(price)"
)
NESTED: Final = "PATTERN (A B A C A) DEFINE A AS price IN (20, 40, 60), B AS price = 30, C AS price = 50"
"""The row of price 10, before the match, is in none."""
SHARE: Final = f"PARTITION BY company ORDER BY day {{}} PATTERN (S D+ U+) {V}"
FRAME: Final = (
    "PARTITION BY who ORDER BY day MEASURES LAST(price) AS v, CLASSIFIER() AS label "
    "ROWS BETWEEN CURRENT ROW AND {} {} PATTERN (A B+ C+) DEFINE B AS price < PREV(price), C AS price > PREV(price)"
)

Rows = list[tuple[Any, ...]]

CLAUSES: Final[dict[str, tuple[str, str, Rows]]] = {
    # -- Oracle
    "Oracle: an average over two variables": (
        "ticker",
        "ORDER BY day MEASURES S.day AS a, LAST(U.day) AS b, avg(U.price) AS c, round(avg(DS.price), 2) AS d "
        f"AFTER MATCH SKIP TO LAST U PATTERN (S D+ U+) SUBSET DS = (S, D) {V}",
        [(5, 10, 21.0, 18.5), (10, 13, 25.0, 19.67), (14, 18, 19.0, 17.0)],
    ),
    "Oracle: PREV of LAST of an expression, with both offsets": (
        "taxed",
        "ORDER BY day MEASURES LAST(A.price + A.tax, 1) AS a, PREV(LAST(A.price + A.tax, 1), 3) AS b, "
        f"NEXT(FIRST(A.price + A.tax, 1), 2) AS c, FIRST(A.price + A.tax, 3) AS d {NESTED}",
        [(44, 11, 66, None)],
    ),
    "Oracle: dips of a magnitude, and the way back to the price before": (
        "dip",
        "ORDER BY day MEASURES A.day AS a, A.price AS b, FIRST(B.price) AS c, LAST(C.day) AS d, D.price AS e "
        "PATTERN (A B+ C+ D) DEFINE B AS (A.price - B.price) / A.price > 0.08, C AS C.price < A.price, "
        "D AS D.price >= A.price",
        [(1, 100, 91, 5, 101)],
    ),
    "Oracle: V and U shapes": (
        "shapes",
        "ORDER BY day MEASURES S.day AS a, LAST(U.day) AS b, count(F.*) AS c AFTER MATCH SKIP TO LAST U "
        f"PATTERN (S D+ F* U+) {V}, F AS price = PREV(price)",
        [(1, 6, 2), (6, 8, 0)],
    ),
    "Oracle: a wave of the same variables again and again": (
        "zigzag",
        "ORDER BY day MEASURES count(*) AS a, count(B.*) AS b, count(C.*) AS c PATTERN (A B+ C+ B+ C+ B+ C+) "
        "DEFINE B AS price < PREV(price), C AS price > PREV(price)",
        [(7, 3, 3)],
    ),
    "Oracle: a wave with a range of counts": (
        "wave",
        "ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b, count(U.*) AS c, count(D.*) AS d "
        f"PATTERN (S U{{3,4}} D{{3,4}} U{{3,4}} D{{3,4}}) {V}",
        [(1, 14, 6, 7)],
    ),
    "Oracle: skipping into the middle finds matches that overlap": (
        "zigzag",
        f"ORDER BY day MEASURES S.day AS a, LAST(Z.day) AS b AFTER MATCH SKIP TO LAST Y {W}",
        [(1, 5), (3, 7)],
    ),
    "Oracle: skipping past the last row does not": (
        "zigzag",
        f"ORDER BY day MEASURES S.day AS a, LAST(Z.day) AS b AFTER MATCH SKIP PAST LAST ROW {W}",
        [(1, 5)],
    ),
    "Oracle: three large transactions within an hour": (
        "trades",
        "ORDER BY minute MEASURES FIRST(A.minute) AS a, LAST(A.minute) AS b, max(A.volume) AS c, count(B.*) AS d "
        "PATTERN (A B* A B* A) DEFINE A AS volume > 30000 AND minute - FIRST(A.minute) < 60, "
        "B AS volume <= 30000 AND minute - FIRST(A.minute) < 60",
        [(0, 30, 50_000, 1)],
    ),
    "Oracle: the same in words of our own": (
        "trades",
        "ORDER BY minute MEASURES FIRST(A.minute) AS a, LAST(A.minute) AS b "
        "PATTERN (A{3}) SKIP TILL NEXT WITHIN 65 DEFINE A AS volume > 30000",
        [(0, 30), (100, 165)],
    ),
    "Oracle: three or more of the same message, one behind the other": (
        "log",
        "ORDER BY t MEASURES S.message AS a, FIRST(t) AS b, LAST(t) AS c, count(*) AS d "
        "PATTERN (S C{2,}) DEFINE C AS message = PREV(message)",
        [("fail", 0, 2, 3), ("fail", 4, 8, 5)],
    ),
    "Oracle: failures from one address": (
        "log",
        "PARTITION BY ip ORDER BY t MEASURES count(*) AS a, LAST(C.t) AS b "
        "PATTERN (S C{2,}) DEFINE S AS message = 'fail', C AS message = S.message AND ip = S.ip",
        [("x", 4, 5), ("y", 4, 8)],
    ),
    "Oracle: failures from one address that others interrupt": (
        "log",
        "ORDER BY t MEASURES S.ip AS a, FIRST(t) AS b, LAST(t) AS c "
        "PATTERN (S C{2}) DEFINE S AS message = 'fail', C AS message = S.message AND ip = S.ip",
        [("x", 0, 2), ("y", 6, 8)],
    ),
    "Oracle: sessions": (
        "clicks",
        f"PARTITION BY who ORDER BY t MEASURES MATCH_NUMBER() AS a, FIRST(t) AS b, count(*) AS c, "
        f"LAST(t) - FIRST(t) AS d {SESSIONS}",
        [
            ("mary", 1, 1, 2, 10),
            ("mary", 2, 23, 1, 0),
            ("mary", 3, 34, 4, 29),
            ("sam", 1, 2, 4, 30),
            ("sam", 2, 43, 2, 5),
        ],
    ),
    "Oracle: sessions over joined tables": (
        "(SELECT who, t, kind FROM clicks JOIN pages USING (page))",
        f"PARTITION BY who ORDER BY t MEASURES FIRST(kind) AS a, count(*) FILTER (WHERE kind = 'shop') AS b {SESSIONS}",
        [("mary", "home", 1), ("mary", "home", 0), ("mary", "shop", 3), ("sam", "home", 1), ("sam", "home", 1)],
    ),
    "Oracle: small transfers, the sum of which is bounded, to changing recipients": (
        "transfers",
        "PARTITION BY who ORDER BY day MEASURES Z.day AS a, LAST(X.day) AS b, Y.amount AS c, sum(X.amount) AS d "
        "PATTERN (Z X{2,} Y) DEFINE Z AS amount < 20000, X AS amount < 20000 AND PREV(X.to) <> X.to, "
        "Y AS amount >= 1000000 AND LAST(X.day) - Z.day < 30 AND day - LAST(X.day) < 10 "
        "AND sum(X.amount) + Z.amount < 20000",
        [],
    ),
    "Oracle: the same with one recipient again": (
        "transfers",
        "PARTITION BY who ORDER BY day MEASURES Z.day AS a, LAST(X.day) AS b, Y.amount AS c, sum(X.amount) AS d "
        "PATTERN (Z X{2,} Y) DEFINE Z AS amount < 20000, X AS amount < 20000, "
        "Y AS amount >= 1000000 AND LAST(X.day) - Z.day < 30 AND day - LAST(X.day) < 10 "
        "AND sum(X.amount) + Z.amount < 20000",
        [("jo", 1, 12, 1_000_000, 4500)],
    ),
    # -- Trino
    "Trino: FIRST and LAST with offsets that lead out of the match": (
        "ticker",
        "ORDER BY day MEASURES FIRST(U.price, 2) AS a, LAST(U.price, 3) AS b, FIRST(U.price, 4) AS c, LAST(price) AS d "
        f"PATTERN (^ X{{4}} S D+ U+) {V}",
        [(24, 15, None, 25)],
    ),
    "Trino: CLASSIFIER of a subset, and a list of variables": (
        "shapes",
        "ORDER BY day MEASURES CLASSIFIER(X) AS a, array_agg(CLASSIFIER()) AS b, CLASSIFIER(D) AS c "
        f"PATTERN (S D F* U+) SUBSET X = (S, F) {V}, F AS price = PREV(price)",
        [("F", ["S", "D", "F", "F", "U", "U"], "D")],
    ),
    "Trino: an aggregate of what depends on the row's variable": (
        "shapes",
        "ORDER BY day MEASURES max_by(CLASSIFIER(), price) AS a, count(U.*) AS b, min(price) AS c "
        f"PATTERN (S D F* U+) {V}, F AS price = PREV(price)",
        [("U", 2, 8)],
    ),
    "Trino: anchors where no row can be": ("flat", "ORDER BY day MEASURES 1 AS a PATTERN (A ^ B | A $ B)", []),
    "Trino: both anchors": ("flat", "ORDER BY day MEASURES count(*) AS a PATTERN (^ A+ $)", [(4,)]),
    "Trino: aggregates of what CLASSIFIER tells of a subset": (
        "shapes",
        "ORDER BY day MEASURES array_agg(CLASSIFIER(X)) AS a, max_by(CLASSIFIER(X), X.price) AS b, count(X.*) AS c "
        f"PATTERN (S D F* U+) SUBSET X = (D, U) {V}, F AS price = PREV(price)",
        [(["D", "U", "U"], "U", 3)],
    ),
    # -- Snowflake
    "Snowflake: one row for each V": (
        "shares",
        SHARE.format(
            "MEASURES MATCH_NUMBER() AS n, FIRST(day) AS a, LAST(day) AS b, count(*) AS c, count(D.*) AS d, "
            "count(U.*) AS e AFTER MATCH SKIP TO LAST U"
        ),
        [
            ("ABCD", 1, 1, 4, 4, 1, 2),
            ("ABCD", 2, 4, 8, 5, 1, 3),
            ("XYZ", 1, 1, 5, 5, 1, 3),
            ("XYZ", 2, 5, 8, 4, 2, 1),
            ("XYZ", 3, 8, 10, 3, 1, 1),
        ],
    ),
    "Snowflake: W shapes by a group that comes twice": (
        "shares",
        "PARTITION BY company ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b AFTER MATCH SKIP TO LAST U "
        f"PATTERN (S (D+ U+){{2}}) {V}",
        [("ABCD", 1, 8), ("XYZ", 1, 8)],
    ),
    # -- Flink
    "Flink: greedy": (
        "flat",
        "ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (A B* C) "
        "DEFINE A AS price > 10, B AS price < 15, C AS price > 12",
        [(1, 3)],
    ),
    "Flink: reluctant": (
        "flat",
        "ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (A B*? C) "
        "DEFINE A AS price > 10, B AS price < 15, C AS price > 12",
        [(1, 2), (3, 4)],
    ),
    "Flink: rows as long as their sum is small, skipping past the last": (
        "sums",
        "ORDER BY day MEASURES sum(A.price) AS a, FIRST(day) AS b, LAST(day) AS c PATTERN (A+ C) "
        "DEFINE A AS sum(A.price) < 30",
        [(26, 1, 4), (20, 5, 7)],
    ),
    "Flink: the same, to the next row": (
        "sums",
        "ORDER BY day MEASURES sum(A.price) AS a, FIRST(day) AS b, LAST(day) AS c AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A+ C) DEFINE A AS sum(A.price) < 30",
        [(26, 1, 4), (24, 2, 5), (25, 3, 6), (25, 4, 7), (20, 5, 7), (10, 6, 7)],
    ),
    "Flink: the same, to the last of a variable": (
        "sums",
        "ORDER BY day MEASURES sum(A.price) AS a, FIRST(day) AS b, LAST(day) AS c AFTER MATCH SKIP TO LAST A "
        "PATTERN (A{2,} C) DEFINE A AS sum(A.price) < 30",
        [(26, 1, 4), (25, 3, 6), (20, 5, 7)],
    ),
    "Flink: what is compared with rows of the same variable before": (
        "ticker",
        "ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (S B{3,}) "
        "DEFINE B AS (LAST(B.price, 1) IS NULL OR price > LAST(B.price, 1)) AND price > S.price",
        [(1, 5), (6, 10)],
    ),
    # -- TR 19075-5
    "TR: of alternatives the first, though it is shorter": (
        "flat",
        "ORDER BY day MEASURES count(A.*) AS a, count(B.*) AS b, count(C.*) AS c PATTERN (A | B C) ",
        [(1, 0, 0)] * 4,
    ),
    "TR: of alternatives in a group that repeats": (
        "flat",
        "ORDER BY day MEASURES array_agg(CLASSIFIER()) AS a PATTERN ((A | B){2}) DEFINE A AS price < 14",
        [(["A", "B"],), (["B", "A"],)],
    ),
    "TR: what a permutation prefers": (
        "flat",
        "ORDER BY day MEASURES array_agg(CLASSIFIER()) AS a PATTERN (PERMUTE(A, B?, C)) DEFINE B AS price > 15",
        [(["A", "C"],), (["A", "C"],)],
    ),
    "TR: skipping to the first row of a subset": (
        "zigzag",
        "ORDER BY day MEASURES S.day AS a, LAST(Y.day) AS b AFTER MATCH SKIP TO FIRST M PATTERN (S X+ Y+) "
        "SUBSET M = (Y, X) DEFINE X AS price < PREV(price), Y AS price > PREV(price)",
        [(1, 3), (3, 5), (5, 7)],
    ),
    "TR: a variable that is bound to no row has no value": (
        "flat",
        "ORDER BY day MEASURES count(*) AS a, B.price AS b PATTERN (A B?) DEFINE A AS B.price IS NULL, B AS price > 15",
        [(1, None), (2, 20), (1, None)],
    ),
    "TR: a repetition of what may be empty ends": (
        "flat",
        "ORDER BY day MEASURES count(*) AS a PATTERN ((A? B?){2,3}) DEFINE A AS price < 12, B AS price > 13",
        [(3,), (0,)],
    ),
    "TR: an average of the rows so far": (
        "flat",
        "ORDER BY day MEASURES LAST(day) AS a, avg(A.price) AS b PATTERN (A+ B) DEFINE A AS avg(A.price) < 13",
        [(3, 12.5)],
    ),
}
"""A table, the clause over it, and all of its rows in order of their columns."""

STATEMENTS: Final[dict[str, tuple[str, Rows]]] = {
    "Oracle: running and final counts of all rows": (
        "SELECT day, c, a, f FROM shapes MATCH_RECOGNIZE (ORDER BY day MEASURES CLASSIFIER() AS c, "
        f"RUNNING count(U.*) AS a, FINAL count(U.*) AS f ALL ROWS PER MATCH PATTERN (S D F* U+) {V}, "
        "F AS price = PREV(price)) ORDER BY day",
        [(1, "S", 0, 2), (2, "D", 0, 2), (3, "F", 0, 2), (4, "F", 0, 2), (5, "U", 1, 2), (6, "U", 2, 2)],
    ),
    "Oracle: sessions of all rows": (
        "SELECT who, t, a FROM clicks MATCH_RECOGNIZE (PARTITION BY who ORDER BY t MEASURES MATCH_NUMBER() AS a "
        f"ALL ROWS PER MATCH {SESSIONS}) WHERE who = 'mary' ORDER BY t",
        [
            *[("mary", 1, 1), ("mary", 11, 1), ("mary", 23, 2), ("mary", 34, 3)],
            *[("mary", 44, 3), ("mary", 53, 3), ("mary", 63, 3)],
        ],
    ),
    "Oracle: matches without rows": (
        "SELECT day, n, c FROM flat MATCH_RECOGNIZE (ORDER BY day MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c "
        "ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN (A*) DEFINE A AS price > 13) ORDER BY day",
        [(1, 1, None), (2, 2, "A"), (3, 2, "A"), (4, 3, None)],
    ),
    "Oracle: matches without rows left out": (
        "SELECT day, n FROM flat MATCH_RECOGNIZE (ORDER BY day MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH "
        "OMIT EMPTY MATCHES PATTERN (A*) DEFINE A AS price > 13) ORDER BY day",
        [(2, 2), (3, 2)],
    ),
    "Oracle: rows in no match": (
        "SELECT day, n, c FROM shapes MATCH_RECOGNIZE (ORDER BY day MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c "
        f"ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (D F) {V.partition(',')[0]}, F AS price = PREV(price)) "
        "ORDER BY day",
        [(1, None, None), (2, 1, "D"), (3, 1, "F"), *((day, None, None) for day in range(4, 9))],
    ),
    "Oracle: running and final aggregates of distinct and of some values": (
        "SELECT day, a, b, c FROM shapes MATCH_RECOGNIZE (ORDER BY day MEASURES RUNNING count(DISTINCT price) AS a, "
        "FINAL count(DISTINCT price) AS b, count(*) FILTER (WHERE price > 8) AS c ALL ROWS PER MATCH "
        f"PATTERN (S D F* U+) {V}, F AS price = PREV(price)) ORDER BY day",
        [(1, 1, 4, 1), (2, 2, 4, 1), (3, 2, 4, 1), (4, 2, 4, 1), (5, 3, 4, 2), (6, 4, 4, 3)],
    ),
    "TR: rows in the middle left out": (
        "SELECT day, c, n FROM shapes MATCH_RECOGNIZE (ORDER BY day MEASURES CLASSIFIER() AS c, count(*) AS n "
        f"ALL ROWS PER MATCH PATTERN (S {{- D F+ -}} U+) {V}, F AS price = PREV(price)) ORDER BY day",
        [(1, "S", 1), (5, "U", 5), (6, "U", 6)],
    ),
    "TR: a row of several matches comes out in each": (
        "SELECT n, day FROM flat MATCH_RECOGNIZE (ORDER BY day MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH "
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS price > PREV(price)) ORDER BY n, day",
        [(1, 1), (1, 2), (2, 2), (2, 3)],
    ),
    "Snowflake: all rows of one company": (
        "SELECT day, price, n, c, r FROM shares MATCH_RECOGNIZE (PARTITION BY company ORDER BY day MEASURES "
        "MATCH_NUMBER() AS n, CLASSIFIER() AS c, count(*) AS r ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST U "
        f"PATTERN (S D+ U+) {V}) WHERE company = 'XYZ' AND n > 1 ORDER BY n, day",
        [
            *[(5, 65, 2, "S", 1), (6, 56, 2, "D", 2), (7, 50, 2, "D", 3), (8, 54, 2, "U", 4)],
            *[(8, 54, 3, "S", 1), (9, 30, 3, "D", 2), (10, 32, 3, "U", 3)],
        ],
    ),
    "Snowflake: the first row left out": (
        "SELECT day, price FROM shares MATCH_RECOGNIZE (PARTITION BY company ORDER BY day ALL ROWS PER MATCH "
        f"AFTER MATCH SKIP TO LAST U PATTERN ({{- S -}} D+ U+) {V}) WHERE company = 'ABCD' ORDER BY day",
        [(2, 36), (3, 39), (4, 42), (5, 30), (6, 47), (7, 71), (8, 80)],
    ),
    "Trino: a window, whose frame ends with the partition": (
        f"SELECT who, day, v OVER w, label OVER w FROM orders WINDOW w AS ({FRAME.format('UNBOUNDED FOLLOWING', '')}) "
        "ORDER BY who, day",
        [
            *[("a", 1, 6, "C"), ("a", 2, None, None), ("a", 3, None, None), ("a", 4, None, None)],
            *[("a", 5, None, None), ("a", 6, None, None), ("b", 1, None, None), ("b", 2, None, None)],
        ],
    ),
    "Trino: a window, whose frame ends before": (
        "SELECT day, v OVER w, count(*) OVER w FROM orders WHERE who = 'a' "
        f"WINDOW w AS ({FRAME.format('2 FOLLOWING', 'AFTER MATCH SKIP TO NEXT ROW')}) ORDER BY day",
        [(1, None, 0), (2, 6, 3), (3, None, 0), (4, 8, 3), (5, None, 0), (6, None, 0)],
    ),
    "Trino: a window that seeks": (
        "SELECT day, v OVER w FROM orders WHERE who = 'a' "
        f"WINDOW w AS ({FRAME.format('UNBOUNDED FOLLOWING', 'AFTER MATCH SKIP TO NEXT ROW SEEK')}) "
        "ORDER BY day",
        [(1, 6), (2, 6), (3, 8), (4, 8), (5, None), (6, None)],
    ),
    "TR: a window that goes on with the last row of a variable": (
        "SELECT day, v OVER w FROM orders WHERE who = 'a' "
        f"WINDOW w AS ({FRAME.format('UNBOUNDED FOLLOWING', 'AFTER MATCH SKIP TO LAST C')}) ORDER BY day",
        [(1, 6), (2, None), (3, None), (4, 8), (5, None), (6, None)],
    ),
    "TR: what is behind a frame is not seen": (
        "SELECT day, count(*) OVER (ORDER BY day ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING "
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS NEXT(price) IS NULL) FROM flat ORDER BY day",
        [(1, 2), (2, 2), (3, 2), (4, 0)],
    ),
    "TR: a window whose frame is the match": (
        "SELECT day, sum(price) OVER w, first_value(price) OVER w FROM shapes WINDOW w AS (ORDER BY day "
        "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING AFTER MATCH SKIP PAST LAST ROW INITIAL "
        f"PATTERN (S D F* U+) {V}, F AS price = PREV(price)) ORDER BY day",
        [(1, 54, 10), *((day, None, None) for day in range(2, 9))],
    ),
}
"""A whole statement, and its rows."""

REFUSED: Final[dict[str, tuple[str, str]]] = {
    "Oracle: FINAL in DEFINE": ("MEASURES 1 AS x PATTERN (A) DEFINE A AS FINAL LAST(price) > 1", "FINAL in DEFINE"),
    "Oracle: an exclusion beside rows in no match": (
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {- B -})",
        "exclusion",
    ),
    "Oracle: mixed variables in a navigation": ("MEASURES LAST(A.price + B.price) AS x PATTERN (A B)", "A and B"),
    "Trino: PREV inside of LAST": ("MEASURES LAST(PREV(price)) AS x PATTERN (A)", "PREV inside of LAST"),
    "Snowflake: LAG": ("MEASURES 1 AS x PATTERN (A) DEFINE A AS price < lag(price)", r"the like of PREV\(price\)"),
    "Snowflake: a frame inside of the clause": (
        "MEASURES avg(price) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS x PATTERN (A+)",
        "found a window function",
    ),
    "Snowflake: MATCH_SEQUENCE_NUMBER": ("MEASURES MATCH_SEQUENCE_NUMBER() AS x PATTERN (A)", "there is no function"),
    "Snowflake: a measure without AS": ("MEASURES price x PATTERN (A)", "expected AS"),
    "Flink: MATCH_ROWTIME": ("MEASURES MATCH_ROWTIME() AS x PATTERN (A)", "there is no function"),
    "Flink: skipping to the first row, when it runs": (
        "ORDER BY day MEASURES 1 AS x AFTER MATCH SKIP TO FIRST A PATTERN (A+ C)",
        "A bound to the first row",
    ),
    "TR: skipping to a variable that is bound to no row, when it runs": (
        "ORDER BY day MEASURES 1 AS x AFTER MATCH SKIP TO LAST B PATTERN (A B?) DEFINE B AS price > 100",
        "no row is bound to B",
    ),
}
"""A clause over the table ``flat``, and what is said."""
