"""Queries about situations that cannot be: what is said, and where."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

TABLE = pa.table(
    {
        "g": pa.array(["a"]),
        "ts": pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us")),
        "n": pa.array([1], pa.int64()),
        "x": pa.array([1.0]),
        "b": pa.array([True]),
        "mode": pa.array([True]),
        "pattern": pa.array([True]),
        "r": pa.array([{"a": 1}]),
        "match_time": pa.array([1]),
        "situation": pa.array(["x"]),
    }
)
OK = "DEFINE A AS b, B AS x > 1"
TAIL = "PATTERN A before B WITHIN 1h"

# A clause, what the message says, and the text that the error points at.
CASES = [
    # -- the parts of the clause
    (f"{OK}", "found the end; expected the parts of SITUATIONS", ")"),
    ("PATTERN A before B WITHIN 1h", "found PATTERN; expected the parts", "PATTERN"),
    (f"{OK} PATTERN A before B", "found the end; expected the parts", ")"),
    (f"{OK} PATTERN A before B", "have to be there; WITHIN is missing here", ")"),
    (OK, "have to be there; PATTERN is missing here", ")"),
    (f"{OK} WITHIN 1h", "found WITHIN; expected the parts", "WITHIN"),
    (f"{OK} RETURN A.duration AS d {TAIL}", "found RETURN; expected the parts", "RETURN"),
    (f"{OK} {TAIL} PATTERN A meets B", "found PATTERN; expected the parts", "PATTERN A meets"),
    (f"{OK} {TAIL} PARTITION BY g", "found PARTITION; expected the parts", "PARTITION"),
    (f"PARTITION g {OK} {TAIL}", "found PARTITION; expected the parts", "PARTITION"),
    (f"PARTITION BY {OK} {TAIL}", "expected a column to partition by", "ORDER"),
    (f"PARTITION BY g, {OK} {TAIL}", "expected a column to partition by", "ORDER"),
    (f"ORDER BY {OK} {TAIL}", "expected the column of the time", "DEFINE"),
    (f"{OK} {TAIL} MODE LATE", "found LATE; expected COMPLETED or EARLY", "LATE"),
    (f"{OK} {TAIL} MODE EARLY MODE EARLY", "found a second MODE", "MODE EARLY~2"),
    (f"{OK} {TAIL} RELATIONS", "found the end; expected ALLEN or THESIS", ")"),
    (f"{OK} {TAIL} RELATIONS OTHER", "found OTHER; expected ALLEN or THESIS", "OTHER"),
    # -- keys and the time
    (f"PARTITION BY upper('g') {OK} {TAIL}", "found upper('g') behind PARTITION BY, which is the same", "upper"),
    (f"PARTITION BY max(g) {OK} {TAIL}", "found the aggregate max in PARTITION BY", "max"),
    (f"PARTITION BY upper(gg) {OK} {TAIL}", "no column 'gg'", "gg"),
    (f"PARTITION BY upper(A.g) {OK} {TAIL}", "found A.g, of a situation, in PARTITION BY", "A.g"),
    (f"PARTITION BY gg {OK} {TAIL}", "no column 'gg'", "gg"),
    (f"PARTITION BY match_time {OK} {TAIL}", "the time of the match comes out under that name", "match_time"),
    (f"PARTITION BY r {OK} {TAIL}", "struct", "r ORDER"),
    (f"ORDER BY x {OK} {TAIL}", "as time; expected times or integers", "x DEFINE"),
    (f"ORDER BY -n {OK} {TAIL}", "found what is no column behind ORDER BY", "-n"),
    (f"ORDER BY ts DESC {OK} {TAIL}", "found DESC behind ORDER BY; expected the column of the time alone", "DESC"),
    (f"ORDER BY ts, n {OK} {TAIL}", "found , behind ORDER BY; expected the column of the time alone", ", n"),
    (f"ORDER BY tss {OK} {TAIL}", "there is no column 'tss'", "tss"),
    # -- aggregates
    (f"{OK} {TAIL} RETURN count(DISTINCT A.*) AS c", "expected the columns whose values count", "A.*"),
    (f"{OK} {TAIL} RETURN first(A.n ORDER BY B.x) AS c", "over rows of", "first"),
    (f"{OK} {TAIL} RETURN median(A.n + random()) AS c", "random is not the same whenever", "median"),
    (f"{OK} {TAIL} RETURN product(A.g) AS c", "there is no product(VARCHAR); expected other types", "product"),
    (f"{OK} {TAIL} RETURN len(list(A.n)) AS c", "a computation with list(n) of A, which is of type list", "len"),
    (f"{OK} {TAIL} RETURN second_largest(DISTINCT A.n) AS c", "found DISTINCT in second_largest", "second_l"),
    (f"{OK} {TAIL} RETURN count_if(max(A.n) > 1) AS c", "the aggregate max inside of another one", "max"),
    # -- definitions
    (f"DEFINE b AS {TAIL}", "expected a condition", "PATTERN"),
    (f"DEFINE A b, B AS x > 1 {TAIL}", "found b; expected AS", "b, B"),
    (f"DEFINE 3 AS b {TAIL}", "found 3; expected the name of a situation", "3"),
    (f"DEFINE A AS b, a AS x > 1 {TAIL}", "two definitions of a", "a AS x"),
    (f"DEFINE A AS bb, B AS x > 1 {TAIL}", "no column 'bb'", "bb"),
    (f"DEFINE A AS x + 1, B AS x > 1 {TAIL}", "a condition of A of type double", "x + 1"),
    (f"DEFINE A AS x > g, B AS x > 1 {TAIL}", "a condition of A that cannot be", "x > g"),
    (f"DEFINE A AS x > max(A.x), B AS x > 1 {TAIL}", "the aggregate max in the condition of A", "max"),
    (f"DEFINE A AS b, B AS x > A.x {TAIL}", "found A.x, of a situation, in the condition of B", "A.x"),
    (f"DEFINE A AS b, B AS x > (SELECT 1) {TAIL}", "a query inside of an expression", "(SELECT"),
    (f"DEFINE A AS b, B AS x > lag(x) OVER () {TAIL}", "a window function", "lag"),
    (f"DEFINE A AS b, B AS r.a > 1 {TAIL}", "a part of a column", "r.a"),
    (f"DEFINE A AS b, B AS x > 70 mph {TAIL}", "found mph behind a condition", "mph"),
    (f"DEFINE A AS b, B AS {TAIL}", "expected a condition", "PATTERN"),
    (f"DEFINE A AS b B AS x > 1 {TAIL}", "found B AS without a comma before it", "B AS x"),
    (f"DEFINE A AS b AT LEAST 5 s B AS x > 1 {TAIL}", "found B AS without a comma before it", "B AS x"),
    (f"{OK}, {TAIL}", "found PATTERN; expected a definition, as in A AS", "PATTERN"),
    (f"DEFINE x > 1 AS A, B AS b {TAIL}", "found >; expected AS and the condition for x, as in x AS", ">"),
    (f"DEFINE A AS x > lag(x), B AS b {TAIL}", "found lag, which is about other rows, in the condition of A", "lag"),
    (f"DEFINE A AS x > 1 FOR 5s, B AS b {TAIL}", "found FOR behind a condition; how long it holds is said", "FOR"),
    (f"PARTITION BY g WHERE x > 5 {OK} {TAIL}", "found WHERE; rows are chosen in a query in parentheses", "WHERE"),
    (f"DEFINE A AS b, B AS nosuch(x) {TAIL}", "there is no function nosuch", "nosuch"),
    # -- lengths
    (f"DEFINE A AS b AT LEAST, B AS x > 1 {TAIL}", "expected how long a situation lasts at least", ", B"),
    (f"DEFINE A AS b AT LEAST 5, B AS x > 1 {TAIL}", "of 5 without a unit; expected one, as in 5s", "5,"),
    (f"DEFINE A AS b AT LEAST 5 parsecs, B AS x > 1 {TAIL}", "found the unit parsecs", "parsecs"),
    (f"DEFINE A AS b AT LEAST 5 minuts, B AS x > 1 {TAIL}", "did you mean 'minutes'", "minuts"),
    (f"DEFINE A AS b AT LEAST '1 month', B AS x > 1 {TAIL}", "months", "'1 month'"),
    (f"DEFINE A AS b AT LEAST x, B AS x > 1 {TAIL}", "expected a constant", "x, B"),
    (f"DEFINE A AS b AT LEAST 0.5 us, B AS x > 1 {TAIL}", "not a whole number of microseconds", "0.5"),
    (f"DEFINE A AS b AT LEAST 1.5 ticks, B AS x > 1 {TAIL}", "expected a whole number", "1.5"),
    (f"DEFINE A AS b AT LEAST -INTERVAL 5 SECONDS, B AS x > 1 {TAIL}", "below zero", "-INTERVAL"),
    (f"DEFINE A AS b BETWEEN 9s AND 5s, B AS x > 1 {TAIL}", "expected a longer one at the most", "5s"),
    (f"DEFINE A AS b AT MOST 0s, B AS x > 1 {TAIL}", "expected a longer one at the most", "0s"),
    (f"DEFINE A AS b AT LEAST 5s AT MOST 9s, B AS x > 1 {TAIL}", "found AT behind a bound of the length", "AT MOST"),
    (
        f"DEFINE A AS b AT MOST 5s BETWEEN 9s AND 10s, B AS x > 1 {TAIL}",
        "found BETWEEN behind a bound of the length",
        "BETWEEN",
    ),
    (f"DEFINE A AS b AT LEAST -5s, B AS x > 1 {TAIL}", "found a length below zero; expected how long a sit", "-5s"),
    (f"DEFINE A AS b AT LEAST 1e3 s, B AS x > 1 {TAIL}", "found 1e3 s; expected digits, as in 5 s", "1e3"),
    (f"DEFINE A AS b AT LEAST 5s AND AT MOST 9s, B AS x > 1 {TAIL}", "found AND behind a length; a situation", "AND"),
    (f"{OK} {TAIL} EARLY", "found EARLY behind a length; expected MODE EARLY", "EARLY"),
    (f"{OK} {TAIL} THESIS", "found THESIS behind a length; expected RELATIONS THESIS", "THESIS"),
    (f"{OK} {TAIL} WHERE x > 5", "found WHERE behind a length; rows are chosen in a query in paren", "WHERE"),
    (f"{OK} {TAIL} LIMIT 5", "found LIMIT behind a length; expected a unit, or what SITUATIONS goes on with", "LIMIT"),
    (f"{OK} PATTERN A before B WITHIN one hour", "found one hour; expected how long a match may last, as in", "one"),
    (f"{OK} PATTERN A before B WITHIN 0s", "WITHIN of no length", "WITHIN"),
    (f"{OK} PATTERN A before B WITHIN RETURN A.duration AS d", "expected how long a match may last", "RETURN"),
    (f"{OK} PATTERN A before B WITHIN 999999999 weeks", "found WITHIN", "999999999"),
    # -- patterns
    (f"{OK} PATTERN WITHIN 1h", "found PATTERN behind a condition", "PATTERN"),
    (f"{OK} PATTERN A WITHIN 1h", "found WITHIN as a relation of situations; expected one of", "WITHIN"),
    (f"{OK} PATTERN A befor B WITHIN 1h", "did you mean 'before'", "befor"),
    (f"{OK} PATTERN A met B WITHIN 1h", "found met; expected met by", "met"),
    (f"{OK} PATTERN A before | B WITHIN 1h", "found B as a relation", "B WITHIN"),
    (
        f"{OK} PATTERN A before B | A meets B WITHIN 1h",
        "found | behind a constraint; constraints are joined by AND, and alternatives of relations stand between |",
        "| A",
    ),
    (
        f"{OK} PATTERN A before B, B after A WITHIN 1h",
        "found , behind a constraint; constraints are joined by AND",
        ", B after",
    ),
    (f"{OK} PATTERN A before B AND WITHIN 1h", "found 1h as a relation", "1h"),
    (
        f"{OK} PATTERN A before B OR B before A WITHIN 1h",
        "found OR behind a constraint; constraints are joined by AND",
        "OR B",
    ),
    (f"{OK} PATTERN A before, meets B WITHIN 1h", "found , behind before; alternatives of relations", ", meets"),
    (f"{OK} PATTERN A before or meets B WITHIN 1h", "found or behind before; alternatives of relations", "or meets"),
    (f"{OK} PATTERN A starts before B WITHIN 1h", "found before behind starts; alternatives of relations", "before"),
    (f"{OK} PATTERN A overlaps with B WITHIN 1h", "found with behind overlaps; expected the name of a situ", "with"),
    (f"{OK} PATTERN A before B meets A WITHIN 1h", "found meets behind a constraint, which is about two", "meets"),
    (f"{OK} PATTERN (A before B) WITHIN 1h", "found ( in a pattern; expected constraints without paren", "(A bef"),
    (f"{OK} PATTERN NOT A before B WITHIN 1h", "found NOT in a pattern; expected constraints without paren", "NOT"),
    (f"{OK} PATTERN A before C WITHIN 1h", "found C in PATTERN, which is not defined", "C WITHIN"),
    (f"{OK} PATTERN C before A WITHIN 1h", "found C in PATTERN, which is not defined", "C before"),
    (f"{OK} PATTERN A before a WITHIN 1h", "a relation of A to itself", "a WITHIN"),
    (f"{OK} PATTERN A before B AND B before A WITHIN 1h", "cannot hold together: after, and before", "B before A"),
    (f"{OK}, C AS b {TAIL}", "no constraints that bind C", "C AS b"),
    (
        f"{OK}, C AS b, D AS b PATTERN A before B AND C before D WITHIN 1h",
        "no constraints that bind C",
        "C AS b",
    ),
    (
        f"{OK}, C AS b PATTERN A before B AND B before C AND A after C WITHIN 1h",
        "a pattern that nothing can fulfil",
        "A after C",
    ),
    ("DEFINE A AS b PATTERN A before A WITHIN 1h", "a relation of A to itself", "A WITHIN"),
    # -- what is returned
    (f"{OK} {TAIL} RETURN avg(A.x)", "without a name; expected AS", ")"),
    (f"{OK} {TAIL} RETURN *", "found * behind RETURN; expected columns one by one", "*"),
    (f"{OK} {TAIL} RETURN A.*", "found * behind RETURN; expected columns one by one", "*"),
    (f"{OK} {TAIL} RETURN count(A) AS n", "found situation A in an aggregate; expected a column of it", "A) AS n"),
    (f"{OK} {TAIL} RETURN A.duration > 5s AS v", "a length of time is an interval there, as in INTERVAL", "5s"),
    (
        f"PARTITION BY g AS h {OK} {TAIL}",
        "found h behind a column to partition by, where nothing has a name",
        "h ORDER",
    ),
    (f"{OK} {TAIL} RETURN avg(A.x) MODE EARLY", "without a name; expected AS", "MODE"),
    (f"{OK} {TAIL} RETURN AS v", "expected what is returned", "AS v"),
    (f"{OK} {TAIL} RETURN avg(A.x) AS v, avg(B.x) AS V", "found column V, which is a column", "avg(B.x)"),
    (f"PARTITION BY g {OK} {TAIL} RETURN avg(A.x) AS g", "a column of the partition", "avg"),
    (f"{OK} {TAIL} RETURN avg(A.x) AS match_time", "the time of the match", "avg"),
    (f"{OK} {TAIL} RETURN avg(A.x) AS a_is_open MODE EARLY", "whether A goes on", "avg"),
    (f"{OK} {TAIL} RETURN avg(C.x) AS v", "there is no situation 'C'", "C.x"),
    (f"{OK} {TAIL} RETURN avg(x) AS v", "found x of no situation in an aggregate", "x) AS"),
    (f"{OK} {TAIL} RETURN avg(A.xx) AS v", "no column 'xx'", "A.xx"),
    (f"{OK} {TAIL} RETURN sum(A.x + B.x) AS v", "over rows of A and of B", "sum"),
    (f"{OK} {TAIL} RETURN sum(max(A.x)) AS v", "the aggregate max inside of another one", "max"),
    (f"{OK} {TAIL} RETURN count(*) AS v", "found count(*) of no situation", "count"),
    (f"{OK} {TAIL} RETURN count(C.*) AS v", "there is no situation 'C'", "C.*"),
    (f"{OK} {TAIL} RETURN sum(1) AS v", "found sum of no situation", "sum"),
    (f"{OK} {TAIL} RETURN A.x AS v", "without an aggregate, and situation A has many rows", "A.x"),
    (f"{OK} {TAIL} RETURN A.middle AS v", "situation A has no middle", "A.middle"),
    (f"{OK} {TAIL} RETURN x AS v", "found column x without an aggregate", "x AS v"),
    (f"{OK} {TAIL} RETURN A AS v", "found situation A by itself", "A AS v"),
    (f"{OK} {TAIL} RETURN C.start_time AS v", "there is no situation 'C'", "C.start"),
    (f"PARTITION BY g {OK} {TAIL} RETURN g AS v", "it comes out by itself", "g AS v"),
    (f"{OK} {TAIL} RETURN 1 + 1 AS v", "about no situation", "1 + 1"),
    (f"{OK} {TAIL} RETURN avg(A.g) AS v", "avg", "avg"),
    (f"{OK} {TAIL} RETURN sum(A.x) OVER () AS v", "a window function", "sum"),
    (f"{OK} {TAIL} RETURN (SELECT 1) + sum(A.x) AS v", "a query inside of an expression", "(SELECT"),
]

DERIVED = [
    (f"{OK} {TAIL}", "found PATTERN; expected the parts of DERIVE", "PATTERN"),
    (f"{OK} MODE EARLY", "found MODE; expected the parts of DERIVE", "MODE"),
    (f"{OK} RETURN avg(A.x) AS v", "of a situation, in RETURN of DERIVE", "A.x"),
    (f"{OK} RETURN x AS v", "found what is no aggregate", "x AS v"),
    (f"{OK} RETURN avg(x) + 1 AS v", "found what is no aggregate", "avg"),
    (f"{OK} RETURN avg(x) AS situation", "a column of every situation", "avg"),
    (f"{OK} RETURN avg(xx) AS v", "no column 'xx'", "xx"),
    (f"PARTITION BY g, situation {OK}", "a column of every situation comes out under that name", "situation"),
    ("DEFINE A AS b, A AS b", "two definitions of A", "A AS b~2"),
]


def check(word: str, clause: str, message: str, place: str | None) -> None:
    text = f"SELECT * FROM t {word} ({clause})"
    if "ORDER" not in clause:
        text = text.replace("DEFINE", "ORDER BY ts DEFINE", 1) if "DEFINE" in clause else text
    with pytest.raises(SqlError) as caught:
        tidelog.sql(text, tables={"t": TABLE})
    assert message in caught.value.message
    if place is None:
        return
    own, _, number = place.partition("~")
    at = text.rindex(")") if own == ")" else text.index("(")
    for _ in range(0 if own == ")" else int(number or 1)):
        at = text.index(own, at + 1)
    assert caught.value.position == at, str(caught.value)


@pytest.mark.parametrize(("clause", "message", "place"), CASES)
def test_what_cannot_be_is_told_at_its_place(clause: str, message: str, place: str | None) -> None:
    check("SITUATIONS", clause, message, place)


@pytest.mark.parametrize(("clause", "message", "place"), DERIVED)
def test_what_cannot_be_of_situations_alone(clause: str, message: str, place: str | None) -> None:
    check("DERIVE", clause, message, place)


def test_columns_may_be_called_as_parts_of_the_clause_begin() -> None:
    """Also where a word could begin the next part."""
    text = "SELECT * FROM t SITUATIONS (DEFINE A AS mode AND pattern, B AS pattern = mode PATTERN A before B WITHIN 1h)"
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == []


def test_a_clock_of_integers_takes_ticks() -> None:
    text = "SELECT * FROM t SITUATIONS (ORDER BY n DEFINE A AS b, B AS x > 1 PATTERN A before B WITHIN {})"
    assert tidelog.sql(text.format("5 ticks"), tables={"t": TABLE}).fetchall() == []
    for length, message in (("5s", "plain integers"), ("'x'", "expected a whole number"), ("0", "at least 1")):
        with pytest.raises(SqlError, match=message):
            tidelog.sql(text.format(length), tables={"t": TABLE})


@pytest.mark.parametrize(
    ("inside", "params", "message", "place"),
    [
        ("DEFINE A AS b, B AS x > 1 PATTERN A before B WITHIN ?", [5], "of 5 without a unit", "?"),
        ("DEFINE A AS b, B AS x > $y PATTERN A before B WITHIN $w", {"y": 1, "w": None}, "length that is null", "$w"),
        ("DEFINE A AS b, B AS x + ? PATTERN A before B WITHIN 1h", [5], "condition of B of type double", "x +"),
        ("DEFINE A AS b, B AS b > ? PATTERN A before B WITHIN 1h", ["zz"], "'zz' cannot be read as BOOLEAN", "b >"),
        ("DEFINE A AS b AT LEAST ?, B AS x > 1 PATTERN A before B WITHIN 1h", ["y"], "string 'y' to INTERVAL", "?,"),
    ],
)
def test_values_of_parameters_are_where_these_stand(inside: str, params: Any, message: str, place: str) -> None:
    text = f"SELECT * FROM t SITUATIONS (ORDER BY ts {inside})"
    with pytest.raises(SqlError, match=message) as caught:
        tidelog.sql(text, params, tables={"t": TABLE})
    assert caught.value.position == text.index(place)


def test_a_clause_needs_a_table() -> None:
    with pytest.raises(SqlError, match="without a table before it"):
        tidelog.sql("SELECT * FROM SITUATIONS (DEFINE A AS b)", tables={"t": TABLE})


@pytest.mark.parametrize("inside", ["MEASURES max(A.x) AS m", "", "A AS b, B AS x > 1"])
def test_a_clause_begins_with_one_of_its_parts(inside: str) -> None:
    for text in (
        f"SELECT * FROM t SITUATIONS ({inside})",
        f"SELECT * FROM t DERIVE (DEFINE C AS b), t SITUATIONS ({inside})",
    ):
        with pytest.raises(
            SqlError, match="expected SITUATIONS to begin with PARTITION BY, ORDER BY or DEFINE"
        ) as caught:
            tidelog.sql(text, tables={"t": TABLE})
        assert caught.value.position == text.index("SITUATIONS (") + len("SITUATIONS (")
    names = "SELECT * FROM (VALUES (1, 2)) AS situations (measures, x)"  # are no clause
    assert tidelog.sql(names).fetchall() == [(1, 2)]


def test_alternatives_by_semicolons_end_a_statement() -> None:
    with pytest.raises(SqlError, match="parted by"):
        tidelog.sql(f"SELECT * FROM t SITUATIONS ({OK} PATTERN A meets; before B WITHIN 1h)", tables={"t": TABLE})
    with pytest.raises(SqlError, match=r"A semicolon ends the statement: alternatives .* stand between \|"):
        tidelog.sql(f"FROM t ORDER BY ts {OK} PATTERN A meets; before B WITHIN 1h", tables={"t": TABLE})


def test_times_that_are_not_the_only_ones_are_to_be_named() -> None:
    table = TABLE.append_column("other", TABLE["ts"])
    with pytest.raises(SqlError, match="2 columns of times, ts, other, in t; name its time by ORDER BY column"):
        tidelog.sql(f"SELECT * FROM t SITUATIONS ({OK} {TAIL})", tables={"t": table})


def test_computations_in_the_zone_of_the_statement_are_refused() -> None:
    table = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "b": [True]})
    text = "SELECT * FROM t DERIVE (DEFINE A AS hour(ts) > 5)"
    assert tidelog.sql(text, tables={"t": table}).fetchall() == []
    for wrong in (text, "SELECT * FROM t DERIVE (DEFINE A AS b RETURN max(hour(ts)) AS latest)"):
        with pytest.raises(SqlError, match="situations compute in UTC"):
            tidelog.sql(wrong, tables={"t": table}, timezone="Europe/Berlin")


@pytest.mark.parametrize(
    "clause",
    [
        "SITUATIONS (ORDER BY n DEFINE A AS y = 1, B AS y = 2 PATTERN A before B WITHIN 5 ticks)",
        "DERIVE (ORDER BY n DEFINE A AS y = 1)",
        "MATCH_RECOGNIZE (ORDER BY n MEASURES first(A.n) AS f PATTERN (A) DEFINE A AS y = 1)",
        "DERIVE (ORDER BY n DEFINE A AS y = 1) DERIVE (ORDER BY start_time DEFINE B AS true)",
    ],
)
def test_what_the_input_of_a_clause_cannot_compute_is_told_at_its_place(clause: str) -> None:
    text = f"SELECT * FROM (SELECT n, CAST(g AS INTEGER) AS y FROM t) {clause}"
    with pytest.raises(SqlError, match="'a' to INT32") as caught:
        tidelog.sql(text, tables={"t": TABLE}).fetchall()
    assert caught.value.position == text.index("CAST")
