"""Row patterns that cannot be: what is said, and where."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

TABLE = pa.table(
    {
        "g": pa.array(["a"]),
        "ts": pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us")),
        "n": pa.array([1], pa.int64()),
        "price": pa.array([1.0]),
        "s": pa.array(["x"]),
        "l": pa.array([[1]]),
        "r": pa.array([{"a": 1}]),
        "z": pa.array([0], pa.timestamp("us", "UTC")),
    }
)

# A clause, what the message says, and the text that the error points at.
CASES = [
    # -- the parts of the clause
    ("", "expected the parts of MATCH_RECOGNIZE", ")"),
    ("ORDER BY ts", "found the end; expected the parts", ")"),
    ("ORDER BY ts DEFINE A AS TRUE", "found DEFINE; expected the parts", "DEFINE"),
    ("PATTERN (A) PATTERN (B)", "found PATTERN; expected the parts", "PATTERN (B)"),
    ("MEASURES 1 AS x ORDER BY ts PATTERN (A)", "found ORDER; expected the parts", "ORDER"),
    ("PATTERN (A) ORDER BY ts", "found ORDER; expected", "ORDER"),
    ("PARTITION g PATTERN (A)", "found PARTITION; expected the parts", "PARTITION"),
    ("ORDER BY PATTERN (A)", "expected a column to order by", "PATTERN"),
    ("PARTITION BY g, ORDER BY ts PATTERN (A)", "expected a column to partition by", "ORDER"),
    ("ORDER BY ts NULLS PATTERN (A)", "found PATTERN; expected LAST", "PATTERN"),
    ("MEASURES price PATTERN (A)", "a measure without a name", "PATTERN"),
    ("MEASURES price AS PATTERN (A)", "expected the parts", "(A)"),
    ("ONE ROW PER MATCHES PATTERN (A)", "found MATCHES; expected MATCH", "MATCHES"),
    ("ALL ROWS PER MATCH SHOW MATCHES PATTERN (A)", "expected EMPTY", "MATCHES"),
    ("ALL ROWS PER MATCH WITH ROWS PATTERN (A)", "expected UNMATCHED", "ROWS PATTERN"),
    ("AFTER MATCH SKIP PATTERN (A)", "expected TO", "PATTERN"),
    ("AFTER MATCH SKIP PAST FIRST ROW PATTERN (A)", "expected LAST", "FIRST"),
    ("AFTER MATCH SKIP TO NEXT ROW ALL MATCHES PATTERN (A)", "ALL MATCHES beside AFTER MATCH", "ALL MATCHES"),
    ("ALL MATCHES AFTER MATCH SKIP TO NEXT ROW PATTERN (A)", "AFTER MATCH beside ALL MATCHES", "AFTER"),
    ("INITIAL PATTERN (A)", "patterns of windows", "PATTERN"),
    ("MEASURES 1 AS x PATTERN (A) SKIP", "expected SKIP TILL NEXT or SKIP TILL ANY", "SKIP"),
    ("MEASURES 1 AS x PATTERN (A) SKIP TILL ANY CONTIGUOUS", "a second strategy", "CONTIGUOUS"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN 1 WITHIN 2", "a second WITHIN", "WITHIN 2"),
    # -- patterns
    ("PATTERN A", "found A; expected (", "A"),
    ("PATTERN (A", "not closed", "MATCH_RECOGNIZE"),
    ("PATTERN (A | )", "expected a variable, or () for no row", ")"),
    ("PATTERN (| A)", "expected a variable, or ()", "| A"),
    ("PATTERN (A B,)", "found ,; expected )", ","),
    ("PATTERN (*)", "found * in a pattern", "*"),
    ("PATTERN (A **)", "behind a quantifier", "*)"),
    ("PATTERN (A+ {2})", "behind a quantifier", "{2}"),
    ("PATTERN (A ???)", "behind a quantifier", "?)"),
    ("PATTERN (A{})", "found }; expected a number", "}"),
    ("PATTERN (A{,})", "found {,}", "{,}"),
    ("PATTERN (A{0})", "at least once", "{0}"),
    ("PATTERN (A{,0})", "at least once", "{,0}"),
    ("PATTERN (A{3,2})", "3 to 2 times", "{3,2}"),
    ("PATTERN (A{x})", "expected a number of times", "x"),
    ("PATTERN (A{-1})", "found 1 in a pattern", "1})"),
    ("PATTERN (A{1.5})", "expected a number of times", "1.5"),
    ("PATTERN (A{99999999})", "at most 1,000,000", "99999999"),
    ("PATTERN ({- A -)", "not closed", "MATCH_RECOGNIZE"),
    ("PATTERN ('A')", "in a pattern; expected a variable", "'A'"),
    ("PATTERN (A 1)", "found 1 in a pattern", "1)"),
    ("PATTERN (PERMUTE(A, ))", "expected a variable", "))"),
    ("PATTERN (A & B)", "found & in a pattern", "&"),
    ("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {- B -})", "found an exclusion", "{-"),
    ("MEASURES 1 AS x PATTERN (A B) EMIT TIMEOUTS", "expected WITHIN", "EMIT"),
    ("MEASURES 1 AS x PATTERN (A B) WITHIN 1 EMIT CHANGES", "expected TIMEOUTS", "CHANGES"),
    ("MEASURES 1 AS x PATTERN (A B) EMIT TIMEOUTS WITHIN 1 EMIT TIMEOUTS", "a second EMIT", "EMIT>2"),
    ("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B) WITHIN 1 EMIT TIMEOUTS", "come out twice", "EMIT"),
    ("ORDER BY n MEASURES 1 AS timed_out PATTERN (A B) WITHIN 1 EMIT TIMEOUTS", "another column timed_out", "EMIT"),
    # -- variables
    ("MEASURES 1 AS x PATTERN (A) DEFINE B AS TRUE", "B, which is not in the pattern", "B AS"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS TRUE, a AS TRUE", "two conditions of a", "a AS"),
    ("MEASURES 1 AS x PATTERN (A) SUBSET U = (A), U = (A)", "subset U twice", "U = (A)>2"),
    ("MEASURES 1 AS x PATTERN (A) SUBSET A = (A)", "which is a variable", "A = "),
    ("MEASURES 1 AS x PATTERN (A) SUBSET U = (A, B)", "no variable of the pattern", "B)"),
    ("MEASURES 1 AS x PATTERN (A) SUBSET U = (A) DEFINE U AS TRUE", "a subset, which has no condition", "U AS"),
    ("MEASURES 1 AS x AFTER MATCH SKIP TO B PATTERN (A)", "SKIP TO B, which is no variable", "B PATTERN"),
    ("MEASURES B.price AS x PATTERN (A)", "neither a variable nor a column 'B'", "B.price"),
    ("MEASURES last(B.price) AS x PATTERN (A)", "neither a variable nor a column 'B'", "B.price"),
    ("MEASURES CLASSIFIER(B) AS x PATTERN (A)", "no variable 'B'", "B)"),
    ("MEASURES count(B.*) AS x PATTERN (A)", "no variable 'B'", "B.*"),
    ("MEASURES A AS x PATTERN (A)", "variable A without a column", "A AS x"),
    ("MEASURES A.volume AS x PATTERN (A)", "no column 'volume'", "A.volume"),
    ("MEASURES volume AS x PATTERN (A)", "no column 'volume'", "volume"),
    ("MEASURES t.price AS x PATTERN (A)", "neither a variable nor a column 't'", "t.price"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS prize > 1", "did you mean 'price'", "prize"),
    ("MEASURES 1 AS x, 2 AS X PATTERN (A)", "two measures X", "2 AS X"),
    ("PARTITION BY g MEASURES 1 AS g PATTERN (A)", "measure g, which is a column of the partition", "1 AS g"),
    ("ORDER BY n MEASURES 1 AS price ALL ROWS PER MATCH PATTERN (A)", "a column of the input", "1 AS price"),
    ("ORDER BY n PATTERN (A)", "no column comes out", "MATCH_RECOGNIZE"),
    # -- RUNNING, FINAL and navigation
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS FINAL LAST(price) > 1", "FINAL in DEFINE", "LAST"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS FINAL sum(price) > 1", "FINAL in DEFINE", "sum"),
    ("MEASURES FINAL PREV(price) AS x PATTERN (A)", "found FINAL before PREV", "PREV"),
    ("MEASURES RUNNING MATCH_NUMBER() AS x PATTERN (A)", "RUNNING before MATCH_NUMBER", "MATCH_NUMBER"),
    ("MEASURES FINAL abs(price) AS x PATTERN (A)", "FINAL before abs", "abs"),
    ("MEASURES sum(FINAL abs(price)) AS x PATTERN (A)", "FINAL before abs", "abs"),
    ("MEASURES FIRST(PREV(price)) AS x PATTERN (A)", "PREV inside of FIRST()", "PREV"),
    ("MEASURES PREV(NEXT(price)) AS x PATTERN (A)", "NEXT inside of PREV()", "NEXT"),
    ("MEASURES LAST(FIRST(price)) AS x PATTERN (A)", "FIRST inside of LAST()", "FIRST"),
    ("MEASURES PREV(1 + LAST(price)) AS x PATTERN (A)", "may only be the whole argument", "LAST"),
    ("MEASURES LAST(A.price + B.price) AS x PATTERN (A B)", "columns of A and B", "LAST"),
    ("MEASURES LAST(A.price + price) AS x PATTERN (A B)", "columns of A and all rows", "LAST"),
    ("MEASURES LAST(A.s || CLASSIFIER(B)) AS x PATTERN (A B)", "columns of A and B", "LAST"),
    ("MEASURES LAST(1) AS x PATTERN (A)", "LAST of no column", "LAST"),
    ("MEASURES LAST() AS x PATTERN (A)", "0 arguments", "LAST"),
    ("MEASURES LAST(price, 1, 2) AS x PATTERN (A)", "3 arguments", "LAST"),
    ("MEASURES LAST(price, -1) AS x PATTERN (A)", "a whole number that is not negative", "-1"),
    ("MEASURES LAST(price, 1.5) AS x PATTERN (A)", "a whole number", "1.5"),
    ("MEASURES LAST(price, n) AS x PATTERN (A)", "a whole number", "n)"),
    ("MEASURES PREV(price, 'a') AS x PATTERN (A)", "a whole number", "'a'"),
    ("MEASURES LAST(sum(price)) AS x PATTERN (A)", "the aggregate sum inside of LAST()", "sum"),
    ("MEASURES LAST(MATCH_NUMBER()) AS x PATTERN (A)", "LAST of no column", "LAST"),
    ("MEASURES LAST(n + FINAL MATCH_NUMBER()) AS x PATTERN (A)", "FINAL before MATCH_NUMBER", "MATCH_NUMBER"),
    ("MEASURES 1 AS x ALL MATCHES PATTERN (A) DEFINE A AS LAST(n + MATCH_NUMBER()) < 3", "ALL MATCHES", "LAST"),
    ("MEASURES 1 AS x ALL MATCHES PATTERN (A) DEFINE A AS sum(MATCH_NUMBER()) < 3", "ALL MATCHES", "sum"),
    ("MEASURES LAST(price ORDER BY n) AS x PATTERN (A)", "ORDER BY in LAST", "LAST"),
    ("MEASURES FIRST(DISTINCT price) AS x PATTERN (A)", "DISTINCT", "FIRST"),
    ("MEASURES CLASSIFIER(A.price) AS x PATTERN (A)", "CLASSIFIER of one variable", "CLASSIFIER"),
    ("MEASURES MATCH_NUMBER(1) AS x PATTERN (A)", "MATCH_NUMBER with an argument", "MATCH_NUMBER"),
    (
        "MEASURES 1 AS x ALL MATCHES PATTERN (A) DEFINE A AS MATCH_NUMBER() < 3",
        "together with ALL MATCHES",
        "MATCH_NUMBER",
    ),
    # -- aggregates and others
    ("MEASURES sum(A.price + B.price) AS x PATTERN (A B)", "columns of A and B", "sum"),
    ("MEASURES sum(A.price) FILTER (WHERE B.price > 1) AS x PATTERN (A B)", "columns of A and B", "sum"),
    ("MEASURES sum(avg(price)) AS x PATTERN (A)", "the aggregate avg inside", "avg"),
    ("MEASURES sum(PREV(price)) AS x PATTERN (A)", "PREV inside of the aggregate sum", "PREV"),
    ("MEASURES sum(A.*) AS x PATTERN (A)", "found * in a row pattern", "A.*"),
    ("MEASURES count(DISTINCT A.*) AS x PATTERN (A)", "count(DISTINCT *)", "A.*"),
    ("MEASURES * AS x PATTERN (A)", "found * in a row pattern", "*"),
    ("MEASURES (SELECT 1) AS x PATTERN (A)", "found a query inside", "(SELECT"),
    ("MEASURES sum(price) OVER () AS x PATTERN (A)", "found a window function", "sum"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS EXISTS (SELECT 1)", "found a query inside", "EXISTS"),
    # -- types
    (
        "MEASURES 1 AS x PATTERN (A) DEFINE A AS price",
        "of type double; expected one that is true or false",
        "A AS price",
    ),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS 'x'", "of type string", "A AS 'x'"),
    ("MEASURES s + price AS x PATTERN (A)", "No function matches", "s + price"),
    ("MEASURES sum(s) AS x PATTERN (A)", "No function matches", "sum"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS ts > n", "Cannot compare", "ts > n"),
    ("MEASURES nonsense(price) AS x PATTERN (A)", "there is no function nonsense", "nonsense"),
    ("MEASURES 1 AS x PATTERN (A) WITHIN 5", "WITHIN without ORDER BY", "5"),
    ("ORDER BY s MEASURES 1 AS x PATTERN (A) WITHIN 5", "of type string; expected a time or an integer", "5"),
    ("ORDER BY price MEASURES 1 AS x PATTERN (A) WITHIN 5", "of type double", "5"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN 5", "expected a length such as", "5"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL 1 MONTH", "of months", "INTERVAL"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL '-1 second'", "below zero", "INTERVAL"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN 'long'", "", "'long'"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL 1 SECOND", "expected an integer", "INTERVAL"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN -1", "expected an integer", "-1"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN n", "something that varies", "n>last"),
    ("PARTITION BY l MEASURES 1 AS x PATTERN (A)", "a key of type list", "l MEASURES"),
    ("ORDER BY r MEASURES 1 AS x PATTERN (A)", "a key of type struct", "r MEASURES"),
    ("MEASURES A.r.a AS x PATTERN (A)", "found r.a, of a column of lists or fields", "A.r.a"),
    ("MEASURES LAST(l) AS x PATTERN (A)", "found l, of a column of lists or fields", "l) AS"),
    ("ORDER BY missing MEASURES 1 AS x PATTERN (A)", "missing", "missing"),
    ("PARTITION BY missing MEASURES 1 AS x PATTERN (A)", "missing", "missing"),
]


@pytest.mark.parametrize(("clause", "message", "place"), CASES, ids=[each[0] for each in CASES])
def test_error_is_told_at_its_place(clause: str, message: str, place: str) -> None:
    """What breaks a rule is refused before anything runs."""
    text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause}) AS m"
    if clause == "PATTERN (A":
        text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause}"
    with pytest.raises(SqlError) as caught:
        tidelog.sql(text, tables={"t": TABLE})
    assert message in caught.value.message
    assert caught.value.position is not None
    wanted, _, which = place.partition(">")
    places = [at for at in range(text.index("MATCH_RECOGNIZE"), len(text)) if text.startswith(wanted, at)]
    assert caught.value.position in places[-1:] if which == "last" else caught.value.position in places


def test_names_of_the_input_are_hidden_behind_a_clause() -> None:
    """Only what comes out of the clause can be named behind it."""
    clause = "t AS before MATCH_RECOGNIZE (ORDER BY n MEASURES price AS p PATTERN (A)) AS m"
    assert tidelog.sql(f"SELECT m.p FROM {clause}", tables={"t": TABLE}).fetchall() == [(1.0,)]
    for name in ("before.price", "t.price", "m.price", "price"):
        with pytest.raises(SqlError, match=r'price|before|"t"'):
            tidelog.sql(f"SELECT {name} FROM {clause}", tables={"t": TABLE}).fetchall()


def test_clause_needs_a_table() -> None:
    """It stands behind a table."""
    with pytest.raises(SqlError, match="without a table before it"):
        tidelog.sql("SELECT * FROM MATCH_RECOGNIZE (PATTERN (A))", tables={"t": TABLE})


def test_two_columns_of_one_name_are_refused() -> None:
    """An input whose columns cannot be told apart is none."""
    with pytest.raises(SqlError, match="found two columns 'g'"):
        tidelog.sql(
            "SELECT * FROM (t JOIN t AS o ON t.n = o.n) MATCH_RECOGNIZE (MEASURES 1 AS x PATTERN (A))",
            tables={"t": TABLE},
        )


def test_zone_of_the_statement_is_not_mistaken() -> None:
    """What would be of another zone inside of the clause is refused there; comparisons are the same in any."""
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (MEASURES {} AS x PATTERN (A) DEFINE A AS z < TIMESTAMPTZ '2026-01-01 00:00Z')"
    )
    for inner in ("hour(max(z))", "concat(A.z, 'x')", "CASE WHEN n > 1 THEN z END::VARCHAR", "list_value(z)::VARCHAR"):
        with pytest.raises(SqlError, match="compute in UTC"):
            tidelog.sql(text.format(inner), tables={"t": TABLE}, timezone="Europe/Berlin")
        assert len(tidelog.sql(text.format(inner), tables={"t": TABLE}).fetchall()) == 1
    assert len(tidelog.sql(text.format("max(z)"), tables={"t": TABLE}, timezone="Europe/Berlin").fetchall()) == 1
