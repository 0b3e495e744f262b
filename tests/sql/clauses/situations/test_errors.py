"""Queries about situations that cannot be: what is said, and where."""

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
    (f"PARTITION BY upper(g) {OK} {TAIL}", "found what is no column behind PARTITION BY", "upper"),
    (f"PARTITION BY gg {OK} {TAIL}", "no column 'gg'", "gg"),
    (f"PARTITION BY match_time {OK} {TAIL}", "the time of the match comes out under that name", "match_time"),
    (f"PARTITION BY r {OK} {TAIL}", "struct", "r ORDER"),
    (f"ORDER BY x {OK} {TAIL}", "as time; expected times or integers", "x DEFINE"),
    (f"ORDER BY -n {OK} {TAIL}", "found what is no column behind ORDER BY", "-n"),
    (f"ORDER BY tss {OK} {TAIL}", "there is no column 'tss'", "tss"),
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
    (f"DEFINE A AS b, B AS nosuch(x) {TAIL}", "there is no function nosuch", "nosuch"),
    # -- lengths
    (f"DEFINE A AS b AT LEAST, B AS x > 1 {TAIL}", "expected how long a situation lasts at least", ", B"),
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
        "found | behind a constraint; alternatives stand between",
        "| A",
    ),
    (f"{OK} PATTERN A before B, B after A WITHIN 1h", "found ,; expected the parts", ", B after"),
    (f"{OK} PATTERN A before B AND WITHIN 1h", "found 1h as a relation", "1h"),
    (f"{OK} PATTERN A before B OR B before A WITHIN 1h", "found OR; expected the parts", "OR B"),
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


def test_a_clause_needs_a_table() -> None:
    with pytest.raises(SqlError, match="without a table before it"):
        tidelog.sql("SELECT * FROM SITUATIONS (DEFINE A AS b)", tables={"t": TABLE})


def test_alternatives_by_semicolons_end_a_statement() -> None:
    with pytest.raises(SqlError, match="parted by"):
        tidelog.sql(f"SELECT * FROM t SITUATIONS ({OK} PATTERN A meets; before B WITHIN 1h)", tables={"t": TABLE})


def test_times_that_are_not_the_only_ones_are_to_be_named() -> None:
    table = TABLE.append_column("other", TABLE["ts"])
    with pytest.raises(SqlError, match="2 columns of times, ts, other, in t; name its time by ORDER BY column"):
        tidelog.sql(f"SELECT * FROM t SITUATIONS ({OK} {TAIL})", tables={"t": table})


def test_computations_in_the_zone_of_the_statement_are_refused() -> None:
    table = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "b": [True]})
    text = "SELECT * FROM t DERIVE (DEFINE A AS hour(ts) > 5)"
    assert tidelog.sql(text, tables={"t": table}).fetchall() == []
    with pytest.raises(SqlError, match="situations compute in UTC"):
        tidelog.sql(text, tables={"t": table}, timezone="Europe/Berlin")
