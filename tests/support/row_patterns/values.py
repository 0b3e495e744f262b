"""Measures of matches, worked out by hand.

``t`` has rows 1 to 8 in the order of n, of a falling and a rising price; nulls in v; letters in s.

    n      1   2   3   4   5   6   7   8
    price 10   8   6   7   9   9   5  12
    v      1   -   3   -   5   6   -   8
    s      a   b   b   c   a   b   c   c
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

TABLE: Final = pa.table(
    {
        "n": pa.array(range(1, 9), pa.int64()),
        "price": pa.array([10, 8, 6, 7, 9, 9, 5, 12], pa.int64()),
        "v": pa.array([1, None, 3, None, 5, 6, None, 8], pa.int64()),
        "s": pa.array(list("abbcabcc")),
    }
)

FALL: Final = "PATTERN (S D+) DEFINE D AS price < PREV(price)"
"""Two matches: rows 1 to 3, and 6 and 7."""
LETTERS: Final = "DEFINE A AS s = 'a', B AS s = 'b', C AS s = 'c'"
ABC: Final = f"PATTERN (A B+ C+) {LETTERS}"
"""Two matches: rows 1 to 4 (a b b c), and 5 to 8 (a b c c)."""

ONE: Final[list[tuple[str, str, list[tuple[Any, ...]]]]] = [
    # -- columns of rows
    ("S.n AS a, D.n AS b", FALL, [(1, 3), (6, 7)]),
    ("n AS a", FALL, [(3,), (7,)]),
    ("FIRST(n) AS a, LAST(n) AS b", FALL, [(1, 3), (6, 7)]),
    ("FIRST(D.n) AS a, LAST(D.n) AS b", FALL, [(2, 3), (7, 7)]),
    ("FIRST(D.n, 1) AS a, LAST(D.n, 1) AS b", FALL, [(3, 2), (None, None)]),
    ("FIRST(n, 1) AS a, LAST(n, 2) AS b", FALL, [(2, 1), (7, None)]),
    ("PREV(S.n) AS a, NEXT(D.n) AS b", FALL, [(None, 4), (5, 8)]),
    ("PREV(n, 2) AS a, NEXT(n, 2) AS b", FALL, [(1, 5), (5, None)]),
    ("PREV(FIRST(D.n), 1) AS a, NEXT(LAST(n, 1), 2) AS b", FALL, [(1, 4), (6, 8)]),
    ("PREV(n, 0) AS a", FALL, [(3,), (7,)]),
    ("LAST(price * 2 + n) AS a", FALL, [(15,), (17,)]),
    ("FIRST(S.price - S.n) AS a", FALL, [(9,), (3,)]),
    ("D.price - S.price AS a", FALL, [(-4,), (-4,)]),
    ("FINAL LAST(D.n) AS a, RUNNING LAST(D.n) AS b", FALL, [(3, 3), (7, 7)]),
    ("PREV(FINAL LAST(D.n), 2) AS a", FALL, [(1,), (5,)]),
    ("CLASSIFIER() AS a, CLASSIFIER(S) AS b", FALL, [("D", "S"), ("D", "S")]),
    ("FIRST(CLASSIFIER()) AS a, PREV(CLASSIFIER(D)) AS b", FALL, [("S", "D"), ("S", "S")]),
    ("NEXT(CLASSIFIER()) AS a", FALL, [(None,), (None,)]),
    ("MATCH_NUMBER() AS a, MATCH_NUMBER() * 10 AS b", FALL, [(1, 10), (2, 20)]),
    ("LAST(n + 100 * MATCH_NUMBER()) AS a, PREV(S.n * MATCH_NUMBER()) AS b", FALL, [(103, None), (207, 10)]),
    ("FIRST(CLASSIFIER() || MATCH_NUMBER()) AS a", FALL, [("S1",), ("S2",)]),
    ("1 AS a, 'x' AS b, NULL AS c", FALL, [(1, "x", None), (1, "x", None)]),
    ("CASE WHEN count(D.*) > 1 THEN 'long' ELSE 'short' END AS a", FALL, [("long",), ("short",)]),
    ("abs(D.price - S.price)::DOUBLE / S.price AS a", FALL, [(0.4,), (4 / 9,)]),
    ("LAST(upper(s) || n) AS a", FALL, [("B3",), ("C7",)]),
    ("{'first': S.n, 'last': LAST(n)} AS a", FALL, [({"first": 1, "last": 3},), ({"first": 6, "last": 7},)]),
    ("[S.n, D.n] AS a", FALL, [([1, 3],), ([6, 7],)]),
    ("list_transform([1, 2], lambda x: x + S.n) AS a", FALL, [([2, 3],), ([7, 8],)]),
    # -- aggregates
    ("count(*) AS a, count(D.*) AS b, count(S.*) AS c", FALL, [(3, 2, 1), (2, 1, 1)]),
    ("count(v) AS a, count(D.v) AS b, count(1) AS c", FALL, [(2, 1, 3), (1, 0, 2)]),
    ("sum(price) AS a, sum(D.price) AS b", FALL, [(24, 14), (14, 5)]),
    ("sum(D.v) AS a, avg(price) AS b", FALL, [(3, 8.0), (None, 7.0)]),
    ("min(price) AS a, max(price) AS b, min(D.v) AS c", FALL, [(6, 10, 3), (5, 9, None)]),
    ("sum(price * n) AS a, max(D.price - D.n) AS b", FALL, [(44, 6), (89, -2)]),
    ("sum(price) FILTER (WHERE n > 1) AS a, count(*) FILTER (WHERE price < 7) AS b", FALL, [(14, 1), (14, 1)]),
    ("count(DISTINCT s) AS a, count(DISTINCT D.s) AS b", FALL, [(2, 1), (2, 1)]),
    ("string_agg(s, '') AS a, string_agg(D.s, '-') AS b", FALL, [("abb", "b-b"), ("bc", "c")]),
    ("string_agg(s, '' ORDER BY n DESC) AS a", FALL, [("bba",), ("cb",)]),
    ("array_agg(n) AS a, list(D.price) AS b", FALL, [([1, 2, 3], [8, 6]), ([6, 7], [5])]),
    ("min_by(n, price) AS a, max_by(n, price) AS b", FALL, [(3, 1), (7, 6)]),
    ("arg_min(D.s, D.price) AS a", FALL, [("b",), ("c",)]),
    ("string_agg(CLASSIFIER(), '') AS a", FALL, [("SDD",), ("SD",)]),
    ("count(CLASSIFIER(D)) AS a, sum(MATCH_NUMBER() * n) AS b", FALL, [(2, 6), (1, 26)]),
    ("count(*) FILTER (WHERE CLASSIFIER() = 'D') AS a", FALL, [(2,), (1,)]),
    ("bool_and(price > 5) AS a, median(price) AS b", FALL, [(True, 8.0), (False, 7.0)]),
    ("sum(D.price) - sum(S.price) AS a, 2 * count(*) AS b", FALL, [(4, 6), (-4, 4)]),
    (
        "sum(U.n) AS a, LAST(U.n) AS b, CLASSIFIER(U) AS c",
        FALL.replace("DEFINE", "SUBSET U = (S) DEFINE"),
        [
            (1, 1, "S"),
            (6, 6, "S"),
        ],
    ),
    ("count(U.*) AS a, FIRST(U.n, 1) AS b", f"PATTERN (A B+ C+) SUBSET U = (A, C) {LETTERS}", [(2, 4), (3, 7)]),
    ("A.n AS a, b.n AS b, LAST(c.n) AS c", ABC, [(1, 3, 4), (5, 6, 8)]),
    # -- conditions
    ("count(*) AS a", "PATTERN (A+) DEFINE A AS sum(A.price) < 25", [(3,), (2,), (2,), (1,)]),
    ("count(*) AS a", "PATTERN (A+) DEFINE A AS count(*) <= 3", [(3,), (3,), (2,)]),
    ("FIRST(n) AS a, LAST(n) AS b", "PATTERN (A B*) DEFINE B AS B.price < A.price", [(1, 7), (8, 8)]),
    ("FIRST(n) AS a, LAST(n) AS b", "PATTERN (A B+) DEFINE B AS price >= FIRST(A.price) - 3", [(1, 2), (3, 8)]),
    ("LAST(n) AS a", "PATTERN (A B) DEFINE B AS NEXT(price) > price AND price < PREV(price)", [(3,), (7,)]),
    ("n AS a", "PATTERN (A) DEFINE A AS v IS NULL", [(2,), (4,), (7,)]),
    ("n AS a", "PATTERN (A) DEFINE A AS v > 4", [(5,), (6,), (8,)]),
    ("n AS a", "PATTERN (A) DEFINE A AS NOT (v > 4)", [(1,), (3,)]),
    ("n AS a", "PATTERN (A) DEFINE A AS NULL", []),
    ("n AS a", "PATTERN (A) DEFINE A AS FALSE", []),
    ("n AS a", "PATTERN (A) DEFINE A AS MATCH_NUMBER() < 3 AND price > 7", [(1,), (2,)]),
    ("n AS a", "PATTERN (A B) DEFINE B AS FIRST(price - MATCH_NUMBER()) = 9", [(2,)]),
    ("n AS a", "PATTERN (A) DEFINE A AS PREV(n + MATCH_NUMBER()) < 5", [(2,), (3,)]),
    ("LAST(n) AS a", "PATTERN (A+ B) DEFINE B AS CLASSIFIER() = 'B' AND price > 9", [(8,)]),
    (
        "string_agg(CLASSIFIER(), '') AS a",
        "PATTERN ((A | B)+) DEFINE A AS PREV(CLASSIFIER()) IS DISTINCT FROM 'A'",
        [
            ("ABABABAB",),
        ],
    ),
    ("count(*) AS a", "PATTERN (A+) DEFINE A AS count(DISTINCT s) <= 2", [(3,), (2,), (3,)]),
    ("count(*) AS a", "PATTERN (A+) DEFINE A AS string_agg(s, '') <> 'abbc'", [(3,), (5,)]),
    ("count(*) AS a", "PATTERN (A+) DEFINE A AS len(list(price)) < 3", [(2,), (2,), (2,), (2,)]),
    ("n AS a", "PATTERN (A+ B) DEFINE B AS list_contains(list(A.price), B.price) AND B.n > 2", [(6,)]),
    ("count(*) AS a", "PATTERN (A+) DEFINE A AS histogram(A.s)['b'] IS NULL OR n = 8", [(1,), (2,), (2,)]),
    ("count(*) AS a", "PATTERN (A B+) DEFINE B AS price BETWEEN A.price - 4 AND A.price + 1", [(6,)]),
    ("LAST(A.n) AS a, B.n AS b", "PATTERN (A+ B) DEFINE A AS avg(A.price) < 9, B AS price > 8", [(7, 8)]),
    ("count(*) AS a", "PATTERN (A{2} B) DEFINE B AS price > FIRST(A.price) OR price > LAST(A.price, 1)", [(3,), (3,)]),
    ("FIRST(n) AS a", "PATTERN (A B) DEFINE A AS NEXT(s) = 'c', B AS TRUE", [(3,), (6,)]),
    # -- matches without rows
    (
        "MATCH_NUMBER() AS a, count(*) AS b, n AS c, CLASSIFIER() AS d",
        "PATTERN (A*) DEFINE A AS n = 8",
        [
            *((number, 0, None, None) for number in range(1, 8)),
            (8, 1, 8, "A"),
        ],
    ),
    ("sum(A.n) AS a, string_agg(s, '') AS b, 5 AS c", "PATTERN (A?? B{8}?) DEFINE B AS n < 0", []),
    ("sum(n) AS a, FIRST(n) AS b, PREV(n) AS c, 5 AS d", "PATTERN (^ A??) DEFINE A AS n < 0", [(None, None, None, 5)]),
]
"""Measures, what follows them, and rows of ONE ROW PER MATCH."""

ALL: Final[list[tuple[str, str, list[tuple[Any, ...]]]]] = [
    (
        "FIRST(n) AS a, LAST(n) AS b, FINAL LAST(n) AS c",
        FALL,
        [
            (1, 1, 1, 3),
            (2, 1, 2, 3),
            (3, 1, 3, 3),
            (6, 6, 6, 7),
            (7, 6, 7, 7),
        ],
    ),
    (
        "D.n AS a, FINAL FIRST(D.n) AS b, RUNNING FIRST(D.n) AS c",
        FALL,
        [
            (1, None, 2, None),
            (2, 2, 2, 2),
            (3, 3, 2, 2),
            (6, None, 7, None),
            (7, 7, 7, 7),
        ],
    ),
    (
        "count(*) AS a, FINAL count(*) AS b, sum(D.price) AS c",
        FALL,
        [
            (1, 1, 3, None),
            (2, 2, 3, 8),
            (3, 3, 3, 14),
            (6, 1, 2, None),
            (7, 2, 2, 5),
        ],
    ),
    (
        "CLASSIFIER() AS a, FINAL CLASSIFIER() AS b, CLASSIFIER(S) AS c",
        FALL,
        [
            (1, "S", "D", "S"),
            (2, "D", "D", "S"),
            (3, "D", "D", "S"),
            (6, "S", "D", "S"),
            (7, "D", "D", "S"),
        ],
    ),
    (
        "PREV(n) AS a, NEXT(n) AS b, PREV(LAST(D.n), 2) AS c, NEXT(CLASSIFIER()) AS d",
        FALL,
        [
            (1, None, 2, None, "D"),
            (2, 1, 3, None, "D"),
            (3, 2, 4, 1, None),
            (6, 5, 7, None, "D"),
            (7, 6, 8, 5, None),
        ],
    ),
    (
        "LAST(n, 1) AS a, FINAL LAST(n, 1) AS b, RUNNING max(price) - min(price) AS c",
        FALL,
        [
            (1, None, 2, 0),
            (2, 1, 2, 2),
            (3, 2, 2, 4),
            (6, None, 6, 0),
            (7, 6, 6, 4),
        ],
    ),
    (
        "string_agg(s, '') AS a, FINAL string_agg(s, '') AS b",
        FALL,
        [
            (1, "a", "abb"),
            (2, "ab", "abb"),
            (3, "abb", "abb"),
            (6, "b", "bc"),
            (7, "bc", "bc"),
        ],
    ),
    (
        "price - FINAL min(price) AS a, MATCH_NUMBER() AS b",
        FALL,
        [(1, 4, 1), (2, 2, 1), (3, 0, 1), (6, 4, 2), (7, 0, 2)],
    ),
]
"""The same of ALL ROWS PER MATCH, with the number of the row before them."""

UNMATCHED: Final[list[tuple[str, str, str, list[tuple[Any, ...]]]]] = [
    (
        "MATCH_NUMBER() AS a, CLASSIFIER() AS b, count(*) AS c",
        "WITH UNMATCHED ROWS",
        FALL,
        [
            (1, 1, "S", 1),
            (2, 1, "D", 2),
            (3, 1, "D", 3),
            (4, None, None, None),
            (5, None, None, None),
            (6, 2, "S", 1),
            (7, 2, "D", 2),
            (8, None, None, None),
        ],
    ),
    (
        "MATCH_NUMBER() AS a, n AS b, 7 AS c",
        "WITH UNMATCHED ROWS",
        "PATTERN (A) DEFINE A AS n = 2",
        [
            (1, None, None, None),
            (2, 1, 2, 7),
            *((n, None, None, None) for n in range(3, 9)),
        ],
    ),
    (
        "MATCH_NUMBER() AS a, count(*) AS b",
        "SHOW EMPTY MATCHES",
        "PATTERN (A*) DEFINE A AS n IN (2, 3)",
        [
            (1, 1, 0),
            (2, 2, 1),
            (3, 2, 2),
            *((n, n - 1, 0) for n in range(4, 9)),
        ],
    ),
    (
        "MATCH_NUMBER() AS a, count(*) AS b",
        "OMIT EMPTY MATCHES",
        "PATTERN (A*) DEFINE A AS n IN (2, 3, 5)",
        [
            (2, 2, 1),
            (3, 2, 2),
            (5, 4, 1),
        ],
    ),
    (
        "MATCH_NUMBER() AS a, count(*) AS b",
        "WITH UNMATCHED ROWS",
        "PATTERN (A*) DEFINE A AS n IN (2, 3)",
        [
            (1, 1, 0),
            (2, 2, 1),
            (3, 2, 2),
            *((n, n - 1, 0) for n in range(4, 9)),
        ],
    ),
    (
        "sum(n) AS a, CLASSIFIER() AS b, n AS c, 7 AS d",
        "SHOW EMPTY MATCHES",
        "PATTERN (^ A??)",
        [(1, None, None, None, 7)],
    ),
    (
        "count(*) AS a, FINAL count(*) AS b",
        "SHOW EMPTY MATCHES",
        f"PATTERN (A {{- B+ -}} C) {LETTERS}",
        [
            (1, 1, 4),
            (4, 4, 4),
            (5, 1, 3),
            (7, 3, 3),
        ],
    ),
]
"""Measures, which rows, what follows, and what comes out."""
