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
        "tm": pa.array([datetime.time(1)]),
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
    ("AFTER MATCH SKIP PATTERN (A)", "found PATTERN behind AFTER MATCH SKIP; expected SKIP PAST", "PATTERN"),
    ("AFTER MATCH SKIP PAST FIRST ROW PATTERN (A)", "expected LAST", "FIRST"),
    ("AFTER MATCH SKIP TO NEXT ROW ALL MATCHES PATTERN (A)", "ALL MATCHES beside AFTER MATCH", "ALL MATCHES"),
    ("ALL MATCHES AFTER MATCH SKIP TO NEXT ROW PATTERN (A)", "AFTER MATCH beside ALL MATCHES", "AFTER"),
    ("INITIAL PATTERN (A)", "patterns of windows", "PATTERN"),
    ("MEASURES 1 AS x PATTERN (A) SKIP", "expected SKIP TILL NEXT or SKIP TILL ANY", "SKIP"),
    ("MEASURES 1 AS x PATTERN (A) SKIP TILL ANY CONTIGUOUS", "a second strategy", "CONTIGUOUS"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN 1 WITHIN 2", "a second WITHIN", "WITHIN 2"),
    ("ORDER BY n MEASURES 1 AS x WITHIN 1 PATTERN (A)", "found WITHIN, which stands right behind PATTERN", "WITHIN"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS n > 1 WITHIN 5", "stands right behind PATTERN", "WITHIN"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS n > 1 SKIP TILL NEXT", "found SKIP, which stands right", "SKIP"),
    ("MEASURES 1 AS x AFTER MATCH PAST LAST ROW PATTERN (A)", "expected SKIP PAST LAST ROW", "PAST"),
    ("MEASURES 1 AS x AFTER MATCH SKIP NEXT ROW PATTERN (A)", "found NEXT behind AFTER MATCH SKIP; expected", "NEXT"),
    ("MEASURES 1 AS x AFTER MATCH SKIP TO FIRST ROW PATTERN (A)", "expected SKIP TO NEXT ROW, or", "ROW PATTERN"),
    ("ORDER BY 1 MEASURES 1 AS x PATTERN (A)", "the same for all rows; expected a column", "1 MEASURES"),
    # -- patterns
    ("PATTERN A", "found A; expected (", "A"),
    ("PATTERN (A", "not closed", "MATCH_RECOGNIZE"),
    ("PATTERN (A | )", "expected a variable, or () for no row", ")"),
    ("PATTERN (| A)", "expected a variable, or ()", "| A"),
    ("PATTERN (A B,)", "found , in a pattern; what comes next stands behind a space", ","),
    ("PATTERN (*)", "found * in a pattern", "*"),
    ("PATTERN (A **)", "behind a quantifier", "*)"),
    ("PATTERN (A+ {2})", "behind a quantifier", "{2}"),
    ("PATTERN (A ???)", "behind a quantifier", "?)"),
    ("PATTERN (A{})", "found }; expected a number", "}"),
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
    ("PATTERN (PERMUTE())", "PERMUTE of no parts", "PERMUTE"),
    ("PATTERN (PERMUTE A B)", "PERMUTE without parts; expected PERMUTE(A, B)", "PERMUTE"),
    ("PATTERN (A PERMUTE(A, B, C, D, E, F, G, H))", "PERMUTE of 8 parts; expected 7 at the most", "PERMUTE"),
    ("PATTERN (A & B)", "found & in a pattern; what holds of one row is one condition", "&"),
    ("PATTERN ((A, B) C)", "stands behind a space, as in A B", ","),
    ("PATTERN (A -> B)", "stands behind a space, as in A B", "-"),
    ("PATTERN (A AND B)", "stands behind a space, as in A B", "AND"),
    ("PATTERN (A OR B)", "one of several is A | B", "OR B"),
    ("PATTERN (A [B C])", "one of several is (A | B)", "[B"),
    ("PATTERN (A !B C)", "as in DEFINE B AS NOT", "!B"),
    ("PATTERN (A NOT B C)", "as in DEFINE B AS NOT", "NOT B"),
    ("PATTERN (A . B)", "any row is a variable without a condition", "."),
    ('MEASURES 1 AS x PATTERN (a "a")', "found variables A and a, which differ in case alone", '"a"'),
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
    ("MEASURES 1 AS x AFTER MATCH SKIP TO FIRST PATTERN (A)", "expected a variable behind it", "FIRST"),
    ("MEASURES 1 AS x AFTER MATCH SKIP TO NEXT PATTERN (A)", "expected SKIP TO NEXT ROW", "NEXT"),
    ("MEASURES CLASSIFIER AS x PATTERN (A)", "did you mean CLASSIFIER()", "CLASSIFIER"),
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
    ("MEASURES RUNNING FINAL LAST(price) AS x PATTERN (A)", "found RUNNING before FINAL", "RUNNING"),
    ("MEASURES FINAL (LAST(price)) AS x PATTERN (A)", "found FINAL before a parenthesis", "FINAL"),
    ("MEASURES FINAL A.price AS x PATTERN (A)", "FINAL before a column; it is said of FIRST", "."),
    ("MEASURES 1 + running price AS x PATTERN (A)", "RUNNING before a column", "price AS x"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS price < lag(price)", "the like of PREV(price)", "lag"),
    ("MEASURES sum(lead(price, 2)) AS x PATTERN (A)", "the like of NEXT(price)", "lead"),
    ("MEASURES row_number() AS x PATTERN (A)", "the like of RUNNING count(*)", "row_number"),
    ("MEASURES FIRST(PREV(price)) AS x PATTERN (A)", "as in PREV(FIRST(price))", "PREV"),
    ("MEASURES PREV(NEXT(price)) AS x PATTERN (A)", "NEXT inside of PREV()", "NEXT"),
    ("MEASURES PREV(PREV(price)) AS x PATTERN (A)", "as in PREV(price, 2)", "PREV(price"),
    ("MEASURES count(A) AS x PATTERN (A)", "count(A.*) for the number of its rows", "A) AS"),
    ("MEASURES match_sequence_number() AS x PATTERN (A)", "write RUNNING count(*)", "match_sequence_number"),
    ("MEASURES listagg(s, ',') WITHIN GROUP (ORDER BY n) AS x PATTERN (A)", "string_agg(x, ',' ORDER BY", "listagg"),
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
    ("MEASURES (SELECT unnest([1, 2])) AS x PATTERN (A)", "a query of more than one row", "(SELECT"),
    ("MEASURES (SELECT n, g FROM t LIMIT 1) AS x PATTERN (A)", "a query of 2 columns", "(SELECT"),
    ("MEASURES (SELECT [1]) AS x PATTERN (A)", "values of type list", "(SELECT"),
    ("MEASURES (SELECT PREV(n) FROM t) AS x PATTERN (A)", "found PREV inside of a query", "PREV"),
    ("MEASURES (SELECT CLASSIFIER()) AS x PATTERN (A)", "found CLASSIFIER inside of a query", "CLASSIFIER"),
    ("MEASURES (SELECT RUNNING max(n) FROM t) AS x PATTERN (A)", "syntax error", "("),
    ("MEASURES sum(price) OVER () AS x PATTERN (A)", "found a window function", "sum"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS n > (SELECT max(1) WHERE A.n > 1)", "sees neither rows", "A.n"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS EXISTS (SELECT 1 WHERE price > 1)", "sees neither rows", "price"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS (n, n) IN (SELECT 1, 2)", "found several values", "(n, n)"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS n IN (FROM range(10001))", "more than 10,000 values", "n IN"),
    ("MEASURES n m AS x PATTERN (A)", "found m behind a measure", "m AS"),
    ("MEASURES 1 AS x PATTERN (A B) DEFINE A AS n > 3 B", "found B behind a condition", "B>last"),
    ("PARTITION BY n AS m MEASURES 1 AS x PATTERN (A)", "found m behind a column to partition by", "m MEASURES"),
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
    ("MEASURES 1 AS x PATTERN (A B) DEFINE A AS n > 1, B AS price = 'y'", "'y' cannot be read as DOUBLE", "price ="),
    ("MEASURES nonsense(price) AS x PATTERN (A)", "there is no function nonsense", "nonsense"),
    ("MEASURES 1 AS x PATTERN (A) WITHIN 5", "WITHIN without ORDER BY", "5"),
    ("ORDER BY s MEASURES 1 AS x PATTERN (A) WITHIN 5", "of type string; expected a time or an integer", "5"),
    ("ORDER BY price MEASURES 1 AS x PATTERN (A) WITHIN 5", "of type double", "5"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN 5", "expected a length such as", "5"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN 5 minutes", "expected WITHIN INTERVAL 5 minutes", "5"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL 1 MONTH", "of months", "INTERVAL"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL '-1 second'", "below zero", "INTERVAL"),
    ("ORDER BY ts MEASURES 1 AS x PATTERN (A) WITHIN 'long'", "", "'long'"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL 1 SECOND", "expected an integer", "INTERVAL"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN -1", "expected an integer", "-1"),
    ("ORDER BY n MEASURES 1 AS x PATTERN (A) WITHIN n", "something that varies", "n>last"),
    ("PARTITION BY l MEASURES 1 AS x PATTERN (A)", "a key of type list", "l MEASURES"),
    ("ORDER BY r MEASURES 1 AS x PATTERN (A)", "a key of type struct", "r MEASURES"),
    ("MEASURES A.s.b AS x PATTERN (A)", "found s.b, a field, in an expression of one row", "A.s.b"),
    ("MEASURES unnest([1, 2]) AS x PATTERN (A)", "unnest, which gives several rows", "unnest"),
    ("MEASURES 1 AS x PATTERN (A) DEFINE A AS n > random()", "another value whenever it is asked", "random"),
    ("ORDER BY missing MEASURES 1 AS x PATTERN (A)", "no column 'missing'", "missing"),
    ("PARTITION BY prize MEASURES 1 AS x PATTERN (A)", "no column 'prize'; did you mean 'price'", "prize"),
    ("PARTITION BY g, upper(t.h) MEASURES 1 AS x PATTERN (A)", "h", "t.h"),
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


@pytest.mark.parametrize("word", ["MATCH_RECOGNISE", "MATCHRECOGNIZE"])
def test_misspelled_clause_is_known(word: str) -> None:
    """What was meant is told where DuckDB gives up."""
    with pytest.raises(SqlError, match="did you mean 'MATCH_RECOGNIZE'"):
        tidelog.sql(f"SELECT * FROM t {word} (ORDER BY n MEASURES 1 AS x PATTERN (A))", tables={"t": TABLE})


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


def test_values_without_a_result_are_told_by_the_names_of_columns() -> None:
    """In measures, and in conditions of the row and of the match so far."""
    table = pa.table({"n": [1, 2], "s": ["1", "x"]})
    for inner in (
        "MEASURES s::INT AS x PATTERN (A A)",
        "MEASURES 1 AS x PATTERN (A) DEFINE A AS s::INT > 1",
        "MEASURES 1 AS x PATTERN (A A) DEFINE A AS LAST(s, 0)::INT + count(*) > 0",
    ):
        with pytest.raises(tidelog.TidelogError, match="source column 's'"):
            tidelog.sql(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n {inner})", tables={"t": table}).fetchall()


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
