"""Conditions that no kernel holds: asked row by row, and answered for many rows at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelog
from tidelog.operators.rowpattern.conditions.asking import Answers

LETTERS = "abacbcabbacacbabcbcaabcc"
ROWS = pa.table({"n": range(len(LETTERS)), "s": list(LETTERS)})


def runs(start: int = 0) -> list[int]:
    """How long each run of at most two letters is, the longest from the front, found letter by letter."""
    found = []
    while start < len(LETTERS):
        end = start
        while end < len(LETTERS) and len(set(LETTERS[start : end + 1])) <= 2:
            end += 1
        found.append(end - start)
        start = end
    return found


def chains() -> list[int]:
    """How far each row comes by taking every next row that makes the text longer without a double letter."""
    found = []
    for start in range(len(LETTERS)):
        text = LETTERS[start]
        for letter in LETTERS[start + 1 :]:
            if letter not in text:
                text += letter
        found.append(len(text))
    return found


def test_many_answers_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer takes milliseconds, whether it is one or many."""
    calls = []
    evaluate = Answers._evaluate

    def counted(self: Answers, variable: int, asked: list[object], *others: object) -> object:
        calls.append(len(asked))
        return evaluate(self, variable, asked, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(Answers, "_evaluate", counted)
    text = "SELECT c FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES count(*) AS c {} PATTERN ({}) {} DEFINE {})"
    run = text.format("", "A+", "", "A AS count(DISTINCT s) <= 2")
    assert [c for (c,) in tidelog.sql(run, tables={"t": ROWS}).fetchall()] == runs()
    assert len(calls) < len(runs()) + 5
    calls.clear()
    jump = text.format(
        "AFTER MATCH SKIP TO NEXT ROW", "S A*", "SKIP TILL NEXT", "A AS len(string_agg(s, '')) = count(DISTINCT s)"
    )
    assert [c for (c,) in tidelog.sql(jump, tables={"t": ROWS}).fetchall()] == chains()
    assert len(calls) < 6 * len(LETTERS)


def test_what_nobody_asks_for_is_no_error() -> None:
    """A row that the search does not come to may have no value."""
    table = pa.table({"n": range(5), "s": ["1", "2", "3", "x", "y"]})
    text = """SELECT c FROM t MATCH_RECOGNIZE (
        ORDER BY n MEASURES string_agg(s, '') AS c PATTERN ({}A{{3}}) DEFINE A AS string_agg(s, '')::INT > 0)"""
    assert tidelog.sql(text.format("^"), tables={"t": table}).fetchall() == [("123",)]
    with pytest.raises(tidelog.TidelogError, match="x"):
        tidelog.sql(text.format(""), tables={"t": table}).fetchall()


def test_matches_whose_rows_are_given() -> None:
    """What is searched for once more is of the partition that its rows are of."""
    text = """SELECT a, b FROM t MATCH_RECOGNIZE (
        ORDER BY n MEASURES FIRST(n) AS a, LAST(n) AS b ALL MATCHES PATTERN (A B) SKIP TILL NEXT
        DEFINE A AS s = 'a', B AS s = 'b' AND count(DISTINCT s) = 2)"""
    expected = [
        (at, LETTERS.index("b", at)) for at, letter in enumerate(LETTERS) if letter == "a" and "b" in LETTERS[at:]
    ]
    assert tidelog.sql(text, tables={"t": ROWS}).fetchall() == expected
