"""The language of situations by itself, and its parts as arguments: what they mean, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.situations import columns
from support.situations.queries import random_query, random_rows
from support.situations.written import parts_of
from tidelog.operators.situations.syntax import Mode
from tidelog.sql.errors import SqlError

START = datetime.datetime(2026, 1, 1)
SPEEDS = [0, 20, 40, 60, 80, 80, 60, 40, 20, 0, 0, 50, 50, 0]
RAIN = [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
TABLE = pa.table(
    {
        "ts": pa.array([START + datetime.timedelta(seconds=at) for at in range(len(SPEEDS))], pa.timestamp("us")),
        "car": ["x"] * len(SPEEDS),
        "speed": pa.array(SPEEDS, pa.float64()),
        "rain": pa.array([each == 1 for each in RAIN]),
    }
)
EXPECTED = [("x", 60.0, START + datetime.timedelta(seconds=9))]


@pytest.mark.parametrize("seed", range(300, 312))
def test_random_queries(seed: int) -> None:
    """Texts with either sign between relations, against the definitions."""
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, 40, 12)
    query, kinds, constraints = random_query(dice, rows, Mode.EARLY if seed % 2 else Mode.COMPLETED)
    text = f"FROM readings {parts_of(query, dice, ';' if seed % 3 else '|')}{' ;' if seed % 4 else ''}"
    found = tidelog.situations(pa.Table.from_batches([rows]), text).arrow()
    assert np.array_equal(
        columns.found(found.to_batches(), query), columns.expected(rows, query, kinds, constraints)
    ), text


ARGUMENTS: list[dict[str, Any]] = [
    {"define": {"A": "speed > 30 AT LEAST 2s", "B": "rain"}, "pattern": "A overlaps | during B", "within": "1 minute"},
    {"define": ["A AS speed > 30 AT LEAST 2s", "B AS rain"], "pattern": ["A overlaps B"], "within": "'60 s'"},
    {
        "define": {"A": "speed > 30", "B": "rain"},
        "pattern": ["a OVERLAPS; meets b;", "B overlapped by A"],
        "within": 60_000_000,
    },
    {
        "define": {"A": "speed > 30", "B": "rain"},
        "pattern": "A overlaps B",
        "within": datetime.timedelta(minutes=1),
        "time": "ts",
        "dialect": "thesis",
    },
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_parts_as_arguments(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """They mean the same of a table, and of a stream."""
    more = {"partition_by": "car", "returns": {"v": "avg(A.speed)"}}
    assert tidelog.situations(TABLE, **arguments, **more).fetchall() == EXPECTED
    with tidelog.open(tmp_path) as store:
        store.create_stream("r s", TABLE.schema, "ts").append(TABLE)
        own = {name: value for name, value in arguments.items() if name != "time"}
        assert store.situations("r s", **own, **more).fetchall() == EXPECTED
        assert store.situations("r s", as_of=5, **own, **more).fetchall() == []


def test_comments_in_arguments_end_with_these() -> None:
    found = tidelog.situations(
        TABLE,
        define={"A": "speed > 30 -- fast", "B": "rain -- wet"},
        pattern=["A overlaps B -- one", "A overlaps; meets B -- and another"],
        within="1 minute -- long",
        returns={"top": "max(A.speed) -- in rain", "least": "min(A.speed) -- also"},
    )
    assert found.fetchall() == [(80.0, 40.0, START + datetime.timedelta(seconds=9))]


def test_what_is_computed_may_be_partitioned_by() -> None:
    """A text with parentheses is an expression, any other a name, however strange."""
    of_calls = tidelog.situations(TABLE, **ARGUMENTS[0], partition_by=["upper(car)", "(speed IS NULL)"])
    assert of_calls.columns[:2] == ["upper(car)", "(speed IS NULL)"]
    assert [row[0] for row in of_calls.fetchall()] == ["X"]
    named = TABLE.rename_columns(["a - b" if name == "car" else name for name in TABLE.column_names])
    assert [row[0] for row in tidelog.situations(named, **ARGUMENTS[0], partition_by="a - b").fetchall()] == ["x"]


def test_early_matches_by_arguments() -> None:
    """The detection instant, and which situations go on."""
    found = tidelog.situations(TABLE, **ARGUMENTS[0], partition_by=["car"], returns=["count(B.*) AS n"], mode="early")
    assert found.arrow().to_pylist() == [
        {
            "car": "x",
            "n": 6,
            "match_time": START + datetime.timedelta(seconds=8),
            "A_is_open": False,
            "B_is_open": True,
        }
    ]


def test_situations_alone() -> None:
    """Without a pattern the situations come out, from arguments and from a text."""
    by_arguments = tidelog.situations(
        TABLE, define={"fast": "speed >= 50 AT MOST '3 s'"}, returns={"top": "max(speed)"}
    )
    by_text = tidelog.situations(TABLE, "FROM t DEFINE fast AS speed >= 50 AT MOST 3s RETURN max(speed) AS top;")
    second = datetime.timedelta(seconds=1)
    assert by_arguments.fetchall() == by_text.fetchall() == [("fast", START + 11 * second, START + 13 * second, 50.0)]


def test_the_query_of_the_thesis_means_what_it_does_there() -> None:
    """Its *finishes* is Allen's *finished by*; in its words, and in Allen's."""
    dice = np.random.default_rng(11)
    count = 4000
    accel = np.repeat(dice.choice([10.0, 0.0, -10.0], count // 4), 4)
    rows = pa.table(
        {
            "ts": pa.array(np.arange(count) // 4, pa.int64()).cast(pa.timestamp("s")),
            "car_id": np.tile(np.arange(4), count // 4),
            "accel": accel.reshape(-1, 4).repeat(3, axis=0)[: count // 4].reshape(-1),
            "speed": np.repeat(dice.choice([50.0, 80.0], count // 24 + 1), 24)[:count],
        }
    )
    text = """
        FROM CarSensors PARTITION BY car_id
        DEFINE A AS accel >  8 AT LEAST 2s,             -- sharp acceleration
               B AS speed > 70 BETWEEN 4s AND 30s,      -- speeding
               C AS accel < -9 AT LEAST 2s              -- hard braking
        PATTERN A meets; overlaps; starts; during B
            AND B contains; {}; overlaps; meets C
            AND A before C
        WITHIN 5 minutes
        RETURN first(B.car_id) AS id, avg(B.speed) AS avg_speed {}"""
    of_thesis = tidelog.situations(rows, text.format("finishes", "RELATIONS THESIS")).fetchall()
    of_allen = tidelog.situations(rows, text.format("finished by", "")).fetchall()
    others = tidelog.situations(rows, text.format("finishes", "")).fetchall()
    assert len(of_thesis) > 20
    assert of_thesis == of_allen != others
    assert {(key, speed) for key, id, speed, _ in of_thesis} == {(id, 80.0) for _, id, _, _ in of_thesis}


def test_the_language_is_a_statement() -> None:
    """Also where SQL is read; the relation may be a query."""
    text = (
        "FROM (SELECT ts, car, speed, rain FROM t WHERE speed IS NOT NULL) PARTITION BY car "
        "DEFINE A AS speed > ?, B AS rain PATTERN A overlaps | during B WITHIN $1 RETURN avg(A.speed) AS v"
    ).replace("$1", "?")
    assert tidelog.sql(text, [30, "60 s"], tables={"t": TABLE}).fetchall() == EXPECTED
    plan = tidelog.sql(f"EXPLAIN {text}", [30, "60 s"], tables={"t": TABLE}).fetchall()
    assert plan[0][0].startswith("SITUATIONS")


def test_statements_of_duckdb_that_begin_with_from_are_theirs() -> None:
    define = pa.table({"define": [1], "pattern": [2]})
    assert tidelog.sql("FROM t SELECT define, pattern", tables={"t": define}).fetchall() == [(1, 2)]
    assert tidelog.sql("FROM t situations (a, b) SELECT a", tables={"t": define}).fetchall() == [(1,)]
    assert tidelog.sql("WITH derive (a) AS (SELECT 1) FROM derive", tables={"t": define}).fetchall() == [(1,)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "found neither a query nor define"),
    ({"define": {}}, "found no situations to define"),
    ({"define": 3}, "for define; expected a dict"),
    ({"define": {"A": 3}}, "for A of define; expected a text"),
    ({"define": {"A": "rain"}, "within": "1h"}, "found within without a pattern"),
    ({"define": {"A": "rain"}, "mode": "early"}, "found mode without a pattern"),
    ({"define": {"A": "rain"}, "pattern": "A before B"}, "found a pattern without within"),
    ({"define": {"A": "rain"}, "pattern": [], "within": "1h"}, "found a pattern without constraints"),
    ({"define": {"A": "rain"}, "pattern": " ", "within": "1h"}, "found a pattern without constraints"),
    ({"define": {"A": "rain"}, "pattern": "A before B", "within": True}, "for within"),
    ({"define": {"A": "rain"}, "pattern": "A before B", "within": -datetime.timedelta(1)}, "a length below zero"),
    ({"define": {"A": "rain"}, "pattern": "A before B", "within": 1.5}, "for within"),
    ({"define": {"A": "rain"}, "pattern": "A before B", "within": "1h", "mode": "late"}, "found mode 'late'"),
    ({"define": {"A": "rain"}, "pattern": "A before B", "within": "1h", "dialect": "x"}, "found dialect 'x'"),
    ({"text": "FROM t DEFINE A AS rain", "define": {"A": "rain"}}, "found a query and define"),
    ({"text": "FROM t DEFINE A AS rain", "mode": "early"}, "found a query and mode"),
    ({"text": 5}, "for a query about situations"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_arguments_are_told(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(tidelog.InputError, match=message):
        tidelog.situations(TABLE, **arguments)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT 1", "found no query about situations", "SELECT"),
        ("FROM t DEFINE A AS rain, B AS rain PATTERN A meets; befor B WITHIN 1h", "did you mean 'before'", "befor B"),
        ("FROM t DEFINE A AS rain, B AS rain PATTERN A meets; before C WITHIN 1h", "found C in PATTERN", "C WITHIN"),
        ("FROM t DEFINE A AS rain, B AS rain PATTERN A meets; before B", "found the end", None),
        ("FROM t DEFINE A AS rain, B AS rains PATTERN A before B WITHIN 1h;", "no column 'rains'", "rains"),
        ("FROM (SELECT 1) DEFINE A AS rain", "found FROM without a name", "FROM"),
        ("FROM DEFINE A AS rain", "expected the name of a table", "DEFINE"),
    ],
)
def test_errors_are_told_in_the_text_as_it_was_written(text: str, message: str, place: str | None) -> None:
    with pytest.raises(SqlError) as caught:
        tidelog.situations(TABLE, text)
    assert message in caught.value.message
    assert caught.value.text == text
    assert caught.value.position == (len(text) if place is None else text.index(place))


CLAUSE = (
    "PARTITION BY car DEFINE A AS speed > ? AT LEAST 2s, B AS rain PATTERN A overlaps | during B WITHIN 1m "
    "RETURN avg(A.speed) AS v"
)


@pytest.mark.parametrize(
    "around",
    [
        "SELECT * FROM ({0})",
        "WITH s AS ({0}) SELECT s.* FROM s",
        "SELECT s.* FROM (SELECT 1 AS one) JOIN ({0}) AS s ON true",
        "SELECT * FROM ({0}) WHERE (SELECT count(*) FROM (FROM t DEFINE D AS rain)) = 1",
    ],
)
def test_a_query_in_parentheses(around: str) -> None:
    """It gives the rows that the clause gives, and may have parameters."""
    found = tidelog.sql(around.format(f"FROM t {CLAUSE}"), [30], tables={"t": TABLE})
    assert found.fetchall() == EXPECTED
    assert found.columns == ["car", "v", "match_time"]


def test_situations_of_situations_in_parentheses() -> None:
    text = (
        "FROM (FROM t DEFINE A AS speed > 30, B AS rain) AS s ORDER BY end_time DEFINE P AS situation = 'A', "
        "Q AS situation = 'B' PATTERN P meets Q WITHIN 1h RETURN P.start_time AS s"
    )
    # A ends at 8 and 13, B at 9.
    found = tidelog.sql(text, tables={"t": TABLE}).fetchall()
    assert found == [(START + datetime.timedelta(seconds=8), START + datetime.timedelta(seconds=13))]


@pytest.mark.parametrize(
    ("inside", "message", "place"),
    [
        ("FROM t DEFINE A AS speeds > 30", "no column 'speeds'", "speeds"),
        ("FROM t DEFINE A AS rain, B AS rain PATTERN A befor B WITHIN 1m", "did you mean 'before'?", "befor"),
        ("FROM t DEFINE A AS rain, B AS rain PATTERN A before B", "expected the parts of SITUATIONS", ")"),
    ],
)
def test_what_is_wrong_in_parentheses_is_told_at_its_place(inside: str, message: str, place: str) -> None:
    text = f"SELECT 1 FROM ({inside})"
    with pytest.raises(SqlError) as caught:
        tidelog.sql(text, tables={"t": TABLE})
    assert message in caught.value.message
    assert caught.value.position == text.index(place)


def test_other_queries_that_begin_with_from_are_those_of_sql() -> None:
    text = "SELECT count(*) FROM (FROM t SELECT speed AS define WHERE rain) AS s"
    assert tidelog.sql(text, tables={"t": TABLE}).fetchall() == [(sum(RAIN),)]
